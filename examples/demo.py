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
        say(f"Start a daemon: hermesd serve --config {config.relative_to(CHECKOUT)}")
        with running(config), Client(address) as client:
            until(lambda: answers(client), "the daemon answers")
            status = client.get_status()
            show("ready", f"hermesd {status.version}, pid {status.pid}, {len(status.plugins)} plugins")
            list_tools(client)
            call_bundled_tools(client)
            digest = drop_plugin(client)
            trust_and_call(client, digest)
            edit(client)
            break_and_mend(client)
            say("Stop: calls in flight would be waited for")
    show("stopped", "everything went as told")
    print('\nNow write your own: README.md, "Your first ten minutes".')
    return 0


def list_tools(client: Client) -> None:
    say("List the tools that come with it")
    verbs: dict[str, list[str]] = {}
    for tool in client.tools():
        domain, _, verb = tool.name.partition(".")
        verbs.setdefault(domain, []).append(verb)
    for domain, names in verbs.items():
        show(domain, ", ".join(names))


def call_bundled_tools(client: Client) -> None:
    say("Call some of them over gRPC, on the files of this checkout")
    now = client.call_tool("time.get_now", {"zone": "Asia/Shanghai"}).raise_for_error().data
    show("time.get_now zone=Asia/Shanghai", now["formats"]["chinese"])
    query = {"query": "hermesd", "pattern": "*.md", "max_hits": 3}
    found = client.call_tool("files.search_text", query).raise_for_error().data
    for hit in found["hits"]:
        place = Path(hit["path"]).relative_to(CHECKOUT)
        show("files.search_text query=hermesd", f"{place}:{hit['line']}: {hit['text'].strip()[:50]}")
    text = client.call_tool("files.read_file", {"path": "README.md"}).raise_for_error().data["text"]
    show("files.read_file path=README.md", f"{len(text)} characters, {text.splitlines()[2]!r}")
    stats = client.call_tool("text.count_stats", {"text": text}).raise_for_error().data
    show("text.count_stats of that", f"{stats['words']} words in {stats['paragraphs']} paragraphs")
    wrong = client.call_tool("text.count_stat", {"text": "x"})
    show("text.count_stat", f"{wrong.code}: did you mean {wrong.detail['nearest'][0]}?")
    wrong = client.call_tool("time.get_now", {"zone": 8})
    show("time.get_now zone:=8", f"{wrong.code}: {wrong.message}")


def drop_plugin(client: Client) -> str:
    say("Drop a plugin into plugins/scale: nothing of it runs before somebody trusts it")
    (BOX / "plugins" / "scale").mkdir()
    write("plugin.yaml", "name: scale\nversion: 1.0.0\nentry: scale.py\n")
    write("scale.py", PLUGIN)
    until(lambda: plugin(client) is not None, "the daemon has found it")
    found = known(client)
    show("scale", f"{found.state}: {found.reason}")
    return str(found.found_digest)


def trust_and_call(client: Client, digest: str) -> None:
    say(f"Trust this content, {digest[:19]}…, and later edits too, as one does while developing")
    client.trust_plugin("scale", digest=digest, follow=True)
    show("scale.weigh_text text=心", weight(client))


def edit(client: Client) -> None:
    say("Edit it: from now on a text weighs ten times as much")
    began = time.monotonic()
    write("scale.py", PLUGIN.replace("FACTOR = 2", "FACTOR = 20"))
    until(lambda: weight(client) == "20 grams", "the edit serves")
    took_ms = (time.monotonic() - began) * 1000
    show("scale.weigh_text text=心", f"{weight(client)}, {took_ms:.0f} ms after the save")


def break_and_mend(client: Client) -> None:
    say("Break it: the last good version goes on serving")
    write("scale.py", PLUGIN.replace("FACTOR = 2", "FACTOR ="))
    until(lambda: bool(known(client).rejections), "the daemon has seen it")
    fault = known(client).rejections[0]
    place = f"{Path(fault.file).relative_to(CHECKOUT)}:{fault.line}:{fault.column}"
    show("rejected", f"{place}: {fault.reason} ({fault.remedy})")
    show("scale.weigh_text text=心", weight(client))
    say("Fix it")
    write("scale.py", PLUGIN.replace("FACTOR = 2", "FACTOR = 3"))
    until(lambda: weight(client) == "3 grams", "the fixed version serves")
    show("scale.weigh_text text=心", weight(client))
    answer = client.reload()
    show(
        "reload", f"generation {answer.generation}, {len(answer.kept)} kept, {len(answer.rejected)} rejected"
    )


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
    print(f"    {what} → {value}", flush=True)


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
