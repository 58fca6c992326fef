"""The migration from the one set of the genesis to sets by epoch: every epoch has the set that it had."""

import pytest

from runtime.frame.runtime import Bound
from runtime.frame.storage_version import version_key, version_value
from runtime.pallets.staking.trust_stake import TrustStake
from scripts.chains.market_chain import MarketChain, named_keys

EPOCH_BLOCKS, EPOCHS = 6, 4
NEW_ITEMS = ("sets", "set_starts", "elected_to", "present", "seated_since", "sat_keys", "heard")


def before(chain: MarketChain) -> None:
    """The state as the program before left it: one value of seats, and nothing by epoch."""
    bound: Bound = chain.now()
    stake = bound[TrustStake]
    for name in NEW_ITEMS:
        for key in list(bound.overlay.keys(getattr(stake, name).prefix)):
            bound.overlay.store(key, None, None)
    bound.overlay.store_raw(version_key("TrustStake"), version_value(1))
    chain.state = chain.state.updated(bound.overlay.changes())


@pytest.mark.parametrize("era_epochs", [1, 2])
@pytest.mark.parametrize("stopped_at", [1, EPOCH_BLOCKS - 1, EPOCH_BLOCKS, EPOCH_BLOCKS + 1, 3 * EPOCH_BLOCKS + 2])
def test_a_chain_goes_on_with_the_set_that_it_had(stopped_at: int, era_epochs: int) -> None:
    lengths = {"TrustStake.era_epochs": era_epochs, "TrustStake.unbonding_epochs": 4 + 2 * era_epochs}
    chain = MarketChain(named_keys(3), constants=lengths, epoch_blocks=EPOCH_BLOCKS)
    chain.blocks(stopped_at)
    seats = chain.now()[TrustStake].seats.get()
    before(chain)
    old = chain.now()[TrustStake]
    assert old.validators(old.beacon.epoch() + 1) == seats, "nodes start on this state, and make a block on it"
    end = (old.beacon.epoch() + 1) * EPOCH_BLOCKS
    said = old.next_validators(end)

    migrated = chain.now()
    migrated[TrustStake].migrate(1)
    chain.state = chain.state.updated(migrated.overlay.changes())
    stake = chain.now()[TrustStake]
    now = stake.beacon.epoch()
    assert stake.next_validators(end) == said
    assert all(stake.validators(epoch) == seats for epoch in range(now + 2)), "also of the epoch that comes next"
    chain.blocks(EPOCHS * EPOCH_BLOCKS)
    stake = chain.now()[TrustStake]
    assert stake.validators(stake.beacon.epoch()) == stake.seats.get() == seats
