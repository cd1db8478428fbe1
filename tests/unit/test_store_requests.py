"""The ledger in its file: what a life of the daemon leaves to the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hermesd.clock import SystemClock
from hermesd.errors import StoreError
from hermesd.model.call import Code, Result
from hermesd.model.intent import Intent, Recorded, fate_unknown, result_from, result_text
from hermesd.store.database import Database
from hermesd.store.requests import RequestLedger, open_state
from hermesd.store.writer import Writer

BEGAN = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)
KEY = ("agent:书", "orders.place_order", "键")
INTENT = Intent(
    id="i1", request_id="r1", parent_request_id="", session_id="s", principal=KEY[0], tool=KEY[1],
    version="1.0.0", generation=3, source="python", plugin="orders", side_effects="write", repeatable=False,
    idempotency_key=KEY[2], digest="sha256:a", began=BEGAN,
)  # fmt: skip
RESULT = Result(
    code=Code.OK, message="", data_json='{"n": 12345678901234567890123, "文": "\\ud83d"}', request_id="r1",
    session_id="s", tool=KEY[1], version="1.0.0", generation=3, attempts=1, duration_ms=1.5, queued_ms=0.25,
    retryable=False, effect="done", detail={"coerced": [{"path": "/a"}]},
)  # fmt: skip


class Life:
    """One life of a daemon on a file."""

    def __init__(self, folder: Path, boot: str) -> None:
        self.folder = folder
        self.boot = boot
        self.interrupted: list[Intent] = []
        self.writer = Writer(self._open, name="state")
        self.ledger = RequestLedger(self.writer, boot)

    def _open(self) -> Database:
        mark = self.folder / "state.high-water"
        return open_state(
            self.folder / "state.duckdb",
            mark,
            boot=self.boot,
            clock=SystemClock(),
            interrupted=self.interrupted.extend,
        )

    def end(self) -> None:
        self.writer.close(10)


@pytest.fixture
def first(tmp_path: Path) -> Iterator[Life]:
    life = Life(tmp_path, "one")
    yield life
    life.end()


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Life]:
    life = Life(tmp_path, "two")
    yield life
    life.end()


async def test_a_result_comes_back_as_it_was(first: Life, second: Life) -> None:
    await first.ledger.begin(INTENT)
    assert await first.ledger.find(*KEY, since=BEGAN) is None
    first.ledger.end(INTENT, RESULT).result(10)
    first.end()
    assert await second.ledger.find(*KEY, since=BEGAN) == Recorded("sha256:a", RESULT)
    assert second.interrupted == []
    for other in ((*KEY[:2], "k"), (KEY[0], "orders.other", KEY[2]), ("operator", *KEY[1:])):
        assert await second.ledger.find(*other, since=BEGAN) is None
    assert await second.ledger.find(*KEY, since=BEGAN + timedelta(microseconds=1)) is None


async def test_what_was_begun_and_never_ended_is_told_and_answers_unknown(first: Life, second: Life) -> None:
    unkeyed = replace(INTENT, id="i2", request_id="r2", idempotency_key="", digest="")
    repeatable = replace(INTENT, id="i3", tool="orders.put", repeatable=True)
    freed = replace(INTENT, id="i4", idempotency_key="freed")
    for each in (INTENT, unkeyed, repeatable, freed):
        await first.ledger.begin(each)
    first.ledger.end(freed, None).result(0)
    first.ledger.flush()
    first.end()
    found = await second.ledger.find(*KEY, since=BEGAN)
    assert found is not None
    assert found.result == fate_unknown(INTENT)
    assert (found.result.code, found.result.effect) == (Code.UNAVAILABLE, "unknown")
    assert second.interrupted == [INTENT, unkeyed, repeatable]
    assert await second.ledger.find(KEY[0], "orders.put", KEY[2], since=BEGAN) is None
    assert await second.ledger.find(*KEY[:2], "freed", since=BEGAN) is None
    second.end()
    third = Life(first.folder, "three")
    assert await third.ledger.find(*KEY, since=BEGAN) is not None
    assert third.interrupted == []
    third.end()


async def test_the_intent_of_an_ended_call_goes_with_the_next_or_soon(
    first: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = "SELECT id FROM intents ORDER BY id"
    await first.ledger.begin(INTENT)
    first.ledger.end(INTENT, None)
    assert await first.writer.read(count) == [("i1",)]
    await first.ledger.begin(replace(INTENT, id="i2"))
    assert await first.writer.read(count) == [("i2",)]
    monkeypatch.setattr("hermesd.store.requests.END_S", 0.0)
    first.ledger.end(replace(INTENT, id="i2"), None)
    async with asyncio.timeout(10):
        while await first.writer.read(count):
            await asyncio.sleep(0.01)


async def test_opening_again_in_the_same_life_leaves_what_goes_on_alone(first: Life) -> None:
    await first.ledger.begin(INTENT)
    first.end()
    again = Life(first.folder, "one")
    assert await again.ledger.find(*KEY, since=BEGAN) is None
    assert again.interrupted == []
    again.ledger.end(INTENT, RESULT).result(10)
    assert await again.ledger.find(*KEY, since=BEGAN) is not None
    again.end()


async def test_a_doubt_replaces_an_older_answer_of_its_key_and_never_a_later_one(
    first: Life, second: Life
) -> None:
    old = replace(INTENT, id="old", idempotency_key="again", began=BEGAN - timedelta(days=2))
    await first.ledger.begin(old)
    first.ledger.end(old, RESULT).result(10)
    await first.ledger.begin(replace(old, id="new", began=BEGAN))
    late = replace(INTENT, id="late")
    await first.ledger.begin(replace(INTENT, id="stale", began=BEGAN - timedelta(days=2)))
    await first.ledger.begin(late)
    first.ledger.end(late, RESULT).result(10)
    first.end()
    doubt = await second.ledger.find(*KEY[:2], "again", since=BEGAN)
    assert doubt is not None
    assert doubt.result.effect == "unknown"
    answer = await second.ledger.find(*KEY, since=BEGAN)
    assert answer is not None
    assert answer.result == RESULT


async def test_a_sweep_forgets_what_answers_no_more_and_opens_nothing(first: Life) -> None:
    assert first.ledger.sweep(BEGAN) is None
    assert not list(first.folder.iterdir())
    young = replace(INTENT, id="young", idempotency_key="young", began=BEGAN + timedelta(seconds=1))
    for each in (INTENT, young):
        await first.ledger.begin(each)
        first.ledger.end(each, RESULT).result(10)
    swept = first.ledger.sweep(BEGAN + timedelta(seconds=1))
    assert swept is not None
    assert swept.result(10) == 1
    assert await first.ledger.find(*KEY, since=BEGAN - timedelta(days=1)) is None
    assert await first.ledger.find(*KEY[:2], "young", since=BEGAN) is not None


async def test_a_record_that_cannot_be_written_leaves_its_intent(first: Life, second: Life) -> None:
    """Without its record the key would be free, and the call could run twice."""
    await first.ledger.begin(INTENT)
    broken = replace(INTENT, principal="half \ud800")
    with pytest.raises(StoreError):
        first.ledger.end(broken, RESULT).result(10)
    first.end()
    found = await second.ledger.find(*KEY, since=BEGAN)
    assert found is not None
    assert found.result.effect == "unknown"


def test_half_a_character_in_a_result_survives() -> None:
    strange = replace(RESULT, message="half \ud800", data_json='"文"')
    assert result_from(result_text(strange)) == strange
    result_text(strange).encode()


def test_a_result_of_a_newer_build_is_read_without_what_is_unknown() -> None:
    text = result_text(RESULT).replace('"code":', '"colour":"red","code":')
    assert result_from(text) == RESULT


async def test_the_end_of_a_call_is_written_again_when_the_disk_refused_it(
    first: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next life tells of calls that ended as of calls that were interrupted."""
    await first.ledger.begin(replace(INTENT, idempotency_key=""))
    first.ledger.end(INTENT, None)
    with monkeypatch.context() as patch:
        patch.setattr(first.writer, "_transaction", lambda *_: OSError("No space left on device"))
        first.ledger.flush()
        with pytest.raises(StoreError):
            await asyncio.wrap_future(first.writer.open())
    await asyncio.sleep(0)
    first.ledger.flush()
    await asyncio.wrap_future(first.writer.open())  # written in the order in which it came
    assert await first.writer.read("SELECT id FROM intents") == []
