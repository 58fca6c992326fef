"""Key changes: allowed origins, refusals, the first epoch of the new keys, and the owner of the old ones."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.encoding.types import Root, Unsigned
from runtime.frame.errors import BadOrigin, DispatchError
from runtime.pallets.session import NoAssociatedValidator, Session
from runtime.pallets.session_keys import SessionKeys
from runtime.pallets.staking import staking_events as ev
from runtime.pallets.staking.stakers import Candidate
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import (
    BOND,
    GENESIS_HASH,
    Keys,
    MarketChain,
    named_keys,
    refused,
    signed,
    tolerant,
    validates,
)

NEW = Keys("new")
EPOCH_BLOCKS = 6


def chain_of(count: int = 5) -> MarketChain:
    return MarketChain(named_keys(count), [NEW], epoch_blocks=EPOCH_BLOCKS)


def changes(owner: Keys, name: str, stash: bytes | None = None) -> object:
    """Return the call by which `owner` registers the keys of another name, proved for a stash."""
    other = Keys(name)
    return Session.set_keys(other.node_keys(), other.proof(GENESIS_HASH, owner.stash if stash is None else stash))


def until_epoch(chain: MarketChain, epoch: int) -> TrustStake:
    return chain.blocks_to(epoch * EPOCH_BLOCKS + 1)[TrustStake]


def key_in(chain: MarketChain, who: Keys, epoch: int) -> bytes | None:
    seat = chain.now()[TrustStake].seat_in(who.stash, epoch)
    return None if seat is None else seat.session_key


def test_new_keys_hold_from_the_next_set_that_is_elected() -> None:
    chain = chain_of()
    alice = chain.validators[0]
    before = chain.now()[TrustStake].candidates[alice.stash]
    assert before is not None
    chain.block(signed(alice.stash, changes(alice, "second")))
    until_epoch(chain, 2)
    second = Keys("second")
    assert [key_in(chain, alice, epoch) for epoch in (0, 1, 2)] == [
        alice.public("session"), alice.public("session"), second.public("session"),
    ]  # fmt: skip
    after = chain.now()[TrustStake].candidates[alice.stash]
    assert after == Candidate(
        second.public("session"), second.public("vrf"), before.provider_key, before.commission_ppm
    ), "nothing else of the offer changes"


@pytest.mark.parametrize("role", ["session", "vrf"])
def test_who_only_named_a_key_gives_way_to_whoever_proves_it(role: str) -> None:
    chain = chain_of()
    alice, wanted = chain.validators[0], Keys("second").public(role)
    names_it = validates(NEW, provider_key=wanted)
    chain.block(signed(NEW.stash, TrustStake.bond(value=BOND)), signed(NEW.stash, names_it))
    chain.block(signed(alice.stash, changes(alice, "second")))
    stake = chain.now()[TrustStake]
    assert (stake.key_owner[wanted], stake.stash_of(wanted)) == (alice.stash, None)
    chain.block(refused(NEW.stash, names_it, ev.KeyTaken))
    chain.block(signed(NEW.stash, TrustStake.chill()))
    assert chain.now()[TrustStake].key_owner[wanted] == alice.stash, "who leaves takes nothing of another along"


def test_a_key_that_sat_gives_way_to_nobody_though_it_is_named_now_alone() -> None:
    chain = chain_of()
    alice, bob = chain.validators[:2]
    chain.block(signed(alice.stash, changes(alice, "second")))
    asked = chain.now()[TrustStake].commission_of(alice.stash)
    assert asked is not None
    now_names_it = validates(alice, "third", commission_ppm=asked, provider_key=alice.public("session"))
    chain.block(signed(alice.stash, now_names_it))
    proof = alice.proof(GENESIS_HASH, bob.stash, vrf="another vrf")
    stolen = Session.set_keys(alice.node_keys(vrf="another vrf"), proof)
    chain.block(refused(bob.stash, stolen, ev.KeyTaken))


@pytest.mark.parametrize("roles", [("session", "another vrf"), ("another session", "vrf")])
def test_a_key_that_was_proved_gives_way_to_nobody_though_it_never_sat(roles: tuple[str, str]) -> None:
    chain = chain_of()
    alice, bob = chain.validators[:2]
    chain.block(signed(alice.stash, changes(alice, "second")))
    second = Keys("second")
    stolen = Session.set_keys(second.node_keys(*roles), second.proof(GENESIS_HASH, bob.stash, *roles))
    chain.block(refused(bob.stash, stolen, ev.KeyTaken))


def test_a_key_that_sat_stays_its_owners_and_one_that_never_sat_is_free() -> None:
    chain = chain_of()
    alice, bob = chain.validators[:2]
    chain.block(signed(alice.stash, changes(alice, "second")), signed(alice.stash, changes(alice, "third")))
    chain.block(signed(bob.stash, changes(bob, "second")))
    until_epoch(chain, 2)
    taken = Session.set_keys(alice.node_keys(), alice.proof(GENESIS_HASH, bob.stash))
    chain.block(refused(bob.stash, taken, ev.KeyTaken))
    chain.block(signed(alice.stash, changes(alice, "alice")), signed(bob.stash, changes(bob, "bob")))
    until_epoch(chain, 4)
    assert key_in(chain, alice, 4) == alice.public("session")


REFUSED = {
    "no candidate": (NEW, changes(NEW, "second"), NoAssociatedValidator),
    "a proof for another": (Keys("alice"), changes(Keys("alice"), "second", NEW.stash), ev.InvalidKeysProof),
    "a proof of other keys": (
        Keys("alice"),
        Session.set_keys(Keys("second").node_keys(), Keys("third").proof(GENESIS_HASH, Keys("alice").stash)),
        ev.InvalidKeysProof,
    ),
    "another chain": (
        Keys("alice"),
        Session.set_keys(Keys("second").node_keys(), Keys("second").proof(bytes(32), Keys("alice").stash)),
        ev.InvalidKeysProof,
    ),
    "a key of small order": (
        Keys("alice"),
        Session.set_keys(SessionKeys(bytes(32), Keys("second").public("vrf")), Keys("second").proof(GENESIS_HASH)),
        ev.UnsafeKey,
    ),
    "keys of another": (Keys("alice"), changes(Keys("alice"), "bob"), ev.KeyTaken),
    "its provider key": (
        Keys("alice"),
        Session.set_keys(Keys("alice").node_keys("provider"), Keys("alice").proof(GENESIS_HASH, session="provider")),
        ev.KeyTaken,
    ),
}


@pytest.mark.parametrize(("who", "call", "error"), REFUSED.values(), ids=REFUSED)
def test_each_reason_alone_refuses_the_change(who: Keys, call: object, error: type[DispatchError]) -> None:
    chain = chain_of()
    before = chain.now()[TrustStake].candidates[who.stash]
    chain.block(refused(who.stash, call, error))
    assert chain.now()[TrustStake].candidates[who.stash] == before


@pytest.mark.parametrize("origin", [Root(), Unsigned()])
def test_nobody_else_changes_them(origin: Root | Unsigned) -> None:
    chain = chain_of()
    with pytest.raises(BadOrigin):
        chain.now().dispatch(changes(chain.validators[0], "second"), origin)  # type: ignore[arg-type]


def test_an_announced_commission_is_not_lost() -> None:
    chain = chain_of()
    alice = chain.validators[0]
    asked = chain.now()[TrustStake].commission_of(alice.stash)
    assert asked is not None
    chain.block(signed(alice.stash, TrustStake.announce_commission(commission_ppm=asked + 10_000)))
    chain.block(signed(alice.stash, changes(alice, "second")))
    assert chain.now()[TrustStake].commission_of(alice.stash) == asked
    until_epoch(chain, 3)
    assert chain.now()[TrustStake].commission_of(alice.stash) == asked + 10_000
    chain.block(signed(alice.stash, changes(alice, "third")))
    assert chain.now()[TrustStake].commission_of(alice.stash) == asked + 10_000


NAMES = ("alice", "bob", "new", "second", "third")


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from(("keys", "offer", "chill", "block")), st.integers(0, 2), st.integers(0, 4))))
def test_a_key_has_one_owner_and_one_that_sat_never_another(steps: list[tuple[str, int, int]]) -> None:
    chain = chain_of(4)
    people = [*chain.validators[:2], NEW]
    chain.block(signed(NEW.stash, TrustStake.bond(value=BOND)))
    sat: dict[bytes, bytes] = {}
    for what, place, name in steps:
        who, other = people[place], Keys(NAMES[name])
        asked = chain.now()[TrustStake].commission_of(who.stash) or 50_000
        call: object = {
            "keys": Session.set_keys(other.node_keys(), other.proof(GENESIS_HASH, who.stash)),
            "offer": validates(who, commission_ppm=asked),
            "chill": TrustStake.chill(),
        }.get(what)
        if call is None:
            chain.blocks(EPOCH_BLOCKS)
        else:
            chain.block(tolerant(signed(who.stash, call)))
        stake = chain.now()[TrustStake]
        for seat in stake.active_set.get():
            assert sat.setdefault(seat.session_key, seat.stash) == seat.stash
        for stash, candidate in stake.candidates.items():
            assert candidate is not None
            assert {stake.key_owner[key] for key in (candidate.session_key, candidate.vrf_key)} == {stash}
            assert stake.stash_of(candidate.provider_key) == stash
