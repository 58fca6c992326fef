"""Finds functions that can call themselves, directly or through others, over several files.

Calls are matched by name: a function of the same file or one imported with `from ... import`, or a method through
`self`, `cls` or the class's name. Calls through other objects are not followed.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class _Node:
    """A function, its place, and the indices of the functions that it calls."""

    tree_index: int
    definition: Function
    name: str
    calls: list[int] = field(default_factory=list)


def recursive_functions(
    trees: list[ast.Module], is_excused: Callable[[int, Function], bool]
) -> Iterator[tuple[int, Function, str]]:
    """Yield the tree's index, the function and a description, for each function that can reach itself.

    An excused function ends every path into it, so one excuse covers a whole cycle.
    """
    nodes = _call_graph(trees)
    for node in nodes:
        if is_excused(node.tree_index, node.definition):
            node.calls = []
    for start, node in enumerate(nodes):
        path = _path_back(nodes, start)
        if path:
            yield node.tree_index, node.definition, " -> ".join(nodes[index].name for index in [start, *path])


def _path_back(nodes: list[_Node], start: int) -> list[int]:
    """Return the shortest path from a function back to itself, or an empty list."""
    came_from: dict[int, int] = {}
    frontier = [start]
    while frontier:
        reached = []
        for current in frontier:
            for callee in nodes[current].calls:
                if callee not in came_from:
                    came_from[callee] = current
                    reached.append(callee)
        frontier = reached
        if start in came_from:
            break
    if start not in came_from:
        return []
    path = [start]
    while came_from[path[0]] != start:
        path.insert(0, came_from[path[0]])
    return path


def _call_graph(trees: list[ast.Module]) -> list[_Node]:
    nodes = [_Node(index, function, name) for index, tree in enumerate(trees) for name, function in _functions(tree)]
    local = {(node.tree_index, node.name): index for index, node in enumerate(nodes)}
    by_name: dict[str, list[int]] = {}
    for index, node in enumerate(nodes):
        by_name.setdefault(node.name, []).append(index)
    imported = [_imported_names(tree) for tree in trees]
    for node in nodes:
        for call in _own_calls(node.definition):
            found = _called(call, node, local)
            if found is not None:
                node.calls.append(found)
            elif isinstance(call.func, ast.Name):
                node.calls.extend(by_name.get(imported[node.tree_index].get(call.func.id, ""), []))
    return nodes


def _called(call: ast.Call, caller: _Node, local: dict[tuple[int, str], int]) -> int | None:
    """Return the function of the same file that a call names, or None if the text alone does not identify one."""
    tree_index = caller.tree_index
    enclosing = [caller.name, *_prefixes(caller.name)]
    functions = [scope for scope in enclosing if (tree_index, scope) in local]
    owner = next((scope for scope in enclosing if scope not in functions), "")
    match call.func:
        case ast.Name(id=name):  # names of a class body are not visible in its methods
            candidates = [*(f"{scope}.{name}" for scope in functions), name]
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
            candidates = [f"{owner}.{name}"]
        case ast.Attribute(value=ast.Name(id=class_name), attr=name):
            candidates = [f"{class_name}.{name}"]
        case _:
            return None
    return next((local[tree_index, name] for name in candidates if (tree_index, name) in local), None)


def _prefixes(qualified: str) -> Iterator[str]:
    """Yield a.b and a for a.b.c."""
    while "." in qualified:
        qualified = qualified.rpartition(".")[0]
        yield qualified


def _functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Yield every function of a file with its qualified name."""
    pending: list[tuple[str, ast.AST]] = [("", tree)]
    while pending:
        prefix, parent = pending.pop()
        for child in ast.iter_child_nodes(parent):
            if isinstance(child, Function | ast.ClassDef):
                qualified = f"{prefix}.{child.name}" if prefix else child.name
                if isinstance(child, Function):
                    yield qualified, child
                pending.append((qualified, child))
            else:
                pending.append((prefix, child))


def _own_calls(function: Function) -> Iterator[ast.Call]:
    """Yield the calls in a function's body, without those of inner functions."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call):
            yield node
        if not isinstance(node, Function):
            pending.extend(ast.iter_child_nodes(node))


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """Return the original name of each name that the file imports."""
    return {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
