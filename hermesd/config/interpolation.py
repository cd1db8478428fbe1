"""`${NAME}`, `${NAME:-default}`, `${file:PATH}` in the operator's scalars, after parsing, once.

What is put in is never looked at again, so that a value that happens to hold `${` stays a value. `$${` stands
for `${`. `${env:NAME}` is what other programs write for `${NAME}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from hermesd.config.effective import SECRET_WORDS
from hermesd.config.scalar import AmbiguousScalar, PlainText, resolve
from hermesd.config.text_file import read_bounded, trouble

MAX_FILE_BYTES = 1024 * 1024
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}|\$\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

PathParts = tuple[str | int, ...]


class Expanded(str):
    """A text with references put in. `whole`: it was one reference without quotes and nothing else.

    `variables` are the environment variables it took; `secret`: it must be masked.
    """

    __slots__ = ("secret", "variables", "whole")

    secret: bool
    variables: tuple[str, ...]
    whole: bool

    def settled(self) -> object:
        """What it stands for where no key says the type: read as if written there, else the text."""
        if not self.whole:
            return str(self)
        try:
            value = resolve(str(self))
        except AmbiguousScalar:
            return str(self)
        return str(self) if isinstance(value, str) else value


class ReferenceFault(Exception):  # noqa: N818 - collected with its key and reported as a ConfigError
    """A reference that cannot be followed."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy


class Interpolation:
    """One file's references. `faults` collects (path, problem, remedy); `files` what `${file:…}` read."""

    def __init__(
        self, environ: Mapping[str, str], base: Path, held: Callable[[Path], bytes | None] = lambda _: None
    ) -> None:
        """`held` answers for files whose content was taken before, such as a service's credentials."""
        self._environ = environ
        self._held = held
        self._base = base
        self.faults: list[tuple[PathParts, str, str]] = []
        self.files: list[Path] = []

    def apply(self, value: object, path: PathParts = ()) -> object:
        """A copy of `value` with every reference put in; a text whose reference fails stays as it is."""
        if isinstance(value, dict):
            return {key: self.apply(each, (*path, key)) for key, each in value.items()}
        if isinstance(value, list):
            return [self.apply(each, (*path, index)) for index, each in enumerate(value)]
        if isinstance(value, str) and "${" in value:
            try:
                return self._expand(value)
            except ReferenceFault as fault:
                self.faults.append((path, fault.problem, fault.remedy))
        return value

    def _expand(self, text: str) -> str:
        variables: list[str] = []
        secret = False
        references = 0

        def put(match: re.Match[str]) -> str:
            nonlocal secret, references
            if match.group() == "$${":
                return "${"
            references += 1
            body = match.group(1)
            if body is None:
                raise ReferenceFault("a reference is not closed", "write ${NAME}, or $${ for the text")
            if body.startswith("file:"):
                secret = True
                return self._file(body.removeprefix("file:"))
            name, value = self._variable(body)
            variables.append(name)
            secret = secret or SECRET_WORDS.search(name) is not None
            return value

        expanded = Expanded(_REFERENCE.sub(put, text))
        if not references:
            return str(expanded)
        expanded.secret = secret
        expanded.variables = tuple(variables)
        expanded.whole = isinstance(text, PlainText) and _REFERENCE.fullmatch(text) is not None
        return expanded

    def _variable(self, body: str) -> tuple[str, str]:
        name, has_default, default = body.removeprefix("env:").partition(":-")
        if _NAME.match(name) is None or "${" in default:
            raise ReferenceFault(
                f"${{{body}}} is no reference",
                "write ${NAME}, ${NAME:-default} or ${file:PATH}, or $${ for the text",
            )
        value = self._environ.get(name, "")
        if not _is_text(value):
            raise ReferenceFault(f"the environment variable {name} is no text in UTF-8", f"set {name} anew")
        if value:
            return name, value
        if has_default:
            return name, default
        state = "is empty" if name in self._environ else "is not set"
        raise ReferenceFault(
            f"the environment variable {name} {state}",
            f"set {name}, or give a default: ${{{name}:-…}}",
        )

    def _file(self, name: str) -> str:
        if not name or "\0" in name:
            raise ReferenceFault("${file:} names no file", "write ${file:PATH}")
        path = self._base / name
        try:
            held = self._held(path)
            data = read_bounded(path, MAX_FILE_BYTES) if held is None else held
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            raise ReferenceFault(f"the file {path} is no text in UTF-8", "save it as UTF-8") from None
        except (OSError, ValueError) as error:
            raise ReferenceFault(f"the file {path} {trouble(error)}", "create it, or fix the path") from None
        self.files.append(path)
        text = text.removesuffix("\n").removesuffix("\r")
        if len(data) > MAX_FILE_BYTES or "\0" in text or not text:
            what = "is empty" if not text else "is larger than 1 MiB or binary"
            raise ReferenceFault(f"the file {path} {what}", "put the value into it, as text")
        return text


def _is_text(value: str) -> bool:
    """Bytes that are no UTF-8 arrive from the system as halves of characters."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
