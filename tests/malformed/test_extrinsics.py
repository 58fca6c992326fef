"""Damaged extrinsics over the real runtime: each is refused in a declared way or applied, and the block continues.

Two kinds: damaged bytes, as peers send them, and damaged calls with valid signatures of a solvent account, which reach
the pallets. `make soak` runs 100,000 of them.
"""

import os
import random
from contextlib import suppress

import pytest

from damage import damaged
from runtime.blocks.block import Block
from runtime.blocks.era import IMMORTAL
from runtime.blocks.extrinsic import Extra, MultiSignature, decode_extrinsic, encode_bare, encode_signed, open_envelope
from runtime.cryptography.signatures import Scheme
from runtime.encoding.scale import DecodeError
from runtime.execution.block_builder import Authoring
from runtime.execution.executive import execute_block
from runtime.execution.pool_validation import TransactionValidator
from runtime.frame.errors import InvalidTransaction
from runtime.frame.fees import highest_priority
from runtime.pallets.system import System
from runtime.pallets.timestamp import Timestamp
from simulation.actors import ACTORS, OUTSIDERS, VALIDATORS, World
from simulation.replay.calls import draw
from simulation.replay.record import SLOT_MS, Recording, sealed
from wallet.keypair import Keypair

COUNT = 100_000 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 2_000
PER_BLOCK = 200
PAYERS = [actor for actor in ACTORS if actor.name in VALIDATORS + OUTSIDERS]
LIVED_THROUGH = 250
"""Extrinsics before the first damaged one, so that there are units, disputes and stakes to hit."""

EXPECTED = (DecodeError, InvalidTransaction)


def anything_signed(*_: object) -> bool:
    """Accept any signature, so that damage reaches the pallets. Other tests cover the signature check."""
    return True


class Attacked:
    """A chain with damaged extrinsics in every block."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.recording = Recording(seed)
        while self.recording.count < LIVED_THROUGH:
            self.recording.block()

    def block(self, count: int) -> tuple[int, int, int]:
        """Make one block. Return the numbers of refused, failed and successful damaged extrinsics."""
        chain, runtime = self.recording, self.recording.runtime
        digest = chain.next_digest(ACTORS[0].stash.account)
        made = Authoring(runtime, chain.state, chain.trie, chain.ids[-1], digest)
        made.inherent(Timestamp.set(now=chain.slot * SLOT_MS))
        outcomes = [0, 0, 0]
        for _ in range(count):
            raw = self._damaged_bytes(made) if self.chance.random() < 0.4 else self._damaged_call(made)
            self._pool_judges(raw)
            try:
                outcomes[1 + made.offer(raw, anything_signed)] += 1
            except EXPECTED:
                outcomes[0] += 1
        self._finish(made)
        return outcomes[0], outcomes[1], outcomes[2]

    def _pool_judges(self, raw: bytes) -> None:
        """Check an extrinsic in one step and in two, with the same result."""
        chain = self.recording
        validator = TransactionValidator(chain.runtime, chain.state, chain.ids[-1])
        at_once = in_steps = None
        with suppress(*EXPECTED):
            at_once = validator.validate(raw, anything_signed)
        with suppress(*EXPECTED):
            vouched = validator.check_outside(open_envelope(raw))
            in_steps = validator.check_call(vouched)
            who = in_steps.extrinsic.authorization
            assert who is not None
            assert in_steps.priority <= highest_priority(who.extra.tip, len(raw))
        assert in_steps == at_once

    def _damaged_bytes(self, made: Authoring) -> bytes:
        who = self.chance.choice(PAYERS)
        world = World(made.bound, self.chance, self.recording.ids[0])
        return damaged(self._signed(made, who.stash, runtime_call=draw(world, who)), self.chance)

    def _damaged_call(self, made: Authoring) -> bytes:
        """Return a damaged call that still decodes."""
        runtime = self.recording.runtime
        while True:
            who = self.chance.choice(PAYERS)
            body = runtime.call_codec.encode(draw(World(made.bound, self.chance, self.recording.ids[0]), who))
            try:
                call = runtime.call_codec.decode(damaged(body, self.chance))
            except DecodeError:
                continue
            return self._signed(made, self.chance.choice((who.stash, who.stash, who.provider)), runtime_call=call)

    def _signed(self, made: Authoring, keys: Keypair, *, runtime_call: object) -> bytes:
        extra = Extra(IMMORTAL, made.bound[System].account[keys.account].nonce, 0)
        signature = MultiSignature(Scheme.ED25519, bytes(64))
        return encode_signed(self.recording.runtime, runtime_call, extra, keys.account, signature)  # type: ignore[arg-type]

    def _finish(self, made: Authoring) -> None:
        """Check that refusals left no effect: the block executes again from its bytes to the same roots."""
        chain = self.recording
        built = made.finish()
        block = Block(sealed(built.header, bytes(64)), built.extrinsics)
        again = execute_block(chain.runtime, chain.state, chain.trie, block, anything_signed)
        assert again.changes == built.executed.changes
        chain.adopt(built, bytes(64))


@pytest.mark.parametrize("seed", range(2))
def test_damage_is_refused_or_applied_and_nothing_else(seed: int) -> None:
    attacked = Attacked(seed)
    totals = [0, 0, 0]
    for _ in range(COUNT // 2 // PER_BLOCK):
        totals = [sum(pair) for pair in zip(totals, attacked.block(PER_BLOCK), strict=True)]
        attacked.recording.block()
    assert all(totals), "refused, failed and applied ones were all there"


def test_every_cut_of_an_extrinsic_is_a_decode_error() -> None:
    recording = Recording(7)
    while recording.count < 40:
        recording.block()
    for raw in recording.extrinsics():
        for end in range(len(raw)):
            with pytest.raises(DecodeError):
                decode_extrinsic(recording.runtime, raw[:end])
        with pytest.raises(DecodeError):
            decode_extrinsic(recording.runtime, raw + b"\0")


def test_a_signed_inherent_and_a_bare_call_are_no_transactions() -> None:
    recording = Recording(8)
    recording.block()
    runtime, validator = recording.runtime, TransactionValidator(recording.runtime, recording.state, recording.ids[-1])
    inherent = encode_bare(runtime, Timestamp.set(now=1))
    bare = encode_bare(runtime, System.remark(remark=b""))
    signed = encode_signed(
        runtime, Timestamp.set(now=1), Extra(), PAYERS[0].stash.account, MultiSignature(Scheme.SR25519, bytes(64))
    )
    for raw in (inherent, bare, signed):
        with pytest.raises(EXPECTED):
            validator.validate(raw, anything_signed)
