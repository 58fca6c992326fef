"""Disputes of results and of answers: cost, named segment or answer, and bond."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from cli import calls
from cli import session as of_commands
from error_codes import ended_code, raises_code
from fake_work import FakeForm
from genesis import dev_accounts
from gpu_tasks.batches.leaves import leaves_of
from gpu_tasks.batches.sum_tree import batch_root, leaf_claim, totals_of
from gpu_tasks.client.commands import dispute
from gpu_tasks.client.commands import dispute as disputing
from gpu_tasks.client.commands.id_prefixes import known_task
from gpu_tasks.client.units import leaf_checks
from gpu_tasks.client.units.leaf_checks import first_wrong, require_disputable, why_checked
from gpu_tasks.client.units.results import PaidOutput, ResultError
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Racer, Reveal, Unit, UnitState, UnitTerms
from gpu_tasks.market.leaf_checks.checks import Answerer, CheckTerms, CheckWindows, LeafCheck, LeafStage
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.training.orders import JURORS
from gpu_tasks.market.training.tasks import Acceptance, Task, TaskResult, TaskState
from gpu_tasks.workloads.form import outcomes_of
from planted_state import chain_with
from planted_tasks import MILESTONES, STATES, PlantedTask, run_blob, run_root
from replica_chain import compute, replicated
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.frame.runtime import Bound
from simulation.chains.market_chain import CUSTOMER, OGPU
from task_chain import RIGHT, WRONG
from task_customer import OF_BOB, ogpu, refusal
from wallet.client import ChainClient
from wallet.trial import TrialError
from wallet_runner import answer

# Results that are disputed: what it costs and brings, which segment is named, and what is computed for it.


@pytest.fixture
def finished(tmp_path: Path, blobs: dict[bytes, bytes]) -> Iterator[tuple[PlantedTask, str]]:
    """A task of which Alice has stated the result."""
    planted = PlantedTask(TaskState.SUBMITTED, result=run_blob(MILESTONES))
    with chain_with(tmp_path, planted) as url:
        yield planted, url


def test_a_result_is_disputed_with_a_bond(tmp_path: Path, finished: tuple[PlantedTask, str]) -> None:
    planted, url = finished
    dry = answer(ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_BOB, "--dry-run"))
    assert float(dry["bond"]["ogpu"]) == pytest.approx(0.1 + 3 * 0.1)
    assert dry["brings_if_won"]["ogpu"] == "1"
    done = answer(ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_BOB, "--yes"))
    assert done["success"] is True
    shown = answer(ogpu(tmp_path, url, "task", "show", planted.name))
    assert (shown["state"], shown["judged_for"]) == ("showing", "dispute")
    assert shown["why"].startswith("its customer disputes the result; the beacon of block ")
    again = ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_BOB, "--yes")
    assert ended_code(again) == "no_open_result"


def computes(monkeypatch: pytest.MonkeyPatch, wrong: int | None) -> None:
    """Replace the computation: it ends at once, and finds this segment of the stated run wrong."""

    async def digests(*_: object) -> tuple[bytes, ...]:
        return ()

    monkeypatch.setattr(disputing, "right_digests", digests)
    monkeypatch.setattr(disputing, "stated_digests", digests)
    monkeypatch.setattr(disputing, "first_wrong_segment", lambda *_: wrong)


@pytest.mark.parametrize("words", [("--segment", "5"), ("--compute",)])
def test_a_dispute_names_the_segment_that_is_wrong(
    tmp_path: Path, finished: tuple[PlantedTask, str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    computes(monkeypatch, 5)
    planted, url = finished
    done = answer(ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_BOB, *words, "--yes"))
    assert done["segment"] == 5
    assert answer(ogpu(tmp_path, url, "task", "show", planted.name))["disputed_segment"] == 5


def test_no_dispute_names_what_is_not_there_or_is_right(
    tmp_path: Path, finished: tuple[PlantedTask, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    computes(monkeypatch, None)
    planted, url = finished
    dispute = ("task", "dispute", planted.name, *OF_BOB, "--dry-run")
    beyond = ogpu(tmp_path, url, *dispute, "--segment", str(len(STATES) - 1))
    assert (ended_code(beyond), f"0 to {len(STATES) - 2}" in beyond.stderr) == ("segment_unknown", True)
    right = answer(ogpu(tmp_path, url, *dispute, "--compute"))
    assert (right["computed"], right["agree"], right["sent"]) == (len(STATES) - 1, len(STATES) - 1, False)
    assert disputing.NOTHING_TO_DISPUTE in right["result"]
    assert ended_code(ogpu(tmp_path, url, *dispute[:-1], "--compute")) == "no_terminal"
    both = ogpu(tmp_path, url, *dispute, "--compute", "--segment", "3")
    assert both.exit_code == 2


def test_of_a_run_without_a_trace_no_segment_is_named(tmp_path: Path) -> None:
    def untraced(task: Task) -> Task:
        return replace(task, order=replace(task.order, segments=0))

    planted = PlantedTask(TaskState.SUBMITTED, result=run_blob(MILESTONES), change=untraced)
    with chain_with(tmp_path, planted) as url:
        dispute = ("task", "dispute", planted.name, *OF_BOB, "--dry-run")
        for words in (("--segment", "0"), ("--compute",)):
            assert ended_code(ogpu(tmp_path, url, *dispute, *words)) == "no_trace"
        assert answer(ogpu(tmp_path, url, *dispute))["segment"] is None


def test_nothing_is_computed_that_cannot_be_disputed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def computed(*_: object) -> None:
        raise AssertionError("hours of it")

    monkeypatch.setattr(disputing, "right_digests", computed)
    accepted = PlantedTask(
        TaskState.SUBMITTED,
        result=run_blob(MILESTONES),
        change=lambda task: replace(task, accepted=Acceptance.ACCEPTED),
    )
    with chain_with(tmp_path, accepted) as url:
        said = ogpu(tmp_path, url, "task", "dispute", accepted.name, *OF_BOB, "--dry-run", "--compute")
    assert ended_code(said) == "already_accepted"


def awaits(monkeypatch: pytest.MonkeyPatch, *states: TaskState) -> None:
    """Each final block shows the task in the next of these states; those that are left over are an error."""
    left = list(states)

    async def shown(client: ChainClient, task_id: bytes, at: bytes) -> Task:
        found = await known_task(client, task_id, at)
        (slot,) = found.slots
        slot = replace(slot, result=TaskResult(run_root(MILESTONES), bytes(32), 7))
        return replace(found, state=left.pop(0), slots=(slot,), finished_at=7)

    async def heads(_: ChainClient) -> AsyncIterator[object]:
        async def each() -> AsyncIterator[object]:
            while left:
                yield None

        return each()

    monkeypatch.setattr(disputing, "known_task", shown)
    monkeypatch.setattr(ChainClient, "finalized_heads", heads)


def test_a_run_that_is_computed_first_waits_for_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computes(monkeypatch, 5)
    planted = PlantedTask(milestone=1, checkpoint=run_blob(1))
    with chain_with(tmp_path, planted) as url:
        dispute = ("task", "dispute", planted.name, *OF_BOB, "--dry-run", "--compute")
        awaits(monkeypatch, TaskState.ASKING, TaskState.STARTING, TaskState.RUNNING, TaskState.SUBMITTED)
        said = ogpu(tmp_path, url, *dispute)
        assert "Waiting for the task's result" in said.stderr
        facts = json.loads(said.stdout)
        assert (facts["segment"], facts["disputable_up_to_block"]) == (5, 7 + 20)
        awaits(monkeypatch, TaskState.RUNNING, TaskState.SHOWING)
        assert "the task is showing" in refusal(ogpu(tmp_path, url, *dispute))


def test_how_much_is_computed_is_said_by_the_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    said = dispute.Tenths(40, "segments")
    for done in range(41):
        said(done)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"note: computed {10 * tenth} % of 40 segments" for tenth in range(11)]


def test_what_a_dispute_costs_and_brings_goes_by_the_price_and_the_collateral(tmp_path: Path) -> None:
    def cheap(task: Task) -> Task:
        (slot,) = task.slots
        terms = replace(task.terms, price_max=2 * task.order.price_max)  # raised since it was ordered
        return replace(task, slots=(replace(slot, price=OGPU // 2, collateral=OGPU),), terms=terms)

    planted = PlantedTask(TaskState.SUBMITTED, result=run_blob(MILESTONES), change=cheap)
    with chain_with(tmp_path, planted) as url:
        dry = answer(ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_BOB, "--dry-run"))
    # a tenth of what is paid, and three judges at a tenth of the greatest price
    assert float(dry["bond"]["ogpu"]) == pytest.approx(0.05 + 3 * 0.2)
    assert dry["brings_if_won"]["ogpu"] == "0.5"
    assert dry["gone_if_lost"] == dry["bond"]


@pytest.mark.parametrize("is_tried", [True, False])
def test_a_dispute_of_many_slots_has_a_bond_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_tried: bool
) -> None:
    async def untried(*_: object) -> None:
        raise TrialError("the node has no state")

    if not is_tried:
        monkeypatch.setattr(calls, "attempt", untried)

    def gang(task: Task) -> Task:
        (slot,) = task.slots
        return replace(task, slots=(slot, replace(slot, price=OGPU // 2, collateral=OGPU)))

    planted = PlantedTask(TaskState.SUBMITTED, result=run_blob(MILESTONES), change=gang)
    with chain_with(tmp_path, planted) as url:
        dry = answer(ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_BOB, "--dry-run"))
    assert float(dry["bond"]["ogpu"]) == pytest.approx(0.1 + 0.05 + 2 * 3 * 0.1)
    assert int(dry["total"]["grains"]) == int(dry["bond"]["grains"]) + int(dry["fee"]["grains"])
    assert dry["gone_if_lost"] == dry["bond"]
    assert dry["brings_if_won"]["ogpu"] == "1.5"


def test_a_dispute_of_copies_locks_what_pays_its_jury() -> None:
    chain, _, whose = replicated()
    compute(chain, whose, RIGHT, WRONG, RIGHT)
    bonds = disputing.bonds_of(chain.now())
    before = chain.free(CUSTOMER.stash)
    chain.dispute()
    assert (len(bonds), sum(bonds)) == (JURORS, before - chain.free(CUSTOMER.stash))


def too_late_after(said: Result) -> int:
    """Return the last block of the dispute window, which a refused dispute names."""
    assert (said.exit_code, ended_code(said)) == (2, "too_late")
    (block,) = re.findall(r"block (\d+)", said.stderr.splitlines()[-1])
    return int(block)


@pytest.mark.parametrize("last", [0, 1])
def test_a_dispute_is_sent_while_the_next_block_may_take_it(tmp_path: Path, last: int) -> None:
    def until(task: Task) -> Task:
        return replace(task, finished_at=last, windows=replace(task.windows, dispute=0))

    planted = PlantedTask(TaskState.SUBMITTED, result=run_blob(MILESTONES), change=until)
    with chain_with(tmp_path, planted) as url:  # whose first block is final
        said = ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_BOB, "--dry-run")
    if last:
        assert answer(said)["disputable_up_to_block"] == last
    else:
        assert too_late_after(said) == last


def test_a_dispute_that_is_late_says_so(tmp_path: Path, blobs: dict[bytes, bytes]) -> None:
    def hurry(task: Task) -> Task:
        return replace(task, windows=replace(task.windows, dispute=0))

    planted = PlantedTask(TaskState.SUBMITTED, result=run_blob(MILESTONES), change=hurry)
    with chain_with(tmp_path, planted, beat_seconds=1.0) as url:
        said = ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_BOB, "--dry-run")
        while not said.exit_code:
            said = ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_BOB, "--dry-run")
        assert too_late_after(said) == 1


def test_a_late_dispute_is_refused_before_anybody_is_asked_or_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def computed(*_: object) -> None:
        raise AssertionError("computed in vain")

    def late(task: Task) -> Task:
        return replace(task, finished_at=0, windows=replace(task.windows, dispute=0))

    monkeypatch.setattr(disputing, "right_digests", computed)
    planted = PlantedTask(TaskState.SUBMITTED, result=run_blob(MILESTONES), change=late)
    with chain_with(tmp_path, planted) as url:
        for words in ([], ["--yes"], ["--dry-run"]):
            said = ogpu(tmp_path, url, "task", "dispute", planted.name, *OF_BOB, "--compute", *words)
            assert too_late_after(said) == 0, "nobody was asked before"


# Answers of a batch that its customer doubts: computed again here, called wrong only where they are, with a bond.


GENESIS, UNIT_ID, SALT = blake2_256(b"genesis"), blake2_256(b"unit"), b"s" * 32
ASKED = tuple(b"complete %d" % number for number in range(20))
WRONG_LEAF = 7
BOB = dev_accounts.stash("Bob")


def paid(wrong: int | None = WRONG_LEAF) -> PaidOutput:
    """Return a provider's answers: each request reversed, and a wrong answer to one."""
    outputs = [request[::-1] + (b"!" if place == wrong else b"") for place, request in enumerate(ASKED)]
    return PaidOutput(ASKED, outcomes_of(FakeForm(), ASKED, outputs), FakeForm(), SALT)


class Computer:
    """A workload that answers rightly, in no order, and counts."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def run_many(self, requests: Sequence[bytes]) -> Iterator[tuple[int, bytes | None]]:
        self.asked += requests
        return ((place, requests[place][::-1]) for place in reversed(range(len(requests))))


@pytest.fixture
def computer(monkeypatch: pytest.MonkeyPatch) -> Computer:
    found = Computer()
    monkeypatch.setattr(FakeForm, "open", lambda *_: found, raising=False)
    return found


def looked(indices: Sequence[int], found: PaidOutput | None = None) -> leaf_checks.WrongLeaf | None:
    return first_wrong(GENESIS, UNIT_ID, found or paid(), indices, "numpy", lambda _: None)


def test_the_first_answer_that_is_another_one_here_is_wrong(computer: Computer) -> None:
    wrong = looked(range(20))
    assert wrong is not None
    assert wrong.index == WRONG_LEAF
    assert computer.asked == list(ASKED)
    said = leaves_of(GENESIS, UNIT_ID, SALT, paid().outcomes)
    call = wrong.dispute(UNIT_ID)
    assert call.arguments[1] == totals_of(said)
    right = leaves_of(GENESIS, UNIT_ID, SALT, paid(None).outcomes)[WRONG_LEAF]
    assert call.arguments[3] == leaf_claim(WRONG_LEAF, right) != leaf_claim(WRONG_LEAF, said[WRONG_LEAF])


def test_only_the_answer_that_is_named_is_computed(computer: Computer) -> None:
    assert looked([3]) is None
    assert computer.asked == [ASKED[3]]
    assert looked(range(20), paid(None)) is None


def test_what_cannot_be_computed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with raises_code(ResultError, "no_such_leaf"):
        looked([20])
    with raises_code(ResultError, "unknown_workload"):
        looked([0], replace(paid(), form=None))

    def nothing(*_: object) -> Any:
        raise LookupError("no backend torch-cuda:0")

    monkeypatch.setattr(FakeForm, "open", nothing, raising=False)
    with pytest.raises(ResultError, match=r"torch-cuda:0\b.*--backend"):
        looked([0])


def a_check(stage: LeafStage = LeafStage.OPEN, deadline: int = 50) -> LeafCheck:
    said = leaves_of(GENESIS, UNIT_ID, SALT, paid().outcomes)
    alice = dev_accounts.stash("Alice")
    price = GRAINS_PER_OGPU
    terms = CheckTerms(
        InferenceMarket.index, BOB, batch_root(totals_of(said)), len(ASKED), 640, 0, price,
        3 * price, price // 16, price // 2, 50_000, 0, 30, (alice,), (Answerer(alice, 0),),
    )  # fmt: skip
    return LeafCheck(terms, CheckWindows(300, 40, 20), 1, stage=stage, deadline=deadline)


def a_unit(**changed: Any) -> Unit:
    terms = UnitTerms(GRAINS_PER_OGPU, 1, bytes(32), bytes(32), 0, 640, len(ASKED))
    root = batch_root(totals_of(leaves_of(GENESIS, UNIT_ID, SALT, paid().outcomes)))
    racer = Racer(dev_accounts.stash("Alice"), bytes(32), 0, bytes(32), 1, Reveal(root, bytes(32), 210, 1))
    unit = Unit(0, BOB, terms, 0, 0, 0, 0, 0, UnitState.SETTLED, racers=(racer,), output_root=root)
    return replace(unit, **{"is_watched": True, "leaf_audit_ppm": 50_000, **changed})


@pytest.mark.parametrize(
    ("unit", "check", "height", "code"),
    [
        (a_unit(leaf_audit_ppm=0), None, 10, "leaves_not_checked"),
        (a_unit(), None, 10, "check_ended"),
        (a_unit(), a_check(), 50, "dispute_time_over"),
    ],
)
def test_why_no_leaf_can_be_disputed_now(unit: Unit, check: LeafCheck | None, height: int, code: str) -> None:
    with raises_code(ResultError, code):
        require_disputable(unit, check, height)


def test_a_leaf_can_be_disputed_in_the_last_block_of_the_window() -> None:
    assert require_disputable(a_unit(), a_check(), 49) == a_check()


@pytest.mark.parametrize("stage", list(LeafStage))
def test_every_stage_of_a_check_is_said(stage: LeafStage) -> None:
    assert "{" not in why_checked(a_check(stage=stage))


@pytest.fixture
def url(tmp_path: Path, computer: Computer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A chain on which Bob may dispute a batch."""
    del computer

    async def fetched(*_: object) -> PaidOutput:
        return paid()

    def plant(bound: Bound) -> None:
        bound[InferenceMarket].units[UNIT_ID] = a_unit()
        bound[LeafChecks].checks[UNIT_ID] = a_check()

    monkeypatch.setattr(dispute, "paid_output", fetched)
    # a state that holds its own genesis hash cannot be made
    monkeypatch.setattr(dispute, "first_wrong", lambda _, *rest: first_wrong(GENESIS, *rest))
    with chain_with(tmp_path, plant) as found:
        yield found


def test_a_wrong_answer_is_disputed_with_a_bond_and_a_right_one_is_not(tmp_path: Path, url: str) -> None:
    unit = "0x" + UNIT_ID.hex()
    dry = answer(ogpu(tmp_path, url, "unit", "dispute", unit, *OF_BOB, "--compute", "--dry-run"))
    assert (dry["leaf"], dry["bond"]["ogpu"], dry["brings_if_won"]["ogpu"]) == (WRONG_LEAF, "2.5", "1")
    assert dry["disputable_up_to_block"] == 50
    right = ogpu(tmp_path, url, "unit", "dispute", unit, *OF_BOB, "--leaf", "3", "--yes")
    assert ended_code(right) == "answer_right"
    for words in ([], ["--segment", "3"], ["--leaf", "3", "--compute"]):
        assert ogpu(tmp_path, url, "unit", "dispute", unit, *OF_BOB, *words, "--yes").exit_code == 2


def test_a_batch_that_is_right_is_said_to_be_and_nothing_is_sent(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disputer that finds no fault has nothing to correct, so no call is sent."""

    async def right(*_: object) -> PaidOutput:
        return paid(None)

    monkeypatch.setattr(dispute, "paid_output", right)
    for words in (["--yes"], ["--dry-run"]):
        found = answer(ogpu(tmp_path, url, "unit", "dispute", "0x" + UNIT_ID.hex(), *OF_BOB, "--compute", *words))
        assert (found["computed"], found["agree"], found["sent"]) == (20, 20, False)
        assert disputing.NOTHING_TO_DISPUTE in found["result"]
        assert "call" not in found


def test_while_it_computes_no_node_is_blamed(
    tmp_path: Path, url: str, computer: Computer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_commands, "WAIT_SECONDS", 0.1)
    monkeypatch.setattr(Computer, "run_many", slowly(Computer.run_many))
    found = ogpu(tmp_path, url, "unit", "dispute", "0x" + UNIT_ID.hex(), *OF_BOB, "--compute", "--dry-run")
    assert answer(found)["leaf"] == WRONG_LEAF
    assert "20 requests on numpy" in found.stderr
    assert computer.asked


def slowly(run: Callable[..., Any]) -> Callable[..., Any]:
    """As `run`, for longer than a command is silent; it blocks, as computing does."""

    def slow(*given: Any) -> Any:
        time.sleep(0.35)
        return run(*given)

    return slow


def test_who_computes_while_a_check_goes_on_waits_until_leaves_can_be_disputed(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time to dispute is 20 blocks: nobody computes 4,096 requests in it, or is there just then."""
    stages = [LeafStage.SHOWING, LeafStage.CHECKING, LeafStage.CHECKING, LeafStage.PROVING, LeafStage.OPEN]
    looks: list[LeafStage] = []

    async def looked_at(*_: object) -> LeafCheck:
        looks.append(stages[min(len(looks), len(stages) - 1)])
        return a_check(looks[-1])

    async def at_once(_: object) -> AsyncIterator[None]:
        while True:
            yield

    monkeypatch.setattr(market_reads, "check", looked_at)
    monkeypatch.setattr(dispute, "moments", at_once)
    found = ogpu(tmp_path, url, "unit", "dispute", "0x" + UNIT_ID.hex(), *OF_BOB, "--compute", "--dry-run")
    assert answer(found)["leaf"] == WRONG_LEAF
    assert looks == stages
    assert found.stderr.count("a wrong answer is found") == 2


def test_a_check_that_ends_meanwhile_is_told(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = iter([a_check(LeafStage.DOUBTED), None])

    async def looked_at(*_: object) -> LeafCheck | None:
        return next(checks)

    monkeypatch.setattr(market_reads, "check", looked_at)
    said = refusal(ogpu(tmp_path, url, "unit", "dispute", "0x" + UNIT_ID.hex(), *OF_BOB, "--compute", "--yes"))
    assert "the check of the unit has ended" in said


def test_a_dispute_whose_time_ends_while_this_machine_computes_is_not_sent(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be refused by the chain, and cost its fee."""
    fetched: list[PaidOutput] = []
    read = market_reads.check

    async def slowly(*_: object) -> PaidOutput:
        fetched.append(paid())
        return fetched[0]

    async def ended_since(*asked: Any) -> LeafCheck | None:
        return None if fetched else await read(*asked)

    monkeypatch.setattr(dispute, "paid_output", slowly)
    monkeypatch.setattr(market_reads, "check", ended_since)
    said = refusal(ogpu(tmp_path, url, "unit", "dispute", "0x" + UNIT_ID.hex(), *OF_BOB, "--compute", "--dry-run"))
    assert "the check of the unit has ended" in said
    assert fetched


def test_a_late_dispute_is_refused_before_anybody_is_asked_or_anything_is_fetched(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetched(*_: object) -> PaidOutput:
        raise AssertionError("fetched in vain")

    async def ended(*_: object) -> None:
        return None

    monkeypatch.setattr(dispute, "paid_output", fetched)
    monkeypatch.setattr(market_reads, "check", ended)
    for words in (["--compute"], ["--leaf", "3"]):
        said = refusal(ogpu(tmp_path, url, "unit", "dispute", "0x" + UNIT_ID.hex(), *OF_BOB, *words))
        assert ("the check of the unit has ended" in said, "--yes" in said) == (True, False)
