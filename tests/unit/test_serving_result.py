"""The stages after the runtime, through the dispatcher."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hermesd.clock import SystemClock
from hermesd.errors import InvalidRequestError, NotFoundError
from hermesd.model.call import Caller, Code, Outcome
from hermesd.model.token import estimated_tokens
from hermesd.runtimes.runtime import Invocation
from hermesd.serving.dispatcher import Dispatcher
from hermesd.serving.output import Outputs
from hermesd.serving.policy import CallPolicy
from hermesd.store.output import OutputStore
from tests.core_doubles import OPERATOR, Served, raw_tool

AGENT = Caller("reporter", "agent")
OTHER = Caller("other", "agent")
INTEGERS = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def answering(data: Any, content: Any = None) -> Any:
    async def handler(invocation: Invocation) -> Outcome:
        text = "" if content is None else json.dumps(content)
        return Outcome(Code.OK, json.dumps(data, ensure_ascii=False), content_json=text)

    return handler


class Keeping(Served):
    """A dispatcher that keeps what it cuts."""

    def __init__(self, folder: Path, policy: CallPolicy | None = None, **limits: Any) -> None:
        super().__init__(policy)
        self.troubles: list[str] = []
        self.store = OutputStore(folder / "output", SystemClock(), **limits)
        self.store.open()
        self.outputs = Outputs(self.store, self.troubles.append)
        self.dispatcher = Dispatcher(
            self.registry, self.flights, policy or CallPolicy(), self.told, self.clock, outputs=self.outputs
        )


# returns


@pytest.mark.promise("OUT-1")
async def test_a_result_that_its_definition_promises_passes():
    served = Served()
    served.offer(raw_tool("a.b_c", returns=INTEGERS), handler=answering({"n": 1}))
    assert (await served.call("a.b_c")).data_json == '{"n": 1}'


@pytest.mark.promise("OUT-1")
async def test_a_result_that_it_excludes_is_invalid_and_says_where_and_that_the_tool_did_run():
    served = Served()
    served.offer(raw_tool("a.b_c", returns=INTEGERS), handler=answering({"n": "one"}))
    result = await served.call("a.b_c")
    assert (result.code, result.effect, result.data_json) == (Code.INVALID_RESULT, "done", "null")
    assert result.detail["faults"][0]["path"] == "/n"  # type: ignore[index]
    assert "/n" in result.message
    assert result.detail["remedy"]
    assert not result.retryable


@pytest.mark.promise("OUT-1")
@pytest.mark.parametrize(("side_effects", "effect"), [("none", "none"), ("read", "none")])
async def test_the_effect_of_an_invalid_result_is_that_of_its_tool(side_effects: str, effect: str):
    served = Served()
    served.offer(raw_tool("a.b_c", returns=INTEGERS, side_effects=side_effects), handler=answering(None))
    result = await served.call("a.b_c")
    assert (result.code, result.effect) == (Code.INVALID_RESULT, effect)


@pytest.mark.promise("OUT-1")
async def test_a_failure_is_not_measured_by_what_results_must_be():
    async def fails(_: Invocation) -> Outcome:
        return Outcome(Code.TOOL_ERROR, message="no")

    served = Served()
    served.offer(raw_tool("a.b_c", returns=INTEGERS), handler=fails)
    assert (await served.call("a.b_c")).code is Code.TOOL_ERROR


@pytest.mark.promise("OUT-1")
@pytest.mark.parametrize("text", ["[" * 500 + "]" * 500, "[" * 100_000 + "]" * 100_000, "9" * 5000, "{"])
async def test_what_no_reader_can_read_is_invalid_and_harms_nothing(text: str):
    async def handler(_: Invocation) -> Outcome:
        return Outcome(Code.OK, text)

    served = Served()
    served.offer(raw_tool("a.b_c", returns={"type": "object"}), handler=handler)
    result = await served.call("a.b_c")
    assert (result.code, result.effect) == (Code.INVALID_RESULT, "done")
    assert served.told.errors == []


# shortening


@pytest.mark.promise("OUT-3")
async def test_a_result_of_up_to_two_thousand_tokens_is_not_touched(tmp_path: Path):
    served = Keeping(tmp_path)
    served.offer(raw_tool("a.b_c"), handler=answering("word " * 1990))
    result = await served.call("a.b_c")
    assert not result.truncated
    assert json.loads(result.data_json) == "word " * 1990
    assert "output" not in result.detail
    assert served.store.size == 0


@pytest.mark.promise("OUT-3")
@pytest.mark.promise("OUT-4")
async def test_a_longer_one_is_cut_and_its_whole_is_kept(tmp_path: Path):
    served = Keeping(tmp_path)
    rows = [{"id": each, "name": f"数据 {each}"} for each in range(20_000)]
    served.offer(raw_tool("a.b_c"), handler=answering(rows))
    result = await served.call("a.b_c", request_id="r1")
    assert result.truncated
    assert estimated_tokens(result.data_json) <= 1050
    short = json.loads(result.data_json)
    assert short[0] == rows[0]
    assert short[-1] == rows[-1]
    output: Any = result.detail["output"]
    whole = json.dumps(rows, ensure_ascii=False)
    assert output["bytes"] == len(whole.encode())
    assert output["expires_at"].endswith("Z")
    pages, offset = [], 0
    while True:
        data, offset, total = await served.outputs.page(OPERATOR, "r1", "", offset)
        assert len(data.encode()) <= 1024 * 1024
        pages.append(data)
        if offset >= total:
            break
    assert "".join(pages) == whole
    assert total == len(whole.encode())


@pytest.mark.promise("OUT-3")
async def test_what_is_cut_is_still_what_the_tool_promised_when_it_was_whole(tmp_path: Path):
    served = Keeping(tmp_path)
    returns = {"type": "array", "items": {"type": "integer"}}
    served.offer(raw_tool("a.b_c", returns=returns), handler=answering(list(range(5000))))
    result = await served.call("a.b_c")
    assert (result.code, result.truncated) == (Code.OK, True)


@pytest.mark.promise("OUT-3")
async def test_a_number_that_no_float_holds_is_no_infinity_afterwards(tmp_path: Path):
    async def handler(_: Invocation) -> Outcome:
        return Outcome(Code.OK, "[1e999," + "1.5," * 5000 + "2]")

    served = Keeping(tmp_path)
    served.offer(raw_tool("a.b_c"), handler=handler)
    result = await served.call("a.b_c")
    assert result.data_json.startswith('["1e999"')
    assert "Infinity" not in result.data_json


@pytest.mark.promise("OUT-2")
@pytest.mark.promise("OUT-3")
async def test_texts_of_the_content_are_cut_and_images_stay(tmp_path: Path):
    content = [
        {"type": "text", "text": "word " * 5000},
        {"type": "image", "data": "AAAA" * 9000, "mime_type": "image/png"},
        {"type": "text", "text": "end"},
    ]
    served = Keeping(tmp_path)
    served.offer(raw_tool("a.b_c"), handler=answering({"n": 1}, content))
    result = await served.call("a.b_c", request_id="r1")
    assert result.truncated
    assert result.data_json == '{"n": 1}'
    short = json.loads(result.content_json)
    assert "characters left out" in short[0]["text"]
    assert short[1:] == content[1:]
    page, _, _ = await served.outputs.page(OPERATOR, "r1", "content", 0)
    assert json.loads(page) == content


@pytest.mark.promise("OUT-3")
async def test_a_tool_that_calls_another_gets_the_whole(tmp_path: Path):
    served = Keeping(tmp_path)

    async def outer(invocation: Invocation) -> Outcome:
        inner = await invocation.call("inner.b_c", {})
        return Outcome(Code.OK, str(len(inner.data_json)))

    served.offer(raw_tool("inner.b_c"), handler=answering("word " * 5000))
    served.offer(raw_tool("outer.b_c"), handler=outer, calls=("inner.*",))
    assert (await served.call("outer.b_c")).data_json == str(25_002)
    assert served.store.size == 0


# who reads


@pytest.mark.promise("OUT-4")
async def test_what_is_anothers_is_as_if_it_were_not_there(tmp_path: Path):
    served = Keeping(tmp_path)
    await served.outputs.keep("output", "agent:reporter", "r1", data='"it"')
    assert (await served.outputs.page(AGENT, "r1", "", 0))[0] == '"it"'
    assert (await served.outputs.page(OPERATOR, "r1", "", 0))[0] == '"it"'
    for nobody in (OTHER, Caller("p", "plugin", on_behalf_of=AGENT)):
        with pytest.raises(NotFoundError) as hidden:
            await served.outputs.page(nobody, "r1", "", 0)
        with pytest.raises(NotFoundError) as absent:
            await served.outputs.page(nobody, "r2", "", 0)
        assert hidden.value.message.replace("r1", "r2") == absent.value.message
        assert hidden.value.remedy == absent.value.remedy


@pytest.mark.promise("OUT-4")
async def test_two_callers_with_one_id_do_not_meet(tmp_path: Path):
    served = Keeping(tmp_path)
    await served.outputs.keep("output", "agent:reporter", "r1", data="1")
    await served.outputs.keep("output", "agent:other", "r1", data="2")
    assert (await served.outputs.page(AGENT, "r1", "", 0))[0] == "1"
    assert (await served.outputs.page(OTHER, "r1", "", 0))[0] == "2"


@pytest.mark.promise("OUT-4")
async def test_pages_are_cut_between_characters(tmp_path: Path):
    served = Keeping(tmp_path)
    whole = '"' + "数" * 500_000 + '"'
    await served.outputs.keep("output", "operator:operator", "r1", data=whole)
    data, offset, total = await served.outputs.page(OPERATOR, "r1", "", 0)
    assert len(data.encode()) == offset
    assert 1024 * 1024 - 3 < offset <= 1024 * 1024
    rest, end, _ = await served.outputs.page(OPERATOR, "r1", "", offset)
    assert data + rest == whole
    assert end == total
    for wrong in (2, -1, total + 1):
        with pytest.raises(InvalidRequestError):
            await served.outputs.page(OPERATOR, "r1", "", wrong)
    with pytest.raises(InvalidRequestError):
        await served.outputs.page(OPERATOR, "r1", "nonsense", 0)
    assert await served.outputs.page(OPERATOR, "r1", "", total) == ("", total, total)


# disks


@pytest.mark.promise("OUT-5")
async def test_a_disk_that_takes_no_more_costs_no_call_its_answer(tmp_path: Path):
    served = Keeping(tmp_path)
    served.offer(raw_tool("a.b_c"), handler=answering("word " * 5000))
    folder = tmp_path / "output"
    folder.rename(tmp_path / "away")
    for _ in range(2):
        result = await served.call("a.b_c", request_id="r1")
        output: Any = result.detail["output"]
        assert (result.code, result.truncated) == (Code.OK, True)
        assert "No such file" in output["lost"]  # the operator asked: an agent hears less
        assert "expires_at" not in output
    with pytest.raises(NotFoundError):
        await served.outputs.page(OPERATOR, "r1", "", 0)
    (tmp_path / "away").rename(folder)
    assert "expires_at" in (await served.call("a.b_c")).detail["output"]  # type: ignore[operator]
    assert len(served.troubles) == 2
    assert "cannot write" in served.troubles[0]
    assert served.troubles[1] == ""


@pytest.mark.promise("OUT-5")
async def test_one_larger_than_all_may_be_is_answered_and_not_kept(tmp_path: Path):
    served = Keeping(tmp_path, max_bytes=1000)
    served.offer(raw_tool("a.b_c"), handler=answering("word " * 5000))
    output: Any = (await served.call("a.b_c")).detail["output"]
    assert "keep_mb" not in output["lost"]
    assert "more than all kept outputs" in output["lost"]
