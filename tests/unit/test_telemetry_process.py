"""What processes cost, by name."""

from __future__ import annotations

import os
import subprocess
import sys

from hermesd.telemetry.process import ProcessTable


def test_the_daemon_and_its_living_children_are_shown_and_a_dead_one_is_not() -> None:
    table = ProcessTable()
    argv = [sys.executable, "-S", "-c", "print(flush=True); input()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()  # it runs, and is no longer a half-made copy of this process
        first = table.sample({"worker:orders": child.pid})
        second = table.sample({"worker:orders": child.pid})
        child.communicate(b"\n")
    assert [each.name for each in first] == [each.name for each in second] == ["hermesd", "worker:orders"]
    assert first[0].pid == os.getpid()
    for each in second:
        assert each.rss_bytes > 1_000_000
        assert each.threads >= 1
        assert each.fds >= 1
        assert each.cpu_percent >= 0
    assert [each.name for each in table.sample({"worker:orders": child.pid})] == ["hermesd"]
