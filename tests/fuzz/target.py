"""The targets: what is fed, and what must hold whatever it is."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jsonschema
from hypothesis import strategies as st

from hermesd.errors import PluginError
from hermesd.model.call import Caller, Code, Outcome, effect_of
from hermesd.model.coerce import coerce
from hermesd.model.definition import parse_definition
from hermesd.model.digestible import digestible
from hermesd.model.handover import FORMATS, handed_over
from hermesd.model.lint import lint
from hermesd.model.schema import Schema, SchemaFault
from hermesd.plugin.encode import encode_result
from hermesd.plugin.failure import answer_of
from hermesd.plugin.fault import ResultFault, ToolError
from hermesd.runtimes.runtime import Invocation
from hermesd.serving.policy import CallPolicy
from tests.core_doubles import OPERATOR, Served, raw_tool
from tests.fuzz.runner import Target, simple
from tests.fuzz.value import DEFINITIONS, JSON_VALUES, PYTHON_VALUES, RAW_SCHEMAS, argument_texts, encodable
from tests.schemas import OBJECTS, documents


def strict(text: str) -> Any:
    """As readers take it that follow the standard. Raises ValueError."""

    def refuse(name: str) -> Any:
        raise ValueError(name)

    return json.loads(text.encode(), parse_constant=refuse)


def check_schema(pair: tuple[Any, list[Any]]) -> None:
    """A schema is compiled or refused; a compiled one judges anything; what a model sees is no narrower."""
    raw, instances = pair
    try:
        schema = Schema.compile(raw)
    except SchemaFault:
        return
    try:
        shown = Schema.compile(digestible(raw))
    except SchemaFault as fault:
        raise AssertionError(f"what a model is shown is no schema: {fault}") from fault
    for instance in instances:
        faults = schema.faults(instance)
        assert bool(faults) == (not schema.is_valid(instance))
        json.dumps([each.as_detail() for each in faults])
        if isinstance(instance, dict):
            coerce(instance, schema)
        if not faults:
            assert shown.is_valid(instance), (digestible(raw), instance)


def check_definition(raw: dict[str, Any]) -> None:
    """A definition is parsed or refused with reasons; what is parsed can be shown, linted and digested."""
    try:
        parsed = parse_definition(raw, plugin="orders", version="1.0.0", file="a.py", line=1)
    except PluginError as error:
        unsaid = [each for each in error.rejections if not (each.reason and each.remedy)]
        if unsaid:
            raise AssertionError(unsaid) from error
        return
    definition = parsed.definition
    assert definition.digest.startswith("sha256:")
    lint(definition)
    for to in FORMATS:
        json.dumps(handed_over(definition, definition.parameters, definition.returns, to))


def check_result(value: Any) -> None:
    """Whatever a tool returns is JSON that strict readers take, or a fault that says where it is none."""
    try:
        text = encode_result(value)
    except ResultFault:
        return
    strict(text)


def check_failure(error: tuple[Any, Any, Any]) -> None:
    """Whatever a tool raises is an answer of bounded size that is JSON."""
    message, detail, how = error
    raised: BaseException = ToolError(str(message), detail=detail) if how else ValueError(message)
    answer = answer_of(raised)
    assert Code(answer["code"])
    text = json.dumps(answer)
    assert len(text) < 128 * 1024


@contextmanager
def pipeline() -> Iterator[Callable[[Any], None]]:
    """Arguments of any kind for a tool of any schema, through the whole dispatcher."""
    with asyncio.Runner() as runner:

        def check(case: tuple[dict[str, Any], str | dict[str, Any]]) -> None:
            runner.run(check_call(*case))

        yield check


async def check_call(raw: dict[str, Any], given: str | dict[str, Any]) -> None:
    """OK exactly if the final arguments fit, as an independent validator says; else every fault is told."""
    served = Served()
    got: list[Any] = []

    async def keep(invocation: Invocation) -> Outcome:
        got.append(invocation.arguments)
        assert json.loads(invocation.arguments_json) == invocation.arguments
        return Outcome(Code.OK, invocation.arguments_json)

    try:
        served.offer(raw_tool("orders.query_status", parameters=raw), handler=keep)
    except PluginError:
        return
    text = given if isinstance(given, str) else json.dumps(given)
    result = await served.call("orders.query_status", text)
    assert not served.told.errors
    strict(result.detail_json.encode("utf-8", "replace").decode())
    if result.code is Code.OK:
        assert result.effect == "done"
        strict(result.data_json)
        if not isinstance(given, str):
            assert Schema.compile(raw).is_valid(got[0])
    else:
        assert (result.code, result.effect, got) == (Code.INVALID_ARGUMENT, "none", [])
        assert result.detail["faults"]
        assert result.detail["remedy"]
        if not isinstance(given, str):
            assert not _oracle(raw, given)


def _oracle(raw: dict[str, Any], given: dict[str, Any]) -> bool:
    formats = jsonschema.FormatChecker(["date", "email", "ipv4", "ipv6", "uuid"])
    return bool(jsonschema.Draft202012Validator(raw, format_checker=formats).is_valid(given))


@contextmanager
def weather() -> Iterator[Callable[[Any], None]]:
    with asyncio.Runner() as runner:
        yield lambda seed: runner.run(check_storm(seed))


async def check_storm(number: int) -> None:
    """Calls, cancels, swaps and failures of every kind at random: each call has one answer, nothing leaks."""
    chance = random.Random(number)
    served = Served(CallPolicy(timeouts_ms={"python": 40}, max_concurrency=2, queue_ms=15))
    effects = {name: chance.choice(["none", "read", "write", "destructive"]) for name in ("a", "b", "c")}

    async def work(invocation: Invocation) -> Outcome:
        roll = chance.random()
        await asyncio.sleep(chance.choice([0, 0, 0.001, 0.005, 0.1]))
        if roll < 0.1:
            raise chance.choice([RuntimeError("broken runtime"), TimeoutError(), OSError(5, "io")])
        if roll < 0.3:
            said = chance.choice([None, "none", "done", "unknown"])
            return Outcome(Code.TOOL_ERROR, message="no", effect=said)
        if roll < 0.4:
            return Outcome(Code.UNAVAILABLE, message="gone")
        if roll < 0.5 and invocation.tool.startswith("a."):
            return await invocation.call("b.do_it", {})
        return Outcome(Code.OK, '"ok"')

    def offer(name: str) -> None:
        raw = raw_tool(f"{name}.do_it", side_effects=effects[name], confirm="none")
        served.offer(raw, handler=work, calls=("b.*",))

    for name in effects:
        offer(name)
    agents = [OPERATOR, Caller("ann", "agent", calls=("*",)), Caller("bob", "agent", calls=("a.*",))]
    tasks: list[asyncio.Task[Any]] = []
    for index in range(60):
        tool = f"{chance.choice('abcx')}.do_it"
        request = served.request(
            tool,
            chance.choice(["{}", "{", "[]", '{"a": 1}']),
            caller=chance.choice(agents),
            timeout_ms=chance.choice([None, None, 1, 10]),
        )
        tasks.append(asyncio.create_task(served.dispatcher.call(request)))
        roll = chance.random()
        if roll < 0.15:
            served.dispatcher.cancel(f"r{chance.randint(1, index + 1)}", chance.choice(agents))
        elif roll < 0.25:
            chance.choice(tasks).cancel()
        elif roll < 0.3:
            offer(chance.choice("abc"))
        if chance.random() < 0.5:
            await asyncio.sleep(chance.choice([0, 0.001]))
    async with asyncio.timeout(5):
        answers = await asyncio.gather(*tasks, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, asyncio.CancelledError):
            continue
        assert not isinstance(answer, BaseException), answer
        effects_of = effects.get(answer.tool[0], "none")
        if answer.code is not Code.TOOL_ERROR:
            entered = answer.attempts > 0
            assert answer.effect == effect_of(answer.code, effects_of, entered=entered, stated=None)  # type: ignore[arg-type]
        assert answer.status == "ok" or answer.detail["remedy"]
    for _ in range(200):
        if not list(served.flights):
            break
        await asyncio.sleep(0.005)
    assert not list(served.flights)
    assert all(each.leases == 0 for each in served.instances.values())
    after = [(await served.call(f"{name}.do_it")).code for name in effects]
    assert Code.OVERLOADED not in after, "no place is lost"


FITTING = st.tuples(documents(), st.one_of(OBJECTS, OBJECTS, argument_texts()))
INSTANCES = st.one_of(JSON_VALUES.filter(encodable), OBJECTS)
DETAILS = st.dictionaries(st.text(max_size=3), PYTHON_VALUES, max_size=3)
TARGETS = (
    Target("schemas", st.tuples(RAW_SCHEMAS, st.lists(INSTANCES, max_size=3)), simple(check_schema)),
    Target("definitions", DEFINITIONS, simple(check_definition)),
    Target("results", PYTHON_VALUES, simple(check_result)),
    Target("failures", st.tuples(PYTHON_VALUES, DETAILS, st.booleans()), simple(check_failure)),
    Target("arguments", FITTING, pipeline),
    Target("storms", st.integers(0, 2**32), weather, examples=6),
)
