"""What JSON Schema can say beyond the type, for `Annotated`."""

from __future__ import annotations

from typing import Any

KEYWORDS = frozenset(
    {
        "title", "examples", "format", "pattern", "minimum", "maximum", "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties",
        "maxProperties", "contentMediaType",
    }
)  # fmt: skip


class Limits:
    """`Annotated[int, "how many", Limits(minimum=1)]`: keywords of JSON Schema, under their own names.

    Hashable, unlike a dict, which `Annotated[…] | None` could not hold. An unknown keyword is a TypeError.
    """

    __slots__ = ("keywords",)

    def __init__(self, **keywords: Any) -> None:
        unknown = sorted(keywords.keys() - KEYWORDS)
        if unknown:
            raise TypeError(_unknown(unknown[0]))
        self.keywords = keywords

    def __repr__(self) -> str:
        return f"Limits({', '.join(f'{name}={value!r}' for name, value in self.keywords.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Limits) and other.keywords == self.keywords

    def __hash__(self) -> int:
        return hash(repr(sorted(self.keywords.items())))


def _unknown(keyword: str) -> str:
    import difflib  # noqa: PLC0415 - only needed for the message

    near = difflib.get_close_matches(keyword, KEYWORDS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the limits are {', '.join(sorted(KEYWORDS))}"
    return f"Limits has no {keyword!r}; {hint}"
