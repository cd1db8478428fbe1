"""Dependencies between tools: which tools cannot work, and in what order plugins start."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def blocked_tools(depends_on: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Tool → why it cannot work: something that it depends on, however far, is absent or in a cycle.

    Only what is affected is blocked. The reason names the first missing link.
    """
    if not any(depends_on.values()):
        return {}
    reasons: dict[str, str] = {}
    causes: dict[str, str] = {}
    for group in _components(depends_on):
        is_cycle = len(group) > 1 or group[0] in depends_on[group[0]]
        for name in group:
            missing = sorted(each for each in depends_on[name] if each not in depends_on)
            culprit = next((each for each in sorted(depends_on[name]) if each in causes), None)
            if missing:
                reasons[name] = f"depends on {', '.join(missing)}, which does not exist"
            elif is_cycle:
                reasons[name] = f"is in a dependency cycle: {' → '.join([*group, group[0]])}"
            elif culprit is not None:
                reasons[name] = f"depends on {culprit}, which cannot work: {causes[culprit]}"
                causes[name] = causes[culprit]
                continue
            else:
                continue
            causes[name] = f"{name} {reasons[name]}"
    return reasons


def start_order(depends_on: Mapping[str, Collection[str]]) -> list[str]:
    """Names so that each comes after what it depends on; those that depend on each other stand in name order.

    What is depended on but not a key is ignored.
    """
    return [name for component in _components(depends_on) for name in component]


def _components(depends_on: Mapping[str, Collection[str]]) -> list[list[str]]:
    """The names in groups that depend on each other, each group after those that it depends on.

    Tarjan's strongly connected components, without recursion: a chain may be as long as there are tools.
    The answer is the same for equal input, whatever its order.
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    open_names: list[str] = []
    components: list[list[str]] = []
    for root in sorted(depends_on):
        path = [(root, _known(depends_on, root))] if root not in index else []
        while path:
            name, needed = path[-1]
            if name not in index:
                index[name] = low[name] = len(index)
                open_names.append(name)
            following = next((each for each in needed if each not in index), None)
            if following is not None:
                path.append((following, _known(depends_on, following)))
                continue
            path.pop()
            low[name] = min([low[name], *(low[each] for each in needed if each in open_names)])
            if low[name] == index[name]:
                at = open_names.index(name)
                components.append(sorted(open_names[at:]))
                del open_names[at:]
    return components


def _known(depends_on: Mapping[str, Collection[str]], name: str) -> list[str]:
    return sorted(each for each in depends_on[name] if each in depends_on)
