"""What a step costs does not depend on how many stand behind a validator: entries read and written, and their bytes."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from counted_reads import CountingReader
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.types import Signed
from runtime.frame.call import Call
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.staking import eras, held_slashes
from runtime.pallets.staking.slash_factors import SlashStep
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.state.overlay import Memory
from simulation.chains.market_chain import BOND, OGPU, Keys, MarketChain, named_keys, signed

SAVER = Keys("saver")
FEW, MANY = 10, 1_000
LEAST = OGPU // 10


@dataclass
class Crowd:
    """A chain of two validators, behind one of which stand the saver and so many others, all for whole eras."""

    chain: MarketChain
    state: Memory
    bytes_each: float

    def cost(self, step: Callable[[Bound], object]) -> tuple[int, int]:
        """Entries that a step reads and writes."""
        reader = CountingReader(self.state)
        bound = self.chain.runtime.at(reader)
        step(bound)
        return reader.reads, len(bound.overlay.changes())


def crowd(count: int) -> Crowd:
    chain = MarketChain(
        named_keys(2), [SAVER], {"TrustStake.delegation_min": LEAST}, epoch_blocks=3, check=lambda *_: None
    )
    alice = chain.validators[0].stash
    chain.block(signed(SAVER.stash, TrustStake.delegate(alice, BOND)))

    def paid(bound: Bound) -> None:
        for number in range(count):
            who = blake2_256(number.to_bytes(4, "big"))
            bound[Balances].transfer(SAVER.stash, who, 2 * LEAST)

    chain.block(paid)
    without = sum(len(key) + len(value) for key, value in entries(chain))

    def delegate(bound: Bound) -> None:
        for number in range(count):
            bound.dispatch(TrustStake.delegate(alice, LEAST), Signed(blake2_256(number.to_bytes(4, "big"))))

    chain.block(delegate)
    after = sum(len(key) + len(value) for key, value in entries(chain))
    chain.blocks(4)
    return Crowd(chain, chain.state, (after - without) / count)


def entries(chain: MarketChain) -> list[tuple[bytes, bytes]]:
    state = chain.state
    return [(key, state.get(key) or b"") for key in state.keys(b"")]


@pytest.fixture(scope="module")
def crowds() -> tuple[Crowd, Crowd]:
    return crowd(FEW), crowd(MANY)


def dispatched(call: Call) -> Callable[[Bound], object]:
    return lambda bound: bound.dispatch(call, Signed(SAVER.stash))


ALICE, BOB = (keys.stash for keys in named_keys(2))
STEPS: dict[str, Callable[[Bound], object]] = {
    "delegate": dispatched(TrustStake.delegate(ALICE, OGPU)),
    "undelegate": dispatched(TrustStake.undelegate(ALICE, OGPU)),
    "redelegate": dispatched(TrustStake.redelegate(ALICE, BOB, OGPU)),
    "claim": dispatched(TrustStake.claim(ALICE)),
    "compound": dispatched(TrustStake.compound(ALICE)),
    "a slash held": lambda bound: held_slashes.hold_back(bound[TrustStake], ALICE, 0, SlashStep(0, 50_000), BOB),
    "an era's turn": lambda bound: eras._turn_era(bound[TrustStake], 9),
}


def slash_taken(bound: Bound) -> object:
    stake = bound[TrustStake]
    held_slashes.hold_back(stake, ALICE, 0, SlashStep(0, 50_000), BOB)
    stake.current_era.set(stake.current_era.get() + 1)
    return held_slashes.take_due(stake)


@pytest.mark.parametrize("name", [*STEPS, "a slash taken"])
def test_a_step_costs_the_same_whoever_stands_there(crowds: tuple[Crowd, Crowd], name: str) -> None:
    few, many = (crowd.cost(STEPS.get(name, slash_taken)) for crowd in crowds)
    assert few == many
    assert 0 < many[1] < 30


def test_a_delegator_is_one_record(crowds: tuple[Crowd, Crowd]) -> None:
    for each in crowds:
        assert each.bytes_each < 300
