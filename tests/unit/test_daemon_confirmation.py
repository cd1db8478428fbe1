"""What who decides about a call is shown of its arguments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from hermesd.config.load import load_configuration
from hermesd.daemon.confirmation import LONGEST, Discretion
from hermesd.model.confirmation import MAX_SHOWN, describe
from hermesd.model.definition import ToolDefinition

pytestmark = pytest.mark.promise("CONF-8")


class Desk:
    """A configuration file that can be written anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write({})
        self.discretion = Discretion(lambda: self.configuration)

    def write(self, secrets: dict[str, str]) -> None:
        self.path.write_text(yaml.safe_dump({"secrets": secrets}))
        self.path.chmod(0o600)
        self.configuration = load_configuration(self.path, environ={})

    def shown(self, arguments: dict[str, object]) -> object:
        return json.loads(self.discretion.hide(json.dumps(arguments, ensure_ascii=False)))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "hermesd.yaml")


def test_what_is_secret_by_its_name_or_its_look_is_hidden(desk: Desk) -> None:
    shown = desk.shown(
        {
            "password": "hunter2",
            "note": "card 4111 1111 1111 1111",
            "header": "Bearer abcdefghijklmnop",
            "id": 7,
        }
    )
    text = json.dumps(shown)
    assert not any(each in text for each in ("hunter2", "4111", "abcdefghijklmnop"))
    assert isinstance(shown, dict)
    assert shown["id"] == 7


def test_to_whom_a_mail_goes_is_shown(desk: Desk) -> None:
    assert desk.shown({"to": "ada@example.com"}) == {"to": "ada@example.com"}


def test_secrets_of_the_configuration_are_hidden_also_after_a_reload(desk: Desk) -> None:
    arguments: dict[str, object] = {"text": "say wonderfully quiet now"}
    assert desk.shown(arguments) == arguments
    desk.write({"WORD": "wonderfully quiet"})
    assert desk.shown(arguments) == {"text": "say *** now"}


def test_the_longest_that_is_shown_is_read_whole(desk: Desk) -> None:
    arguments: dict[str, object] = {str(each): "密" * 500 for each in range(40)}
    arguments["zz"] = {"password": "hunter2"}
    definition = ToolDefinition("a.b", "1.0.0", {})
    _, text = describe(definition, arguments, desk.discretion.hide)
    assert len(json.loads(text)) > MAX_SHOWN / 600
    assert len(text.encode()) < LONGEST
    assert "hunter2" not in text
