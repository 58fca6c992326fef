"""The blame for refused extrinsics, and its cost for their sender."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from node.pool.arrivals import Arrival
from node.pool.entrance import BAD_PROOF, BAD_SIGNATURE_SECONDS, BYTE_SECONDS, Entrance, Vetted
from node.pool.manners import FORGED_PER_BLAME, REFUSED_BURST_SECONDS
from node.pool.refusal import INVALID, NO_ROOM, UNDECODABLE, PoolRefusalError, Refusal
from node.pool.verifier import Claim, Verdicts
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme

pytestmark = pytest.mark.trio
UNREADABLE = Refusal(UNDECODABLE, "Extrinsic has invalid format", "")
STALE = Refusal(INVALID, "Invalid Transaction", "stale")
FULL = Refusal(NO_ROOM, "Immediately dropped", "")


class PlayedExaminer:
    """Refuses everything, before or after the entrance."""

    def __init__(self, refusal: Refusal) -> None:
        self._refusal = refusal

    def check_outside(self, arrival: Arrival) -> Vetted:
        """Accept an extrinsic with only a wrong signature."""
        if self._refusal == BAD_PROOF:
            vouched: Any = None
            return Vetted(arrival, vouched, Claim(Scheme.ED25519, b"", b"", b""), b"")
        raise PoolRefusalError(*self._refusal)

    def enter(self, checked: Vetted, *, is_signed: bool) -> None:
        """Do nothing."""
        del checked
        assert not is_signed
        raise PoolRefusalError(*self._refusal)


class PlayedVerifier:
    """Rejects every signature."""

    def begin(self, claims: Sequence[Claim]) -> Verdicts:
        """Begin at once."""
        return Verdicts([False] * len(claims))


async def refused(count: int, refusal: Refusal) -> tuple[Entrance, list[str]]:
    """Return the peers blamed for `count` refused extrinsics."""
    blamed: list[str] = []
    verifier: Any = PlayedVerifier()
    entrance = Entrance(PlayedExaminer(refusal), verifier, lambda peer, _: blamed.append(peer), lambda: 0.0)
    for number in range(count):
        raw = b"%d" % number
        assert entrance.offer(raw, "peer", blake2_256(raw))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(entrance.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return entrance, blamed


@pytest.mark.parametrize(
    ("refusal", "is_blamed"), [(UNREADABLE, True), (BAD_PROOF, True), (STALE, False), (FULL, False)]
)
async def test_a_peer_is_blamed_for_what_no_honest_one_passes_on(refusal: Refusal, *, is_blamed: bool) -> None:
    _, blamed = await refused(FORGED_PER_BLAME, refusal)
    assert blamed == ["peer"] * is_blamed


async def test_bad_signatures_are_paid_for_until_nothing_more_is_looked_at() -> None:
    free = int(REFUSED_BURST_SECONDS / BAD_SIGNATURE_SECONDS)
    for count, is_heard in ((free // 2, True), (free + 1, False)):
        entrance, _ = await refused(count, BAD_PROOF)
        assert entrance.offer(b"one more", "peer", blake2_256(b"one more")) == is_heard
        assert entrance.offer(b"another's", "other", blake2_256(b"another's"))


async def test_the_length_of_what_is_refused_is_paid_for_too() -> None:
    entrance, _ = await refused(0, BAD_PROOF)
    size, heard = 100_000, 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(entrance.run)
        while entrance.offer(raw := b"%d" % heard + bytes(size), "peer", blake2_256(raw)):
            heard += 1
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert heard <= 1 + REFUSED_BURST_SECONDS / (BAD_SIGNATURE_SECONDS + size * BYTE_SECONDS)
