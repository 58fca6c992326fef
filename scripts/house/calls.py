"""Calls resolved by what the source says: names, imports, methods of annotated and constructed objects.

Always: what cannot be told from the text (a callable in a dictionary, an untyped local) is no call here; both
sides of a comparison are read by the same rules.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from scripts.house.tree import Function, Module


@dataclass(frozen=True, slots=True)
class Place:
    """A function: its module, the class that it belongs to (or nothing), its name."""

    module: str
    holder: str
    name: str


@dataclass(slots=True)
class _Home:
    """What one module defines and what its names stand for."""

    functions: dict[tuple[str, str], Function] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(
        default_factory=dict
    )  # name -> (module, name; empty: the module itself)


Type = tuple[str, str]
"""A class: its module and name."""


class Calls:
    """All functions of the modules, and which calls each makes, in the order of the text."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        """Read every module once."""
        self._homes = {name: _home(module, modules) for name, module in modules.items()}
        self._attributes: dict[Type, dict[str, Type]] = {}

    def function(self, place: Place) -> Function | None:
        """The definition at a place."""
        home = self._homes.get(place.module)
        return home.functions.get((place.holder, place.name)) if home else None

    def made_by(self, place: Place) -> Iterator[Place]:
        """The calls of a function that lead to functions of the modules, in the order of the text."""
        function = self.function(place)
        if function is None:
            return
        known = self._locals(place, function)
        for node in _calls_in_order(function):
            target = self._target(place, node.func, known)
            if target is not None:
                yield target

    # --- what a call leads to

    def _target(self, place: Place, called: ast.expr, known: dict[str, Type]) -> Place | None:
        if isinstance(called, ast.Name):
            return self._named(place.module, called.id)
        if not isinstance(called, ast.Attribute):
            return None
        if isinstance(called.value, ast.Name):
            module = self._module_called(place.module, called.value.id)
            if module is not None:
                return self._named(module, called.attr)
        holder = self._type_of(place, called.value, known)
        return self._method(holder, called.attr) if holder else None

    def _named(self, module: str, name: str) -> Place | None:
        """A function or class by the name that it has in a module; a class is called through `__init__`."""
        home = self._homes.get(module)
        if home is None:
            return None
        if ("", name) in home.functions:
            return Place(module, "", name)
        if name in home.classes:
            return self._method((module, name), "__init__")
        if name in home.imported:
            other, inner = home.imported[name]
            return self._named(other, inner) if inner else None
        return None

    def _module_called(self, module: str, name: str) -> str | None:
        target = self._homes[module].imported.get(name)
        return target[0] if target is not None and not target[1] else None

    def _method(self, holder: Type, name: str) -> Place | None:
        """A method of a class or of the classes that it derives from."""
        waiting, seen = [holder], set()
        while waiting:
            module, cls = waiting.pop(0)
            if (module, cls) in seen or cls not in self._homes[module].classes:
                continue
            seen.add((module, cls))
            if (cls, name) in self._homes[module].functions:
                return Place(module, cls, name)
            bases = (self._class(module, base) for base in self._homes[module].classes[cls].bases)
            waiting += [base for base in bases if base is not None]
        return None

    # --- types

    def _type_of(self, place: Place, value: ast.expr, known: dict[str, Type]) -> Type | None:
        if isinstance(value, ast.Name):
            if value.id == "self" and place.holder:
                return place.module, place.holder
            return known.get(value.id) or self._class(place.module, value)
        if isinstance(value, ast.Attribute):
            holder = self._type_of(place, value.value, known)
            return self._attribute(holder, value.attr) if holder else None
        if isinstance(value, ast.Call):
            return self._returned(place, value, known)
        return None

    def _returned(self, place: Place, call: ast.Call, known: dict[str, Type]) -> Type | None:
        constructed = self._class(place.module, call.func)
        if constructed is not None:
            return constructed
        target = self._target(place, call.func, known)
        function = self.function(target) if target else None
        if target is None or function is None or function.returns is None:
            return None
        return self._class(target.module, function.returns)

    def _attribute(self, holder: Type, name: str) -> Type | None:
        if holder not in self._attributes:
            self._attributes[holder] = {}  # taken before descending: classes may refer to each other
            self._attributes[holder] = self._attributes_of(holder)
        return self._attributes[holder].get(name)

    def _attributes_of(self, holder: Type) -> dict[str, Type]:
        module, name = holder
        cls = self._homes[module].classes.get(name)
        found: dict[str, Type] = {}
        if cls is None:
            return found
        for base in cls.bases:
            inherited = self._class(module, base)
            if inherited is not None:
                found |= self._attributes_of(inherited)
        for node in cls.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                _note(found, node.target.id, self._class(module, node.annotation))
            elif isinstance(node, ast.FunctionDef) and any(_is_property(each) for each in node.decorator_list):
                _note(found, node.name, self._class(module, node.returns) if node.returns else None)
            elif isinstance(node, ast.FunctionDef) and node.name == "__init__":
                place = Place(module, name, "__init__")
                known = self._locals(place, node)
                for target, value in _assignments(node):
                    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                        _note(found, target.attr, self._type_of(place, value, known))
        return found

    def _class(self, module: str, annotation: ast.expr) -> Type | None:
        """The class that an annotation names: `X`, `"X"`, `module.X`, `X | None`."""
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.parse(annotation.value, mode="eval").body
        if isinstance(annotation, ast.BinOp):
            return self._class(module, annotation.left)
        if isinstance(annotation, ast.Attribute) and isinstance(annotation.value, ast.Name):
            other = self._module_called(module, annotation.value.id)
            return self._class(other, ast.Name(annotation.attr)) if other in self._homes and other else None
        if not isinstance(annotation, ast.Name):
            return None
        home = self._homes[module]
        if annotation.id in home.classes:
            return module, annotation.id
        other, inner = home.imported.get(annotation.id, ("", ""))
        return self._class(other, ast.Name(inner)) if inner and other in self._homes else None

    def _locals(self, place: Place, function: Function) -> dict[str, Type]:
        """Types of parameters by their annotations, and of locals by what is assigned to them."""
        known: dict[str, Type] = {}
        for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
            if argument.annotation is not None:
                _note(known, argument.arg, self._class(place.module, argument.annotation))
        for target, value in _assignments(function):
            if isinstance(target, ast.Name):
                _note(known, target.id, self._type_of(place, value, known))
        return known


def _note(known: dict[str, Type], name: str, found: Type | None) -> None:
    if found is not None:
        known[name] = found


def _is_property(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Name) and decorator.id in ("property", "cached_property")


def _assignments(function: Function) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Pairs of target and value; `a, b = c, d` gives two."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    yield from zip(target.elts, node.value.elts, strict=False)
                else:
                    yield target, node.value


def _calls_in_order(function: Function) -> list[ast.Call]:
    calls = [node for statement in function.body for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return sorted(calls, key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0))


def _home(module: Module, modules: Mapping[str, Module]) -> _Home:
    home = _Home()
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            home.functions["", node.name] = node
        elif isinstance(node, ast.ClassDef):
            home.classes[node.name] = node
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    home.functions[node.name, inner.name] = inner
    imports = (found for found in ast.walk(module.tree) if isinstance(found, ast.ImportFrom))
    for found in imports:
        if found.module is None or found.module not in modules:
            continue
        for alias in found.names:
            inner_module = f"{found.module}.{alias.name}"
            is_module = inner_module in modules
            home.imported[alias.asname or alias.name] = (inner_module, "") if is_module else (found.module, alias.name)
    return home
