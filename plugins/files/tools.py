"""The file tools: read, list, search, write and edit within the folders that the operator configured."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from hermesd.plugin import ToolContext, ToolError, tool

from .content import SAMPLE, Encoding, coding_for
from .editing import replace_exactly
from .fault import FileFault
from .reading import FileContent, read_text_or_bytes
from .root import Limits, Place, reach
from .searching import Query, SearchResult, search
from .walking import DirEntry, Listing, Walk, list_folder
from .writing import Mode, check_digest, current, put, turn

REMEDY = "set plugins.settings.files.roots to the folders that agents may use, then reload"
#: What is left of a call's time for the answer itself.
RESERVE_S = 0.2

FilePath = Annotated[
    str,
    "absolute path below a configured root, or relative to the root when there is only one; from the user, "
    "files.list_dir or files.search_text; when it is not known list the folder first, do not guess",
]
FolderPath = Annotated[
    str,
    "folder, absolute or relative to the only root; '.' is the root itself, or with several roots the "
    "list of "
    "them; from the user or an earlier listing",
]
Glob = Annotated[
    str,
    "glob on the file's name such as *.md; with a slash on the path below the folder, such as "
    "src/*.py, where "
    "* crosses slashes; from the kind of file that is looked for; leave it out for all",
]
Hidden = Annotated[
    bool, "true to include names that begin with a dot; leave it out unless the user wants them"
]
ExpectedDigest = Annotated[
    str | None,
    "the file's sha256 as files.read_file gave it: the change is refused when the file is another by "
    "now, and "
    "'' refuses when there is a file; leave it out only when it does not matter",
]


@dataclass(frozen=True)
class Written:
    """What the file is after the change."""

    path: str
    created: bool
    size: int
    sha256: str


@dataclass(frozen=True)
class Edited:
    """What the file is after the replacements, and the unified diff of them."""

    path: str
    replacements: int
    size: int
    sha256: str
    diff: str
    diff_truncated: bool


def hermesd_unavailable(ctx: Any) -> tuple[str, str] | None:
    """Why no call can be served, and the remedy; None when at least one root can be opened."""
    limits = Limits.of(ctx.settings)
    if not limits.roots:
        return "no root folder is configured", REMEDY
    missing = [root.path for root in limits.roots if not os.path.isdir(root.path)]
    if len(missing) == len(limits.roots):
        return f"no configured root is a folder: {', '.join(missing)}", REMEDY
    return None


@tool(
    name="files.read_file",
    side_effects="read",
    idempotent=True,
    retryable=True,
    title="Read a file",
    description=(
        "Reads lines of a text file, or the bytes of a binary one as base64, within the configured folders. "
        "Recognises UTF-8, UTF-16 and GB18030."
    ),
    when_to_use="The content of a known file is needed. Long files: read on from next_line or next_byte.",
    when_not_to_use="The file must first be found: use files.search_text or files.list_dir.",
    examples=[
        {"user_says": "Show me the README", "arguments": {"path": "README.md"}},
        {
            "user_says": "看看日志的第 200 到 250 行",
            "arguments": {"path": "日志/app.log", "first_line": 200, "max_lines": 51},
        },
    ],
)
def read_file(
    ctx: ToolContext,
    *,
    path: FilePath,
    first_line: Annotated[
        int,
        "first line wanted, from 1; next_line of the call before when reading on; leave it out for the start",
    ] = 1,
    max_lines: Annotated[
        int,
        "most lines to return, 1 to 100000; fewer come when they would exceed max_bytes; 2000 if left out",
    ] = 2000,
    encoding: Annotated[
        Encoding, "how the bytes are text; leave it out to have it recognised, name it when that was wrong"
    ] = "auto",
    first_byte: Annotated[
        int, "for binary files: first byte wanted, from 0; next_byte of the call before when reading on"
    ] = 0,
    binary: Annotated[bool, "true to have the bytes as base64 even if they are text; seldom needed"] = False,
) -> FileContent:
    _check(first_line >= 1, f"first_line counts from 1, got {first_line}")
    _check(1 <= max_lines <= 100_000, f"max_lines must be 1 to 100000, got {max_lines}")
    _check(0 <= first_byte < 1 << 62, f"first_byte counts from 0, got {first_byte}")
    with _answering(ctx) as limits, reach(limits, path) as place:
        return read_text_or_bytes(
            place,
            limits,
            first_line=first_line,
            max_lines=max_lines,
            encoding=encoding,
            first_byte=first_byte,
            force_bytes=binary,
            stop=_stop(ctx),
        )


@tool(
    name="files.list_dir",
    side_effects="read",
    idempotent=True,
    retryable=True,
    title="List a folder",
    description=(
        "Lists the files and folders below a folder, in name order, with sizes and times; links are "
        "named and "
        "not followed."
    ),
    when_to_use="The names in a folder are needed, or a path is not known for certain.",
    when_not_to_use="Files are wanted by what they contain: use files.search_text.",
    examples=[
        {"user_says": "What is in the docs folder?", "arguments": {"path": "docs"}},
        {"user_says": "列出所有 Markdown 文件", "arguments": {"path": ".", "depth": 8, "pattern": "*.md"}},
    ],
)
def list_dir(
    ctx: ToolContext,
    *,
    path: FolderPath = ".",
    depth: Annotated[
        int, "how many levels of folders, 1 to 64; 1 is the folder alone, which is meant if left out"
    ] = 1,
    pattern: Glob = "*",
    include_hidden: Hidden = False,
    max_entries: Annotated[int, "most entries to return, 1 to 5000; 500 if left out"] = 500,
) -> Listing:
    _check(1 <= depth <= 64, f"depth must be 1 to 64, got {depth}")
    _check(1 <= max_entries <= 5000, f"max_entries must be 1 to 5000, got {max_entries}")
    with _answering(ctx) as limits:
        if len(limits.roots) > 1 and path in (".", ""):
            return _roots(limits)
        with reach(limits, path or ".") as place:
            return list_folder(place, _walk(ctx, depth, include_hidden), pattern, max_entries)


@tool(
    name="files.search_text",
    side_effects="read",
    idempotent=True,
    retryable=True,
    timeout_ms=15_000,
    title="Search in files",
    description=(
        "Finds the lines that contain a literal text in the files below a folder; no regular expressions."
    ),
    when_to_use="It must be found where something is written: a word, a name, an error message.",
    when_not_to_use="The file is known and shall be read: use files.read_file.",
    examples=[
        {
            "user_says": "Where is drain_timeout_s documented?",
            "arguments": {"query": "drain_timeout_s", "pattern": "*.md"},
        },
        {"user_says": "哪些文件提到了“热重载”?", "arguments": {"query": "热重载", "context": 1}},
    ],
)
def search_text(
    ctx: ToolContext,
    *,
    query: Annotated[
        str,
        "text to find, letter by letter, within one line, 1 to 1000 characters; from the user; ask "
        "when not given",
    ],
    path: FolderPath = ".",
    ignore_case: Annotated[
        bool, "true when capitals do not matter; leave it out for an exact search"
    ] = False,
    pattern: Glob = "*",
    context: Annotated[int, "lines to add before and after each hit, 0 to 10; 0 if left out"] = 0,
    max_hits: Annotated[int, "most hits to return, 1 to 1000; 100 if left out"] = 100,
    include_hidden: Hidden = False,
) -> SearchResult:
    _check(0 <= context <= 10, f"context must be 0 to 10, got {context}")
    _check(1 <= max_hits <= 1000, f"max_hits must be 1 to 1000, got {max_hits}")
    with _answering(ctx) as limits, reach(limits, path) as place:
        wanted = Query(query, ignore_case, pattern, context, max_hits)
        return search(place, _walk(ctx, 64, include_hidden), wanted, limits.max_file_bytes)


@tool(
    name="files.write_file",
    side_effects="write",
    title="Write a file",
    description=(
        "Creates, replaces or appends to a file within the configured folders. Readers meet the old "
        "content or "
        "the new, never a half."
    ),
    when_to_use="A whole file is to be made or replaced, or text is to be added at its end.",
    when_not_to_use="A part of an existing file changes: use files.edit_file.",
    examples=[
        {"user_says": "Save this as notes.md", "arguments": {"path": "notes.md", "content": "# Notes\n"}},
        {
            "user_says": "在记录末尾加一行",
            "arguments": {"path": "记录.txt", "content": "今天完成了。\n", "mode": "append"},
        },
    ],
)
def write_file(
    ctx: ToolContext,
    *,
    path: FilePath,
    content: Annotated[
        str, "the text to write, or base64 when content_form says so; ask when it was not given"
    ],
    mode: Annotated[
        Mode,
        "create refuses when the file exists (meant if left out), overwrite replaces it or makes it, "
        "append adds at "
        "its end; only overwrite when the user wants the old content gone",
    ] = "create",
    content_form: Annotated[
        Literal["text", "base64"],
        "text is written as UTF-8 (append: in the file's own encoding); base64 for bytes",
    ] = "text",
    expected_sha256: ExpectedDigest = None,
    make_folders: Annotated[
        bool, "true to make missing folders on the way; false refuses, to notice slips"
    ] = False,
) -> Written:
    with _answering(ctx) as limits:
        _check_writable(limits)
        given = _bytes_of(content, content_form)
        if len(given) > limits.max_bytes:
            raise FileFault(
                "INVALID_ARGUMENT", f"the content has {len(given)} bytes; at most {limits.max_bytes}"
            )
        with reach(limits, path, make_folders=make_folders) as place, _turn(ctx, place) as folder:
            before = (
                current(folder, place, limits.max_file_bytes) if mode != "create" or place.status else None
            )
            old = before[0] if before else None
            check_digest(old, expected_sha256, place.shown)
            data = given
            if mode == "append" and old:
                data = old + (_like(old, content) if content_form == "text" else given)
            if len(data) > limits.max_file_bytes:
                raise FileFault("TOOL_ERROR", f"{place.shown} would exceed {limits.max_file_bytes} bytes")
            put(folder, place, data, before[1] if before else None, new=mode == "create")
            return Written(place.shown, before is None, len(data), hashlib.sha256(data).hexdigest())


@tool(
    name="files.edit_file",
    side_effects="write",
    title="Edit a file",
    description=(
        "Replaces an exact text in a file by another and answers the diff. The text must stand in the "
        "file once, "
        "unless replace_all is set. Encoding, line ends and mode are kept."
    ),
    when_to_use="A part of an existing text file changes.",
    when_not_to_use="The whole file is new: use files.write_file.",
    examples=[
        {
            "user_says": "Set the port to 8080",
            "arguments": {"path": "config.ini", "old": "port = 80\n", "new": "port = 8080\n"},
        },
        {
            "user_says": "把所有“测试”改成“验证”",
            "arguments": {"path": "说明.md", "old": "测试", "new": "验证", "replace_all": True},
        },
    ],
)
def edit_file(
    ctx: ToolContext,
    *,
    path: FilePath,
    old: Annotated[
        str,
        "the exact text to replace, blanks and line breaks included, as files.read_file gave it, long "
        "enough to "
        "stand there once; read the file first when it is not known",
    ],
    new: Annotated[str, "what stands there instead; '' removes it; from what the user wants"],
    replace_all: Annotated[
        bool, "true replaces every place; leave it out to be told of several places"
    ] = False,
    expected_sha256: ExpectedDigest = None,
) -> Edited:
    with _answering(ctx) as limits:
        _check_writable(limits)
        with reach(limits, path) as place, _turn(ctx, place) as folder:
            before = current(folder, place, limits.max_file_bytes)
            if before is None:
                raise FileFault("TOOL_ERROR", f"{place.shown} does not exist")
            data, status = before
            check_digest(data, expected_sha256, place.shown)
            coding = coding_for(data[:SAMPLE], "auto")
            if coding is None:
                raise FileFault("TOOL_ERROR", f"{place.shown} is no text file")
            edit = replace_exactly(coding.decode(data), old, new, replace_all=replace_all, shown=place.shown)
            changed = coding.encode(edit.text)
            if len(changed) > limits.max_file_bytes:
                raise FileFault("TOOL_ERROR", f"{place.shown} would exceed {limits.max_file_bytes} bytes")
            put(folder, place, changed, status, new=False)
            digest = hashlib.sha256(changed).hexdigest()
            return Edited(place.shown, edit.count, len(changed), digest, edit.diff, edit.diff_truncated)


@contextmanager
def _answering(ctx: ToolContext) -> Iterator[Limits]:
    """The limits of this call; what goes wrong inside the block becomes the tool's error."""
    try:
        yield Limits.of(ctx.settings)
    except FileFault as fault:
        detail = {"remedy": REMEDY} if fault.code == "UNAVAILABLE" else None
        raise ToolError(
            str(fault),
            code=fault.code,
            effect="done" if fault.changed else "none",
            retryable=fault.retryable,
            detail=detail,
        ) from None


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise ToolError(message, code="INVALID_ARGUMENT", effect="none")


def _check_writable(limits: Limits) -> None:
    if limits.roots and limits.read_only:
        raise FileFault("PERMISSION_DENIED", "the operator set plugins.settings.files.read_only")


def _stop(ctx: ToolContext) -> Callable[[], None]:
    def stop() -> None:
        if ctx.cancelled:
            raise ToolError("the call was cancelled", code="CANCELLED", effect="none")

    return stop


def _walk(ctx: ToolContext, depth: int, include_hidden: bool) -> Walk:
    def late() -> bool:
        left = ctx.remaining_s
        return left is not None and left < RESERVE_S

    return Walk(depth, include_hidden, _stop(ctx), late)


@contextmanager
def _turn(ctx: ToolContext, place: Place) -> Iterator[int]:
    stop = _stop(ctx)

    def pause(seconds: float) -> None:
        ctx.cancelled.wait(seconds)
        stop()

    with turn(place, pause) as folder:
        yield folder


def _bytes_of(content: str, form: Literal["text", "base64"]) -> bytes:
    try:
        return content.encode() if form == "text" else base64.b64decode(content, validate=True)
    except UnicodeEncodeError:
        raise FileFault("INVALID_ARGUMENT", "the content is no valid Unicode text: lone surrogates") from None
    except binascii.Error as error:
        raise FileFault("INVALID_ARGUMENT", f"the content is no base64: {error}") from None


def _like(old: bytes, content: str) -> bytes:
    """`content` in the encoding of the file that it is added to."""
    coding = coding_for(old[:SAMPLE], "auto")
    return content.encode() if coding is None else coding.encode(content)[len(coding.mark) :]


def _roots(limits: Limits) -> Listing:
    entries = []
    unreadable = []
    for root in limits.roots:
        try:
            with reach(limits, root.path) as place:
                status = os.fstat(place.folder)
                entries.append(
                    DirEntry(place.shown, "folder", None, datetime.fromtimestamp(status.st_mtime, UTC), False)
                )
        except FileFault:
            unreadable.append(root.path)
    return Listing(".", entries, None, unreadable)
