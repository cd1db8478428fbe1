"""The runner as a container would run it: a bare interpreter, a pipe each way."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hermesd.plugin.frames import FRAME_VERSION, FrameDecoder, encode_frame

PACKAGE = Path(__file__).resolve().parents[2] / "hermesd"


@pytest.fixture
def start(tmp_path):
    """Starts a runner of a copy that holds nothing but the SDK, without site-packages."""
    home = tmp_path / "复制" / "hermesd"
    home.mkdir(parents=True)
    shutil.copytree(PACKAGE / "plugin", home / "plugin", ignore=shutil.ignore_patterns("__pycache__"))
    root = tmp_path / "demo"
    root.mkdir()
    (root / "demo.py").write_text(
        "import sys\nfrom hermesd.plugin import tool\n"
        "print('at import')\n"
        "@tool\ndef paths() -> list[str]:\n    return sys.path\n"
        "@tool\ndef read() -> str:\n    return sys.stdin.read()\n"
    )
    started = []

    def run():
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", str(home / "plugin" / "__main__.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd="/",
            env={},
        )
        started.append(process)
        return Line(process, root)

    yield run
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()


class Line:
    def __init__(self, process, root):
        self.process = process
        self.root = root
        self.decoder = FrameDecoder()
        self.frames = []

    def send(self, head, body=b""):
        self.process.stdin.write(encode_frame(head, body))

    def receive(self, kind):
        while True:
            for index, (head, _) in enumerate(self.frames):
                if head["t"] == kind:
                    return self.frames.pop(index)
            data = self.process.stdout.read(65536)
            assert data, self.process.stderr.read().decode()
            self.frames += self.decoder.feed(data)

    def load(self, entry="demo.py"):
        head = {"t": "load", "plugin": "demo", "version": "1.0.0", "digest": "sha256:" + "1" * 64}
        head |= {"root": str(self.root), "entry": entry, "max_concurrency": 2}
        self.send(head, b'{"settings":{},"secrets":{}}')

    def call(self, tool):
        head = {"t": "call", "id": 1, "tool": tool, "request_id": "r", "session_id": "", "attempt": 1}
        self.send({**head, "remaining_ms": None}, b"{}")
        return self.receive("result")


def test_the_sdk_alone_serves_calls_over_two_pipes(start):
    line = start()
    hello, _ = line.receive("hello")
    assert hello["version"] == FRAME_VERSION
    line.load()
    _, body = line.receive("described")
    assert [tool["name"] for tool in json.loads(body)["tools"]] == ["demo.paths", "demo.read"]
    line.send({"t": "ready"})
    line.receive("ready")
    head, body = line.call("demo.paths")
    assert head["code"] == "OK"
    assert str(line.root.parent) not in body.decode()
    assert line.call("demo.read")[1] == b'""'
    line.send({"t": "shutdown"})
    line.receive("closed")
    assert line.process.wait(10) == 0
    assert line.process.stderr.read().decode().strip() == "at import"


def test_a_tool_that_is_not_there_is_unavailable_and_an_unknown_step_is_a_fault(start):
    line = start()
    line.load()
    line.receive("described")
    head, _ = line.call("demo.absent")
    assert (head["code"], head["effect"]) == ("UNAVAILABLE", "none")
    line.send({"t": "dance"})
    fault, _ = line.receive("fault")
    assert "dance" in fault["reason"]


def test_a_load_fault_tells_file_and_line(start):
    line = start()
    (line.root / "bad.py").write_text("x = 1\ny = x +\n")
    line.load("bad.py")
    fault, _ = line.receive("fault")
    assert (fault["file"], fault["line"], fault["stage"]) == ("bad.py", 2, "load")


@pytest.mark.parametrize("last_words", [b"", b"garbage that is no frame", b"\0\0\0\2\0\0\0\0[]"])
def test_a_runner_ends_when_the_line_breaks(start, last_words):
    line = start()
    line.load()
    line.receive("described")
    line.process.stdin.write(last_words)
    line.process.stdin.close()
    assert line.process.wait(10) == 0
