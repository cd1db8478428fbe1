"""Which names are no part of a plugin: one list, for what is looked at and for what is copied.

Ignored inside a plugin: hidden names (which covers `.git`, vim's `.x.swp` and emacs' `.#x`), compiled
Python (`__pycache__`, `*.pyc`, `*.pyo`), and what editors leave while they save: `x~`, `#x#`,
`*.swp *.swo *.swx *.tmp *.bak`, vim's probe file `4913`, emacs' and kate's `*.kate-swp`.
In a plugin directory itself also names that begin with `_`, and `lost+found`.
A link may point into a hidden folder: that is how Kubernetes mounts a volume (`x -> ..data/x`).
"""

from __future__ import annotations

import re

_INSIDE = re.compile(
    r"\.|__pycache__\Z|4913\Z|#.*#\Z|.*(~|\.(pyc|pyo|swp|swo|swx|tmp|bak|kate-swp))\Z", re.DOTALL
)


def is_ignored(name: str) -> bool:
    """Whether a file or folder of this name inside a plugin is no part of it."""
    return _INSIDE.match(name) is not None


def is_ignored_unit(name: str) -> bool:
    """Whether an entry of a plugin directory is no plugin, and no fault either."""
    return name.startswith("_") or name == "lost+found" or is_ignored(name)
