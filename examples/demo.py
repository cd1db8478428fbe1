"""The main job on real input: `make demo`.

Starts a daemon of its own in `.demo/`, calls tools over gRPC on the files of this checkout, writes, trusts,
edits and breaks a plugin, and stops. Exit status 0 when everything went as told.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hermesd.api.v1.admin_pb2 import Plugin
from hermesd.client import Client, UnreachableError

CHECKOUT = Path(__file__).parent.parent
BOX = CHECKOUT / ".demo"
PLUGIN = '''\
"""Weighs texts."""

from typing import Annotated

from hermesd.plugin import ToolContext, tool


@tool(side_effects="none", idempotent=True, when_to_use="The user wants to know how heavy a text is.")
def weigh_text(ctx: ToolContext, text: Annotated[str, "the text itself; ask when it is missing"]) -> str:
    """Tell the weight of a text."""
    ctx.log.info("weighing", characters=len(text))
    return f"{len(text) * FACTOR} grams"


FACTOR = 2
'''


def main() -> int:
    """Run the whole demonstration."""
    shutil.rmtree(BOX, ignore_errors=True)
    (BOX / "plugins").mkdir(parents=True)
    # A unix socket's path has 107 bytes at most, and nobody knows how deep this checkout lies.
    with tempfile.TemporaryDirectory(prefix="hermesd-demo-") as sockets:
        address = f"unix:{sockets}/hermesd.sock"
        config = BOX / "hermesd.yaml"
        config.write_text(
            json.dumps(
                {
                    "data_dir": "data",
                    "server": {"listen": [address]},
                    "plugins": {"dirs": ["plugins"], "settings": {"files": {"roots": [str(CHECKOUT)]}}},
                },
                indent=2,
            )
        )
        say(f"starting a daemon with {config.relative_to(CHECKOUT)}")
        with running(config), Client(address) as client:
            until(lambda: answers(client), "the daemon answers")
            call_bundled_tools(client)
            digest = drop_plugin(client)
            trust_and_call(client, digest)
            edit(client)
            break_and_mend(client)
    say("the daemon has stopped; everything went as told")
    return 0


def call_bundled_tools(client: Client) -> None:
    tools = list(client.tools())
    say(f"{len(tools)} tools: {', '.join(tool.name for tool in tools)}")
    now = client.call_tool("time.get_now", {"zone": "Asia/Shanghai"}).raise_for_error()
    show("time.get_now", now.data)
    found = client.call_tool(
        "files.search_text", {"query": "hermesd", "pattern": "*.md", "max_hits": 2}
    ).raise_for_error()
    show("files.search_text", found.data)
    readme = client.call_tool("files.read_file", {"path": "README.md", "max_lines": 3})
    show("files.read_file", readme.raise_for_error().data)
    stats = client.call_tool("text.count_stats", {"text": (CHECKOUT / "README.md").read_text("utf-8")})
    show("text.count_stats", stats.raise_for_error().data)
    wrong = client.call_tool("text.count_stat", {"text": "x"})
    show("a wrong name", {"code": wrong.code, "nearest": wrong.detail.get("nearest")})


def drop_plugin(client: Client) -> str:
    say("dropping a new plugin into plugins/scale")
    (BOX / "plugins" / "scale").mkdir()
    write("plugin.yaml", "name: scale\nversion: 1.0.0\nentry: scale.py\n")
    write("scale.py", PLUGIN)
    until(lambda: plugin(client) is not None, "the daemon has found it")
    found = known(client)
    show("scale", {"state": found.state, "reason": found.reason})
    return str(found.found_digest)


def trust_and_call(client: Client, digest: str) -> None:
    say("trusting just this content")
    client.trust_plugin("scale", digest=digest, follow=True)
    show("scale.weigh_text", client.call_tool("scale.weigh_text", {"text": "心"}).raise_for_error().data)


def edit(client: Client) -> None:
    say("editing it: a text weighs ten times as much from now on")
    began = time.monotonic()
    write("scale.py", PLUGIN.replace("FACTOR = 2", "FACTOR = 20"))
    until(lambda: weight(client) == "20 grams", "the edit serves")
    show("scale.weigh_text", f"{weight(client)}, {(time.monotonic() - began) * 1000:.0f} ms after the save")


def break_and_mend(client: Client) -> None:
    say("breaking it")
    write("scale.py", PLUGIN.replace("FACTOR = 2", "FACTOR ="))
    until(lambda: bool(known(client).rejections), "the daemon has seen it")
    fault = known(client).rejections[0]
    show("rejected", f"{fault.file}:{fault.line}:{fault.column}: {fault.reason}")
    show("the last good version still serves", weight(client))
    say("mending it")
    write("scale.py", PLUGIN.replace("FACTOR = 2", "FACTOR = 3"))
    until(lambda: weight(client) == "3 grams", "the mended version serves")
    show("reload", {"rejected": len(client.reload().rejected)})


def weight(client: Client) -> object:
    return client.call_tool("scale.weigh_text", {"text": "心"}).raise_for_error().data


def plugin(client: Client) -> Plugin | None:
    return next((each for each in client.plugins() if each.name == "scale"), None)


def known(client: Client) -> Plugin:
    found = plugin(client)
    assert found is not None
    return found


def write(name: str, text: str) -> None:
    """Replace a file of the plugin at once, as an editor does."""
    path = BOX / "plugins" / "scale" / name
    temporary = path.with_name(f".{name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.chmod(0o644)
    temporary.rename(path)


def answers(client: Client) -> bool:
    try:
        return client.get_status().state == "ready"
    except UnreachableError:
        return False


@contextmanager
def running(config: Path) -> Iterator[None]:
    """The daemon as a process; it must end well."""
    log = BOX / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "hermesd", "serve", "--config", str(config)], stderr=output, cwd=CHECKOUT
        )
        try:
            yield
        except BaseException:
            print(log.read_text("utf-8", "replace")[-4000:], file=sys.stderr)
            raise
        finally:
            process.send_signal(signal.SIGTERM)
            status = process.wait(30)
        if status:
            raise SystemExit(f"the daemon ended with status {status}; see {log}")


def until(condition: Callable[[], bool], what: str, timeout_s: float = 15.0) -> None:
    """Wait until `condition` holds, or end with what did not come true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"within {timeout_s:g} s it did not come true that {what}")
        time.sleep(0.02)


def say(text: str) -> None:
    print(f"\n• {text}", flush=True)


def show(what: str, value: object) -> None:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    print(f"    {what}: {text if len(text) < 400 else text[:400] + ' …'}", flush=True)


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
