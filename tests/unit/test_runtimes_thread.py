"""A bounded pool in which nobody waits without need, and a loop that nothing ends but its owner."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator

import pytest

from hermesd.runtimes.thread import LoopThread, ThreadPool, run_in_thread

WAIT_S = 10.0


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    made = ThreadPool("test-pool", 4)
    yield made
    made.close()
    join("test-pool")


def join(prefix: str) -> None:
    """Wait until the threads that tests began have ended: none is left behind."""
    for thread in threading.enumerate():
        if thread.name.startswith(prefix):
            thread.join(WAIT_S)
            assert not thread.is_alive()


def test_no_job_waits_while_a_thread_may_be_made(pool: ThreadPool) -> None:
    together = threading.Barrier(4, timeout=WAIT_S)
    done = [threading.Event() for _ in range(4)]

    def job(event: threading.Event) -> None:
        together.wait()  # passes only when all four run at once
        event.set()

    for each in done:
        pool.submit(lambda each=each: job(each))  # type: ignore[misc]
    assert all(each.wait(WAIT_S) for each in done)
    assert pool.threads == 4


def test_a_job_beyond_the_bound_waits_its_turn_and_runs(pool: ThreadPool) -> None:
    gate, ran = threading.Event(), list[int]()
    finished = threading.Semaphore(0)

    def job(number: int) -> None:
        gate.wait(WAIT_S)
        ran.append(number)
        finished.release()

    for number in range(20):
        pool.submit(lambda number=number: job(number))  # type: ignore[misc]
    assert pool.threads == 4
    gate.set()
    assert all(finished.acquire(timeout=WAIT_S) for _ in range(20))
    assert sorted(ran) == list(range(20))


def test_threads_are_made_only_when_needed_and_used_again(pool: ThreadPool) -> None:
    assert pool.threads == 0
    names = set()
    for _ in range(50):
        done = threading.Event()

        def job(done: threading.Event = done) -> None:
            names.add(threading.current_thread().name)
            done.set()

        pool.submit(job)
        assert done.wait(WAIT_S)
    assert pool.threads <= 2, "one is enough, unless it had not quite come to rest"
    assert len(names) == pool.threads


def test_blocked_jobs_hold_up_nobody_while_there_are_threads(pool: ThreadPool) -> None:
    """However often threads come to rest in between: each of 200 rounds needs all four at once."""
    for _ in range(200):
        together, finished = threading.Barrier(4, timeout=WAIT_S), threading.Semaphore(0)

        def job(together: threading.Barrier = together, finished: threading.Semaphore = finished) -> None:
            together.wait()
            finished.release()

        for _ in range(4):
            pool.submit(job)
        assert all(finished.acquire(timeout=WAIT_S) for _ in range(4))


def test_closing_runs_what_was_submitted_and_takes_no_more() -> None:
    pool, gate = ThreadPool("test-closing", 1), threading.Event()
    ran = []
    pool.submit(lambda: gate.wait(WAIT_S) and ran.append(1))  # type: ignore[func-returns-value]
    pool.submit(lambda: ran.append(2))
    pool.close()
    with pytest.raises(RuntimeError):
        pool.submit(lambda: None)
    gate.set()
    join("test-closing")
    assert (ran, pool.threads) == ([1, 2], 0)


def test_an_idle_thread_ends_by_itself() -> None:
    pool, done = ThreadPool("test-idle", 2, idle_s=0.001), threading.Event()
    pool.submit(done.set)
    assert done.wait(WAIT_S)
    join("test-idle")
    assert pool.threads == 0
    again = threading.Event()
    pool.submit(again.set)
    assert again.wait(WAIT_S)
    pool.close()
    join("test-idle")


def test_no_job_is_lost_to_a_thread_that_is_just_giving_up() -> None:
    pool, finished = ThreadPool("test-race", 2, idle_s=0.0), threading.Semaphore(0)
    for _ in range(2000):
        pool.submit(finished.release)  # type: ignore[arg-type]
    assert all(finished.acquire(timeout=WAIT_S) for _ in range(2000))
    pool.close()
    join("test-race")
    assert pool.threads == 0


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), ValueError("x")])
def test_a_task_that_raises_does_not_end_the_loop(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    thread = LoopThread("test-loop")
    ready = threading.Event()

    async def bad() -> None:
        raise error

    def start() -> None:
        task = thread.loop.create_task(bad())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    thread.call(start)
    thread.call(ready.set)
    assert ready.wait(WAIT_S)
    again = threading.Event()
    thread.call(again.set)
    assert again.wait(WAIT_S)
    thread.close()
    join("test-loop")
    assert not thread.alive


def test_closing_a_loop_cancels_its_tasks_and_lets_them_clean_up() -> None:
    """hermes-agent#64229: tasks that went on after their plugin."""
    thread = LoopThread("test-loop")
    begun, cleaned = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    future = asyncio.run_coroutine_threadsafe(work(), thread.loop)
    assert begun.wait(WAIT_S)
    thread.close()
    join("test-loop")
    assert cleaned.is_set()
    assert future.cancelled()
    thread.close()


async def test_work_in_a_thread_returns_or_raises_what_it_does() -> None:
    assert await run_in_thread(lambda: 5, "test-work", WAIT_S) == 5
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(lambda: 1 // 0, "test-work", WAIT_S)

    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match="SystemExit"):
        await run_in_thread(leave, "test-work", WAIT_S)
    join("test-work")


async def test_work_finds_nothing_that_other_work_left_in_its_thread() -> None:
    left = contextvars.ContextVar("left", default="")
    loop = asyncio.new_event_loop()

    def leave() -> int:
        left.set("something")
        asyncio.set_event_loop(loop)
        return threading.get_ident()

    def look() -> tuple[str, object, int]:
        policy = asyncio.get_event_loop_policy()
        return left.get(), policy._local._loop, threading.get_ident()

    thread = await run_in_thread(leave, "test-first", WAIT_S)
    for _ in range(1000):
        *seen, same = await run_in_thread(look, "test-second", WAIT_S)
        assert seen == ["", None]
        if same == thread:
            break
    else:
        pytest.fail("no thread was used again")
    loop.close()


async def test_stuck_work_holds_up_no_other() -> None:
    gate = threading.Event()
    stuck = [
        asyncio.create_task(run_in_thread(lambda: gate.wait(WAIT_S), f"test-stuck-{n}", WAIT_S))
        for n in range(20)
    ]
    await asyncio.sleep(0)
    assert await run_in_thread(lambda: 5, "test-work", WAIT_S) == 5
    gate.set()
    assert all(await asyncio.gather(*stuck))


async def test_work_that_does_not_end_is_left_behind_in_time() -> None:
    gate = threading.Event()
    with pytest.raises(TimeoutError):
        await run_in_thread(lambda: gate.wait(WAIT_S), "test-stuck", 0.01)
    gate.set()
    join("test-stuck")


@pytest.mark.promise("HOS-1")
def test_a_job_that_raises_costs_the_pool_no_thread(caplog: pytest.LogCaptureFixture) -> None:
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
    join("plugin-x")
    assert pool.threads == 0
