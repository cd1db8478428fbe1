"""The operator's files: every fault at its place, includes, defaults, overrides."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from hermesd.config.configuration import Configuration, Server, TrustEntry
from hermesd.config.load import find_config, load_configuration
from hermesd.config.permission import Permissions
from hermesd.errors import ConfigError, Rejection
from hermesd.model.rate import Bound, RateLimit

DIGEST = "sha256:" + "0a" * 32


def write(folder: Path, text: str, name: str = "hermesd.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def load(
    folder: Path,
    text: str,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Configuration:
    return load_configuration(write(folder, text), environ=environ or {}, overrides=overrides)


def refusals(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> list[Rejection]:
    with pytest.raises(ConfigError) as caught:
        load(folder, text, environ)
    for rejection in caught.value.rejections:
        assert rejection.remedy
    return list(caught.value.rejections)


@pytest.mark.promise("CFG-12")
def test_without_a_file_the_defaults_hold() -> None:
    configuration = load_configuration(None, environ={})
    assert configuration.server == Server()
    assert configuration.data_dir is None
    assert configuration.plugins.rescan_s == 10
    assert configuration.defaults.timeouts_ms == {
        "python": 3000, "batch": 15_000, "http": 6000, "openapi": 6000, "mcp": 30_000, "composite": 30_000,
        "agent": 30_000, "peer": 30_000, "container": 30_000,
    }  # fmt: skip
    assert configuration.telemetry.metrics_open == "loopback"
    assert configuration.warnings == ()
    assert configuration.files == ()
    assert {each.origin for each in configuration.effective()} == {"default"}


def test_every_value_of_a_whole_file_arrives_typed(tmp_path: Path) -> None:
    configuration = load(
        tmp_path,
        f"""
server:
  listen: ["unix:run/h.sock", "unix:///abs.sock"]
  socket_group: ops
  http: "[::1]:0"
  limits: {{message_mb: 32, max_concurrent_streams: 10, keepalive_min_s: 20}}
  drain_timeout_s: 1.5
data_dir: 数据
plugins:
  dirs: [plugins, /abs]
  entry_points: [hermesd-orders]
  trusted:
    orders:
      digest: "{DIGEST}"
      isolation: process
      grant: {{network: ["*.example.com:443"], memory_mb: 64}}
    short: {DIGEST}
    dev: {{follow: true}}
  settings: {{files: {{roots: [/data], depth: 3}}}}
  watch: false
defaults: {{timeouts_ms: {{python: 10}}, description_chars: {{warn: 5}}}}
secrets: {{TOKEN: abc}}
telemetry: {{log_dir: logs, metrics_open: never}}
""",
    )
    assert configuration.server.listen == (f"unix:{tmp_path}/run/h.sock", "unix:/abs.sock")
    assert configuration.server.http == "[::1]:0"
    assert configuration.server.limits.message_mb == 32
    assert configuration.server.drain_timeout_s == 1.5
    assert configuration.data_dir == tmp_path / "数据"
    assert configuration.plugins.dirs == (tmp_path / "plugins", Path("/abs"))
    assert configuration.plugins.entry_points == ("hermesd-orders",)
    assert configuration.plugins.trusted == {
        "orders": TrustEntry(DIGEST, "process", False, Permissions(("*.example.com:443",), memory_mb=64)),
        "short": TrustEntry(DIGEST),
        "dev": TrustEntry(follow=True),
    }
    assert configuration.plugins.settings == {"files": {"roots": ["/data"], "depth": 3}}
    assert configuration.plugins.watch is False
    assert configuration.defaults.timeouts_ms["python"] == 10
    assert configuration.defaults.description_chars.warn == 5
    assert configuration.secrets == {"TOKEN": "abc"}
    assert configuration.telemetry.log_dir == tmp_path / "logs"


@pytest.mark.promise("CFG-3")
@pytest.mark.parametrize(
    ("text", "line", "column", "reason", "remedy"),
    [
        ("servr: {}", 1, 1, "servr: unknown key 'servr'", "did you mean 'server'?"),
        ("server:\n  drain_timeot_s: 3", 2, 3, "unknown key 'drain_timeot_s'", "'drain_timeout_s'"),
        ("plugins: {trusted: {a: {folow: true, follow: true}}}", 1, 25, "unknown key 'folow'", "'follow'"),
        ("agents: {a: {tolen: x}}", 1, 14, "unknown key 'tolen'", "'tools'"),
        ("server: 3", 1, 1, "server: expected a mapping, got the number 3", "write its keys"),
        ("server: {listen: x}", 1, 10, "server.listen: expected a list, got a text", "[...]"),
        ("server: {listen: [7]}", 1, 19, "server.listen[0]: expected unix:PATH, got the number 7", "quotes"),
        ("server: {listen: ['0.0.0.0:80']}", 1, 19, "only unix:PATH may be listened on", "agents_listen"),
        ("server: {listen: ['tcp:0.0.0.0:80']}", 1, 19, "only unix:PATH", "agents_listen"),
        ("server: {listen: ['unix:']}", 1, 19, "the path is empty", "write a path"),
        (f"server: {{listen: ['unix:/{'x' * 108}']}}", 1, 19, "longer than 107 bytes", "shorter"),
        ("server: {listen: ['unix:/a', 'unix:/b/../a']}", 1, 10, "names one address twice", "keep one"),
        ("server: {http: '0.0.0.0:80'}", 1, 10, "needs TLS", "127.0.0.1"),
        ("server: {http: 'example.com:80'}", 1, 10, "needs TLS", "127.0.0.1"),
        ("server: {http: '127.0.0.1'}", 1, 10, "no HOST:PORT", "127.0.0.1:7480"),
        ("server: {http: '127.0.0.1:99999'}", 1, 10, "no HOST:PORT", "127.0.0.1:7480"),
        ("server: {drain_timeout_s: soon}", 1, 10, "expected a number from 0 to 86400, got a text", "write"),
        ("server: {drain_timeout_s: -1}", 1, 10, "got the number -1", "write"),
        ("server: {drain_timeout_s: true}", 1, 10, "got true", "write"),
        ("server: {limits: {message_mb: 1.5}}", 1, 19, "got the number 1.5", "whole number"),
        ("data_dir: ~/x", 1, 1, "~ is not expanded", "${HOME}"),
        ("data_dir: 1.10", 1, 1, "expected path, got the number 1.1", "in quotes, just as it is written"),
        ("plugins: {entry_points: {a: 1}}", 1, 11, "expected true for all, or list of text", "write"),
        ("plugins: {trusted: {Orders: {follow: true}}}", 1, 21, "'Orders' is no plugin name", "rename"),
        ("plugins: {trusted: {hermesd: {follow: true}}}", 1, 21, "the daemon's own", "rename"),
        ("plugins: {trusted: {a: {}}}", 1, 21, "neither a digest nor follow: true", "ctl plugins show a"),
        ("plugins: {trusted: {a: abc}}", 1, 21, "no digest", "sha256"),
        (
            "plugins: {trusted: {a: {isolation: docker}}}",
            1,
            25,
            "expected one of inprocess, process",
            "write",
        ),
        ("plugins: {trusted: {a: {follow: true, grant: {network: [x]}}}}", 1, 57, "no HOST:PORT", "443"),
        (
            "plugins: {trusted: {a: {follow: true, grant: {netwrk: []}}}}",
            1,
            47,
            "unknown key 'netwrk'",
            "network",
        ),
        ("plugins: {watch: 'true'}", 1, 11, "expected true or false, got a text", "true or false"),
        ("defaults: {description_chars: {warn: 9, max: 3}}", 1, 32, "above description_chars.max", "lower"),
        ("secrets: {A-B: x}", 1, 11, "a secret's name", "rename"),
        ("secrets: {A: 1.10}", 1, 11, "secrets.A: expected text, got the number 1.1", "in quotes"),
        ("secrets: {A: '${NOPE}'}", 1, 11, "secrets.A: the environment variable NOPE is not set", "set NOPE"),
        ("telemetry: {metrics_open: world}", 1, 13, "expected one of loopback, never", "write"),
        ("tools: {a: 1}", 1, 1, "tools: expected a list, got a mapping", "[...]"),
        ("mcp_servers: {a: {command: [x]}}", 1, 19, "expected text, got a list", "write"),
        ("sandbox: {pids: many}", 1, 11, "sandbox.pids: expected a whole number", "write"),
        ("- a", 1, 1, "must be a mapping of keys, not a list", "server:"),
        ("just text", 1, 1, "must be a mapping of keys, not a text", "server:"),
    ],
)
def test_a_fault_names_key_place_and_remedy(
    tmp_path: Path, text: str, line: int, column: int, reason: str, remedy: str
) -> None:
    (rejection,) = refusals(tmp_path, text)
    assert reason in rejection.reason
    assert remedy in rejection.remedy
    assert rejection.file == str(tmp_path / "hermesd.yaml")
    assert (rejection.line, rejection.column) == (line, column)


@pytest.mark.promise("CFG-3")
def test_all_faults_of_a_file_are_listed_at_once(tmp_path: Path) -> None:
    found = refusals(tmp_path, "servr: 1\nserver: {drain_timeout_s: x, http: y}\nplugins: {watch: 3}\n")
    assert [each.line for each in found] == [1, 2, 2, 3]


def test_a_file_of_nothing_but_faults_is_answered_in_bounded_time_and_length(tmp_path: Path) -> None:
    started = time.perf_counter()
    found = refusals(tmp_path, "\n".join(f"unknown_key_{index}: 1" for index in range(30_000)))
    assert len(found) == 51
    assert found[-1].reason == "and 29950 more"
    assert time.perf_counter() - started < 10


@pytest.mark.promise("CFG-6")
def test_a_message_never_holds_a_secret(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret-value")
    text = 'server: {drain_timeout_s: "${file:token}", http: "${file:token}"}\nsecrets: {A: [s3cret-value]}\n'
    for rejection in refusals(tmp_path, text):
        assert "s3cret" not in str(rejection)


def test_references_are_converted_to_what_the_key_holds(tmp_path: Path) -> None:
    configuration = load(
        tmp_path,
        "server:\n  drain_timeout_s: ${DRAIN}\n  limits: {message_mb: '${MB}'}\n"
        "plugins:\n  watch: ${WATCH}\n  settings:\n    web:\n      port: ${MB}\n      code: '${MB}'\n"
        "secrets:\n  PIN: ${MB}\n",
        {"DRAIN": "2.5", "MB": "8", "WATCH": "off"},
    )
    assert configuration.server.drain_timeout_s == 2.5
    assert configuration.server.limits.message_mb == 8
    assert configuration.plugins.watch is False
    assert configuration.plugins.settings["web"] == {"port": 8, "code": "8"}
    assert configuration.secrets == {"PIN": "8"}


def test_includes_merge_in_name_order_and_paths_are_relative_to_their_own_file(tmp_path: Path) -> None:
    write(tmp_path, "plugins: {dirs: [b], trusted: {b: {follow: true}}}", "conf.d/b.yaml")
    write(tmp_path, "plugins: {dirs: [a]}\nserver: {drain_timeout_s: 7}", "conf.d/a.yml")
    write(tmp_path, '{"plugins": {"settings": {"c": {"x": 1}}}}', "conf.d/c.json")
    configuration = load(
        tmp_path, "include: ['conf.d/*', 'more/*.yaml']\nplugins: {dirs: [main]}\nserver: {http: ''}"
    )
    assert configuration.plugins.dirs == tuple(tmp_path / each for each in ("main", "conf.d/a", "conf.d/b"))
    assert configuration.server.drain_timeout_s == 7
    assert list(configuration.plugins.trusted) == ["b"]
    assert configuration.plugins.settings == {"c": {"x": 1}}
    assert [path.name for path in configuration.files] == ["hermesd.yaml", "a.yml", "b.yaml", "c.json"]
    assert configuration.include_globs == (f"{tmp_path}/conf.d/*", f"{tmp_path}/more/*.yaml")


@pytest.mark.promise("CFG-8")
@pytest.mark.parametrize(
    ("main", "other", "name"),
    [
        ("server: {drain_timeout_s: 1}", "server: {drain_timeout_s: 1}", "server.drain_timeout_s"),
        ("plugins: {trusted: {a: {follow: true}}}", "plugins: {trusted: {a: {isolation: process}}}",
         "plugins.trusted.a"),
        ("plugins: {settings: {a: {x: 1}}}", "plugins: {settings: {a: {y: 1}}}", "plugins.settings.a"),
        ("secrets: {A: x}", "secrets: {A: x}", "secrets.A"),
        ("server: {listen: ['unix:/a']}", "server: {listen: ['unix:/b']}", "server.listen"),
        ("mcp_servers: {a: {command: x}}", "mcp_servers: {a: {args: []}}", "mcp_servers.a"),
    ],
)  # fmt: skip
def test_a_name_in_two_files_is_an_error_naming_both_places(
    tmp_path: Path, main: str, other: str, name: str
) -> None:
    write(tmp_path, "\n" + other, "other.yaml")
    (rejection,) = refusals(tmp_path, "include: [other.yaml]\n" + main)
    assert rejection.name == name
    assert rejection.place.startswith(f"{tmp_path}/other.yaml:2:")
    assert f"first at {tmp_path}/hermesd.yaml:2:" in rejection.reason


@pytest.mark.promise("CFG-8")
def test_an_include_cycle_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "include: [b.yaml]", "a.yaml")
    write(tmp_path, "include: [./a.yaml]", "b.yaml")
    (rejection,) = refusals(tmp_path, "include: [a.yaml]")
    assert "includes itself" in rejection.reason
    assert rejection.place == f"{tmp_path}/b.yaml:1:11"


def test_a_file_that_includes_itself_through_a_link_is_a_cycle(tmp_path: Path) -> None:
    (tmp_path / "link.yaml").symlink_to("hermesd.yaml")
    (rejection,) = refusals(tmp_path, "include: ['li*.yaml']")
    assert "includes itself" in rejection.reason


def test_a_file_included_twice_is_an_error_naming_the_first(tmp_path: Path) -> None:
    write(tmp_path, "server: {drain_timeout_s: 1}", "a.yaml")
    (rejection,) = refusals(tmp_path, "include: [a.yaml, 'a*.yaml']")
    assert f"is included twice, first at {tmp_path}/hermesd.yaml:1:11" in rejection.reason


def test_faults_of_all_included_files_are_listed(tmp_path: Path) -> None:
    write(tmp_path, "a: [", "conf.d/a.yaml")
    write(tmp_path, "\tb: 1", "conf.d/b.yaml")
    found = refusals(tmp_path, "include: ['conf.d/*.yaml', missing.yaml]")
    assert [Path(each.file).name for each in found] == ["a.yaml", "b.yaml", "missing.yaml"]
    assert "No such file" in found[-1].reason


@pytest.mark.parametrize("text", ["include: a.yaml", "include: [3]", "include: ['']", "include: [[a]]"])
def test_an_include_that_is_no_list_of_paths_is_refused(tmp_path: Path, text: str) -> None:
    (rejection,) = refusals(tmp_path, text)
    assert rejection.reason.startswith("include: expected")


def test_a_null_section_is_an_empty_one(tmp_path: Path) -> None:
    configuration = load(tmp_path, "server:\nplugins:\n  dirs:\n  trusted:\nsecrets:\ninclude:\n")
    assert configuration.server == Server()
    assert configuration.plugins.dirs == ()


@pytest.mark.parametrize("text", ["", "# nothing yet\n"])
def test_an_empty_file_means_the_defaults_and_says_so(tmp_path: Path, text: str) -> None:
    configuration = load(tmp_path, text)
    assert configuration.server == Server()
    (warning,) = configuration.warnings
    assert "is empty" in warning.reason


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe"])
def test_a_configuration_that_is_no_file_is_refused_without_waiting(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "hermesd.yaml"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(ConfigError, match="the configuration file cannot be read"):
        load_configuration(path, environ={})


def test_a_large_file_is_refused_without_being_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "hermesd.yaml"
    path.write_bytes(b"# " + b"x" * (10 * 1024 * 1024))
    with pytest.raises(ConfigError, match="is larger than 1 MiB"):
        load_configuration(path, environ={})


@pytest.mark.parametrize(
    ("isolation", "where"), [("inprocess", "in the daemon"), ("process", "as the daemon's user")]
)
def test_trust_of_whatever_comes_says_where_it_runs(tmp_path: Path, isolation: str, where: str) -> None:
    text = f"plugins: {{trusted: {{a: {{follow: true, isolation: {isolation}}}}}}}"
    (warning,) = load(tmp_path, text).warnings
    assert f"runs code {where}:" in warning.reason


@pytest.mark.promise("CFG-4")
def test_keys_of_later_builds_are_accepted_and_named_in_a_warning(tmp_path: Path) -> None:
    configuration = load(
        tmp_path,
        """
plugins: {untrusted: {scraper: {isolation: call, image: x, grant: {network: ["a:1"]}}}}
defaults:
  timeouts_ms: {http: 1}
  retry: {max_attempts: 3}
  circuit_breaker: {window: 20}
store: {key: k}
tools: [{name: weather.get_now, version: 1.0.0, type: http, method: GET, url: "https://host/now"}]
mcp_servers: {x: {command: npx, foo: 1}}
mcpServers: {y: {type: STDIO, command: npx, disabled: false, env: {A: b}}}
profiles: {research: {tools: {allow: ["search.*"]}, prefix: true}}
sandbox: {engine: docker, pool: {min_idle: 1}}
sessions: {recent_rounds: 6}
selection: {vector_weight: auto, rules: [{a: 1}]}
memory: {decay: {floor: 0.9}, dedupe: {threshold: auto}}
agents: {reporter: {token_sha256: abababababababababababababababababababababababababababababababab,
  tools: {allow: ["a.*"]}, rate: 3, budget: 3, provide: {}, memory: {}}}
peers: {lab: {address: "host:1", token: t}}
telemetry: {otlp_endpoint: x}
""",
    )
    named = {each.name for each in configuration.warnings}
    assert named == {
        "plugins.untrusted",
        "store", "tools", "mcp_servers", "mcp_servers.x.foo",
        "mcpServers", "profiles", "sandbox", "sessions", "selection", "memory", "peers",
        "agents.reporter.budget", "agents.reporter.provide", "agents.reporter.memory",
        "telemetry.otlp_endpoint",
    }  # fmt: skip
    for warning in configuration.warnings:
        assert warning.line > 1
        assert "no effect" in warning.reason
    assert configuration.plugins.untrusted["scraper"].grant == Permissions(network=("a:1",))


def test_what_is_dangerous_is_allowed_and_said_aloud(tmp_path: Path) -> None:
    configuration = load(tmp_path, "plugins: {entry_points: true, trusted: {dev: {follow: true}}}")
    assert configuration.plugins.entry_points is True
    assert [each.name for each in configuration.warnings] == ["plugins.entry_points", "plugins.trusted.dev"]


def test_the_command_line_wins_and_its_paths_are_relative_to_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    configuration = load(
        tmp_path,
        "server: {listen: ['unix:a.sock']}\ndata_dir: data\n",
        overrides={"server.listen": ("unix:b.sock",), "data_dir": "here"},
    )
    assert configuration.server.listen == (f"unix:{work}/b.sock",)
    assert configuration.data_dir == work / "here"
    origins = {each.key: each.origin for each in configuration.effective()}
    assert origins["server.listen"] == origins["data_dir"] == "command line"


@pytest.mark.promise("CFG-10")
def test_a_wrong_override_says_that_it_came_from_the_command_line() -> None:
    with pytest.raises(ConfigError, match=r"server.listen\[0\]: only unix:PATH .*on the command line"):
        load_configuration(None, environ={}, overrides={"server.listen": ["0.0.0.0:1"]})


def test_the_file_is_found_where_the_contract_says(tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert find_config(None, home, False) is None
    path = write(tmp_path, "", "hermesd/hermesd.yml")
    assert find_config(None, home, False) == path
    assert find_config(None, home | {"HERMESD_CONFIG": "/nowhere.yaml"}, False) == Path("/nowhere.yaml")
    assert find_config(Path("x"), home | {"HERMESD_CONFIG": "/nowhere.yaml"}, False) == Path("x")


def test_reading_writes_nothing_and_keeps_nothing_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    write(tmp_path, "a: [", "bad.yaml")
    for _ in range(20):
        with pytest.raises(ConfigError):
            load(tmp_path, "include: [bad.yaml]")
    assert len(os.listdir("/proc/self/fd")) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.yaml", "hermesd.yaml"]


def test_an_unknown_key_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    (rejection,) = refusals(tmp_path, '"\\e[31m\\u202e": 1\n')
    assert str(rejection).isprintable()


def test_the_includes_in_force_are_shown_like_every_other_value(tmp_path: Path) -> None:
    write(tmp_path, "include: [b.yaml]", "a.yaml")
    write(tmp_path, "", "b.yaml")
    configuration = load(tmp_path, "include: [a.yaml]")
    values = {each.key: each.value for each in configuration.effective()}
    assert values["include"] == ["a.yaml", "b.yaml"]
    assert configuration.files == tuple(tmp_path / name for name in ("hermesd.yaml", "a.yaml", "b.yaml"))


def test_files_behind_references_can_be_watched(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x")
    configuration = load(tmp_path, 'secrets: {A: "${file:token}"}')
    assert configuration.watched == (tmp_path / "hermesd.yaml", tmp_path / "token")


def test_a_variable_of_broken_bytes_is_a_fault(tmp_path: Path) -> None:
    (rejection,) = refusals(tmp_path, "data_dir: ${X}", {"X": "/\udcff"})
    assert "is no text in UTF-8" in rejection.reason


def test_without_a_working_folder_absolute_paths_still_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert load(tmp_path, "data_dir: d", overrides={"data_dir": "/abs"}).data_dir == Path("/abs")
    with pytest.raises(ConfigError, match="the working folder cannot be read"):
        load(tmp_path, "", overrides={"data_dir": "relative"})


def test_a_plugins_limits_are_typed_and_a_rate_may_be_a_number(tmp_path: Path) -> None:
    configuration = load(
        tmp_path,
        "plugins: {limits: {orders: {max_concurrency: 4, rate: {calls: 10, per_s: 60}}, words: {rate: 3}}}",
    )
    assert configuration.plugins.limits == {
        "orders": Bound(4, RateLimit(10, 60.0)), "words": Bound(None, RateLimit(3, 1.0)),
    }  # fmt: skip


@pytest.mark.parametrize(
    "rate", ["0", "true", "fast", "{calls: 0}", "{calls: 1, per_s: 0}", "{call: 1}", "[1]"]
)
def test_what_is_no_rate_is_refused_at_its_place(tmp_path: Path, rate: str) -> None:
    told = refusals(tmp_path, f"plugins:\n  limits:\n    orders:\n      rate: {rate}\n")
    assert [(each.line, "rate" in str(each)) for each in told] == [(4, True)]
