"""What an author says of a tool, as an operator and a model get to see it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from tests.harness import Daemon, Home

CODE = '''
from dataclasses import dataclass
from hermesd.plugin import tool

@dataclass
class Node:
    word: str | None
    children: list["Node"]

@tool(side_effects="read", deprecated={"since": "1.0.0", "use": "tree.count_nodes"})
def count_leaves(root: Node) -> int:
    """Counts."""
    return 1

@tool(side_effects="read", parameter_guide={"root": "the whole tree"})
def count_nodes(root: Node) -> int:
    """Counts."""
    return 1 + sum(count_nodes(each) for each in root.children)

@tool(side_effects="read", requires=[{"file": NEEDED, "remedy": "draw it"}])
def show_drawing() -> str:
    """Shows."""
    return "drawn"
'''


@pytest.mark.promise("DEF-2")
@pytest.mark.promise("DEF-3")
@pytest.mark.promise("SEE-14")
def test_operators_and_models_see_what_authors_say(home: Home, serve: Callable[..., Daemon]) -> None:
    needed = home.path / "drawing.png"
    home.follow("tree")
    home.plugin("tree", CODE.replace("NEEDED", repr(os.fspath(needed))))
    daemon = serve()

    lacking = daemon.ctl("tools", "call", "tree.show_drawing")
    assert lacking.returncode == 1
    assert "drawing.png does not exist" in lacking.stderr
    assert "draw it" in lacking.stderr
    assert "1 of 3 tools cannot work" in daemon.ctl("status").stdout
    shown = daemon.ctl("tools", "show", "tree.show_drawing").stdout
    assert f"file {needed}" in shown
    needed.touch()
    assert daemon.ctl("reload").returncode == 0
    assert daemon.call("tree.show_drawing") == "drawn"

    leaving = daemon.ctl("tools", "call", "tree.count_leaves", 'root:={"word": "a", "children": []}')
    assert (leaving.returncode, leaving.stdout.strip()) == (0, "1")
    assert "deprecated since 1.0.0; use tree.count_nodes in its place" in leaving.stderr
    assert "use tree.count_nodes" in daemon.ctl("tools", "list", "--domain", "tree").stdout

    handed = daemon.ctl("tools", "list", "--domain", "tree", "--format", "anthropic").stdout
    tools = {each["name"]: each for each in json.loads(handed)}
    schema = tools["tree__count_nodes"]["input_schema"]
    assert "$ref" not in handed
    root = schema["properties"]["root"]
    assert root["properties"]["word"]["type"] == ["string", "null"]
    assert "the whole tree" in root["description"]
    assert "use tree__count_nodes" in tools["tree__count_leaves"]["description"]
    deep = {"word": None, "children": [{"word": "a", "children": [{"word": "b", "children": []}]}]}
    called = daemon.ctl("tools", "call", "tree__count_nodes", f"root:={json.dumps(deep)}")
    assert called.stdout.strip() == "3"
