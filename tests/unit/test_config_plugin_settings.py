"""Settings of plugins are checked against the manifest's schema, without quoting them."""

from __future__ import annotations

from pathlib import Path

from hermesd.config.load import load_configuration
from hermesd.config.manifest import read_manifest
from hermesd.config.plugin_settings import settings_rejections

MANIFEST = b"""
name: web
version: 1.0.0
entry: web.py
settings:
  type: object
  required: [host]
  additionalProperties: false
  properties:
    host: {type: string}
    port: {type: integer}
    mode: {enum: [a, b]}
    token: {type: string, maxLength: 2}
"""


def test_every_fault_of_the_settings_stands_at_its_place_and_quotes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "hermesd.yaml"
    path.write_text(
        "plugins:\n  settings:\n    web:\n      port: hidden1\n      mode: c\n      prt: 1\n"
        "      token: hidden2\n"
    )
    configuration = load_configuration(path, environ={})
    found = settings_rejections(read_manifest(MANIFEST, "plugin.yaml"), configuration)
    told = {(each.line, each.reason) for each in found}
    assert (3, "plugins.settings.web.host: is required by the plugin's settings schema") in told
    assert (6, "plugins.settings.web.prt: is no setting of the plugin") in told
    assert {each.line for each in found} == {3, 4, 5, 6, 7}
    assert "hidden" not in repr(found)


def test_settings_that_fit_and_plugins_without_a_schema_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "hermesd.yaml"
    path.write_text("plugins: {settings: {web: {host: h, port: 1}, free: {x: 1}}}")
    configuration = load_configuration(path, environ={})
    assert settings_rejections(read_manifest(MANIFEST, "plugin.yaml"), configuration) == []
    free = read_manifest(b"name: free\nversion: 1.0.0\nentry: a.py\n", "plugin.yaml")
    assert settings_rejections(free, configuration) == []


def test_missing_settings_count_as_none_given(tmp_path: Path) -> None:
    found = settings_rejections(read_manifest(MANIFEST, "plugin.yaml"), load_configuration(None, environ={}))
    assert [each.reason for each in found] == [
        "plugins.settings.web.host: is required by the plugin's settings schema"
    ]
    assert found[0].place == ""


def test_the_remedy_says_what_the_plugins_author_meant(tmp_path: Path) -> None:
    path = tmp_path / "hermesd.yaml"
    path.write_text("plugins: {settings: {web: {roots: [a]}}}")
    manifest = (
        b"name: web\nversion: 1.0.0\nentry: web.py\nsettings:\n  properties:\n    roots:\n      type: array\n"
        b"      description: absolute paths\n      items: {type: string, pattern: ^/}\n"
    )
    [found] = settings_rejections(
        read_manifest(manifest, "plugin.yaml"), load_configuration(path, environ={})
    )
    assert found.remedy == "fix plugins.settings.web in hermesd.yaml (roots: absolute paths)"
