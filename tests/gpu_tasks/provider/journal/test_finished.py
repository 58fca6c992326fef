"""The finished requests of a batch, over restarts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from durable.database import Database
from gpu_tasks.provider.journal.finished import FinishedRequests, all_finished, forget, forget_others
from gpu_tasks.provider.journal.records import Basis
from gpu_tasks.provider.journal.schema import open_journal
from killed_commits import Deeds, lives

UNIT, OTHER = b"u" * 32, b"o" * 32
BASIS = Basis(b"i" * 32, b"c" * 32, b"w" * 32, b"m" * 32)
DONE: list[tuple[int, bytes | None]] = [(3, b"three"), (0, None), (1, b"")]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with open_journal(tmp_path / "j") as opened:
        yield opened


def kept(database: Database, basis: Basis = BASIS, unit: bytes = UNIT) -> FinishedRequests:
    return FinishedRequests(database, unit, basis)


def test_what_is_done_is_there_after_a_restart(database: Database) -> None:
    first = kept(database)
    assert first.outputs == {}
    first.append(DONE[:2])
    first.append(DONE[2:])
    with open_journal(database.path, is_reader=True) as reader:
        assert first.outputs == kept(reader).outputs == dict(DONE)
        assert all_finished(reader) == [(UNIT, place) for place, _ in DONE]


def test_of_another_input_workload_or_unit_nothing_is_known(database: Database) -> None:
    kept(database).append(DONE)
    for other in (
        Basis(b"x" * 32, BASIS.input_commitment, BASIS.workload, BASIS.model),
        Basis(BASIS.input_root, b"x" * 32, BASIS.workload, BASIS.model),
        Basis(BASIS.input_root, BASIS.input_commitment, b"x" * 32, BASIS.model),
        Basis(BASIS.input_root, BASIS.input_commitment, BASIS.workload, b"x" * 32),
    ):
        assert kept(database, other).outputs == {}
    assert kept(database, unit=OTHER).outputs == {}


def batch(folder: Path) -> Deeds:
    """Finish three requests, two of them at once."""
    requests = kept(open_journal(folder / "j"))
    yield lambda: requests.append(DONE[:2])
    yield lambda: requests.append(DONE[2:])


def test_a_kill_loses_the_last_part_at_most(tmp_path: Path) -> None:
    for folder, ended in lives(batch, tmp_path):
        with open_journal(folder / "j") as database:
            assert len(kept(database).outputs) in ((0, 2), (2, 3), (3,))[ended]
            kept(database).append([(7, b"seven")])
            assert kept(database).outputs[7] == b"seven"


def test_a_unit_is_forgotten_and_no_other(database: Database) -> None:
    kept(database).append(DONE)
    kept(database, unit=OTHER).append(DONE)
    forget(database, UNIT)
    assert (kept(database).outputs, kept(database, unit=OTHER).outputs) == ({}, dict(DONE))
    forget_others(database, [OTHER])
    assert kept(database, unit=OTHER).outputs == dict(DONE)
    forget_others(database, [UNIT])
    assert kept(database, unit=OTHER).outputs == {}
    forget_others(database, [])
