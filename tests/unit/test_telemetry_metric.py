"""Metrics: the public names, bounded in number."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hermesd.telemetry.metric import MAX_LABELLED_TOOLS, OTHER, Metrics


def _samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def _value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return _samples(metrics).get((name, tuple(sorted(labels.items()))))


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def test_a_call_is_in_flight_until_it_ends_and_then_counted_by_code(metrics: Metrics) -> None:
    metrics.call_started()
    assert _value(metrics, "hermesd_tool_inflight") == 1
    metrics.call_finished("orders.query_status", "python", "OK", 0.2, 0.1)
    assert _value(metrics, "hermesd_tool_inflight") == 0
    labels = {"tool": "orders.query_status", "source": "python", "code": "OK"}
    assert _value(metrics, "hermesd_tool_calls_total", **labels) == 1
    assert _value(metrics, "hermesd_tool_call_duration_seconds_sum", source="python") == pytest.approx(0.2)
    assert _value(metrics, "hermesd_queue_seconds_count") == 1


@pytest.mark.promise("OPS-5")
def test_only_the_first_500_tools_are_labelled_and_none_that_outsiders_named(metrics: Metrics) -> None:
    for number in range(MAX_LABELLED_TOOLS + 50):
        metrics.call_started()
        metrics.call_finished(f"p.t_{number}", "python", "UNKNOWN_TOOL", 0, 0)
        metrics.call_finished(f"a.t_{number}", "agent", "OK", 0, 0)
    assert _value(metrics, "hermesd_tool_calls_total", tool=OTHER, source="agent", code="OK") == 550
    for number in range(MAX_LABELLED_TOOLS + 50):
        metrics.call_finished(f"p.t_{number}", "python", "OK", 0, 0)
    assert _value(metrics, "hermesd_tool_calls_total", tool=OTHER, source="python", code="OK") == 50
    metrics.call_finished("p.t_0", "python", "OK", 0, 0)
    assert _value(metrics, "hermesd_tool_calls_total", tool="p.t_0", source="python", code="OK") == 2


def test_reloads_count_by_result_and_the_last_one_shows(metrics: Metrics) -> None:
    assert _value(metrics, "hermesd_reloads_total", result="rejected") == 0
    metrics.reload_finished(True)
    assert _value(metrics, "hermesd_config_last_reload_successful") == 1
    metrics.reload_finished(False)
    assert _value(metrics, "hermesd_config_last_reload_successful") == 0
    assert _value(metrics, "hermesd_reloads_total", result="ok") == 1
    assert _value(metrics, "hermesd_reloads_total", result="rejected") == 1


def test_a_child_that_is_gone_leaves_no_series(metrics: Metrics) -> None:
    metrics.child_rss("worker:orders", 1000)
    assert _value(metrics, "hermesd_child_rss_bytes", server="worker:orders") == 1000
    metrics.child_rss("worker:orders", 0)
    metrics.child_rss("never was", 0)
    assert _value(metrics, "hermesd_child_rss_bytes", server="worker:orders") is None


def test_the_daemons_own_figures_are_there(metrics: Metrics) -> None:
    metrics.set_generation(7)
    metrics.rescan_found_changes()
    metrics.loop_lag(0.004)
    metrics.loop_lag(-1e-9)
    metrics.records_dropped(3)
    metrics.denied()
    names = {name for name, _ in _samples(metrics)}
    assert _value(metrics, "hermesd_generation") == 7
    assert _value(metrics, "hermesd_rescan_found_changes_total") == 1
    assert _value(metrics, "hermesd_event_loop_lag_seconds_count") == 2
    assert _value(metrics, "hermesd_records_dropped_total") == 3
    assert _value(metrics, "hermesd_denials_total") == 1
    assert {"hermesd_build_info", "process_resident_memory_bytes", "python_info"} <= names


def test_two_daemons_fit_in_one_process() -> None:
    first, second = Metrics(), Metrics()
    first.set_generation(1)
    assert _value(second, "hermesd_generation") == 0


@pytest.mark.promise("RES-11")
def test_a_circuit_has_a_series_from_when_it_opened_until_it_is_gone(metrics: Metrics) -> None:
    assert _value(metrics, "hermesd_circuit_state", tool="a.b_c", plugin="a") is None
    metrics.circuit("a.b_c", "a", 2)
    metrics.circuit("a", "a", 1)
    assert _value(metrics, "hermesd_circuit_state", tool="a.b_c", plugin="a") == 2
    assert _value(metrics, "hermesd_circuit_state", tool="", plugin="a") == 1
    metrics.circuit("a.b_c", "a", 0)
    assert _value(metrics, "hermesd_circuit_state", tool="a.b_c", plugin="a") == 0
    metrics.circuit("a.b_c", "a", None)
    assert _value(metrics, "hermesd_circuit_state", tool="a.b_c", plugin="a") is None


@pytest.mark.promise("OPS-5")
def test_the_series_of_circuits_are_bounded(metrics: Metrics) -> None:
    for each in range(2 * MAX_LABELLED_TOOLS):
        metrics.circuit(f"a.b_{each}", "a", 2)
    found = [name for name, _ in _samples(metrics) if name == "hermesd_circuit_state"]
    assert len(found) == MAX_LABELLED_TOOLS


def test_attempts_are_counted(metrics: Metrics) -> None:
    metrics.call_retried()
    assert _value(metrics, "hermesd_tool_retries_total") == 1


@pytest.mark.promise("ADM-7")
def test_how_many_calls_wait_is_asked_when_the_metrics_are() -> None:
    metrics, waiting = Metrics(), [3, 5]
    metrics.set_waiting(lambda: waiting.pop(0))
    assert [_value(metrics, "hermesd_calls_waiting") for _ in range(2)] == [3, 5]
