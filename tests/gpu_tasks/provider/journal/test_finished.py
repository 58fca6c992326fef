"""The files of a finished batch, through crashes at any byte."""

from pathlib import Path

import pytest

from gpu_tasks.provider.journal import finished
from gpu_tasks.provider.journal.finished import FinishedRequests, forget, forget_others
from gpu_tasks.provider.journal.records import Basis

UNIT, OTHER = b"u" * 32, b"o" * 32
BASIS = Basis(b"i" * 32, b"c" * 32, b"w" * 32, b"m" * 32)
DONE: list[tuple[int, bytes | None]] = [(3, b"three"), (0, None), (1, b"")]


def kept(base: Path, basis: Basis = BASIS, unit: bytes = UNIT) -> FinishedRequests:
    return FinishedRequests(base, unit, basis)


def test_what_is_done_is_there_after_a_restart(tmp_path: Path) -> None:
    first = kept(tmp_path)
    assert first.outputs == {}
    first.append(DONE[:2])
    first.append(DONE[2:])
    assert first.outputs == kept(tmp_path).outputs == dict(DONE)
    assert first.path.stat().st_mode & 0o777 == 0o600


def test_of_another_input_workload_or_unit_nothing_is_known(tmp_path: Path) -> None:
    kept(tmp_path).append(DONE)
    for other in (
        Basis(b"x" * 32, BASIS.input_commitment, BASIS.workload, BASIS.model),
        Basis(BASIS.input_root, b"x" * 32, BASIS.workload, BASIS.model),
        Basis(BASIS.input_root, BASIS.input_commitment, b"x" * 32, BASIS.model),
        Basis(BASIS.input_root, BASIS.input_commitment, BASIS.workload, b"x" * 32),
    ):
        assert kept(tmp_path, other).outputs == {}
    assert kept(tmp_path, unit=OTHER).outputs == {}


def test_a_crash_at_any_byte_loses_the_last_part_at_most_and_nothing_behind_it(tmp_path: Path) -> None:
    whole = kept(tmp_path)
    whole.append(DONE)
    data = whole.path.read_bytes()
    for length in range(len(data)):
        whole.path.write_bytes(data[:length])
        torn = kept(tmp_path)
        assert list(torn.outputs.items()) == DONE[: len(torn.outputs)]
        torn.append([(7, b"seven")])
        assert kept(tmp_path).outputs == {**torn.outputs, 7: b"seven"}


def test_damage_costs_what_stands_behind_it_and_a_place_that_no_batch_has_is_passed_over(tmp_path: Path) -> None:
    whole = kept(tmp_path)
    whole.append([(4_096, b"x"), *DONE])
    assert kept(tmp_path).outputs == dict(DONE)
    data = bytearray(whole.path.read_bytes())
    data[-1] ^= 1
    whole.path.write_bytes(bytes(data))
    assert kept(tmp_path).outputs == dict(DONE[:2])


def test_no_file_takes_more_memory_than_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = kept(tmp_path)
    whole.append(DONE)
    monkeypatch.setattr(finished, "FILE_BYTES_MAX", whole.path.stat().st_size - 1)
    assert kept(tmp_path).outputs == dict(DONE[:2])


def test_a_unit_is_forgotten_and_no_other(tmp_path: Path) -> None:
    kept(tmp_path).append(DONE)
    kept(tmp_path, unit=OTHER).append(DONE)
    forget(tmp_path, UNIT)
    assert (kept(tmp_path).outputs, kept(tmp_path, unit=OTHER).outputs) == ({}, dict(DONE))
    forget_others(tmp_path, [OTHER])
    assert kept(tmp_path, unit=OTHER).outputs == dict(DONE)
    forget_others(tmp_path, [UNIT])
    assert kept(tmp_path, unit=OTHER).outputs == {}
    forget(tmp_path / "nothing", UNIT)
    forget_others(tmp_path / "nothing", [])
