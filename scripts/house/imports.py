"""The import graph, including imports for the type checker, and its cycles."""

import ast
from collections.abc import Iterable, Mapping

from scripts.house.tree import Module, statements

Graph = dict[str, set[str]]


def import_graph(modules: Mapping[str, Module]) -> Graph:
    """Return for each module the project's modules that it imports."""
    return {name: _imported(module, modules) - {name} for name, module in modules.items()}


def _imported(module: Module, modules: Mapping[str, Module]) -> set[str]:
    found: set[str] = set()
    for node in statements(module.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in modules}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module in modules:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in modules else node.module)
    return found


def circles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules that reach each other, the largest first."""
    reached = {name: _reachable(graph, name) for name in graph}
    groups = []
    seen: set[str] = set()
    for name in graph:
        if name in seen or name not in reached[name]:
            continue
        group = sorted(other for other in reached[name] if name in reached[other])
        seen.update(group)
        groups.append(group)
    return sorted(groups, key=len, reverse=True)


def _reachable(graph: Graph, start: str) -> set[str]:
    """Return the modules that a module imports directly or indirectly. It includes itself only in a cycle."""
    reached: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(graph[name])
    return reached


def arrows_between(graph: Graph, rooms: Iterable[str]) -> set[tuple[str, str]]:
    """Return the imports between rooms (packages or modules). A file belongs to the longest matching name."""
    names = sorted(rooms, key=len, reverse=True)

    def room_of(module: str) -> str | None:
        return next((room for room in names if module == room or module.startswith(f"{room}.")), None)

    arrows = set()
    for importer, imported in graph.items():
        for module in imported:
            upper, lower = room_of(importer), room_of(module)
            if upper is not None and lower is not None and upper != lower:
                arrows.add((upper, lower))
    return arrows


def without_shortcuts(arrows: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the arrows without a longer path between their ends: the transitive reduction of an acyclic graph."""
    graph: Graph = {}
    for upper, lower in arrows:
        graph.setdefault(upper, set()).add(lower)
        graph.setdefault(lower, set())
    reached = {room: _reachable(graph, room) for room in graph}
    return {
        (upper, lower)
        for upper, lower in arrows
        if not any(lower in reached[between] for between in graph[upper] if between != lower)
    }
