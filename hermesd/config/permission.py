"""What a plugin asks for and an operator grants: one shape for manifests and for the configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import PurePosixPath
from typing import cast

from hermesd.model.name import nearest

SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
HOST_PORT = re.compile(
    r"(\*|(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]):(\*|[0-9]{1,5})\Z"
)
CALL_GLOB = re.compile(r"[a-z0-9_.*?-]{1,200}\Z")


@dataclass(frozen=True, slots=True)
class Permissions:
    """What lies outside the plugin's own folder; the default is nothing at all.

    `network`: HOST:PORT. `secrets`: names. `read`, `write`: absolute paths. `calls`: globs of tool names.
    `memory_mb` None: the default of the place where it runs.
    """

    network: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    memory_mb: int | None = None

    def as_json(self) -> dict[str, object]:
        """The YAML's own shape, what is empty left out."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if value
        }

    def within(self, granted: Permissions) -> Permissions:
        """What is both asked for and granted. Entries are compared as text, never by what a glob covers."""
        return Permissions(
            network=tuple(each for each in self.network if each in granted.network),
            secrets=tuple(each for each in self.secrets if each in granted.secrets),
            read=tuple(each for each in self.read if each in granted.read),
            write=tuple(each for each in self.write if each in granted.write),
            calls=tuple(each for each in self.calls if each in granted.calls),
            memory_mb=self.memory_mb if granted.memory_mb is None else granted.memory_mb,
        )


NO_PERMISSIONS = Permissions()

#: (path below the permissions, problem, remedy)
PermissionFault = tuple[tuple[str | int, ...], str, str]


def permission_faults(raw: object) -> list[PermissionFault]:
    """Every fault of a raw `permissions` or `grant` mapping; [] when it can be built."""
    if not isinstance(raw, Mapping):
        return [
            (
                (),
                f"expected a mapping of {', '.join(_ENTRY_FAULTS)}, memory_mb",
                "write for example network: [...]",
            )
        ]
    found: list[PermissionFault] = []
    for key, value in raw.items():
        if key in _ENTRY_FAULTS:
            found.extend(_list_faults(key, value))
        elif key == "memory_mb":
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                found.append(
                    (("memory_mb",), "expected a whole number of MiB, at least 1", "write for example 256")
                )
        else:
            near = nearest(str(key), [*_ENTRY_FAULTS, "memory_mb"], 1)
            remedy = f"did you mean {near[0]!r}?" if near else "remove it"
            found.append(((str(key),), f"unknown key {key!r}", remedy))
    return found


def build_permissions(raw: Mapping[str, object]) -> Permissions:
    """The typed value of a mapping that has no faults."""
    lists = {
        key: tuple(str(each) for each in cast("list[object]", raw.get(key) or ())) for key in _ENTRY_FAULTS
    }
    return Permissions(**lists, memory_mb=cast("int | None", raw.get("memory_mb")))


def _list_faults(key: str, value: object) -> list[PermissionFault]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        return [((key,), "expected a list of text", f"write {key}: [...]")]
    found: list[PermissionFault] = []
    for index, entry in enumerate(value):
        if not isinstance(entry, str):
            found.append(((key, index), "expected text", "write it in quotes"))
        elif (fault := _ENTRY_FAULTS[key](entry)) is not None:
            found.append(((key, index), *fault))
    return found


def _network_fault(entry: str) -> tuple[str, str] | None:
    match = HOST_PORT.match(entry)
    port = match.group(4) if match else ""
    if match is None or (port != "*" and not 0 < int(port) < 65536):
        return f"{entry!r} is no HOST:PORT", "write for example api.example.com:443"
    return None


def _secret_fault(entry: str) -> tuple[str, str] | None:
    if SECRET_NAME.match(entry) is None:
        return f"{entry!r} is no name of a secret", "use letters, digits and '_', such as ORDERS_TOKEN"
    return None


def _path_fault(entry: str) -> tuple[str, str] | None:
    path = PurePosixPath(entry)
    if not path.is_absolute() or ".." in path.parts or "\0" in entry:
        return f"{entry!r} is no absolute path without '..'", "write the whole path, such as /data"
    return None


def _call_fault(entry: str) -> tuple[str, str] | None:
    if CALL_GLOB.match(entry) is None:
        return f"{entry!r} is no glob of tool names", "write for example text.* or text.count_words"
    return None


_ENTRY_FAULTS: Mapping[str, Callable[[str], tuple[str, str] | None]] = {
    "network": _network_fault,
    "secrets": _secret_fault,
    "read": _path_fault,
    "write": _path_fault,
    "calls": _call_fault,
}
