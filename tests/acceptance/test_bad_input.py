"""Bad input gets a clear answer: what, where, and what to do. Nothing else notices."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from textwrap import dedent

import pytest

from hermesd.api.v1 import admin_pb2
from tests.harness import Daemon, Home, cli, eventually, refused
from tests.plugins import word

Serve = Callable[..., Daemon]
HEAD = "name: {name}\nversion: 1.0.0\nentry: {name}.py\n"


def bomb() -> str:
    """A billion laughs: nine levels of nine aliases each."""
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    for level in range(1, 10):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]")
    return "\n".join(lines) + "\n"


#: What stands in a manifest → (line, column, what the reason says). None: not known.
MANIFESTS: dict[str, tuple[str | bytes, int | None, int | None, str]] = {
    "tabs": ("name: tabs\nversion: 1.0.0\nentry: tabs.py\nsettings:\n\ttype: object\n", 5, None, "tab"),
    "twice": ("name: twice\nversion: 1.0.0\nversion: 1.0.1\nentry: twice.py\n", 3, 1, "version"),
    "types": ("name: types\nversion: 1.10\nentry: types.py\n", 2, 1, "1.1"),
    "switch": ("name: switch\nversion: 1.0.0\nentry: on\n", 3, None, "on"),
    "list": ("- name\n- version\n", 1, 1, "mapping"),
    "large": ("# " + "x" * (10 * 1024 * 1024) + "\n" + HEAD.format(name="large"), None, None, "MiB"),
    "aliases": (HEAD.format(name="aliases") + bomb(), None, None, "expand"),
    "empty": ("", None, None, "empty"),
    "binary": (bytes(range(256)) * 20, None, None, ""),
    "latin": ("name: latin\nversion: 1.0.0\nentry: \xe9.py\n".encode("latin-1"), None, None, "UTF-8"),
    "unknown": (HEAD.format(name="unknown") + "entyr: x.py\n", 4, 1, "entyr"),
    "nothing": ("name: nothing\nversion: 1.0.0\n", None, None, "entry"),
    "absent": ("name: absent\nversion: 1.0.0\nentry: other.py\n", None, None, "other.py"),
    "newer": (HEAD.format(name="newer") + "requires_hermesd: '>=99'\n", 4, None, "99"),
    "domain": (HEAD.format(name="hermesd"), 1, None, "hermesd"),
    "outside": ("name: outside\nversion: 1.0.0\nentry: ../../etc/passwd\n", 3, None, "entry"),
    "noschema": (HEAD.format(name="noschema") + "settings: {type: objekt}\n", None, None, "settings"),
    "unclosed": (HEAD.format(name="unclosed") + "settings: {type: [object\n", 5, None, ""),
}

#: Code of a plugin → (line, what the reason says).
CODES: dict[str, tuple[str, int, str]] = {
    "syntax": ("VALUE = 1\ndef broken(:\n    pass\n", 2, "syntax"),
    "raises": ("VALUE = 1\n\nraise ValueError('no such luck')\n", 3, "no such luck"),
    "exits": ("import sys\nsys.exit(7)\n", 2, "SystemExit"),
    "interrupts": ("raise KeyboardInterrupt\n", 1, "KeyboardInterrupt"),
    "recurses": ("def again():\n    return again()\n\nagain()\n", 2, "recursion"),
    "imports": ("import no_such_module_anywhere\n", 1, "no_such_module_anywhere"),
    "badtype": (
        "from hermesd.plugin import tool\n\n@tool(side_effects='read')\ndef take_it(x: object()) -> str:\n"
        "    return ''\n",
        3,
        "x",
    ),
    "wrongword": (
        "from hermesd.plugin import tool\n\n@tool(side_effect='read')\ndef take() -> str:\n    return ''\n",
        3,
        "side_effects",
    ),
    "foreign": (
        "from hermesd.plugin import tool\n\n@tool(name='text.count')\ndef count() -> str:\n    return ''\n",
        3,
        "text.count",
    ),
    "doubled": (
        "from hermesd.plugin import tool\n\n@tool(name='doubled.it')\ndef one() -> str:\n    return ''\n\n"
        "@tool(name='doubled.it')\ndef two() -> str:\n    return ''\n",
        7,
        "doubled.it",
    ),
    "latetool": (
        "from hermesd.plugin import tool\n\n@tool(idempotent=True)\ndef first() -> str:\n    return ''\n\n"
        "@tool(side_effects='sideways')\ndef second() -> str:\n    return ''\n",
        7,
        "sideways",
    ),
    "starts": (
        "from hermesd.plugin import tool\n\ndef hermesd_startup(ctx):\n    raise OSError('no database')\n\n"
        "@tool(side_effects='read')\ndef first() -> str:\n    return ''\n",
        4,
        "no database",
    ),
    "nul": ("VALUE = 1\nVALUE = '\0'\n", 2, "null"),
}


@pytest.fixture(scope="module")
def dropped() -> dict[str, admin_pb2.Plugin]:
    """One daemon that finds all of it at once, beside one good plugin: what it says of each."""
    home = Home()
    daemon = None
    try:
        home.follow("good", *MANIFESTS, *CODES)
        home.plugin("good", word("good"))
        for name, (manifest, *_) in MANIFESTS.items():
            folder = home.plugin(name, word(name))
            home.replace(folder / "plugin.yaml", manifest)
        for name, (text, *_) in CODES.items():
            home.plugin(name, text)
        daemon = Daemon(home).wait_ready()
        eventually(lambda: all(each.state != "pending" for each in daemon.status().plugins), 20)
        assert daemon.call("good.say_word") == "good"
        answer = daemon.reload()
        assert daemon.call("good.say_word") == "good"
        standing = {each.name: each for each in daemon.status().plugins}
        assert len({each.name for each in answer.rejected}) > 20
        assert daemon.process.poll() is None
        assert daemon.stop() == 0
        return standing
    finally:
        if daemon is not None and daemon.process.poll() is None:
            daemon.kill()
        home.remove()


@pytest.mark.promise("FLT-13")
@pytest.mark.parametrize("name", MANIFESTS)
def test_a_bad_manifest_is_answered_with_place_reason_and_remedy(
    dropped: dict[str, admin_pb2.Plugin], name: str
) -> None:
    _, line, column, reason = MANIFESTS[name]
    plugin = dropped[name]
    assert plugin.state == "rejected"
    first = plugin.rejections[0]
    assert f"/plugins/{name}" in first.file, "the operator's own path, not one of the store"
    assert line is None or first.line == line, first
    assert column is None or first.column == column, first
    assert reason.lower() in first.reason.lower(), first
    assert first.remedy, first
    assert first.reason.isprintable(), first
    assert not plugin.tools


@pytest.mark.promise("FLT-13")
@pytest.mark.parametrize("name", CODES)
def test_bad_code_is_answered_with_its_own_line_and_the_daemon_lives(
    dropped: dict[str, admin_pb2.Plugin], name: str
) -> None:
    _, line, reason = CODES[name]
    plugin = dropped[name]
    assert plugin.state == "rejected"
    first = plugin.rejections[0]
    assert first.file.endswith(f"/plugins/{name}/{name}.py"), first
    assert first.name == name
    assert first.line == line, first
    assert reason.lower() in first.reason.lower(), first
    assert first.remedy, first
    assert "Traceback" not in first.reason
    assert not plugin.tools


#: The whole configuration → (line, column, what is said). None: not known.
CONFIGURATIONS: dict[str, tuple[str | bytes, int | None, int | None, str]] = {
    "tabs": ("server:\n\tlisten: []\n", 2, 1, "tab"),
    "a duplicate key": ("server: {}\nserver: {}\n", 2, 1, "server"),
    "a wrong type": ("server:\n  drain_timeout_s: soon\n", 2, 3, "drain_timeout_s"),
    "an unknown key": ("servr: {}\n", 1, 1, "server"),
    "ten megabytes": ("# " + "x" * 10 * 1024 * 1024, None, None, "MiB"),
    "an alias bomb": (bomb(), None, None, "expand"),
    "binary": (bytes(range(256)) * 20, None, None, ""),
    "an absent variable": ("data_dir: ${NO_SUCH_VARIABLE_ANYWHERE}\n", 1, None, "NO_SUCH_VARIABLE_ANYWHERE"),
    "two documents": ("server: {}\n---\nserver: {}\n", 2, 1, "document"),
}


def test_a_plugin_without_a_tool_and_a_single_file_are_told_too(home: Home, serve: Serve) -> None:
    home.follow("bare", "single")
    home.plugin("bare", "VALUE = 1\n")
    home.replace(home.plugins / "single.py", "VALUE = (\n")
    daemon = serve()
    assert "offers no tool" in daemon.plugin("bare").warnings[0]
    first = daemon.plugin("single").rejections[0]
    assert (first.file, first.line) == (str(home.plugins / "single.py"), 1)


@pytest.mark.promise("FLT-13")
def test_a_bad_configuration_is_refused_at_start_and_changes_nothing_in_a_reload(
    home: Home, serve: Serve
) -> None:
    home.follow("orders")
    home.plugin("orders", word("fine"))
    good = home.config.read_text()
    daemon = serve()
    digest = daemon.status().config_digest
    for what, (text, line, column, said) in CONFIGURATIONS.items():
        home.replace(home.config, text)
        answer = daemon.reload()
        mine = [each for each in answer.rejected if each.file == str(home.config)]
        assert mine, what
        assert line is None or mine[0].line == line, (what, mine[0])
        assert column is None or mine[0].column == column, (what, mine[0])
        assert said.lower() in f"{mine[0].reason} {mine[0].remedy}".lower(), (what, mine[0])
        assert mine[0].remedy, (what, mine[0])
        assert daemon.status().config_digest == digest, what
        assert daemon.call("orders.say_word") == "fine", what
    home.replace(home.config, "# nothing\n" + good)
    assert not daemon.reload().rejected
    assert daemon.stop() == 0
    for what in ("tabs", "a wrong type", "binary"):
        text, line, column, said = CONFIGURATIONS[what]
        home.replace(home.config, text)
        status, told = refused(home)
        assert status == 1, what
        assert f"{home.config}:{line}" in told if line else str(home.config) in told, (what, told)
        assert said.lower() in told.lower(), (what, told)
        assert "Traceback" not in told, (what, told)
        checked = cli("check", "--config", str(home.config))
        assert checked.returncode == 1, what
        assert str(home.config) in checked.stdout + checked.stderr, what


def test_an_include_that_repeats_a_name_is_refused_with_both_places(home: Home, serve: Serve) -> None:
    (home.path / "conf.d").mkdir()
    home.configure({"include": ["conf.d/*.yaml"]}, settings={"time": {"zone": "UTC"}})
    daemon = serve()
    second = home.path / "conf.d" / "10-more.yaml"
    home.replace(second, "plugins:\n  settings:\n    time: {zone: CET}\n")
    answer = eventually(lambda: daemon.reload().rejected, what="the refusal")
    text = f"{answer[0].file}:{answer[0].line} {answer[0].reason}"
    assert str(second) in text
    assert str(home.config) in text
    assert "time" in text
    second.unlink()
    assert not daemon.reload().rejected


@pytest.mark.promise("FLT-14")
def test_of_two_plugins_with_one_name_the_first_keeps_it_and_both_origins_are_named(
    home: Home, serve: Serve
) -> None:
    home.follow("orders")
    home.plugin("orders", word("first"))
    daemon = serve()
    (home.plugins / "aaa").mkdir()
    home.replace(home.plugins / "aaa" / "orders.py", word("second"))
    home.replace(home.plugins / "aaa" / "plugin.yaml", HEAD.format(name="orders"))
    (home.plugins / "text").mkdir()
    home.replace(home.plugins / "text" / "text.py", word("mine"))
    home.replace(home.plugins / "text" / "plugin.yaml", HEAD.format(name="text"))
    answer = daemon.reload()
    texts = [f"{each.name} {each.reason}" for each in answer.rejected]
    assert any(
        str(home.plugins / "aaa") in each and str(home.plugins / "orders") in each for each in texts
    ), texts
    assert any(each.startswith("text") and str(home.plugins / "text") in each for each in texts), texts
    assert daemon.call("orders.say_word") == "first"
    assert daemon.plugin("text").origin == "bundled"


def test_a_tool_that_two_definitions_claim_in_one_plugin_is_refused_as_a_whole(
    home: Home, serve: Serve
) -> None:
    home.follow("half")
    home.plugin("half", word("old"))
    daemon = serve()
    home.plugin("half", CODES["doubled"][0].replace("doubled", "half"))
    answer = daemon.reload()
    assert answer.rejected[0].name == "half"
    assert daemon.call("half.say_word") == "old"


#: Root who obeys permissions as others do.
WITHOUT_OVERRIDE = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
)


@pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None, reason="as root it needs setpriv (util-linux)"
)
@pytest.mark.promise("FLT-15")
def test_what_the_daemon_may_not_read_is_named_and_the_rest_serves(home: Home, serve: Serve) -> None:
    """Root may read whatever it wants: its daemon gives that privilege up first."""
    home.follow("secret", "closed", "fine")
    home.plugin("secret", word("secret"))
    home.plugin("closed", word("closed"))
    home.plugin("fine", word("fine"))
    prefix = WITHOUT_OVERRIDE if os.geteuid() == 0 else ()
    (home.plugins / "secret" / "secret.py").chmod(0)
    (home.plugins / "closed").chmod(0)
    daemon = serve(prefix=prefix)
    assert daemon.call("fine.say_word") == "fine"
    answer = daemon.reload()
    told = {each.name: each for each in answer.rejected}
    assert {"secret", "closed"} <= told.keys(), answer.rejected
    assert "secret.py" in f"{told['secret'].file} {told['secret'].reason}"
    for name in ("secret", "closed"):
        assert "permission" in told[name].reason.lower() or "read" in told[name].reason.lower()
        assert told[name].remedy
    (home.plugins / "secret" / "secret.py").chmod(0o644)
    (home.plugins / "closed").chmod(0o755)
    assert not daemon.reload().rejected
    assert daemon.call("secret.say_word") == "secret"
    # What served goes on serving when its folder is closed to the daemon.
    (home.plugins / "closed").chmod(0)
    answer = daemon.reload()
    assert "closed" in {each.name for each in answer.rejected}
    assert not answer.removed
    assert daemon.call("closed.say_word") == "closed"
    (home.plugins / "closed").chmod(0o755)


@pytest.mark.promise("FLT-15")
def test_a_plugin_that_others_may_write_to_is_not_run_and_its_last_good_content_serves(
    home: Home, serve: Serve
) -> None:
    home.follow("orders")
    home.plugin("orders", word("good"))
    daemon = serve()
    (home.plugins / "orders").chmod(0o777)
    home.replace(home.plugins / "orders" / "orders.py", word("evil"))
    daemon.reload()
    found = daemon.plugin("orders")
    assert "chmod" in found.reason + found.remedy
    assert daemon.call("orders.say_word") == "good"
    (home.plugins / "orders").chmod(0o755)
    daemon.reload()
    assert daemon.call("orders.say_word") == "evil"


def test_a_data_dir_that_cannot_be_made_is_named(home: Home) -> None:
    (home.path / "file").write_text("")
    status, told = refused(home, "--data-dir", str(home.path / "file" / "data"))
    assert status == 1
    assert str(home.path / "file" / "data") in told
    assert "Traceback" not in told


def test_bad_arguments_are_answered_with_every_fault_and_the_nearest_name(home: Home, serve: Serve) -> None:
    home.follow("shop")
    home.plugin(
        "shop",
        dedent("""
        from hermesd.plugin import tool

        @tool(side_effects="write")
        def take_order(amount: int, item: str) -> str:
            "Takes an order."
            return item
        """),
    )
    daemon = serve()
    with daemon.client() as client:
        result = client.call_tool("shop.take_order", {"amount": [], "wrong": 1})
        assert (result.code, result.effect) == ("INVALID_ARGUMENT", "none")
        faults = {each["path"] for each in result.detail["faults"]}
        assert {"/amount", "/item"} <= faults
        assert result.detail["remedy"]
        for text in ("[1]", "{", "nul\0", "1" * 100):
            result = client.call_tool("shop.take_order", text)
            assert result.code == "INVALID_ARGUMENT", text
        deep = "[" * 5000 + "]" * 5000
        assert client.call_tool("shop.take_order", '{"amount": ' + deep + "}").code == "INVALID_ARGUMENT"
        result = client.call_tool("shop.take_ordr", {})
        assert result.code == "UNKNOWN_TOOL"
        assert result.detail["nearest"] == ["shop.take_order"]
    assert daemon.status().state == "ready"


def test_whatever_a_tool_does_is_a_result_and_the_next_call_works(home: Home, serve: Serve) -> None:
    home.follow("wild")
    home.plugin(
        "wild",
        '''
        import sys
        from hermesd.plugin import ToolContext, ToolError, tool

        @tool(side_effects="write")
        def act(how: str, ctx: ToolContext) -> object:
            """Misbehaves."""
            if how == "raise":
                raise ValueError("secret internals")
            if how == "exit":
                sys.exit(3)
            if how == "recurse":
                return act("recurse", ctx)
            if how == "cycle":
                loop = []
                loop.append(loop)
                return loop
            if how == "nan":
                return float("nan")
            if how == "surrogate":
                return "\\ud800"
            if how == "error":
                raise ToolError("out of stock", effect="none")
            return "fine"
        ''',
    )
    daemon = serve()
    expected = {
        "raise": ("TOOL_ERROR", "unknown"),
        "exit": ("TOOL_ERROR", "unknown"),
        "recurse": ("TOOL_ERROR", "unknown"),
        "cycle": ("INVALID_RESULT", "done"),
        "nan": ("INVALID_RESULT", "done"),
        "surrogate": ("INVALID_RESULT", "done"),
        "error": ("TOOL_ERROR", "none"),
    }
    with daemon.client() as client:
        for how, answer in expected.items():
            result = client.call_tool("wild.act", {"how": how})
            assert (result.code, result.effect) == answer, (how, result.code, result.effect, result.message)
            assert "Traceback" not in result.message
            assert result.detail["remedy"], how
            assert client.call_tool("wild.act", {"how": "well"}).data == "fine"
    begun = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - begun < 4
