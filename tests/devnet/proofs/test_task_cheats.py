"""The cheats about tasks behave as described, and each bar fails with a record that breaks it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from devnet.launcher import layout
from devnet.proofs.cheats import task_judgement
from devnet.proofs.cheats.findings import CheatFinding
from devnet.proofs.cheats.task_judgement import (
    CHEAT_SCENES,
    CHECKERS,
    CheatScene,
    TaskSize,
    is_forestalled,
    judge_scene,
)
from devnet.proofs.cheats.tasks import CHAIN_WINDOWS, VALIDATORS, HonestSale, judge_sales
from devnet.stage.actors.task_sale import People, right_states
from devnet.stage.cheating.executors import BENT_STEP, BentRun, BitInOneWeight, SkippedTenth, declared_steps
from devnet.stage.measuring.claim_money import CheckMoney
from devnet.stage.measuring.ledger import EventTrace
from devnet.stage.measuring.task_claims import ReckonedSlot, TaskCheats
from devnet.stage.measuring.task_ledger import CHECK_PAY, TaskLedger, TaskLoss, TaskMove, TaskSums
from devnet.stage.network import CHEAT, CUSTOMER
from genesis import dev_accounts
from genesis.chain import genesis_state, runtime_of
from genesis.presets import load_spec, validator_names
from gpu_tasks.client.tasks.orders import load, load_input
from gpu_tasks.market.claims.claims import CheckEnd
from gpu_tasks.market.training.events import MilestoneReported, SlotSettled
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Milestone
from gpu_tasks.provider.execution.executor import LaterState
from gpu_tasks.tasks.canonical import prepare
from gpu_tasks.workloads.fingerprints import first_trail
from gpu_tasks.workloads.train_int8.backends import arithmetic
from gpu_tasks.workloads.train_int8.service import IntegerTraining

TASK, ROOT, DEVICE = b"\1" * 32, b"\2" * 32, b"\3" * 32
NAMES = ("Alice", "Bob", "Charlie", "Dave", "Eve", "Ferdie", "Node7", "Node8")
TRAINING = IntegerTraining(arithmetic("numpy"))


class Honest:
    """An executor that computes here."""

    async def advance(self, request: bytes, state: bytes, steps: int, trail: bytes | None = None) -> LaterState:
        assert trail is not None
        later, trail = TRAINING.begin(request).trailed(state, steps, trail)
        return LaterState(later, declared_steps(later), trail)


def request_of(path: Path) -> bytes:
    file = load(path)
    assert file.task.seed is not None
    return prepare(file, load_input(path, file), file.task.seed).request


def run(kind: type[BentRun], request: bytes, trails: list[bytes] | None = None) -> list[bytes]:
    """Return the states of a wrong run, segment by segment. The trails of its segments are added to `trails`."""
    right = TRAINING.begin(request)
    bent = kind(Honest())  # type: ignore[arg-type]  # it advances, and no more
    found, trails = [right.initial_state()], [] if trails is None else trails
    for index in range(right.segments):
        steps = right.boundary(index + 1) - right.boundary(index)
        later = asyncio.run(bent.advance(request, found[-1], steps, first_trail(found[-1])))
        assert later.trail is not None
        trails.append(later.trail)
        assert later.done == declared_steps(later.state) == right.boundary(index + 1) == right.steps_done(later.state)
        found.append(later.state)
    return found


def wrong_segments(request: bytes, found: list[bytes]) -> list[int]:
    """Return the segments that do not lead from a state to the next."""
    right = TRAINING.begin(request)
    steps = [right.boundary(index + 1) - right.boundary(index) for index in range(right.segments)]
    return [index for index, each in enumerate(steps) if right.advance(found[index], each) != found[index + 1]]


def test_a_bit_in_one_weight_is_wrong_in_the_segment_of_its_step_alone(tmp_path: Path) -> None:
    size = TaskSize()
    request = request_of(task_judgement.write_task_file(tmp_path, "bit", size))
    assert wrong_segments(request, run(BitInOneWeight, request)) == [(BENT_STEP - 1) // size.segment]


def test_a_skipped_tenth_is_wrong_in_the_last_tenth(tmp_path: Path) -> None:
    request = request_of(task_judgement.write_task_file(tmp_path, "tenth", TaskSize(steps=100)))
    assert wrong_segments(request, run(SkippedTenth, request)) == [9]


def test_a_skipped_segment_has_the_trail_of_no_step(tmp_path: Path) -> None:
    request = request_of(task_judgement.write_task_file(tmp_path, "trails", TaskSize(steps=100)))
    trails: list[bytes] = []
    states = run(SkippedTenth, request, trails)
    right = TRAINING.begin(request)
    expected = [right.trailed(state, 10, first_trail(state))[1] for state in states[:-1]]
    assert trails == [*expected[:-1], first_trail(states[-2])]


def test_the_right_run_of_an_order_is_the_workloads(tmp_path: Path) -> None:
    path = task_judgement.write_task_file(tmp_path, "right", TaskSize())
    assert right_states(path) == run(BentRun, request_of(path))


def test_the_checkers_of_the_scenes_are_the_networks(tmp_path: Path) -> None:
    assert ("Alice", *CHECKERS) == validator_names(VALIDATORS, (CHEAT, CUSTOMER))


def test_the_windows_of_the_network_are_numbers_of_a_chain(tmp_path: Path) -> None:
    net = layout.create(tmp_path / "net", 5, providers=True, any_ports=True, numbers=CHAIN_WINDOWS)
    spec = load_spec(net.chain_spec.read_bytes())
    known = runtime_of(spec).parameters
    assert known.values_at_genesis(CHAIN_WINDOWS).items() >= CHAIN_WINDOWS.items()
    assert genesis_state(spec)


# --------------------------------------------------------------------------------------------------------------- bars


class SceneOfATest:
    """A chain's record of a scene without any failure."""

    def __init__(self, name: str, losses: list[TaskLoss] | None = None) -> None:
        self.scene: CheatScene = next(scene for scene in CHEAT_SCENES if scene.name == name)
        settled = [SlotSettled(TASK, 0, stash(who), outcome, 0, 0) for who, outcome in self.scene.slots]
        self.trace = EventTrace([(9, event) for event in settled])
        taken = [loss(self.scene.cheats[0], what) for what in self.scene.taken]
        self.sums = TaskSums([TaskMove(9, each.account, -each.taken, each.what) for each in taken], losses or taken)
        self.attempts: list[dict[str, Any]] = []

    def failures(self) -> list[str]:
        return self.finding().failures

    def finding(self) -> CheatFinding:
        ledger = TaskLedger(9, {TASK: self.trace}, {TASK: self.sums})
        people = People({name: (stash(name),) for name in NAMES})
        people.wealth_before = dict.fromkeys(NAMES, 1_000)
        people.wealth_after = {name: 1_000 + ledger.moved(stash(name)) for name in NAMES}
        return judge_scene(self.scene, TASK, ledger, people, self.attempts)


def stash(name: str) -> bytes:
    return dev_accounts.stash(name)


def loss(name: str, what: str, taken: int = 20) -> TaskLoss:
    return TaskLoss(9, stash(name), what, taken, 20)


def said(seen: SceneOfATest, wanted: str) -> bool:
    return any(wanted in failure for failure in seen.failures())


def refused(what: str = "TrainingMarket.reveal_bid", answer: str = "no") -> dict[str, Any]:
    return {"what": what, "answer": answer, "unit": "0x"}


@pytest.mark.parametrize(
    "name", ["bit-in-one-weight", "different-results", "false-checkers", "false-dispute", "unrevealed-bid"]
)
def test_a_cheat_that_was_dealt_with_breaks_no_bar(name: str) -> None:
    assert SceneOfATest(name).failures() == []


def test_what_a_cheat_gained_is_told_in_grains() -> None:
    seen = SceneOfATest("unrevealed-bid")
    assert seen.finding().gained == -20


def test_another_end_than_the_scenes_is_said() -> None:
    seen = SceneOfATest("bit-in-one-weight")
    seen.trace.happened = [(9, SlotSettled(TASK, 0, stash("Eve"), TaskOutcome.ON_TIME, 0, 0))]
    assert said(seen, "['Eve ON_TIME']")


def test_who_is_honest_and_loses_something_is_said() -> None:
    seen = SceneOfATest("unrevealed-bid", [loss("Eve", "NOT_REVEALED"), loss("Alice", "LATE", 1)])
    assert said(seen, "Alice is honest and lost 1 grains: LATE")


def test_another_sum_than_the_tables_is_said() -> None:
    assert said(SceneOfATest("unrevealed-bid", [loss("Eve", "NOT_REVEALED", 19)]), "19 taken, 20 expected")


def test_a_cheat_that_keeps_everything_is_said() -> None:
    seen = SceneOfATest("unrevealed-bid")
    seen.sums = TaskSums()
    assert said(seen, "taken for ()")


def test_a_cheat_that_gains_is_said_unless_it_checks_other_results() -> None:
    seen = SceneOfATest("false-dispute")
    seen.sums.moves.append(TaskMove(9, stash("Ferdie"), 100, CHECK_PAY))
    assert seen.failures() == []
    seen.sums.moves.append(TaskMove(9, stash("Ferdie"), 21, "ON_TIME"))
    assert said(seen, "Ferdie gained 1 grains")


def test_an_attempt_that_the_chain_took_is_said() -> None:
    seen = SceneOfATest("copied-bid")
    seen.attempts = [refused()]
    assert seen.failures() == []
    seen.attempts = [refused(answer="accepted")]
    assert said(seen, "0 of 1 attempts")
    seen.attempts = []
    assert said(seen, "nothing was tried")


def test_a_milestone_that_got_in_twice_is_said() -> None:
    seen = SceneOfATest("replayed-milestone")
    seen.attempts = [refused("TrainingMarket.report_milestone"), refused("attestation", "the pool has it")]
    reported = (5, MilestoneReported(TASK, 0, Milestone(1, ROOT, 0, ROOT)))
    seen.trace.happened.append(reported)
    assert seen.failures() == []
    seen.trace.happened.append(reported)
    assert said(seen, "1 of 2 attempts")


@pytest.mark.parametrize(
    ("name", "end", "is_expected"),
    [
        ("bit-in-one-weight", CheckEnd.UPHELD, True),
        ("bit-in-one-weight", CheckEnd.PASSED, False),
        ("skipped-tenth", CheckEnd.UPHELD, False),
    ],
)
def test_a_check_that_comes_before_its_customer_forestalls_a_scene(
    name: str, end: CheckEnd, *, is_expected: bool
) -> None:
    seen = SceneOfATest(name)
    ledger, claim = TaskLedger(9), ReckonedSlot(cheats=TaskCheats(), task=TASK)
    claim.checks = [CheckMoney(stash("Bob"), 5, end=end)]
    ledger.claims.claims[b"c" * 32] = claim
    assert is_forestalled(seen.scene, TASK, ledger) is is_expected


# ------------------------------------------------------------------------------------------------------------- honest


def honest_finding(outcome: TaskOutcome, losses: list[TaskLoss], extra: int = 0) -> list[str]:
    sale = HonestSale(0, "Alice", TASK)
    trace = EventTrace([(9, SlotSettled(TASK, 0, stash("Alice"), outcome, 0, 0))])
    book = TaskLedger(9, {TASK: trace}, {TASK: TaskSums([TaskMove(9, stash("Alice"), 98, "ON_TIME")], losses)})
    people = People({"Alice": (stash("Alice"),)}, {"Alice": 5}, {"Alice": 103 + extra})
    return judge_sales([sale], book, people).failures


def test_honest_tasks_break_no_bar_and_a_grain_that_is_missing_does() -> None:
    assert honest_finding(TaskOutcome.ON_TIME, []) == []
    assert honest_finding(TaskOutcome.ON_TIME, [], -1) == ["Alice has 97 grains more, and tasks and fees come to 98"]


def test_honest_tasks_that_cost_their_provider_something_are_said() -> None:
    late = honest_finding(TaskOutcome.LATE, [loss("Alice", "LATE")])
    assert late == ["task 1 of Alice ended as ['LATE'] ", "Alice is honest and lost 20 grains: LATE"]
