"""Agreement to calls: tokens that hold for one call, once, for a while, and the operator's word."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from hermesd.access.policy import ALLOWED
from hermesd.errors import NotFoundError, PreconditionError
from hermesd.model.call import Caller, Code, Outcome, Result
from hermesd.model.confirmation import Confirmation
from hermesd.runtimes.runtime import Invocation
from hermesd.serving.confirmation import KEPT_SPENT, MAX_OPEN, Confirmations
from hermesd.serving.policy import CallPolicy
from tests.core_doubles import OPERATOR, Served, SetClock, raw_tool, settle

AGENT = Caller("reporter", "agent")
OTHER = Caller("writer", "agent")
TRUSTED = Caller("deputy", "agent", self_confirm=True)
TOOL = "orders.delete_order"
TTL_S = 60.0


class Desk:
    """A dispatcher with one destructive tool, agents that may call it, and a clock that is moved by hand."""

    def __init__(self, **policy: Any) -> None:
        self.clock = SetClock()
        self.heard: list[tuple[str, Confirmation]] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.confirmations = Confirmations(
            self.clock,
            tell=lambda change, confirmation: self.heard.append((change, confirmation)),
            later=lambda delay_s, action: self.timers.append((delay_s, action)),
        )
        self.served = Served(CallPolicy(confirmation_ttl_s=TTL_S, **policy), confirmations=self.confirmations)
        self.runtime = self.served.offer(raw_tool(TOOL, side_effects="destructive", title="Delete an order"))

    async def call(
        self, arguments: Mapping[str, object] | None = None, token: str = "", **more: Any
    ) -> Result:
        given = {"caller": AGENT, "confirmation_token": token, **more}
        tool = given.pop("tool", TOOL)
        return await self.served.call(tool, json.dumps(arguments or {"id": 7}), **given)

    async def ask(self, arguments: Mapping[str, object] | None = None, **more: Any) -> str:
        """The token of a call that has to be confirmed."""
        result = await self.call(arguments, **more)
        assert result.code is Code.CONFIRMATION_REQUIRED, result
        return str(result.detail["confirmation_token"])

    def approve(self, reference: str) -> Confirmation:
        return self.confirmations.resolve(reference, "approved", OPERATOR)

    @property
    def ran(self) -> list[str]:
        return [each.arguments_json for each in self.runtime.invocations]

    @property
    def changes(self) -> list[str]:
        return [change for change, _ in self.heard]


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr("hermesd.serving.dispatcher.decide", lambda *_: ALLOWED)
    return Desk()


@pytest.mark.promise("CONF-2")
async def test_a_call_that_needs_agreement_says_what_it_would_do_and_runs_nothing(desk: Desk) -> None:
    result = await desk.call({"id": 7}, caller=OPERATOR)
    assert (result.code, result.effect, desk.ran) == (Code.CONFIRMATION_REQUIRED, "none", [])
    assert result.detail["summary"] == f"Delete an order ({TOOL} 1.0.0, destructive) with id=7"
    assert result.detail["expires_at"] == "2030-01-01T00:17:40Z"
    assert result.detail["confirm"] == "caller"
    assert str(result.detail["confirmation_token"]) in (await desk.ask({"id": 7}, caller=OPERATOR))
    assert "confirmation_token" in str(result.detail["remedy"])


@pytest.mark.promise("CONF-1")
@pytest.mark.parametrize("caller", [OPERATOR, TRUSTED])
async def test_the_operator_and_a_trusted_agent_agree_to_their_own_calls(desk: Desk, caller: Caller) -> None:
    token = await desk.ask(caller=caller)
    result = await desk.call(token=token, caller=caller)
    assert (result.code, result.effect, desk.ran) == (Code.OK, "done", ['{"id": 7}'])


@pytest.mark.promise("CONF-1")
@pytest.mark.promise("CONF-6")
async def test_an_agent_waits_for_the_operator(desk: Desk) -> None:
    asked = await desk.call()
    token = str(asked.detail["confirmation_token"])
    [waiting] = desk.confirmations.open()
    assert f"ctl confirmations approve {waiting.id}" in str(asked.detail["remedy"])
    early = await desk.call(token=token)
    assert (early.code, early.detail["confirmation_token"]) == (Code.CONFIRMATION_REQUIRED, token)
    assert early.detail["reason"] == "the operator has not decided yet"
    assert desk.confirmations.awaiting_operator == 1
    desk.approve(waiting.id)
    assert (desk.confirmations.awaiting_operator, desk.ran) == (0, [])
    assert (await desk.call(token=token)).code is Code.OK
    assert desk.confirmations.open() == ()
    assert desk.changes == ["requested", "approved", "used"]


@pytest.mark.promise("CONF-1")
async def test_an_agent_confirms_what_asks_for_its_caller(desk: Desk) -> None:
    desk.runtime = desk.served.offer(raw_tool("mail.send_mail", confirm="caller"))
    token = await desk.ask(tool="mail.send_mail")
    assert (await desk.call(token=token, tool="mail.send_mail")).code is Code.OK


async def test_a_call_that_must_be_confirmed_is_whatever_its_tool_says(desk: Desk) -> None:
    desk.runtime = desk.served.offer(raw_tool("stock.put_item"))
    again = {"tool": "stock.put_item", "must_confirm": True, "caller": OPERATOR}
    token = await desk.ask(**again)
    assert desk.ran == []
    assert (await desk.call(token=token, **again)).code is Code.OK


@pytest.mark.promise("CONF-6")
async def test_what_was_denied_stays_denied_until_it_expires(desk: Desk) -> None:
    token = await desk.ask()
    [waiting] = desk.confirmations.open()
    desk.confirmations.resolve(waiting.id, "denied", OPERATOR, "not on a \x1b[31mFriday")
    for shown in (token, ""):
        result = await desk.call(token=shown)
        assert (result.code, result.effect) == (Code.PERMISSION_DENIED, "none")
        assert result.message == f"the operator has denied this call of {TOOL}: not on a Friday"
        assert "confirmation_token" not in result.detail
    assert await desk.ask({"id": 8}) != token
    desk.clock.at += TTL_S
    assert await desk.ask() != token
    assert desk.ran == []


@pytest.mark.promise("CONF-6")
async def test_the_operator_may_think_better_of_it_until_it_is_used(desk: Desk) -> None:
    token = await desk.ask()
    desk.approve(token)
    desk.confirmations.resolve(token, "denied", OPERATOR)
    assert (await desk.call(token=token)).code is Code.PERMISSION_DENIED
    desk.approve(token)
    desk.approve(token)
    assert (await desk.call(token=token)).code is Code.OK
    with pytest.raises(PreconditionError, match="is used"):
        desk.approve(token)
    assert desk.changes == ["requested", "approved", "denied", "approved", "used"]


@pytest.mark.promise("CONF-3")
@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"arguments": {"id": 8}}, "was given for other arguments"),
        ({"arguments": {"id": "7"}}, "was given for other arguments"),
        ({"arguments": {"id": 7.0}}, "was given for other arguments"),
        ({"session_id": "s2"}, "was given for another session"),
        ({"tool": "orders.delete_all"}, "was given for another tool"),
        ({"caller": OTHER}, "is not known"),
        ({"caller": Caller("reporter", "operator")}, "is not known"),
    ],
)
async def test_a_token_holds_for_the_same_call_alone(desk: Desk, other: dict[str, Any], reason: str) -> None:
    tools = [raw_tool(each, side_effects="destructive") for each in (TOOL, "orders.delete_all")]
    desk.runtime = desk.served.offer(*tools)
    token = await desk.ask()
    desk.approve(token)
    result = await desk.call(token=token, **other)
    assert (result.code, result.effect, desk.ran) == (Code.CONFIRMATION_REQUIRED, "none", [])
    assert reason in str(result.detail["reason"])
    assert result.detail["confirmation_token"] != token
    assert (await desk.call(token=token)).code is Code.OK, "it still holds for its own call"


@pytest.mark.promise("CONF-3")
@pytest.mark.parametrize("change", [{"version": "1.0.1"}, {"description": "does more"}])
async def test_a_token_does_not_hold_for_a_tool_that_changed(desk: Desk, change: dict[str, str]) -> None:
    token = await desk.ask()
    desk.approve(token)
    desk.runtime = desk.served.offer(
        raw_tool(TOOL, side_effects="destructive", title="Delete an order") | change
    )
    result = await desk.call(token=token)
    assert (result.code, desk.ran) == (Code.CONFIRMATION_REQUIRED, [])
    assert "before the tool changed" in str(result.detail["reason"])


@pytest.mark.promise("CONF-3")
async def test_a_token_does_not_hold_for_other_content_of_the_same_definition(desk: Desk) -> None:
    token = await desk.ask()
    desk.approve(token)
    desk.served.instances["orders"].digest = "another"
    assert "before the tool changed" in str((await desk.call(token=token)).detail["reason"])


@pytest.mark.promise("CONF-3")
async def test_the_arguments_that_count_are_those_that_run(desk: Desk) -> None:
    """Order of keys and blanks mean nothing; what normalisation changes is compared as changed."""
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "why": {"type": "string"}}}
    desk.runtime = desk.served.offer(raw_tool(TOOL, side_effects="destructive", parameters=schema))
    token = await desk.ask({"id": 7, "why": "old"}, caller=OPERATOR)
    result = await desk.served.call(
        TOOL, '{"why" : "old", "id": "7"}', caller=OPERATOR, confirmation_token=token
    )
    assert result.code is Code.OK
    assert [dict(each.arguments) for each in desk.runtime.invocations] == [{"id": 7, "why": "old"}]


@pytest.mark.promise("CONF-3")
async def test_a_token_is_never_ignored_where_none_is_needed(desk: Desk) -> None:
    desk.runtime = desk.served.offer(raw_tool("stock.put_item"))
    result = await desk.call(tool="stock.put_item", token="made.up")
    assert (result.code, desk.ran) == (Code.CONFIRMATION_REQUIRED, [])
    assert "without a token" in str(result.detail["remedy"])
    assert "confirmation_token" not in result.detail


@pytest.mark.parametrize("token", ["x", ".", "\ud800.", "a" * 100_000, "密.码"])
async def test_a_token_that_never_was_is_answered_with_one_that_is(desk: Desk, token: str) -> None:
    result = await desk.call(token=token, caller=OPERATOR)
    assert (result.code, result.detail["reason"]) == (
        Code.CONFIRMATION_REQUIRED,
        "the confirmation_token is not known; tokens do not outlive the daemon",
    )
    fresh = str(result.detail["confirmation_token"])
    assert (await desk.call(token=fresh[:-1], caller=OPERATOR)).code is Code.CONFIRMATION_REQUIRED
    assert (await desk.call(token=fresh, caller=OPERATOR)).code is Code.OK


@pytest.mark.promise("CONF-4")
async def test_a_token_runs_its_call_once(desk: Desk) -> None:
    token = await desk.ask(caller=OPERATOR)
    results = await asyncio.gather(*(desk.call(token=token, caller=OPERATOR) for _ in range(10)))
    assert sorted(each.code for each in results) == [Code.CONFIRMATION_REQUIRED] * 9 + [Code.OK]
    reasons = {each.detail["reason"] for each in results if each.code is not Code.OK}
    assert reasons == {"the confirmation_token was used"}
    assert len(desk.ran) == 1


@pytest.mark.promise("CONF-4")
async def test_a_call_that_fails_in_its_tool_has_used_its_token(desk: Desk) -> None:
    async def handler(_: Invocation) -> Outcome:
        return Outcome(Code.TOOL_ERROR, message="half-way")

    desk.runtime.handler = handler
    token = await desk.ask(caller=OPERATOR)
    assert (await desk.call(token=token, caller=OPERATOR)).code is Code.TOOL_ERROR
    again = await desk.call(token=token, caller=OPERATOR)
    assert (again.code, len(desk.ran)) == (Code.CONFIRMATION_REQUIRED, 1)


@pytest.mark.promise("CONF-4")
async def test_a_call_that_ends_before_its_tool_is_entered_leaves_its_token_valid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hermesd.serving.dispatcher.decide", lambda *_: ALLOWED)
    desk = Desk(max_concurrency=1, queue_ms=0)
    release = asyncio.Event()

    async def handler(_: Invocation) -> Outcome:
        await release.wait()
        return Outcome(Code.OK)

    desk.runtime.handler = handler
    first, second = await desk.ask({"id": 1}, caller=OPERATOR), await desk.ask({"id": 2})
    desk.approve(second)
    running = asyncio.create_task(desk.call({"id": 1}, token=first, caller=OPERATOR))
    await settle()
    assert (await desk.call({"id": 2}, token=second)).code is Code.OVERLOADED
    release.set()
    assert (await running).code is Code.OK
    assert (await desk.call({"id": 2}, token=second)).code is Code.OK
    assert desk.changes == ["requested", "requested", "approved", "used", "used"]


@pytest.mark.promise("CONF-4")
async def test_a_caller_that_goes_away_in_the_queue_leaves_its_token_valid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hermesd.serving.dispatcher.decide", lambda *_: ALLOWED)
    desk = Desk(max_concurrency=1, queue_ms=10_000)
    release = asyncio.Event()

    async def handler(_: Invocation) -> Outcome:
        await release.wait()
        return Outcome(Code.OK)

    desk.runtime.handler = handler
    first, second = await desk.ask({"id": 1}, caller=OPERATOR), await desk.ask({"id": 2}, caller=OPERATOR)
    running = asyncio.create_task(desk.call({"id": 1}, token=first, caller=OPERATOR))
    await settle()
    waiting = asyncio.create_task(desk.call({"id": 2}, token=second, caller=OPERATOR))
    await settle()
    waiting.cancel()
    await asyncio.wait([waiting])
    release.set()
    await running
    assert (await desk.call({"id": 2}, token=second, caller=OPERATOR)).code is Code.OK


async def test_nobody_is_asked_about_a_tool_that_cannot_run(desk: Desk) -> None:
    desk.runtime.refusal = ("its worker is down", "wait")
    assert (await desk.call()).code is Code.UNAVAILABLE
    assert desk.confirmations.open() == ()


async def test_nobody_is_asked_about_arguments_that_do_not_fit(desk: Desk) -> None:
    schema = {"type": "object", "required": ["id"]}
    desk.served.offer(raw_tool(TOOL, side_effects="destructive", parameters=schema))
    assert (await desk.call({"other": 1})).code is Code.INVALID_ARGUMENT
    assert desk.confirmations.open() == ()


@pytest.mark.promise("CONF-5")
async def test_a_token_ends_with_its_time(desk: Desk) -> None:
    token = await desk.ask(caller=OPERATOR)
    desk.clock.at += TTL_S - 0.001
    assert len(desk.confirmations.open()) == 1
    desk.clock.at += 0.001
    result = await desk.call(token=token, caller=OPERATOR)
    assert (result.code, result.detail["reason"]) == (
        Code.CONFIRMATION_REQUIRED,
        "the confirmation_token is expired",
    )
    assert desk.changes == ["requested", "expired", "requested"]
    with pytest.raises(PreconditionError, match="is expired"):
        desk.confirmations.resolve(token, "denied", OPERATOR)


@pytest.mark.promise("CONF-5")
async def test_an_approval_lasts_as_long_again(desk: Desk) -> None:
    token = await desk.ask()
    desk.clock.at += TTL_S - 1
    assert desk.approve(token).expires_at == desk.clock.now().replace() + (
        desk.heard[0][1].expires_at - desk.heard[0][1].created_at
    )
    desk.clock.at += TTL_S - 1
    assert (await desk.call(token=token)).code is Code.OK


@pytest.mark.promise("CONF-5")
async def test_what_expires_is_told_when_it_does(desk: Desk) -> None:
    await desk.ask({"id": 1})
    desk.clock.at += 10
    await desk.ask({"id": 2})
    assert [delay for delay, _ in desk.timers] == [TTL_S]
    desk.clock.at += TTL_S - 10
    desk.timers[0][1]()
    assert desk.changes == ["requested", "requested", "expired"]
    assert [delay for delay, _ in desk.timers] == [TTL_S, 10]
    desk.clock.at += 10
    desk.timers[1][1]()
    assert (desk.changes[3:], len(desk.timers)) == (["expired"], 2)


@pytest.mark.promise("CONF-5")
async def test_another_daemon_knows_no_token_of_this_one(desk: Desk) -> None:
    token = await desk.ask(caller=OPERATOR)
    after = Desk()
    assert (await after.call(token=token, caller=OPERATOR)).code is Code.CONFIRMATION_REQUIRED
    assert after.ran == []


@pytest.mark.promise("CONF-5")
async def test_tokens_of_an_agent_end_with_it(desk: Desk) -> None:
    token, other = await desk.ask(), await desk.ask(caller=OTHER)
    desk.approve(token)
    desk.approve(other)
    desk.confirmations.forget("reporter")
    assert (await desk.call(token=token)).code is Code.CONFIRMATION_REQUIRED
    assert (await desk.call(token=other, caller=OTHER)).code is Code.OK


@pytest.mark.promise("CONF-6")
async def test_an_agent_that_lost_its_right_needs_the_operator_again(desk: Desk) -> None:
    demoted = Caller(TRUSTED.name, "agent")
    token = await desk.ask(caller=TRUSTED)
    result = await desk.call(token=token, caller=demoted)
    assert (result.code, result.detail["confirm"], desk.ran) == (Code.CONFIRMATION_REQUIRED, "operator", [])
    assert "needs the operator" in str(result.detail["reason"])
    assert (await desk.call(token=token, caller=TRUSTED)).code is Code.CONFIRMATION_REQUIRED


async def test_the_operator_does_not_confirm_for_a_caller_but_may_stop_it(desk: Desk) -> None:
    token = await desk.ask(caller=TRUSTED)
    with pytest.raises(PreconditionError, match="its caller's own"):
        desk.approve(token)
    desk.confirmations.resolve(token, "denied", OPERATOR)
    assert (await desk.call(token=token, caller=TRUSTED)).code is Code.PERMISSION_DENIED


@pytest.mark.parametrize("reference", ["00000000", "", "ID.wrong", "\x1b[31m"])
async def test_the_operator_decides_what_exists(desk: Desk, reference: str) -> None:
    token = await desk.ask()
    with pytest.raises(NotFoundError):
        desk.approve(reference.replace("ID", token.partition(".")[0]))


@pytest.mark.promise("CONF-9")
async def test_asking_again_asks_the_operator_once(desk: Desk) -> None:
    tokens = {await desk.ask() for _ in range(10)}
    assert (len(tokens), len(desk.confirmations.open())) == (1, 1)
    desk.approve(tokens.pop())
    result = await desk.call()
    assert result.message == f"the operator has approved this call of {TOOL}"
    assert (await desk.call(token=str(result.detail["confirmation_token"]))).code is Code.OK


@pytest.mark.promise("CONF-9")
async def test_one_agent_cannot_fill_the_operators_list(desk: Desk) -> None:
    for each in range(MAX_OPEN):
        await desk.ask({"id": each})
    result = await desk.call({"id": "more"})
    assert (result.code, result.retryable) == (Code.OVERLOADED, True)
    assert result.detail["retry_after_ms"] == TTL_S * 1000 + 1
    await desk.ask({"id": 1}, caller=OTHER)
    desk.clock.at += TTL_S
    await desk.ask({"id": "more"})


@pytest.mark.promise("CONF-9")
async def test_what_a_caller_leaves_unconfirmed_gives_way_and_nothing_else_does(desk: Desk) -> None:
    desk.served.offer(raw_tool("mail.send_mail", confirm="caller"))
    kept = await desk.ask({"id": "kept"})
    oldest = await desk.ask({"id": 0}, tool="mail.send_mail")
    for each in range(1, MAX_OPEN):
        await desk.ask({"id": each}, tool="mail.send_mail")
    result = await desk.call({"id": 0}, token=oldest, tool="mail.send_mail")
    assert "is replaced" in str(result.detail["reason"])
    desk.approve(kept)
    assert (await desk.call({"id": "kept"}, token=kept)).code is Code.OK


async def test_what_is_remembered_of_the_past_is_bounded(desk: Desk) -> None:
    for each in range(KEPT_SPENT + 10):
        token = await desk.ask({"id": each}, caller=OPERATOR)
        desk.confirmations.resolve(token, "denied", OPERATOR)
        desk.clock.at += TTL_S
    desk.confirmations.sweep()
    assert len(desk.confirmations._spent) == KEPT_SPENT
    assert not desk.confirmations._by_binding


@pytest.mark.promise("CONF-10")
async def test_a_plugin_cannot_show_a_token_of_its_callers(desk: Desk) -> None:
    token = await desk.ask(caller=OPERATOR)
    plugin = Caller("text", "plugin", calls=("*",), on_behalf_of=OPERATOR)
    assert (await desk.call(token=token, caller=plugin)).code is Code.PERMISSION_DENIED
    assert desk.ran == []


async def test_a_streamed_call_is_confirmed_as_any_other(desk: Desk) -> None:
    token = await desk.ask(caller=OPERATOR)
    request = desk.served.request(TOOL, '{"id": 7}', confirmation_token=token)
    assert (await desk.served.dispatcher.call(request, lambda *_: None)).code is Code.OK


@pytest.mark.promise("CONF-5")
async def test_what_a_cut_call_gives_back_is_not_the_next_agents_of_that_name(desk: Desk) -> None:
    """The call waits for a place when its agent is revoked, and has not begun."""
    token = await desk.ask()
    desk.approve(token)
    hold = asyncio.Event()

    async def wait(*_: object) -> None:
        await hold.wait()

    desk.served.dispatcher._queue_and_run = wait  # type: ignore[assignment,method-assign]
    waiting = asyncio.create_task(desk.call(token=token, request_id="waits"))
    await settle()
    desk.served.dispatcher.cancel("waits", AGENT)
    desk.confirmations.forget("reporter")
    assert (await waiting).code is Code.CANCELLED
    del desk.served.dispatcher._queue_and_run
    assert (await desk.call(token=token)).code is Code.CONFIRMATION_REQUIRED
    assert desk.ran == []
