"""From functions to bound tools, and from JSON arguments to Python ones."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID

import pytest

from hermesd.plugin import ToolContext, hookimpl, tool
from hermesd.plugin.bind import bind_tool, bind_tools, offered_tools
from hermesd.plugin.fault import ArgumentFault, LoadFault
from hermesd.plugin.load import load_package, unload_package
from hermesd.plugin.testing import Recorder


class State(Enum):
    OPEN = "open"
    SECOND = 2


class Kind(Enum):
    A = "a"


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.0

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x must not be below 0")


@dataclass
class Tree:
    name: str
    children: list[Tree]


class Query(TypedDict):
    when: date


class Dog(TypedDict):
    kind: Literal["dog"]
    age: int


@dataclass
class Cat:
    kind: Literal["cat"]
    born: date


def module_of(source: str, name: str = "plugin_under_test") -> ModuleType:
    module = ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), vars(module))
    return module


def convert(hint: Any, value: Any) -> Any:
    def f(it: Any) -> None: ...

    f.__annotations__["it"] = hint
    return bind_tool(f, "p").arguments({"it": value})["it"]


@pytest.mark.parametrize(
    ("hint", "value", "made"),
    [
        (int, 3.0, 3),
        (float, 3, 3.0),
        (Any, {"a": [1]}, {"a": [1]}),
        (State, "open", State.OPEN),
        (State, 2.0, State.SECOND),
        (Literal[State.OPEN], "open", State.OPEN),
        (Literal[1, "a"], 1.0, 1),
        (list[int], [1.0, 2], [1, 2]),
        (tuple[int, ...], [1], (1,)),
        (tuple[date, str], ["2026-11-30", "x"], (date(2026, 11, 30), "x")),
        (set[str], ["a"], {"a"}),
        (frozenset[State], ["open"], frozenset({State.OPEN})),
        (dict[str, Point], {"a": {"x": 1}}, {"a": Point(1)}),
        (dict[Kind, int], {"a": 1}, {Kind.A: 1}),
        (datetime, "2026-11-30T12:00:00Z", datetime(2026, 11, 30, 12, tzinfo=UTC)),
        (datetime, "2026-11-30t12:00:00.5z", datetime(2026, 11, 30, 12, 0, 0, 500_000, tzinfo=UTC)),
        (time, "14:30", time(14, 30)),
        (timedelta, 1.5, timedelta(seconds=1.5)),
        (UUID, "00000000-0000-0000-0000-000000000001", UUID(int=1)),
        (Decimal, "1.10", Decimal("1.10")),
        (Decimal, 0.1, Decimal("0.1")),
        (Path, "/数据", Path("/数据")),
        (bytes, "AP8=", b"\x00\xff"),
        (Query, {"when": "2026-11-30"}, {"when": date(2026, 11, 30)}),
        (Tree, {"name": "a", "children": [{"name": "b", "children": []}]}, Tree("a", [Tree("b", [])])),
        (Point | None, None, None),
        (str | date, "2026-11-30", date(2026, 11, 30)),
        (str | date, "tomorrow", "tomorrow"),
        (date | datetime | None, "2026-11-30T00:00:00Z", datetime(2026, 11, 30, tzinfo=UTC)),
        (int | float, 3, 3),
        (int | float, 3.5, 3.5),
        (float | int, 3, 3),
        (int | str, 3.0, 3),
        (Dog | Cat, {"kind": "cat", "born": "2026-01-02"}, Cat("cat", date(2026, 1, 2))),
        (Dog | Cat, {"kind": "dog", "age": 3}, {"kind": "dog", "age": 3}),
        (list[int] | list[str], ["a"], ["a"]),
        (list[State | int], ["open", 3], [State.OPEN, 3]),
    ],
)
def test_json_becomes_the_annotated_type(hint: Any, value: Any, made: Any) -> None:
    result = convert(hint, value)
    assert result == made
    assert type(result) is type(made)


@pytest.mark.parametrize(
    ("hint", "value", "path", "problem"),
    [
        (date, "2026-02-30", "/it", "date"),
        (datetime, "2026-11-30T12:00:60Z", "/it", "second"),
        (datetime, "2026-11-30T12:00:00", "/it", "offset"),
        (list[date], ["2026-11-30", "2026-02-30"], "/it/1", "date"),
        (dict[str, date], {"a/b": "x"}, "/it/a~1b", "date"),
        (Tree, {"name": "a", "children": [{"name": "b"}]}, "/it/children/0", "children"),
        (Point, {"x": -1}, "/it", "must not be below 0"),
        (Query, {"when": "x"}, "/it/when", "date"),
        (tuple[int, date], [1, "x"], "/it/1", "date"),
        (tuple[int, int], [1], "/it", "exactly 2"),
        (timedelta, 1e300, "/it", "number of seconds"),
        (float, 10**400, "/it", "too large"),
        (bytes, "A", "/it", "base64"),
        (Decimal, "x", "/it", "decimal"),
        (int | date, "x", "/it", "date"),
        (State, "shut", "/it", "allowed values"),
        (set[Any], [[1]], "/it", "set"),
        (int, 1.5, "/it", "integer"),
        (int, "3", "/it", "integer"),
        (float, "3", "/it", "number"),
        (Dog | Cat, {"kind": "cow"}, "/it", "none of the types"),
    ],
)
def test_what_no_schema_can_refuse_is_a_fault_with_its_path(
    hint: Any, value: Any, path: str, problem: str
) -> None:
    with pytest.raises(ArgumentFault) as caught:
        convert(hint, value)
    assert caught.value.path == path
    assert problem in str(caught.value)


@pytest.mark.promise("SDK-9")
def test_no_call_sees_another_calls_default() -> None:
    def f(tags: list[str] = [], deep: dict[str, list[int]] = {"a": []}) -> list[str]:  # noqa: B006
        tags.append("x")
        deep["a"].append(1)
        return [*tags, *map(str, deep["a"])]

    bound = bind_tool(f, "p")
    assert bound.invoke(None, {}) == ["x", "1"]
    assert bound.invoke(None, {}) == ["x", "1"]
    assert f.__defaults__ == ([], {"a": []})


def test_the_callers_arguments_are_left_alone() -> None:
    def f(point: Point, **more: date) -> object:
        return point, more

    values = {"point": {"x": 1}, "extra": "2026-11-30"}
    assert bind_tool(f, "p").invoke(None, values) == (Point(1), {"extra": date(2026, 11, 30)})
    assert values == {"point": {"x": 1}, "extra": "2026-11-30"}


def test_the_context_cannot_be_given_as_an_argument() -> None:
    def f(ctx: ToolContext, **more: Any) -> None: ...

    with pytest.raises(ArgumentFault, match="/ctx"):
        bind_tool(f, "p").arguments({"ctx": 1})


def test_the_context_goes_where_the_function_wants_it() -> None:
    def f(a: int, *, context: ToolContext) -> str:
        return f"{a} {context.tool}"

    bound = bind_tool(f, "p")
    assert bound.wants_context
    assert bound.invoke(Recorder().context("p.f", asynchronous=False), {"a": 1}) == "1 p.f"


def test_a_definition_has_everything_that_the_author_said() -> None:
    @tool(
        idempotent=True,
        tags=("a", "b"),
        examples=[{"user_says": "你好", "arguments": {"it": 1}}],
        timeout_ms=5,
    )
    def count_things(it: Annotated[int, "how many"]) -> int:
        """Count things.

        Returns:
            the count
        """
        return it

    bound = bind_tool(count_things, "text")
    assert bound.raw == {
        "name": "text.count_things",
        "description": "Count things.",
        "side_effects": "write",
        "idempotent": True,
        "tags": ["a", "b"],
        "examples": [{"user_says": "你好", "arguments": {"it": 1}}],
        "timeout_ms": 5,
        "parameters": {
            "type": "object",
            "properties": {"it": {"type": "integer", "description": "how many"}},
            "required": ["it"],
            "additionalProperties": False,
        },
        "returns": {"type": "integer", "description": "the count"},
    }
    assert bound.line > 0
    assert bound.file.endswith("test_plugin_bind.py")


@pytest.mark.parametrize(("given", "name"), [(None, "p.f"), ("short", "p.short"), ("p.full", "p.full")])
def test_how_a_tool_is_named(given: str | None, name: str) -> None:
    @tool(name=given)
    def f() -> None: ...

    assert bind_tool(f, "p").name == name


def test_tools_come_in_the_order_of_their_definition_once_each() -> None:
    module = module_of(
        "from hermesd.plugin import tool\n@tool\ndef b(): ...\n@tool\ndef a(): ...\n"
        "alias = b\ndef plain(): ...\n"
    )
    assert [each.name for each in bind_tools(module, "p")] == ["p.b", "p.a"]
    assert [each.name for each in bind_tools(module, "p", [module.plain, module.a])] == [
        "p.b",
        "p.a",
        "p.plain",
    ]


def test_tools_of_another_package_that_a_module_imports_are_not_its_own() -> None:
    """hermes-agent#56271: authority by the name of a module."""
    other = module_of("from hermesd.plugin import tool\n@tool\ndef t(): ...\n", "other_lib")
    module = module_of("", "plugin_under_test")
    module.t = other.t  # type: ignore[attr-defined]
    assert bind_tools(module, "p") == []


def test_tools_of_the_plugins_own_submodules_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("from .more import t")
    (tmp_path / "more.py").write_text("from hermesd.plugin import tool\n\n@tool\ndef t(): ...\n")
    module = load_package(tmp_path, "main.py", "hermesd_plugins.p_1")
    try:
        (bound,) = bind_tools(module, "p")
        assert (bound.name, bound.file, bound.line) == ("p.t", "more.py", 3)
    finally:
        unload_package("hermesd_plugins.p_1")


def test_two_tools_of_one_name_are_refused_with_both_places() -> None:
    module = module_of(
        "from hermesd.plugin import tool\n@tool(name='x')\ndef a(): ...\n@tool(name='x')\ndef b(): ...\n"
    )
    with pytest.raises(LoadFault) as caught:
        bind_tools(module, "p")
    assert "plugin_under_test.py:2" in caught.value.reason
    assert caught.value.line == 4


def _yields() -> Iterator[int]:
    yield 1


def _star(*rest: int) -> None: ...


@pytest.mark.parametrize(
    ("thing", "reason"),
    [
        (_yields, "generator"),
        (_star, "rest"),
        (3, "no function"),
        (State, "no function"),
        (functools.partial(_star), "no name"),
    ],
)
def test_what_can_be_no_tool_is_refused(thing: Any, reason: str) -> None:
    with pytest.raises(LoadFault, match=reason):
        bind_tool(thing, "p")


def test_options_that_are_no_json_are_refused_by_name() -> None:
    with pytest.raises(LoadFault, match="fallback/value"):
        bind_tool(tool(fallback={"value": object()})(lambda: None), "p")


def test_partials_methods_and_instances_can_be_tools() -> None:
    class Shop:
        def ask(self, n: int) -> int:
            return n

    class Caller:
        def __call__(self, n: date) -> date:
            return n

    part = tool(name="part")(functools.partial(lambda a, n: a + n, 1))
    assert bind_tool(part, "p").invoke(None, {"n": 2}) == 3
    assert bind_tool(Shop().ask, "p").invoke(None, {"n": 2.0}) == 2
    assert bind_tool(tool(name="c")(Caller()), "p").invoke(None, {"n": "2026-11-30"}) == date(2026, 11, 30)


def test_async_tools_are_known_also_behind_a_wrapper() -> None:
    async def later(n: int) -> int:
        return n

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return run

    for each in (later, timed(later)):
        bound = bind_tool(each, "p")
        assert bound.is_async
        assert asyncio.run(bound.invoke(None, {"n": 1})) == 1
    assert not bind_tool(timed(lambda n: n), "p").is_async


def test_hermesd_tools_offers_functions_with_and_without_context() -> None:
    def a() -> None: ...

    module = module_of("")
    assert offered_tools(module) == ()
    module.hermesd_tools = lambda: [a]  # type: ignore[attr-defined]
    assert offered_tools(module) == (a,)
    del module.hermesd_tools

    @hookimpl(specname="hermesd_tools")
    def anything(ctx: object) -> Iterator[object]:
        yield ctx

    module.anything = anything  # type: ignore[attr-defined]
    assert offered_tools(module, 7) == (7,)


@pytest.mark.parametrize("failure", ["raise ValueError", "raise SystemExit", "raise KeyboardInterrupt"])
def test_a_registration_that_fails_after_the_first_tool_offers_none(failure: str) -> None:
    module = module_of(f"def hermesd_tools():\n    yield print\n    {failure}\n")
    with pytest.raises(LoadFault) as caught:
        offered_tools(module)
    assert caught.value.line
    assert caught.value.__context__ is None
