"""Rows on the disk: damaged rows and rows of another challenge are ignored."""

from dataclasses import replace
from pathlib import Path

import pytest

from cut_writes import CHALLENGE, ROWS
from gpu_tasks.provider.duties.roll_calls import KeptRows


@pytest.mark.parametrize("place", [0, 31, 32, 64, 5_000, -1])
def test_one_bit_that_is_another_makes_them_none(tmp_path: Path, place: int) -> None:
    kept = KeptRows(tmp_path / "rows")
    kept.keep(CHALLENGE, ROWS)
    (path,) = (tmp_path / "rows").iterdir()
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    assert kept.load(CHALLENGE) is None
    path.write_bytes(data[:-1])
    assert kept.load(CHALLENGE) is None


def test_each_challenge_has_its_own(tmp_path: Path) -> None:
    kept, other = KeptRows(tmp_path / "rows"), replace(CHALLENGE, seed=b"t" * 32)
    kept.keep(CHALLENGE, ROWS)
    kept.note_sent(CHALLENGE, "commit")
    assert (kept.load(CHALLENGE), kept.load(other)) == (ROWS, None)
    assert (kept.was_sent(CHALLENGE, "commit"), kept.was_sent(other, "commit")) == (True, False)
    assert not kept.was_sent(CHALLENGE, "show")
    kept.forget_all()
    assert not list((tmp_path / "rows").iterdir())
