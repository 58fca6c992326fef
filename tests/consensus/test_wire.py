"""Messages: one pinned encoding each, bounded, and a DecodeError for any other bytes."""

from contextlib import suppress
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consensus.parameters import ACTIVE_VALIDATORS_MAX
from consensus.wire import (
    CERTIFICATES_PER_MESSAGE_MAX,
    MESSAGE,
    MESSAGE_BYTES_MAX,
    Certified,
    Chits,
    Message,
    NeedCerts,
    Propose,
    PullQuery,
    Vote,
)
from consensus_parts import GENESIS_BLOCK, ballot, block, cast, certificate, signers
from runtime.blocks.votes import BallotKind, Proposal, SignedProposal
from runtime.encoding.codec import DecodeError

ONE = block(GENESIS_BLOCK, 1)
SIGNED = SignedProposal(Proposal(0, 1, 0, 1, ONE.id), bytes(64))
VOTE = cast(signers(1)[0], ballot(BallotKind.NOTARISE, 1, ONE))
FINAL = certificate(ballot(BallotKind.FINALISE, 1, ONE), 4, range(3))
# A changed layout changes both: the digest pins the encoding, the length its cost.
PINNED: list[tuple[Message, int, str]] = [
    (PullQuery(1, ONE.id, 2), 41, "84ab74ee"),
    (Chits(1, ONE.id, ONE.id, ONE.id, 3, 4), 109, "b4c71fd1"),
    (Propose(SIGNED), 113, "9ee3c901"),
    (Vote(VOTE, None), 143, "e3c294f9"),
    (Vote(VOTE, SIGNED), 255, "a3b7a3f3"),
    (Certified((FINAL,)), 243, "faac8bab"),
    (NeedCerts(0, 5, 4, 3, b"\x0f"), 19, "983c4526"),
]


@pytest.mark.parametrize(("message", "length", "pin"), PINNED, ids=lambda message: type(message).__name__)
def test_layout_is_pinned(message: Message, length: int, pin: str) -> None:
    data = MESSAGE.encode(message)
    assert MESSAGE.decode(data) == message
    assert (len(data), blake2b(data, digest_size=4).hexdigest()) == (length, pin)


def test_largest_message_fits_its_limit() -> None:
    largest = certificate(ballot(BallotKind.FINALISE, 1, ONE), ACTIVE_VALIDATORS_MAX, range(ACTIVE_VALIDATORS_MAX))
    data = MESSAGE.encode(Certified((largest,) * CERTIFICATES_PER_MESSAGE_MAX))
    assert len(data) <= MESSAGE_BYTES_MAX
    too_many = bytes([4, (CERTIFICATES_PER_MESSAGE_MAX + 1) << 2]) + data[2:] + data[2:]
    with pytest.raises(DecodeError):
        MESSAGE.decode(too_many)


@given(st.binary(max_size=300))
def test_rubbish_is_a_decode_error(data: bytes) -> None:
    try:
        message = MESSAGE.decode(data)
    except DecodeError:
        return
    assert MESSAGE.encode(message) == data


@given(st.sampled_from(PINNED), st.integers(0, 10_000), st.integers(1, 255))
def test_a_flipped_byte_changes_the_message_or_is_refused(
    pinned: tuple[Message, int, str], place: int, flip: int
) -> None:
    data = bytearray(MESSAGE.encode(pinned[0]))
    data[place % len(data)] ^= flip
    with suppress(DecodeError):
        assert MESSAGE.decode(bytes(data)) != pinned[0]
