"""The beacon: randomness by height, seeds by epoch, and references to final blocks."""

from typing import Any

import pytest

from runtime.blocks.block import block_id
from runtime.blocks.digest import FinalRef, PreDigest, author_item, consensus_item, pre_digest_item
from runtime.cryptography.hashing import blake2_256
from runtime.execution.block_builder import Authoring
from runtime.frame.errors import InvalidBlock
from runtime.frame.runtime import Runtime
from runtime.pallets.beacon import WINDOW_BLOCKS, Beacon
from runtime.pallets.system import System
from runtime.pallets.timestamp import Timestamp
from small_chain import AUTHOR, FIRST_SLOT, SLOT_MS, SmallChain, runtime_of

SEED = bytes(range(32))


class Chain(SmallChain):
    """Six blocks to an epoch. Keeps the id of every block."""

    def __init__(self) -> None:
        runtime: Runtime = runtime_of(**{"Beacon.epoch_blocks": 6})
        super().__init__(runtime, {"Beacon": {"seed": SEED.hex()}})
        self.ids = [self.genesis_hash]

    def grow(self, *finals: FinalRef, epoch: int | None = None) -> None:
        number = self.head.number + 1
        pre = PreDigest(FIRST_SLOT + number, (number - 1) // 6 if epoch is None else epoch, output(number), bytes(80))
        items: list[Any] = [author_item(AUTHOR.account), pre_digest_item(pre)]
        digest = (*items, *(consensus_item(reference) for reference in finals))
        made = Authoring(self.runtime, self.state, self.trie, block_id(self.head), digest)
        made.inherent(Timestamp.set(now=(FIRST_SLOT + number) * SLOT_MS))
        self.adopt(made.finish())
        self.ids.append(block_id(self.head))

    def final(self, height: int) -> FinalRef:
        return FinalRef(height, self.ids[height], b"")

    @property
    def beacon(self) -> Beacon:
        return self.bound[Beacon]


def output(number: int) -> bytes:
    return blake2_256(b"vrf" + bytes([number]))


def test_values_are_a_chain_of_hashes_over_the_outputs() -> None:
    chain = Chain()
    expected = SEED
    for number in (1, 2, 3):
        chain.grow()
        expected = blake2_256(expected + output(number))
        assert chain.beacon.value_at(number) == expected
    assert chain.beacon.value_at(0) == SEED
    assert chain.beacon.value_at(4) is None


def test_a_reference_counts_in_the_block_that_bears_it() -> None:
    chain = Chain()
    for _ in range(3):
        chain.grow()
    chain.grow(chain.final(2))
    assert chain.beacon.final_height() == 2
    assert chain.beacon.final.get().hash == chain.ids[2]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda _: (FinalRef(2, bytes(32), b""),),
        lambda chain: (FinalRef(3, chain.ids[2], b""),),
        lambda _: (FinalRef(4, bytes(32), b""),),  # itself
        lambda _: (FinalRef(1_000, bytes(32), b""),),
        lambda chain: (FinalRef(1, chain.ids[1], b""),),  # no advance
        lambda chain: (chain.final(2), chain.final(3)),
    ],
)
def test_references_that_do_not_fit_make_the_block_invalid(wrong: Any) -> None:
    chain = Chain()
    for _ in range(2):
        chain.grow()
    chain.grow(chain.final(1))
    with pytest.raises(InvalidBlock):
        chain.grow(*wrong(chain))
    chain.grow(chain.final(3))


def test_the_next_seed_is_made_of_two_thirds_of_an_epoch() -> None:
    chain = Chain()
    expected = SEED
    for number in range(1, 7):
        assert chain.beacon.seed_of(1) is None or number > 4
        chain.grow()
        if number <= 4:
            expected = blake2_256(expected + output(number))
    assert chain.beacon.seed_of(1) == expected
    assert (chain.beacon.seed(), chain.beacon.seed_of(2), chain.beacon.is_epoch_end(6)) == (SEED, None, True)
    chain.grow(chain.final(4))
    assert (chain.beacon.seed(), chain.beacon.epoch(), chain.beacon.is_epoch_end(7)) == (expected, 1, False)


def test_an_epoch_cannot_begin_before_its_seed_is_final() -> None:
    chain = Chain()
    for _ in range(6):
        chain.grow()
    for finals in ((), (chain.final(3),)):
        with pytest.raises(InvalidBlock):
            chain.grow(*finals)
    chain.grow(chain.final(4))


def test_the_epoch_in_the_header_is_checked() -> None:
    chain = Chain()
    with pytest.raises(InvalidBlock):
        chain.grow(epoch=1)


def test_old_values_are_dropped() -> None:
    chain = Chain()
    bound = chain.bound
    for number in (WINDOW_BLOCKS, WINDOW_BLOCKS + 1):
        bound[System].number.set(number)
        assert (0 in bound[Beacon].values) is True
        bound[Beacon]._extend(output(1))
    assert 0 not in bound[Beacon].values
    assert WINDOW_BLOCKS in bound[Beacon].values
