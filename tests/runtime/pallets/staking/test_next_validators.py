"""The hash of the next validator set: true, and only in the last block of an epoch."""

from dataclasses import replace
from typing import Any

import pytest

from runtime.blocks.digest import NextValidators, consensus_item, consensus_logs
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import codec
from runtime.frame.errors import InvalidBlock
from runtime.frame.runtime import Bound
from runtime.pallets.staking.stakers import Seats
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from simulation.chains.market_chain import MarketChain, named_keys

EPOCH_BLOCKS = 6


class Announcing(MarketChain):
    """Announces a scripted hash of the next validators."""

    said: tuple[NextValidators, ...] | None = None

    def _digest(self, bound: Bound, author: Any) -> Any:
        digest = super()._digest(bound, author)
        if self.said is None:
            return digest
        honest = [item for item in digest if item not in announcements(digest)]
        return (*honest, *(consensus_item(log) for log in self.said))


def announcements(digest: Any) -> list[Any]:
    return [consensus_item(log) for log in consensus_logs(digest) if isinstance(log, NextValidators)]


def chain_at(height: int) -> Announcing:
    chain = Announcing(named_keys(2), epoch_blocks=EPOCH_BLOCKS)
    if height:
        chain.blocks(height)
    return chain


def hash_of_the_set(chain: MarketChain) -> NextValidators:
    return NextValidators(blake2_256(codec(Seats).encode(chain.now()[TrustStake].validators(1))))


def test_the_last_block_of_each_epoch_announces_the_next_set() -> None:
    chain = chain_at(0)
    for height in range(1, 3 * EPOCH_BLOCKS + 1):
        due = [consensus_item(hash_of_the_set(chain))] if height % EPOCH_BLOCKS == 0 else []
        chain.block()
        assert announcements(chain.now()[System].digest.get()) == due


TRUE, OTHER = "true", NextValidators(b"\1" * 32)
INVALID: dict[str, tuple[int, tuple[Any, ...]]] = {
    "missing": (EPOCH_BLOCKS, ()),
    "wrong": (EPOCH_BLOCKS, (OTHER,)),
    "twice": (EPOCH_BLOCKS, (TRUE, TRUE)),
    "true and wrong": (EPOCH_BLOCKS, (TRUE, OTHER)),
    "in the first block": (1, (TRUE,)),
    "a block early": (EPOCH_BLOCKS - 1, (TRUE,)),
    "a block late": (EPOCH_BLOCKS + 1, (TRUE,)),
    "missing in a later epoch": (2 * EPOCH_BLOCKS, ()),
}


@pytest.mark.parametrize(("height", "said"), INVALID.values(), ids=INVALID)
def test_a_block_that_says_something_else_is_invalid(height: int, said: tuple[Any, ...]) -> None:
    chain = chain_at(height - 1)
    chain.said = tuple(hash_of_the_set(chain) if announced is TRUE else announced for announced in said)
    with pytest.raises(InvalidBlock, match="next validators of"):
        chain.block()
    chain.height, chain.said = height - 1, None
    chain.block()


def test_the_set_is_the_one_in_the_parents_state() -> None:
    chain = chain_at(EPOCH_BLOCKS - 2)
    before = hash_of_the_set(chain)

    def reseat(bound: Bound) -> None:
        first, second = bound[TrustStake].validator_sets[0]
        bound[TrustStake].validator_sets[0] = (first, replace(second, weight=second.weight + 1))

    chain.block(reseat)
    chain.said = (before,)
    with pytest.raises(InvalidBlock, match="next validators of"):
        chain.block()
    chain.height, chain.said = EPOCH_BLOCKS - 1, (hash_of_the_set(chain),)
    chain.block()
