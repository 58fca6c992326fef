"""The determinism check finds every planted violation, and accepts right code."""

import ast
from pathlib import Path

import pytest

from scripts.check_determinism import Source, findings

VIOLATIONS = {
    "float literal": "FEE = 0.5",
    "complex literal": "FEE = 2j",
    "true division": "def half(value): return value / 2",
    "true division in place": "def halve(value):\n    value /= 2\n    return value",
    "float call": "def ratio(value): return float(value)",
    "negative power": "def inverse(value): return value ** -1",
    "float function of math": "import math\ndef root(value): return math.sqrt(value)",
    "float function imported": "from math import log2",
    "round": "def near(value): return round(value)",
    "hash": "def bucket(key): return hash(key) % 8",
    "set sorted by a key": "def order(items: set[int]): return sorted(items, key=abs)",
    "comprehension of a set sorted by a key": "def order(items: set[int]): return sorted((i for i in items), key=abs)",
    "hash as a key": "def order(items): return sorted(items, key=hash)",
    "id": "def name(item): return id(item)",
    "id mapped": "def names(items): return list(map(id, items))",
    "open": "def read(path): return open(path).read()",
    "print": "def show(value): print(value)",
    "eval": "def run(text): return eval(text)",
    "clock": "import time",
    "clock by from": "from datetime import datetime",
    "chance": "import random",
    "secret chance": "from secrets import token_bytes",
    "environment": "import os",
    "log": "import logging",
    "thread": "from threading import Lock",
    "memory address order": "import weakref",
    "unicode tables": "def fold(name): return name.casefold()",
    "subclass order": "def kinds(base): return base.__subclasses__()",
    "global": "COUNT = 0\ndef count():\n    global COUNT\n    COUNT += 1",
    "async": "async def step(): return 1",
    "finaliser": "class Handle:\n    def __del__(self): pass",
    "catch all": "def safe(call):\n    try:\n        call()\n    except Exception:\n        pass",
    "bare catch": "def safe(call):\n    try:\n        call()\n    except:\n        pass",
    "catches the stack": "def safe(call):\n    try: call()\n    except (ValueError, RecursionError): pass",
    "unbounded cache": "from functools import cache\n@cache\ndef slow(value): return value",
    "unbounded lru cache": "from functools import lru_cache\n@lru_cache(maxsize=None)\ndef slow(value): return value",
    "loop over a set display": "def first():\n    for item in {1, 2}:\n        return item",
    "loop over a set name": "def first(items):\n    seen = set(items)\n    for item in seen:\n        return item",
    "loop over a set argument": "def first(items: set[int]):\n    for item in items:\n        return item",
    "loop over a set attribute": "class A:\n    seen: set[int]\n    def all(self): return [item for item in self.seen]",
    "list of a set": "def order(items: frozenset[int]): return list(items)",
    "join of a set": "def text(): return b''.join({b'a', b'b'})",
    "pop of a set": "def any_of(items):\n    left = {*items}\n    return left.pop()",
    "set arithmetic": "def both(a: set[int], b: set[int]): return [item for item in a & b]",
    "difference of keys": "def missing(a, b): return tuple(a.keys() - b.keys())",
    "unpacked set": "def pair():\n    a, b = {1, 2}\n    return a",
    "starred set": "def spread(items: set[int]): return [*items]",
    "least of a set by key": "def least(items: set[str]): return min(items, key=len)",
    "recursion": "def depth(tree): return depth(tree.left)",
    "recursion through another": "def even(n): return odd(n - 1)\ndef odd(n): return even(n - 1)",
    "recursive method": "class Node:\n    def depth(self): return self.depth()",
    "recursive method of an inner function": "class A:\n    def a(self):\n        def b(): self.a()\n        b()",
    "generator of the whole process": "import random  # deterministic: seeded\ndef roll(): return random.randrange(6)",
    "recursive inner function": "def walk(tree):\n    def step(node): return step(node.left)\n    return step(tree)",
}

ALLOWED = {
    "integer division": "def half(value): return value // 2",
    "integer root": "from math import isqrt\ndef root(value): return isqrt(value)",
    "membership": "def has(items: set[int], item): return item in items",
    "sorted set": "def order(items: set[int]): return sorted(items)",
    "set sorted by itself": "def order(items: set[int]): return sorted(items, key=lambda item: item)",
    "sorted comprehension": "def order(items: set[int]): return sorted(item + 1 for item in items)",
    "sum over a set": "def total(items: set[int]): return sum(item for item in items)",
    "set from a set": "def next_of(items: set[int]): return {item + 1 for item in items}",
    "dictionary": "def keys(table): return [key for key in table]",
    "list pop": "def last(items): return items.pop()",
    "a value called id": "def name(id, names): return names.get(id)",
    "precise handler": "def safe(call):\n    try:\n        call()\n    except ValueError:\n        pass",
    "clean-up": "def undo(call):\n    try:\n        call()\n    except BaseException:\n        clear()\n        raise",
    "bounded cache": "from functools import lru_cache\n@lru_cache(maxsize=64)\ndef slow(value): return value",
    "method of the same name elsewhere": "class Layer:\n    def get(self, under): return under.get(self)",
    "function that a method is named after": "class A:\n    def b(self): return b(self)\ndef b(item): return 1",
    "cache of one value": "from functools import cache\n@cache\ndef table(): return 1",
    "a generator that is given": "import random  # deterministic: a type\ndef f(d: random.Random): return d.random()",
    "excused line": "HALF = 0.5  # deterministic: shown to people only",
    "excused import": "import random  # deterministic: type of an argument",
    "excused recursion": "def f(t):  # deterministic: types nest\n    return o(t)\ndef o(t): return f(t)",
}


def check(code: str, path: str = "runtime/planted.py") -> list[str]:
    source = Source(Path(path), code.splitlines(), ast.parse(code))
    return [message for _, (_, message) in findings([source])]


@pytest.mark.parametrize("code", VIOLATIONS.values(), ids=VIOLATIONS.keys())
def test_planted_violation_is_found(code: str) -> None:
    assert check(code)


@pytest.mark.parametrize("code", ALLOWED.values(), ids=ALLOWED.keys())
def test_right_code_is_left_alone(code: str) -> None:
    assert check(code) == []


def test_workloads_may_use_floats_but_not_clocks() -> None:
    assert check("SCALE = 0.5", "gpu_tasks/workloads/text.py") == []
    assert check("import time", "gpu_tasks/workloads/text.py")


def test_an_excuse_needs_a_reason() -> None:
    assert check("HALF = 0.5  # deterministic:")


def test_recursion_is_found_across_files() -> None:
    first = "from runtime.b import odd\ndef even(n): return odd(n - 1)"
    second = "from runtime.a import even\ndef odd(n): return even(n - 1)"
    sources = [
        Source(Path(f"runtime/{name}.py"), [code] * 9, ast.parse(code))
        for name, code in zip("ab", (first, second), strict=True)
    ]
    assert len(list(findings(sources))) == 2
