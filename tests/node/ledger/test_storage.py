"""The database: one synced batch per finality, complete after kill -9, with damage reported and never guessed."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import node.ledger.storage
from error_codes import raises_code
from node.errors import BadInputError, DatabaseError, DiskSpaceError
from node.ledger.storage import FinalEntry, Storage, StoredBlock
from runtime.state.trie import Trie

FLOOR = 0  # the tests' machine may be small


def block(height: int, *, fork: int = 0) -> StoredBlock:
    block_id = bytes([fork]) + height.to_bytes(31, "big")
    return StoredBlock(height, block_id, b"header %d" % height, b"body %d" % height)


def opened(path: Path) -> Storage:
    storage = Storage(path, free_bytes_floor=FLOOR)
    if storage.is_empty:
        storage.initialise(block(0), {b"a": b"0", b"ab": b"1", b"b": b"2"})
    return storage


def test_initialise_then_reopen(tmp_path: Path) -> None:
    opened(tmp_path).close()
    storage = opened(tmp_path)
    assert (storage.head_height, storage.head_id) == (0, block(0).block_id)
    assert list(storage.items()) == [(b"a", b"0"), (b"ab", b"1"), (b"b", b"2")]
    assert list(storage.keys(b"a")) == [b"a", b"ab"]
    assert list(storage.keys(b"a", b"a")) == [b"ab"]
    assert list(storage.keys(b"", b"ab")) == [b"b"]
    assert storage.block(block(0).block_id) == block(0)
    assert storage.id_at(0) == block(0).block_id
    assert storage.id_at(1) is None


def test_several_blocks_become_final_in_one_batch(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    storage.put_pending([block(1), block(2), block(1, fork=7)])
    assert storage.pending() == [block(1), block(1, fork=7), block(2)]
    first = FinalEntry(block(1), {b"a": b"9", b"b": None}, None)
    second = FinalEntry(block(2), {b"a": b"10", b"c": b"3"}, b"certificate")
    storage.commit_final([first, second], abandoned=[block(1, fork=7).block_id])
    assert dict(storage.items()) == {b"a": b"10", b"ab": b"1", b"c": b"3"}
    assert storage.pending() == []
    assert storage.reverse_at(2) == {b"a": b"9", b"c": None}
    assert storage.reverse_at(1) == {b"a": b"0", b"b": b"2"}
    assert storage.certificate_at(0) == (2, b"certificate")
    assert storage.certificate_at(3) is None
    assert storage.header(block(2).block_id) == b"header 2"


def test_values_in_memory_are_those_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.ledger.storage, "RECENT_MAX", 5)
    storage = opened(tmp_path)
    rng, model = random.Random(1), dict(storage.items())
    for height in range(1, 60):
        for _ in range(10):
            key = b"%d" % rng.randrange(12)
            assert storage.get(key) == model.get(key)
        changes = {b"%d" % rng.randrange(12): rng.choice([None, b"%d" % height]) for _ in range(4)}
        before = dict(model)
        model.update({key: value for key, value in changes.items() if value is not None})
        for key, value in changes.items():
            if value is None:
                model.pop(key, None)
        storage.commit_final([FinalEntry(block(height), changes, None)])
        assert storage.reverse_at(height) == {key: before.get(key) for key in changes}
        assert len(storage._recent_changes) <= 5
    assert dict(storage.items()) == model


def test_values_in_memory_are_forgotten_all_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # One by one each of them took a search through the places of all that were forgotten before.
    monkeypatch.setattr(node.ledger.storage, "RECENT_MAX", 5)
    storage = opened(tmp_path)
    kept = []
    for number in range(13):
        storage.get(b"%d" % number)
        kept.append(len(storage._recent_changes))
    assert kept == [1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1]


def test_values_are_read_from_the_trie_of_the_state_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = opened(tmp_path)
    trie = Trie(dict(storage.items()))
    storage.rest_on(trie)
    with monkeypatch.context() as patched:
        patched.setattr(storage, "_read_value", None)  # no read of the disk
        assert [storage.get(key) for key in (b"a", b"ab", b"b", b"abc", b"")] == [b"0", b"1", b"2", None, None]
    changes = {b"a": None, b"c": b"3"}
    storage.commit_final([FinalEntry(block(1), changes, None)])
    assert [storage.get(key) for key in (b"a", b"ab", b"b", b"c", b"d")] == [None, b"1", b"2", b"3", None]
    assert storage.reverse_at(1) == {b"a": b"0", b"c": None}
    storage.rest_on(trie.updated(changes))
    assert [storage.get(key) for key in (b"a", b"ab", b"b", b"c", b"e")] == [None, b"1", b"2", b"3", None]


def test_only_the_last_reverse_diffs_are_kept(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    for height in range(1, 259):
        storage.commit_final([FinalEntry(block(height), {b"a": b"%d" % height}, None)])
    assert storage.reverse_at(2) is None
    assert storage.reverse_at(3) == {b"a": b"2"}


def test_a_failing_commit_changes_nothing(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    broken = FinalEntry(block(1), {b"a": b"9", b"b": "text"}, None)  # type: ignore[dict-item]
    with pytest.raises(TypeError):
        storage.commit_final([broken])
    storage.close()
    storage = opened(tmp_path)
    assert storage.head_height == 0
    assert storage.get(b"a") == b"0"


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    with raises_code(BadInputError, "database_in_use"):
        Storage(tmp_path, free_bytes_floor=FLOOR)
    storage.close()


def test_another_chain_is_refused(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    storage.check_chain(block(0).block_id)
    with pytest.raises(DatabaseError, match="purge-chain"):
        storage.check_chain(block(0, fork=1).block_id)


def test_too_little_free_space_is_told_before_a_write(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    storage._free_bytes_floor = 2**62
    with pytest.raises(DiskSpaceError, match=f"{2**42:,} MiB"):
        storage.commit_final([FinalEntry(block(1), {b"a": b"9"}, None)])
    assert storage.head_height == 0


def test_a_flipped_bit_is_an_error_never_a_wrong_value(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    state: dict[bytes, bytes | None] = {b"k%05d" % i: random.Random(i).randbytes(100) for i in range(20_000)}
    storage.commit_final([FinalEntry(block(1), state, None)])
    storage._database.compact_range()
    storage.close()
    tables = sorted(tmp_path.glob("*.ldb"))
    assert tables
    for trial in range(8):
        rng = random.Random(trial)
        table = rng.choice(tables)
        original = table.read_bytes()
        damaged = bytearray(original)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        table.write_bytes(bytes(damaged))
        wrong = 0
        try:
            storage = Storage(tmp_path, free_bytes_floor=FLOOR)
            try:
                wrong = sum(storage.get(key) != value for key, value in state.items())
            finally:
                storage.close()
        except DatabaseError:
            pass
        assert wrong == 0
        table.write_bytes(original)


ROOT = Path(__file__).parents[3]
WRITER = """
import sys
sys.path[:0] = {path!r}
from pathlib import Path
from tests.node.ledger.test_storage import FinalEntry, block, opened
storage = opened(Path(sys.argv[1]))
height = storage.head_height
while True:
    height += 1
    storage.put_pending([block(height)])
    changes = {{b"a": b"%d" % height, b"x%d" % (height % 50): b"y" * height}}
    storage.commit_final([FinalEntry(block(height), changes, None)])
    print(height, flush=True)
"""


def test_kill_9_loses_nothing_acknowledged(tmp_path: Path) -> None:
    script = WRITER.format(path=[str(ROOT), str(ROOT / "tests" / "support")])
    for _ in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(0.1)
            writer.send_signal(signal.SIGKILL)
            lines = writer.stdout.read().split("\n")
        acknowledged = max([int(line) for line in lines[:-1]], default=0)
        storage = opened(tmp_path)
        assert storage.head_height >= max(1, acknowledged)
        assert storage.get(b"a") == b"%d" % storage.head_height
        assert storage.id_at(storage.head_height) == storage.head_id
        storage.close()


def test_the_final_height_rises_by_one_a_block(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    for wrong in (0, 2):
        with pytest.raises(AssertionError, match="one higher"):
            storage.commit_final([FinalEntry(block(wrong), {}, None)])
    storage.commit_final([FinalEntry(block(1), {}, None)])
    assert storage.head_height == 1
