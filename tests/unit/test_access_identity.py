"""The roster: who a token shows, and which callers still are who they were."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hermesd.access.identity import Agent, Identities, new_token, token_sha256
from hermesd.errors import UnauthenticatedError
from hermesd.model.call import Caller, Rights
from tests.core_doubles import SetClock

TOKEN = new_token()
DIGEST = token_sha256(TOKEN)


def named(name: str = "reporter", digest: str = DIGEST, **rights: Any) -> dict[str, Agent]:
    return {name: Agent(name, Rights(allow=("*",), **rights), digest)}


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def identities(clock: SetClock) -> Identities:
    return Identities(clock)


@pytest.mark.promise("IDN-1")
def test_a_token_has_256_random_bits_and_only_its_digest_is_kept(identities: Identities) -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(re.fullmatch(r"hermesd_[A-Za-z0-9_-]{43}", each) for each in tokens)
    identities.replace(named(), {})
    caller = identities.of_token(TOKEN)
    assert (caller.name, caller.kind, caller.rights) == ("reporter", "agent", Rights(allow=("*",)))
    assert TOKEN not in repr(list(identities.roster))


@pytest.mark.promise("IDN-1")
@pytest.mark.parametrize("token", ["", " ", TOKEN + "x", TOKEN[:-1], DIGEST, "x" * 5000, "\udc80", "中文"])
def test_any_other_token_is_nobodys(identities: Identities, token: str) -> None:
    identities.replace(named(), {})
    with pytest.raises(UnauthenticatedError):
        identities.of_token(token)


def test_an_agent_without_a_token_is_shown_by_a_certificate_alone(identities: Identities) -> None:
    identities.replace({}, named(digest=""))
    for token in ("", token_sha256("")):
        with pytest.raises(UnauthenticatedError):
            identities.of_token(token)
    shown = identities.of_certificate("reporter")
    assert shown is not None
    assert shown.name == "reporter"
    assert identities.of_certificate("other") is None


@pytest.mark.promise("IDN-8")
def test_the_configuration_wins_whole(identities: Identities) -> None:
    identities.replace(named(), named(digest=token_sha256("theirs"), ceiling="read"))
    with pytest.raises(UnauthenticatedError):
        identities.of_token(TOKEN)
    assert identities.of_token("theirs").rights == Rights(allow=("*",), ceiling="read")


def test_an_agent_that_stays_keeps_its_caller_whoever_says_it(identities: Identities) -> None:
    identities.replace(named(), {})
    caller = identities.of_token(TOKEN)
    assert identities.replace({}, {"reporter": replace(named()["reporter"], origin="config", by="x")}) == []
    assert identities.is_current(caller)
    assert identities.of_token(TOKEN) is caller


@pytest.mark.promise("IDN-5")
def test_what_becomes_of_an_agent_is_told_once(identities: Identities) -> None:
    identities.replace(named(), {})
    before = identities.of_token(TOKEN)
    [narrowed] = identities.replace(named(ceiling="read"), {})
    assert narrowed.was is before
    assert narrowed.now is identities.of_token(TOKEN)
    assert not identities.is_current(before)
    [rotated] = identities.replace(named(digest=token_sha256("new"), ceiling="read"), {})
    assert rotated.now is None
    [gone] = identities.replace({}, {})
    assert (gone.was.name, gone.now) == ("reporter", None)
    assert identities.replace({}, {}) == []


def test_the_operator_is_always_current(identities: Identities) -> None:
    assert identities.is_current(Caller("operator", "operator"))
    assert not identities.is_current(Caller("reporter", "agent", rights=Rights(allow=("*",))))


@pytest.mark.promise("IDN-6")
def test_an_agent_ends_when_its_time_has_come(identities: Identities, clock: SetClock) -> None:
    identities.replace(named(expires=clock.now() + timedelta(seconds=10)), {})
    caller = identities.of_token(TOKEN)
    clock.at += 9.999
    assert identities.is_current(caller)
    assert identities.expired() == []
    clock.at += 0.001
    assert not identities.is_current(caller)
    assert identities.expired() == [caller]
    with pytest.raises(UnauthenticatedError, match="has expired"):
        identities.of_token(TOKEN)
    with pytest.raises(UnauthenticatedError, match="has expired"):
        identities.of_certificate("reporter")


def test_expiry_is_compared_across_time_zones(identities: Identities) -> None:
    agent = named(expires=datetime(2030, 1, 1, 0, 0, tzinfo=UTC))["reporter"]
    assert agent.is_expired(datetime.fromisoformat("2030-01-01T08:00:00+08:00"))
    assert not agent.is_expired(datetime.fromisoformat("2030-01-01T07:59:59+08:00"))
