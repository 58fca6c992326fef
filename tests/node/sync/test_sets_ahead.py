"""Handoffs from peers: a joiner over epochs with changing sets, liars, silence, and the bounds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from block_maker import SPEC, open_at
from consensus.handoffs import HANDOFF
from consensus.headers import TrustedBlock
from joiner import OTHER, PEER, Joiner, history
from node.ledger.trusted_point import TrustedPoint
from node.peers.messages import (
    HANDOFFS,
    HANDOFFS_PER_ANSWER_MAX,
    PeerStatus,
)
from node.sync import sets_ahead
from node.sync.sets_ahead import ASK_MS, ASKED_MAX, MORE_MS, PATIENCE_MS, REST_MS
from runtime.blocks.block import HEADER, block_id
from runtime.cryptography import signatures

NAMES = ("Alice", "Bob", "Charlie", "Dave", "Eve", "Ferdie")
EPOCHS = 40
# Each era of three epochs has other members, between two and five. Alice begins alone.
SETS = [NAMES[era % 4 : era % 4 + 2 + era % 3] for era in (epoch // 3 for epoch in range(EPOCHS))]


@pytest.fixture
def joiner(tmp_path: Path) -> Joiner:
    return Joiner(open_at(tmp_path))


def test_a_joiner_follows_to_the_tip_over_sets_that_change(joiner: Joiner) -> None:
    handoffs, sets = history(joiner.chain, SETS)
    assert joiner.asks() == [], "nobody is ahead"
    joiner.claim(PEER, EPOCHS)
    while joiner.ahead.newest.epoch < EPOCHS:
        epoch = joiner.ahead.newest.epoch
        assert joiner.asks() == [(PEER, epoch)]
        assert joiner.asks() == [], "one request is out to a peer at a time"
        part = handoffs[epoch : epoch + HANDOFFS_PER_ANSWER_MAX]
        assert joiner.answer(PEER, *part) == len(part)
    assert joiner.ahead.newest == sets[-1]
    assert joiner.ahead.proven_height == joiner.chain.parameters.boundary(EPOCHS - 1)
    assert joiner.asks() == []
    assert joiner.peers.penalties == 0


def test_one_certificate_is_checked_at_a_turn_and_none_when_an_answer_arrives(
    joiner: Joiner, monkeypatch: pytest.MonkeyPatch
) -> None:
    handoffs, _ = history(joiner.chain, [("Alice",)] * 3)
    checked: list[bytes] = []
    verify = signatures.verify_ed25519

    def counted(key: bytes, payload: bytes, signature: bytes) -> bool:
        checked.append(payload)
        return verify(key, payload, signature)

    monkeypatch.setattr(signatures, "verify_ed25519", counted)
    joiner.claim(PEER, 3)
    joiner.asks()
    joiner.ahead.on_answer(HANDOFFS.encode(tuple(handoffs)), PEER)
    counts = [len(checked)]
    while joiner.ahead.has_work:
        assert joiner.asks() == [], "what came is followed before more is asked for"
        joiner.ahead.follow_next()
        counts.append(len(checked))
    assert counts == [0, 1, 2, 3]


def test_a_wrong_handoff_costs_its_peer_and_ends_its_answer(joiner: Joiner) -> None:
    handoffs, sets = history(joiner.chain, SETS[:6])
    forged = replace(HANDOFF.decode(handoffs[2]), seats=HANDOFF.decode(handoffs[5]).seats)
    joiner.claim(PEER, 6)
    joiner.claim(OTHER, 6)
    joiner.asks()
    assert joiner.answer(PEER, *handoffs[:2], HANDOFF.encode(forged), *handoffs[3:]) == 3
    assert joiner.ahead.newest == sets[1]
    assert joiner.peers.penalties == 1
    assert joiner.asks() == [(OTHER, 2)]
    assert joiner.answer(OTHER, *handoffs[2:]) == 4
    assert (joiner.ahead.newest, joiner.peers.penalties) == (sets[-1], 1)


def test_a_liar_is_not_asked_again_for_a_while_so_an_honest_peer_is_never_banned_for_being_asked(
    joiner: Joiner,
) -> None:
    joiner.claim(PEER, 6)
    for number in range(1, 4):
        assert joiner.asks() == [(PEER, 0)]
        joiner.answer(PEER, b"\xff")
        assert joiner.peers.penalties == number
        joiner.now_ms += REST_MS - ASK_MS - 1
        assert joiner.asks() == []
        joiner.now_ms += 1
    assert joiner.transport.banned == []


@pytest.mark.parametrize("answer", [None, HANDOFFS.encode(())], ids=["silence", "nothing"])
def test_who_has_none_is_left_alone_for_a_while_and_pays_nothing(joiner: Joiner, answer: bytes | None) -> None:
    joiner.claim(PEER, 6)
    joiner.claim(OTHER, 6)
    assert joiner.asks() == [(PEER, 0)]
    if answer is None:
        joiner.now_ms += PATIENCE_MS
    else:
        joiner.ahead.on_answer(answer, PEER)
    assert joiner.asks() == [(OTHER, 0)]
    joiner.ahead.forget_peer(OTHER)
    del joiner.standings[OTHER]
    joiner.now_ms += REST_MS
    assert joiner.asks() == [(PEER, 0)]
    assert joiner.peers.penalties == 0


def test_an_answer_that_nobody_asked_for_costs_and_a_late_one_brings_nothing(joiner: Joiner) -> None:
    handoffs, _ = history(joiner.chain, SETS[:2])
    assert joiner.answer(PEER, *handoffs) == 0
    assert joiner.peers.penalties == 1
    joiner.claim(PEER, 2)
    joiner.asks()
    joiner.now_ms += PATIENCE_MS
    assert joiner.asks() == []
    assert joiner.answer(PEER, *handoffs) == 0
    assert joiner.peers.penalties == 1
    assert joiner.answer(PEER, *handoffs) == 0
    assert joiner.peers.penalties == 2


def test_what_is_no_answer_costs(joiner: Joiner) -> None:
    joiner.claim(PEER, 2)
    joiner.asks()
    joiner.ahead.on_answer(b"\xff" * 40, PEER)
    assert (joiner.peers.penalties, joiner.ahead.has_work) == (1, False)


def test_claims_that_are_impossible_or_no_news_are_not_followed_up(joiner: Joiner) -> None:
    possible = joiner.chain.highest_possible(joiner.now_ms)
    joiner.standings[PEER] = PeerStatus(b"t" * 32, possible + 1, b"f" * 32, possible + 1)
    assert joiner.asks() == []
    joiner.claim(PEER, 0)
    assert joiner.asks() == []
    joiner.claim(PEER, 1)
    joiner.transport.connected.remove("peer")
    assert joiner.asks() == []


def test_a_handoff_whose_time_has_not_come_is_wrong(joiner: Joiner) -> None:
    handoffs, _ = history(joiner.chain, SETS[:2])
    joiner.claim(PEER, 2)
    joiner.asks()
    # Two thirds of a set of long ago may sign as many epochs as they like.
    joiner.now_ms = (joiner.chain.final.facts.slot + joiner.chain.parameters.boundary(0)) * 1_000
    assert joiner.answer(PEER, *handoffs) == 2
    assert (joiner.ahead.newest.epoch, joiner.peers.penalties) == (1, 1)


@pytest.mark.parametrize("is_right", [True, False])
def test_the_checkpoint_is_the_boundary_that_is_handed_on(joiner: Joiner, *, is_right: bool) -> None:
    handoffs, _ = history(joiner.chain, SETS[:2])
    boundary = block_id(HEADER.decode(HANDOFF.decode(handoffs[1]).header))
    height = joiner.chain.parameters.boundary(1)
    TrustedPoint(joiner.chain, SPEC, TrustedBlock(height, boundary if is_right else b"o" * 32))
    joiner.claim(PEER, 2)
    joiner.asks()
    joiner.answer(PEER, *handoffs)
    assert (joiner.ahead.newest.epoch, joiner.peers.penalties) == ((2, 0) if is_right else (1, 1))


def test_sets_that_are_kept_are_bounded(joiner: Joiner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets_ahead, "SETS_KEPT_MAX", 4)
    handoffs, _ = history(joiner.chain, SETS)
    joiner.claim(PEER, EPOCHS)
    joiner.asks()
    joiner.answer(PEER, *handoffs[:HANDOFFS_PER_ANSWER_MAX])
    assert joiner.asks() == []


def test_resting_peers_are_bounded(joiner: Joiner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets_ahead, "REMEMBERED_MAX", 4)
    for number in range(10):
        joiner.standings.clear()
        joiner.claim(b"%d" % number, 2)
        joiner.transport.connected.append(str(number))
        assert joiner.asks() == [(b"%d" % number, 0)]
        joiner.ahead.on_answer(HANDOFFS.encode(()), b"%d" % number)
        joiner.ahead.forget_peer(b"%d" % number)
    assert len(joiner.ahead._question_turns) == 4
    assert joiner.ahead._owed_answers == {}


def test_who_is_asked_again_may_answer_late_both_times(joiner: Joiner) -> None:
    handoffs, sets = history(joiner.chain, SETS[:2])
    joiner.claim(PEER, 2)
    assert joiner.asks() == [(PEER, 0)]
    joiner.now_ms += PATIENCE_MS
    assert joiner.asks() == []
    joiner.now_ms += REST_MS
    assert joiner.asks() == [(PEER, 0)]
    assert joiner.answer(PEER, *handoffs) == 2
    assert joiner.answer(PEER, *handoffs) == 0
    assert (joiner.ahead.newest, joiner.peers.penalties) == (sets[-1], 0)


def crowd(joiner: Joiner, silent: int) -> bytes:
    """Connect `silent` mute peers, and after them an honest one."""
    peers = [b"silent %d" % number for number in range(silent)] + [b"honest"]
    for peer in peers:
        joiner.transport.connected.append(peer.decode())
        joiner.claim(peer, EPOCHS)
    return peers[-1]


@pytest.mark.parametrize("silent", [13, 40, 200])
def test_silent_peers_hold_up_an_honest_one_once_each_and_a_few_at_a_time(joiner: Joiner, silent: int) -> None:
    handoffs, sets = history(joiner.chain, SETS)
    honest, begun = crowd(joiner, silent), joiner.now_ms
    asked: list[bytes] = []
    while honest not in asked:
        asked += [peer for peer, _ in joiner.asks()]
        assert len(joiner.ahead._asked_questions) <= ASKED_MAX
        assert joiner.now_ms - begun <= (silent // ASKED_MAX + 2) * (PATIENCE_MS + ASK_MS), "rounds of four"
    assert len(asked) == len(set(asked)) == silent + 1, "nobody is asked twice before everybody was asked once"
    while joiner.ahead.newest.epoch < EPOCHS:  # and then it is asked before all mute peers
        epoch = joiner.ahead.newest.epoch
        assert joiner.answer(honest, *handoffs[epoch : epoch + HANDOFFS_PER_ANSWER_MAX])
        assert joiner.asks() == ([(honest, joiner.ahead.newest.epoch)] if joiner.ahead.newest.epoch < EPOCHS else [])
    assert (joiner.ahead.newest, joiner.peers.penalties) == (sets[-1], 0)


def test_another_peer_is_asked_beside_one_that_takes_long_and_whoever_is_first_is_followed(joiner: Joiner) -> None:
    handoffs, sets = history(joiner.chain, SETS[:2])
    joiner.claim(PEER, 2)
    joiner.claim(OTHER, 2)
    assert joiner.asks() == [(PEER, 0)]
    joiner.now_ms += MORE_MS
    assert joiner.asks() == [(OTHER, 0)]
    joiner.ahead.on_answer(HANDOFFS.encode(tuple(handoffs)), OTHER)
    joiner.ahead.on_answer(HANDOFFS.encode(tuple(handoffs)), PEER)
    followed = [joiner.ahead.follow_next() for _ in range(3)]
    assert followed == [OTHER, OTHER, None]
    assert (joiner.ahead.newest, joiner.peers.penalties) == (sets[-1], 0)
