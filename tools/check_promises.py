"""Gate: each promise in docs/promises.md is held by a test that names it, and no test names another.

A promise is a row `| ID | text |` whose id looks like `OPS-1`; a test names it with
`@pytest.mark.promise("OPS-1")`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.tree import ROOT, files, parse, report

PROMISES = "docs/promises.md"
_ROW = re.compile(r"\|\s*([A-Z][A-Z0-9]*-\d+)\s*\|\s*(\S.*?)\s*\|\s*\Z")


def faults(root: Path) -> list[str]:
    """What is promised and not tested, tested and not promised, or promised twice."""
    found: list[str] = []
    promised: dict[str, int] = {}
    text = (root / PROMISES).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        match = _ROW.match(line)
        if match is None:
            continue
        if match[1] in promised:
            found.append(f"{PROMISES}:{number}: {match[1]} stands at line {promised[match[1]]} already")
        promised.setdefault(match[1], number)
    if not promised:
        found.append(f"{PROMISES}:1: holds no promise")
    tested: set[str] = set()
    for path in files(root / "tests", ".py"):
        name = path.relative_to(root).as_posix()
        for line_number, promise in _named(parse(path)):
            if promise is None:
                found.append(f"{name}:{line_number}: a promise is named by one literal text")
            elif promise not in promised:
                found.append(f"{name}:{line_number}: {promise} is not in {PROMISES}")
            else:
                tested.add(promise)
    found.extend(
        f"{PROMISES}:{promised[each]}: no test names {each}" for each in promised if each not in tested
    )
    return found


def _named(tree: ast.Module) -> Iterator[tuple[int, str | None]]:
    """Each `….mark.promise(…)` with its id; None when it is not one literal text."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        holder = node.func.value
        if node.func.attr != "promise" or not (isinstance(holder, ast.Attribute) and holder.attr == "mark"):
            continue
        literal = node.args[0] if len(node.args) == 1 and not node.keywords else None
        is_text = isinstance(literal, ast.Constant) and isinstance(literal.value, str)
        yield node.lineno, str(literal.value) if is_text and isinstance(literal, ast.Constant) else None


if __name__ == "__main__":
    sys.exit(report("promises", faults(ROOT)))
