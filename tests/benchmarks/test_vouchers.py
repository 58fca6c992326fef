"""The benchmark of vouchers, with the built-in model and few tokens."""

import pytest

from benchmarks.vouchers import measure
from runtime.cryptography.signatures import Scheme


def test_each_part_is_measured_for_each_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("PROMPT", "5"), ("ANSWER", "40"), ("ROUNDS", "1")):
        monkeypatch.setenv(name, size)
    figures = measure()
    assert all(figure > 0 for figure in figures.values())
    by_scheme = [
        {name.removeprefix(scheme.name.lower()) for name in figures if name.startswith(scheme.name.lower())}
        for scheme in Scheme
    ]
    assert len(by_scheme[0]) == 8
    assert by_scheme[0] == by_scheme[-1]
