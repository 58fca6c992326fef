"""The bars of a file whose run was killed many times."""

import re
from dataclasses import replace

import pytest

from devnet.proofs.files import FileKill, FileSale, failures_of

GOOD = FileSale(
    lines=10, units=2, kills=[FileKill("posting", 1, 0, 0)], posted=2, known=2, settled=2, answered_once=10,
    spent=115, paid=90, prepaid=20, fees_most=5,
)  # fmt: skip


def test_what_holds_every_bar_passes() -> None:
    assert failures_of(GOOD) == []


@pytest.mark.parametrize(
    ("sale", "says"),
    [
        (replace(GOOD, posted=3), "3 units were posted for a file of 2"),
        (replace(GOOD, known=1), "the run knows 1 of 2 units"),
        (replace(GOOD, settled=1), "1 of 2 units were settled"),
        (replace(GOOD, answered_once=9), "9 of 10 lines are answered once"),
        (replace(GOOD, errors=1), "1 lines stand among the errors"),
        (replace(GOOD, spent=116), "fees of 6 grains, where posting once costs 5 at most"),
        (replace(GOOD, spent=110), "fees of 0 grains"),
        (replace(GOOD, kills=[FileKill("following", 0, 2, 4)]), "no process was killed while units were open"),
    ],
)
def test_what_does_not_is_said(sale: FileSale, says: str) -> None:
    (failure,) = failures_of(sale)
    assert re.search(says, failure)
