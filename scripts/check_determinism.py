"""Finds code in the pure packages that can make two honest nodes compute different results from the same block.

Run as `python -m scripts.check_determinism FOLDER...`. It exits with 1 after any finding. A line can carry an excuse:
`# deterministic: <reason>` (for recursion on the `def` line of one function of the cycle). Workloads may use floating
point that they prove exact, so the rules for floats do not apply below a folder called `workloads`.

The rules look at syntax only: they catch slips, and prove nothing. Replays under other interpreters test the rest.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.call_graph import recursive_functions
from scripts.set_expressions import unordered_uses

EXCUSE = re.compile(r"# deterministic: \S")

FORBIDDEN_MODULES = frozenset(
    "asyncio calendar concurrent ctypes datetime decimal gc http io locale logging multiprocessing os pathlib pickle "
    "platform queue random re secrets select selectors shutil signal socket sqlite3 ssl statistics subprocess sys "
    "tempfile threading time trio unicodedata urllib uuid warnings weakref zoneinfo".split()
)
FORBIDDEN_CALLS = {
    "hash": "differs between processes",
    "id": "is an address in memory",
    "open": "input and output",
    "print": "input and output",
    "input": "input and output",
    "eval": "runs text",
    "exec": "runs text",
    "compile": "runs text",
    "__import__": "imports at run time",
    "globals": "reaches global state",
    "round": "is about floating point",
    "complex": "floating point",
}
FORBIDDEN_METHODS = {
    "__subclasses__": "its order depends on the garbage collector",
    **dict.fromkeys(
        ["lower", "upper", "casefold", "title", "capitalize", "swapcase", "isalpha", "isalnum", "isidentifier"],
        "depends on the interpreter's Unicode tables",
    ),
}
INTEGER_MATH = frozenset(["isqrt", "gcd", "lcm", "comb", "perm", "prod", "factorial"])
CATCH_ALL = frozenset(["Exception", "BaseException", "RecursionError", "MemoryError"])
Finding = tuple[ast.AST, str]


@dataclass(frozen=True)
class Source:
    """A file with its text and syntax tree."""

    path: Path
    lines: list[str]
    tree: ast.Module

    @classmethod
    def read(cls, path: Path) -> "Source":
        """Parse the file. Raise SyntaxError if it does not parse."""
        text = path.read_text(encoding="utf-8")
        return cls(path, text.splitlines(), ast.parse(text, str(path)))

    @property
    def may_use_floats(self) -> bool:
        """True if the rules for floating point do not apply."""
        return "workloads" in self.path.parts

    def is_excused(self, node: ast.AST) -> bool:
        """Return whether the node's line carries a reason."""
        return bool(EXCUSE.search(self.lines[getattr(node, "lineno", 1) - 1]))


def findings(sources: list[Source]) -> Iterator[tuple[Source, Finding]]:
    """Yield all findings without an excuse, file by file, then recursion over all files."""
    for source in sources:
        for finding in _in_file(source):
            if not source.is_excused(finding[0]):
                yield source, finding
    trees = [source.tree for source in sources]
    for index, function, cycle in recursive_functions(trees, lambda index, node: sources[index].is_excused(node)):
        yield sources[index], (function, f"recursion ({cycle}): input decides its depth")


def _in_file(source: Source) -> Iterator[Finding]:
    rules = [_imports, _calls, _handlers, _statements]
    if not source.may_use_floats:
        rules += [_floats]
    for node in ast.walk(source.tree):
        for rule in rules:
            yield from rule(node)
    yield from unordered_uses(source.tree)
    yield from _chance_of_the_process(source.tree)


def _imports(node: ast.AST) -> Iterator[Finding]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        names = [node.module]
    else:
        return
    for name in names:
        if name.split(".")[0] in FORBIDDEN_MODULES or name == "importlib.metadata":
            yield node, f"import of {name}: not a function of the inputs"


def _calls(node: ast.AST) -> Iterator[Finding]:
    if not isinstance(node, ast.Call):
        return
    match node.func:
        case ast.Name(id=name) if name in FORBIDDEN_CALLS:
            yield node, f"{name}(): {FORBIDDEN_CALLS[name]}"
        case ast.Attribute(attr=name) if name in FORBIDDEN_METHODS:
            yield node, f".{name}(): {FORBIDDEN_METHODS[name]}"
    for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
        if isinstance(argument, ast.Name) and argument.id in ("hash", "id") and _takes_function(node, argument):
            yield argument, f"{argument.id} as a function: {FORBIDDEN_CALLS[argument.id]}"
    if _is_unbounded_cache(node):
        yield node, "unbounded cache: memory grows with input"


def _takes_function(call: ast.Call, argument: ast.expr) -> bool:
    """Return whether the argument is used as a key or mapped function. A value called `id` is not."""
    by_key = any(keyword.arg == "key" and keyword.value is argument for keyword in call.keywords)
    mapped = isinstance(call.func, ast.Name) and call.func.id in ("map", "filter") and call.args[0] is argument
    return by_key or mapped


def _chance_of_the_process(tree: ast.Module) -> Iterator[Finding]:
    """Yield uses of the module `random`, except for the class of generators as a type."""
    names = [
        alias.asname or alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    ]
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="random"), attr=name) if "random" in names and name != "Random":
                yield node, f"random.{name}: chance of the whole process; a generator is an argument"
            case _:
                pass


def _is_unbounded_cache(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    sizes = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "maxsize")]
    return name == "lru_cache" and any(isinstance(size, ast.Constant) and size.value is None for size in sizes)


def _handlers(node: ast.AST) -> Iterator[Finding]:
    if not isinstance(node, ast.ExceptHandler) or _raises_again(node):
        return
    caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    for exception in caught:
        if exception is None or (isinstance(exception, ast.Name) and exception.id in CATCH_ALL):
            yield node, "catches errors that depend on the machine (memory, stack), or hides bugs"


def _raises_again(handler: ast.ExceptHandler) -> bool:
    """Return whether the handler only cleans up and raises again."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def _statements(node: ast.AST) -> Iterator[Finding]:
    match node:
        case ast.Global():
            yield node, "global: state outside the inputs"
        case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
            yield node, "async: order is the scheduler's"
        case ast.FunctionDef(name="__del__"):
            yield node, "__del__: runs when the garbage collector likes"
        case ast.FunctionDef(decorator_list=decorators, args=arguments) if arguments.args:
            for decorator in decorators:
                if ast.unparse(decorator) in ("cache", "functools.cache"):
                    yield node, "unbounded cache: memory grows with input"
        case _:
            pass


def _floats(node: ast.AST) -> Iterator[Finding]:
    match node:
        case ast.Constant(value=float() | complex()):
            yield node, "floating-point literal"
        case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
            yield node, "true division: use // and say which way it rounds"
        case ast.BinOp(op=ast.Pow(), right=ast.UnaryOp(op=ast.USub())):
            yield node, "negative power: a float"
        case ast.Name(id="float", ctx=ast.Load()):
            yield node, "float"
        case ast.Attribute(value=ast.Name(id="math"), attr=name) if name not in INTEGER_MATH:
            yield node, f"math.{name}: floating point"
        case ast.ImportFrom(module="math", names=aliases):
            for alias in aliases:
                if alias.name not in INTEGER_MATH:
                    yield node, f"math.{alias.name}: floating point"
        case _:
            pass


def main(folders: list[str]) -> int:
    """Check the folders, and print one line for each finding."""
    paths = sorted(path for folder in folders for path in Path(folder).rglob("*.py"))
    sources = [Source.read(path) for path in paths]
    found = list(findings(sources))
    for source, (node, message) in found:
        print(f"{source.path}:{getattr(node, 'lineno', 1)}: {message}")
    excused = sum(bool(EXCUSE.search(line)) for source in sources for line in source.lines)
    print(f"determinism: {len(found)} findings, {excused} lines excused, {len(paths)} files")
    return 1 if found or not paths else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
