"""Chains on the disk: damaged ones and those of another seed are ignored."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from cut_writes import CHAIN, CHALLENGE, CLAIM
from gpu_tasks.provider.duties.kept_rows import KeptRows
from gpu_tasks.provider.duties.roll_calls import RollCallDuty, RollCallPolicy
from gpu_tasks.provider.journal.schema import JOURNAL_FILE, open_journal

OTHER = b"o" * 32


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[KeptRows]:
    with open_journal(tmp_path / JOURNAL_FILE) as database:
        yield KeptRows(tmp_path / "rows", database)


@pytest.mark.parametrize("place", [0, 31, 32, 70, 5_000, -1])
def test_one_bit_that_is_another_makes_them_none(kept: KeptRows, tmp_path: Path, place: int) -> None:
    kept.keep(CLAIM, CHAIN)
    (path,) = (tmp_path / "rows").iterdir()
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    assert kept.load(CLAIM, CHALLENGE.seed) is None
    path.write_bytes(data[:-1])
    assert kept.load(CLAIM, CHALLENGE.seed) is None


def test_each_claim_has_its_own(kept: KeptRows, tmp_path: Path) -> None:
    assert kept.claims() == []
    kept.keep(CLAIM, CHAIN)
    kept.note_sent(CLAIM)
    assert (kept.load(CLAIM, CHALLENGE.seed), kept.load(OTHER, CHALLENGE.seed)) == (CHAIN, None)
    assert kept.load(CLAIM, b"t" * 32) is None, "another branch has another seed"
    assert (kept.was_sent(CLAIM), kept.was_sent(OTHER)) == (True, False)
    kept.note_sent(OTHER)
    (tmp_path / "rows" / "notes.txt").write_text("of an operator")
    assert kept.claims() == sorted((CLAIM, OTHER))
    for claim in (CLAIM, OTHER):
        kept.forget(claim)
    assert kept.claims() == []
    assert [path.name for path in (tmp_path / "rows").iterdir()] == ["notes.txt"]


async def test_rows_of_a_seed_in_another_branch_are_not_proven(kept: KeptRows) -> None:
    nothing = Mock()
    kept.keep(CLAIM, CHAIN)
    calls = RollCallDuty(nothing, kept, nothing, nothing, RollCallPolicy())
    found = await calls._kept_chain(CLAIM, CHALLENGE.seed)
    assert found is not None
    assert (found.challenge, found.root) == (CHALLENGE, CHAIN.rows.root)
    assert await calls._kept_chain(CLAIM, OTHER) is None
