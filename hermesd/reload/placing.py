"""One plugin's way from what was found to what should be: trust, content, permissions, settings."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from hermesd.access.strict_modes import UnsafeMode
from hermesd.access.trust import EffectiveTrust, Evidence, Placement, effective_trust, place
from hermesd.config.configuration import Configuration
from hermesd.config.manifest import Manifest
from hermesd.config.permission import Permissions, build_permissions
from hermesd.config.plugin_settings import settings_rejections
from hermesd.errors import PluginError, Rejection
from hermesd.model.definition import ToolDefinition, parse_definition
from hermesd.model.digest import digest_of
from hermesd.model.status import State
from hermesd.reload.goal import Goal, Idle, Run, Where
from hermesd.runtimes.spec import PluginSpec
from hermesd.sources.source import DECLARATIVE, Found, Origin
from hermesd.store.content import Content
from hermesd.store.grants import Grants, PluginGrant

#: Beyond its deadline a call has this long to end by itself before its thread counts as stray.
GRACE_S = 1.0
LIMITS = ("max_concurrency", "prepare_timeout_s", "close_timeout_s", "max_stray_threads", "idle_stop_s")


@dataclass(frozen=True, slots=True)
class Look:
    """What one unit holds now. Without a manifest its name is what it served as, or its label."""

    found: Found
    name: str
    manifest: Manifest | None
    content: Content | None
    unsafe: UnsafeMode | None
    rejections: tuple[Rejection, ...] = ()
    #: The version of an installed package beside the one that is loaded: a process imports it once.
    installed: str = ""

    @property
    def digest(self) -> str:
        """Of what was found; "" when it could not be read."""
        if self.content is not None:
            return self.content.digest
        found = self.found
        is_installed = found.origin is Origin.ENTRY_POINT and self.manifest is not None
        return f"{found.distribution}=={found.version}" if is_installed else ""


class Stores(Protocol):
    """What placing asks of the data dir."""

    #: Where each plugin has a folder of its own.
    state_dir: Path

    def grants(self) -> Grants: ...

    def last_good(self, name: str) -> str:
        """The digest that this plugin served last, or ""."""
        ...

    def has_content(self, digest: str) -> bool: ...

    def stored(self, digest: str, path: Path) -> tuple[Content, Manifest] | None:
        """A content that was served before, with its manifest; None when it is not there any more."""
        ...


@dataclass(frozen=True, slots=True)
class Placing:
    """One plugin's way from what was found to what should be."""

    stores: Stores
    look: Look
    base: Goal
    configuration: Configuration

    def goal(self) -> Goal:
        found, name = self.look.found, self.look.name
        grant = self.stores.grants().plugin(name)
        if found.unsupported:
            return replace(self.base, idle=Idle(State.UNAVAILABLE, found.unsupported, found.remedy))
        if self.look.manifest is not None and not self.look.manifest.entry:
            idle = Idle(State.UNAVAILABLE, *DECLARATIVE, self._tools())
            return replace(self.base, idle=idle)
        if grant.enabled is not None and not grant.enabled.enabled:
            remedy = f"hermesd ctl plugins enable {name}"
            idle = Idle(State.DISABLED, "switched off by the operator", remedy, self._tools())
            return replace(self.base, idle=idle)
        trust = self._trust(grant)
        placement = self._place(trust)
        if placement.digest is None:
            if self.look.rejections:
                return self.base
            idle = Idle(State.UNAVAILABLE, placement.reason, placement.remedy, self._tools())
            return replace(self.base, idle=idle)
        try:
            run = self._run(placement.digest, placement, grant)
        except PluginError as error:
            return replace(self.base, rejections=(*self.base.rejections, *error.rejections))
        awaiting = (placement.reason, placement.remedy) if placement.reason else None
        if self.look.installed:
            reason = (
                f"restart required: {self.look.installed} is installed, {self.look.found.version} is loaded"
            )
            awaiting = (reason, "restart hermesd")
        return replace(
            self.base, run=run, fallback=self._fallback(run, trust, placement, grant), awaiting=awaiting
        )

    def _trust(self, grant: PluginGrant) -> EffectiveTrust:
        plugins = self.configuration.plugins
        return effective_trust(
            plugins.trusted.get(self.look.name),
            grant.trust,
            yaml_untrusted=self.look.name in plugins.untrusted,
            pin=grant.pin.digest if grant.pin is not None else "",
        )

    def _place(self, trust: EffectiveTrust) -> Placement:
        found, unsafe = self.look.found, self.look.unsafe
        evidence = Evidence(
            found=self.base.found_digest,
            last_good=self.stores.last_good(self.look.name),
            unsafe=unsafe.reason if unsafe is not None else "",
            unsafe_remedy=unsafe.remedy if unsafe is not None else "",
            enabled=found.enabled,
            distribution=found.distribution,
        )
        has_content = self.stores.has_content
        return place(self.look.name, found.origin.value, evidence, trust, has_content=has_content)

    def _fallback(
        self, run: Run, trust: EffectiveTrust, placement: Placement, grant: PluginGrant
    ) -> Run | None:
        """The last content that served, where whatever the folder holds is trusted."""
        digest = self.stores.last_good(self.look.name)
        if not trust.follow or not digest or digest == run.spec.digest:
            return None
        try:
            return self._run(digest, placement, grant)
        except PluginError:
            return None

    def _run(self, digest: str, placement: Placement, grant: PluginGrant) -> Run:
        look, name = self.look, self.look.name
        manifest, root = look.manifest, look.content.root if look.content is not None else Path()
        if digest != self.base.found_digest:
            stored = self.stores.stored(digest, look.found.path or Path(name))
            if stored is None:
                raise PluginError(
                    [Rejection(name, f"the content {digest} is not in the store", "trust another")]
                )
            content, manifest = stored
            root = content.root
        assert manifest is not None  # noqa: S101 - a digest was found, so its manifest was read
        where: Where = "worker" if placement.where == "worker" else "inprocess"
        permissions = self._permissions(manifest, grant)
        if faults := settings_rejections(manifest, self.configuration):
            raise PluginError(faults)
        settings = self.configuration.plugins.settings.get(name, {})
        secrets = {
            each: self.configuration.secrets[each]
            for each in permissions.secrets
            if each in self.configuration.secrets
        }
        spec = self._spec(manifest, digest, root, settings=settings, secrets=secrets)
        sealed = {each: hashlib.sha256(value.encode()).hexdigest() for each, value in secrets.items()}
        budget = self.configuration.defaults.description_chars
        granted = permissions.as_json()
        # Every number that an instance is made with: a live setting holds for what runs already, too.
        limits = [getattr(spec, each) for each in LIMITS]
        key = digest_of([digest, where, settings, sealed, granted, limits, budget.warn, budget.max])
        return Run(spec, where, key, permissions.calls, manifest.exclusive, budget, granted)

    def _permissions(self, manifest: Manifest, grant: PluginGrant) -> Permissions:
        """What the manifest asks, within what the operator granted where the operator spoke of it."""
        entry = self.configuration.plugins.trusted.get(self.look.name)
        if entry is not None and entry.grant is not None:
            return manifest.permissions.within(entry.grant)
        if grant.permissions is not None:
            return manifest.permissions.within(build_permissions(grant.permissions.permissions))
        return manifest.permissions

    def _spec(
        self,
        manifest: Manifest,
        digest: str,
        root: Path,
        *,
        settings: Mapping[str, object],
        secrets: Mapping[str, str],
    ) -> PluginSpec:
        limits = self.configuration.plugins
        return PluginSpec(
            name=manifest.name,
            version=manifest.version,
            digest=digest,
            root=root,
            entry=manifest.entry,
            tools=manifest.tools,
            settings=settings,
            secrets=secrets,
            max_concurrency=max(self.configuration.defaults.max_concurrency, *_asked_at_once(manifest), 0),
            prepare_timeout_s=limits.prepare_timeout_s,
            close_timeout_s=limits.close_timeout_s,
            max_stray_threads=limits.max_stray_threads,
            idle_stop_s=limits.idle_stop_s,
            grace_s=GRACE_S,
            state_dir=self.stores.state_dir / manifest.name,
        )

    def _tools(self) -> tuple[ToolDefinition, ...]:
        """What a manifest says of tools that do not run: enough to list them."""
        manifest = self.look.manifest
        tools = []
        for raw in (manifest.tools or ()) if manifest is not None else ():
            try:
                tools.append(
                    parse_definition(raw, plugin=self.look.name, version=self.base.version).definition
                )
            except PluginError:
                continue  # told when the plugin is to run; what cannot be listed need not be
        return tuple(tools)


def _asked_at_once(manifest: Manifest) -> list[int]:
    """How many calls at once the manifest's own definitions ask for; what is no number is refused later."""
    asked = [each.get("max_concurrency") for each in manifest.tools or ()]
    return [each for each in asked if isinstance(each, int)]
