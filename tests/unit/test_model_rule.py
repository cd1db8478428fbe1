"""What a definition says of retries, circuits and fallbacks is checked when it is loaded."""

from __future__ import annotations

import pytest

from hermesd.config.table import TABLE
from hermesd.errors import PluginError
from hermesd.model import circuit, retry
from hermesd.model.definition import ToolDefinition, parse_definition
from hermesd.model.fallback import MAX_AGE_S, Fallback


def parsed(**raw: object) -> tuple[ToolDefinition, str]:
    made = parse_definition(
        {"name": "orders.query_status", "description": "d", **raw}, plugin="orders", version="1.0.0"
    )
    return made.definition, " | ".join(made.warnings)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"retry": {"max_atempts": 3}}, "retry: unknown setting 'max_atempts', did you mean 'max_attempts'?"),
        ({"retry": {"zzz": 3}}, "retry: unknown setting 'zzz'; it may say max_attempts, backoff_ms"),
        ({"retry": {"max_attempts": 0}}, "retry/max_attempts: must be 1 to 100, got 0"),
        ({"retry": {"max_attempts": 2.5}}, "retry/max_attempts: expected a whole number"),
        ({"retry": {"max_attempts": True}}, "retry/max_attempts: expected a number, got bool"),
        ({"retry": {"jitter": 2}}, "retry/jitter: must be 0 to 1, got 2"),
        ({"retry": {"multiplier": "2"}}, "retry/multiplier: expected a number, got str"),
        ({"retry": {"backoff_ms": float("nan")}}, "retry/backoff_ms: expected a whole number"),
        ({"retry": {"multiplier": float("nan")}}, "retry/multiplier: must be 1 to 100"),
        ({"retry": []}, "retry: expected dict"),
        ({"circuit_breaker": {"enabled": 1}}, "circuit_breaker/enabled: expected true or false"),
        ({"circuit_breaker": {"open_ms": 0}}, "circuit_breaker/open_ms: must be 1 to"),
        ({"fallback": {}}, "exactly one of value, tool, last_good, got none"),
        ({"fallback": {"value": 1, "tool": "a.b_c"}}, "got value, tool"),
        ({"fallback": {"vaule": 1}}, "exactly one of value, tool, last_good"),
        ({"fallback": {"tool": 5}}, "fallback/tool: 5 is no tool name"),
        ({"fallback": {"tool": "Orders"}}, "fallback/tool: 'Orders' is no tool name"),
        ({"fallback": {"tool": "orders.query_status"}}, "cannot stand in for itself"),
        ({"fallback": {"last_good": "yes"}}, "expected true or {max_age_s}"),
        ({"fallback": {"last_good": {"max_age_s": 0}}}, "fallback/last_good/max_age_s: must be 1 to"),
        ({"fallback": {"last_good": {"age": 1}}}, "unknown setting 'age'"),
        ({"fallback": {"value": {1, 2}}}, "fallback/value: is no JSON"),
        ({"fallback": {"value": "x"}, "returns": {"type": "integer"}}, "fallback/value"),
    ],
)
def test_a_fault_names_its_place(raw: dict[str, object], expected: str) -> None:
    with pytest.raises(PluginError) as caught:
        parsed(**raw)
    assert expected in " | ".join(each.reason for each in caught.value.rejections)


@pytest.mark.parametrize(
    ("raw", "fallback"),
    [
        ({"value": None}, Fallback("value")),
        ({"value": {"a": [1]}}, Fallback("value", value={"a": [1]})),
        ({"tool": "stock.count_items"}, Fallback("tool", tool="stock.count_items")),
        ({"last_good": True}, Fallback("last_good", max_age_s=MAX_AGE_S)),
        ({"last_good": {"max_age_s": 9}}, Fallback("last_good", max_age_s=9)),
        ({"last_good": {}}, Fallback("last_good", max_age_s=MAX_AGE_S)),
        ({"last_good": False}, None),
    ],
)
def test_a_fallback_is_read_and_told_in_full(raw: dict[str, object], fallback: Fallback | None) -> None:
    definition, _ = parsed(fallback=raw, side_effects="read")
    assert definition.fallback == fallback
    if fallback is not None:
        assert Fallback.parse(fallback.plain()) == fallback


def test_what_cannot_have_an_effect_is_a_warning() -> None:
    assert "nothing is tried again" in parsed(retry={"max_attempts": 2})[1]
    assert "nothing is tried again" not in parsed(retry={"max_attempts": 2}, retryable=True)[1]
    assert "answers OK for a write that is not done" in parsed(fallback={"value": 1})[1]
    assert parsed(fallback={"value": 1}, side_effects="read")[1] == ""
    assert parsed(fallback={"tool": "a.b_c"})[1] == ""


@pytest.mark.parametrize(
    ("section", "bounds", "made"),
    [
        ("defaults.retry", retry.BOUNDS, retry.RetryRule()),
        ("defaults.circuit_breaker", circuit.BOUNDS, circuit.CircuitRule()),
    ],
)
def test_a_definition_may_say_what_the_operator_may_say(section: str, bounds: object, made: object) -> None:
    defaults = {
        row.path.rpartition(".")[2]: row.default for row in TABLE.leaves() if row.path.startswith(section)
    }
    assert set(bounds) == defaults.keys()  # type: ignore[call-overload]
    assert {name: getattr(made, name) for name in defaults} == defaults
