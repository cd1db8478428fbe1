"""The launcher with real processes: how children start, end and are cleaned up."""

import asyncio
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

import pytest

from hermesd.errors import LauncherError
from hermesd.supervise.child import ExitStatus
from hermesd.supervise.launcher import Launcher, scrubbed

ENV = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}


class ClosingLauncher(Launcher):
    """Closes at the end of a test what the test left open."""

    async def spawn(self, *args, **options):
        child = await super().spawn(*args, **options)
        self.__dict__.setdefault("made", []).append(child)
        return child


@pytest.fixture
async def launcher():
    started = ClosingLauncher.start()
    yield started
    await started.stop()
    for child in started.__dict__.get("made", ()):
        child.close()


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text[text.rindex(")") + 2] != "Z"


async def until(condition, seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def read_all(descriptor: int) -> bytes:
    os.set_blocking(descriptor, False)
    data = b""
    async with asyncio.timeout(10):
        while True:
            try:
                chunk = os.read(descriptor, 65536)
            except BlockingIOError:
                await asyncio.sleep(0.01)
                continue
            if not chunk:
                return data
            data += chunk


async def read_line(descriptor: int) -> str:
    os.set_blocking(descriptor, False)
    data = b""
    async with asyncio.timeout(10):
        while not data.endswith(b"\n"):
            try:
                data += os.read(descriptor, 4096)
            except BlockingIOError:
                await asyncio.sleep(0.01)
    return data.decode().strip()


@pytest.mark.promise("CHD-5")
async def test_a_child_runs_with_exactly_the_environment_folder_and_limits_it_was_given(launcher, tmp_path):
    """systemd#25961, systemd#27291: nothing of the daemon's own environment is inherited."""
    folder = tmp_path / "工作 dir"
    folder.mkdir()
    code = (
        "import json,os,resource,sys;"
        "print(json.dumps({'env':dict(os.environ),'cwd':os.getcwd(),'argv':sys.argv[1:],"
        "'nofile':resource.getrlimit(resource.RLIMIT_NOFILE),'fds':sorted(os.listdir('/proc/self/fd'))}))"
    )
    env = {**ENV, "WORD": "中文", "NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1", "LISTEN_FDS": "1"}
    take = tmp_path / "taken"
    take.touch()
    with take.open():
        child = await launcher.spawn(
            [*python(code), "实参"],
            env={**env, "CREDENTIALS_DIRECTORY": "/c"},
            cwd=folder,
            name="printer",
            rlimits={"NOFILE": (64, 128)},
            stdout="pipe",
        )
        out = child.take("stdout")
        seen = json.loads(await read_all(out))
        os.close(out)
    assert await child.wait() == ExitStatus(code=0)
    assert seen["env"].pop("HERMESD_CHILD") == f"{launcher.pid}.1"
    assert seen["env"] == {**ENV, "WORD": "中文"}
    assert seen["cwd"] == str(folder)
    assert seen["argv"] == ["实参"]
    assert seen["nofile"] == [64, 128]
    assert len(seen["fds"]) <= 4  # the three streams and the listing itself


def test_only_the_daemons_own_variables_are_scrubbed():
    given = {"LISTEN_PID": "1", "WATCHDOG_PID": "1", "NOTIFY_SOCKET": "x", "LISTENER": "kept", "PATH": "/bin"}
    assert scrubbed(given) == {"LISTENER": "kept", "PATH": "/bin"}


async def test_each_child_leads_its_own_session_and_ignores_no_signal(launcher):
    child = await launcher.spawn(
        python("import time; print(1, flush=True); time.sleep(60)"),
        env=ENV,
        cwd="/",
        name="s",
        stdout="pipe",
    )
    await read_line(child.stdout_fd)
    assert os.getsid(child.pid) == child.pid == os.getpgid(child.pid)
    status = Path(f"/proc/{child.pid}/status").read_text()
    ignored = int(next(line for line in status.splitlines() if line.startswith("SigIgn")).split()[1], 16)
    # Python itself ignores SIGPIPE and SIGXFSZ; what the C library keeps for itself no program can change.
    own = signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}
    assert [each for each in own if ignored >> (each - 1) & 1] == []
    assert str(await child.kill_tree(5)) == "SIGTERM"


@pytest.mark.parametrize(
    ("argv", "cwd", "limits", "reason"),
    [
        (["/no/such/program"], "/", {}, "cannot run /no/such/program: No such file"),
        (["true"], "/no/such/folder", {}, "cannot enter /no/such/folder"),
        (["true"], "/", {"NOFILE": (100, 50)}, "cannot set the limit NOFILE"),
        (["true", "\ud800"], "/", {}, "UnicodeEncodeError"),
        (["true", "x" * 200_000], "/", {}, "exceed 128 KiB"),
    ],
)
async def test_what_cannot_start_says_why_and_leaves_nothing(launcher, argv, cwd, limits, reason):
    with pytest.raises(LauncherError, match=reason):
        await launcher.spawn(argv, env=ENV, cwd=cwd, name="bad", rlimits=limits)
    assert launcher.children() == ()
    child = await launcher.spawn(["true"], env=ENV, cwd="/", name="good")
    assert await child.wait() == ExitStatus(code=0)


@pytest.mark.promise("CHD-6")
async def test_an_exit_is_told_though_a_grandchild_holds_the_pipe(launcher):
    """modelcontextprotocol/python-sdk#2773: waiting is never gated on the end of a pipe."""
    code = (
        "import subprocess,sys;"
        "p=subprocess.Popen(['sleep','60'],start_new_session=True);print(p.pid,flush=True);sys.exit(7)"
    )
    child = await launcher.spawn(python(code), env=ENV, cwd="/", name="parent", stdout="pipe")
    grandchild = int(await read_line(child.stdout_fd))
    began = time.monotonic()
    assert await child.wait() == ExitStatus(code=7)
    assert time.monotonic() - began < 5
    await until(lambda: launcher.children() == ())
    assert not alive(grandchild)


@pytest.mark.promise("CHD-7")
async def test_a_tree_is_ended_whole_though_parts_of_it_moved_to_other_sessions(launcher):
    """modelcontextprotocol/python-sdk#2773: the kill is no no-op after the leader died."""
    code = (
        "import os,subprocess,time\n"
        "a=subprocess.Popen(['sleep','61'])\n"
        "b=subprocess.Popen(['setsid','sh','-c','sleep 62 & wait'])\n"
        "if os.fork()==0:\n"
        "    os.setsid()\n"
        "    if os.fork()==0:\n"
        "        print('escaped',os.getpid(),flush=True)\n"
        "        time.sleep(63)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print('direct',a.pid,b.pid,flush=True)\n"
        "time.sleep(64)\n"
    )
    child = await launcher.spawn(python(code), env=ENV, cwd="/", name="tree", stdout="pipe")
    pids = []
    while len(pids) < 3:
        for line in (await read_line(child.stdout_fd)).splitlines():
            pids += [int(each) for each in line.split()[1:]]
    other = await launcher.spawn(["sleep", "65"], env=ENV, cwd="/", name="other")
    assert all(alive(pid) for pid in pids)
    await child.kill_tree(0.5)
    assert not any(alive(pid) for pid in [child.pid, *pids])
    assert alive(other.pid)
    assert [each.name for each in launcher.children()] == ["other"]


async def test_a_child_that_ignores_term_is_killed_after_the_grace(launcher):
    code = (
        "import signal,time;signal.signal(signal.SIGTERM,signal.SIG_IGN);print(1,flush=True);time.sleep(60)"
    )
    child = await launcher.spawn(python(code), env=ENV, cwd="/", name="deaf", stdout="pipe")
    await read_line(child.stdout_fd)
    assert await child.kill_tree(0.2) == ExitStatus(signal=signal.SIGKILL)
    assert await child.kill_tree(0.2) == ExitStatus(signal=signal.SIGKILL)


async def test_stderr_is_kept_bounded_and_handed_on_by_lines(launcher):
    code = "import sys;sys.stderr.write('一行\\n'+'x'*300000+'\\nlast words')"
    lines: list[str] = []
    child = await launcher.spawn(python(code), env=ENV, cwd="/", name="w", on_stderr=lines.append)
    await child.wait()
    await until(lambda: launcher.children() == ())
    assert lines[0] == "一行"
    assert lines[-1] == "last words"
    assert max(map(len, lines)) <= 8192
    assert sum(map(len, lines)) == 300000 + len("一行last words")
    assert child.stderr_tail.endswith("x\nlast words")
    assert len(child.stderr_tail) <= 64 * 1024


@pytest.mark.promise("CHD-8")
async def test_a_flood_on_stderr_is_dropped_with_a_count_and_blocks_nobody(launcher):
    code = "import sys\nfor _ in range(400): sys.stderr.write(('y'*99+'\\n')*1000)"
    lines: list[str] = []
    child = await launcher.spawn(python(code), env=ENV, cwd="/", name="flood", on_stderr=lines.append)
    assert await child.wait() == ExitStatus(code=0)
    await until(lambda: launcher.children() == ())
    assert any("bytes of output dropped" in line for line in lines)


async def test_a_socket_stream_carries_both_directions(launcher):
    code = "import socket;s=socket.socket(fileno=0);s.sendall(s.recv(100).upper())"
    child = await launcher.spawn(python(code), env=ENV, cwd="/", name="echo", stdin="socket")
    descriptor = child.take("stdin")
    os.write(descriptor, b"hello")
    assert await read_all(descriptor) == b"HELLO"
    os.close(descriptor)
    await child.wait()


async def test_the_launcher_survives_the_terminals_signals(launcher):
    await (await launcher.spawn(["true"], env=ENV, cwd="/", name="first")).wait()
    assert os.getsid(launcher.pid) == launcher.pid
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        os.kill(launcher.pid, each)
    child = await launcher.spawn(["true"], env=ENV, cwd="/", name="again")
    assert await child.wait() == ExitStatus(code=0)
    assert launcher.restarts == 0


async def test_a_cancelled_start_leaves_no_process(launcher):
    await (await launcher.spawn(["true"], env=ENV, cwd="/", name="first")).wait()
    task = asyncio.create_task(launcher.spawn(["sleep", "66"], env=ENV, cwd="/", name="late"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    own = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
    await asyncio.sleep(0.05)
    await until(lambda: own.read_text() == "")
    assert launcher.children() == ()


async def test_stopping_ends_every_child_and_is_idempotent():
    launcher = Launcher.start()
    children = [await launcher.spawn(["sleep", "67"], env=ENV, cwd="/", name=str(n)) for n in range(5)]
    waiting = asyncio.create_task(children[0].wait())
    await asyncio.sleep(0)
    await launcher.stop()
    await launcher.stop()
    assert not any(alive(child.pid) for child in children)
    assert await waiting == ExitStatus(signal=signal.SIGKILL)
    assert launcher.children() == ()
    with pytest.raises(LauncherError, match="closed"):
        await launcher.spawn(["true"], env=ENV, cwd="/", name="late")
    launcher.close()


def test_closing_works_without_a_loop():
    launcher = Launcher.start()
    pid = launcher.pid
    launcher.close()
    assert not alive(pid)


async def test_descriptors_stay_flat(launcher):
    await (await launcher.spawn(["true"], env=ENV, cwd="/", name="first")).wait()
    await until(lambda: launcher.children() == ())

    def counts() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{launcher.pid}/fd"))

    before = counts()
    for _ in range(20):
        child = await launcher.spawn(["true"], env=ENV, cwd="/", name="n", stdin="pipe", stdout="pipe")
        await child.wait()
        child.close()
    await until(lambda: launcher.children() == ())
    assert counts() == before
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 20
