"""The threads and the loop of a plugin."""

from __future__ import annotations

import threading

import pytest

from hermesd.runtimes.thread import ThreadPool
from tests.harness import eventually


@pytest.mark.promise("HOS-1")
def test_a_job_that_raises_costs_the_pool_no_thread(caplog: pytest.LogCaptureFixture):
    pool = ThreadPool("plugin-x", 1)

    def fail() -> None:
        raise SystemExit(3)

    for _ in range(3):
        pool.submit(fail)
    done = threading.Event()
    pool.submit(done.set)
    assert done.wait(5)
    assert caplog.text.count("SystemExit: 3") == 3
    pool.close()
    eventually(lambda: pool.threads == 0, what="the pool's thread to end")
