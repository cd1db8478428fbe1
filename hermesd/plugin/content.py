"""What a tool shows beside its data: text for people, images, and links to what lies elsewhere.

    return Image(png, "image/png")
    return Content({"rows": 3}, [Text("three rows"), ResourceLink("file:///data/report.csv")])

A part alone, or a list or tuple of parts, is content without data.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from hermesd.plugin.fault import ResultFault

MAX_PARTS = 100
DataT = TypeVar("DataT")


class Part:
    """One part of a result's content."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.told() == other.told()

    def __hash__(self) -> int:
        return hash(str(self.told()))

    def __repr__(self) -> str:
        said = (f"{key}={str(value)[:60]!r}" for key, value in self.told().items() if key != "type")
        return f"{type(self).__name__}({', '.join(said)})"

    def told(self) -> dict[str, Any]:
        """The part as JSON."""
        raise NotImplementedError


class Text(Part):
    """A text for people to read."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = _text(text, "text")

    def told(self) -> dict[str, Any]:
        return {"type": "text", "text": self.text}


class Image(Part):
    """An image. `mime_type` without one is told by the first bytes: png, jpeg, gif or webp."""

    __slots__ = ("data", "mime_type")

    def __init__(self, data: bytes, mime_type: str = "") -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"an Image is made of bytes, not of {type(data).__name__}")
        self.data = bytes(data)
        self.mime_type = _text(mime_type, "mime_type") or _sniffed(self.data)

    def told(self) -> dict[str, Any]:
        return {
            "type": "image",
            "data": base64.b64encode(self.data).decode(),
            "mime_type": self.mime_type,
        }


class ResourceLink(Part):
    """Where something lies that whoever asked may fetch by itself. `size` is in bytes."""

    __slots__ = ("description", "mime_type", "name", "size", "title", "uri")

    def __init__(
        self,
        uri: str,
        *,
        name: str = "",
        title: str = "",
        description: str = "",
        mime_type: str = "",
        size: int | None = None,
    ) -> None:
        self.uri = _text(uri, "uri")
        if not uri:
            raise ValueError("a ResourceLink needs a uri")
        if size is not None and size < 0:
            raise ValueError(f"the size of a ResourceLink is a number of bytes, not {size!r}")
        self.name = _text(name, "name") or uri.rstrip("/").rpartition("/")[2] or uri
        self.title = _text(title, "title")
        self.description = _text(description, "description")
        self.mime_type = _text(mime_type, "mime_type")
        self.size = size

    def told(self) -> dict[str, Any]:
        said = {each: getattr(self, each) for each in ("title", "description", "mime_type")}
        size = {} if self.size is None else {"size": self.size}
        told = {"type": "resource_link", "uri": self.uri, "name": self.name}
        return told | {key: value for key, value in said.items() if value} | size


class Content(Generic[DataT]):
    """A result that has both: `data` for programs and `parts` for whoever reads. `Content[Order]` as the
    hint of a tool says what its data is.
    """

    __slots__ = ("data", "parts")

    def __init__(self, data: DataT, parts: Part | Iterable[Part] = ()) -> None:
        self.data = data
        self.parts: tuple[Part, ...] = (parts,) if isinstance(parts, Part) else tuple(parts)
        for each in self.parts:
            if not isinstance(each, Part):
                raise TypeError(f"a part is Text, Image or ResourceLink, not {type(each).__name__}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Content) and (self.data, self.parts) == (other.data, other.parts)

    __hash__ = None  # type: ignore[assignment] # its data may be of any kind

    def __repr__(self) -> str:
        return f"Content({self.data!r}, {list(self.parts)!r})"


def split(value: object) -> tuple[object, tuple[Part, ...]]:
    """The data and the parts of what a tool returned. Raises ResultFault for more than 100 parts."""
    if isinstance(value, Content):
        data, parts = value.data, value.parts
    elif isinstance(value, Part):
        data, parts = None, (value,)
    elif isinstance(value, list | tuple) and value and all(isinstance(each, Part) for each in value):
        data, parts = None, tuple(value)
    else:
        return value, ()
    if len(parts) > MAX_PARTS:
        raise ResultFault(f"has {len(parts)} parts of content; at most {MAX_PARTS} are allowed")
    return data, parts


def joined(data: Any, parts: list[dict[str, Any]]) -> Any:
    """What `split` took apart and JSON carried, put together again. A kind of part that is not known is left
    to its data.
    """
    made = [each for each in map(_part, parts) if each is not None]
    return Content(data, made) if made else data


def _part(told: dict[str, Any]) -> Part | None:
    if told.get("type") == "text":
        return Text(told["text"])
    if told.get("type") == "image":
        return Image(base64.b64decode(told["data"]), told["mime_type"])
    if told.get("type") == "resource_link":
        return ResourceLink(**{key: value for key, value in told.items() if key != "type"})
    return None


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is a text, not {type(value).__name__}")
    return value


def _sniffed(data: bytes) -> str:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    raise ValueError("the bytes do not tell what image they are; say its mime_type")
