"""From the checked tree to the typed dataclasses, and what only two keys together can get wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from hermesd.config.configuration import (
    AgentEntry,
    CallLog,
    CircuitBreaker,
    Configuration,
    Defaults,
    DescriptionChars,
    Limits,
    Plugins,
    RecordsKept,
    ResultLimits,
    Retry,
    Server,
    Telemetry,
    Tls,
    ToolRights,
    TrustEntry,
    UntrustedEntry,
)
from hermesd.config.kind import AgentsAddress, KeyFault
from hermesd.config.origin import Origins
from hermesd.config.permission import Permissions, build_permissions
from hermesd.errors import Rejection
from hermesd.model.rate import Bound, read_rate

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
        server=_server(tree["server"]),
        data_dir=tree["data_dir"],
        plugins=_plugins(tree["plugins"]),
        defaults=_defaults(tree["defaults"]),
        agents={name: _agent(entry) for name, entry in tree["agents"].items()},
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
    yield from _listening_faults(tree["server"])
    yield from _shared_tokens(tree["agents"])
    chars = tree["defaults"]["description_chars"]
    if chars["warn"] > chars["max"]:
        at = ("defaults", "description_chars", "warn")
        yield KeyFault(at, "is above description_chars.max", "lower it, or raise max")


def _listening_faults(server: Tree) -> Iterator[KeyFault]:
    listen, agents, tls = server["listen"], server["agents_listen"], server["tls"]
    for key, named in (("listen", listen), ("agents_listen", agents)):
        if len(set(named)) != len(named):
            yield KeyFault(("server", key), "names one address twice", "keep one of the two")
    for index, address in enumerate(agents):
        if address in listen:
            at = ("server", "agents_listen", index)
            yield KeyFault(at, "is the operator's address too", "give agents an address of their own")
        if AgentsAddress.needs_tls(address) and tls["cert"] is None:
            problem = "an address that other machines can reach needs server.tls"
            remedy = "set server.tls.cert and key, or listen on 127.0.0.1 or a unix socket"
            yield KeyFault(("server", "agents_listen", index), problem, remedy)
    for key, other in (("cert", "key"), ("key", "cert"), ("client_ca", "cert")):
        if tls[key] is not None and tls[other] is None:
            yield KeyFault(("server", "tls", key), f"needs server.tls.{other} beside it", "set both")


def _shared_tokens(agents: Tree) -> Iterator[KeyFault]:
    first: dict[str, str] = {}
    for name, entry in agents.items():
        token = entry["token_sha256"]
        if token and first.setdefault(token, name) != name:
            at = ("agents", name, "token_sha256")
            yield KeyFault(at, f"is the token of {first[token]} too", "give each agent a token of its own")


def cross_warnings(tree: Tree) -> Iterator[KeyFault]:
    """What is allowed, and worth saying aloud."""
    if tree["plugins"]["entry_points"] is True:
        problem = "every installed distribution with a hermesd entry point runs in process"
        yield KeyFault(("plugins", "entry_points"), problem, "name the distributions that you mean")
    for name, entry in tree["plugins"]["trusted"].items():
        if entry["follow"]:
            where = "in the daemon" if entry["isolation"] == "inprocess" else "as the daemon's user"
            problem = f"whoever can write the plugin {name} runs code {where}: for development only"
            yield KeyFault(("plugins", "trusted", name), problem, "trust a digest instead")
    for name, agent in tree["agents"].items():
        at = ("agents", name)
        if not agent["token_sha256"] and tree["server"]["tls"]["client_ca"] is None:
            problem = f"nobody can be {name}: it has no token, and server.tls.client_ca is not set"
            yield KeyFault(
                at, problem, "set its token_sha256, or make it by `hermesd ctl agents add` instead"
            )
        if not agent["tools"]["allow"]:
            yield KeyFault(at, f"no tool exists for {name}", "name tools under its tools.allow")


def _own(kind: type[Any], tree: Tree) -> dict[str, Any]:
    """The keys that the dataclass has; those of later builds stay behind."""
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in tree.items() if name in names}


def _server(tree: Tree) -> Server:
    built = {"limits": Limits(**tree["limits"]), "tls": Tls(**tree["tls"])}
    return Server(**_own(Server, tree) | built)


def _agent(tree: Tree) -> AgentEntry:
    bound = _bound(tree)
    return AgentEntry(**_own(AgentEntry, tree) | {"tools": ToolRights(**tree["tools"]), "rate": bound.rate})


def _plugins(tree: Tree) -> Plugins:
    values = _own(Plugins, tree)
    values["trusted"] = {name: _trust(TrustEntry, entry) for name, entry in tree["trusted"].items()}
    values["untrusted"] = {
        name: _trust(UntrustedEntry, entry) for name, entry in tree.get("untrusted", {}).items()
    }
    values["limits"] = {name: _bound(entry) for name, entry in tree["limits"].items()}
    values["settings"] = {name: entry or {} for name, entry in tree["settings"].items()}
    return Plugins(**values)


def _trust(kind: type[Any], entry: Tree) -> Any:
    given = {name: value for name, value in entry.items() if value is not None}
    grant = cast("Mapping[str, object] | None", given.get("grant"))
    permissions: Permissions | None = build_permissions(grant) if grant is not None else None
    return kind(**given | {"grant": permissions})


def _bound(entry: Tree) -> Bound:
    rate = entry["rate"]
    return Bound(entry["max_concurrency"], None if rate is None else read_rate(rate))


def _defaults(tree: Tree) -> Defaults:
    values = _own(Defaults, tree)
    values["description_chars"] = DescriptionChars(**tree["description_chars"])
    values["retry"] = Retry(**tree["retry"])
    values["circuit_breaker"] = CircuitBreaker(**tree["circuit_breaker"])
    values["result"] = ResultLimits(**tree["result"])
    values["timeouts_ms"] = {name: value for name, value in tree["timeouts_ms"].items() if value is not None}
    return Defaults(**values)
