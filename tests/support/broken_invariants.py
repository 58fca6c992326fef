"""The place of a failed assertion, which tests compare instead of its text."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def breaks_invariant(function: Callable[..., Any]) -> Iterator[None]:
    """Expect an assertion that fails in the body of this function."""
    with pytest.raises(AssertionError) as caught:
        yield
    assert caught.traceback[-1].frame.code.raw is function.__code__, str(caught.value)
