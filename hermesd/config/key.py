"""A row of the configuration's table: all that is known about one key, in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from hermesd.config.kind import Kind, PathParts

#: live: a reload applies it. restart: a reload reports it and the running daemon keeps the old value.
Reload = Literal["live", "restart"]
NameRule = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Key:
    """`path` is dotted; `*` stands for any name. `kind` None: a section, which has rows below it.

    `deferred` names the feature that this build lacks, `still` what the key does all the same. `shown` is the
    default as the reference prints it. `short`: the key below that a value other than a mapping stands for.
    `lenient`: unknown keys below are warnings. `joins`: lists of several files are put one after the other.
    `name_fault` checks a name of `*`.
    """

    path: str
    kind: Kind | None
    reload: Reload
    doc: str
    default: object = None
    shown: str = ""
    deferred: str = ""
    still: str = ""
    secret: bool = False
    short: str = ""
    lenient: bool = False
    joins: bool = False
    name_fault: NameRule | None = None


@dataclass(slots=True)
class Node:
    """The rows as a tree. `every` is the node for any name (`*`)."""

    key: Key | None = None
    children: dict[str, Node] = field(default_factory=dict)
    every: Node | None = None

    @property
    def kind(self) -> Kind | None:
        return self.key.kind if self.key else None


class Table:
    """The rows in the order of the reference, and the tree that checking walks."""

    def __init__(self, rows: Sequence[Key]) -> None:
        self.rows = tuple(rows)

    @cached_property
    def root(self) -> Node:
        root = Node()
        for row in self.rows:
            node = root
            for part in row.path.split("."):
                if part == "*":
                    node.every = node.every or Node()
                    node = node.every
                else:
                    node = node.children.setdefault(part, Node())
            node.key = row
        return root

    def at(self, path: PathParts) -> Node | None:
        """The deepest row's node for a path into a file; None when no row covers it."""
        node = self.root
        for part in path:
            below = node.children.get(str(part)) or node.every
            if below is None:
                return node if node.kind is not None else None
            node = below
        return node

    def is_named(self, path: PathParts) -> bool:
        """Whether the last part of `path` is a name that the operator chose, which may stand once only."""
        parent = self.at(path[:-1])
        return parent is not None and parent.every is not None and str(path[-1]) not in parent.children

    def reload_of(self, path: PathParts) -> Reload:
        node = self.at(path)
        return node.key.reload if node is not None and node.key is not None else "live"

    def leaves(self) -> Iterator[Key]:
        return (row for row in self.rows if row.kind is not None)
