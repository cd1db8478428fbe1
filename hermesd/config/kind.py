"""What a key may hold: each kind reads a raw value into a typed one, or says what is wrong with it."""

from __future__ import annotations

import ipaddress
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from hermesd.config.interpolation import Expanded
from hermesd.config.permission import permission_faults
from hermesd.config.scalar import AmbiguousScalar, resolve
from hermesd.model.rate import rate_fault

PathParts = tuple[str | int, ...]

#: The kernel's sun_path holds 108 bytes, the last of them 0.
MAX_SOCKET_PATH = 107

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
_TRUTH = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


@dataclass(frozen=True, slots=True)
class KeyFault:
    """What is wrong at a path, and what to do. Never quotes a value that could be secret."""

    path: PathParts
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class At:
    """Where a value is being read: its path, where faults go, and what its paths are relative to.

    `base_of` is asked for each path, because the items of a joined list come from several files.
    """

    path: PathParts
    base_of: Callable[[PathParts], Path]
    faults: list[KeyFault] = field(default_factory=list)

    def into(self, part: str | int) -> At:
        return At((*self.path, part), self.base_of, self.faults)

    def wrong(self, problem: str, remedy: str = "") -> None:
        self.faults.append(KeyFault(self.path, problem, remedy))

    def expected(self, what: str, value: object, remedy: str = "") -> None:
        self.wrong(f"expected {what}, got {describe(value)}", remedy or f"write {what}")


class Kind(Protocol):
    """`label` is how the reference calls it. `read` returns the typed value, or None after a fault."""

    @property
    def label(self) -> str: ...

    def read(self, value: object, at: At) -> object: ...


def describe(value: object) -> str:
    """What a value is, without quoting a text."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        text = str(value)
        return f"the number {text if len(text) <= 40 else text[:40] + '…'}"
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, list | tuple) else "a mapping"


def settled(value: object) -> object:
    """A free-form value with its references read as if written there."""
    if isinstance(value, Expanded):
        return value.settled()
    if isinstance(value, Mapping):
        return {key: settled(each) for key, each in value.items()}
    if isinstance(value, list):
        return [settled(each) for each in value]
    return str(value) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class Text:
    """Any text."""

    label: str = "text"

    def read(self, value: object, at: At) -> object:
        if isinstance(value, str):
            return str(value)
        if isinstance(value, int | float):
            at.expected(self.label, value, "put it in quotes, just as it is written")
        else:
            at.expected(self.label, value)
        return None


@dataclass(frozen=True, slots=True)
class Matching:
    """A text of a given form."""

    pattern: re.Pattern[str]
    label: str

    def read(self, value: object, at: At) -> object:
        text = Text(self.label).read(value, at)
        if isinstance(text, str) and self.pattern.match(text) is None:
            at.wrong(f"the text is no {self.label}", f"write {self.label}")
            return None
        return text


DIGEST = Matching(_DIGEST, "digest such as sha256:… with 64 hexadecimal digits")


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words. `folded`: in any letter case."""

    options: tuple[str, ...]
    folded: bool = False

    @property
    def label(self) -> str:
        return " or ".join(self.options)

    def read(self, value: object, at: At) -> object:
        text = str(value).lower() if self.folded and isinstance(value, str) else value
        if isinstance(text, str) and text in self.options:
            return str(text)
        at.expected(f"one of {', '.join(self.options)}", value)
        return None


@dataclass(frozen=True, slots=True)
class Flag:
    label: str = "true or false"

    def read(self, value: object, at: At) -> object:
        if isinstance(value, Expanded) and value.strip().lower() in _TRUTH:
            return _TRUTH[value.strip().lower()]
        if isinstance(value, bool):
            return value
        at.expected(self.label, value)
        return None


@dataclass(frozen=True, slots=True)
class Number:
    """A number within bounds; `whole` numbers have no fraction."""

    minimum: float = 0
    maximum: float = math.inf
    whole: bool = False

    @property
    def label(self) -> str:
        what = "whole number" if self.whole else "number"
        if math.isinf(self.maximum):
            return f"{what}, at least {self.minimum}"
        return f"{what} from {self.minimum} to {self.maximum}"

    def read(self, value: object, at: At) -> object:
        number = _number(value) if isinstance(value, Expanded) else value
        if isinstance(number, bool) or not isinstance(number, int | float):
            at.expected(f"a {self.label}", value)
        elif not self.minimum <= number <= self.maximum or (self.whole and number != int(number)):
            at.expected(f"a {self.label}", number)
        else:
            return int(number) if self.whole else number
        return None


def _number(value: str) -> object:
    try:
        return resolve(value.strip())
    except AmbiguousScalar:
        return None


@dataclass(frozen=True, slots=True)
class FilePath:
    """A path, relative to the file that holds it."""

    label: str = "path"

    def read(self, value: object, at: At) -> object:
        text = Text(self.label).read(value, at)
        return _absolute(text, at) if isinstance(text, str) else None


def _absolute(text: str, at: At) -> Path | None:
    if not text or "\0" in text:
        at.wrong("the path is empty" if not text else "the path holds a NUL character", "write a path")
    elif text.startswith("~"):
        at.wrong("~ is not expanded", "write ${HOME}/… or the whole path")
    else:
        is_absolute = text.startswith("/")
        return Path(os.path.normpath(text if is_absolute else at.base_of(at.path) / text))
    return None


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; an item that stands alone is refused, so that a list always looks like one."""

    item: Kind

    @property
    def label(self) -> str:
        return f"list of {self.item.label}"

    def read(self, value: object, at: At) -> object:
        if not isinstance(value, list | tuple):
            at.expected("a list", value, "write it as [...]")
            return None
        return tuple(self.item.read(each, at.into(index)) for index, each in enumerate(value))


@dataclass(frozen=True, slots=True)
class MapOf:
    """A mapping of any names to one kind."""

    item: Kind

    @property
    def label(self) -> str:
        return f"mapping of names to {self.item.label}"

    def read(self, value: object, at: At) -> object:
        if not isinstance(value, Mapping):
            at.expected("a mapping", value)
            return None
        return {str(key): self.item.read(each, at.into(str(key))) for key, each in value.items()}


@dataclass(frozen=True, slots=True)
class Open:
    """A mapping whose content is checked by whoever it is for."""

    label: str = "mapping"

    def read(self, value: object, at: At) -> object:
        if isinstance(value, Mapping):
            return settled(value)
        at.expected("a mapping", value)
        return None


@dataclass(frozen=True, slots=True)
class Anything:
    label: str = "any value"

    def read(self, value: object, at: At) -> object:
        del at
        return settled(value)


@dataclass(frozen=True, slots=True)
class Either:
    """The first kind that reads the value without a fault; else the last one's faults."""

    kinds: tuple[Kind, ...]

    @property
    def label(self) -> str:
        return ", or ".join(each.label for each in self.kinds)

    def read(self, value: object, at: At) -> object:
        for kind in self.kinds:
            trial = At(at.path, at.base_of)
            read = kind.read(value, trial)
            if not trial.faults:
                return read
        at.expected(self.label, value)
        return None


@dataclass(frozen=True, slots=True)
class Grant:
    """What the operator grants: the shape of a manifest's `permissions`."""

    label: str = "mapping like a manifest's permissions"

    def read(self, value: object, at: At) -> object:
        raw = settled(value)
        faults = permission_faults(raw)
        for path, problem, remedy in faults:
            inner = at
            for part in path:
                inner = inner.into(part)
            inner.wrong(problem, remedy)
        return None if faults else raw


@dataclass(frozen=True, slots=True)
class Rate:
    """How many calls may begin in a span of time, as a tool's `rate_limit` says it; a number: in a second."""

    label: str = "number of calls a second, or mapping such as {calls: 10, per_s: 1}"

    def read(self, value: object, at: At) -> object:
        raw = settled(value)
        if isinstance(raw, int) and not isinstance(raw, bool):
            raw = {"calls": raw}
        if not isinstance(raw, Mapping):
            at.expected(self.label, value)
            return None
        if (fault := rate_fault(raw)) is not None:
            at.wrong(fault, f"write a {self.label}")
            return None
        return {"calls": raw["calls"], "per_s": raw.get("per_s", 1)}


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """`unix:PATH`. Whoever reaches it is the operator, so nothing that a network could reach is taken."""

    label: str = "unix:PATH"

    def read(self, value: object, at: At) -> object:
        text = Text(self.label).read(value, at)
        if not isinstance(text, str):
            return None
        scheme, colon, name = text.partition(":")
        if scheme != "unix" or not colon:
            at.wrong(
                "only unix:PATH may be listened on here: whoever reaches this address is the operator",
                "write unix:PATH; a network address belongs under server.agents_listen",
            )
            return None
        path = _absolute(name.removeprefix("//"), at)
        if path is None:
            return None
        if len(os.fsencode(path)) > MAX_SOCKET_PATH:
            at.wrong(f"the socket's path is longer than {MAX_SOCKET_PATH} bytes", "choose a shorter path")
            return None
        return f"unix:{path}"


@dataclass(frozen=True, slots=True)
class LoopbackAddress:
    """`HOST:PORT` on this machine, or empty for off."""

    label: str = "HOST:PORT on loopback, or empty"

    def read(self, value: object, at: At) -> object:
        text = Text(self.label).read(value, at)
        if not isinstance(text, str) or not text:
            return text
        host, colon, port = text.rpartition(":")
        if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535 or not host:
            at.wrong("the text is no HOST:PORT", "write for example 127.0.0.1:7480")
        elif not _is_loopback(host):
            at.wrong(
                "an address that other machines can reach needs TLS, which this build does not have",
                "write 127.0.0.1:PORT and put a proxy in front of it",
            )
        else:
            return text
        return None


@dataclass(frozen=True, slots=True)
class AgentsAddress:
    """`unix:PATH` or `HOST:PORT`: whoever comes there must show who it is."""

    label: str = "unix:PATH or HOST:PORT"

    def read(self, value: object, at: At) -> object:
        text = Text(self.label).read(value, at)
        if not isinstance(text, str):
            return None
        if text.startswith("unix:"):
            return UnixAddress().read(text, at)
        host, _, port = text.rpartition(":")
        bare = host.removeprefix("[").removesuffix("]")
        if not bare or not port.isascii() or not port.isdigit() or int(port) > 65535:
            at.wrong("the text is neither unix:PATH nor HOST:PORT", "write for example 127.0.0.1:7443")
            return None
        if ":" in bare and host == bare:
            at.wrong("an IPv6 address needs brackets", f"write [{bare}]:{port}")
            return None
        return text

    @staticmethod
    def needs_tls(address: str) -> bool:
        """Whether other machines can reach it."""
        return not address.startswith("unix:") and not _is_loopback(address.rpartition(":")[0])


@dataclass(frozen=True, slots=True)
class Moment:
    """A date, or a date with a time, as ISO 8601 writes them; read as a text in UTC."""

    label: str = "date, or date and time"

    def read(self, value: object, at: At) -> object:
        text = Text(self.label).read(value, at)
        if not isinstance(text, str):
            return None
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError:
            at.wrong("the text is no date", 'write for example 2027-06-30 or "2027-06-30T12:00:00Z"')
            return None
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return aware.astimezone(UTC).isoformat()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Everything:
    """The word true, for all of something."""

    label: str = "true for all"

    def read(self, value: object, at: At) -> object:
        if value is True or (isinstance(value, Expanded) and value.strip().lower() == "true"):
            return True
        at.expected("true", value)
        return None
