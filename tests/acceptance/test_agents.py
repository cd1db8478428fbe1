"""Agents from outside: an operator gives rights and takes them, and the daemon holds to it at once."""

from __future__ import annotations

import json
import stat
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hermesd.access.identity import token_sha256
from hermesd.client import Client, ClientError, NotAllowedError, UnreachableError, WatchLostError
from tests.harness import Daemon, Home, eventually

JOBS = """
import time
from hermesd.plugin import tool

@tool(side_effects="write", timeout_ms=60000)
async def wait_long(seconds: float) -> str:
    "Waits."
    import asyncio
    await asyncio.sleep(seconds)
    return "waited"

@tool(side_effects="none", roles=["clerk"])
def say_secret() -> str:
    "For clerks."
    return "secret"

@tool(side_effects="destructive")
def drop_all() -> str:
    "Drops."
    return "dropped"
"""


@pytest.fixture
def jobs(home: Home, serve: Callable[..., Daemon]) -> Daemon:
    home.plugin("jobs", JOBS)
    home.follow("jobs", server={"agents_listen": [f"unix:{home.path}/a", "127.0.0.1:0"]})
    return serve()


def add(daemon: Daemon, name: str, *words: str) -> str:
    document = daemon.ctl_json("agents", "add", name, *words)
    assert document["agent"]["name"] == name
    token: str = document["token"]
    return token


def agents_door(daemon: Daemon, token: str | None, at: int = 0, **more: Any) -> Client:
    return Client(daemon.status().agents_addresses[at], token=token, **more)


class Background(threading.Thread):
    """Something that waits, and what came of it."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.outcome: object = None
        self._work = work
        self.start()

    def run(self) -> None:
        try:
            self.outcome = self._work()
        except ClientError as error:
            self.outcome = error

    def ended(self) -> object:
        self.join(10)
        assert not self.is_alive()
        return self.outcome


@pytest.mark.promise("IDN-1")
@pytest.mark.promise("IDN-12")
def test_a_token_is_shown_once_and_outlives_a_crash(home: Home, jobs: Daemon, serve: Any) -> None:
    shown = jobs.ctl("agents", "add", "reporter", "--allow", "jobs.*")
    token = shown.stdout.strip()
    assert (shown.returncode, len(token.split())) == (0, 1)
    jobs.kill()
    daemon = serve()
    with agents_door(daemon, token) as client:
        me = client.who_am_i()
        assert (me.name, me.kind, list(me.tools.allow), me.ceiling) == (
            "reporter",
            "agent",
            ["jobs.*"],
            "write",
        )
        assert client.call_tool("jobs.wait_long", {"seconds": 0}).data == "waited"
    kept = home.data / "state" / "grants.json"
    assert token_sha256(token) in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    listed = daemon.ctl("agents", "list").stdout + daemon.ctl("--json", "agents", "list").stdout
    told = (
        listed + daemon.ctl("config", "--effective").stdout + daemon.ctl("events").stdout + daemon.log_text()
    )
    told += daemon.ctl("--json", "dump").stdout
    assert "reporter" in listed
    for secret in (token, token_sha256(token)):
        assert secret not in told
    assert token.encode() not in b"".join(
        each.read_bytes() for each in home.data.rglob("*") if each.is_file()
    )


@pytest.mark.promise("IDN-10")
@pytest.mark.parametrize("at", [0, 1], ids=["unix", "tcp"])
def test_where_agents_listen_nobody_passes_without_a_token(home: Home, jobs: Daemon, at: int) -> None:
    for token in (None, "wrong"):
        with agents_door(jobs, token, at) as client:
            for ask in (client.who_am_i, client.list_tools, client.get_status):
                with pytest.raises(NotAllowedError) as caught:
                    ask()
                assert caught.value.code == "UNAUTHENTICATED"
                assert caught.value.remedy
    assert stat.S_IMODE((home.path / "a").stat().st_mode) == 0o666
    assert stat.S_IMODE(home.socket.stat().st_mode) == 0o600
    failures = jobs.events("authentication_failed")
    assert len(failures) == 6
    assert json.loads(failures[0].fields_json)["peer"]


@pytest.mark.promise("IDN-2")
@pytest.mark.promise("IDN-7")
def test_rights_hold_on_lists_lookups_and_calls_and_denials_are_told(home: Home, jobs: Daemon) -> None:
    """hermes-agent#44615, #10107: one key that opened everything."""
    token = add(jobs, "reporter", "--allow", "*", "--deny", "files.*")
    clerk = add(jobs, "zhang", "--allow", "jobs.*", "--role", "clerk", "--ceiling", "destructive")
    with agents_door(jobs, token) as client:
        names = {each.name for each in client.tools(include_unavailable=True)}
        assert {"jobs.wait_long", "jobs.drop_all"} <= names
        assert "jobs.say_secret" not in names
        assert not any(each.startswith("files.") for each in names)
        assert client.call_tool("jobs.say_secret").code == "UNKNOWN_TOOL"
        denied = client.call_tool("jobs.drop_all")
        assert (denied.code, denied.effect) == ("PERMISSION_DENIED", "none")
        assert denied.detail["remedy"]
        with pytest.raises(NotAllowedError) as caught:
            client.reload()
        assert caught.value.code == "PERMISSION_DENIED"
    with agents_door(jobs, clerk) as client:
        assert client.call_tool("jobs.say_secret").data == "secret"
    told = [json.loads(each.fields_json) | {"who": each.subject} for each in jobs.events("denied")]
    assert told == [
        {"who": "reporter", "action": "see", "object": "jobs.say_secret"},
        {"who": "reporter", "action": "call", "object": "jobs.drop_all"},
        {"who": "reporter", "action": "administer", "object": "/hermesd.api.v1.AdminService/Reload"},
    ]
    # The agent was told that there is no such tool; the operator reads why.
    assert "none of the roles of 'jobs.say_secret'" in jobs.events("denied")[0].message
    path = home.path / "token"
    path.write_text(token + "\n")
    refused = jobs.ctl("--token-file", str(path), "agents", "list")
    assert (refused.returncode, refused.stdout) == (4, "")


@pytest.mark.promise("REC-10")
def test_an_agent_asks_for_its_own_calls_and_for_nobody_elses(home: Home, jobs: Daemon) -> None:
    paths = {}
    for name in ("reporter", "other"):
        paths[name] = home.path / name
        paths[name].write_text(add(jobs, name, "--allow", "jobs.*"))

    def ask(name: str, *words: str) -> tuple[int, Any]:
        done = jobs.ctl("--json", "--token-file", str(paths[name]), "calls", *words)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    assert (
        jobs.ctl("--token-file", str(paths["reporter"]), "tools", "call", "jobs.say_secret").returncode == 1
    )
    jobs.ctl("--token-file", str(paths["other"]), "tools", "call", "jobs.wait_long", "seconds:=0")
    jobs.ctl("tools", "call", "jobs.say_secret")
    [own] = ask("reporter", "list")[1]["calls"]
    assert (own["tool"], own["code"], own["agent"]) == ("jobs.say_secret", "UNKNOWN_TOOL", "reporter")
    [theirs] = ask("other", "list")[1]["calls"]
    assert ask("reporter", "show", own["request_id"])[0] == 0
    refused = ask("reporter", "show", theirs["request_id"])
    absent = ask("reporter", "show", "none")
    assert refused == (1, absent[1].replace("'none'", repr(theirs["request_id"])))
    counted = ask("reporter", "stats")[1]
    assert int(counted["calls"]) == 1
    assert counted["unused_tools"] == ["jobs.drop_all", "jobs.wait_long"]
    for words in (("replay", own["request_id"]), ("replay", theirs["request_id"])):
        assert ask("reporter", *words)[0] == 4
    assert jobs.ctl("--token-file", str(paths["reporter"]), "events").returncode == 4
    assert len(jobs.ctl_json("calls", "list")["calls"]) == 3


@pytest.mark.promise("IDN-5")
@pytest.mark.parametrize("verb", ["revoke", "rotate"])
def test_taking_a_token_back_ends_what_is_open_with_it(jobs: Daemon, verb: str) -> None:
    token, other = add(jobs, "reporter", "--allow", "jobs.*"), add(jobs, "zhang", "--allow", "jobs.*")
    with agents_door(jobs, token) as mine, agents_door(jobs, other) as theirs:
        watch = Background(lambda: list(mine.watch_tools()))
        call = Background(lambda: mine.call_tool("jobs.wait_long", {"seconds": 30}))
        untouched = Background(lambda: theirs.call_tool("jobs.wait_long", {"seconds": 1.5}))
        eventually(lambda: jobs.status().calls.inflight == 2)
        time.sleep(0.2)
        answer = jobs.ctl("agents", verb, "reporter")
        assert answer.returncode == 0
        result: Any = call.ended()
        assert (result.code, result.effect) == ("CANCELLED", "unknown")
        assert "taken back" in result.message
        ended = watch.ended()
        assert isinstance(ended, NotAllowedError)
        assert ended.code == "UNAUTHENTICATED"
        with pytest.raises(NotAllowedError):
            mine.who_am_i()
        done: Any = untouched.ended()
        assert done.code == "OK"
    if verb == "rotate":
        with agents_door(jobs, answer.stdout.strip()) as again:
            assert again.who_am_i().name == "reporter"
    else:
        assert jobs.ctl("agents", "revoke", "reporter").returncode == 1


@pytest.mark.promise("IDN-5")
@pytest.mark.promise("IDN-8")
def test_a_reload_that_narrows_rights_ends_what_they_no_longer_cover(home: Home, jobs: Daemon) -> None:
    def configure(**agent: Any) -> None:
        rights = {"token_sha256": token_sha256("geheim"), **agent}
        home.follow("jobs", server={"agents_listen": [f"unix:{home.path}/a"]}, agents={"zhang": rights})
        assert not jobs.reload().rejected

    configure(tools={"allow": ["*"]})
    with Client(f"unix:{home.path}/a", token="geheim") as client:
        watch = Background(lambda: list(client.watch_tools()))
        cut = Background(lambda: client.call_tool("jobs.wait_long", {"seconds": 30}))
        eventually(lambda: jobs.status().calls.inflight == 1)
        time.sleep(0.2)
        configure(tools={"allow": ["*"], "deny": ["time.*"]})
        assert isinstance(watch.ended(), WatchLostError)
        assert cut.is_alive(), "it may still be called"
        configure(tools={"allow": ["*"]}, ceiling="read")
        result: Any = cut.ended()
        assert (result.code, result.effect) == ("CANCELLED", "unknown")
        assert client.call_tool("time.get_now").code == "OK"
        for verb in ("rotate", "revoke", "add"):
            refused = jobs.ctl("agents", verb, "zhang")
            assert refused.returncode == 1
            assert f"{home.config}:" in refused.stderr
        place = jobs.ctl_json("agents", "list")["agents"][0]["place"]
        assert place.startswith(f"{home.config}:")
        home.follow("jobs", server={"agents_listen": [f"unix:{home.path}/a"]})
        jobs.reload()
        with pytest.raises(NotAllowedError):
            client.who_am_i()


@pytest.mark.promise("IDN-6")
def test_an_agent_and_what_it_has_open_end_when_its_time_has_come(jobs: Daemon) -> None:
    with jobs.client() as operator:
        answer = operator.add_agent(
            "guest", allow=["jobs.*"], expires=datetime.now(UTC) + timedelta(seconds=2)
        )
    with agents_door(jobs, answer.token) as client:
        call = Background(lambda: client.call_tool("jobs.wait_long", {"seconds": 30}))
        watch = Background(lambda: list(client.watch_tools()))
        result: Any = call.ended()
        assert result.code == "CANCELLED"
        assert isinstance(watch.ended(), NotAllowedError)
        with pytest.raises(NotAllowedError, match="has expired"):
            client.who_am_i()
    assert jobs.ctl_json("agents", "list")["agents"][0]["state"] == "expired"
    assert [each.subject for each in jobs.events("agent_expired")] == ["guest"]
    assert jobs.ctl("agents", "add", "late", "--expires", "2020-01-01").returncode == 1


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("add", "Reporter"), 1), (("add", "operator"), 1), (("add", "a", "--ceiling", "all"), 2),
        (("add", "a", "--role", "Big Boss"), 1), (("add", "a", "--expires", "soon"), 2),
        (("rotate", "nobody"), 1), (("add", "reporter"), 1),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)  # fmt: skip
def test_what_cannot_be_is_refused_with_what_to_do(jobs: Daemon, words: tuple[str, ...], status: int) -> None:
    add(jobs, "reporter")
    refused = jobs.ctl("agents", *words)
    assert (refused.returncode, refused.stdout) == (status, "")
    assert refused.stderr.strip()
    assert len(jobs.ctl_json("agents", "list")["agents"]) == 1


@pytest.mark.promise("IDN-3")
def test_a_plugin_does_nothing_for_an_agent_that_it_could_not_do_itself(home: Home, serve: Any) -> None:
    home.plugin("jobs", JOBS)
    code = """
        from hermesd.plugin import ToolContext, tool

        @tool(side_effects="none")
        async def pass_on(ctx: ToolContext, name: str) -> str:
            "Calls."
            return await ctx.call(name)
        """
    home.plugin("proxy", code, manifest="permissions: {calls: ['jobs.*']}\n")
    trusted = {
        "proxy": {"follow": True, "grant": {"calls": ["jobs.*"]}}, "jobs": {"follow": True}
    }  # fmt: skip
    home.configure(trusted=trusted)
    daemon = serve()
    token = add(daemon, "reporter", "--allow", "proxy.*")
    clerk = add(daemon, "zhang", "--allow", "*", "--role", "clerk")
    with Client(home.address, token=token) as client:
        hidden = client.call_tool("proxy.pass_on", {"name": "jobs.say_secret"})
        absent = client.call_tool("proxy.pass_on", {"name": "jobs.say_nothing"})
        assert hidden.message.replace("say_secret", "say_nothing") == absent.message
    with Client(home.address, token=clerk) as client:
        assert client.call_tool("proxy.pass_on", {"name": "jobs.say_secret"}).data == "secret"
    assert daemon.call("proxy.pass_on", name="jobs.say_secret") == "secret"


@pytest.mark.promise("IDN-10")
def test_a_client_never_sends_a_token_over_a_network_in_the_clear() -> None:
    from hermesd.errors import InvalidRequestError  # noqa: PLC0415

    with pytest.raises(InvalidRequestError, match="in the clear"):
        Client("192.0.2.1:7443", token="geheim")
    with pytest.raises(UnreachableError), Client("127.0.0.1:1", token="geheim", timeout_s=1) as client:
        client.who_am_i()


@pytest.mark.promise("IDN-5")
def test_what_a_long_call_calls_is_judged_by_the_rights_of_now(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    home.plugin(
        "relay",
        """
        import asyncio
        from hermesd.plugin import tool, ToolContext

        @tool(side_effects="read", timeout_ms=20000)
        async def count_later(ctx: ToolContext) -> int:
            "Counts, when it is told to go on."
            while not (await ctx.call("text.count_stats", text="a"))["words"] == 2:
                await asyncio.sleep(0.01)
            return 1
        """,
        manifest='permissions: {calls: ["text.*"]}\n',
    )
    rights: dict[str, Any] = {"token_sha256": token_sha256("t" * 40), "tools": {"allow": ["*"]}}
    trusted = {"relay": {"follow": True, "isolation": "process", "grant": {"calls": ["text.*"]}}}
    home.configure({"agents": {"reporter": rights}}, trusted=trusted)
    daemon = serve()
    with Client(home.address, token="t" * 40) as client:
        answer: list[Any] = []
        calling = threading.Thread(target=lambda: answer.append(client.call_tool("relay.count_later", {})))
        calling.start()
        eventually(lambda: daemon.ctl_json("calls", "list")["calls"], what="the call")
        rights["tools"]["deny"] = ["text.*"]
        home.configure({"agents": {"reporter": rights}}, trusted=trusted)
        daemon.reload()
        calling.join(15)
    assert answer[0].code == "DEPENDENCY_FAILED", answer
    # What it may not call is hidden from it; one that was just going on was ended.
    told = ("UNKNOWN_TOOL", "CANCELLED: the agent may not call this tool any more")
    assert any(each in answer[0].message for each in told)
