"""Where code runs is the operator's decision: every row of the table, and who wins when two speak."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesd.access.trust import EffectiveTrust, Evidence, effective_trust, place

NEW, OLD, OLDER = ("sha256:" + letter * 64 for letter in "abc")


@dataclass
class Entry:
    digest: str | None = None
    isolation: str | None = None
    follow: bool = False


def everything(_: str) -> bool:
    return True


def nothing(_: str) -> bool:
    return False


def trusted(digest: str = OLD, **changes: object) -> EffectiveTrust:
    return EffectiveTrust("grant", True, digest, **changes)  # type: ignore[arg-type]


# Who speaks


def test_nobody_spoke_nothing_is_trusted() -> None:
    assert effective_trust(None, None) == EffectiveTrust()


def test_where_yaml_speaks_yaml_wins() -> None:
    both = effective_trust(Entry(OLD, "process"), Entry(NEW, "inprocess", True), pin=OLDER)
    assert both == EffectiveTrust("yaml", True, OLD, "process", False, "")


def test_yaml_untrusted_beats_every_grant_and_yaml_trust() -> None:
    denied = effective_trust(Entry(OLD), Entry(NEW), yaml_untrusted=True)
    assert denied.denied
    assert not denied.trusted


def test_a_grant_speaks_where_yaml_is_silent_with_its_pin() -> None:
    assert effective_trust(None, Entry(NEW), pin=OLD) == EffectiveTrust(
        "grant", True, NEW, "inprocess", False, OLD
    )


def test_an_entry_without_digest_or_follow_trusts_nothing() -> None:
    assert effective_trust(Entry(), Entry(NEW)) == EffectiveTrust("yaml")


# The table of origins


def test_bundled_tools_run_in_process() -> None:
    placed = place("time", "bundled", Evidence(NEW), EffectiveTrust(), has_content=nothing)
    assert (placed.where, placed.digest) == ("inprocess", NEW)


def test_a_named_distribution_runs_in_process_and_others_say_how_to_enable_them() -> None:
    point = Evidence("", enabled=True, distribution="acme-tools")
    assert place("acme", "entry_point", point, EffectiveTrust(), has_content=nothing).where == "inprocess"
    other = place(
        "acme", "entry_point", Evidence("", enabled=False, distribution="acme-tools"), EffectiveTrust(),
        has_content=nothing,
    )  # fmt: skip
    assert other.where == "refused"
    assert "plugins.entry_points" in other.remedy
    assert "acme-tools" in other.remedy


@pytest.mark.parametrize("origin", ["folder", "file", "anything else"])
def test_a_dropped_plugin_nobody_trusts_is_refused_with_the_command(origin: str) -> None:
    placed = place("orders", origin, Evidence(NEW), EffectiveTrust(), has_content=everything)
    assert (placed.where, placed.digest, placed.awaiting) == ("refused", None, NEW)
    assert f"`hermesd ctl plugins trust orders --digest {NEW}`" in placed.remedy
    assert "sandbox" in placed.reason


@pytest.mark.parametrize(("isolation", "where"), [("inprocess", "inprocess"), ("process", "worker")])
def test_trusted_and_unchanged_runs_where_the_operator_said(isolation: str, where: str) -> None:
    placed = place("orders", "folder", Evidence(OLD), trusted(isolation=isolation), has_content=nothing)
    assert (placed.where, placed.digest, placed.reason, placed.awaiting) == (where, OLD, "", "")


def test_an_isolation_this_build_lacks_is_a_refusal_not_a_weaker_one() -> None:
    placed = place("orders", "folder", Evidence(OLD), trusted(isolation="container"), has_content=everything)
    assert (placed.where, placed.digest) == ("refused", None)


def test_changed_content_waits_and_the_last_trusted_goes_on_serving() -> None:
    placed = place("orders", "folder", Evidence(NEW), trusted(), has_content=everything)
    assert (placed.where, placed.digest, placed.awaiting) == ("inprocess", OLD, NEW)
    assert "goes on serving" in placed.reason
    assert f"--digest {NEW}" in placed.remedy


def test_where_yaml_trusts_the_remedy_is_the_yaml() -> None:
    placed = place(
        "orders", "folder", Evidence(NEW), EffectiveTrust("yaml", True, OLD), has_content=everything
    )
    assert (
        placed.remedy == f"look at what changed, then set plugins.trusted.orders.digest to {NEW} and reload"
    )


def test_a_trusted_content_that_is_nowhere_does_not_let_another_run() -> None:
    placed = place("orders", "folder", Evidence(NEW), trusted(), has_content=nothing)
    assert (placed.where, placed.digest, placed.awaiting) == ("refused", None, NEW)


def test_following_serves_what_the_folder_holds() -> None:
    placed = place("orders", "folder", Evidence(NEW), trusted("", follow=True), has_content=nothing)
    assert (placed.where, placed.digest, placed.awaiting) == ("inprocess", NEW, "")


def test_following_a_broken_folder_serves_the_last_good() -> None:
    placed = place(
        "orders", "folder", Evidence("", last_good=OLD), trusted("", follow=True), has_content=everything
    )
    assert (placed.where, placed.digest) == ("inprocess", OLD)


def test_a_rollback_holds_against_new_content_and_follow() -> None:
    for follow in (False, True):
        placed = place(
            "orders", "folder", Evidence(NEW), trusted(OLD, pin=OLDER, follow=follow), has_content=everything
        )
        assert (placed.digest, placed.awaiting) == (OLDER, NEW)
        assert "rollback" in placed.reason


def test_an_unsafe_folder_is_not_read_for_trust_but_the_trusted_content_serves() -> None:
    unsafe = Evidence(OLD, unsafe="/p/orders is writable by everybody", unsafe_remedy="chmod go-w /p/orders")
    placed = place("orders", "folder", unsafe, trusted(), has_content=everything)
    assert (placed.digest, placed.reason, placed.awaiting) == (OLD, unsafe.unsafe, "")
    assert placed.remedy == "chmod go-w /p/orders"
    refused = place("orders", "folder", unsafe, EffectiveTrust(), has_content=everything)
    assert (refused.where, refused.reason, refused.awaiting) == ("refused", unsafe.unsafe, "")
    assert place("orders", "folder", unsafe, trusted(), has_content=nothing).where == "refused"


def test_yaml_untrusted_is_refused_with_the_way_out() -> None:
    placed = place(
        "orders",
        "folder",
        Evidence(NEW),
        effective_trust(None, None, yaml_untrusted=True),
        has_content=nothing,
    )
    assert placed.where == "refused"
    assert "plugins.untrusted" in placed.remedy


digests = st.sampled_from(["", NEW, OLD, OLDER])
trusts = st.builds(
    EffectiveTrust,
    st.sampled_from(["yaml", "grant", "nobody"]),
    st.booleans(),
    digests,
    st.sampled_from(["inprocess", "process", "container", "none"]),
    st.booleans(),
    digests,
    st.booleans(),
)
evidence = st.builds(Evidence, digests, digests, st.sampled_from(["", "unsafe"]), st.just("chmod"))


@given(evidence, trusts, st.sets(digests))
def test_dropped_code_runs_only_if_an_operator_named_its_digest_or_follows_it(
    known: Evidence, trust: EffectiveTrust, stored: set[str]
) -> None:
    placed = place("orders", "folder", known, trust, has_content=stored.__contains__)
    if placed.digest is None:
        assert placed.where == "refused"
        assert placed.reason
        return
    assert trust.trusted
    assert placed.where in ("inprocess", "worker")
    named = {trust.digest, trust.pin}
    followed = {known.found, known.last_good} if trust.follow else set()
    assert placed.digest in named | followed
    # New bytes are taken from a folder only when nobody else could have written them.
    assert placed.digest in stored or (placed.digest == known.found and not known.unsafe)
    if placed.digest != known.found:
        assert placed.reason
        assert placed.remedy
