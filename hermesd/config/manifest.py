"""A plugin's manifest: `plugin.yaml` of a folder, or what stands for it in a single file.

Manifests come from whoever wrote the plugin: nothing is interpolated, nothing is followed, and every fault is
listed at its place, so that the author fixes all of them at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, cast

from hermesd.config.document import Document, read_document
from hermesd.config.effective import dotted
from hermesd.config.fault import printable
from hermesd.config.kind import PathParts, describe
from hermesd.config.permission import NO_PERMISSIONS, Permissions, build_permissions, permission_faults
from hermesd.errors import PluginError, Rejection
from hermesd.model.definition import SEMVER
from hermesd.model.name import nearest, plugin_name_fault
from hermesd.model.schema import Schema, SchemaFault
from hermesd.version import __version__

API = 1
MAX_FAULTS = 50
MAX_ENTRIES = 1000

_VERSION_LINE = re.compile(
    r"""^__version__[ \t]*(?::[ \t]*[\w.\[\]]+[ \t]*)?=[ \t]*(['"])([^'"\\\n]*)\1""", re.MULTILINE
)
_RESOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,127}\Z")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a plugin says about itself. Nothing in it decides where its code runs.

    `entry` is a relative path that ends in .py, or "" for a plugin of declarative tools alone. `settings` is
    a JSON schema that compiles, or None. `tools` are raw definitions. `exclusive` names resources, such as a
    fixed port, that two instances cannot hold at once.
    """

    name: str
    version: str
    requires_hermesd: str = ""
    api: int = API
    entry: str = ""
    requirements: tuple[str, ...] = ()
    settings: Mapping[str, object] | None = None
    permissions: Permissions = field(default_factory=Permissions)
    tools: tuple[Mapping[str, object], ...] | None = None
    exclusive: tuple[str, ...] = ()


def read_manifest(data: bytes, file: str) -> Manifest:
    """Read and check a whole manifest. Raises PluginError with every fault at its place."""
    document = read_document(data, file, name=_label(file), error=PluginError)
    raw = document.value
    if not isinstance(raw, dict):
        reason = (
            "the manifest is empty"
            if raw is None
            else f"a manifest is a mapping of keys, not {describe(raw)}"
        )
        raise PluginError([Rejection(_label(file), reason, "write name:, version: and entry:", file, 1, 1)])
    faults = _Faults(document, file, raw)
    for key, value in raw.items():
        reader = _READERS.get(key)
        if reader is None:
            faults.unknown(key)
        elif value is not None:
            reader(value, faults)
    _required(raw, faults)
    faults.raise_any()
    return _build(raw)


def python_manifest(path: str, source: bytes) -> Manifest:
    """What stands for the manifest of a single .py: its stem and its `__version__`. Raises PluginError.

    `__version__` counts when it is a plain text assigned at the start of a line; without one it is 0.0.0. The
    code is neither run nor parsed here: its faults belong to whoever loads it.
    """
    file = PurePosixPath(path)
    text = source.decode("utf-8", "replace")
    match = _VERSION_LINE.search(text)
    version = match.group(2) if match else "0.0.0"
    faults = []
    if (problem := plugin_name_fault(file.stem)) is not None:
        faults.append(Rejection(file.stem, f"the file's name: {problem}", "rename the file", path))
    if match is not None and SEMVER.match(version) is None:
        line = text.count("\n", 0, match.start()) + 1
        reason = f"__version__: {version[:40]!r} is no semantic version"
        faults.append(Rejection(file.stem, reason, "write three numbers, such as 1.2.0", path, line, 1))
    if faults:
        raise PluginError(faults)
    return Manifest(name=file.stem, version=version, entry=file.name)


class _Faults:
    """The faults of one manifest. Places are looked up only when there is one."""

    def __init__(self, document: Document, file: str, raw: Mapping[str, object]) -> None:
        self._document = document
        self._file = file
        name = raw.get("name")
        self._name = name if isinstance(name, str) and plugin_name_fault(name) is None else _label(file)
        self._found: list[Rejection] = []

    def add(self, path: PathParts, problem: str, remedy: str) -> None:
        if len(self._found) <= MAX_FAULTS:
            line, column = self._document.place(path)
            reason = printable(f"{dotted(path)}: {problem}" if path else problem)
            self._found.append(Rejection(self._name, reason, remedy, self._file, line, column))

    def unknown(self, key: str) -> None:
        if len(self._found) <= MAX_FAULTS:
            near = nearest(key, _READERS, 1) if len(key) <= 100 else []
            remedy = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(_READERS)}"
            self.add((key,), "is no key of a manifest", remedy)

    def expected(self, path: PathParts, what: str, value: object) -> None:
        quote = isinstance(value, int | float) and "text" in what
        remedy = "put it in quotes, just as it is written" if quote else f"write {what}"
        self.add(path, f"expected {what}, got {describe(value)}", remedy)

    def raise_any(self) -> None:
        if self._found:
            raise PluginError(self._found)


def _read_name(value: object, faults: _Faults) -> None:
    if not isinstance(value, str):
        faults.expected(("name",), "a text", value)
    elif (problem := plugin_name_fault(value)) is not None:
        faults.add(("name",), problem, "choose another name")


def _read_version(value: object, faults: _Faults) -> None:
    if not isinstance(value, str):
        faults.expected(("version",), "a text such as 1.2.0", value)
    elif SEMVER.match(value) is None:
        faults.add(
            ("version",), f"{value[:40]!r} is no semantic version", "write three numbers, such as 1.2.0"
        )


def _read_requires(value: object, faults: _Faults) -> None:
    if not isinstance(value, str):
        faults.expected(("requires_hermesd",), "a text such as '>=0.1'", value)
        return
    accepted = _accepts_this_build(value)
    if accepted is None:
        faults.add(
            ("requires_hermesd",), f"{value[:40]!r} is no version specifier", 'write for example ">=0.1"'
        )
    elif not accepted:
        problem = f"asks for hermesd {value[:40]}; this is {__version__}"
        faults.add(("requires_hermesd",), problem, "use another version of the plugin, or of hermesd")


@lru_cache(maxsize=256)
def _accepts_this_build(specifier: str) -> bool | None:
    """Whether this build is within the specifier; None when it is none."""
    if len(specifier) > 200:
        return None
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 - few manifests need it

    try:
        return SpecifierSet(specifier).contains(__version__, prereleases=True)
    except InvalidSpecifier:
        return None


def _read_api(value: object, faults: _Faults) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        faults.expected(("api",), "the number 1", value)
    elif value != API:
        problem = f"the plugin is written for api {value}; this build speaks api {API}"
        faults.add(("api",), problem, f"use a version of the plugin for api {API}, or another hermesd")


def _read_entry(value: object, faults: _Faults) -> None:
    if not isinstance(value, str):
        faults.expected(("entry",), "a text such as orders.py", value)
        return
    path = PurePosixPath(value)
    is_inside = not path.is_absolute() and ".." not in path.parts and "\\" not in value
    if not is_inside or any(ord(each) < 32 for each in value):
        faults.add(("entry",), f"{value[:100]!r} leads out of the plugin's folder", "name a file inside it")
    elif path.suffix != ".py" or value.endswith("/"):
        faults.add(("entry",), f"{value[:100]!r} is no Python file", "name a file that ends in .py")


def _read_requirements(value: object, faults: _Faults) -> None:
    for index, each in _texts("requirements", value, faults):
        problem = _requirement_fault(each)
        if problem is not None:
            faults.add(("requirements", index), problem, "write a name and versions: python-dateutil>=2.9")


@lru_cache(maxsize=1024)
def _requirement_fault(text: str) -> str | None:
    if len(text) > 500:
        return "the requirement is longer than 500 characters"
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - few manifests need it

    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return f"{text[:80]!r} is no requirement"
    return "an address is no requirement; names and versions alone are" if requirement.url else None


def _read_settings(value: object, faults: _Faults) -> None:
    if not isinstance(value, dict):
        faults.expected(("settings",), "a JSON schema", value)
        return
    try:
        Schema.compile(value)
    except SchemaFault as fault:
        path: list[str | int] = ["settings"]
        for part in fault.pointer.split("/")[1:]:
            plain = part.replace("~1", "/").replace("~0", "~")
            path.append(int(plain) if plain.isascii() and plain.isdigit() else plain)
        faults.add(tuple(path), f"is no JSON schema: {fault.reason}", "fix the schema of the settings")


def _read_permissions(value: object, faults: _Faults) -> None:
    for path, problem, remedy in permission_faults(value):
        faults.add(("permissions", *path), problem, remedy)


def _read_tools(value: object, faults: _Faults) -> None:
    if not isinstance(value, list):
        faults.expected(("tools",), "a list of definitions", value)
        return
    if len(value) > MAX_ENTRIES:
        faults.add(("tools",), f"more than {MAX_ENTRIES} tools", "split the plugin")
    seen: dict[str, int] = {}
    for index, each in enumerate(value):
        name = each.get("name") if isinstance(each, dict) else None
        if not isinstance(each, dict):
            faults.expected(("tools", index), "a mapping with a name", each)
        elif not isinstance(name, str):
            faults.expected(("tools", index, "name"), "a text such as orders.query_status", name)
        elif name in seen:
            faults.add(("tools", index), f"the tool {name[:100]!r} stands here twice", "rename one of them")
        else:
            seen[name] = index


def _read_exclusive(value: object, faults: _Faults) -> None:
    for index, each in _texts("exclusive", value, faults):
        if _RESOURCE.match(each) is None:
            problem = f"{each[:80]!r} is no name of a resource"
            faults.add(("exclusive", index), problem, "write for example tcp:8080")


def _texts(key: str, value: object, faults: _Faults) -> list[tuple[int, str]]:
    """The list's texts with their positions; whatever else stands there is a fault."""
    if not isinstance(value, list):
        faults.expected((key,), "a list", value)
        return []
    if len(value) > MAX_ENTRIES:
        faults.add((key,), f"more than {MAX_ENTRIES} entries", "shorten the list")
        return []
    for index, each in enumerate(value):
        if not isinstance(each, str):
            faults.expected((key, index), "a text", each)
    return [(index, each) for index, each in enumerate(value) if isinstance(each, str)]


def _required(raw: Mapping[str, object], faults: _Faults) -> None:
    for key, example in (("name", "name: orders"), ("version", "version: 1.2.0")):
        if raw.get(key) is None:
            faults.add((key,) if key in raw else (), f"{key} is required", f"write {example}")
    if not raw.get("entry") and not raw.get("tools"):
        faults.add((), "one of entry and tools is required", "write entry: and the plugin's .py")


def _build(raw: Mapping[str, Any]) -> Manifest:
    permissions = raw.get("permissions")
    tools = raw.get("tools")
    return Manifest(
        name=raw["name"],
        version=raw["version"],
        requires_hermesd=raw.get("requires_hermesd") or "",
        entry=str(PurePosixPath(raw["entry"])) if raw.get("entry") else "",
        requirements=tuple(raw.get("requirements") or ()),
        settings=cast("Mapping[str, object] | None", raw.get("settings")),
        permissions=build_permissions(permissions) if permissions else NO_PERMISSIONS,
        tools=tuple(tools) if tools is not None else None,
        exclusive=tuple(raw.get("exclusive") or ()),
    )


def _label(file: str) -> str:
    """What a manifest without a readable name is filed under: its folder, or its own stem."""
    path = PurePosixPath(file)
    return path.parent.name or path.stem if path.stem == "plugin" else path.stem


_READERS: Mapping[str, Callable[[object, _Faults], None]] = {
    "name": _read_name,
    "version": _read_version,
    "requires_hermesd": _read_requires,
    "api": _read_api,
    "entry": _read_entry,
    "requirements": _read_requirements,
    "settings": _read_settings,
    "permissions": _read_permissions,
    "tools": _read_tools,
    "exclusive": _read_exclusive,
}
