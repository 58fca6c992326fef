"""A race without pay gives the reason, from the chain's record of its unit."""

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from gpu_tasks.market.inference.gpu_tasks_api import UnitStatus
from gpu_tasks.market.inference.units import Racer, Refund, Reveal, Unit, UnitState, UnitTerms
from gpu_tasks.provider.chain.port import ChainError, View
from gpu_tasks.provider.duties import endings
from gpu_tasks.provider.duties.duty import Endings
from gpu_tasks.provider.duties.endings import READS_PER_ROUND_MAX, EndingDuty, is_refuted, race_end, why_unpaid
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.pause_book import PauseBook, PauseCause
from gpu_tasks.provider.journal.records import End, RaceEntry
from heard import Heard

OWN, FIRST, SECOND = b"o" * 32, b"f" * 32, b"s" * 32
ROOT = b"r" * 32
KEY = (b"u" * 32, 1)


def racer(owner: bytes, committed_at: int) -> Racer:
    reveal = Reveal(ROOT, b"b" * 32, 64, committed_at + 5)
    return Racer(owner, owner, 25, b"h" * 32, committed_at, reveal)


OTHERS = (racer(FIRST, 20), racer(SECOND, 21))
LATE = racer(OWN, 22)
TERMS = UnitTerms(100, 3, bytes(32), bytes(32), 0, 64)
SETTLED = Unit(
    0, b"c" * 32, TERMS, escrow=0, bond=0, deposit=0, posted_at=1, recorded_at=1, state=UnitState.SETTLED, attempt=1,
    price=100, racers=(*OTHERS, LATE), output_root=ROOT, ended_at=30,
)  # fmt: skip


def a_status(unit: Unit) -> UnitStatus:
    return UnitStatus(unit, None, None, 0, 0, 0)


@pytest.mark.parametrize(
    ("unit", "why"),
    [
        (None, "dropped the unit"),
        (replace(SETTLED, attempt=2), "drawn again"),
        (replace(SETTLED, state=UnitState.REFUNDED, output_root=None), "the unit was refunded"),
        (replace(SETTLED, state=UnitState.QUEUED, output_root=None), "queued again"),
        (replace(SETTLED, racers=OTHERS), "this provider gave the unit back"),
        (replace(SETTLED, racers=(*OTHERS, replace(LATE, has_declined=True, reveal=None))), "this provider gave"),
        (replace(SETTLED, racers=(*OTHERS, replace(LATE, reveal=None))), "not in time"),
        (SETTLED, "same result earlier"),
    ],
)
def test_a_race_that_paid_nothing_says_why(unit: Unit | None, why: str) -> None:
    status = None if unit is None else a_status(unit)
    assert race_end(status, KEY, OWN) == (End.UNPAID, 0)
    assert why in why_unpaid(status, KEY, OWN)


def test_a_refutation_is_noted_once_so_that_the_operator_may_resume_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The race stays in the journal until its unit is over."""
    monkeypatch.setattr(endings, "is_refuted", lambda *_: True)
    monkeypatch.setattr(endings, "race_end", lambda *_: None)
    journal, device = Journal(tmp_path / "journal"), b"d" * 32
    book, chain = PauseBook(journal.database), SimpleNamespace(final_unit=AsyncMock(return_value=None))
    journal.races.put(KEY, RaceEntry(device))
    parts = SimpleNamespace(journal=journal, pauses=book, chain=chain, identity=SimpleNamespace(stash=OWN))
    duty = EndingDuty(cast("Parts[Any]", parts), ())
    book.note(device, is_paused=True, cause=PauseCause.MISSED, resumes_at=9)
    asyncio.run(duty.step(View(4, ())))
    assert (book.read()[device].cause, book.read()[device].resumes_at) == (PauseCause.REFUTED, None)
    book.note(device, cause=None)
    asyncio.run(duty.step(View(8, ())))
    assert book.read()[device].cause is None
    journal.close()


def test_open_races_are_asked_about_in_turn(tmp_path: Path) -> None:
    """With any number of open races, the end of one is seen in time."""
    journal = Journal(tmp_path / "journal")
    keys = [(bytes([number]) * 32, 1) for number in range(3 * READS_PER_ROUND_MAX)]
    for unit, attempt in keys:
        journal.races.put((unit, attempt), RaceEntry(b"d" * 32))
    duty = EndingDuty(cast("Parts[Any]", SimpleNamespace(journal=journal)), ())
    rounds = [[key for key, _ in duty._races_in_turn()] for _ in range(4)]
    assert rounds[0] + rounds[1] + rounds[2] == keys
    assert rounds[3] == rounds[0]
    journal.close()


def test_a_node_that_goes_away_midway_leaves_no_duty_without_what_ended(tmp_path: Path) -> None:
    journal, heard, asked = Journal(tmp_path / "journal"), Heard(), list[bytes]()
    keys = [(bytes([number]) * 32, 1) for number in range(3)]
    for key in keys:
        journal.races.put(key, RaceEntry(b"d" * 32))

    async def final_unit(unit: bytes) -> None:
        asked.append(unit)
        if len(asked) == 2:
            raise ChainError

    learned: list[Endings] = []
    duty: Any = SimpleNamespace(learn=learned.append)
    chain = SimpleNamespace(final_unit=final_unit)
    parts = SimpleNamespace(journal=journal, chain=chain, telemetry=heard, identity=SimpleNamespace(stash=OWN))
    endings = EndingDuty(cast("Parts[Any]", parts), [duty])
    with pytest.raises(ChainError):
        asyncio.run(endings.step(View(4, ())))
    asyncio.run(endings.step(View(8, ())))
    assert [ended.races for ended in learned] == [keys[:1], keys[1:]]
    assert not list(journal.open_races())
    journal.close()


@pytest.mark.parametrize("state", [UnitState.RACING, UnitState.DISPUTED, UnitState.CLAIMED])
def test_a_race_whose_result_may_be_asked_for_is_not_over(state: UnitState) -> None:
    """Its work is kept: it may have to show its tree, to deliver its items, or to show samples."""
    root = ROOT if state is UnitState.CLAIMED else None
    open_unit = replace(SETTLED, state=state, output_root=root, ended_at=0)
    assert race_end(a_status(open_unit), KEY, FIRST) is None
    assert race_end(a_status(open_unit), KEY, OWN) is None
    assert race_end(a_status(SETTLED), KEY, FIRST) == (End.WON, 98)


def test_the_winner_of_a_refuted_claim_is_refuted_and_its_witness_is_not() -> None:
    refuted = replace(SETTLED, state=UnitState.REFUNDED, refund=Refund.REFUTED)
    assert is_refuted(a_status(refuted), KEY, FIRST)
    assert not is_refuted(a_status(refuted), KEY, SECOND)
    assert not is_refuted(a_status(SETTLED), KEY, FIRST)
    assert not is_refuted(a_status(replace(refuted, attempt=2)), KEY, FIRST)
    assert not is_refuted(a_status(replace(refuted, refund=Refund.INCONCLUSIVE)), KEY, FIRST)


@pytest.mark.parametrize("state", [UnitState.CLAIMED, UnitState.SETTLED])
def test_a_racer_with_another_result_than_the_claimed_one_is_refuted(state: UnitState) -> None:
    claimed = replace(SETTLED, state=state, output_root=b"x" * 32)
    assert is_refuted(a_status(claimed), KEY, OWN)


def test_a_side_is_refuted_once_it_has_lost_its_collateral() -> None:
    """Other sides still differ."""
    lost = replace(racer(FIRST, 20), collateral=0)
    disputed = replace(SETTLED, state=UnitState.DISPUTED, output_root=None, racers=(lost, OTHERS[1], LATE))
    assert is_refuted(a_status(disputed), KEY, FIRST)
    assert not is_refuted(a_status(disputed), KEY, SECOND)
