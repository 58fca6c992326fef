"""Finds uses of sets whose result depends on the order of iteration, which differs between processes.

A set is recognised by its form (display, comprehension, `set()`, set arithmetic), or by the annotation or assignment of
its name. Names are matched within one function, attributes within one file. Uses with the same result in any order are
allowed: `in`, `len`, `sum`, `any`, `all`, set arithmetic, and `sorted`, `min` and `max` without a key.
"""

import ast
from collections.abc import Iterator

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
SET_TYPES = frozenset(["set", "frozenset", "Set", "FrozenSet", "AbstractSet", "MutableSet"])
SET_METHODS = frozenset(["union", "intersection", "difference", "symmetric_difference", "copy"])
ORDER_FREE = frozenset(["sorted", "set", "frozenset", "len", "sum", "any", "all", "min", "max"])
ORDERED = frozenset(["list", "tuple", "iter", "enumerate", "zip", "map", "filter", "reversed", "dict", "bytes"])


def unordered_uses(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield each place of the file where a set's order affects a result."""
    attributes = _set_attributes(tree)
    for scope in [tree, *(node for node in ast.walk(tree) if isinstance(node, Scope) and node is not tree)]:
        known = _SetNames(scope, attributes)
        order_free = {id(argument) for node in _own_nodes(scope) for argument in _order_free_arguments(node)}
        for node in _own_nodes(scope):
            if id(node) not in order_free:
                yield from _uses(node, known)


def _uses(node: ast.AST, known: "_SetNames") -> Iterator[tuple[ast.AST, str]]:
    message = "iteration over a set: its order differs between processes"
    match node:
        case ast.For(iter=source) | ast.AsyncFor(iter=source) | ast.YieldFrom(value=source) | ast.Starred(value=source):
            sources = [source]
        case ast.ListComp(generators=clauses) | ast.GeneratorExp(generators=clauses) | ast.DictComp(generators=clauses):
            sources = [clause.iter for clause in clauses]
        case ast.Assign(targets=[ast.Tuple() | ast.List()], value=source):
            sources = [source]
        case ast.Call():
            sources = _iterated_arguments(node)
            # `set.pop` removes an arbitrary element.
            if isinstance(node.func, ast.Attribute) and node.func.attr == "pop" and not node.args:
                sources.append(node.func.value)
        case _:
            return
    for source in sources:
        if known.is_set(source):
            yield source, message


def _iterated_arguments(call: ast.Call) -> list[ast.expr]:
    """Return the arguments that a call iterates in order."""
    match call.func:
        case ast.Name(id=name) if name in ORDERED:
            return list(call.args)
        # With a key, elements with equal keys keep their order, and `min` and `max` take the first of them.
        case ast.Name(id="sorted" | "min" | "max") if _has_key(call):
            return list(call.args)
        case ast.Attribute(attr="join" | "extend" | "fromkeys"):
            return list(call.args)
        case _:
            return []


def _order_free_arguments(node: ast.AST) -> list[ast.expr]:
    """Return the arguments, generators for example, of a call whose result does not depend on their order."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ORDER_FREE:
        return [] if _has_key(node) else node.args
    return []


def _has_key(call: ast.Call) -> bool:
    """Return whether a call compares by a key other than the element itself."""
    for keyword in call.keywords:
        match keyword:
            case ast.keyword(arg="key", value=ast.Lambda(args=ast.arguments(args=[given]), body=ast.Name(id=name))):
                return name != given.arg
            case ast.keyword(arg="key"):
                return True
            case _:
                pass
    return False


class _SetNames:
    """The expressions of one scope that are sets, as far as its text tells."""

    def __init__(self, scope: Scope, attributes: frozenset[str]) -> None:
        self._attributes = attributes
        self._names: set[str] = set()
        if not isinstance(scope, ast.Module):
            arguments = scope.args
            for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
                if _is_set_annotation(argument.annotation):
                    self._names.add(argument.arg)
        for node in _own_nodes(scope):
            match node:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if _is_set_annotation(annotation):
                    self._names.add(name)
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if self.is_set(value):
                    self._names.add(name)
                case ast.NamedExpr(target=ast.Name(id=name), value=value) if self.is_set(value):
                    self._names.add(name)

    def is_set(self, node: ast.expr) -> bool:
        """Return whether the expression is a set by its form or its name."""
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Name(id=name):
                return name in self._names
            case ast.Attribute(attr=name):
                return name in self._attributes
            case ast.Call(func=ast.Name(id="set" | "frozenset")):
                return True
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in SET_METHODS:
                return self.is_set(value)
            case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() | ast.BitXor() | ast.Sub(), right=right):
                # The arithmetic of two `dict.keys()` gives a set, which has no order.
                return self.is_set(left) or self.is_set(right) or _is_keys(left) or _is_keys(right)
            case ast.IfExp(body=body, orelse=orelse):
                return self.is_set(body) or self.is_set(orelse)
            case _:
                return False


def _is_keys(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "keys"


def _is_set_annotation(annotation: ast.expr | None) -> bool:
    match annotation:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in SET_TYPES
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name)) if name in SET_TYPES:
            return True
        case ast.Subscript(value=ast.Name(id="Final" | "ClassVar"), slice=inner):
            return _is_set_annotation(inner)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _is_set_annotation(left) or _is_set_annotation(right)
        case _:
            return False


def _set_attributes(tree: ast.Module) -> frozenset[str]:
    """Return the names of attributes that the file annotates as sets."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(target=ast.Attribute(attr=name), annotation=note) if _is_set_annotation(note):
                names.add(name)
            case ast.ClassDef(body=body):
                for item in body:
                    match item:
                        case ast.AnnAssign(target=ast.Name(id=name), annotation=note) if _is_set_annotation(note):
                            names.add(name)
                        case _:
                            pass
            case _:
                pass
    return frozenset(names)


def _own_nodes(scope: Scope) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, without inner functions, which are separate scopes."""
    pending = list(ast.iter_child_nodes(scope))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, Scope):
            pending.extend(ast.iter_child_nodes(node))
