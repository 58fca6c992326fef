"""Damaged blocks over the real runtime: a clear refusal, no trace, and the genuine block still counts.

The header rules (`ledger/test_chain.py`) check author, slot, randomness and seal. Here all parts that execution checks
are damaged, in blocks with transfers, batches, attestations and verdicts.
"""

import os
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from damage import damaged
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.statement import SignedAttestation
from runtime.blocks.block import BLOCK, BLOCK_BYTES_MAX, Block, extrinsics_root
from runtime.blocks.extrinsic import decode_extrinsic, encode_bare
from runtime.cryptography.signatures import verify
from runtime.encoding.scale import DecodeError
from runtime.execution.block_builder import Authoring
from runtime.execution.executive import execute_block
from runtime.frame.errors import InvalidBlock
from runtime.pallets.system import System
from runtime.pallets.timestamp import Timestamp
from runtime.state.overlay import Memory
from runtime.state.trie import Trie
from simulation.actors import ACTORS
from simulation.replay.record import SLOT_MS, Recording

COUNT = 20_000 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 600
PER_BLOCK = 20


class Before:
    """A chain just before a block, and that block."""

    def __init__(self, recording: Recording) -> None:
        self.runtime, self.state, self.trie = recording.runtime, recording.state, recording.trie
        recording.block()
        self.raw = recording.blocks[-1]
        self.block = BLOCK.decode(self.raw)

    def execute(self, block: Block) -> None:
        execute_block(self.runtime, self.state, self.trie, block, verify)

    def untouched(self) -> bool:
        return Trie(self.state.values).root == self.trie.root


def with_root(block: Block) -> Block:
    """Return the block with the header that fits its body."""
    return replace(block, header=replace(block.header, extrinsics_root=extrinsics_root(block.extrinsics)))


def lived(seed: int, blocks: int = 25) -> Recording:
    recording = Recording(seed)
    for _ in range(blocks):
        recording.block()
    return recording


def test_damaged_bytes_are_refused_and_leave_no_trace() -> None:
    chance, recording = random.Random(3), lived(3)
    for _ in range(COUNT // PER_BLOCK):
        before = Before(recording)
        for _ in range(PER_BLOCK):
            try:
                block = BLOCK.decode(damaged(before.raw, chance))
                made_anew = chance.random() < 0.5
                before.execute(with_root(block) if made_anew else block)
            except (DecodeError, InvalidBlock):
                continue
            # Execution does not judge the seal and the proof of randomness; all else must be what it was. Only an
            # author may choose another body, such as the time as a bare extrinsic of version 5.
            assert made_anew or block.extrinsics == before.block.extrinsics
            assert block.header.state_root == before.block.header.state_root
        assert before.untouched()
        before.execute(before.block)


def rich_block() -> Before:
    """Return a block with attestations."""
    recording = lived(11)
    while True:
        before = Before(recording)
        if len(before.block.extrinsics) > 4 and is_attach(before, before.block.extrinsics[1]):
            return before


def is_attach(before: Before, raw: bytes) -> bool:
    """Return True if it attaches attestations, the first of them for a unit."""
    call = decode_extrinsic(before.runtime, raw).call
    return call.name == "Attestations.attach" and isinstance(call.arguments[0][0], SignedAttestation)


@pytest.fixture(scope="module")
def rich() -> Before:
    return rich_block()


Change = Callable[[tuple[bytes, ...]], tuple[bytes, ...]]
BODIES: dict[str, Change] = {
    "nothing": lambda _: (),
    "no time": lambda listed: listed[1:],
    "time twice": lambda listed: (listed[0], *listed),
    "time last": lambda listed: (*listed[1:], listed[0]),
    "attestations twice": lambda listed: (listed[0], listed[1], *listed[1:]),
    "attestations before time": lambda listed: (listed[1], listed[0], *listed[2:]),
    "attestations after a signed one": lambda listed: (listed[0], listed[2], listed[1], *listed[3:]),
    "a signed one twice": lambda listed: (*listed, listed[-1]),
    "a signed one left out": lambda listed: listed[:-1],
    "signed ones in another order": lambda listed: (*listed[:2], *reversed(listed[2:])),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_out_of_order_is_invalid(rich: Before, name: str) -> None:
    block = with_root(replace(rich.block, extrinsics=BODIES[name](rich.block.extrinsics)))
    assert block.extrinsics != rich.block.extrinsics
    with pytest.raises(InvalidBlock):
        rich.execute(block)
    rich.execute(rich.block)


def test_every_field_of_the_header_is_checked(rich: Before) -> None:
    header = rich.block.header
    wrong = (
        replace(header, number=header.number + 1),
        replace(header, number=0),
        replace(header, number=2**32 - 1),
        replace(header, state_root=bytes(32)),
        replace(header, extrinsics_root=bytes(32)),
        replace(header, parent_hash=bytes(32)),
        replace(header, digest=()),
        replace(header, digest=header.digest[1:]),
        replace(header, digest=header.digest[:-1]),
        replace(header, digest=(*header.digest, header.digest[-1])),
        replace(header, digest=(header.digest[0], *header.digest)),
        replace(header, digest=(header.digest[0], header.digest[1], *header.digest[1:])),
    )
    for bad in wrong:
        with pytest.raises(InvalidBlock):
            rich.execute(replace(rich.block, header=bad))


def attach(before: Before, change: str) -> bytes:
    """Change the block's attestations."""
    (listed,) = decode_extrinsic(before.runtime, before.block.extrinsics[1]).call.arguments
    first = listed[0]
    statement = first.statement
    more = replace(statement.totals, tokens_out=2**64 - 1)
    changed = {
        "none": (),
        "one twice": (first, *listed),
        "another attempt": (replace(first, statement=replace(statement, attempt=statement.attempt + 1)), *listed[1:]),
        "another unit": (replace(first, statement=replace(statement, unit=bytes(32))), *listed[1:]),
        "replica out of range": (replace(first, statement=replace(statement, replica=255)), *listed[1:]),
        "no such key": (replace(first, statement=replace(statement, provider_key=bytes(32))), *listed[1:]),
        "another salt": (replace(first, statement=replace(statement, salt=bytes(32))), *listed[1:]),
        "another version": (replace(first, statement=replace(statement, version=1)), *listed[1:]),
        "from the future": (replace(first, statement=replace(statement, finished_at=2**32 - 1)), *listed[1:]),
        "before the draw": (replace(first, statement=replace(statement, started_at=0)), *listed[1:]),
        "too many tokens": (replace(first, statement=replace(statement, totals=more)), *listed[1:]),
        "a proof inline": (replace(first, statement=replace(statement, proof_inline=b"x")), *listed[1:]),
        "another signature": (replace(first, signature=bytes(64)), *listed[1:]),
    }[change]
    return encode_bare(before.runtime, Attestations.attach(attestations=changed))


@pytest.mark.parametrize(
    "change",
    [
        "none", "one twice", "another attempt", "another unit", "replica out of range", "no such key", "another salt",
        "another version", "from the future", "before the draw", "too many tokens", "a proof inline",
        "another signature",
    ],
)  # fmt: skip
def test_an_attestation_that_breaks_a_rule_makes_the_block_invalid(rich: Before, change: str) -> None:
    first, _, *others = rich.block.extrinsics
    bad = with_root(replace(rich.block, extrinsics=(first, attach(rich, change), *others)))
    with pytest.raises(InvalidBlock, match="attest"):
        rich.execute(bad)


def test_limits_of_length_are_kept_before_execution(rich: Before) -> None:
    with pytest.raises(DecodeError):
        BLOCK.decode(rich.raw + b"\0")
    huge = replace(rich.block, extrinsics=(b"\xfe\xff\xff\xff" + bytes(2**20),) * 8)
    assert sum(map(len, huge.extrinsics)) > BLOCK_BYTES_MAX
    with pytest.raises((DecodeError, InvalidBlock)):
        rich.execute(with_root(huge))


def test_an_author_is_told_when_a_block_is_full() -> None:
    recording = lived(5)
    made = Authoring(
        recording.runtime, recording.state, recording.trie, recording.ids[-1],
        recording.next_digest(ACTORS[0].stash.account),
    )  # fmt: skip
    made.inherent(Timestamp.set(now=recording.slot * SLOT_MS))
    assert isinstance(recording.state, Memory)
    rich_keys, count = ACTORS[0].stash, 0
    call = System.remark(remark=bytes(60_000))
    while recording.offer(made, rich_keys, call):
        count += 1
        assert count < 1_000
    assert count > 5
    built = made.finish()
    assert sum(map(len, built.extrinsics)) < BLOCK_BYTES_MAX
