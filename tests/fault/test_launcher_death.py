"""Death on either side of the launcher: nothing outlives the daemon, and nothing is left half dead."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from hermesd.errors import LauncherError
from hermesd.supervise.launcher import Launcher

pytestmark = pytest.mark.fault
ENV = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
ROOT = Path(__file__).resolve().parents[2]

TREE = """
import os, subprocess, sys, time
plain = subprocess.Popen(['sleep', '71'])
moved = subprocess.Popen(['setsid', 'sleep', '72'])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print('escaped', os.getpid(), flush=True)
        time.sleep(73)
    os._exit(0)
os.wait()
print('direct', os.getpid(), plain.pid, moved.pid, flush=True)
time.sleep(74)
"""

DAEMON = """
import asyncio, os, sys
from hermesd.supervise.launcher import Launcher
async def main():
    launcher = Launcher.start()
    child = await launcher.spawn([sys.executable, '-I', '-S', '-c', sys.argv[1]],
                                 env={'PATH': os.environ['PATH']}, cwd='/', name='tree', stdout='pipe')
    text = ''
    os.set_blocking(child.stdout_fd, True)
    while text.count('\\n') < 2:
        text += os.read(child.stdout_fd, 4096).decode()
    pids = [word for line in text.splitlines() for word in line.split()[1:]]
    FORK
    print(launcher.pid, *pids, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


def state(pid: int) -> str:
    """The state letter of a process; "" when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return text[text.rindex(")") + 2]


def all_dead(pids: list[int], seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while any(state(pid) not in ("", "Z") for pid in pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def start_daemon(extra: str = "pass") -> tuple[subprocess.Popen[str], list[int]]:
    code = textwrap.dedent(DAEMON).replace("FORK", extra)
    daemon = subprocess.Popen(
        [sys.executable, "-c", code, TREE],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert daemon.stdout is not None
    pids = [int(word) for word in daemon.stdout.readline().split()]
    daemon.stdout.close()
    assert all(state(pid) not in ("", "Z") for pid in pids)
    return daemon, pids


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.promise("CHD-1")
def test_nothing_outlives_a_daemon_that_dies(signum):
    """hashicorp/go-plugin#10, #114, dkron#247, spire#93: not even what moved to other sessions."""
    daemon, pids = start_daemon()
    daemon.send_signal(signum)
    daemon.wait(10)
    assert all_dead(pids)


def test_nothing_outlives_the_daemon_though_a_fork_of_it_holds_the_socket():
    """hashicorp/go-plugin#10: the end of the socket alone would never be seen."""
    daemon, pids = start_daemon("if os.fork() == 0: import time; time.sleep(20); os._exit(0)")
    daemon.kill()
    daemon.wait(10)
    assert all_dead(pids, 8.0)


@pytest.mark.promise("CHD-2")
async def test_children_die_with_the_launcher_and_the_next_start_makes_a_new_one():
    launcher = Launcher.start()
    try:
        first = launcher.pid
        children = [await launcher.spawn(["sleep", "75"], env=ENV, cwd="/", name=str(n)) for n in range(3)]
        os.kill(first, signal.SIGKILL)
        for child in children:
            assert str(await asyncio.wait_for(child.wait(), 5)) == "SIGKILL"
        assert all_dead([child.pid for child in children])
        assert launcher.children() == ()
        again = await launcher.spawn(["true"], env=ENV, cwd="/", name="again")
        assert str(await again.wait()) == "exit status 0"
        assert launcher.pid != first
        assert launcher.restarts == 1
    finally:
        await launcher.stop()


async def test_a_start_in_flight_when_the_launcher_dies_fails_clearly():
    launcher = Launcher.start()
    try:
        await (await launcher.spawn(["true"], env=ENV, cwd="/", name="warm")).wait()
        os.kill(launcher.pid, signal.SIGSTOP)
        task = asyncio.create_task(launcher.spawn(["true"], env=ENV, cwd="/", name="unlucky"))
        await asyncio.sleep(0.05)
        os.kill(launcher.pid, signal.SIGKILL)
        with pytest.raises(LauncherError, match="unlucky: the launcher died"):
            await asyncio.wait_for(task, 5)
    finally:
        await launcher.stop()


async def test_a_launcher_that_hangs_costs_a_bounded_wait():
    launcher = Launcher.start(request_timeout_s=0.3)
    try:
        await (await launcher.spawn(["true"], env=ENV, cwd="/", name="warm")).wait()
        os.kill(launcher.pid, signal.SIGSTOP)
        with pytest.raises(LauncherError, match="did not start it within"):
            await asyncio.wait_for(launcher.spawn(["sleep", "76"], env=ENV, cwd="/", name="late"), 5)
        os.kill(launcher.pid, signal.SIGCONT)
        own = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
        async with asyncio.timeout(5):
            child = await launcher.spawn(["true"], env=ENV, cwd="/", name="next")
            await child.wait()
            while own.read_text():
                await asyncio.sleep(0.02)
    finally:
        await launcher.stop()


@pytest.mark.promise("CHD-3")
async def test_a_hundred_crashes_leave_no_zombie():
    """langgenius/dify-plugin-daemon#553, #543: whatever ends is reaped, orphans included."""
    launcher = Launcher.start()
    code = (
        "import os,signal\n"
        "if os.fork()==0:\n"
        "    os._exit(0) if os.fork() else os.execvp('sleep',['sleep','77'])\n"
        "os.kill(os.getpid(),signal.SIGSEGV)"
    )
    try:
        for _ in range(100):
            child = await launcher.spawn(
                [sys.executable, "-I", "-S", "-c", code],
                env=ENV,
                cwd="/",
                name="crasher",
                rlimits={"CORE": (0, 0)},
            )
            assert str(await child.wait()) == "SIGSEGV"
        own = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
        async with asyncio.timeout(10):
            while launcher.children() or own.read_text():
                await asyncio.sleep(0.02)
    finally:
        await launcher.stop()


@pytest.mark.promise("CHD-4")
async def test_a_thousand_starts_at_once_and_in_turn_leave_descriptors_and_children_flat():
    """grpc/grpc#22624, #17986: starting processes under load neither forks the daemon nor leaks."""
    launcher = Launcher.start(request_timeout_s=60)

    def counts() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{launcher.pid}/fd"))

    async def one() -> None:
        child = await launcher.spawn(["true"], env=ENV, cwd="/", name="n", stdin="pipe", stdout="pipe")
        assert str(await child.wait()) == "exit status 0"
        child.close()

    try:
        await one()
        await asyncio.sleep(0.1)
        before = counts()
        for _ in range(50):
            await asyncio.gather(*(one() for _ in range(20)))
        async with asyncio.timeout(10):
            while launcher.children():
                await asyncio.sleep(0.02)
        assert counts() == before
    finally:
        await launcher.stop()
