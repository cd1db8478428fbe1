"""Content beside the data of a result."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest

from hermesd.model.content import check_content
from hermesd.plugin import Content, Image, ResourceLink, Text
from hermesd.plugin.content import Part, joined, split
from hermesd.plugin.encode import encode_answer
from hermesd.plugin.fault import ResultFault
from hermesd.plugin.schema import returns_schema
from hermesd.plugin.testing import call

pytestmark = pytest.mark.promise("OUT-2")

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
LINK = ResourceLink("file:///数据/report.csv", title="报告", mime_type="text/csv", size=12)


@pytest.mark.parametrize(
    ("value", "data", "kinds"),
    [
        (Text("hi"), None, ["text"]),
        (Image(PNG), None, ["image"]),
        ([Text("a"), Image(PNG)], None, ["text", "image"]),
        ((LINK,), None, ["resource_link"]),
        (Content({"n": 1}, [Text("a"), LINK]), {"n": 1}, ["text", "resource_link"]),
        (Content([1], Text("a")), [1], ["text"]),
        (Content("only data"), "only data", []),
        ([], [], []),
        (["a", "b"], ["a", "b"], []),
    ],
)
def test_every_form_becomes_data_and_parts(value: Any, data: Any, kinds: list[str]):
    text, content = encode_answer(value)
    assert json.loads(text) == data
    parts = json.loads(content) if content else []
    assert [each["type"] for each in parts] == kinds
    check_content(parts)
    again = joined(data, parts)
    assert split(again) == (data, split(value)[1])


def test_an_image_says_what_it_is():
    assert [Image(each).mime_type for each in (PNG, b"\xff\xd8\xff\xe0", b"GIF89a...", b"RIFF1234WEBP")] == [
        "image/png", "image/jpeg", "image/gif", "image/webp",
    ]  # fmt: skip
    assert Image(b"<svg/>", "image/svg+xml").told()["mime_type"] == "image/svg+xml"
    with pytest.raises(ValueError, match="mime_type"):
        Image(b"what")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Text(1),
        lambda: Image("text"),
        lambda: ResourceLink(""),
        lambda: ResourceLink("a:b", size=-1),
        lambda: Content(1, ["x"]),
    ],
)
def test_what_is_no_part_is_refused_where_it_is_made(make: Any):
    with pytest.raises((TypeError, ValueError)):
        make()


@pytest.mark.parametrize(
    "value", [{"a": Text("x")}, [1, Image(PNG)], Content({"deep": [LINK]}), {"a": Content(1)}]
)
def test_a_part_within_the_data_is_refused_and_says_what_to_write(value: Any):
    with pytest.raises(ResultFault, match="return Content"):
        encode_answer(value)


def test_parts_are_bounded():
    with pytest.raises(ResultFault, match="101 parts"):
        encode_answer([Text("x")] * 101)


def test_hints_of_content_promise_the_data_alone():
    def data() -> Content[int]: ...
    def shown() -> Annotated[Content[dict[str, int]], "rows"]: ...
    def bare() -> Content: ...
    def image() -> Image: ...
    def parts() -> list[Text | Image]: ...
    def some() -> Image | None: ...
    def either() -> str | Content[int]: ...
    def plain() -> list[int]: ...

    assert returns_schema(data) == {"type": "integer"}
    assert (returns_schema(shown) or {})["type"] == "object"
    assert [returns_schema(each) for each in (bare, image, parts, some, either)] == [None] * 5
    assert returns_schema(plain) == {"type": "array", "items": {"type": "integer"}}


def test_authors_see_in_a_test_what_they_returned():
    def draw(size: int) -> Content[int]:
        return Content(size, Image(PNG))

    assert call(draw, size=3) == Content(3, [Image(PNG)])
    assert call(draw, size=3) != Content(3, [Text("x")])
    assert "image/png" in repr(call(draw, size=3))


@pytest.mark.parametrize(
    "parts",
    [
        {},
        [1],
        [{"type": "video"}],
        [{"type": "text"}],
        [{"type": "text", "text": 1}],
        [{"type": "text", "text": "a", "x": 1}],
        [{"type": "image", "data": "***", "mime_type": "image/png"}],
        [{"type": "resource_link", "uri": "a:b", "name": "b", "size": True}],
        [{"type": "resource_link", "uri": "a:b", "name": "b", "size": -1}],
    ],
)
def test_what_a_foreign_runner_sends_as_content_is_checked(parts: Any):
    with pytest.raises(ValueError, match="content"):
        check_content(parts)


def test_a_part_of_a_kind_to_come_leaves_the_data_alone():
    assert joined(3, [{"type": "hologram"}]) == 3
    assert isinstance(Text("a"), Part)
