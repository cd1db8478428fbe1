"""Gate: the repository speaks of itself alone.

No path of the machine that it was written on, no number of a ticket or work package, no host of a package
registry: none of them means anything to a reader who has only this checkout. References to other projects'
trackers (`project#12`) are fine.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.tree import ROOT, files, report

# Each pattern is written so that it does not match itself.
_BANNED = (
    (re.compile(r"/home/[a-z_][a-z0-9_-]*/", re.IGNORECASE), "a path of somebody's home"),
    (re.compile(r"(?<!\w)/root/[\w.]"), "a path of somebody's home"),
    (
        re.compile(r"\b(?:issue|ticket|part)s? #?\d+\b", re.IGNORECASE),
        "the number of a ticket or work package",
    ),
    (re.compile(r"\bpyp[i]\.org|\bpythonhoste[d]\.org|\bnpmj[s]\.org", re.IGNORECASE), "a registry's host"),
    (
        re.compile(r"\b(?:registry|mirror|proxy|index)\.[a-z0-9-]+\.(?:com|org|net|io|dev|cn)\b"),
        "a registry's host",
    ),
    (re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b"), "unfinished work"),
)
#: Folders that every machine has; the texts may speak of them wherever the checkout lies.
_ANYWHERE = frozenset(
    {"/", "/app", "/build", "/data", "/home", "/mnt", "/opt", "/root", "/src", "/srv", "/tmp", "/usr/local"}
    | {"/usr/src", "/var/lib", "/var/tmp"}
)
_BINARY = frozenset({".binpb", ".png", ".gz", ".whl", ".ico"})
#: Other people's text, or text about bad text.
_EXEMPT = frozenset({"LICENSE", "tests/unit/test_tools_check_words.py"})


def faults(root: Path) -> list[str]:
    """`file:line: what stands there`, for every text file below `root`."""
    found: list[str] = []
    beside = None if str(root.parent) in _ANYWHERE else f"{root.parent}/"
    for path in files(root):
        name = path.relative_to(root).as_posix()
        if path.suffix in _BINARY or name in _EXEMPT:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            found.extend(f"{name}:{number}: {text}" for text in _faults_of(line, beside))
    return found


def _faults_of(line: str, beside: str | None) -> Iterator[str]:
    if beside is not None and re.search(rf"(?<![\w.]){re.escape(beside)}", line):
        yield f"a path beside this checkout: {beside}"
    for pattern, what in _BANNED:
        if match := pattern.search(line):
            yield f"{what}: {match.group()}"


if __name__ == "__main__":
    sys.exit(report("words", faults(ROOT)))
