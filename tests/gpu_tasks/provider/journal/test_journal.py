import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.courts.opinions import Answered, Statement, Unanswerable
from gpu_tasks.provider.journal import journal as journal_module
from gpu_tasks.provider.journal.frames import HEADER_BYTES
from gpu_tasks.provider.journal.journal import Journal, JournalError
from gpu_tasks.provider.journal.records import (
    Assigned,
    Basis,
    Dismissed,
    End,
    Ended,
    JournalRecord,
    Judged,
    Sending,
    Sent,
    UnitResult,
    WorkBound,
    WorkCounted,
    WorkDone,
    WorkResult,
    WorkSalted,
)

UNIT, DEVICE = b"u" * 32, b"d" * 32
OLD_RESULT = WorkResult(b"output", b"r" * 32, b"b" * 32, b"s" * 32, Usage(6, 0, 0, 1, 2, 3), 10, 11)
RESULT = UnitResult(
    b"outcomes", b"r" * 32, b"b" * 32, Totals(2, 3, 4, b"t" * 32), b"s" * 32, Usage(6, 0, 0, 1, 2, 3), 10, 11
)
SALT = b"i" * 32
BASIS = Basis(b"i" * 32, b"c" * 32, b"w" * 32, b"m" * 32)
RACE: list[JournalRecord] = [
    Assigned(UNIT, 1, DEVICE),
    WorkSalted(UNIT, 1, BASIS, RESULT, SALT),
    Sending(UNIT, 1, Sent.COMMIT),
    Sending(UNIT, 1, Sent.ATTESTATION),
]
CASE: list[JournalRecord] = [
    Judged(UNIT, 0, Statement(Answered(b"r" * 32), b"p" * 32, 3), b"s" * 32),
    Judged(UNIT, 1, Statement(Unanswerable(), bytes(32)), b"t" * 32),
]


def written(path: Path, *records: JournalRecord) -> None:
    journal = Journal(path)
    for record in records:
        journal.append(record)
    journal.close()


def test_what_was_appended_is_there_after_a_restart(tmp_path: Path) -> None:
    written(tmp_path / "j", *RACE, *CASE, Dismissed(UNIT, 0))
    journal = Journal(tmp_path / "j")
    entry = journal.races[UNIT, 1]
    assert (entry.device, entry.result, entry.sent, entry.end) == (
        DEVICE,
        RESULT,
        {Sent.COMMIT, Sent.ATTESTATION},
        None,
    )
    assert [key for key, _ in journal.open_races()] == [(UNIT, 1)]
    assert [key for key, _ in journal.open_cases()] == [(UNIT, 1)]
    journal.append(Ended(UNIT, 1, End.WON, 5))
    assert not list(journal.open_races())
    assert journal.races[UNIT, 1].paid == 5
    journal.close()


@pytest.mark.parametrize("salt", [SALT, None])
def test_the_salt_of_an_input_is_kept_with_its_result_where_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, salt: bytes | None
) -> None:
    """By a rewritten file too, and a file of before is read as it is."""
    done = WorkCounted(UNIT, 1, BASIS, RESULT) if salt is None else WorkSalted(UNIT, 1, BASIS, RESULT, salt)
    written(tmp_path / "j", Assigned(UNIT, 1, DEVICE), done)
    monkeypatch.setattr(journal_module, "COMPACT_ABOVE_BYTES", 0)
    for _ in range(2):
        journal = Journal(tmp_path / "j")
        entry = journal.races[UNIT, 1]
        assert (entry.result, entry.basis, entry.input_salt) == (RESULT, BASIS, salt)
        journal.close()


def test_a_file_cut_at_any_byte_keeps_every_whole_record(tmp_path: Path) -> None:
    path = tmp_path / "j"
    ends = [0]
    for record in RACE:
        written(path, record)
        ends.append(path.stat().st_size)
    data = path.read_bytes()
    for cut in (*range(0, len(data), 7), *ends[1:-1], *(end - 1 for end in ends[1:])):
        path.write_bytes(data[:cut])
        journal = Journal(path)
        whole = max(end for end in ends if end <= cut)
        assert path.stat().st_size == whole
        assert ((UNIT, 1) in journal.races) == (cut >= ends[1])
        journal.append(Assigned(b"v" * 32, 1, DEVICE))  # goes on where the whole records end
        journal.close()
        again = Journal(path)
        assert (b"v" * 32, 1) in again.races
        again.close()


def test_zeros_at_the_end_are_a_torn_write(tmp_path: Path) -> None:
    """A file system may grow a file before its bytes arrive."""
    path = tmp_path / "j"
    written(path, *RACE)
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
    written(path, *RACE[:3])
    last_begins = path.stat().st_size
    written(path, RACE[3])
    raw = bytearray(path.read_bytes())
    raw[data.draw(st.integers(0, last_begins - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(raw)
    with pytest.raises(JournalError, match=r"damaged at byte .* Restore it from a backup"):
        Journal(path)
    assert path.read_bytes() == raw


def test_two_daemons_never_share_a_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    with pytest.raises(JournalError, match="another ogpu-provider runs"):
        Journal(tmp_path / "j")
    reader = Journal(tmp_path / "j", is_reader=True)
    reader.close()
    journal.close()
    Journal(tmp_path / "j").close()


def test_a_reader_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "j"
    written(path, *RACE)
    with path.open("ab") as file:
        file.write(b"half a rec")
    before = path.read_bytes()
    Journal(path, is_reader=True).close()
    assert path.read_bytes() == before


def test_a_disk_that_is_full_leaves_whole_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "j")
    journal.append(RACE[0])
    size = (tmp_path / "j").stat().st_size
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[: HEADER_BYTES + 3]))
    with pytest.raises(JournalError, match="disk is full"):
        journal.append(RACE[1])
    monkeypatch.undo()
    assert (tmp_path / "j").stat().st_size == size
    assert journal.races[UNIT, 1].result is None
    journal.append(RACE[1])
    journal.close()


def test_a_disk_that_is_full_when_it_is_rewritten_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j"
    written(path, *RACE)
    before, real = path.read_bytes(), os.write
    monkeypatch.setattr(journal_module, "COMPACT_ABOVE_BYTES", 100)
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[: HEADER_BYTES + 3]))
    with pytest.raises(JournalError, match="disk is full"):
        Journal(path)
    assert path.read_bytes() == before


def test_a_result_that_an_older_release_wrote_down_is_none_any_more(tmp_path: Path) -> None:
    """No chain takes its root: what was not committed to is computed again, and the rest of the journal is read."""
    old = (WorkDone(UNIT, 1, OLD_RESULT), WorkBound(UNIT, 1, BASIS, OLD_RESULT))
    written(tmp_path / "j", Assigned(UNIT, 1, DEVICE), *old, Sending(UNIT, 1, Sent.COMMIT), *CASE)
    journal = Journal(tmp_path / "j")
    entry = journal.races[UNIT, 1]
    assert (entry.device, entry.result, entry.basis, entry.sent) == (DEVICE, None, None, {Sent.COMMIT})
    assert list(journal.cases) == [(UNIT, 0), (UNIT, 1)]
    journal.close()


def test_a_long_journal_is_rewritten_without_what_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "j"
    done: list[JournalRecord] = []
    for number in range(20):
        unit = bytes([number]) * 32
        done += [Assigned(unit, 1, DEVICE), WorkCounted(unit, 1, BASIS, RESULT), Ended(unit, 1, End.WON, number)]
    written(path, *done, *RACE, *CASE, Dismissed(UNIT, 0))
    size = path.stat().st_size
    monkeypatch.setattr(journal_module, "COMPACT_ABOVE_BYTES", 100)
    monkeypatch.setattr(journal_module, "ENDED_KEPT", 5)
    Journal(path).close()
    assert path.stat().st_size < size / 3
    journal = Journal(path)
    assert [entry.paid for key, entry in journal.races.items() if entry.end is not None] == [15, 16, 17, 18, 19]
    assert (journal.races[UNIT, 1].result, journal.races[UNIT, 1].basis) == (RESULT, BASIS)
    assert list(journal.cases) == [(UNIT, 1)]
    with pytest.raises(JournalError, match="in use"):
        Journal(path)
    journal.close()


WRITER = """
import sys
from pathlib import Path
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.records import Assigned, Sending, Sent
journal = Journal(Path(sys.argv[1]))
start = len(journal.races)
for number in range(start, 1_000_000):
    journal.append(Assigned(number.to_bytes(32, "big"), 1, bytes(32)))
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
    assert len(journal.races) in (told + 1, told + 2)  # one may have been written and not told
    journal.close()
