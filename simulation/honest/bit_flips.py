"""Backends with a flipped bit: one bit of one array that an operation returned, once.

The array is memory of the computation: weights, activations, sums, light of pixels, or float64 that holds integers.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np


class Flipping:
    """Counts the operations of a backend that return arrays, and flips a bit of the result of one of them."""

    def __init__(self, at: int = 0, chance: Random | None = None) -> None:
        """`at` counts operations from 1. With 0 nothing is flipped, and `seen` has the number of operations."""
        self._at = at
        self._chance = chance or Random(0)
        self.seen = 0

    def wrap(self, backend: Any) -> Any:
        """Return the backend with these operations."""
        return self._operation(backend) if callable(backend) else _Watched(backend, self)

    def _operation(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*given: Any, **named: Any) -> Any:
            return self._taken(operation(*given, **named))

        return watched

    def _taken(self, result: Any) -> Any:
        if hasattr(result, "sums"):  # the tracer of a scene
            return _Watched(result, self)
        if not isinstance(result, bytes) and not getattr(result, "shape", ()):
            return result
        self.seen += 1
        return flipped(result, self._chance) if self.seen == self._at else result


class _Watched:
    """A backend whose methods are watched. Its other attributes are its own."""

    def __init__(self, watched: Any, flipping: Flipping) -> None:
        self._watched = watched
        self._flipping = flipping

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._watched, name)
        is_arithmetic = name == "_backend"
        if is_arithmetic or not callable(found):
            return _Watched(found, self._flipping) if is_arithmetic else found
        return self._flipping.wrap(found)


def flipped(values: Any, chance: Random) -> Any:
    """Return a copy with one flipped bit of bytes, or of an array of NumPy or of PyTorch on the CPU."""
    if isinstance(values, bytes):
        return _flipped_bytes(values, chance)
    if not isinstance(values, np.ndarray):
        import torch  # noqa: PLC0415 (optional)

        return torch.from_numpy(flipped(values.numpy(), chance))
    # A byte of a truth value has one bit.
    raw = _flipped_bytes(values.tobytes(), chance, bits=1 if values.dtype == np.bool_ else 8)
    return np.frombuffer(bytearray(raw), values.dtype).reshape(values.shape)


def _flipped_bytes(raw: bytes, chance: Random, bits: int = 8) -> bytes:
    if not raw:
        return raw
    changed = bytearray(raw)
    changed[chance.randrange(len(raw))] ^= 1 << chance.randrange(bits)
    return bytes(changed)
