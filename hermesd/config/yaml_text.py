"""YAML to JSON types, from libyaml's events, without recursion and with every expansion bounded.

Events rather than PyYAML's constructors, because a constructor would resolve YAML 1.1 types, keep the last of
two equal keys, recurse on nesting and expand aliases without bound. Reading 1,000 manifests so takes about
half the time of `yaml.CSafeLoader`.
"""

from __future__ import annotations

from typing import Any

from yaml import AliasEvent, DocumentStartEvent, MappingStartEvent, ScalarEvent, SequenceStartEvent, YAMLError
from yaml._yaml import CParser

from hermesd.config.fault import MAX_DEPTH, TextFault, duplicate_key, too_deep
from hermesd.config.scalar import AmbiguousScalar, resolve

#: Nodes and characters that aliases may add beyond what stands in the file.
MAX_EXPANSION = 256 * 1024
MAX_DIRECTIVES = 64

Places = dict[tuple[str | int, ...], tuple[int, int]]

_STR_TAG = "tag:yaml.org,2002:str"
_MAP_TAG = "tag:yaml.org,2002:map"
_SEQ_TAG = "tag:yaml.org,2002:seq"
_NO_KEY = object()


class _Frame:
    """An open mapping or sequence. `key` is the mapping's key that waits for its value."""

    __slots__ = ("anchor", "container", "height", "key", "part", "weight")

    def __init__(self, container: Any, anchor: str | None, part: str | int | None, weight: int) -> None:
        self.container = container
        self.anchor = anchor
        self.key: Any = _NO_KEY
        self.part = part
        self.weight = weight
        self.height = 1


class _Anchored:
    """A finished node that aliases may repeat: its value, what it weighs and how deep it nests."""

    __slots__ = ("height", "value", "weight")

    def __init__(self, value: object, weight: int, height: int) -> None:
        self.value = value
        self.weight = weight
        self.height = height


def read_yaml(text: bytes, places: Places | None = None) -> tuple[object, bool]:
    """The document's value, and whether there is one at all. Raises TextFault.

    With `places`, the position of each key and item is recorded there: twice the time, so only on errors.
    """
    if text.count(b"%TAG") > MAX_DIRECTIVES:
        # libyaml compares each directive with all before it: 40,000 of them cost 1.8 s.
        raise TextFault("holds too many %TAG directives", "remove them; tags are not read")
    try:
        return _Reading(text, places).run()
    except YAMLError as error:
        raise _syntax_fault(error, text) from None


class _Reading:
    def __init__(self, text: bytes, places: Places | None) -> None:
        self._parser = CParser(text)
        self._places = places
        self._stack: list[_Frame] = []
        self._anchors: dict[str, _Anchored | None] = {}
        self._weight = 0
        self._expanded = 0
        self._root: object = None

    def run(self) -> tuple[object, bool]:
        get_event = self._parser.get_event
        documents = 0
        while (event := get_event()) is not None:
            kind = event.__class__
            if kind is ScalarEvent:
                self._scalar(event)
            elif kind is MappingStartEvent:
                self._open({}, event, _MAP_TAG)
            elif kind is SequenceStartEvent:
                self._open([], event, _SEQ_TAG)
            elif kind is AliasEvent:
                self._alias(event)
            elif kind is DocumentStartEvent:
                documents += 1
                if documents > 1:
                    raise _at(event, "a second document begins here", "keep one document in each file")
            elif self._stack:
                self._close()
        return self._root, documents > 0

    def _scalar(self, event: Any) -> None:
        text: str = event.value
        frame = self._stack[-1] if self._stack else None
        is_key = frame is not None and frame.key is _NO_KEY and frame.container.__class__ is dict
        plain = event.implicit[0]
        if event.tag is not None and event.tag not in (_STR_TAG, "!"):
            raise _tag_fault(event)
        self._weight += 1 + len(text)
        if is_key:
            self._key(frame, text, plain, event)
            return
        value: object = text
        if plain:
            try:
                value = resolve(text)
            except AmbiguousScalar as fault:
                raise _at(event, fault.problem, fault.remedy) from None
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, 1 + len(text), 0)
        self._put(value, event)

    def _key(self, frame: Any, text: str, plain: bool, event: Any) -> None:
        if plain and _is_no_text(text):
            raise _at(event, f"the key {text or 'null'} is no text", f'write it in quotes: "{text}"')
        if plain and text == "<<":
            raise _at(event, "merge keys (<<) are not read", "write the keys out here")
        if text in frame.container:
            first = self._places.get((*self._path(), text)) if self._places is not None else None
            mark = event.start_mark
            raise duplicate_key(text, mark.line + 1, mark.column + 1, first)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(text, 1 + len(text), 0)
        frame.key = text
        if self._places is not None:
            self._places[(*self._path(), text)] = (event.start_mark.line + 1, event.start_mark.column + 1)

    def _put(self, value: object, event: Any) -> None:
        if not self._stack:
            self._root = value
            return
        frame = self._stack[-1]
        container = frame.container
        if container.__class__ is dict:
            if frame.key is _NO_KEY:
                raise _at(event, "a key must be a text", "write a plain text before the ':'")
            container[frame.key] = value
            frame.key = _NO_KEY
        else:
            if self._places is not None:
                mark = event.start_mark
                self._places[(*self._path(), len(container))] = (mark.line + 1, mark.column + 1)
            container.append(value)

    def _open(self, container: Any, event: Any, tag: str) -> None:
        if event.tag is not None and event.tag not in (tag, "!"):
            raise _tag_fault(event)
        if len(self._stack) >= MAX_DEPTH:
            raise too_deep(event.start_mark.line + 1, event.start_mark.column + 1)
        part: str | int | None = None
        if self._stack:
            parent = self._stack[-1]
            part = len(parent.container) if parent.container.__class__ is list else parent.key
        self._put(container, event)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._stack.append(_Frame(container, event.anchor, part, self._weight))
        self._weight += 1

    def _close(self) -> None:
        frame = self._stack.pop()
        if frame.anchor is not None:
            self._anchors[frame.anchor] = _Anchored(
                frame.container, self._weight - frame.weight, frame.height
            )
        if self._stack:
            parent = self._stack[-1]
            parent.height = max(parent.height, frame.height + 1)

    def _alias(self, event: Any) -> None:
        name = event.anchor
        if name not in self._anchors:
            raise _at(event, f"the alias *{name} has no anchor &{name} before it", "write the value out")
        anchored = self._anchors[name]
        if anchored is None:
            raise _at(event, f"the alias *{name} stands inside its own anchor", "write the value out")
        self._expanded += anchored.weight
        self._weight += anchored.weight
        if self._expanded > MAX_EXPANSION:
            raise _at(event, "the aliases expand to far more than the file holds", "write the values out")
        if len(self._stack) + anchored.height > MAX_DEPTH:
            raise too_deep(event.start_mark.line + 1, event.start_mark.column + 1)
        if self._stack:
            parent = self._stack[-1]
            parent.height = max(parent.height, anchored.height + 1)
        self._put(anchored.value, event)

    def _path(self) -> tuple[Any, ...]:
        return tuple(frame.part for frame in self._stack[1:])


def _is_no_text(text: str) -> bool:
    try:
        return not isinstance(resolve(text), str)
    except AmbiguousScalar:
        return False  # `on` or `22:22` as a key can only be the text


def _at(event: Any, problem: str, remedy: str) -> TextFault:
    return TextFault(problem, remedy, event.start_mark.line + 1, event.start_mark.column + 1)


def _tag_fault(event: Any) -> TextFault:
    tag = event.tag.replace("tag:yaml.org,2002:", "!!")
    return _at(
        event, f"the tag {tag} is not read", "remove the tag; write plain text, numbers, lists, mappings"
    )


_REMEDIES = (
    ("mapping values are not allowed", "put a text that holds ': ' in quotes, or fix the indentation"),
    ("unexpected end of stream", "close the quotes or brackets that are open"),
    ("did not find expected ',' or", "close the bracket, or put a ',' between the items"),
    ("cannot start any token", "put a text that begins with this character in quotes"),
    ("did not find expected key", "fix the indentation: keys of one mapping begin in one column"),
    ("could not find expected ':'", "put ': ' after the key, or fix the indentation"),
)


def _syntax_fault(error: YAMLError, text: bytes) -> TextFault:
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error).splitlines()[0]
    if mark is None:
        return TextFault(f"is no YAML: {problem}", "fix the syntax")
    line = text.decode("utf-8", "replace").splitlines()[mark.line : mark.line + 1]
    if line and ("tab" in problem or line[0][mark.column : mark.column + 1] == "\t"):
        return TextFault(
            "a tab is used for indentation", "indent with spaces", mark.line + 1, mark.column + 1
        )
    if line and "${" in line[0] and "expected" in problem:
        remedy = 'inside [...] and {...} a reference must stand in quotes: "${NAME}"'
        return TextFault(f"is no YAML: {problem}", remedy, mark.line + 1, mark.column + 1)
    remedy = next((each for part, each in _REMEDIES if part in problem), "fix the syntax on this line")
    return TextFault(f"is no YAML: {problem}", remedy, mark.line + 1, mark.column + 1)
