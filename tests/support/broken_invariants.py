"""The place of a failed assertion, which tests compare instead of its text."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def breaks_invariant(function: Callable[..., Any]) -> Iterator[None]:
    """Expect that the one assertion in the body of this function fails."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    count = sum(isinstance(node, ast.Assert) for node in ast.walk(tree))
    assert count == 1, f"{function.__qualname__} has {count} assertions, so its name does not tell which one failed"
    with pytest.raises(AssertionError) as caught:
        yield
    assert caught.traceback[-1].frame.code.raw is function.__code__, str(caught.value)
