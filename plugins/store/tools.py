"""The store tools: JSON items that agents hand to one another by name instead of by value."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from hermesd.plugin import ToolContext, ToolError, tool

from .check import check_value, choose, compile_all
from .item import ItemInfo, Limits, StoreFault, as_text, check_names, part_of
from .shelf import BUSY_S, Put, Shelf

Namespace = Annotated[
    str,
    "group of items, 1 to 64 lower-case letters, digits, '.', '_' or '-', such as research.q4; agree "
    "on one with "
    "whoever reads it; use the task's name when none was given",
]
Key = Annotated[
    str,
    "name of the item within its namespace, any text up to 512 bytes such as report/2026-11 or "
    "季度报告; from the "
    "user, the agent that handed it over, or store.list_items",
]
IfVersion = Annotated[
    int | None,
    "version that the item must have, as a get, put or list told it, so that nobody's change is lost; "
    "0: it must "
    "not exist yet; leave it out to act whatever there is",
]


@dataclass(frozen=True)
class Stored:
    """The item as it is now on disk, and whether it is new."""

    item: ItemInfo
    created: bool


@dataclass(frozen=True)
class Fetched:
    """The item and its value, or the part of it at the pointer."""

    item: ItemInfo
    value: Any


@dataclass(frozen=True)
class ItemPage:
    """Items in the order of namespace and key. `next_page_token` is null on the last page."""

    items: list[ItemInfo]
    next_page_token: str | None


@dataclass(frozen=True)
class Deleted:
    """Whether there was an item to delete."""

    deleted: bool


def hermesd_startup(ctx: Any) -> None:
    """Refuse settings that could only fail at a call. Raises SchemaFault."""
    limits = Limits.of(ctx.settings)
    compile_all(limits.schemas, limits.namespace_schemas)


def hermesd_unavailable(ctx: Any) -> tuple[str, str] | None:
    """Why no call can be served, and the remedy; None when the store's file can be used."""
    try:
        _shelf(ctx, Limits.of(ctx.settings)).check()
    except StoreFault as fault:
        return str(fault), fault.remedy
    return None


@tool(
    name="store.put_item",
    side_effects="write",
    title="Store an item",
    description=(
        "Stores a JSON value under a namespace and key, replacing what was there, and answers its "
        "version. The "
        "value is on disk before the answer and expires after its time."
    ),
    when_to_use="A result is to be handed to another agent or a later turn by name instead of by value.",
    when_not_to_use=(
        "A file for the user is wanted: use files.write_file. A lasting fact about the user: memory."
    ),
    examples=[
        {
            "user_says": "Keep this table for the report writer",
            "arguments": {"namespace": "research.q4", "key": "sales", "value": {"rows": [[1, 2]]}},
        },
        {
            "user_says": "把草稿存起来,一小时后过期",
            "arguments": {"namespace": "drafts", "key": "季度报告", "value": "初稿……", "ttl_s": 3600},
        },
    ],
)
def put_item(
    ctx: ToolContext,
    *,
    namespace: Namespace,
    key: Key,
    value: Annotated[
        Any, "the JSON value: object, array, text, number, true, false or null; your result itself"
    ],
    schema: Annotated[
        str | None,
        "name of a schema of the operator's that the value must fit; leave it out when none was named",
    ] = None,
    ttl_s: Annotated[
        int | None,
        "seconds until the item expires; leave it out for the longest time that the operator allows",
    ] = None,
    if_version: IfVersion = None,
) -> Stored:
    with _answering(ctx) as (limits, shelf):
        check_names(namespace, key)
        _check_if_version(if_version)
        name = choose(schema, namespace, limits.schemas, limits.namespace_schemas)
        text = as_text(value, limits.max_item_bytes)
        if name is not None:
            check_value(name, limits.schemas[name], value)
        item = Put(namespace, key, text, name, _life(ttl_s, limits), if_version)
        return Stored(*shelf.put(item, limits, datetime.now(UTC)))


@tool(
    name="store.get_item",
    side_effects="read",
    idempotent=True,
    retryable=True,
    title="Fetch an item",
    description="Fetches a stored JSON value by namespace and key, or one part of it by a JSON pointer.",
    when_to_use="Another agent or an earlier turn named a stored item.",
    when_not_to_use="The key is not known: use store.list_items.",
    examples=[
        {"user_says": "Use the sales table", "arguments": {"namespace": "research.q4", "key": "sales"}},
        {
            "user_says": "只看第一行",
            "arguments": {"namespace": "research.q4", "key": "sales", "pointer": "/rows/0"},
        },
    ],
)
def get_item(
    ctx: ToolContext,
    *,
    namespace: Namespace,
    key: Key,
    pointer: Annotated[
        str, "JSON pointer to the part that is wanted, such as /rows/0; leave it out for the whole value"
    ] = "",
) -> Fetched:
    with _answering(ctx) as (_, shelf):
        check_names(namespace, key)
        found = shelf.get(namespace, key, datetime.now(UTC))
        if found is None:
            raise StoreFault(
                f"there is no item {namespace}/{key}: it was never stored, was deleted or has expired",
                reason="absent",
                remedy="see store.list_items for the keys that there are",
            )
        item, text = found
        return Fetched(item, part_of(json.loads(text), pointer))


@tool(
    name="store.list_items",
    side_effects="read",
    idempotent=True,
    retryable=True,
    title="List items",
    description=(
        "Lists stored items without their values, with version, size, schema and times, page by page."
    ),
    when_to_use="The key or version of a stored item is not known.",
    when_not_to_use="The key is known: use store.get_item.",
    examples=[
        {"user_says": "What has been stored for the Q4 research?", "arguments": {"namespace": "research.q4"}},
        {"user_says": "列出季度开头的草稿", "arguments": {"namespace": "drafts", "prefix": "季度"}},
    ],
)
def list_items(
    ctx: ToolContext,
    *,
    namespace: Annotated[str | None, "namespace to list; leave it out for all of them"] = None,
    prefix: Annotated[str, "only keys that begin so; leave it out for all"] = "",
    page_size: Annotated[int, "most items to return, 1 to 1000; 100 if left out"] = 100,
    page_token: Annotated[
        str | None, "next_page_token of the page before; leave it out for the first page"
    ] = None,
) -> ItemPage:
    with _answering(ctx) as (_, shelf):
        if namespace is not None:
            check_names(namespace, None)
        if not 1 <= page_size <= 1000:
            raise _invalid(f"page_size must be 1 to 1000, got {page_size}", "page_size")
        after = _place_of(page_token) if page_token else None
        found = shelf.page(namespace, prefix, after, page_size + 1, datetime.now(UTC))
        more = len(found) > page_size
        return ItemPage(found[:page_size], _token_for(found[page_size - 1]) if more else None)


@tool(
    name="store.delete_item",
    side_effects="write",
    idempotent=True,
    title="Delete an item",
    description="Deletes a stored item. Deleting one that does not exist is no error.",
    when_to_use="A stored item is done with, or the user asks for its removal.",
    when_not_to_use="The item only changes: use store.put_item.",
    examples=[
        {"user_says": "Drop the sales table", "arguments": {"namespace": "research.q4", "key": "sales"}},
    ],
)
def delete_item(ctx: ToolContext, *, namespace: Namespace, key: Key, if_version: IfVersion = None) -> Deleted:
    with _answering(ctx) as (_, shelf):
        check_names(namespace, key)
        _check_if_version(if_version)
        return Deleted(shelf.delete(namespace, key, if_version, datetime.now(UTC)))


@contextmanager
def _answering(ctx: ToolContext) -> Iterator[tuple[Limits, Shelf]]:
    """The limits and the shelf of this call; what goes wrong inside the block becomes the tool's error."""
    try:
        limits = Limits.of(ctx.settings)
        yield limits, _shelf(ctx, limits)
    except StoreFault as fault:
        detail: dict[str, object] = {"reason": fault.reason, "remedy": fault.remedy}
        if fault.faults:
            detail["faults"] = fault.faults
        raise ToolError(
            str(fault), code=fault.code, effect="none", retryable=fault.retryable, detail=detail
        ) from None


def _shelf(ctx: Any, limits: Limits) -> Shelf:
    folder = limits.dir or getattr(ctx, "state_dir", None)
    if folder is None:
        raise StoreFault(
            "the store has no folder",
            code="UNAVAILABLE",
            reason="folder",
            remedy="set plugins.settings.store.dir to an absolute path",
        )
    left = getattr(ctx, "remaining_s", None)
    return Shelf(Path(folder), busy_s=BUSY_S if left is None else max(0.0, min(BUSY_S, left - 0.1)))


def _life(ttl_s: int | None, limits: Limits) -> int:
    if ttl_s is None:
        return limits.max_age_s
    if not 1 <= ttl_s <= limits.max_age_s:
        raise _invalid(f"ttl_s must be 1 to {limits.max_age_s}, got {ttl_s}", "ttl_s")
    return ttl_s


def _check_if_version(version: int | None) -> None:
    if version is not None and not 0 <= version < 1 << 63:
        raise _invalid(f"if_version must be 0 or a version, got {version}", "if_version")


def _token_for(item: ItemInfo) -> str:
    return base64.urlsafe_b64encode(f"{item.namespace}\0{item.key}".encode()).decode("ascii")


def _place_of(token: str) -> tuple[str, str]:
    try:
        namespace, _, key = base64.b64decode(token, altchars=b"-_", validate=True).decode().partition("\0")
    except (binascii.Error, ValueError):
        raise _invalid("the page_token is none of ours", "page_token") from None
    return namespace, key


def _invalid(message: str, reason: str) -> StoreFault:
    return StoreFault(message, code="INVALID_ARGUMENT", reason=reason, remedy=f"fix {reason}")
