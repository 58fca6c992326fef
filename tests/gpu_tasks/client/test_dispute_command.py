"""Results that are disputed: what it costs and brings, which segment is named, and what is computed for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cli import calls
from gpu_tasks.client.commands import dispute
from gpu_tasks.client.commands import dispute as disputing
from gpu_tasks.client.commands.id_prefixes import known_task
from gpu_tasks.market.training.orders import JURORS
from gpu_tasks.market.training.tasks import Acceptance, Task, TaskResult, TaskState
from planted_state import chain_with
from planted_tasks import MILESTONES, STATES, PlantedTask, run_blob, run_root
from replica_chain import compute, replicated
from simulation.chains.market_chain import CUSTOMER, OGPU
from task_chain import RIGHT, WRONG
from task_customer import OF_BOB, ogpu, refusal
from wallet.client import ChainClient
from wallet.trial import TrialError
from wallet_runner import answer


@pytest.fixture
def finished(tmp_path: Path, blobs: dict[bytes, bytes]) -> Iterator[tuple[PlantedTask, str]]:
    """A task of which Alice has stated the result."""
    planted = PlantedTask(TaskState.SUBMITTED, result=run_blob(MILESTONES))
    with chain_with(tmp_path, planted) as url:
        yield planted, url


def test_a_result_is_disputed_with_a_bond(tmp_path: Path, finished: tuple[PlantedTask, str]) -> None:
    planted, url = finished
    dry = answer(ogpu(tmp_path, url, "dispute", planted.name, *OF_BOB, "--dry-run"))
    assert float(dry["bond"]["ogpu"]) == pytest.approx(0.1 + 3 * 0.1)
    assert dry["brings_if_won"]["ogpu"] == "1"
    done = answer(ogpu(tmp_path, url, "dispute", planted.name, *OF_BOB, "--yes"))
    assert done["success"] is True
    shown = answer(ogpu(tmp_path, url, "describe", planted.name))
    assert (shown["state"], shown["judged_for"]) == ("showing", "dispute")
    assert shown["why"].startswith("its customer disputes the result; the beacon of block ")
    again = refusal(ogpu(tmp_path, url, "dispute", planted.name, *OF_BOB, "--yes"))
    assert "the task is showing: its customer disputes the result" in again


def computes(monkeypatch: pytest.MonkeyPatch, wrong: int | None) -> None:
    """The run is computed at once, and this segment of what is stated is wrong."""

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
    done = answer(ogpu(tmp_path, url, "dispute", planted.name, *OF_BOB, *words, "--yes"))
    assert done["segment"] == 5
    assert answer(ogpu(tmp_path, url, "describe", planted.name))["disputed_segment"] == 5


def test_no_dispute_names_what_is_not_there_or_is_right(
    tmp_path: Path, finished: tuple[PlantedTask, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    computes(monkeypatch, None)
    planted, url = finished
    dispute = ("dispute", planted.name, *OF_BOB, "--dry-run")
    beyond = refusal(ogpu(tmp_path, url, *dispute, "--segment", str(len(STATES) - 1)))
    assert f"computed segments 0 to {len(STATES) - 2}: name one of these" in beyond
    right = answer(ogpu(tmp_path, url, *dispute, "--compute"))
    assert (right["computed"], right["agree"], right["sent"]) == (len(STATES) - 1, len(STATES) - 1, False)
    assert "there is nothing to dispute" in right["result"]
    assert "nobody is here to be asked" in refusal(ogpu(tmp_path, url, *dispute[:-1], "--compute"))
    both = ogpu(tmp_path, url, *dispute, "--compute", "--segment", "3")
    assert both.exit_code == 2


def test_of_a_run_without_a_trace_no_segment_is_named(tmp_path: Path) -> None:
    def untraced(task: Task) -> Task:
        return replace(task, order=replace(task.order, segments=0))

    planted = PlantedTask(TaskState.SUBMITTED, result=run_blob(MILESTONES), change=untraced)
    with chain_with(tmp_path, planted) as url:
        dispute = ("dispute", planted.name, *OF_BOB, "--dry-run")
        for words in (("--segment", "0"), ("--compute",)):
            assert "the run has no trace: judges compute all of it" in refusal(ogpu(tmp_path, url, *dispute, *words))
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
        said = refusal(ogpu(tmp_path, url, "dispute", accepted.name, *OF_BOB, "--dry-run", "--compute"))
    assert "the result is accepted already" in said


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
        dispute = ("dispute", planted.name, *OF_BOB, "--dry-run", "--compute")
        awaits(monkeypatch, TaskState.ASKING, TaskState.STARTING, TaskState.RUNNING, TaskState.SUBMITTED)
        said = ogpu(tmp_path, url, *dispute)
        assert "all is computed; its result is awaited" in said.stderr
        facts = json.loads(said.stdout)
        assert (facts["segment"], facts["disputable_up_to_block"]) == (5, 7 + 20)
        awaits(monkeypatch, TaskState.RUNNING, TaskState.SHOWING)
        assert "the task is showing" in refusal(ogpu(tmp_path, url, *dispute))


def test_how_much_is_computed_is_said_by_the_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    said = dispute.Tenths(40, "segments")
    for done in range(41):
        said(done)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"note: computing: {10 * tenth} % of 40 segments" for tenth in range(11)]


def test_what_a_dispute_costs_and_brings_goes_by_the_price_and_the_collateral(tmp_path: Path) -> None:
    def cheap(task: Task) -> Task:
        (slot,) = task.slots
        terms = replace(task.terms, price_max=2 * task.order.price_max)  # raised since it was ordered
        return replace(task, slots=(replace(slot, price=OGPU // 2, collateral=OGPU),), terms=terms)

    planted = PlantedTask(TaskState.SUBMITTED, result=run_blob(MILESTONES), change=cheap)
    with chain_with(tmp_path, planted) as url:
        dry = answer(ogpu(tmp_path, url, "dispute", planted.name, *OF_BOB, "--dry-run"))
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
        dry = answer(ogpu(tmp_path, url, "dispute", planted.name, *OF_BOB, "--dry-run"))
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


@pytest.mark.parametrize("last", [0, 1])
def test_a_dispute_is_sent_while_the_next_block_may_take_it(tmp_path: Path, last: int) -> None:
    def until(task: Task) -> Task:
        return replace(task, finished_at=last, windows=replace(task.windows, dispute=0))

    planted = PlantedTask(TaskState.SUBMITTED, result=run_blob(MILESTONES), change=until)
    with chain_with(tmp_path, planted) as url:  # whose first block is final
        said = ogpu(tmp_path, url, "dispute", planted.name, *OF_BOB, "--dry-run")
    if last:
        assert answer(said)["disputable_up_to_block"] == last
    else:
        assert "the time to dispute it was over after block 0:" in refusal(said)


def test_a_dispute_that_is_late_says_so(tmp_path: Path, blobs: dict[bytes, bytes]) -> None:
    def hurry(task: Task) -> Task:
        return replace(task, windows=replace(task.windows, dispute=0))

    planted = PlantedTask(TaskState.SUBMITTED, result=run_blob(MILESTONES), change=hurry)
    with chain_with(tmp_path, planted, beat_seconds=1.0) as url:
        said = ogpu(tmp_path, url, "dispute", planted.name, *OF_BOB, "--dry-run")
        while not said.exit_code:
            said = ogpu(tmp_path, url, "dispute", planted.name, *OF_BOB, "--dry-run")
        assert "the time to dispute it was over after block 1:" in refusal(said)


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
            said = refusal(ogpu(tmp_path, url, "dispute", planted.name, *OF_BOB, "--compute", *words))
            assert ("over after block 0" in said, "--yes" in said) == (True, False)
