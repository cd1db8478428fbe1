"""Names of tools and plugins: the rules, and the nearest known one."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable

PLUGIN_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}\Z")
TOOL_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}(\.[a-z0-9][a-z0-9_-]{0,63})+\Z")
_WORDS = re.compile(r"[^._-]+")
VERB_OBJECT = re.compile(r"[a-z][a-z0-9_-]*\.[a-z0-9]+(_[a-z0-9]+)+\Z")
#: Longer is no name, whatever it is made of.
MAX_LENGTH = 400
#: With more than so many names the closest look decides among those that share words.
MAX_COMPARED = 100
RESERVED_PREFIXES = frozenset({"tools", "memory", "session", "hermesd"})


def plugin_name_fault(name: str) -> str | None:
    """Why `name` cannot name a plugin, or None. Names are lower case, so that no two differ by case alone."""
    if PLUGIN_NAME.match(name) is None:
        return (
            f"{name!r} is no plugin name: a lower-case letter, then up to 39 lower-case letters, "
            "digits, '_' or '-'"
        )
    if name in RESERVED_PREFIXES:
        return f"the name {name!r} is the daemon's own"
    return None


def agent_name_fault(name: str) -> str | None:
    """Why `name` cannot name an agent, or None. The rule is that of plugins, which share the names."""
    if PLUGIN_NAME.match(name) is None:
        return (
            f"{name[:40]!r} is no agent's name: a lower-case letter, then up to 39 lower-case letters, "
            "digits, '_' or '-'"
        )
    if name == "operator" or name in RESERVED_PREFIXES:
        return f"the name {name!r} is the daemon's own"
    return None


def tool_name_fault(name: str, plugin: str) -> str | None:
    """Why `name` cannot name a tool of `plugin`, or None."""
    if len(name) > MAX_LENGTH:
        return f"{name[:40]!r}… is longer than {MAX_LENGTH} characters"
    if TOOL_NAME.match(name) is None:
        return f"{name!r} is no tool name: it must look like domain.verb_object, in lower case"
    if domain_of(name) != plugin:
        return f"{name!r} lies outside the plugin's own domain {plugin!r}"
    return None


def domain_of(tool: str) -> str:
    """The part before the first dot, which names the owner."""
    return tool.partition(".")[0]


def nearest(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The known names that look most like `name`, best first; none for what is too long for a name."""
    if len(name) > MAX_LENGTH:  # comparing takes time that grows with the length
        return []
    import difflib  # noqa: PLC0415 - only needed for the message

    candidates = list(known)
    if len(candidates) > MAX_COMPARED:
        candidates = _likely(name, candidates)
    close = difflib.get_close_matches(name, candidates, n=limit, cutoff=0.5)
    if close:
        return close
    # A bare verb_object without its domain is the commonest slip of a model.
    tail = name.rpartition(".")[2]
    return sorted(each for each in candidates if each.rpartition(".")[2] == tail)[:limit]


def _likely(name: str, candidates: list[str]) -> list[str]:
    """Those that share most words or letters at the beginning: a thousand close looks take 20 ms."""
    words = set(_WORDS.findall(name))
    end = name.rpartition(".")[2]

    def likeness(other: str) -> tuple[bool, int, int]:
        return other.endswith(end), len(words.intersection(_WORDS.findall(other))), _common(name, other)

    return heapq.nlargest(MAX_COMPARED, candidates, key=likeness)


def _common(one: str, other: str) -> int:
    """How many letters both begin with."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
