"""The windows of the sides: they begin with finality, and a step's weight grows with the answers."""

import pytest

from gpu_tasks.market.block_room import BlockRoom
from gpu_tasks.market.inference.events import ProviderSlashed
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.market.leaf_disputes import leaf_disputes
from gpu_tasks.market.leaf_disputes.disputes import SIDES_MAX, LeafDisputeStage
from gpu_tasks.market.leaf_disputes.events import NothingAsked, TreeWithheld
from gpu_tasks.market.leaf_disputes.leaf_disputes import ALIKE, BEGIN_WEIGHT, STEP_WEIGHT
from runtime.encoding.types import Weight
from runtime.frame.schedule import TAKE_WEIGHT, WeightMeter
from simulation.chains.batch_chain import DisputeChain
from simulation.chains.market_chain import CUSTOMER, refused

NONE: tuple[int, ...] = ()
STALLED = 10_000


def test_nobody_loses_for_what_it_cannot_see_while_finality_stands_still() -> None:
    """Daemons act by final blocks, so a third of the stake could stall finality and make them all lose."""
    stage = DisputeChain(requests=100)
    unit = stage.disputed(NONE, [60])
    stage.chain.final_lag, usual = STALLED, stage.chain.final_lag
    stage.chain.block(stage.shows(unit, 1))  # the liar uses the newest block
    for _ in range(3 * stage.dispute(unit).window):
        stage.chain.block()
    assert not stage.chain.happened(TreeWithheld)
    stage.chain.final_lag = usual
    stage.chain.block()
    window = stage.dispute(unit).window
    assert stage.dispute(unit).deadline == stage.chain.height + window // 2
    for _ in range(window // 2 - 1):
        stage.chain.block()
    stage.chain.block(stage.shows(unit, 0))
    stage.play(unit)
    assert [event.provider for event in stage.chain.happened(ProviderSlashed)] == [stage.racer(unit, 1).stash]


def test_who_shows_nothing_once_it_is_final_loses_after_a_standstill() -> None:
    stage = DisputeChain(requests=100)
    unit = stage.disputed(NONE, [60])
    stage.chain.final_lag, usual = STALLED, stage.chain.final_lag
    for _ in range(2 * stage.dispute(unit).window):
        stage.chain.block()
    stage.chain.block(stage.shows(unit, 1))
    stage.chain.final_lag = usual
    stage.chain.block()
    while stage.chain.height < stage.dispute(unit).deadline:
        stage.chain.block()
    stage.chain.block()
    assert len(stage.chain.happened(TreeWithheld)) == 1
    assert stage.unit(unit).state is UnitState.CLAIMED


def test_a_window_is_no_longer_where_blocks_are_final_as_usual() -> None:
    stage = DisputeChain(requests=100)
    unit = stage.disputed(NONE, [60])
    until = stage.dispute(unit).deadline
    while stage.chain.height < until:
        stage.chain.block()
    assert stage.dispute(unit).deadline == until
    stage.chain.block()
    assert len(stage.chain.happened(TreeWithheld)) == 2


def test_all_that_is_shown_before_it_is_final_is_taken_at_once() -> None:
    stage = DisputeChain(requests=100)
    unit = stage.disputed(NONE, [60])
    stage.chain.final_lag = STALLED
    stage.chain.block(stage.shows(unit, 0), stage.shows(unit, 1))
    stage.chain.block()
    assert stage.dispute(unit).stage is LeafDisputeStage.LEAVES
    stage.chain.block(stage.shows(unit, 0), stage.shows(unit, 1))
    stage.chain.block()
    assert stage.dispute(unit).stage is LeafDisputeStage.JUDGED
    call = stage.nodes_call(unit, stage.racer(unit, 0))
    stage.chain.block(refused(stage.racer(unit, 0).provider, call, NothingAsked))


def test_a_customer_gets_nothing_where_several_withhold_one_after_another() -> None:
    """Of three answers one side shows nothing, another no leaves, and the third is paid."""
    stage = DisputeChain(requests=100)
    unit = stage.disputed(NONE, [60], [70])
    before = stage.owned(CUSTOMER.stash)
    racers = [(stage.racer(unit, place), racer.collateral) for place, racer in enumerate(stage.unit(unit).racers)]
    owned = [stage.owned(keys.stash) for keys, _ in racers]
    while stage.dispute(unit).stage is LeafDisputeStage.SUBTREES:
        shown = [] if any(side.has_shown for side in stage.dispute(unit).sides) else [0, 1]
        stage.chain.block(*(stage.shows(unit, place) for place in shown))
    assert stage.owned(CUSTOMER.stash) == before
    stage.play(unit, 1)
    assert len(stage.chain.happened(TreeWithheld)) == 2
    lost = [had - stage.owned(keys.stash) for (keys, _), had in zip(racers, owned, strict=True)]
    assert lost[1:] == [held for _, held in racers[1:]]
    assert stage.owned(CUSTOMER.stash) == before


@pytest.mark.parametrize("racers", [2, 4])
def test_a_look_weighs_by_how_many_answered(monkeypatch: pytest.MonkeyPatch, racers: int) -> None:
    """Otherwise three disputes about dust would fill a block, and delay all others."""
    budgets: list[WeightMeter] = []

    class Watched(BlockRoom):
        def budget(self, wanted: Weight) -> WeightMeter:
            budgets.append(super().budget(wanted))
            return budgets[-1]

    monkeypatch.setattr(leaf_disputes, "BlockRoom", Watched)
    stage = DisputeChain(requests=40)
    unit = stage.disputed(*([place] for place in range(racers)))
    begun = max(budget.spent.ref_time for budget in budgets)
    assert begun in (0, (BEGIN_WEIGHT + TAKE_WEIGHT).ref_time)
    stage.chain.block(*(stage.shows(unit, place) for place in range(racers)))
    budgets.clear()
    stage.chain.block()
    assert stage.dispute(unit).stage is LeafDisputeStage.JUDGED
    look = STEP_WEIGHT.ref_time * (ALIKE + racers) // (ALIKE + SIDES_MAX)
    assert budgets[0].spent.ref_time == look + TAKE_WEIGHT.ref_time
