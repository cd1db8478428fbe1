"""Dependencies between tools: which tools cannot work, and in what order plugins start."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter


def blocked_tools(depends_on: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Tool → why it cannot work: something that it depends on, however far, is absent or in a cycle.

    Only what is affected is blocked. The reason names the first missing link.
    """
    if not any(depends_on.values()):
        return {}
    blocked: dict[str, str] = {}
    for name, needed in depends_on.items():
        missing = sorted(each for each in needed if each not in depends_on)
        if missing:
            blocked[name] = f"depends on {', '.join(missing)}, which does not exist"
    for cycle in _cycles(depends_on):
        for name in cycle:
            blocked.setdefault(name, f"is in a dependency cycle: {' → '.join([*cycle, cycle[0]])}")
    changed = True
    while changed:
        changed = False
        for name, needed in depends_on.items():
            culprit = next((each for each in sorted(needed) if each in blocked), None)
            if name not in blocked and culprit is not None:
                blocked[name] = f"depends on {culprit}, which cannot work: {blocked[culprit]}"
                changed = True
    return blocked


def start_order(depends_on: Mapping[str, Collection[str]]) -> list[str]:
    """Names so that each comes after what it depends on; members of a cycle stand in name order.

    What is depended on but not a key is ignored.
    """
    graph = {name: {each for each in needed if each in depends_on} for name, needed in depends_on.items()}
    for cycle in _cycles(graph):
        for name in cycle:
            graph[name] -= set(cycle)
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    order: list[str] = []
    while sorter.is_active():
        layer = sorted(sorter.get_ready())
        order.extend(layer)
        sorter.done(*layer)
    return order


def _cycles(depends_on: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Disjoint cycles, found one at a time until none is left."""
    graph = {name: {each for each in needed if each in depends_on} for name, needed in depends_on.items()}
    cycles: list[list[str]] = []
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            cycle = sorted(set(error.args[1]))
            cycles.append(cycle)
            for name in cycle:
                graph[name] = set()
        else:
            return cycles
