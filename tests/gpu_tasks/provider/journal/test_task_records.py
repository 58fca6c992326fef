"""What the journal says of bids: the same after a restart, after a rewrite, and after a write that was torn."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training.bids import BidOffer
from gpu_tasks.market.training.tasks import Milestone, TaskResult
from gpu_tasks.provider.journal import journal as journal_module
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.task_records import (
    BidBasis,
    Bidding,
    BidOver,
    MilestoneFound,
    ProgramBegun,
    ResultFound,
    ResultSalted,
    TaskEntry,
    TaskRecord,
    TaskSending,
    TaskSent,
    records_of,
    taken,
)

TASK, DEVICE = b"t" * 32, b"d" * 32
BASIS = BidBasis(b"h" * 32, b"i" * 32, b"b" * 32)
BID = Bidding(TASK, 1, DEVICE, BASIS, BidOffer(5, 50, 100), b"s" * 32)
FIRST, SECOND = (Milestone(number, b"r" * 32, 7, b"c" * 32) for number in (1, 2))
LIFE: list[TaskRecord] = [
    BID,
    TaskSending(TASK, 1, TaskSent.COMMIT),
    TaskSending(TASK, 1, TaskSent.REVEAL),
    TaskSending(TASK, 1, TaskSent.START),
    ProgramBegun(TASK, 1),
    MilestoneFound(TASK, 1, FIRST, Usage(1, 2, 3, 4, 5, 6)),
    TaskSending(TASK, 1, TaskSent.MILESTONE),
    MilestoneFound(TASK, 1, SECOND, Usage(2, 0, 0, 9, 9, 9)),
    ResultSalted(TASK, 1, b"z" * 32),
    ResultFound(TASK, 1, TaskResult(b"e" * 32, b"f" * 32, 3), Usage(7, 0, 0, 1, 1, 1)),
    TaskSending(TASK, 1, TaskSent.FINISH),
]


def known(records: list[TaskRecord]) -> dict[tuple[bytes, int], TaskEntry]:
    found: dict[tuple[bytes, int], TaskEntry] = {}
    for record in records:
        taken(found, record)
    return found


@pytest.mark.parametrize("count", range(len(LIFE) + 1))
@pytest.mark.parametrize("torn", [False, True])
def test_after_a_restart_a_bid_is_as_far_as_it_was_written(tmp_path: Path, count: int, torn: bool) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    for record in LIFE[:count]:
        journal.append(record)
    journal.close()
    if torn and count:
        path.write_bytes(path.read_bytes()[:-1])
    journal = Journal(path)
    assert journal.tasks == known(LIFE[: count - torn if count else 0])
    assert bool(list(journal.open_tasks())) is bool(journal.tasks)
    journal.close()


def test_what_is_over_is_open_no_more_and_keeps_what_it_paid(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    for record in (*LIFE, BidOver(TASK, 1, "the task has ended", 98)):
        journal.append(record)
    assert list(journal.open_tasks()) == []
    assert (journal.tasks[TASK, 1].end, journal.tasks[TASK, 1].paid) == ("the task has ended", 98)
    journal.close()


@given(st.integers(1, len(LIFE)), st.booleans())
def test_the_records_of_an_entry_replay_to_it(count: int, is_over: bool) -> None:
    records = LIFE[:count] + [BidOver(TASK, 1, "over", 5)] * is_over
    ((key, entry),) = known(records).items()
    ((_, again),) = known(records_of(key, entry)).items()
    if is_over:
        assert (again.end, again.paid, again.device) == (entry.end, entry.paid, entry.device)
    else:
        assert again == entry


def test_usages_of_a_later_leg_are_known_by_their_milestone() -> None:
    third = MilestoneFound(TASK, 1, Milestone(3, b"r" * 32, 7, b"c" * 32), Usage(1, 2, 3, 4, 5, 6))
    ((key, entry),) = known([BID, third]).items()
    assert entry.usages == {3: third.usage}
    assert records_of(key, entry) == [BID, third]


def test_a_rewrite_keeps_bids_that_are_open_and_the_newest_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "COMPACT_ABOVE_BYTES", 10)
    monkeypatch.setattr(journal_module, "ENDED_KEPT", 2)
    path = tmp_path / "journal"
    journal = Journal(path)
    for number in range(1, 6):
        journal.append(Bidding(TASK, number, DEVICE, BASIS, BidOffer(5, 50, 100), b"s" * 32))
        if number != 2:
            journal.append(BidOver(TASK, number, "over", number))
    journal.close()
    Journal(path).close()
    journal = Journal(path)
    assert {number: entry.paid for (_, number), entry in journal.tasks.items()} == {2: 0, 4: 4, 5: 5}
    assert journal.tasks[TASK, 2].salt == b"s" * 32
    journal.close()
