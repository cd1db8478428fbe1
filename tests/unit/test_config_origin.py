"""Who said what, and what nobody may read back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from hermesd.config.configuration import Changes, Configuration
from hermesd.config.effective import MASK
from hermesd.config.load import load_configuration

SECRETS = """
secrets: {A: topsecret1}
store: {key: topsecret2}
plugins:
  settings:
    web:
      password: topsecret3
      nested: {api_key: [topsecret4]}
      url: "https://u:topsecret5@host/"
      max_tokens: 9
    orders:
      plain: ${file:token}
      code: ${DB_PASSWORD}
mcp_servers:
  x:
    env: {ANY: topsecret8}
    headers: {Authorization: Bearer topsecret9}
    command: "run --token ${API_TOKEN}"
peers: {lab: {token: topsecret10}}
agents: {a: {token_sha256: "cafe1111cafe1111cafe1111cafe1111cafe1111cafe1111cafe1111cafe1111"}}
tools: [{name: a.b, auth: {type: basic, password: topsecret12, client_secret: topsecret13, token: 90210}}]
"""
ENVIRON = {"DB_PASSWORD": "topsecret7", "API_TOKEN": "topsecret14", "PORT": "8"}


def load(folder: Path, text: str, environ: Mapping[str, str] = ENVIRON) -> Configuration:
    path = folder / "hermesd.yaml"
    path.write_text(text, encoding="utf-8")
    (folder / "token").write_text("topsecret6\n")
    return load_configuration(path, environ=environ)


@pytest.mark.promise("CFG-6")
def test_no_secret_can_be_read_from_what_is_shown(tmp_path: Path) -> None:
    configuration = load(tmp_path, SECRETS)
    shown = repr(configuration) + repr(configuration.warnings) + repr(configuration.effective())
    for each in (*(f"topsecret{number}" for number in range(1, 15) if number != 11), "90210", "cafe1111"):
        assert each not in shown, each
    values = {each.key: each.value for each in configuration.effective()}
    assert values["secrets.A"] == MASK
    assert values["plugins.settings.web.max_tokens"] == 9
    assert values["plugins.settings.web.url"] == f"https://u:{MASK}@host/"
    assert values["mcp_servers.x.command"] == MASK


def test_names_of_granted_secrets_are_no_secret(tmp_path: Path) -> None:
    configuration = load(tmp_path, "plugins: {trusted: {a: {follow: true, grant: {secrets: [A_TOKEN]}}}}")
    values = {each.key: each.value for each in configuration.effective()}
    assert values["plugins.trusted.a.grant.secrets"] == ["A_TOKEN"]


@pytest.mark.promise("CFG-7")
def test_each_value_says_where_it_came_from(tmp_path: Path) -> None:
    configuration = load(
        tmp_path,
        "server:\n  drain_timeout_s: 3\n  limits:\n    message_mb: ${PORT}\n"
        f"plugins:\n  trusted:\n    a: sha256:{'0' * 64}\n",
    )
    file = tmp_path / "hermesd.yaml"
    origins = {each.key: each.origin for each in configuration.effective()}
    assert origins["server.drain_timeout_s"] == f"{file}:2:3"
    assert origins["server.limits.message_mb"] == f"environment variable PORT at {file}:4:5"
    assert origins["server.limits.keepalive_min_s"] == "default"
    assert origins["plugins.trusted.a.digest"] == f"{file}:7:5"
    assert origins["plugins.trusted.a.follow"] == "default"
    assert list(origins) == sorted(origins)


def test_the_place_of_what_yaml_says_can_be_asked_for(tmp_path: Path) -> None:
    configuration = load(tmp_path, "plugins:\n  trusted:\n    a: {follow: true}\n")
    place = configuration.place("plugins.trusted.a")
    assert place is not None
    assert (place.file, place.line, place.column) == (str(tmp_path / "hermesd.yaml"), 3, 5)
    assert configuration.place("plugins.trusted.b") is None
    assert configuration.place("server.http") is None


def test_the_digest_follows_the_effective_values_not_the_text(tmp_path: Path) -> None:
    one = load(tmp_path, "server: {drain_timeout_s: 30}")
    same = load(tmp_path, "# a comment\nserver:\n  drain_timeout_s: ${X:-30}\n")
    other = load(tmp_path, "server: {drain_timeout_s: 31}")
    assert one.digest == same.digest
    assert one.digest != other.digest
    assert one.digest.startswith("sha256:")


@pytest.mark.parametrize(
    "texts",
    [("secrets: {A: one}", "secrets: {A: two}"),
     ("plugins: {settings: {a: {url: 'x://u:one@h'}}}", "plugins: {settings: {a: {url: 'x://u:two@h'}}}")],
)  # fmt: skip
def test_the_digest_follows_secrets_too(tmp_path: Path, texts: tuple[str, str]) -> None:
    assert load(tmp_path, texts[0]).digest != load(tmp_path, texts[1]).digest


@pytest.mark.promise("CFG-6")
def test_a_secret_moved_to_another_key_is_another_digest(tmp_path: Path) -> None:
    assert load(tmp_path, "secrets: {A: x, B: y}").digest != load(tmp_path, "secrets: {A: y, B: x}").digest


def test_a_change_is_told_by_what_a_running_daemon_can_do_about_it(tmp_path: Path) -> None:
    old = load(tmp_path, "server: {drain_timeout_s: 1}\nsecrets: {A: x}\nplugins: {settings: {a: {x: 1}}}")
    new = load(tmp_path, "server: {listen: ['unix:/a']}\nsecrets: {A: y}\ndata_dir: /d\n")
    assert old.changes(old) == Changes()
    assert old.changes(new) == Changes(
        live=("plugins.settings.a.x", "secrets.A", "server.drain_timeout_s"),
        restart=("data_dir", "server.listen"),
    )


def test_two_readings_of_one_text_are_equal(tmp_path: Path) -> None:
    assert load(tmp_path, SECRETS) == load(tmp_path, SECRETS)
