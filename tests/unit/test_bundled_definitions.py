"""What every bundled tool owes its callers, whichever plugin it is in."""

from __future__ import annotations

import ast
import sys
from typing import get_args

import pytest

from hermesd.model.call import SideEffects
from hermesd.model.name import VERB_OBJECT
from tests.bundled import NAMES, PLUGINS, bundled

EXPECTED = {
    "files.edit_file": "write",
    "files.list_dir": "read",
    "files.read_file": "read",
    "files.search_text": "read",
    "files.write_file": "write",
    "store.delete_item": "write",
    "store.get_item": "read",
    "store.list_items": "read",
    "store.put_item": "write",
    "text.count_stats": "none",
    "text.diff_texts": "none",
    "text.extract_patterns": "none",
    "time.convert_zone": "none",
    "time.get_now": "none",
    "time.parse_text": "none",
}


@pytest.mark.parametrize("name", NAMES)
def test_every_bundled_tool_is_defined_without_a_fault_or_warning(name: str) -> None:
    plugin = bundled(name)
    assert plugin.manifest["name"] == name
    assert plugin.manifest["version"] == "1.0.0"
    for tool, parsed in plugin.parsed.items():
        assert parsed.warnings == (), tool
        definition = parsed.definition
        assert VERB_OBJECT.match(tool)
        assert definition.description
        assert len(definition.description) <= 500
        assert definition.when_to_use
        assert definition.when_not_to_use
        assert definition.returns is not None, tool
        assert definition.side_effects in get_args(SideEffects)


def test_the_bundled_set_is_complete_and_says_what_it_changes() -> None:
    found = {
        tool: parsed.definition.side_effects
        for name in NAMES
        for tool, parsed in bundled(name).parsed.items()
    }
    assert found == EXPECTED


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_of_a_bundled_tool_is_described(name: str) -> None:
    for tool, parsed in bundled(name).parsed.items():
        for parameter, schema in parsed.definition.parameters["properties"].items():  # type: ignore[attr-defined]
            assert len(schema.get("description", "")) >= 20, (tool, parameter)


@pytest.mark.parametrize("name", NAMES)
def test_examples_of_bundled_tools_are_english_and_chinese_and_fit_their_schema(name: str) -> None:
    said = [
        example.user_says
        for parsed in bundled(name).parsed.values()
        for example in parsed.definition.examples
    ]
    assert any(not each.isascii() for each in said)
    assert any(each.isascii() for each in said)
    for tool, parsed in bundled(name).parsed.items():
        assert parsed.definition.examples, tool
        for example in parsed.definition.examples:
            assert parsed.schema.faults(dict(example.arguments)) == []


@pytest.mark.parametrize("name", NAMES)
def test_bundled_plugins_import_the_sdk_and_the_standard_library_alone_and_never_run_code(name: str) -> None:
    allowed = {*sys.stdlib_module_names, "jsonschema_rs"} - {"subprocess", "multiprocessing"}
    for file in (PLUGINS / name).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and not node.level:
                assert node.module in ("hermesd.plugin",) or node.module.partition(".")[0] in allowed - {
                    "hermesd"
                }
            elif isinstance(node, ast.Import):
                assert all(each.name.partition(".")[0] in allowed for each in node.names)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "compile", "__import__"), file


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_names_every_setting_tool_and_argument(name: str) -> None:
    text = (PLUGINS.parent / "docs" / "bundled-plugins.md").read_text(encoding="utf-8")
    chapter = text.split(f"\n## {name}\n")[1].split("\n## ")[0]
    plugin = bundled(name)
    for setting in plugin.manifest["settings"]["properties"]:
        assert f"| `{setting}` |" in chapter, setting
    for tool, parsed in plugin.parsed.items():
        section = chapter.split(f"### {tool}\n")[1].split("\n### ")[0]
        for parameter in parsed.definition.parameters["properties"]:  # type: ignore[attr-defined]
            assert f"`{parameter}`" in section, (tool, parameter)
        for answer in parsed.definition.returns["properties"]:  # type: ignore[index]
            assert answer in section, (tool, answer)
