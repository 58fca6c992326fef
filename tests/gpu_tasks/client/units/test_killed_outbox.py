"""`kill -9` between any two commits of a sent call, a posting and a run, and two programs that post at once."""

import subprocess
import sys
from functools import partial
from pathlib import Path

from gpu_tasks.client.units.costs import UnitSums
from gpu_tasks.client.units.posting_once import PostedPart, PostingRecord
from gpu_tasks.client.units.result_lines import ResultFiles
from gpu_tasks.client.units.run_record import BatchRecord, FileEnds, RunPlan
from killed_commits import Deeds, lives
from wallet.client import Prepared
from wallet.outbox import OutboxFile, SentNotes

PLAN = RunPlan("ab", "lines", None, "00", {}, 5, "out", "err", 0, [(unit, 1) for unit in range(4)])
UNITS = [bytes([unit]) * 32 for unit in range(4)]
PREPARED = Prepared(b"extrinsic", b"call", b"a" * 32, 3, 0, 64, b"b" * 32)


def part_of(*places: int) -> PostedPart:
    ids = [UNITS[place].hex() for place in places]
    return PostedPart(list(places), "ab" * 2_000, 1, 0, 64, 0, ids, ids)


def run(folder: Path) -> Deeds:
    """Post four units in two parts, hand them over to the run, and write one result."""
    record = BatchRecord.open(folder, b"run")
    postings = PostingRecord.open(record.outbox, b"posting")
    parts = [part_of(0, 1), part_of(2, 3)]

    def final(part: PostedPart) -> None:
        part.block = 7
        postings.update(part)

    def hand_over() -> None:
        with record.outbox.transaction():
            for part in parts:
                for place, unit in zip(part.places, part.units, strict=True):
                    record.note_posted(place, unit, UnitSums(10, 1, 3))
            postings.forget()

    def write() -> None:
        with ResultFiles.take_up(folder / "out", folder / "errors", record.ends) as files:
            record.note_written(0, 1, 0, files.add([b"result\n"], []))

    yield partial(record.begin, PLAN)
    yield partial(postings.add, parts[0])
    yield partial(final, parts[0])
    yield partial(postings.add, parts[1])
    yield hand_over
    yield write


def test_a_kill_loses_no_unit_and_repeats_none(tmp_path: Path) -> None:
    counts = (0, 0, 2, 2, 4, 4, 4, 4)
    seen = set()
    for folder, ended in lives(run, tmp_path):
        with BatchRecord.open(folder, b"run") as record, PostingRecord.open(record.outbox, b"posting") as postings:
            assert (record.plan == PLAN) if ended else record.plan in (None, PLAN)
            assert not postings.recorded & record.posted.keys(), "each unit is in one of both"
            known = sorted(postings.recorded | record.posted.keys())
            assert known == list(range(len(known)))
            assert counts[ended] <= len(known) <= counts[ended + 1]
            for place, unit in record.posted.items():
                assert (unit, record.sums[place].locked) == (UNITS[place].hex(), 10)
            for part in postings.parts:
                assert part.units == [UNITS[place].hex() for place in part.places]
                assert part.extrinsic == "ab" * 2_000
            assert len(record.posted) in (0, 4), "all of them are handed over, or none"
            if record.written:
                assert ((folder / "out").read_bytes(), record.ends) == (b"result\n", FileEnds(7, 0))
            seen.add((ended, len(record.posted)))
    assert {(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 4), (6, 4)} <= seen


def sent(folder: Path) -> Deeds:
    """Note a call and hold it while it is sent; then forget it."""
    notes = SentNotes(folder, bytes(32))
    held = notes.noted(PREPARED)
    yield held.__enter__
    yield partial(notes.forget, PREPARED)
    yield partial(held.__exit__, None, None, None)


def test_after_a_kill_a_sent_call_is_known_until_its_fate_is(tmp_path: Path) -> None:
    seen = set()
    for folder, ended in lives(sent, tmp_path):
        found = SentNotes(folder, bytes(32)).unsettled(PREPARED.signer)
        assert found in ([], [PREPARED])
        assert found == [PREPARED] or ended != 1, "another call would be signed"
        assert not found or ended < 2
        with SentNotes(folder, bytes(32)).noted(PREPARED):  # the dead process holds it no more
            pass
        seen.add((ended, bool(found)))
    assert {(0, False), (1, True), (3, False)} <= seen


POSTER = """
import sys
from pathlib import Path
from gpu_tasks.client.units.posting_once import PostedPart, PostingRecord
with PostingRecord.open(Path(sys.argv[1]), sys.argv[2].encode()) as record:
    for number in range(20):
        ids = [f"{number:064x}"] * 32
        record.add(PostedPart(list(range(32)), "ab", number, 0, 64, 0, ids, ids))
        record.parts[-1].block = number
        record.update(record.parts[-1])
"""


def test_programs_that_post_at_once_wait_for_each_other(tmp_path: Path) -> None:
    names = ("one", "other", "third")
    running = [subprocess.Popen([sys.executable, "-c", POSTER, str(tmp_path), name]) for name in names]
    assert [process.wait(120) for process in running] == [0, 0, 0]
    for name in names:
        parts = PostingRecord.look(tmp_path, name.encode())
        assert [(part.nonce, part.block, len(part.units)) for part in parts] == [(n, n, 32) for n in range(20)]
    with OutboxFile(tmp_path) as outbox:
        assert outbox.rows("SELECT count(*) FROM posted_units") == [(3 * 20 * 32,)]
