"""Inputs during a change of the active set: the next members read them too, so that they can check the results."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from claiming_village import ALWAYS, ASKED
from gpu_tasks.market.claims.claim_events import CheckEnded, CheckerDrawn, ClaimEnded
from gpu_tasks.market.claims.claims import CheckEnd, ClaimOutcome
from gpu_tasks.market.inference.events import UnitRefunded
from gpu_tasks.market.inference.units import Refund
from provider_chain import Village
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking import elections
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import MarketChain, named_keys
from staged import staged

SIZE, EPOCH_BLOCKS = 9, 30


@contextlib.asynccontextmanager
async def electing_village(folder: Path) -> AsyncIterator[Village]:
    chain = MarketChain(named_keys(SIZE), [], ALWAYS, epoch_blocks=EPOCH_BLOCKS)
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
    """Otherwise no validator of the next epoch could check it or vote about it."""
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
async def test_a_batch_across_a_change_of_the_set_is_checked(village: Village) -> None:
    """A validator that joined after the sealing cannot be drawn, and no check fails for it."""
    chain = village.node.chain
    readers = chain.validators[:-1]
    unit = await village.post(ASKED, readers=readers, tokens_max=128, sealed_at=EPOCH_BLOCKS)
    epochs = {chain.now()[Beacon].epoch()}
    while not village.unit(unit).unit.ended_at:
        await village.block()
        epochs.add(chain.now()[Beacon].epoch())
    assert len(epochs) > 1
    assert [ClaimOutcome(event.outcome) for event in chain.happened(ClaimEnded)] == [ClaimOutcome.PASSED]
    assert {CheckEnd(event.end) for event in chain.happened(CheckEnded)} == {CheckEnd.PASSED}
    assert chain.validators[-1].stash not in {event.checker for event in chain.happened(CheckerDrawn)}
