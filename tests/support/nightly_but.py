"""Parameters of an expensive test: some for the merge gate, all for nightly runs."""

from collections.abc import Iterable
from typing import Any

import pytest


def nightly_but(gate: int, values: Iterable[Any]) -> list[Any]:
    """Return `values` as parameters, all but `gate` of them marked `nightly`. The `gate` ones are evenly spaced."""
    found = list(values)
    kept = {round(place * (len(found) - 1) / max(gate - 1, 1)) for place in range(gate)}
    return [value if place in kept else _marked(value) for place, value in enumerate(found)]


def _marked(value: Any) -> Any:
    is_tuple = isinstance(value, tuple)
    return pytest.param(*(value if is_tuple else (value,)), marks=pytest.mark.nightly)
