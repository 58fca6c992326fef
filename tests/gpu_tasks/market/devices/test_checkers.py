"""Possible checkers of an input: active validators whose key was a reader when it was sealed."""

from dataclasses import replace

import pytest

from gpu_tasks.market.devices.checkers import in_office, reads_since, to_seal_to
from gpu_tasks.market.devices.devices import Devices
from runtime.frame.runtime import Bound
from runtime.pallets.staking import elections
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import MarketChain, named_keys

EPOCH_BLOCKS = 6
FIRST, SECOND, THIRD = (keys.stash for keys in named_keys(3))


@pytest.fixture
def bound() -> Bound:
    """Return the state in the second epoch. The third validator is inactive, and elected for the next epoch."""
    chain = MarketChain(named_keys(3), epoch_blocks=EPOCH_BLOCKS)
    chain.blocks(EPOCH_BLOCKS + 2)
    bound = chain.now()
    stake = bound[TrustStake]
    seats = stake.active_set.get()
    elections.seat(stake, 1, tuple(seat for seat in seats if seat.stash != THIRD))
    elections.seat(stake, 2, seats)
    stake.last_elected_epoch.set(2)
    stake.active_since[THIRD] = 2
    return bound


def test_who_is_elected_next_is_sealed_to_already(bound: Bound) -> None:
    devices = bound[Devices]
    assert THIRD not in dict(in_office(devices))
    assert to_seal_to(devices)[-1] == THIRD
    assert sorted(to_seal_to(devices)) == sorted((FIRST, SECOND, THIRD))


def test_who_took_office_later_has_no_box_in_what_was_sealed_before(bound: Bound) -> None:
    devices = bound[Devices]
    assert reads_since(devices, FIRST) == 0
    assert reads_since(devices, THIRD) == EPOCH_BLOCKS + 1, "the first block whose state names it for its seat"
    bound[TrustStake].tombstones[THIRD] = 0
    assert reads_since(devices, THIRD) is None
    provider = devices.providers[FIRST]
    assert provider is not None
    devices.providers[FIRST] = replace(provider, key_since=9)
    assert reads_since(devices, FIRST) == 9
