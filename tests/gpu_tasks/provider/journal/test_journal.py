import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
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
from gpu_tasks.provider.journal.finished import FinishedRequests
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.records import (
    Basis,
    End,
    FindingEntry,
    RaceEntry,
    Sent,
    UnitResult,
    VoteEntry,
)
from gpu_tasks.provider.journal.schema import JournalError
from gpu_tasks.provider.journal.task_records import BidBasis, FoundMilestone, TaskEntry, TaskStep
from killed_commits import Deeds, lives

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
FINISHED = b"an output"
DONE: list[tuple[int, bytes | None]] = [(0, FINISHED)]

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
    for change in (RACE_LIFE[-1], TASK_LIFE[-1], *CLAIM_LIFE[-3:]):
        change(journal)
    assert [[key for key, _ in each()] for each in tables] == [[], [], [(UNIT, 3)], [(UNIT, 0)]]
    journal.close()


def test_a_step_that_was_noted_is_not_written_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    for change in RACE_LIFE[:3]:
        change(journal)
    count = journal.database.rows("SELECT total_changes()")
    RACE_LIFE[2](journal)
    assert journal.database.rows("SELECT total_changes()") == count
    journal.close()


def test_a_change_of_a_race_does_not_write_its_result_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.races.put(RACE, RaceEntry(DEVICE, replace(RESULT, outcomes=bytes(500_000)), basis=BASIS))
    log = tmp_path / "j-wal"
    before = log.stat().st_size
    RACE_LIFE[2](journal)
    assert 0 < log.stat().st_size - before < 20_000
    journal.close()


def test_the_records_of_a_step_are_all_there_or_none(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    RACE_LIFE[0](journal)
    before, other = known(journal), FinishedRequests(journal.database, UNIT, BASIS)
    with pytest.raises(ZeroDivisionError), journal.step():
        RACE_LIFE[1](journal)
        journal.races.remove([RACE])
        TASK_LIFE[0](journal)
        other.append([(0, b"zero")])
        raise ZeroDivisionError
    assert known(journal) == before
    assert FinishedRequests(journal.database, UNIT, BASIS).outputs == {}
    with journal.step():
        RACE_LIFE[1](journal)
        TASK_LIFE[0](journal)
        reader = Journal(tmp_path / "j", is_reader=True)
        assert known(reader) == before
        reader.close()
    after = known(journal)
    journal.close()
    assert written(tmp_path / "j") == after
    assert after[1] == {TASK: BID}


def life(folder: Path) -> Deeds:
    """Perform all changes one by one, and two more as one step."""
    journal = Journal(folder / "j")

    def step() -> None:
        with journal.step():
            journal.races.put((b"v" * 32, 1), RaceEntry(DEVICE))
            journal.tasks.put((b"v" * 32, 1), BID)

    yield from (partial(change, journal) for change in LIFE)
    yield step


@pytest.mark.nightly
def test_a_kill_between_any_two_writes_keeps_every_whole_change(tmp_path: Path) -> None:
    states = [written(tmp_path / "whole")]
    states += [written(tmp_path / "whole", change) for change in LIFE]
    journal = Journal(tmp_path / "whole")
    journal.races.put((b"v" * 32, 1), RaceEntry(DEVICE))
    journal.tasks.put((b"v" * 32, 1), BID)
    states.append(known(journal))
    journal.close()
    seen = set()
    (tmp_path / "lives").mkdir()
    for folder, ended in lives(life, tmp_path / "lives"):
        found = written(folder / "j")
        assert found in states[ended : ended + 2], "a change is lost, or a part of one is there"
        seen.add(states.index(found))
        assert written(folder / "j", RACE_LIFE[0])[0][RACE] == RaceEntry(DEVICE)
    assert seen == set(range(len(states)))


@given(st.data())
def test_damage_is_told_or_changes_nothing(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("damage") / "j"
    whole = written(path, *RACE_LIFE[:4], *TASK_LIFE[:4])
    raw = bytearray(path.read_bytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(raw)
    try:
        found = written(path)
    except JournalError:
        return
    assert found == whole


@pytest.mark.parametrize("old", [DEVICE, RESULT.salt, RESULT.outcomes, b"input_salt", FINISHED])
def test_a_flipped_bit_in_a_record_is_damage(tmp_path: Path, old: bytes) -> None:
    """SQLite itself does not find it."""
    written(tmp_path / "j", *RACE_LIFE, lambda journal: FinishedRequests(journal.database, UNIT, BASIS).append(DONE))
    data = (tmp_path / "j").read_bytes()
    assert old in data
    (tmp_path / "j").write_bytes(data.replace(old, old[:-1] + bytes([old[-1] ^ 1])))
    with raises_code(JournalError, "journal_damaged"):
        Journal(tmp_path / "j")


RACE_NAME = UNIT + (1).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (("cases", UNIT, "device", DEVICE), "journal_too_new"),
        (("races", RACE_NAME, "later", b""), "journal_too_new"),
        (("races", RACE_NAME[:-1], "device", DEVICE), "journal_damaged"),
        (("races", RACE_NAME, "device", DEVICE[:-1]), "journal_damaged"),
        (("races", RACE_NAME, "end", b"\x01\x09"), "journal_damaged"),
        (("races", bytes(36), "paid", bytes(16)), "journal_damaged"),  # of a race that never began
    ],
)
def test_a_record_that_this_release_cannot_read_is_an_error(
    tmp_path: Path, row: tuple[str, bytes, str, bytes], problem: str
) -> None:
    journal = Journal(tmp_path / "j")
    RACE_LIFE[0](journal)
    journal.database.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", *row)
    journal.close()
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


def test_a_disk_that_is_full_leaves_whole_records(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    RACE_LIFE[0](journal)
    [(pages,)] = journal.database.rows("PRAGMA page_count")
    journal.database.rows(f"PRAGMA max_page_count = {pages}")
    large = replace(RESULT, outcomes=bytes(100_000))
    with raises_code(JournalError, "disk_full"):
        journal.races.change(RACE, basis=BASIS, result=large)
    with raises_code(JournalError, "disk_full"), journal.step():
        journal.races.add(RACE, sent=Sent.PASS)
        journal.races.change(RACE, basis=BASIS, result=large)
    assert journal.races[RACE] == RaceEntry(DEVICE)
    journal.database.rows("PRAGMA max_page_count = 1000")
    RACE_LIFE[1](journal)
    journal.close()
    assert written(tmp_path / "j")[0] == {RACE: RaceEntry(DEVICE, RESULT, basis=BASIS, input_salt=b"i" * 32)}


def test_a_large_journal_is_opened_without_what_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "j"
    written(path, *RACE_LIFE[:-1], *TASK_LIFE[:-1], *CLAIM_LIFE)
    journal, large = Journal(path), replace(RESULT, outcomes=bytes(10_000))
    for number in range(20):
        key = bytes([number]) * 32, 1
        journal.races.put(key, RaceEntry(DEVICE, large, basis=BASIS))
        journal.races.change(key, end=End.WON, paid=number)
        journal.tasks.put(key, BID)
        journal.tasks.change(key, end="over", paid=number)
    journal.close()
    size, open_tasks = path.stat().st_size, written(path)[1]
    monkeypatch.setattr(journal_module, "COMPACT_ABOVE_BYTES", 100)
    monkeypatch.setattr(journal_module, "ENDED_KEPT", 5)
    Journal(path).close()
    journal = Journal(path)
    for number in range(20):
        journal.races.put((bytes([number]) * 32, 2), RaceEntry(DEVICE, large))
    journal.close()
    assert path.stat().st_size < size * 1.1, "new records take the space of the old ones"
    journal = Journal(path)
    assert journal._used_bytes() > 0
    for table in (journal.races, journal.tasks):
        assert [entry.paid for entry in table.values() if entry.end is not None] == [15, 16, 17, 18, 19]
        assert not any(entry.result for entry in table.values() if entry.end is not None)
    assert journal.tasks[TASK] == open_tasks[TASK]
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
