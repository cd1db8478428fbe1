"""Any bytes give a value or a ConfigError, in bounded time: never another exception."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hermesd.config.document import read_document
from hermesd.config.interpolation import Interpolation
from hermesd.config.load import load_configuration
from hermesd.config.manifest import python_manifest, read_manifest
from hermesd.errors import ConfigError, PluginError, Rejection

FRAGMENTS = [
    "a", "b", ": ", ":", "- ", "\n", "  ", "\t", "{", "}", "[", "]", ",", "&x ", "*x",
    "? ", "| \n", ">-\n", "'",
    '"',
    "\\", "#", "!!str ", "!t ", "<<: ", "---\n", "...\n", "%TAG ! x\n", "%YAML 1.1\n", "@", "`", "${A}",
    "${file:x}",
    "on", "1.10", "22:22", "0x", "~", "null", "名", "\u2028", "\x85", "\r\n", "1e9", "\\u", "name", "version",
]  # fmt: skip
texts = st.lists(st.sampled_from(FRAGMENTS), max_size=60).map("".join)
anything = st.one_of(st.binary(max_size=300), texts.map(str.encode), st.text(max_size=200).map(str.encode))
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn", "Co")), max_size=20),
)  # fmt: skip
names = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn", "Co")), max_size=10)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=20,
)


@pytest.mark.promise("CFG-1")
@settings(deadline=None, max_examples=300)
@given(data=anything, file=st.sampled_from(["a.yaml", "a.json"]))
def test_any_bytes_are_read_or_refused_with_a_place(data: bytes, file: str) -> None:
    started = time.perf_counter()
    rejections: tuple[Rejection, ...] = ()
    try:
        document = read_document(data, file)
        json.dumps(document.value, allow_nan=False).encode("utf-8")
        assert document.place(("a", 0)) >= (1, 1)
    except ConfigError as error:
        rejections = error.rejections
    assert len(rejections) <= 1
    assert all(each.remedy and each.line >= 1 and each.column >= 1 for each in rejections)
    assert time.perf_counter() - started < 2


@pytest.mark.promise("CFG-1")
@settings(deadline=None, max_examples=200)
@given(data=anything, file=st.sampled_from(["plugin.yaml", "plugin.json"]))
def test_any_bytes_are_a_manifest_or_a_plugin_error(data: bytes, file: str) -> None:
    for raw in (data, b"name: a\nversion: 1.0.0\nentry: a.py\n" + data):
        rejections: tuple[Rejection, ...] = ()
        try:
            read_manifest(raw, file)
        except PluginError as error:
            rejections = error.rejections
        assert all(each.remedy and each.line >= 1 for each in rejections)


@settings(deadline=None, max_examples=100)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_single_file_plugin(data: bytes) -> None:
    with contextlib.suppress(PluginError):
        assert python_manifest("/p/a.py", data + b'\n__version__ = "x"\n').version


@settings(deadline=None, max_examples=200)
@given(value=values)
def test_what_json_can_say_is_read_alike_from_json_and_from_quoted_yaml(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    read = read_document(text.encode(), "a.json").value
    assert read == value
    if len(text) < 1000 and "\x85" not in text:
        styled = yaml.safe_dump(value, default_style='"', allow_unicode=True)
        untyped = yaml.load(styled, Loader=yaml.BaseLoader)
        plain = read_document(_without_tags(styled).encode(), "a.yaml").value
        assert plain == untyped


def _without_tags(text: str) -> str:
    """safe_dump marks what is no text, when everything is quoted, with tags; the reader takes none."""
    for tag in ("!!int ", "!!float ", "!!bool ", "!!null "):
        text = text.replace(tag, "")
    return text


@settings(deadline=None, max_examples=200)
@given(value=values, environ=st.dictionaries(st.sampled_from(["A", "B"]), st.text(max_size=5)))
def test_interpolation_changes_nothing_but_references(value: object, environ: dict[str, str]) -> None:
    interpolation = Interpolation(environ, Path("/nowhere"))
    result = interpolation.apply(value)
    if "${" not in json.dumps(value):
        assert result == value
        assert interpolation.faults == []


@pytest.mark.promise("CFG-1")
@settings(deadline=None, max_examples=150)
@given(
    tree=st.dictionaries(
        st.sampled_from(["server", "plugins", "defaults", "secrets", "tools", "agents", "include", "x"]),
        values,
    )
)
def test_any_value_is_a_configuration_or_a_list_of_rejections(
    tree: dict[str, object], tmp_path_factory
) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.getbasetemp() / "property.json"
    path.write_text(json.dumps(tree), encoding="utf-8")
    with contextlib.suppress(ConfigError):
        configuration = load_configuration(path, environ={})
        assert configuration.digest
        assert configuration.effective()
