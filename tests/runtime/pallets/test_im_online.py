"""Heartbeats: each rule alone, elections by a heartbeat, and its single count."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cryptography.signatures import verify_ed25519
from runtime.encoding.types import Origin, Root, Signed, Unsigned
from runtime.frame.errors import BadOrigin, InvalidBlock
from runtime.frame.runtime import Bound
from runtime.pallets.im_online import (
    HEARTBEATS_MAX,
    Heartbeat,
    HeartbeatReceived,
    Heartbeats,
    ImOnline,
    SeenFinal,
    heartbeat_payload,
)
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import BOND, Keys, MarketChain, hash_of, named_keys, signed, validates
from simulation.chains.presence import attached, heartbeat

NEW, OTHER, SAVER = Keys("new"), Keys("other"), Keys("saver")
EPOCH_BLOCKS = 6
FINAL = EPOCH_BLOCKS + 2
"""A final block of the second epoch. These tests are in that epoch's third block."""


def chain_of(count: int = 8) -> MarketChain:
    """Return epoch 1 with two inactive candidates."""
    chain = MarketChain(
        named_keys(count), [NEW, OTHER, SAVER], {"TrustStake.elections_enabled": 1}, epoch_blocks=EPOCH_BLOCKS
    )
    chain.block(*(step for who in (NEW, OTHER) for step in offers(who)))
    chain.blocks(FINAL)
    return chain


def offers(who: Keys) -> tuple[Callable[[Bound], None], ...]:
    return signed(who.stash, TrustStake.bond(value=BOND)), signed(who.stash, validates(who))


def beat(who: Keys, number: int = FINAL) -> Heartbeat:
    return heartbeat(who, hash_of(0), number, hash_of(number))


def attach(*heartbeats: Heartbeat) -> Callable[[Bound], None]:
    def step(bound: Bound) -> None:
        with bound.overlay.transaction():
            bound.dispatch(attached(heartbeats), Unsigned())

    return step


def refuses(heartbeats: tuple[Heartbeat, ...], why: str) -> Callable[[Bound], None]:
    """Return a step whose inherent with these makes the block invalid, for this reason, without any record."""

    def step(bound: Bound) -> None:
        before = bound[TrustStake].last_online[NEW.stash]
        with pytest.raises(InvalidBlock, match=why), bound.overlay.transaction():
            bound.dispatch(ImOnline.attach(heartbeats=heartbeats), Unsigned())
        assert bound[TrustStake].last_online[NEW.stash] == before

    return step


def test_a_heartbeat_counts_for_the_epoch_of_its_block() -> None:
    chain = chain_of()
    assert not chain.now()[TrustStake].was_on_line(NEW.stash, 1)
    chain.block(attach(beat(NEW)))
    assert chain.now()[TrustStake].last_online[NEW.stash] == 2
    assert chain.happened(HeartbeatReceived) == [HeartbeatReceived(NEW.stash)]


def test_the_last_block_before_an_epoch_is_enough_where_finality_comes_once_an_epoch() -> None:
    """The epoch's own blocks are not final while it lasts, and an inactive candidate gave no other sign."""
    chain = chain_of()
    chain.block(attach(beat(NEW, EPOCH_BLOCKS)))
    assert chain.now()[TrustStake].last_online[NEW.stash] == 2, (
        "in epoch 1, not in the one that it was the last block of"
    )
    chain.block(refuses((beat(NEW, FINAL),), "already online"))
    while chain.height < 2 * EPOCH_BLOCKS:
        chain.block(refuses((beat(OTHER, 2 * EPOCH_BLOCKS),), "another epoch"))
    chain.block()
    assert NEW.stash in {seat.stash for seat in chain.now()[TrustStake].validators(3)}
    chain.block(refuses((beat(NEW, EPOCH_BLOCKS),), "another epoch"))


def test_who_beats_is_elected_and_who_does_not_is_not() -> None:
    chain = chain_of()
    chain.block(attach(beat(NEW)))
    chain.blocks_to(2 * EPOCH_BLOCKS + 1)
    elected = {seat.stash for seat in chain.now()[TrustStake].validators(3)}
    assert NEW.stash in elected
    assert OTHER.stash not in elected


BAD: dict[str, tuple[Callable[[], tuple[Heartbeat, ...]], str]] = {
    "no candidate": (lambda: (heartbeat(SAVER, hash_of(0), FINAL, hash_of(FINAL)),), "not a candidate"),
    "of the epoch before": (lambda: (beat(NEW, EPOCH_BLOCKS - 1),), "another epoch"),
    "of the genesis": (lambda: (beat(NEW, 0),), "another epoch"),
    "of the next epoch": (lambda: (beat(NEW, 2 * EPOCH_BLOCKS + 1),), "another epoch"),
    "of a block that is not final": (lambda: (beat(NEW, EPOCH_BLOCKS + 4),), "not final"),
    "of another block": (
        lambda: (heartbeat(NEW, hash_of(0), FINAL, hash_of(FINAL - 1)),),
        "not final",
    ),
    "on another chain": (lambda: (heartbeat(NEW, hash_of(1), FINAL, hash_of(FINAL)),), "invalid signature"),
    "signed by somebody else": (
        lambda: (Heartbeat(SeenFinal(NEW.stash, FINAL, hash_of(FINAL)), beat(OTHER).signature),),
        "invalid signature",
    ),
    "of another who signed": (lambda: (replace(beat(NEW), seen=beat(OTHER).seen),), "invalid signature"),
    "twice": (lambda: (beat(NEW), beat(NEW)), "repeated"),
    "out of order": (
        lambda: tuple(sorted((beat(NEW), beat(OTHER)), key=lambda each: each.seen.stash, reverse=True)),
        "out of order",
    ),
    "none": (lambda: (), "no heartbeats"),
}


@pytest.mark.parametrize("name", BAD)
def test_each_rule_alone_makes_the_block_invalid(name: str) -> None:
    make, why = BAD[name]
    chain = chain_of()
    assert chain.height == FINAL + 1
    chain.block(refuses(make(), why))
    chain.block(attach(beat(NEW)))


def test_once_an_epoch_and_not_where_the_chain_has_seen_it_at_work() -> None:
    chain = chain_of()
    author = chain.validators[0]
    chain.block(refuses((beat(author),), "already online"), attach(beat(NEW)))
    chain.block(refuses((beat(NEW),), "already online"))
    chain.blocks(4)
    again = beat(NEW, chain.height - 1)
    chain.block(attach(again))
    assert chain.now()[TrustStake].last_online[NEW.stash] == 3


def test_a_block_that_the_chain_does_not_call_final_yet_shows_nothing() -> None:
    """It is an ancestor, and may be reverted still."""
    chain = MarketChain(
        named_keys(8), [NEW], {"TrustStake.elections_enabled": 1}, final_lag=3, epoch_blocks=2 * EPOCH_BLOCKS
    )
    chain.block(*offers(NEW))
    chain.blocks(4)
    chain.block(refuses((beat(NEW, 4),), "not final"))
    chain.block(attach(beat(NEW, 4)))


def test_the_key_is_the_one_that_is_registered_now() -> None:
    chain = chain_of()
    chain.block(signed(NEW.stash, validates(NEW, "another")))
    seen = SeenFinal(NEW.stash, FINAL, hash_of(FINAL))
    by_new = Heartbeat(seen, NEW.sign("another", heartbeat_payload(hash_of(0), seen)))
    chain.block(refuses((beat(NEW),), "invalid signature"), attach(by_new))


def test_a_validator_that_is_not_seen_may_beat_and_so_may_who_is_in_jail() -> None:
    chain = chain_of()
    silent = chain.validators[3]
    assert not chain.now()[TrustStake].was_on_line(silent.stash, 1)
    jail = lambda bound: bound[TrustStake].jailed.__setitem__(silent.stash, 0)  # noqa: E731
    chain.block(jail, attach(beat(silent), beat(NEW)))
    assert chain.now()[TrustStake].was_on_line(silent.stash, 1)


def test_who_has_chilled_beats_no_more() -> None:
    chain = chain_of()
    chain.block(signed(NEW.stash, TrustStake.chill()))
    chain.block(refuses((beat(NEW),), "not a candidate"))


@pytest.mark.parametrize("origin", [Signed(NEW.stash), Root()])
def test_nobody_but_an_author_attaches_them(origin: Origin) -> None:
    bound = chain_of().now()
    with pytest.raises(BadOrigin):
        bound.dispatch(attached((beat(NEW),)), origin)


def test_more_than_a_block_holds_cannot_be_written() -> None:
    chain = chain_of()
    codec = chain.runtime.codecs.of(Heartbeats)
    assert len(codec.encode((beat(NEW),) * HEARTBEATS_MAX)) < 10_000
    with pytest.raises(ValueError, match="64"):
        codec.encode((beat(NEW),) * (HEARTBEATS_MAX + 1))


def test_a_full_inherent_fits_beside_everything_else_and_none_where_there_is_no_room() -> None:
    chain = chain_of()
    bound = chain.now()
    full = ImOnline.attach(heartbeats=(beat(NEW),) * HEARTBEATS_MAX)
    assert full.weight.ref_time < bound.mandatory_left / 20

    def crowded(bound: Bound) -> None:
        left, bound.mandatory_left = bound.mandatory_left, 1_000
        refuses((beat(NEW),), "room")(bound)
        bound.mandatory_left = left

    chain.block(crowded)


@given(st.binary(min_size=32, max_size=32), st.integers(0, 2**32 - 1), st.binary(min_size=32, max_size=32))
def test_what_is_signed_says_all_of_it(stash: bytes, number: int, block: bytes) -> None:
    seen = SeenFinal(stash, number, block)
    payload = heartbeat_payload(hash_of(0), seen)
    signature = NEW.sign("session", payload)
    assert verify_ed25519(NEW.public("session"), payload, signature)
    others = (replace(seen, stash=NEW.stash), replace(seen, number=number ^ 1), replace(seen, block=hash_of(7)))
    assert all(heartbeat_payload(hash_of(0), other) != payload for other in others if other != seen)
    assert heartbeat_payload(hash_of(1), seen) != payload


def test_in_the_first_epoch_nobody_has_seen_block_zero() -> None:
    """Its hash is known before the chain begins."""
    chain = MarketChain(named_keys(8), [NEW], {"TrustStake.elections_enabled": 1}, epoch_blocks=EPOCH_BLOCKS)
    chain.block(*offers(NEW))
    chain.block()
    chain.block(refuses((beat(NEW, 0),), "another epoch"), attach(beat(NEW, 1)))
