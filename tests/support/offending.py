"""A small chain with an offence: its reporter, its delegators, and the block of the slash."""

from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import Keys, MarketChain, named_keys

REPORTER, DELEGATOR = Keys("reporter"), Keys("delegator")


def chain_of(count: int, **constants: int) -> MarketChain:
    """Return a chain of `count` validators, a reporter and a delegator. An epoch has six blocks."""
    return MarketChain(named_keys(count), [REPORTER, DELEGATOR], constants, epoch_blocks=6)


def until_taken(chain: MarketChain) -> None:
    """Make blocks until the slashes proven in this era are taken."""
    era = chain.now()[TrustStake].current_era.get()
    while chain.now()[TrustStake].current_era.get() == era:
        chain.block()
    chain.blocks(2)
