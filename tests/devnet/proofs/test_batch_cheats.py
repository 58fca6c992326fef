"""Cheats about batches: lying daemons end with the computed losses, on a chain in this process. Each bar can fail."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from devnet.proofs.cheats.batch_judgement import check_purse, expected_of, failures_of, figures_of, lies_paid
from devnet.proofs.cheats.batch_scenes import BATCH_SCENES, BatchCustomer, BatchFacts, BatchScene, CheckCase, CheckTrace
from devnet.stage.cheating.__main__ import LIES_BY_MODE
from devnet.stage.cheating.daemons import LazyChecking, lie_about_batch, lie_about_batches
from devnet.stage.cheating.lies import RightAnswers, batch_with
from fake_work import FakeForm
from gpu_tasks.batches.leaves import Leaf, leaves_of
from gpu_tasks.batches.sum_tree import holds, path_claim
from gpu_tasks.client.units.leaf_checks import WrongLeaf
from gpu_tasks.market.courts.events import CaseEnded, OpinionOpened
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Answered, Statement
from gpu_tasks.market.devices.records import COLLATERAL
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed, UnitSettled
from gpu_tasks.market.leaf_checks.checks import CheckOutcome, LeafStage
from gpu_tasks.market.leaf_checks.events import LeafCheckEnded, LeafDoubted, LeavesPassed
from gpu_tasks.provider.daemon import Daemon
from gpu_tasks.provider.duties.checks import CheckDuty
from gpu_tasks.workloads.form import outcomes_of
from nightly_but import nightly_but
from provider_chain import INPUT_SALT, Village
from runtime.pallets.staking.trust_lock import Locked, Paid
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, MarketChain, named_keys

SIZE = 6
REQUESTS = tuple(b"complete this, number %d" % number for number in range(8))
ASKED = sum(map(len, REQUESTS))
NUMBERS = {"LeafChecks.check_from": 2, "LeafChecks.show_blocks": 20, "Courts.audit_rate_ppm": 1_000_000}
BY_NAME = {scene.name: scene for scene in BATCH_SCENES}


def cheat_of(scene: BatchScene) -> Callable[[Daemon], None]:
    """Return the daemon change of a scene: racers lie, and auditors may be lazy."""

    def bend(daemon: Daemon) -> None:
        lie = LIES_BY_MODE.get(scene.mode or "")
        if lie is not None:
            lie_about_batches(lie, hides_leaves=scene.hides)(daemon)
        if scene.are_lazy:
            daemon.replace(CheckDuty, LazyChecking(daemon.parts))

    return bend


def right_of(unit: bytes) -> RightAnswers:
    outcomes = outcomes_of(FakeForm(), REQUESTS, [request[::-1] for request in REQUESTS])
    return RightAnswers(GENESIS_HASH, unit, INPUT_SALT, outcomes, (2 * ASKED // len(REQUESTS),) * len(REQUESTS))


async def watched(village: Village, scene: BatchScene) -> BatchFacts:
    """Follow a batch from its post to the end of its check, as on a devnet."""
    unit = await village.post(REQUESTS, racers=scene.racers, tokens_max=2 * ASKED)
    lazy = [keys.stash for keys in village.node.chain.validators] if scene.are_lazy else []
    facts = BatchFacts(scene, right_of(unit), CheckTrace(unit=unit), frozenset(lazy))
    trace, is_asked = facts.trace, False
    for _ in range(300):
        village.node.block()
        check = village.node.leaves().check(unit)
        for event in village.node.chain.events:
            trace.take(village.node.chain.height, event)
        if check is not None:
            trace.terms, trace.shown = check.terms, check.shown
        if check is not None and check.stage is LeafStage.OPEN and not is_asked:
            is_asked = True
            dispute(village, facts)
        for miner in list(village.miners):
            await miner.step()
        if trace.ended is not None:
            return facts
    raise AssertionError(f"a check without end: {trace}")


def dispute(village: Village, facts: BatchFacts) -> None:
    right, shown = facts.right, [leaf.index for leaf in facts.trace.shown]
    if facts.scene.customer is BatchCustomer.LIES:
        found = Leaf(0, 1, bytes(32))
        wrong = WrongLeaf(0, right.leaves, found)
    elif facts.scene.customer is BatchCustomer.LOOKS:
        bad = facts.wrong_outputs()
        leaf = [*(index for index in shown if index in bad), *bad][0]
        said = leaves_of(right.genesis, right.unit, right.salt, facts.told.outcomes)
        wrong = WrongLeaf(leaf, said, right.leaves[leaf])
    else:
        return
    village.node.calls.append((CUSTOMER.stash, wrong.dispute(right.unit)))


def played(folder: Path, scene: BatchScene) -> BatchFacts:
    async def main() -> BatchFacts:
        village = Village(folder, SIZE, chain=MarketChain(named_keys(SIZE), [], dict(NUMBERS)))
        village.cheats = dict.fromkeys((keys.name for keys in village.node.chain.validators), cheat_of(scene))
        async with village:
            return await watched(village, scene)

    return asyncio.run(asyncio.wait_for(main(), 120))


@pytest.mark.parametrize("scene", nightly_but(4, BATCH_SCENES), ids=lambda scene: scene.name)
def test_a_cheat_comes_to_what_is_reckoned(tmp_path: Path, scene: BatchScene) -> None:
    facts = played(tmp_path, scene)
    assert failures_of(facts) == []
    made, figures = expected_of(facts), figures_of(facts)
    assert (figures.lost, bool(figures.lost)) == (figures.due, bool(made.found_by))
    if scene.customer is not BatchCustomer.SILENT or scene.hides:
        assert made.found_by, "who looks finds it"


@pytest.fixture(scope="module")
def refuted(tmp_path_factory: pytest.TempPathFactory) -> BatchFacts:
    """Return a refuted batch with consistent numbers."""
    return played(tmp_path_factory.mktemp("refuted"), BY_NAME["all-wrong"])


def changed(facts: BatchFacts, change: Callable[[CheckTrace], Any]) -> list[str]:
    """Return the failures after a change of the trace."""
    trace = replace(facts.trace, happened=list(facts.trace.happened))
    change(trace)
    return failures_of(replace(facts, trace=trace))


def swap(trace: CheckTrace, kind: type[Any], make: Callable[[Any], Any]) -> None:
    """Replace all events of a kind."""
    trace.happened = [(at, make(event) if isinstance(event, kind) else event) for at, event in trace.happened]


def drop(trace: CheckTrace, kind: type[Any]) -> None:
    trace.happened = [(at, event) for at, event in trace.happened if not isinstance(event, kind)]


def again(trace: CheckTrace, kind: type[Any], **changes: Any) -> None:
    """Repeat the first event of a kind."""
    height, event = trace.all(kind)[0]
    trace.happened.append((height, replace(event, **changes)))


def collateral_paid(trace: CheckTrace) -> tuple[int, Paid]:
    return next((at, event) for at, event in trace.all(Paid) if event.reason.name == "Collateral")


def less_paid(trace: CheckTrace) -> None:
    found = collateral_paid(trace)
    place = trace.happened.index(found)
    trace.happened[place] = (found[0], replace(found[1], amount=found[1].amount - 1))


def somebody_else_pays(trace: CheckTrace) -> None:
    height, event = collateral_paid(trace)
    trace.happened.append((height, replace(event, who=b"h" * 32)))


def other_claim(event: LeafDoubted) -> LeafDoubted:
    return replace(event, doubt=replace(event.doubt, found=b"x" * 32))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (less_paid, "and not"),
        (somebody_else_pays, "and did nothing wrong"),
        (lambda trace: again(trace, Locked), "are left behind"),
        (lambda trace: swap(trace, LeafDoubted, other_claim), "an auditor should have doubted leaf"),
        (
            lambda trace: swap(trace, LeafCheckEnded, lambda event: replace(event, outcome=CheckOutcome.PASSED)),
            "its check ended",
        ),
        (
            lambda trace: swap(trace, UnitSettled, lambda event: replace(event, output_root=b"x" * 32)),
            "another result was settled",
        ),
        (
            lambda trace: swap(trace, UnitSettled, lambda event: replace(event, winner=b"x" * 32)),
            "another account was paid",
        ),
        (lambda trace: again(trace, UnitSettled), "it was settled 2 times"),
        (lambda trace: drop(trace, ProviderSlashed), "0 of 1 that answered lost"),
        (
            lambda trace: trace.happened.append((9, RaceMissed(trace.unit, b"r" * 32, 1))),
            "no account should have received it: RaceMissed",
        ),
        (lambda trace: setattr(trace, "refused", ["no"]), "no account should have received it: no"),
        (lambda trace: setattr(trace, "shown", ()), "the leaves [] were shown"),
        (lambda trace: drop(trace, LeafCheckEnded), "its check has not ended"),
    ],
)
def test_what_breaks_a_bar_is_said(refuted: BatchFacts, change: Callable[[CheckTrace], Any], says: str) -> None:
    assert failures_of(refuted) == []
    assert any(says in failure for failure in changed(refuted, change))


def test_a_lie_that_its_auditor_passed_is_said(refuted: BatchFacts) -> None:
    def passing(trace: CheckTrace) -> None:
        drop(trace, LeafDoubted)
        trace.happened.append((9, LeavesPassed(trace.unit, trace.auditors[0], b"p" * 32)))

    assert any("an auditor should have doubted" in failure for failure in changed(refuted, passing))


def test_a_lie_that_its_customer_did_not_dispute_is_said(tmp_path: Path) -> None:
    """If auditors pass the lie, a customer that checks has to find it."""
    facts = played(tmp_path, BY_NAME["lazy-about-wrong"])
    said = changed(facts, lambda trace: drop(trace, LeafDoubted))
    assert "its customer disputed None" in said


@pytest.mark.parametrize(
    ("judges", "held", "paid"),
    [
        (3, 350, {b"j0": 50, b"j1": 50, b"j2": 50, b"c": 100, None: 100}),
        (3, 160, {b"j0": 50, b"j1": 50, b"j2": 50, b"c": 10}),
        (2, 350, {b"j0": 50, b"j1": 50, b"c": 100, None: 25}),
    ],
)
def test_what_a_lie_pays_goes_to_judges_then_customer_then_burns(judges: int, held: int, paid: dict[Any, int]) -> None:
    """A liar loses all that it holds if more than a third of the active set convicts it.

    Otherwise it loses the price, the fees and a fourth of the price.
    """
    right, wrong = Answered(b"r" * 32), Answered(b"w" * 32)
    said = [OpinionOpened(b"u" * 32, b"j%d" % number, Statement(right, bytes(32))) for number in range(judges)]
    said.append(OpinionOpened(b"u" * 32, b"jw", Statement(wrong, bytes(32))))
    case = CheckCase(said, CaseEnded(b"u" * 32, CaseOutcome.DECIDED, right))
    payment = lies_paid(case, [(check_purse(b"l", COLLATERAL), held)], b"c", 100, 50)
    assert (payment.purses, payment.dues) == (((b"l", "Collateral"),), paid)


def test_a_lazy_auditor_that_has_computed_is_no_lazy_one(tmp_path: Path) -> None:
    facts = played(tmp_path, BY_NAME["lazy-about-right"])

    def computed(trace: CheckTrace) -> None:
        swap(trace, LeavesPassed, lambda event: replace(event, proof=facts.right_proof(event.auditor)))

    assert any("an auditor passed with a right proof" in failure for failure in changed(facts, computed))
    honest = replace(facts, lazy=frozenset(), scene=replace(facts.scene, others=None))
    assert any("an auditor passed with" in failure for failure in failures_of(honest))


def test_tokens_beside_a_true_leaf_have_right_sums_and_one_false_claim() -> None:
    right = right_of(b"u" * 32)
    true, told = batch_with(right, {}), lie_about_batch(LIES_BY_MODE["made-up-tokens"], right)
    assert all(holds(told.totals, path) for path in told.paths)
    false = [path for path, other in zip(told.paths, true.paths, strict=True) if path_claim(path) != path_claim(other)]
    assert len(false) == 1
    assert [path.node for path in told.paths] == [path.node for path in true.paths]
    assert told.totals.tokens_out == sum(right.most)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13])
def test_a_tree_over_nodes_is_the_tree_over_their_leaves(count: int) -> None:
    right = right_of(b"u" * 32)
    right = replace(right, outcomes=(right.outcomes * 2)[:count])
    used = sum(leaf.tokens_out for leaf in right.leaves)
    nothing_left = replace(right, most=(used, *[0] * (count - 1)))
    assert lie_about_batch(LIES_BY_MODE["made-up-tokens"], nothing_left) == batch_with(nothing_left, {})


def test_below_made_up_sums_no_path_holds() -> None:
    right = right_of(b"u" * 32)
    told = lie_about_batch(LIES_BY_MODE["made-up-sums"], right)
    assert [holds(told.totals, path) for path in told.paths] == [False] * 4 + [True] * 4


def test_the_same_lie_about_the_same_unit_is_the_same_to_the_bit() -> None:
    for lie in LIES_BY_MODE.values():
        assert lie_about_batch(lie, right_of(b"u" * 32)) == lie(right_of(b"u" * 32), Random(b"u" * 32))
