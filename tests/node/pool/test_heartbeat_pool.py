"""Heartbeats on their way into a block, over the real staking: taken once, checked, attached, forgotten."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from node.p2p.frames import FrameKind
from node.p2p.gossip import Gossip
from node.peers.peers import PENALTIES_MAX, Peers
from node.pool import gossip_pool, heartbeat_pool, judged_state
from node.pool.gossip_pool import FAILED_CHECKS_MAX, FAILED_CHECKS_REMEMBERED, LOOKS_MAX, FailedChecks
from node.pool.heartbeat_pool import AHEAD_MAX, HEARTBEAT, HeartbeatPool
from node.pool.manners import REFUSED_BURST_SECONDS
from node.pool.refusal import ForgedError, PoolRefusalError
from played_transport import PlayedTransport
from runtime.cryptography.signatures import verify_ed25519
from runtime.encoding.types import Unsigned
from runtime.frame.runtime import Bound, Runtime
from runtime.pallets.im_online import (
    HEARTBEATS_MAX,
    Heartbeat,
    HeartbeatReceived,
    ImOnline,
    SeenFinal,
    heartbeat_payload,
)
from runtime.pallets.session import Session
from runtime.pallets.staking.trust_stake import TrustStake
from settled_chain import SettledChain
from simulation.chains.market_chain import BOND, GENESIS_HASH, Keys, MarketChain, hash_of, named_keys, signed, validates
from simulation.chains.presence import heartbeat

EPOCH_BLOCKS = 6
NEW = [Keys(f"new {number}") for number in range(3)]
SAVER = Keys("saver")


class Stage:
    """A pool in the third block of epoch 1, with three inactive candidates."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, candidates: list[Keys] = NEW, blocks: int = EPOCH_BLOCKS + 2
    ) -> None:
        self.market = MarketChain(named_keys(4), [*candidates, SAVER], epoch_blocks=EPOCH_BLOCKS)
        offers = [call for who in candidates for call in (TrustStake.bond(value=BOND), validates(who))]
        owners = [who.stash for who in candidates for _ in range(2)]
        self.market.block(*(signed(owner, call) for owner, call in zip(owners, offers, strict=True)))
        self.market.blocks(blocks)
        self.transport = PlayedTransport("a", "b")
        self.blamed: list[str] = []
        self.seconds = 0.0
        network = Peers(self.transport)
        monkeypatch.setattr(network, "peer_ids", lambda: self.transport.connected)
        chain: Any = SettledChain(self.market)
        self.pool = HeartbeatPool(
            chain, network, Gossip(random.Random(1)), lambda: b"", self.blame, lambda: self.seconds
        )

    def blame(self, peer: str, reason: str) -> None:
        assert reason
        self.blamed.append(peer)

    def beat(self, who: Keys, number: int | None = None) -> Heartbeat:
        number = self.market.height - 1 if number is None else number
        return heartbeat(who, GENESIS_HASH, number, hash_of(number))

    def hear(self, beat: Heartbeat, peer: str = "a") -> list[tuple[str, FrameKind, bytes]]:
        """Return the messages after a peer's heartbeat."""
        before = len(self.transport.sent)
        self.pool.on_gossip(FrameKind.HEARTBEAT, HEARTBEAT.encode(beat), peer)
        return self.transport.sent[before:]

    def make_block(self) -> list[HeartbeatReceived]:
        """Make the next block with the pool's calls, and finalise it."""

        def attach(bound: Bound) -> None:
            for call in self.pool.inherents(bound):
                with bound.overlay.transaction():
                    bound.dispatch(call, Unsigned())

        self.market.block(attach)
        self.pool.on_final([self.pool._chain.final])
        return [one for one in self.market.events if isinstance(one, HeartbeatReceived)]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_a_heartbeat_goes_on_to_others_and_into_the_next_block_and_is_forgotten(stage: Stage) -> None:
    beat = stage.beat(NEW[0])
    assert stage.hear(beat) == [("b", FrameKind.HEARTBEAT, HEARTBEAT.encode(beat))]
    assert stage.hear(beat, "b") == [], "known"
    stage.pool.submit(stage.beat(NEW[1]))
    assert {target for target, *_ in stage.transport.sent[1:]} == {"a", "b"}
    assert {one.stash for one in stage.make_block()} == {NEW[0].stash, NEW[1].stash}
    assert len(stage.pool) == 0
    assert stage.make_block() == []


def test_an_own_one_is_told_again_until_it_is_heard(stage: Stage) -> None:
    first = stage.beat(NEW[0])
    stage.pool.submit(first)
    stage.market.block()
    stage.pool.submit(stage.beat(NEW[0]))
    assert [raw for _, _, raw in stage.transport.sent] == [HEARTBEAT.encode(first)] * 4, "the one that is kept"
    stage.make_block()
    with pytest.raises(PoolRefusalError, match="on line"):
        stage.pool.submit(stage.beat(NEW[0]))


def test_another_frame_is_not_for_this_pool(stage: Stage) -> None:
    stage.pool.on_gossip(FrameKind.ATTESTATION, HEARTBEAT.encode(stage.beat(NEW[0])), "a")
    assert len(stage.pool) == 0


@pytest.mark.parametrize("raw", [b"", b"\0" * 131, b"\xff" * 133])
def test_what_is_no_heartbeat_is_dropped(raw: bytes, stage: Stage) -> None:
    stage.pool.on_gossip(FrameKind.HEARTBEAT, raw, "a")
    assert len(stage.pool) == 0
    assert stage.transport.sent == []


def test_each_condition_alone_keeps_one_out(stage: Stage) -> None:
    good, height = stage.beat(NEW[0]), stage.market.height
    bad = {
        "no candidate": stage.beat(SAVER),
        "on line": stage.beat(stage.market.validators[0]),
        "too old": stage.beat(NEW[0], EPOCH_BLOCKS - 1),
        "too new": heartbeat(NEW[0], GENESIS_HASH, height + AHEAD_MAX + 1, hash_of(1)),
        "not final here": replace(good, seen=SeenFinal(NEW[0].stash, height, hash_of(height - 1))),
        "bad signature": replace(good, signature=stage.beat(NEW[1]).signature),
    }
    for why, beat in bad.items():
        with pytest.raises(PoolRefusalError, match=why.strip()):
            stage.pool.submit(beat)
        assert stage.hear(beat) == []
    stage.pool.submit(good)


def test_nobody_has_seen_block_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, blocks=2)
    with pytest.raises(PoolRefusalError, match="too old"):
        stage.pool.submit(stage.beat(NEW[0], 0))
    stage.pool.submit(stage.beat(NEW[0], 1))


def test_cheap_reasons_cost_no_signature(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = []

    def counted(*claim: bytes) -> bool:
        checks.append(claim)
        return verify_ed25519(*claim)

    monkeypatch.setattr(heartbeat_pool, "verify_ed25519", counted)
    stage.hear(stage.beat(NEW[0]))
    for number in range(200):
        stage.hear(replace(stage.beat(NEW[0]), signature=number.to_bytes(64, "big")))
        stage.hear(replace(stage.beat(SAVER), signature=number.to_bytes(64, "big")))
        stage.hear(heartbeat(NEW[1], GENESIS_HASH, stage.market.height, number.to_bytes(32, "big")))
    assert len(checks) == 1


def test_one_that_came_before_the_block_that_it_needs_is_taken_when_it_is_told_again(stage: Stage) -> None:
    """This node was a block behind, and could not know the heartbeat's validator."""
    late = SAVER
    beat = stage.beat(late, stage.market.height + 1)
    assert stage.hear(beat) == [], "no candidate yet"
    assert stage.hear(beat) == []
    offers = (TrustStake.bond(value=BOND), validates(late))
    stage.market.block(*(signed(late.stash, offer) for offer in offers))
    assert stage.hear(beat, "b") == [("a", FrameKind.HEARTBEAT, HEARTBEAT.encode(beat))]
    assert stage.hear(beat) == [], "known"
    assert [one.stash for one in stage.make_block()] == [late.stash]


def test_a_bad_one_that_is_told_again_and_again_costs_a_few_signatures_and_one_a_block(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = []

    def counted(*claim: bytes) -> bool:
        checks.append(claim)
        return verify_ed25519(*claim)

    monkeypatch.setattr(heartbeat_pool, "verify_ed25519", counted)
    bad = replace(stage.beat(NEW[0], 2 * EPOCH_BLOCKS), signature=bytes(64))
    counts = []
    for _ in range(3 * LOOKS_MAX):
        for peer in ("a", "b", "a"):
            assert stage.hear(bad, peer) == []
        counts.append(len(checks))
        if stage.market.height < 2 * EPOCH_BLOCKS - 1:
            stage.market.block()
        upon = bytes([len(counts)])  # another block, each time
        monkeypatch.setattr(stage.pool._spreading, "_judged_upon", partial(bytes, upon))
    assert counts[:LOOKS_MAX] == list(range(1, LOOKS_MAX + 1))
    assert counts[-1] == LOOKS_MAX


def test_messages_that_were_refused_are_remembered_within_bounds(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gossip_pool, "REFUSED_MAX", 4)
    for number in range(10):
        stage.hear(replace(stage.beat(SAVER), signature=number.to_bytes(64, "big")))
    assert len(stage.pool._spreading._refused_items) == 4


def test_one_of_a_block_that_this_node_has_not_yet_waits_for_it(stage: Stage) -> None:
    stage.hear(stage.beat(NEW[0], stage.market.height + 1))
    assert stage.make_block() == [], "not final there yet"
    assert [one.stash for one in stage.make_block()] == [NEW[0].stash]


def test_one_of_the_last_block_before_the_epoch_is_of_this_epoch(stage: Stage) -> None:
    assert stage.hear(stage.beat(NEW[0], EPOCH_BLOCKS))
    assert [one.stash for one in stage.make_block()] == [NEW[0].stash]


def test_one_that_turns_out_to_be_of_another_block_is_forgotten(stage: Stage) -> None:
    stage.hear(heartbeat(NEW[0], GENESIS_HASH, stage.market.height + 1, b"x" * 32))
    assert len(stage.pool) == 1
    assert stage.make_block() == []
    assert len(stage.pool) == 0


def test_those_of_an_ended_epoch_and_of_who_gave_up_are_forgotten(stage: Stage) -> None:
    stage.hear(stage.beat(NEW[0]))
    stage.hear(stage.beat(NEW[1]))
    stage.market.block(signed(NEW[0].stash, TrustStake.chill()))
    stage.pool.on_final([stage.pool._chain.final])
    assert len(stage.pool) == 1
    stage.market.blocks(EPOCH_BLOCKS)
    stage.pool.on_final([stage.pool._chain.final])
    assert len(stage.pool) == 0


def test_a_block_takes_no_more_than_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [Keys(f"candidate {number}") for number in range(HEARTBEATS_MAX + 5)]
    stage = Stage(monkeypatch, many)
    for who in many:
        stage.hear(stage.beat(who))
    assert len(stage.make_block()) == HEARTBEATS_MAX
    assert len(stage.make_block()) == 5


def test_where_a_block_has_little_room_fewer_are_attached_and_none_in_none(stage: Stage) -> None:
    for who in NEW:
        stage.hear(stage.beat(who))
    bound = stage.market.now()
    bound[ImOnline].system.initialize(stage.market.height + 1, hash_of(stage.market.height), ())
    one, two = (ImOnline.attach(heartbeats=(stage.beat(NEW[0]),) * count).weight.ref_time for count in (1, 2))
    for room, attached in ((two, 2), (two - 1, 1), (one - 1, 0)):
        bound.mandatory_left = room
        calls = list(stage.pool.inherents(bound))
        assert sum(len(call.arguments[0]) for call in calls) == attached


def test_one_with_a_key_that_was_replaced_is_forgotten_and_the_new_keys_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(monkeypatch, blocks=EPOCH_BLOCKS)
    who, second = NEW[0], Keys("second")
    stage.pool.submit(stage.beat(who, stage.market.height))
    proof = second.proof(GENESIS_HASH, who.stash)
    stage.market.block(signed(who.stash, Session.set_keys(second.node_keys(), proof)))
    stage.pool.on_final([stage.pool._chain.final])
    assert len(stage.pool) == 0
    seen = SeenFinal(who.stash, stage.market.height, hash_of(stage.market.height))
    new = Heartbeat(seen, second.sign("session", heartbeat_payload(GENESIS_HASH, seen)))
    assert [kind for _, kind, _ in stage.hear(new)] == [FrameKind.HEARTBEAT]
    stage.market.block()
    assert [one.stash for one in stage.make_block()] == [who.stash]


def test_where_more_wait_than_a_block_holds_those_with_the_most_behind_them_come_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many candidates with the least bond and lower accounts exclude no electable one."""
    monkeypatch.setattr(heartbeat_pool, "HEARTBEATS_MAX", 2)
    people = sorted((Keys(f"new {number}") for number in range(5)), key=lambda who: who.stash)
    stage = Stage(monkeypatch, people)
    for who in people:
        stage.hear(stage.beat(who))
    rich = people[-2:]
    stage.market.block(*(signed(SAVER.stash, TrustStake.delegate(who.stash, BOND)) for who in rich))
    assert [one.stash for one in stage.make_block()] == [who.stash for who in rich]
    assert [one.stash for one in stage.make_block()] == [who.stash for who in people[:2]]


def forged(beat: Heartbeat, number: int) -> Heartbeat:
    """The heartbeat, with another bad signature for each number."""
    return replace(beat, signature=number.to_bytes(64, "big"))


def counting_checks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, ...]]:
    """Record the signatures that the pool checks from here on."""
    checks: list[tuple[bytes, ...]] = []

    def counted(*claim: bytes) -> bool:
        checks.append(claim)
        return verify_ed25519(*claim)

    monkeypatch.setattr(heartbeat_pool, "verify_ed25519", counted)
    return checks


@pytest.mark.parametrize("is_heard_already", [False, True])
def test_a_peer_that_forges_is_blamed_until_it_is_banned_and_few_signatures_are_checked(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, *, is_heard_already: bool
) -> None:
    """Also in the name of a candidate with a sign of life in this epoch, which excuses only an honest peer."""
    stash = stage.market.validators[0] if is_heard_already else NEW[0]
    checks = counting_checks(monkeypatch)
    for number in range(100):
        assert stage.hear(forged(stage.beat(stash), number)) == []
    assert len(stage.blamed) >= PENALTIES_MAX
    assert len(checks) == FAILED_CHECKS_MAX
    assert stage.hear(stage.beat(NEW[0]), "b"), "another peer is heard"


def test_undecodable_heartbeats_are_blamed_too(stage: Stage) -> None:
    for number in range(100):
        stage.pool.on_gossip(FrameKind.HEARTBEAT, b"junk %d" % number, "a")
    assert len(stage.blamed) >= PENALTIES_MAX


def test_in_another_epoch_a_few_more_signatures_are_checked(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = counting_checks(monkeypatch)
    counts = []
    for epoch in range(3):
        for number in range(10):
            stage.hear(forged(stage.beat(NEW[0]), 100 * epoch + number))
        counts.append(len(checks))
        stage.market.blocks(EPOCH_BLOCKS)
    assert counts == [FAILED_CHECKS_MAX * (epoch + 1) for epoch in range(3)]


def test_forgeries_of_two_epochs_in_turn_share_the_checks_of_one(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Near an epoch's end a heartbeat may name the next one."""
    checks = counting_checks(monkeypatch)
    for number in range(20):
        height = stage.market.height - 1 + number % 2 * EPOCH_BLOCKS
        stage.hear(forged(heartbeat(NEW[0], GENESIS_HASH, height, hash_of(stage.market.height - 1)), number))
    assert len(checks) == FAILED_CHECKS_MAX


def test_a_peer_that_relays_a_few_bad_ones_among_good_ones_is_not_blamed(stage: Stage) -> None:
    for number in range(3):
        assert stage.hear(forged(stage.beat(NEW[number]), number)) == []
        assert stage.hear(stage.beat(NEW[number]))
    assert stage.blamed == []


def test_a_peer_that_brings_as_many_good_ones_as_bad_ones_is_not_blamed(stage: Stage) -> None:
    for epoch in range(4):
        assert stage.hear(stage.beat(NEW[0]))
        stage.hear(forged(stage.beat(NEW[1]), epoch))
        assert stage.hear(stage.beat(NEW[1]))
        stage.hear(forged(stage.beat(NEW[2]), epoch))
        stage.market.blocks(EPOCH_BLOCKS)
    assert stage.blamed == []


def test_a_signature_of_the_key_that_is_still_the_final_one_is_no_forgery(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer has not imported the block in which a candidate changed its key. This node has."""
    stage = Stage(monkeypatch, blocks=EPOCH_BLOCKS)
    second, chain = Keys("second"), stage.pool._chain
    final = chain.final
    proof = second.proof(GENESIS_HASH, NEW[0].stash)
    stage.market.block(signed(NEW[0].stash, Session.set_keys(second.node_keys(), proof)))
    best = chain.final
    monkeypatch.setattr(type(chain), "final", final)
    monkeypatch.setattr(type(chain), "get", lambda _, block: final if block == final.facts.id else best)
    for number in range(40):
        stage.hear(heartbeat(NEW[0], GENESIS_HASH, best.facts.height, number.to_bytes(32, "big")))
    assert len(stage.pool) == 0
    assert stage.blamed == []


def test_a_heartbeat_of_the_best_block_is_none_of_the_future(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, blocks=EPOCH_BLOCKS)
    chain, final = stage.pool._chain, stage.pool._chain.final
    stage.market.block()
    best = chain.final
    monkeypatch.setattr(type(chain), "final", final)
    monkeypatch.setattr(type(chain), "get", lambda _, block: final if block == final.facts.id else best)
    monkeypatch.setattr(heartbeat_pool, "AHEAD_MAX", 0)
    stage.hear(stage.beat(NEW[1], best.facts.height))
    assert len(stage.pool) == 1


def test_who_used_up_its_share_keeps_no_message_from_coming_by_another_peer(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = stage.beat(NEW[0])
    take, stage.seconds = stage.pool._checked_session, 1.0

    def dear(beat: Heartbeat, source: str | None) -> bytes:
        stage.seconds += 2 * REFUSED_BURST_SECONDS
        return take(beat, source)

    monkeypatch.setattr(stage.pool, "_checked_session", dear)
    stage.hear(forged(good, 1))
    assert stage.hear(good) == [], "nothing of that peer is looked at"
    assert stage.hear(good, "b") == [("a", FrameKind.HEARTBEAT, HEARTBEAT.encode(good))]


def test_the_state_is_bound_once_for_a_best_block(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[object] = []
    at = Runtime.at

    def counted(runtime: Runtime, reader: Any) -> Bound:
        bound.append(reader)
        return at(runtime, reader)

    monkeypatch.setattr(Runtime, "at", counted)
    for number in range(50):
        stage.hear(forged(stage.beat(SAVER), number))
    assert len(bound) == 1
    monkeypatch.setattr(judged_state, "READS_MAX", 10)
    for number in range(50, 100):
        stage.hear(forged(stage.beat(SAVER), number))
    assert len(bound) == 1 + 5, "what strangers ask for does not stay in memory"


def test_failed_checks_are_remembered_within_bounds() -> None:
    failed = FailedChecks()
    for number in range(FAILED_CHECKS_REMEMBERED + 50):
        failed.note("peer", number.to_bytes(32, "big"))
    assert len(failed) == FAILED_CHECKS_REMEMBERED
    for _ in range(FAILED_CHECKS_MAX):
        failed.note("flooder", bytes(32))
    with pytest.raises(ForgedError):
        failed.refuse_more("flooder", bytes(32), -1)


def test_a_count_of_failed_checks_that_grows_is_not_forgotten_before_older_ones() -> None:
    failed = FailedChecks()
    for number in (*range(FAILED_CHECKS_REMEMBERED), *[0] * (FAILED_CHECKS_MAX - 1), FAILED_CHECKS_REMEMBERED):
        failed.note("peer", number.to_bytes(32, "big"))
    counts = failed._counts_by_source
    assert counts["peer", bytes(32)] == FAILED_CHECKS_MAX


def test_a_forgery_for_a_candidate_that_only_the_best_block_knows_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, blocks=EPOCH_BLOCKS)
    chain, final = stage.pool._chain, stage.pool._chain.final
    stage.market.block(*(signed(SAVER.stash, offer) for offer in (TrustStake.bond(value=BOND), validates(SAVER))))
    best = chain.final
    monkeypatch.setattr(type(chain), "final", final)
    monkeypatch.setattr(type(chain), "get", lambda _, block: final if block == final.facts.id else best)
    with pytest.raises(ForgedError):
        stage.pool.submit(forged(stage.beat(SAVER, best.facts.height), 1))
