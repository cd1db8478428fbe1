"""Where a plugin's code runs, and which of its contents: the operator's decision, never the plugin's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

Where = Literal["inprocess", "worker", "container", "refused"]
Speaker = Literal["yaml", "grant", "nobody"]


class TrustEntry(Protocol):
    """One entry of `plugins.trusted` in the configuration, or of `grants.json`."""

    @property
    def digest(self) -> str | None: ...

    @property
    def isolation(self) -> str | None: ...

    @property
    def follow(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class EffectiveTrust:
    """What is trusted, and who said so. `digest` "" with `follow`: whatever the folder holds.

    `pin` is the content that a rollback holds the plugin at. `denied`: the configuration lists the
    plugin under `plugins.untrusted`, which no grant overrides.
    """

    spoke: Speaker = "nobody"
    trusted: bool = False
    digest: str = ""
    isolation: str = "inprocess"
    follow: bool = False
    pin: str = ""
    denied: bool = False


def effective_trust(
    yaml_entry: TrustEntry | None,
    grant_entry: TrustEntry | None,
    *,
    yaml_untrusted: bool = False,
    pin: str = "",
) -> EffectiveTrust:
    """One answer from both speakers: where the configuration speaks it wins, a rollback's pin included."""
    if yaml_untrusted:
        return EffectiveTrust("yaml", denied=True)
    if yaml_entry is not None:
        return _trusted("yaml", yaml_entry, "")
    if grant_entry is not None:
        return _trusted("grant", grant_entry, pin)
    return EffectiveTrust()


def _trusted(spoke: Speaker, entry: TrustEntry, pin: str) -> EffectiveTrust:
    digest = entry.digest or ""
    if not digest and not entry.follow:
        return EffectiveTrust(spoke)
    return EffectiveTrust(spoke, True, digest, entry.isolation or "inprocess", entry.follow, pin)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a plugin runs, with which content, and why not as it stands in its folder.

    `digest` None: nothing serves. `awaiting` is content that was found but waits for trust. `reason`
    and `remedy` are set whenever what was found is not what serves.
    """

    where: Where
    digest: str | None
    reason: str = ""
    remedy: str = ""
    awaiting: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known about a plugin when its place is decided.

    `found` is the digest of what the source holds now ("" when it could not be taken: then nothing new
    may serve), `last_good` what served last. `unsafe` says why the folder's modes allow others to change
    it; then nothing that lies there is trusted. `enabled` is for entry points: the operator named the
    `distribution`.
    """

    found: str
    last_good: str = ""
    unsafe: str = ""
    unsafe_remedy: str = ""
    enabled: bool = True
    distribution: str = ""


def place(
    name: str, origin: str, evidence: Evidence, trust: EffectiveTrust, *, has_content: Callable[[str], bool]
) -> Placement:
    """Decide by the table of origins. `has_content` says whether the content store holds a digest.

    `origin` is bundled or entry_point; every other one is dropped code, which needs trust.
    """
    if origin == "bundled":
        return Placement("inprocess", evidence.found or None)
    if origin == "entry_point":
        return _entry_point(name, evidence)
    if not trust.trusted:
        return _untrusted(name, evidence, trust)
    where = _where(trust.isolation)
    if where is None:
        return Placement(
            "refused",
            None,
            f"isolation {trust.isolation!r} is not in this build",
            "use isolation: process or isolation: inprocess",
        )
    return _trusted_folder(name, where, evidence, trust, has_content)


def trust_command(name: str, digest: str) -> str:
    """What an operator types to trust this content."""
    return f"`hermesd ctl plugins trust {name} --digest {digest}`"


def _where(isolation: str) -> Where | None:
    known: dict[str, Where] = {"inprocess": "inprocess", "process": "worker"}
    return known.get(isolation)


def _entry_point(name: str, evidence: Evidence) -> Placement:
    if evidence.enabled:
        return Placement("inprocess", evidence.found or None)
    distribution = evidence.distribution or name
    return Placement(
        "refused", None, "found, not enabled", f"add {distribution!r} to plugins.entry_points and reload"
    )


def _untrusted(name: str, evidence: Evidence, trust: EffectiveTrust) -> Placement:
    if trust.denied:
        return Placement(
            "refused",
            None,
            "untrusted by the configuration, and this build has no sandbox to run it in",
            f"take {name!r} out of plugins.untrusted, then trust it",
            evidence.found,
        )
    if evidence.unsafe:
        return Placement("refused", None, evidence.unsafe, evidence.unsafe_remedy)
    return Placement(
        "refused",
        None,
        "not trusted, and this build has no sandbox to run it in",
        f"look at its files, then {trust_command(name, evidence.found or 'sha256:…')}",
        evidence.found,
    )


def _trusted_folder(
    name: str, where: Where, evidence: Evidence, trust: EffectiveTrust, has_content: Callable[[str], bool]
) -> Placement:
    usable = "" if evidence.unsafe else evidence.found
    followed = (usable or evidence.last_good) if trust.follow else ""
    wanted = trust.pin or followed or trust.digest
    if usable and usable == wanted:
        return Placement(where, usable)
    reason, remedy = _why(name, usable, evidence, trust)
    awaiting = "" if trust.follow and not trust.pin else usable
    if wanted and has_content(wanted):
        return Placement(where, wanted, reason, remedy, awaiting)
    if not usable:
        return Placement("refused", None, reason, remedy)
    return Placement(
        "refused",
        None,
        f"the folder holds other content than what is trusted ({wanted[:19]}…), which is not in the store",
        _trust_remedy(name, usable, trust),
        awaiting,
    )


def _why(name: str, usable: str, evidence: Evidence, trust: EffectiveTrust) -> tuple[str, str]:
    if evidence.unsafe:
        return evidence.unsafe, evidence.unsafe_remedy
    if not usable:
        return "what the folder holds now could not be read", "fix what the rejection names"
    if trust.pin:
        return "held at an earlier content by a rollback", _trust_remedy(name, usable, trust)
    return "the content changed; the last trusted one goes on serving", _trust_remedy(name, usable, trust)


def _trust_remedy(name: str, found: str, trust: EffectiveTrust) -> str:
    if trust.spoke == "yaml":
        return f"look at what changed, then set plugins.trusted.{name}.digest to {found} and reload"
    return f"look at what changed, then {trust_command(name, found)}"
