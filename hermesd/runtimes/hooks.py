"""The pluggy side of an in-process plugin: which hooks there are, and which of them it implements."""

from __future__ import annotations

from inspect import isroutine
from types import ModuleType
from typing import Any

import pluggy

from hermesd.plugin import hookimpl
from hermesd.plugin.fault import LoadFault
from hermesd.plugin.hook import HOOKS, LATER, place_of, unknown_hook

PROJECT = "hermesd"
hookspec = pluggy.HookspecMarker(PROJECT)


class HookSpecs:
    """Every hook that this build calls. `ctx` is a PluginContext; a hook may leave it out."""

    @hookspec
    def hermesd_tools(self, ctx: Any) -> Any:
        """More functions to offer as tools, decorated or plain."""

    @hookspec
    def hermesd_startup(self, ctx: Any) -> Any:
        """Runs once before the plugin serves; may be async."""

    @hookspec
    def hermesd_shared(self, ctx: Any) -> Any:
        """Clients and pools for `ctx.shared`: a mapping, or a (async) context manager or generator of one."""

    @hookspec
    def hermesd_shutdown(self, ctx: Any) -> Any:
        """Runs once when the last call has ended; may be async."""

    @hookspec
    def hermesd_unavailable(self, ctx: Any) -> Any:
        """(reason, remedy) when the plugin cannot work as it is configured, else None."""


class _Hooks(pluggy.PluginManager):
    """A function named like a hook is one, marked or not, as in a folder that runs in a worker."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        found = super().parse_hookimpl_opts(plugin, name)
        hook = name if found is None else str(found.get("specname") or name)
        optional = found is not None and found.get("optionalhook")
        if not optional and (hook in LATER or (found is not None and hook not in HOOKS)):
            raise unknown_hook(hook, getattr(plugin, name))
        if found is None and name in HOOKS and callable(getattr(plugin, name, None)):
            found = getattr(hookimpl(lambda: None), f"{PROJECT}_impl")
        return found


def implemented_hooks(plugin: object, name: str) -> ModuleType:
    """The hooks of `plugin` (a module, or an object that an entry point names), checked against the specs.

    Returns a module that holds the tools and the checked hooks, for the lifespan to run. A plugin that
    registers others while it is registered gets a manager of its own, which dies with it: managers are
    made anew for each instance, never changed while calls run. Raises LoadFault.
    """
    view = ModuleType(getattr(plugin, "__name__", type(plugin).__module__))
    for key in dir(plugin):
        if not key.startswith("__"):
            vars(view)[key] = getattr(plugin, key)
    if isinstance(plugin, ModuleType) and not any(_is_hook(*each) for each in vars(view).items()):
        return view  # most plugins have tools alone
    manager = _Hooks(PROJECT)
    manager.add_hookspecs(HookSpecs)
    try:
        manager.register(plugin, name)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise LoadFault(str(error), remedy="fix the hook's name or arguments") from None
    for caller in manager.get_hookcallers(plugin) or ():
        implementations = caller.get_hookimpls()
        if len(implementations) > 1:
            file, line = place_of(implementations[-1].function)
            raise LoadFault(f"two functions implement the hook {caller.name}", file, line)
    return view


def _is_hook(name: str, value: object) -> bool:
    """Whether pluggy would take it for a hook, or refuse it as one: named like one, or marked."""
    return name.startswith(f"{PROJECT}_") or (isroutine(value) and hasattr(value, f"{PROJECT}_impl"))
