"""Whatever callers, the operator and time do: what runs was agreed to, as it is, by whom it needs, once."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hermesd.access.policy import ALLOWED
from hermesd.errors import HermesdError
from hermesd.model.call import Caller, Code, Outcome
from hermesd.model.confirmation import Confirmation
from hermesd.runtimes.runtime import Invocation
from hermesd.serving import dispatcher
from hermesd.serving.confirmation import MAX_OPEN, Confirmations
from hermesd.serving.policy import CallPolicy
from tests.core_doubles import OPERATOR, Served, SetClock, raw_tool

TTL_S = 10.0
CALLERS = (OPERATOR, Caller("a", "agent"), Caller("b", "agent"), Caller("c", "agent", self_confirm=True))
TOOLS = {"t.destroy_it": "destructive", "t.read_it": "read", "t.ask_first": "write"}
Key = tuple[str, str, int, str]

callers = st.sampled_from(CALLERS)
tools = st.sampled_from(sorted(TOOLS))
numbers = st.integers(0, 2)
sessions = st.sampled_from(["", "s"])
picks = st.integers(0, 5)


class Machine(RuleBasedStateMachine):
    """The model: the approvals that the operator gave, and the tokens that each caller was given."""

    @initialize()
    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = SetClock()
        self.heard: Counter[str] = Counter()
        self.confirmations = Confirmations(self.clock, tell=self._hear, later=lambda *_: None)
        self.served = Served(CallPolicy(confirmation_ttl_s=TTL_S), confirmations=self.confirmations)
        self.runtime = self.served.offer(
            *(
                raw_tool(name, side_effects=effects)
                for name, effects in TOOLS.items()
                if name != "t.ask_first"
            ),
            raw_tool("t.ask_first", confirm="caller"),
            handler=self._run,
        )
        self.ran: list[str] = []
        self.used: set[str] = set()
        #: Token → the call that it was given for, and until when it may hold at the latest.
        self.tokens: dict[str, Key] = {}
        self.until: dict[str, float] = {}
        self.approved: set[str] = set()

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()

    def _hear(self, change: str, confirmation: Confirmation) -> None:
        self.heard[change] += 1

    async def _run(self, invocation: Invocation) -> Outcome:
        self.ran.append(invocation.tool)
        return Outcome(Code.OK)

    def _call(self, key: Key, token: str) -> Any:
        name, tool, number, session = key
        caller = next(each for each in CALLERS if each.name == name)
        arguments = json.dumps({"n": number})
        call = self.served.call(tool, arguments, caller=caller, session_id=session, confirmation_token=token)
        before = len(self.ran)
        result = self.loop.run_until_complete(call)
        ran = len(self.ran) - before
        assert ran == (result.code is Code.OK)
        if "confirmation_token" in result.detail:
            given = str(result.detail["confirmation_token"])
            assert self.tokens.setdefault(given, key) == key, "a token is given to one call"
            assert given not in self.used
            self.until.setdefault(given, self.clock.at + TTL_S)
        return result

    def _known(self, pick: int) -> str:
        """One of the last tokens; not drawn by itself, which is random: "" when there is none."""
        return list(self.tokens)[-1 - pick % len(self.tokens)] if self.tokens else ""

    @rule(caller=callers, tool=tools, number=numbers, session=sessions)
    def ask(self, caller: Caller, tool: str, number: int, session: str) -> None:
        result = self._call((caller.name, tool, number, session), "")
        expected = {Code.OK} if tool == "t.read_it" else {Code.CONFIRMATION_REQUIRED, Code.PERMISSION_DENIED}
        assert result.code in expected

    @rule(pick=picks, same=st.booleans(), caller=callers, tool=tools, number=numbers, session=sessions)
    def show(self, pick: int, same: bool, caller: Caller, tool: str, number: int, session: str) -> None:
        token = self._known(pick)
        if not token:
            return
        key = self.tokens[token] if same else (caller.name, tool, number, session)
        result = self._call(key, token)
        if result.code is not Code.OK:
            return
        assert key == self.tokens[token], "it ran something else than was agreed to"
        assert token not in self.used, "it ran twice"
        assert self.clock.at < self.until[token], "it ran after its time"
        if key[0] in ("a", "b") and key[1] == "t.destroy_it":
            assert token in self.approved, "it ran without the operator"
        self.used.add(token)

    @rule(pick=picks, approve=st.booleans())
    def decide(self, pick: int, approve: bool) -> None:
        token = self._known(pick)
        if not token:
            return
        try:
            self.confirmations.resolve(token, "approved" if approve else "denied", OPERATOR)
        except HermesdError:
            return
        assert token not in self.used
        assert self.clock.at < self.until[token]
        if approve and token not in self.approved:
            self.approved.add(token)
            self.until[token] = self.clock.at + TTL_S
        elif not approve:
            self.approved.discard(token)

    @rule(seconds=st.sampled_from([1.0, 4.0, TTL_S]))
    def wait(self, seconds: float) -> None:
        self.clock.at += seconds

    @invariant()
    def what_is_open_is_bounded_and_alive(self) -> None:
        if not hasattr(self, "confirmations"):
            return
        opened = self.confirmations.open()
        assert len(opened) <= MAX_OPEN * len(CALLERS)
        assert all(each.deadline > self.clock.at for each in opened)
        assert {each.token for each in opened} <= self.tokens.keys() - self.used
        assert len({each.binding for each in opened}) == len(opened)
        ended = self.heard["requested"] - self.heard["used"] - self.heard["expired"]
        assert ended == len(opened), "each that was asked for is used, expires, or is open"


Machine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


@pytest.mark.promise("CONF-3")
@pytest.mark.promise("CONF-4")
@pytest.mark.promise("CONF-6")
class TestConfirmation(Machine.TestCase):  # type: ignore[name-defined,misc] # made by Hypothesis
    @pytest.fixture(autouse=True)
    def agents_may_call(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dispatcher, "decide", lambda *_: ALLOWED)
