"""What a schema says of one parameter is found through references and unions, and recursion ends."""

from __future__ import annotations

import pytest

from hermesd.model.parameter import declarations, default_of, description_of, is_required, unescape

SCHEMA = {
    "properties": {
        "a": {"$ref": "#/$defs/node", "description": "the root"},
        "b/c": {"default": None},
        "pair": {"prefixItems": [{"description": "first"}], "items": {"description": "rest"}},
        "maybe": {"anyOf": [{"type": "null"}, {"description": "some", "default": 3}]},
    },
    "allOf": [{"properties": {"late": {"description": "put together"}}, "required": ["late"]}],
    "$defs": {
        "node": {
            "properties": {"next": {"$ref": "#/$defs/node"}, "v": {"description": "值"}},
            "required": ["v"],
        },
        "loop": {"$ref": "#/$defs/loop"},
    },
}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/a", "the root"),
        ("/a/v", "值"),
        ("/a/next/next/v", "值"),
        ("/pair/0", "first"),
        ("/pair/7", "rest"),
        ("/maybe", "some"),
        ("/late", "put together"),
        ("/none", ""),
        ("/a/none", ""),
    ],
)
def test_a_parameter_is_found_where_it_is_declared(path: str, said: str) -> None:
    assert description_of(SCHEMA, unescape(path)) == said


def test_a_default_of_null_is_a_default() -> None:
    assert default_of(SCHEMA, unescape("/b~1c")) == (None,)
    assert default_of(SCHEMA, unescape("/maybe")) == (3,)
    assert default_of(SCHEMA, unescape("/a")) is None


def test_what_is_required_is_known_at_every_depth() -> None:
    found = {path: is_required(SCHEMA, unescape(path)) for path in ("/a", "/a/v", "/a/next/v", "/late", "")}
    assert found == {"/a": False, "/a/v": True, "/a/next/v": True, "/late": True, "": False}


def test_a_schema_that_is_nothing_but_itself_ends() -> None:
    loop = {"$ref": "#/$defs/loop", "$defs": SCHEMA["$defs"]}
    assert declarations(loop, ("x",)) == []
