import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable import database as database_module
from durable.database import Database, Schema, checked_table
from error_codes import raises_code
from killed_commits import Deeds, lives

TABLE = checked_table("pairs", ["key INTEGER NOT NULL", "value BLOB NOT NULL"], "PRIMARY KEY (key)")
SCHEMA = Schema("list", 1, [TABLE], "Move it away", bytes_max=1024**2)
ADD = "INSERT INTO pairs VALUES (?, ?)"
ALL = "SELECT key, value FROM pairs ORDER BY key"
PAGE = 4_096


class ListError(Exception):
    def __init__(self, text: str, *, code: str) -> None:
        super().__init__(text)
        self.code = code


def opened(path: Path, schema: Schema = SCHEMA, *, is_sole: bool = False, is_reader: bool = False) -> Database:
    return Database(path, schema, ListError, is_sole=is_sole, is_reader=is_reader)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "list.db"


def test_rows_are_there_for_the_next_process_and_for_their_owner_alone(path: Path) -> None:
    database = opened(path)
    assert database.execute(ADD, 1, b"one") == 1
    assert {file.name for file in path.parent.iterdir()} == {"list.db", "list.db-wal", "list.db-shm"}
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700
    with opened(path) as other:
        assert other.rows(ALL) == [(1, b"one")]
    database.close()
    with opened(path) as later:
        assert later.rows(ALL) == [(1, b"one")]


def test_each_commit_is_synced_by_the_write_ahead_log(path: Path) -> None:
    with opened(path) as database:
        assert database.rows("PRAGMA journal_mode") == [("wal",)]
        full = 2
        assert database.rows("PRAGMA synchronous") == [(full,)]


def test_a_transaction_is_whole_or_nothing_and_a_nested_one_is_a_part_of_it(path: Path) -> None:
    with opened(path) as database:
        with pytest.raises(ZeroDivisionError), database.transaction():
            database.execute(ADD, 1, b"")
            with database.transaction():
                database.execute(ADD, 2, b"")
            raise ZeroDivisionError
        assert database.rows(ALL) == []
        with opened(path) as other:
            with database.transaction():
                database.execute(ADD, 1, b"")
                database.execute(ADD, 2, b"")
                assert other.rows(ALL) == []
            assert len(other.rows(ALL)) == 2


def test_an_error_of_our_own_statements_stays_an_error_of_sqlite(path: Path) -> None:
    with opened(path) as database:
        database.execute(ADD, 1, b"")
        with pytest.raises(sqlite3.IntegrityError):
            database.execute(ADD, 1, b"")
        with pytest.raises(sqlite3.OperationalError):
            database.rows("SELECT * FROM nothing")
        database.execute(ADD, 2, b"")
        assert [key for key, _ in database.rows(ALL)] == [1, 2]


def test_threads_write_one_after_the_other(path: Path) -> None:
    with opened(path) as database:

        def add(first: int) -> None:
            for key in range(first, first + 20):
                with database.transaction():
                    database.execute(ADD, 2 * key, b"")
                    database.execute(ADD, 2 * key + 1, b"")

        threads = [threading.Thread(target=add, args=(100 * number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(database.rows(ALL)) == 160


WRITER = """
import sys
from pathlib import Path
from durable.database import Database, Schema
with Database(Path(sys.argv[1]), Schema("list", 1, [sys.argv[3]], ""), RuntimeError) as database:
    for key in range(15):
        database.execute(sys.argv[4], int(sys.argv[2]) + key, b"x")
"""


def test_processes_create_and_write_one_file_at_once(path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*command, str(1_000 * number), TABLE, ADD]) for number in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    with opened(path) as database:
        assert len(database.rows(ALL)) == 60


def test_a_sole_owner_keeps_others_away_and_a_reader_reads(path: Path) -> None:
    owner = opened(path, is_sole=True)
    with raises_code(ListError, "list_in_use"):
        opened(path, is_sole=True)
    owner.execute(ADD, 1, b"one")
    with opened(path, is_reader=True) as reader:
        assert reader.rows(ALL) == [(1, b"one")]
        assert not reader.is_locked(b"1" * 32)
        with raises_code(ListError, "list_unwritable"):
            reader.execute(ADD, 2, b"two")
    owner.close()
    opened(path, is_sole=True).close()


def test_a_reader_creates_nothing(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        opened(path, is_reader=True)
    assert not path.parent.exists()
    path.parent.mkdir(mode=0o700)
    path.touch(0o600)
    with pytest.raises(FileNotFoundError):
        opened(path, is_reader=True)
    assert path.read_bytes() == b""


def test_files_of_another_kind_or_version_are_refused_and_stay(path: Path, tmp_path: Path) -> None:
    opened(path, Schema("list", 2, [TABLE], "")).close()
    opened(tmp_path / "other", Schema("book", 1, [TABLE], "")).close()
    with sqlite3.connect(tmp_path / "foreign") as foreign:
        foreign.execute("CREATE TABLE pairs (key INTEGER)")
    foreign.close()
    (tmp_path / "text").write_bytes(b"this is no database" * 100)
    for file, code in (
        (path, "list_too_new"), (tmp_path / "other", "list_unknown"), (tmp_path / "foreign", "list_unknown"),
        (tmp_path / "text", "list_damaged"),
    ):  # fmt: skip
        file.chmod(0o600)
        before = file.read_bytes()
        with raises_code(ListError, code):
            opened(file)
        assert file.read_bytes() == before
    with raises_code(ListError, "list_too_old"):
        opened(path, Schema("list", 3, [TABLE], ""))


def test_paths_that_are_no_private_file_are_refused(path: Path, tmp_path: Path) -> None:
    opened(path).close()
    path.chmod(0o644)
    with raises_code(ListError, "list_not_private"):
        opened(path)
    path.chmod(0o600)
    (tmp_path / "link").symlink_to(path)
    for other in (tmp_path / "link", tmp_path, path / "below"):
        with raises_code(ListError, "list_unwritable"):
            opened(other)


@pytest.mark.parametrize("place", [PAGE, PAGE + 3, 3 * PAGE, 6 * PAGE + 8])
def test_damaged_pages_are_refused(path: Path, place: int) -> None:
    with opened(path) as database, database.transaction():
        for key in range(1_000):
            database.execute(ADD, key, b"x" * 100)
    content = bytearray(path.read_bytes())
    content[place : place + 8] = b"\xff" * 8
    path.write_bytes(content)
    with raises_code(ListError, "list_damaged"):
        opened(path)


@given(st.data())
def test_any_changed_byte_is_found_or_changes_no_row(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("changed") / "list.db"
    rows = [(key, bytes([key]) * 300) for key in range(30)]
    with opened(path) as database, database.transaction():
        for row in rows:
            database.execute(ADD, *row)
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with contextlib.suppress(ListError), opened(path) as database:
        assert database.rows(ALL) == rows


@pytest.mark.parametrize("is_cut", [True, False])
def test_damage_of_the_write_ahead_log_loses_its_commit_and_the_later_ones(
    path: Path, tmp_path: Path, is_cut: bool
) -> None:
    """SQLite cannot tell it from a commit that a power cut interrupted. No row changes, and none comes alone."""
    frame_bytes, count = 24 + PAGE, 8
    log_path = path.with_name("list.db-wal")
    with opened(path) as database:
        for key in range(count):
            database.execute(ADD, key, bytes([key]))
        data, log = path.read_bytes(), log_path.read_bytes()
    frames = (len(log) - 32) // frame_bytes
    kept = []
    for frame in range(frames):
        start = 32 + frame * frame_bytes
        damaged = bytearray(log[:start] if is_cut else log)
        if not is_cut:
            damaged[start + 100] ^= 1
        copy = tmp_path / f"copy{frame}" / "list.db"
        copy.parent.mkdir(mode=0o700)
        for each, content in ((copy, data), (copy.with_name("list.db-wal"), damaged)):
            each.write_bytes(content)
            each.chmod(0o600)
        with opened(copy) as again:
            rows = again.rows(ALL)
        assert rows == [(key, bytes([key])) for key in range(len(rows))]
        kept.append(len(rows))
    assert kept == sorted(kept)
    assert kept[-1] == count - 1


def test_tables_of_another_form_are_refused(path: Path) -> None:
    opened(path).close()
    with raises_code(ListError, "list_damaged"):
        opened(path, replace(SCHEMA, statements=[TABLE, "CREATE INDEX more ON pairs (value)"]))


def test_one_holder_of_a_key_at_a_time(path: Path) -> None:
    with opened(path) as database, opened(path) as other:
        held, also_held = database.lock(b"1" * 32), database.lock(b"2" * 32)
        assert [database.is_locked(key * 32) for key in (b"1", b"2", b"3")] == [True, True, False]
        with pytest.raises(BlockingIOError):
            other.lock(b"1" * 32)
        os.close(held)
        assert not other.is_locked(b"1" * 32)
        os.close(other.lock(b"1" * 32))
        os.close(also_held)


def test_a_file_that_was_cut_short_is_refused(path: Path) -> None:
    with opened(path) as database, database.transaction():
        for key in range(1_000):
            database.execute(ADD, key, b"x" * 100)
    path.write_bytes(path.read_bytes()[: 5 * PAGE])
    with raises_code(ListError, "list_damaged"):
        opened(path)


def test_a_full_file_keeps_what_it_has_and_takes_more_once_there_is_room(path: Path) -> None:
    with opened(path) as database:
        database.execute(ADD, 1, b"one")
        with raises_code(ListError, "disk_full"):
            database.execute(ADD, 2, bytes(2 * 1024**2))
        database.execute(ADD, 3, b"three")
        assert [key for key, _ in database.rows(ALL)] == [1, 3]


def test_a_writer_that_never_ends_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 0.05)
    with opened(path) as one, opened(path) as other, one.transaction():
        with raises_code(ListError, "list_busy"):
            other.execute(ADD, 1, b"")
        assert other.rows(ALL) == []


def pairs(folder: Path) -> Deeds:
    """Add two pairs of rows, each pair in one transaction."""
    database = opened(folder / "list.db")

    def add(key: int) -> None:
        with database.transaction():
            database.execute(ADD, key, bytes(5_000))
            database.execute(ADD, key + 1, bytes(5_000))

    yield lambda: add(1)
    yield lambda: add(3)


def test_a_kill_between_any_two_statements_leaves_whole_transactions(tmp_path: Path) -> None:
    seen = set()
    for folder, ended in lives(pairs, tmp_path):
        with contextlib.suppress(FileNotFoundError), opened(folder / "list.db", is_reader=True) as reader:
            assert len(reader.rows(ALL)) in (2 * ended, 2 * ended + 2)
        with opened(folder / "list.db") as database:
            keys = [key for key, _ in database.rows(ALL)]
            assert keys == list(range(1, len(keys) + 1))
            assert len(keys) in (2 * ended, 2 * ended + 2)
            seen.add((ended, len(keys)))
            database.execute(ADD, 99, b"")
    assert {(0, 0), (1, 2), (2, 4)} <= seen


def test_a_table_s_statement_that_is_no_text_is_damage(path: Path) -> None:
    opened(path).close()
    content = bytearray(path.read_bytes())
    place = content.index(b"CREATE TABLE pairs")
    content[place : place + 12] = b"CREATE TABLE"[:11] + b"\xf3"
    path.write_bytes(content)
    with pytest.raises(ListError) as told:
        opened(path)
    assert told.value.code == "list_damaged"
