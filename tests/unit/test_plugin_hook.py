"""Hooks by mark and by name."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pluggy
import pytest

from hermesd.plugin import hookimpl
from hermesd.plugin.fault import LoadFault
from hermesd.plugin.hook import HOOKS, hooks_of, place_of
from hermesd.runtimes.hooks import implemented_hooks


def module_with(**names: Any) -> ModuleType:
    module = ModuleType("hooked")
    vars(module).update(names)
    return module


def test_the_mark_is_the_one_that_pluggy_makes() -> None:
    ours = hookimpl(tryfirst=True, specname="hermesd_tools")(lambda: None)
    theirs = pluggy.HookimplMarker("hermesd")(tryfirst=True, specname="hermesd_tools")(lambda: None)
    assert ours.hermesd_impl == theirs.hermesd_impl  # type: ignore[attr-defined]


def test_pluggy_calls_what_hookimpl_marked() -> None:
    class Spec:
        @pluggy.HookspecMarker("hermesd")
        def hermesd_tools(self) -> None: ...

    class Plugin:
        @hookimpl
        def hermesd_tools(self) -> str:
            return "found"

    manager = pluggy.PluginManager("hermesd")
    manager.add_hookspecs(Spec)
    manager.register(Plugin())
    assert manager.hook.hermesd_tools() == ["found"]


def test_hooks_are_found_by_name_mark_and_specname() -> None:
    def hermesd_startup() -> None: ...
    @hookimpl
    def hermesd_shutdown() -> None: ...
    @hookimpl(specname="hermesd_tools")
    def my_tools() -> None: ...
    def other() -> None: ...

    found = hooks_of(
        module_with(
            hermesd_startup=hermesd_startup,
            hermesd_shutdown=hermesd_shutdown,
            my_tools=my_tools,
            other=other,
            hermesd_version="1.0",
        )
    )
    assert found == {
        "hermesd_startup": hermesd_startup,
        "hermesd_shutdown": hermesd_shutdown,
        "hermesd_tools": my_tools,
    }
    assert found.keys() <= set(HOOKS)


def test_a_misspelt_hook_is_refused_with_the_nearest() -> None:
    def hermesd_strtup() -> None: ...
    def hermesd_zqxjkvwzqxjkvwzqxjkvw() -> None: ...

    with pytest.raises(LoadFault, match="did you mean hermesd_startup") as caught:
        hooks_of(module_with(hermesd_strtup=hermesd_strtup))
    assert caught.value.line
    with pytest.raises(LoadFault, match="the hooks are"):
        hooks_of(module_with(hermesd_zqxjkvwzqxjkvwzqxjkvw=hermesd_zqxjkvwzqxjkvwzqxjkvw))


def test_two_functions_for_one_hook_are_refused() -> None:
    def hermesd_tools() -> None: ...
    @hookimpl(specname="hermesd_tools")
    def more() -> None: ...

    with pytest.raises(LoadFault, match="two functions"):
        hooks_of(module_with(hermesd_tools=hermesd_tools, more=more))


def test_a_thing_without_code_has_no_place() -> None:
    assert place_of(3) == ("", 0)
    assert place_of(hooks_of)[0].endswith("hook.py")


def test_each_hook_is_named_once() -> None:
    assert len(set(HOOKS)) == len(HOOKS)


@pytest.mark.promise("SEE-6")
@pytest.mark.parametrize("mark", ["", "@hookimpl\n"])
def test_a_hook_that_nobody_calls_in_this_build_is_refused_wherever_the_plugin_runs(mark: str) -> None:
    module = ModuleType("guard")
    exec(f"from hermesd.plugin import hookimpl\n{mark}def hermesd_before_call(ctx): ...\n", vars(module))
    for read in (hooks_of, lambda each: implemented_hooks(each, "guard")):
        with pytest.raises(LoadFault, match="this build does not have the hook hermesd_before_call") as told:
            read(module)
        assert told.value.remedy


def test_an_optional_hook_may_be_one_of_a_later_build() -> None:
    module = module_with(hermesd_before_call=hookimpl(optionalhook=True)(lambda ctx: None))
    assert hooks_of(module) == {}
    implemented_hooks(module, "guard")
