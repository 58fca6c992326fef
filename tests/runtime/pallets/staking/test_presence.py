"""Signs of life in an epoch: authors of its blocks, and voters of certificates in the chain."""

from typing import Any

import pytest

from runtime.blocks.digest import FinalRef, author_item, consensus_item
from runtime.encoding.codec import codec
from runtime.frame.runtime import Bound
from runtime.pallets.staking import presence
from runtime.pallets.staking.presence import CertificateHead
from runtime.pallets.staking.seats import Presence
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import MarketChain, named_keys

EPOCH_BLOCKS = 6
HEAD = codec(CertificateHead)


@pytest.fixture
def bound() -> Bound:
    """Return the second epoch, without signs of life."""
    chain = MarketChain(named_keys(10), epoch_blocks=EPOCH_BLOCKS)
    chain.blocks(EPOCH_BLOCKS + 2)
    now = chain.now()
    for seat in now[TrustStake].active_set.get():
        del now[TrustStake].last_online[seat.stash]
    now[TrustStake].epoch_voters.set(Presence(1))
    now[TrustStake].late_voters.set(b"")
    return now


def note(bound: Bound, *certificates: bytes, author: bytes | None = None) -> None:
    items: list[Any] = [] if author is None else [author_item(author)]
    items += [consensus_item(FinalRef(1, bytes(32), certificate)) for certificate in certificates]
    bound[TrustStake].system.digest.set(tuple(items))
    presence.note(bound[TrustStake])


def certificate(bits: bytes, epoch: int = 1) -> bytes:
    return HEAD.encode(CertificateHead(1, 2, epoch, 1, 1, bytes(32), bits)) + b"signatures"


def heard(bound: Bound) -> list[int]:
    """Return the places of the validators with signs of life in epoch 1."""
    stake = bound[TrustStake]
    return [place for place, seat in enumerate(stake.active_set.get()) if stake.was_on_line(seat.stash, 1)]


def test_an_author_is_heard_at_once_and_once(bound: Bound) -> None:
    stash = bound[TrustStake].active_set.get()[3].stash
    note(bound, author=stash)
    assert heard(bound) == [3]
    assert not bound[TrustStake].was_on_line(stash, 2)
    bound[TrustStake].note_heard(stash, 0)
    assert heard(bound) == [3], "an older sign takes nothing back"


def test_votes_of_all_certificates_of_the_epoch_are_written_down_at_its_end(bound: Bound) -> None:
    note(bound, certificate(b"\x05"))
    note(bound, certificate(b"\x00\x02"))
    note(bound, certificate(b"\x01"))
    assert heard(bound) == []
    presence.settle(bound[TrustStake])
    assert heard(bound) == [0, 2, 9]
    assert bound[TrustStake].epoch_voters.get() == Presence(1)


@pytest.mark.parametrize(
    "bad", [b"", b"not a certificate", certificate(b"\x01", epoch=0), certificate(b"\x01", epoch=2), certificate(b"")]
)
def test_what_is_no_certificate_of_this_epoch_shows_nobody(bound: Bound, bad: bytes) -> None:
    note(bound, bad)
    presence.settle(bound[TrustStake])
    assert heard(bound) == []


def test_the_certificate_that_comes_with_the_next_epochs_first_block_counts_before_anybody_is_judged(
    bound: Bound,
) -> None:
    """If finality comes once an epoch, with its last block, it is the only certificate."""
    stake = bound[TrustStake]
    stake.system.digest.set((consensus_item(FinalRef(1, bytes(32), certificate(b"\x06"))),))
    presence.settle(stake)
    assert heard(bound) == [1, 2]


def test_one_that_comes_later_still_is_written_down_an_epoch_late_for_the_set_that_it_is_of(bound: Bound) -> None:
    stake = bound[TrustStake]
    note(bound, certificate(b"\x03", epoch=0))
    note(bound, certificate(b"\x08", epoch=0))
    seats = stake.validators(0)
    stake.active_set.set(seats[1:])  # one member has left since, and all others have other places
    presence.settle(stake)
    stake.active_set.set(seats)
    signed = [place for place, seat in enumerate(seats) if stake.was_on_line(seat.stash, 0)]
    assert (signed, heard(bound)) == ([0, 1, 3], []), "in epoch 0, which says nothing of epoch 1"
    assert stake.late_voters.get() == b""
    note(bound, certificate(b"\x10", epoch=0))
    presence.settle(stake)
    presence.settle(stake)
    assert not stake.was_on_line(seats[0].stash, 1)


def test_a_bitmap_that_is_shorter_than_the_set_shows_nobody_of_the_rest(bound: Bound) -> None:
    note(bound, certificate(b"\x81"))
    presence.settle(bound[TrustStake])
    assert heard(bound) == [0, 7]
