"""Cases of honest parties pass, with kills and lost files too. A wrong backend, a lost journal and a flip are found."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from gpu_tasks.provider.journal.schema import JOURNAL_FILE
from gpu_tasks.workloads.matmul_hash.service import MatmulHash
from gpu_tasks.workloads.train_int8.arithmetic import Tensor
from gpu_tasks.workloads.train_int8.backends import FloatArithmetic
from gpu_tasks.workloads.train_int8.service import IntegerTraining
from gpu_tasks.workloads.train_int8.training_step import WEIGHT_LIMIT
from scripts.conformance.planted import planted_chain
from simulation.honest import play
from simulation.honest.__main__ import problems_of, summary
from simulation.honest.bit_flips import Flipping, flipped
from simulation.honest.machines import Kill, Killed, lose_a_file
from simulation.honest.parts import FLIP, TASK, UNIT, Part, parts_of
from simulation.honest.play import (
    CHECKER,
    PROVIDER,
    SAMPLES,
    Tally,
    TaskCase,
    UnitCase,
    Workshop,
    play_flip,
    play_honest,
    played,
)
from simulation.honest.work import Kind

FAST = ("matmul-hash", "render-tile", "train-int8")
BACKENDS = ("numpy", "reference")


class WrongTraining(FloatArithmetic):
    """Flips one bit of each weight matrix that it writes."""

    def clamp(self, values: Tensor, low: int, high: int) -> Tensor:
        held = np.array(super().clamp(values, low, high))
        if high == WEIGHT_LIMIT:
            held[0, 0] ^= 1
        return held


@cache
def all_kinds(folder: Path) -> Workshop:
    return Workshop(folder, BACKENDS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("honest")


@pytest.fixture
def shop(folder: Path) -> Iterator[Workshop]:
    """Yield a workshop without models, which take seconds to open."""
    found = all_kinds(folder)
    kinds = found.kinds
    found.kinds = tuple(kind for kind in kinds if kind.form.name in FAST)
    yield found
    found.kinds, found.planted = kinds, {}


def kind(shop: Workshop, name: str) -> Kind:
    return next(each for each in shop.kinds if each.form.name == name)


@pytest.mark.parametrize("is_task", [False, True])
def test_no_honest_party_loses(shop: Workshop, is_task: bool) -> None:
    tally = Tally()
    for number in range(12):
        play_honest(shop, f"test/{number}", tally, is_task=is_task)
    assert tally.failures == []
    assert tally.events["kills"]
    assert tally.events["checks"] >= 12
    assert sum(tally.cases.values()) == 12


def test_a_case_repeats(shop: Workshop) -> None:
    tallies = Tally(), Tally()
    for tally in tallies:
        play_honest(shop, "test/again", tally, is_task=True)
    assert tallies[0] == tallies[1]


def test_a_wrong_backend_convicts_its_party(shop: Workshop) -> None:
    shop.planted["matmul-hash", "numpy"] = MatmulHash(planted_chain)
    shop.kinds = (kind(shop, "matmul-hash"),)
    tally = Tally()
    for number in range(8):
        play_honest(shop, f"planted/{number}", tally, is_task=False)
    assert any("convicted" in failure for failure in tally.failures)


def test_a_wrong_step_of_a_task_is_found(shop: Workshop) -> None:
    shop.planted["train-int8", "numpy"] = IntegerTraining(WrongTraining())
    shop.kinds = (kind(shop, "train-int8"),)
    tally = Tally()
    for number in range(8):
        play_honest(shop, f"planted/{number}", tally, is_task=True)
    assert tally.failures


@pytest.mark.parametrize("is_task", [False, True])
def test_a_lost_file_convicts_nobody(shop: Workshop, monkeypatch: pytest.MonkeyPatch, is_task: bool) -> None:
    monkeypatch.setattr(play, "LOSS_SHARE", 1.0)
    tally = Tally()
    for number in range(10):
        play_honest(shop, f"lost/{number}", tally, is_task=is_task)
    assert tally.failures == []
    assert tally.events["lost state" if is_task else "lost blobs"]


def test_a_lost_journal_silences_a_provider(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal has the promises, so nothing replaces it. The cases must notice."""

    def lose(folder: Path, _chance: Random) -> str:
        for path in folder.glob(f"{JOURNAL_FILE}*"):
            path.unlink()
        return JOURNAL_FILE

    monkeypatch.setattr(play, "LOSS_SHARE", 1.0)
    monkeypatch.setattr(play, "lose_a_file", lose)
    tally = Tally()
    for number in range(10):
        play_honest(shop, f"journal/{number}", tally, is_task=False)
    assert any("provider is silent" in failure for failure in tally.failures)


def test_only_the_party_with_a_flipped_bit_pays(shop: Workshop) -> None:
    tally = Tally()
    for number in range(40):
        play_flip(shop, f"flip/{number}", tally, is_task=number % 2 == 1)
    assert tally.failures == []
    assert sum(tally.flips.values()) == 40
    assert tally.flips[f"{PROVIDER}: provider convicted"]
    assert tally.flips[f"{SAMPLES}: provider convicted"]


@pytest.mark.parametrize("make", [UnitCase, TaskCase])
def test_a_flip_in_a_case_of_its_own(shop: Workshop, make: type[UnitCase | TaskCase]) -> None:
    """The provider of a wrong result loses, and a checker's wrong first computation costs it no accusation."""
    outcomes = set()
    for number in range(1, 30):
        flipping = Flipping(number, Random(number))
        case = make(
            shop, kind(shop, "train-int8"), Random("one"), Tally(), has_kills=False,
            flip=PROVIDER if number % 2 else CHECKER, flipping=flipping,
        )  # fmt: skip
        outcomes.add((case.flip, played(case)))
    assert (PROVIDER, "provider convicted") in outcomes
    assert (CHECKER, "provider convicted") not in outcomes


@pytest.mark.parametrize(
    "values", [b"abc", np.arange(6).reshape(2, 3), np.array([True, False]), np.array([1.5, 2.0])], ids=repr
)
def test_a_flip_changes_one_bit(values: Any) -> None:
    changed = flipped(values, Random(1))
    before, after = (each if isinstance(each, bytes) else each.tobytes() for each in (values, changed))
    assert sum((left ^ right).bit_count() for left, right in zip(before, after, strict=True)) == 1
    assert flipped(b"", Random(1)) == b""


def test_a_flipping_backend_flips_once() -> None:
    flipping = Flipping(2, Random(1))
    copied = flipping.wrap(bytes)
    assert [copied(b"same") == b"same" for _ in range(4)] == [True, False, True, True]
    assert flipping.seen == 4


def test_a_kill_ends_every_later_operation() -> None:
    kill = Kill(left=2)
    kill.point()
    for _ in range(2):
        with pytest.raises(Killed):
            kill.point()
    Kill().point()


def test_nothing_is_lost_of_an_empty_folder(tmp_path: Path) -> None:
    assert lose_a_file(tmp_path, Random(1)) == ""


def test_the_parts_of_a_run_are_all_its_cases() -> None:
    parts = list(parts_of(3, {UNIT: 260, TASK: 10, FLIP: 0}))
    assert parts == [Part(3, UNIT, 0, 250), Part(3, TASK, 0, 10), Part(3, UNIT, 250, 10)]


def test_a_run_that_proves_little_fails() -> None:
    tally = Tally()
    tally.cases["matmul-hash, units"] = 1
    found = problems_of(tally, 7)
    assert len(found) == 3
    assert summary(tally, 2.0).startswith("honest: 0 honest parties slashed or silent in 1 units and 0 tasks")
