"""The examples are programs that people copy: each runs as it is, against a real daemon."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.harness import ROOT, Daemon, Home, environment

pytestmark = pytest.mark.promise("DOC-5")


@pytest.fixture
def shop(home: Home, serve: Callable[..., Daemon], isolation: str) -> Daemon:
    shutil.copytree(ROOT / "examples" / "plugins" / "orders", home.plugins / "orders")
    home.configure(
        {"secrets": {"ORDERS_TOKEN": "s3cret-token"}},
        trusted={"orders": {"follow": True, "isolation": isolation}},
        settings={"orders": {"currency": "CNY"}},
    )
    return serve()


@pytest.mark.parametrize("isolation", ["inprocess", "process"])
def test_the_example_plugin_does_in_a_daemon_what_its_comments_say(shop: Daemon) -> None:
    assert shop.call("orders.query_status", order_id="A-2") == {
        "state": "open",
        "total": "12.00",
        "currency": "CNY",
    }
    assert shop.call("orders.measure_note", order_id="A-2") == 9
    assert shop.call("orders.sum_orders", states=["sent"]) == {"sent": "41.50"}
    with shop.client() as client:
        late = client.call_tool(
            "orders.change_address", {"order_id": "A-1", "address": {"street": "x", "city": "y"}}
        )
        assert (late.code, late.effect, late.detail["code"]) == ("TOOL_ERROR", "none", "ORDER_SENT")
        [plugin] = [each for each in client.plugins() if each.name == "orders"]
    assert list(plugin.warnings) == [], "an example is an example of good definitions"
    assert "looked up" in shop.ctl("plugins", "logs", "orders").stdout
    assert "s3cret-token" not in shop.log_text()


@pytest.mark.parametrize("isolation", ["inprocess"])
@pytest.mark.parametrize(
    ("program", "told"),
    [
        (
            "client_sync",
            [
                "tools: orders.change_address, orders.measure_note, orders.query_status, orders.sum_orders",
                "A-2: {'state': 'open', 'total': '12.00', 'currency': 'CNY', 'city': '上海'}",
                "A-1: TOOL_ERROR, effect none: order A-1 has been sent and cannot be changed: offer a return",
                "wrong: /order_id: ",
                "raised: UNKNOWN_TOOL, did you mean orders.query_status?",
                "progress: 3 of 3",
                'sum: {"open":"111.95"}',
            ],
        ),
        ("client_async", ["A-1: sent", "A-3: open", "log: looked up", 'result: {"state":"sent"', "gave up"]),
    ],
)
def test_an_example_client_runs(shop: Daemon, program: str, told: list[str]) -> None:
    ran = _run("-m", f"examples.{program}", HERMESD_ADDRESS=shop.home.address)
    assert ran.returncode == 0, ran.stderr
    place = 0
    for each in told:
        found = ran.stdout.find(each, place)
        assert found >= 0, f"{each!r} is missing or comes too early in:\n{ran.stdout}"
        place = found
    assert ran.stderr == ""


@pytest.mark.parametrize("program", ["client_sync", "client_async"])
def test_an_example_client_without_a_daemon_says_what_to_do(home: Home, program: str) -> None:
    ran = _run("-m", f"examples.{program}", HERMESD_ADDRESS=home.address)
    assert ran.returncode == 3
    assert "hermesd serve" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_example_plugin_passes_its_own_tests_and_the_check() -> None:
    folder = ROOT / "examples" / "plugins" / "orders"
    ran = _run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder))
    assert ran.returncode == 0, ran.stdout
    checked = _run("-m", "hermesd", "plugin", "check", "--trust", str(folder))
    assert "warning" not in checked.stdout.replace("0 warnings", ""), checked.stdout


def _run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        env={**environment(), **env},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_demonstration_tells_the_main_job_in_short_lines_and_ends_well() -> None:
    ran = _run("-m", "examples.demo")
    assert ran.returncode == 0, ran.stderr
    assert max(len(line) for line in ran.stdout.splitlines()) <= 140, ran.stdout
    for told in (
        "text.count_stat → UNKNOWN_TOOL: did you mean text.count_stats?",
        "scale → unavailable: not trusted",
        "scale.weigh_text text=心 → 2 grams",
        "scale.weigh_text text=心 → 20 grams",
        "rejected → .demo/plugins/scale/scale.py:15:9: SyntaxError",
        "scale.weigh_text text=心 → 3 grams",
        "stopped → everything went as told",
    ):
        assert told in ran.stdout, ran.stdout
    assert ran.stderr == ""
