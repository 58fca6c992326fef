import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from error_codes import raises_code
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.claims.findings import CANNOT_FETCH, Finding, ItemSample, Verdict
from gpu_tasks.market.training.bids import BidOffer
from gpu_tasks.market.training.task_statement import RESULT_STEP
from gpu_tasks.market.training.tasks import Milestone, TaskResult
from gpu_tasks.provider.journal import journal as journal_module
from gpu_tasks.provider.journal.journal import HEADER_BYTES, Journal, JournalError, framed
from gpu_tasks.provider.journal.records import (
    Basis,
    End,
    FindingEntry,
    RaceEntry,
    Sent,
    UnitResult,
    VoteEntry,
)
from gpu_tasks.provider.journal.task_records import BidBasis, FoundMilestone, TaskEntry, TaskStep

UNIT, DEVICE = b"u" * 32, b"d" * 32
USAGE, LATER = Usage(1, 2, 3, 4, 5, 6), Usage(2, 0, 0, 9, 9, 9)
RESULT = UnitResult(b"outcomes", b"r" * 32, b"b" * 32, Totals(2, 3, 4, b"t" * 32), b"s" * 32, USAGE, 10, 11)
BASIS = Basis(b"i" * 32, b"c" * 32, b"w" * 32, b"m" * 32)
RACE, TASK = (UNIT, 1), (b"t" * 32, 1)
BID = TaskEntry(DEVICE, BidBasis(b"h" * 32, b"i" * 32, b"b" * 32), BidOffer(5, 50, 100), b"s" * 32)
FOUND = [
    FoundMilestone(Milestone(number, b"r" * 32, 7, b"c" * 32), usage) for number, usage in ((1, USAGE), (3, LATER))
]
FINDING = FindingEntry(Finding(Verdict.RIGHT, 0, (ItemSample(1, 2, b"f" * 16),)), b"s" * 32)
VOTE = VoteEntry(CANNOT_FETCH, b"v" * 32)

Change = Callable[[Journal], None]
RACE_LIFE: list[Change] = [
    lambda journal: journal.races.put(RACE, RaceEntry(DEVICE)),
    lambda journal: journal.races.change(RACE, basis=BASIS, result=RESULT, input_salt=b"i" * 32),
    lambda journal: journal.races.add(RACE, sent=Sent.COMMIT),
    lambda journal: journal.races.add(RACE, sent=Sent.ATTESTATION),
    lambda journal: journal.races.change(RACE, end=End.WON, paid=5),
]
TASK_LIFE: list[Change] = [
    lambda journal: journal.tasks.put(TASK, BID),
    lambda journal: journal.tasks.add(TASK, sent=TaskStep.COMMIT),
    lambda journal: journal.tasks.change(TASK, is_begun=True),
    lambda journal: journal.tasks.add(TASK, found=FOUND[0]),
    lambda journal: journal.tasks.add(TASK, found=FOUND[1]),
    lambda journal: journal.tasks.change(
        TASK, result=TaskResult(b"e" * 32, b"f" * 32, 3), result_usage=USAGE, result_salt=b"z" * 32
    ),
    lambda journal: journal.tasks.change(TASK, end="the task has ended", paid=98),
]
CLAIM_LIFE: list[Change] = [
    lambda journal: journal.findings.put((UNIT, 0), FINDING),
    lambda journal: journal.findings.put((UNIT, 3), FINDING),
    lambda journal: journal.votes.put((UNIT, 0), VOTE),
    lambda journal: journal.votes.put((UNIT, 1), VOTE),
    lambda journal: journal.findings.change((UNIT, 0), is_over=True),
    lambda journal: journal.votes.change((UNIT, 1), is_over=True),
]
LIFE = [*RACE_LIFE, *TASK_LIFE, *CLAIM_LIFE]
Known = tuple[dict[tuple[bytes, int], object], ...]


def known(journal: Journal) -> Known:
    return tuple(dict(table) for table in journal._tables)


def written(path: Path, *changes: Change) -> Known:
    journal = Journal(path)
    for change in changes:
        change(journal)
    found = known(journal)
    journal.close()
    return found


def test_each_change_is_there_after_a_restart(tmp_path: Path) -> None:
    for change in LIFE:
        assert written(tmp_path / "j", change) == written(tmp_path / "j")
    races, tasks, findings, votes = written(tmp_path / "j")
    assert findings == {(UNIT, 0): replace(FINDING, is_over=True), (UNIT, 3): FINDING}
    assert votes == {(UNIT, 0): VOTE, (UNIT, 1): replace(VOTE, is_over=True)}
    both, end = (Sent.COMMIT, Sent.ATTESTATION), "the task has ended"
    assert races == {RACE: RaceEntry(DEVICE, RESULT, both, End.WON, 5, BASIS, b"i" * 32)}
    task = tasks[TASK]
    assert isinstance(task, TaskEntry)
    assert (task.sent, task.is_begun, task.result_salt) == ((TaskStep.COMMIT,), True, b"z" * 32)
    assert task.milestones == {1: FOUND[0].milestone, 3: FOUND[1].milestone}
    assert task.usages == {1: USAGE, 3: LATER, RESULT_STEP: USAGE}
    assert (task.end, task.paid) == (end, 98)


def test_what_is_over_is_open_no_more(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    for change in (*RACE_LIFE[:-1], *TASK_LIFE[:-1], *CLAIM_LIFE[:-2]):
        change(journal)
    tables = (journal.open_races, journal.open_tasks, journal.open_findings, journal.open_votes)
    assert [len(list(each())) for each in tables] == [1, 1, 2, 2]
    for change in (RACE_LIFE[-1], TASK_LIFE[-1], *CLAIM_LIFE[-2:]):
        change(journal)
    assert [[key for key, _ in each()] for each in tables] == [[], [], [(UNIT, 3)], [(UNIT, 0)]]
    journal.close()


def test_a_step_that_was_noted_is_not_written_again(tmp_path: Path) -> None:
    written(tmp_path / "j", *RACE_LIFE[:3])
    size = (tmp_path / "j").stat().st_size
    written(tmp_path / "j", RACE_LIFE[2])
    assert (tmp_path / "j").stat().st_size == size


def test_a_file_cut_at_any_byte_keeps_every_whole_record(tmp_path: Path) -> None:
    path = tmp_path / "j"
    ends, states = [0], [written(path)]
    for change in LIFE:
        states.append(written(path, change))
        ends.append(path.stat().st_size)
    data = path.read_bytes()
    for cut in (*range(0, len(data), 7), *ends[1:-1], *(end - 1 for end in ends[1:])):
        path.write_bytes(data[:cut])
        journal = Journal(path)
        whole = max(end for end in ends if end <= cut)
        assert path.stat().st_size == whole
        assert known(journal) == states[ends.index(whole)]
        journal.races.put((b"v" * 32, 1), RaceEntry(DEVICE))  # continues after the last whole record
        journal.close()
        again = Journal(path)
        assert (b"v" * 32, 1) in again.races
        again.close()


def test_zeros_at_the_end_are_a_torn_write(tmp_path: Path) -> None:
    """A file system may grow a file before its bytes arrive."""
    path = tmp_path / "j"
    written(path, *RACE_LIFE)
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(bytes(300))
    Journal(path).close()
    assert path.stat().st_size == size


@given(st.data())
def test_damage_before_the_last_record_is_never_taken_for_a_crash(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damage") / "j"
    written(path, *RACE_LIFE[:3])
    last_begins = path.stat().st_size
    written(path, RACE_LIFE[3])
    raw = bytearray(path.read_bytes())
    raw[data.draw(st.integers(0, last_begins - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(raw)
    with raises_code(JournalError, "journal_damaged"):
        Journal(path)
    assert path.read_bytes() == raw


RACE_NAME = b"\x00" + UNIT + (1).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"\x05" + UNIT, "journal_too_new"),  # a table
        (RACE_NAME + b"\x07\x00", "journal_too_new"),  # a field of a race
        (RACE_NAME[:-1], "journal_damaged"),
        (RACE_NAME + b"\x00" + DEVICE[:-1], "journal_damaged"),
        (RACE_NAME + b"\x03\x09", "journal_damaged"),  # an end that there is not
        (RACE_NAME[:-4] + bytes(4) + b"\x04" + bytes(16), "journal_damaged"),  # of a race that never began
    ],
)
def test_a_record_that_this_release_cannot_read_is_no_crash(tmp_path: Path, body: bytes, problem: str) -> None:
    written(tmp_path / "j", RACE_LIFE[0])
    with (tmp_path / "j").open("ab") as file:
        file.write(framed(body))
    with raises_code(JournalError, problem):
        Journal(tmp_path / "j")


def test_two_daemons_never_share_a_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    with raises_code(JournalError, "journal_in_use"):
        Journal(tmp_path / "j")
    reader = Journal(tmp_path / "j", is_reader=True)
    reader.close()
    journal.close()
    Journal(tmp_path / "j").close()
    assert (tmp_path / "j").stat().st_mode & 0o777 == 0o600


def test_a_reader_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "j"
    written(path, *RACE_LIFE)
    with path.open("ab") as file:
        file.write(b"half a rec")
    before = path.read_bytes()
    Journal(path, is_reader=True).close()
    assert path.read_bytes() == before


def test_a_disk_that_is_full_leaves_whole_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "j")
    RACE_LIFE[0](journal)
    size = (tmp_path / "j").stat().st_size
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[: HEADER_BYTES + 3]))
    with raises_code(JournalError, "disk_full"):
        RACE_LIFE[1](journal)
    monkeypatch.undo()
    assert (tmp_path / "j").stat().st_size == size
    assert journal.races[RACE].result is None
    RACE_LIFE[1](journal)
    journal.close()
    assert written(tmp_path / "j")[0] == {RACE: RaceEntry(DEVICE, RESULT, basis=BASIS, input_salt=b"i" * 32)}


def test_a_disk_that_is_full_when_it_is_rewritten_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j"
    written(path, *RACE_LIFE)
    before, real = path.read_bytes(), os.write
    monkeypatch.setattr(journal_module, "COMPACT_ABOVE_BYTES", 100)
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[: HEADER_BYTES + 3]))
    with raises_code(JournalError, "disk_full"):
        Journal(path)
    assert path.read_bytes() == before


def test_a_long_journal_is_rewritten_without_what_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "j"
    written(path, *RACE_LIFE[:-1], *TASK_LIFE[:-1], *CLAIM_LIFE)
    journal = Journal(path)
    for number in range(20):
        key = bytes([number]) * 32, 1
        journal.races.put(key, RaceEntry(DEVICE, RESULT, basis=BASIS))
        journal.races.change(key, end=End.WON, paid=number)
        journal.tasks.put(key, BID)
        journal.tasks.change(key, end="over", paid=number)
    journal.close()
    size, (open_races, open_tasks, *_) = path.stat().st_size, written(path, lambda _: None)
    monkeypatch.setattr(journal_module, "COMPACT_ABOVE_BYTES", 100)
    monkeypatch.setattr(journal_module, "ENDED_KEPT", 5)
    Journal(path).close()
    assert path.stat().st_size < size / 2
    journal = Journal(path)
    for table in (journal.races, journal.tasks):
        assert [entry.paid for entry in table.values() if entry.end is not None] == [15, 16, 17, 18, 19]
        assert not any(entry.result for entry in table.values() if entry.end is not None)
    assert (journal.races[RACE], journal.tasks[TASK]) == (open_races[RACE], open_tasks[TASK])
    assert (list(journal.findings), list(journal.votes)) == ([(UNIT, 3)], [(UNIT, 0)])
    with raises_code(JournalError, "journal_in_use"):
        Journal(path)
    journal.close()


WRITER = """
import sys
from pathlib import Path
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.records import RaceEntry
journal = Journal(Path(sys.argv[1]))
start = len(journal.races)
for number in range(start, 1_000_000):
    journal.races.put((number.to_bytes(32, "big"), 1), RaceEntry(bytes(32)))
    print(number, flush=True)
"""


def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    chance = random.Random(7)
    path, told = tmp_path / "j", -1
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        for _ in range(chance.randrange(1, 40)):
            told = int(process.stdout.readline())
        time.sleep(chance.random() / 100)
        process.send_signal(signal.SIGKILL)
        told = max([told, *(int(line) for line in process.stdout.read().split() if line)])
        process.wait()
        process.stdout.close()
    journal = Journal(path)
    assert told >= 5
    assert len(journal.races) in (told + 1, told + 2)  # one may have been written and not reported
    journal.close()
