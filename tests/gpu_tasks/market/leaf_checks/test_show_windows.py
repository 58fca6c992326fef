"""The window to show drawn leaves: it begins when the draw is final."""

from gpu_tasks.market.leaf_checks.checks import CheckOutcome, LeafStage
from gpu_tasks.market.leaf_checks.events import LeafCheckEnded
from simulation.chains.batch_chain import LeafChain
from simulation.chains.market_chain import signed

STALLED = 10_000


def stalled() -> tuple[LeafChain, bytes, int]:
    """Return a batch with drawn leaves and no finality for three windows, and the usual lag."""
    stage = LeafChain()
    unit = stage.settled()
    stage.until(unit, LeafStage.SHOWING)
    usual, stage.chain.final_lag = stage.chain.final_lag, STALLED
    for _ in range(3 * stage.check(unit).windows.show):
        stage.chain.block()
    return stage, unit, usual


def test_nobody_loses_for_leaves_that_it_cannot_see_drawn_while_finality_stands_still() -> None:
    """Daemons act by final blocks, so a third of the stake could stall finality and make them all lose."""
    stage, unit, usual = stalled()
    assert stage.check(unit).stage is LeafStage.SHOWING
    stage.chain.final_lag = usual
    stage.chain.block()
    half = stage.check(unit).windows.show // 2
    assert stage.check(unit).deadline == stage.chain.height + half
    for _ in range(half - 1):
        stage.chain.block()
    stage.chain.block(signed(stage.answerers(unit)[0].provider, stage.show_call(unit)))
    assert stage.auditor(unit).stash == stage.check(unit).auditor


def test_leaves_may_be_shown_while_finality_stands_still() -> None:
    stage, unit, _ = stalled()
    stage.chain.block(signed(stage.answerers(unit)[0].provider, stage.show_call(unit)))
    assert stage.auditor(unit).stash == stage.check(unit).auditor


def test_who_shows_nothing_once_it_is_final_loses_after_a_standstill() -> None:
    stage, unit, usual = stalled()
    stage.chain.final_lag = usual
    stage.chain.block()
    while stage.chain.height < stage.check(unit).deadline:
        stage.chain.block()
    stage.chain.block()
    (ended,) = stage.chain.happened(LeafCheckEnded)
    assert CheckOutcome(ended.outcome) is CheckOutcome.WITHHELD
