"""The walk of a merged value along the table: types, defaults, unknown keys, what this build lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hermesd.config.effective import dotted, telling_paths
from hermesd.config.interpolation import Expanded
from hermesd.config.key import Key, Node
from hermesd.config.kind import At, Grant, KeyFault, PathParts, describe
from hermesd.model.name import nearest

#: More faults than these are counted, not listed: nobody reads on.
MAX_FAULTS = 50
MAX_NAME = 100


@dataclass(slots=True)
class Checked:
    """`tree` holds every key of this build, typed, and what was set of the others. `secret`: what to mask."""

    tree: dict[str, object] = field(default_factory=dict)
    faults: list[KeyFault] = field(default_factory=list)
    warnings: list[KeyFault] = field(default_factory=list)
    secret: set[PathParts] = field(default_factory=set)


class Check:
    """One walk. `base_of` gives the folder that a path at a key is relative to."""

    def __init__(self, base_of: Callable[[PathParts], Path]) -> None:
        self._base_of = base_of
        self.result = Checked()

    def run(self, root: Node, value: Mapping[str, object]) -> Checked:
        self.result.tree = self._section(root, value, ())
        self._note_secrets(value, ())
        return self.result

    def _node(self, node: Node, value: object, path: PathParts, warned: bool) -> object:
        key = node.key
        if key is not None and key.deferred and not warned:
            self._not_in_this_build(key, path)
            warned = True
        if key is not None and key.secret:
            self.result.secret.add(path)
        if key is not None and key.kind is not None:
            if value is None:
                return key.default
            read = key.kind.read(value, At(path, self._base_of, self.result.faults))
            if not isinstance(key.kind, Grant):  # a grant holds the names of secrets, not their values
                self.result.secret.update(telling_paths(read, path))
            return read
        if key is not None and key.short and value is not None and not isinstance(value, Mapping):
            value = {key.short: value}
        return self._section(node, value, path, warned)

    def _section(self, node: Node, value: object, path: PathParts, warned: bool = False) -> dict[str, object]:
        if value is None:
            value = {}
        if not isinstance(value, Mapping):
            self._wrong(path, f"expected a mapping, got {describe(value)}", "write its keys below it")
            return {}
        tree: dict[str, object] = {}
        for name, below in value.items():
            child = node.children.get(name) or self._named(node, name, path)
            if child is None:
                self._unknown(node, name, path)
            else:
                tree[name] = self._node(child, below, (*path, name), warned)
        return {**self._defaults(node, tree, path), **tree}

    def _named(self, node: Node, name: str, path: PathParts) -> Node | None:
        every = node.every
        if every is None:
            return None
        rule = every.key.name_fault if every.key else None
        if rule is not None and (problem := rule(name)) is not None:
            self._wrong((*path, name), problem, "rename it")
        return every

    def _defaults(self, node: Node, tree: Mapping[str, object], path: PathParts) -> dict[str, object]:
        missing: dict[str, object] = {}
        for name, child in node.children.items():
            key = child.key
            if name in tree or key is None or key.deferred:
                continue
            below = (*path, name)
            missing[name] = key.default if key.kind is not None else self._section(child, {}, below)
        return missing

    def _unknown(self, node: Node, name: str, path: PathParts) -> None:
        here = (*path, name)
        if node.key is not None and node.key.lenient:
            reason = f"{dotted(here)} is a key of other programs; it has no effect"
            self.result.warnings.append(KeyFault(here, reason, "remove it, or leave it for them"))
            return
        if len(self.result.faults) > MAX_FAULTS:
            self._wrong(here, "unknown key", "")  # the search for the nearest is what costs
            return
        near = nearest(name, node.children, 1) if len(name) <= MAX_NAME else []
        remedy = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(sorted(node.children))}"
        self._wrong(here, f"unknown key {name[:MAX_NAME]!r}", remedy)

    def _not_in_this_build(self, key: Key, path: PathParts) -> None:
        still = f" but that {key.still}" if key.still else ""
        reason = f"{dotted(path)} has no effect{still}: this build does not have {key.deferred} yet"
        self.result.warnings.append(KeyFault(path, reason, "leave it for a later build, or remove it"))

    def _wrong(self, path: PathParts, problem: str, remedy: str) -> None:
        self.result.faults.append(KeyFault(path, problem, remedy))

    def _note_secrets(self, value: object, path: PathParts) -> None:
        if isinstance(value, Expanded):
            if value.secret:
                self.result.secret.add(path)
        elif isinstance(value, Mapping):
            for name, below in value.items():
                self._note_secrets(below, (*path, name))
        elif isinstance(value, list):
            for index, below in enumerate(value):
                self._note_secrets(below, (*path, index))
