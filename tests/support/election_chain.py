"""A chain whose stake elects its validators, with the stakers' acts."""

from collections.abc import Callable

from runtime.frame.runtime import Bound
from runtime.pallets.staking.stakers import Seat
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import BOND, Keys, MarketChain, named_keys, signed, validates

NEW, OTHER, SAVER = Keys("new"), Keys("other"), Keys("saver")
EPOCH_BLOCKS = 6
Step = Callable[[Bound], None]


def chain_of(count: int = 8, **constants: int) -> MarketChain:
    numbers = {"TrustStake.elections_enabled": 1, **constants}
    return MarketChain(named_keys(count), [NEW, OTHER, SAVER], numbers, epoch_blocks=EPOCH_BLOCKS)


def until_epoch(chain: MarketChain, epoch: int) -> TrustStake:
    """Run to the first block of an epoch."""
    return chain.blocks_to(epoch * EPOCH_BLOCKS + 1)[TrustStake]


def heard(*people: Keys) -> Step:
    """Record a sign of life in the block's epoch."""

    def step(bound: Bound) -> None:
        for who in people:
            bound[TrustStake].note_heard(who.stash, bound[TrustStake].beacon.epoch())

    return step


def offers(who: Keys, value: int = BOND) -> tuple[Step, Step]:
    return signed(who.stash, TrustStake.bond(value=value)), signed(who.stash, validates(who))


def stashes(seats: tuple[Seat, ...]) -> set[bytes]:
    return {seat.stash for seat in seats}


def names(chain: MarketChain) -> list[bytes]:
    return sorted(keys.stash for keys in chain.validators)
