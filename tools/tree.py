"""The files of the repository that its gates look at."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GENERATED = ("hermesd/api/v1",)
_NOT_OURS = frozenset({"node_modules", "dist", "build", "__pycache__"})


def files(root: Path, *suffixes: str, generated: bool = False) -> Iterator[Path]:
    """Every file with one of `suffixes` (none: every file), in name order.

    Hidden folders (except `.ci`), build products and, unless asked for, generated code are left out.
    """
    for path in sorted(root.iterdir()):
        relative = path.name
        if path.is_symlink():
            continue
        if path.is_dir():
            if relative in _NOT_OURS or relative.endswith(".egg-info"):
                continue
            if relative.startswith(".") and relative != ".ci":
                continue
            yield from _below(root, path, suffixes, generated)
        elif not suffixes or path.suffix in suffixes:
            yield path


def _below(root: Path, folder: Path, suffixes: tuple[str, ...], generated: bool) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(root).parts
        hidden = any(part.startswith(".") for part in parts[1:-1])
        if hidden or _NOT_OURS & set(parts) or path.is_symlink() or not path.is_file():
            continue
        if not generated and path.relative_to(root).as_posix().startswith(GENERATED):
            continue
        if not suffixes or path.suffix in suffixes:
            yield path


def parse(path: Path) -> ast.Module:
    """The syntax tree of a Python file. Raises SyntaxError naming the file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def report(gate: str, faults: list[str]) -> int:
    """Print the faults, or one line that all is well; answers the exit status."""
    for fault in faults:
        print(fault)
    print(f"{gate}: {len(faults)} to mend" if faults else f"{gate}: ok")
    return 1 if faults else 0
