"""Inputs during a change of the active set: the next members read them too, so that they can judge the answers."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from gpu_tasks.market.inference.events import UnitRefunded
from gpu_tasks.market.inference.units import Refund
from gpu_tasks.market.leaf_checks.checks import CheckOutcome, LeafStage
from gpu_tasks.market.leaf_checks.events import LeafCheckEnded
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from provider_chain import Village
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking import elections
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import MarketChain, named_keys
from staged import staged

SIZE, EPOCH_BLOCKS = 9, 30
ASKED = [b"complete this", b"no request", b"complete that one too", b"complete it"]


@contextlib.asynccontextmanager
async def electing_village(folder: Path) -> AsyncIterator[Village]:
    numbers = {"LeafChecks.check_from": 2, "LeafChecks.show_blocks": 20}
    chain = MarketChain(named_keys(SIZE), [], numbers, epoch_blocks=EPOCH_BLOCKS)
    async with Village(folder, SIZE, chain=chain) as village:
        elect_the_last(village.node.chain)
        yield village


def elect_the_last(chain: MarketChain) -> None:
    """Run into the second epoch. The last validator is inactive, and elected for the third one."""
    chain.blocks(2 * EPOCH_BLOCKS - 8 - chain.height)
    bound, last = chain.now(), chain.validators[-1].stash
    stake = bound[TrustStake]
    seats = stake.active_set.get()
    elections.seat(stake, 1, tuple(seat for seat in seats if seat.stash != last))
    elections.seat(stake, 2, seats)
    stake.last_elected_epoch.set(2)
    stake.active_since[last] = 2
    chain.state = chain.state.updated(bound.overlay.changes())


@staged(electing_village)
async def test_nobody_works_for_an_input_that_leaves_out_who_is_elected_next(village: Village) -> None:
    """Otherwise it would settle without an audit, because auditors of the next epoch refuse it."""
    await village.run(await village.post(ASKED, readers=village.node.chain.validators[:-1], tokens_max=128))
    (refunded,) = village.happened(UnitRefunded)
    assert refunded.refund is Refund.INPUT_BAD
    assert not any(miner.executor.runs for miner in village.miners)


@staged(electing_village)
async def test_who_was_elected_after_an_input_was_sealed_need_not_read_it(village: Village) -> None:
    readers = village.node.chain.validators[:-1]
    status = await village.run(await village.post(ASKED, readers=readers, tokens_max=128, sealed_at=EPOCH_BLOCKS))
    assert not status.unit.declined_by
    assert not village.happened(UnitRefunded)


@staged(electing_village)
async def test_a_batch_across_a_change_of_the_set_is_audited(village: Village) -> None:
    chain = village.node.chain
    unit = await village.post(ASKED, tokens_max=128)
    epochs, is_called = {LeafStage.CHECKING: 0}, False
    while not chain.happened(LeafCheckEnded):
        await village.block()
        check = chain.now()[LeafChecks].checks[unit]
        if check is not None:
            epochs[LeafStage(check.stage)] = chain.now()[Beacon].epoch()
            is_called = chain.validators[-1].stash in check.called
    (ended,) = chain.happened(LeafCheckEnded)
    assert CheckOutcome(ended.outcome) is CheckOutcome.PASSED
    assert epochs[LeafStage.CHECKING] == 2
    assert is_called
