"""Gate: what an operator or author can meet is in the documentation.

Each check collects names from the code and looks for each as a whole word in its documents. Add a check to
CHECKS for a new kind of name.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from tools.tree import ROOT, files, parse, report


@dataclass(frozen=True, slots=True)
class Check:
    """`collect` finds the names below a root; each must stand in one of `documents` (globs)."""

    kind: str
    collect: Callable[[Path], set[str]]
    documents: tuple[str, ...]


def metrics(root: Path) -> set[str]:
    """The daemon's own metrics: the names handed to the collectors."""
    return {
        node.args[0].value
        for node in ast.walk(parse(root / "hermesd/telemetry/exposition.py"))
        if isinstance(node, ast.Call)
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
        and re.fullmatch(r"hermesd_[a-z_]+", node.args[0].value)
    }


def settings(root: Path) -> set[str]:
    """Every key of the configuration, dotted, from the dataclasses that hold it."""
    tree = parse(root / "hermesd/config/configuration.py")
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    return {"include", "data_dir", "secrets", *_keys_of(classes, "Configuration", "", nested_only=True)}


def _keys_of(classes: dict[str, ast.ClassDef], name: str, prefix: str, *, nested_only: bool) -> Iterator[str]:
    for node in classes[name].body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        key = node.target.id
        if key.startswith("_"):
            continue
        inner = ast.unparse(node.annotation)
        if inner in classes:
            yield from _keys_of(classes, inner, f"{prefix}{key}.", nested_only=False)
        elif not nested_only:
            yield f"{prefix}{key}"


def codes(root: Path) -> set[str]:
    """The codes of results."""
    for node in parse(root / "hermesd/model/call.py").body:
        if isinstance(node, ast.ClassDef) and node.name == "Code":
            return {each.targets[0].id for each in node.body if _is_member(each)}  # type: ignore[attr-defined]
    return set()


def detail_keys(root: Path) -> set[str]:
    """What the code puts into `detail`: `Refused(…, key=…)`, `detail={…}`, `detail["key"] = …`."""
    found: set[str] = set()
    for path in files(root / "hermesd", ".py"):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Call):
                is_refusal = getattr(node.func, "id", "") == "Refused"
                found.update(each.arg for each in node.keywords if is_refusal and each.arg is not None)
                for each in node.keywords:
                    if each.arg == "detail":
                        found.update(_literal_keys(each.value))
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    found.update(_detail_keys_of(target, node.value))
    return found


def _detail_keys_of(target: ast.expr, value: ast.expr) -> Iterator[str]:
    """Of `detail = {…}` and `detail["key"] = …`."""
    if isinstance(target, ast.Name) and target.id == "detail":
        yield from _literal_keys(value)
    if isinstance(target, ast.Subscript) and getattr(target.value, "id", "") == "detail":
        key = target.slice
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value


def _literal_keys(value: ast.expr) -> Iterator[str]:
    keys = value.keys if isinstance(value, ast.Dict) else []
    yield from (each.value for each in keys if isinstance(each, ast.Constant) and isinstance(each.value, str))


def _is_member(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)


def event_kinds(root: Path) -> set[str]:
    """The kinds that the event log declares."""
    for node in ast.walk(parse(root / "hermesd/telemetry/event.py")):
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and node.target.id == "KINDS"
        ):
            return {
                key.value
                for each in ast.walk(node)
                if isinstance(each, ast.Dict)
                for key in each.keys
                if isinstance(key, ast.Constant) and isinstance(key.value, str)
            }
    return set()


def commands(root: Path) -> set[str]:
    """Every command of the executable with its groups, such as `ctl plugins trust`."""
    del root  # commands are found by asking the program itself
    group = importlib.import_module("hermesd.__main__").cli
    return set(_commands_of(group, click.Context(group, info_name="hermesd")))


def _commands_of(command: click.Command, context: click.Context, path: str = "") -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield path
        return
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        if child is not None and not child.hidden:
            inner = click.Context(child, info_name=name, parent=context)
            yield from _commands_of(child, inner, f"{path} {name}".strip())


#: Where each kind of name is documented.
CHECKS = (
    Check("metric", metrics, ("docs/operating.md",)),
    Check("event kind", event_kinds, ("docs/operating.md",)),
    Check("setting", settings, ("docs/configuration.md",)),
    Check("result code", codes, ("docs/codes.md",)),
    Check("detail key", detail_keys, ("docs/codes.md",)),
    Check("command", commands, ("docs/*.md",)),
)


def faults(root: Path, checks: tuple[Check, ...] = CHECKS) -> list[str]:
    """What is not documented, and events that are told but not declared or declared but never told."""
    found = []
    for check in checks:
        names = check.collect(root)
        if not names:
            found.append(f"{check.kind}: none was found in the code; the check itself is stale")
        text = "\n".join(
            document.read_text(encoding="utf-8")
            for pattern in check.documents
            for document in sorted(root.glob(pattern))
        )
        where = ", ".join(check.documents)
        found.extend(
            f"{where}: {check.kind} {name} is not documented"
            for name in sorted(names)
            if not _has(text, name)
        )
    return found


def event_faults(root: Path) -> list[str]:
    """Kinds told through `events.emit("kind", …)` but not declared, and declared but never told."""
    declared = event_kinds(root)
    found: list[str] = []
    texts: set[str] = set()
    for path in files(root / "hermesd", ".py"):
        if path == root / "hermesd/telemetry/event.py":
            continue
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
            kind = _told(node)
            if kind is not None and kind not in declared:
                name = path.relative_to(root).as_posix()
                found.append(f"{name}:{node.lineno}: event kind {kind} is not declared")  # type: ignore[attr-defined]
    found.extend(f"hermesd/telemetry/event.py: nothing tells of {kind}" for kind in sorted(declared - texts))
    return found


def _told(node: ast.AST) -> str | None:
    """The kind, if `node` is `….events.emit("kind", …)`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "emit"):
        return None
    holder = node.func.value
    name = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")
    if name.strip("_") != "events" or not node.args:
        return None
    first = node.args[0]
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def _has(text: str, name: str) -> bool:
    """Whether the name, or for a dotted one its last part, stands in the text as a word of its own."""
    return re.search(rf"(?<![\w-]){re.escape(name.rpartition('.')[2])}(?![\w-])", text) is not None


if __name__ == "__main__":
    sys.exit(report("docs", faults(ROOT) + event_faults(ROOT)))
