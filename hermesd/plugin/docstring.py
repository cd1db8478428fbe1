"""Read a docstring: what the tool does, what each parameter is, what comes back.

Knows the sections of Google and NumPy style, the fields of Sphinx, and the same headings in Chinese.
"""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

_PARAMETERS = frozenset(
    {
        "args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters",
        "attributes", "参数",
    }
)  # fmt: skip
_RETURNS = frozenset({"returns", "return", "返回", "返回值"})
_OTHERS = frozenset(
    {
        "raises", "raise", "yields", "yield", "example", "examples", "note", "notes", "warning", "warnings",
        "see also", "references", "todo", "异常", "示例", "注意",
    }
)  # fmt: skip
_HEADINGS = _PARAMETERS | _RETURNS | _OTHERS
_GOOGLE_ENTRY = re.compile(r"(\*{0,2}\w+)\s*(?:[(（][^)）]*[)）])?\s*[:：]\s*(.*)")
_NUMPY_ENTRY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_SPHINX_FIELD = re.compile(r":(\w+)(?:\s+([^:]*?))?:\s*(.*)")
_SPHINX_PARAMETERS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})


class Docstring(NamedTuple):
    """Texts of one docstring, each on as few lines as its author's paragraphs."""

    description: str
    parameters: dict[str, str]
    returns: str


def read_docstring(text: str | None) -> Docstring:
    """Never fails: what is no known section is description."""
    lines = inspect.cleandoc(text).splitlines() if text else []
    sections = _sections(lines)
    opening, fields = _split_fields(sections[0][1])
    parameters, returns = _sphinx(fields)
    for heading, numpy, body in ((each[0], each[2], each[1]) for each in sections[1:]):
        if heading in _PARAMETERS:
            parameters |= _numpy_entries(body) if numpy else _google_entries(body)
        elif heading in _RETURNS:
            returns = returns or _paragraphs(body)
    return Docstring(_paragraphs(opening), parameters, returns)


def _sections(lines: list[str]) -> list[tuple[str, list[str], bool]]:
    """(heading, body, whether NumPy style); the first has no heading."""
    sections: list[tuple[str, list[str], bool]] = [("", [], False)]
    index = 0
    while index < len(lines):
        line = lines[index]
        bare = line.strip().lower()
        underlined = index + 1 < len(lines) and re.fullmatch(r"\s*-{3,}\s*", lines[index + 1]) is not None
        if bare in _HEADINGS and underlined:
            sections.append((bare, [], True))
            index += 2
            continue
        if bare.endswith((":", "：")) and bare[:-1].strip() in _HEADINGS and not line.startswith(" "):
            sections.append((bare[:-1].strip(), [], False))
        else:
            sections[-1][1].append(line)
        index += 1
    return sections


def _google_entries(body: list[str]) -> dict[str, str]:
    entries: dict[str, list[str]] = {}
    indents = [len(line) - len(line.lstrip()) for line in body if line.strip()]
    depth = min(indents, default=0)
    current: list[str] = []
    for line in body:
        indent = len(line) - len(line.lstrip())
        match = _GOOGLE_ENTRY.match(line.strip()) if indent == depth else None
        if match is not None:
            current = entries.setdefault(match[1].lstrip("*"), [])
            current.append(match[2])
        else:
            current.append(line)
    return _texts(entries)


def _numpy_entries(body: list[str]) -> dict[str, str]:
    entries: dict[str, list[str]] = {}
    current: list[list[str]] = []
    for line in body:
        match = _NUMPY_ENTRY.match(line) if line[:1].strip() else None
        if match is not None:
            names = [each.strip().lstrip("*") for each in match[1].split(",")]
            current = [entries.setdefault(name, []) for name in names]
        else:
            for each in current:
                each.append(line)
    return _texts(entries)


def _split_fields(lines: list[str]) -> tuple[list[str], list[str]]:
    for index, line in enumerate(lines):
        if _SPHINX_FIELD.match(line):
            return lines[:index], lines[index:]
    return lines, []


def _sphinx(lines: list[str]) -> tuple[dict[str, str], str]:
    entries: dict[str, list[str]] = {}
    returns: list[str] = []
    current: list[str] = []
    for line in lines:
        match = _SPHINX_FIELD.match(line)
        if match is None:
            current.append(line)
            continue
        kind, what, text = match[1].lower(), match[2] or "", match[3]
        if kind in _SPHINX_PARAMETERS and what:
            current = entries.setdefault(what.split()[-1].lstrip("*"), [])
        else:
            current = returns if kind in _RETURNS else []
        current.append(text)
    return _texts(entries), _paragraphs(returns)


def _texts(entries: dict[str, list[str]]) -> dict[str, str]:
    return {name: text for name, lines in entries.items() if (text := _paragraphs(lines))}


def _paragraphs(lines: list[str]) -> str:
    """Lines of a paragraph joined; paragraphs stay apart."""
    text = "\n".join(line.strip() for line in lines).strip()
    return "\n\n".join(" ".join(each.split("\n")) for each in re.split(r"\n{2,}", text))
