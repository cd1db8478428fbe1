"""Gate: no module above 600 lines, no function above 80. Generated code is exempt.

What outgrows its bound has usually taken in a second idea: split it.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from tools.tree import ROOT, files, parse, report

MODULE_LINES = 600
FUNCTION_LINES = 80


def faults(root: Path) -> list[str]:
    """`file:line: what is too long`, for every Python file below `root`."""
    found = []
    for path in files(root, ".py"):
        name = path.relative_to(root).as_posix()
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > MODULE_LINES:
            found.append(f"{name}:1: {lines} lines; a module has at most {MODULE_LINES}")
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES:
                    found.append(
                        f"{name}:{node.lineno}: {node.name} has {length} lines; "
                        f"a function has at most {FUNCTION_LINES}"
                    )
    return found


if __name__ == "__main__":
    sys.exit(report("sizes", faults(ROOT)))
