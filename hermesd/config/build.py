"""From the checked tree to the typed dataclasses, and what only two keys together can get wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from hermesd.config.configuration import (
    CallLog,
    Configuration,
    Defaults,
    DescriptionChars,
    Limits,
    Plugins,
    RecordsKept,
    Server,
    Telemetry,
    TrustEntry,
    UntrustedEntry,
)
from hermesd.config.kind import KeyFault
from hermesd.config.origin import Origins
from hermesd.config.permission import Permissions, build_permissions
from hermesd.errors import Rejection

Tree = Mapping[str, Any]


def build(
    tree: Tree,
    *,
    warnings: tuple[Rejection, ...],
    files: tuple[Path, ...],
    watched: tuple[Path, ...],
    include_globs: tuple[str, ...],
    origins: Origins,
) -> Configuration:
    """The tree has been checked against the table, which the dataclasses mirror (a test says so)."""
    return Configuration(
        server=Server(**_own(Server, tree["server"]) | {"limits": Limits(**tree["server"]["limits"])}),
        data_dir=tree["data_dir"],
        plugins=_plugins(tree["plugins"]),
        defaults=_defaults(tree["defaults"]),
        telemetry=Telemetry(
            **_own(Telemetry, tree["telemetry"])
            | {
                "call_log": CallLog(**tree["telemetry"]["call_log"]),
                "records": RecordsKept(**tree["telemetry"]["records"]),
            }
        ),
        secrets={name: value for name, value in tree["secrets"].items() if value is not None},
        warnings=warnings,
        digest=origins.digest,
        files=files,
        watched=watched,
        include_globs=include_globs,
        origins=origins,
    )


def cross_faults(tree: Tree) -> Iterator[KeyFault]:
    """Faults of keys that are each right by themselves."""
    plugins = tree["plugins"]
    for name, entry in plugins["trusted"].items():
        at = ("plugins", "trusted", name)
        if not entry["digest"] and not entry["follow"]:
            remedy = f"write the digest that `hermesd ctl plugins show {name}` prints, or follow: true"
            yield KeyFault(at, "has neither a digest nor follow: true", remedy)
        if name in plugins.get("untrusted", {}):
            yield KeyFault(at, "stands under untrusted too", "keep one of the two")
    listen = tree["server"]["listen"]
    if len(set(listen)) != len(listen):
        yield KeyFault(("server", "listen"), "names one address twice", "keep one of the two")
    chars = tree["defaults"]["description_chars"]
    if chars["warn"] > chars["max"]:
        at = ("defaults", "description_chars", "warn")
        yield KeyFault(at, "is above description_chars.max", "lower it, or raise max")


def cross_warnings(tree: Tree) -> Iterator[KeyFault]:
    """What is allowed, and worth saying aloud."""
    if tree["plugins"]["entry_points"] is True:
        problem = "every installed distribution with a hermesd entry point runs in process"
        yield KeyFault(("plugins", "entry_points"), problem, "name the distributions that you mean")
    for name, entry in tree["plugins"]["trusted"].items():
        if entry["follow"]:
            problem = f"whoever can write the plugin {name} runs code in the daemon: for development only"
            yield KeyFault(("plugins", "trusted", name), problem, "trust a digest instead")


def _own(kind: type[Any], tree: Tree) -> dict[str, Any]:
    """The keys that the dataclass has; those of later builds stay behind."""
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in tree.items() if name in names}


def _plugins(tree: Tree) -> Plugins:
    values = _own(Plugins, tree)
    values["trusted"] = {name: _trust(TrustEntry, entry) for name, entry in tree["trusted"].items()}
    values["untrusted"] = {
        name: _trust(UntrustedEntry, entry) for name, entry in tree.get("untrusted", {}).items()
    }
    values["settings"] = {name: entry or {} for name, entry in tree["settings"].items()}
    return Plugins(**values)


def _trust(kind: type[Any], entry: Tree) -> Any:
    given = {name: value for name, value in entry.items() if value is not None}
    grant = cast("Mapping[str, object] | None", given.get("grant"))
    permissions: Permissions | None = build_permissions(grant) if grant is not None else None
    return kind(**given | {"grant": permissions})


def _defaults(tree: Tree) -> Defaults:
    values = _own(Defaults, tree)
    values["description_chars"] = DescriptionChars(**tree["description_chars"])
    values["timeouts_ms"] = {name: value for name, value in tree["timeouts_ms"].items() if value is not None}
    return Defaults(**values)
