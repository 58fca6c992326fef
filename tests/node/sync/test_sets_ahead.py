"""Handoffs between peers: a joiner over epochs whose sets change, liars, floods, and the node's own chain beside."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from block_maker import FIRST_SLOT, SPEC, Maker, now_of, open_at
from consensus.certificates import CERTIFICATE
from consensus.events import CertifiedRef
from consensus.handoffs import HANDOFF
from consensus.headers import TrustedBlock
from consensus.validators import ValidatorSet
from handed_history import handed, handed_on
from node.errors import NodeError
from node.ledger.chain import Chain
from node.ledger.trusted_point import TrustedPoint
from node.p2p.frames import FrameKind, max_payload_bytes
from node.peers.messages import (
    ANSWER_BYTES_MAX,
    GET_HANDOFFS,
    HANDOFF_BYTES_MAX,
    HANDOFFS,
    HANDOFFS_PER_ANSWER_MAX,
    GetHandoffs,
    PeerStatus,
)
from node.peers.peers import Peers
from node.sync import sets_ahead
from node.sync.sets_ahead import ANSWERS_BURST, ASK_MS, PATIENCE_MS, REST_MS, SetsAhead
from played_transport import PlayedTransport
from runtime.blocks.block import BLOCK, HEADER, block_id
from runtime.cryptography import signatures

PEER, OTHER = b"peer", b"other"
NAMES = ("Alice", "Bob", "Charlie", "Dave", "Eve", "Ferdie")
EPOCHS = 40
# Each era of three epochs seats others, between two and five of them; Alice alone begins.
SETS = [NAMES[era % 4 : era % 4 + 2 + era % 3] for era in (epoch // 3 for epoch in range(EPOCHS))]


class Joiner:
    """A node at its genesis; its peers are played."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.transport = PlayedTransport("peer", "other")
        self.peers = Peers(self.transport)
        self.now_ms = now_of(FIRST_SLOT + 1_000_000)
        self.standings: dict[bytes, PeerStatus] = {}
        self.ahead = SetsAhead(chain, self.peers, lambda: self.now_ms)

    def claim(self, peer: bytes, epoch: int) -> None:
        """A peer says that it is in an epoch."""
        height = self.chain.parameters.boundary(epoch - 1)
        self.standings[peer] = PeerStatus(b"t" * 32, height, b"f" * 32, height)

    def asks(self) -> list[tuple[bytes, int]]:
        """Whom it asks now, and from which epoch on."""
        before = len(self.transport.sent)
        self.now_ms += ASK_MS
        self.ahead.ask(self.standings)
        sent = self.transport.sent[before:]
        assert all(kind is FrameKind.GET_HANDOFFS for _, kind, _ in sent)
        requests = [(peer.encode(), GET_HANDOFFS.decode(payload)) for peer, _, payload in sent]
        assert all(request.count == HANDOFFS_PER_ANSWER_MAX for _, request in requests)
        return [(peer, request.from_epoch) for peer, request in requests]

    def answer(self, peer: bytes, *handoffs: bytes) -> int:
        """A peer answers; how many handoffs are looked at."""
        self.ahead.on_answer(HANDOFFS.encode(handoffs), peer)
        looked_at = 0
        while self.ahead.has_work:
            assert self.ahead.follow_next() == peer
            looked_at += 1
        assert self.ahead.follow_next() is None
        return looked_at


@pytest.fixture
def joiner(tmp_path: Path) -> Joiner:
    return Joiner(open_at(tmp_path))


def history(chain: Chain, sets: list[tuple[str, ...]]) -> tuple[list[bytes], list[ValidatorSet]]:
    first = chain.epochs(0)
    assert first is not None
    return handed_on(chain.parameters, chain.genesis, first.validators, sets)


def test_a_joiner_follows_to_the_tip_over_sets_that_change(joiner: Joiner) -> None:
    handoffs, sets = history(joiner.chain, SETS)
    assert joiner.asks() == [], "nobody is ahead"
    joiner.claim(PEER, EPOCHS)
    while joiner.ahead.newest.epoch < EPOCHS:
        epoch = joiner.ahead.newest.epoch
        assert joiner.asks() == [(PEER, epoch)]
        assert joiner.asks() == [], "one request is out at a time"
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
    monkeypatch.setattr(sets_ahead, "RESTING_MAX", 4)
    for number in range(10):
        joiner.standings.clear()
        joiner.claim(b"%d" % number, 2)
        joiner.transport.connected.append(str(number))
        assert joiner.asks() == [(b"%d" % number, 0)]
        joiner.ahead.on_answer(HANDOFFS.encode(()), b"%d" % number)
        joiner.ahead.forget_peer(b"%d" % number)
    assert len(joiner.ahead._resting) == 4
    assert joiner.ahead._owed == {}


# --- beside the node's own chain


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """Two epochs of final blocks; Alice sits in all of them."""
    maker = Maker(tmp_path_factory.mktemp("maker"))
    chain, reference = maker.chain, None
    for _ in range(2 * chain.parameters.epoch_blocks):
        block = maker.make(final_ref=reference)
        certificate = maker.certify(block)
        chain.finalise((block.facts.id,), certificate)
        reference = CertifiedRef(block.facts.height, block.facts.id, certificate)
    return maker


def followed(joiner: Joiner, sets: list[tuple[str, ...]]) -> None:
    """It is told a history."""
    handoffs, _ = history(joiner.chain, sets)
    joiner.claim(PEER, len(sets))
    joiner.asks()
    assert joiner.answer(PEER, *handoffs) == len(sets)


def catch_up(joiner: Joiner, maker: Maker, height: int) -> None:
    """Its own blocks become final up to a height."""
    chain = joiner.chain
    while chain.final.facts.height < height:
        stored = maker.chain.stored(maker.chain.storage.id_at(chain.final.facts.height + 1) or b"")
        found = maker.chain.storage.certificate_at(chain.final.facts.height + 1)
        assert stored is not None
        assert found is not None
        chain.import_block(BLOCK.decode(stored.header + stored.body), joiner.now_ms)
        chain.finalise((stored.block_id,), CERTIFICATE.decode(found[1]))
        joiner.ahead.compare()


def test_own_blocks_that_seat_the_same_go_on_and_what_they_have_passed_is_let_go_of(
    joiner: Joiner, maker: Maker
) -> None:
    first = joiner.chain.epochs(0)
    assert first is not None
    handoffs = [maker.chain.storage.handoff(epoch) for epoch in range(2)]
    joiner.claim(PEER, 2)
    joiner.asks()
    assert joiner.answer(PEER, *(handoff for handoff in handoffs if handoff is not None)) == 2
    assert joiner.ahead.proven_height == 2 * joiner.chain.parameters.epoch_blocks
    for epoch in (1, 2):
        catch_up(joiner, maker, joiner.chain.parameters.boundary(epoch - 1))
        forgotten = [number for number in range(3) if joiner.ahead._table.of(number) is None]
        assert forgotten == list(range(epoch))
    assert joiner.ahead.newest.epoch == 2


def test_own_blocks_that_seat_others_stop_the_node_and_the_database_is_whole(
    joiner: Joiner, maker: Maker, tmp_path: Path
) -> None:
    followed(joiner, [("Alice",), ("Bob",), ("Bob",)])
    boundary = joiner.chain.parameters.boundary(1)
    catch_up(joiner, maker, boundary - 1)
    with pytest.raises(NodeError, match=r"two histories: in epoch 2 .*--checkpoint"):
        catch_up(joiner, maker, boundary)
    joiner.chain.storage.close()
    again = Joiner(open_at(tmp_path))
    assert again.chain.final.facts.height == boundary
    # Nothing of peers' handoffs is on the disk: it begins with the set that its own blocks seat.
    assert again.ahead.newest == own_set(again.chain, 2)
    assert again.chain.storage.handoff(1) == maker.chain.storage.handoff(1)


def own_set(chain: Chain, epoch: int) -> ValidatorSet:
    found = chain.epochs(epoch)
    assert found is not None
    return found.validators


def test_a_node_that_is_past_what_it_was_told_begins_anew_from_its_own(joiner: Joiner, maker: Maker) -> None:
    catch_up(joiner, maker, joiner.chain.parameters.boundary(1))
    assert joiner.ahead.newest.epoch == 2
    joiner.claim(PEER, 3)
    assert joiner.asks() == [(PEER, 2)]
    old = own_set(joiner.chain, 2)
    alone = replace(old, epoch=3)
    handoff = handed(joiner.chain.parameters, joiner.chain.genesis, ("Alice",), old, alone)
    assert joiner.answer(PEER, handoff) == 1
    assert joiner.ahead.newest == alone


@pytest.mark.parametrize("when", ["asked", "answered"])
def test_an_answer_that_own_blocks_have_overtaken_costs_nobody_anything(
    joiner: Joiner, maker: Maker, when: str
) -> None:
    handoffs = tuple(maker.chain.storage.handoff(epoch) or b"" for epoch in range(2))
    joiner.claim(PEER, 2)
    assert joiner.asks() == [(PEER, 0)]
    if when == "answered":
        joiner.ahead.on_answer(HANDOFFS.encode(handoffs), PEER)
    catch_up(joiner, maker, joiner.chain.parameters.boundary(0))
    if when == "asked":
        assert joiner.answer(PEER, *handoffs) == 1
    while joiner.ahead.has_work:
        joiner.ahead.follow_next()
    assert joiner.asks() == ([(PEER, 1)] if when == "answered" else [])
    assert joiner.peers.penalties == 0


# --- for peers


def test_questions_are_answered_with_what_is_there(maker: Maker) -> None:
    served = Joiner(maker.chain)
    kept = tuple(maker.chain.storage.handoff(epoch) or b"" for epoch in range(2))
    for request, expected in (
        (GetHandoffs(0, 16), kept), (GetHandoffs(0, 1), kept[:1]), (GetHandoffs(1, 16), kept[1:]),
        (GetHandoffs(2, 16), ()), (GetHandoffs(2**32 - 1, 16), ()),
    ):  # fmt: skip
        answer = served.ahead.on_request(request, PEER)
        assert answer is not None
        assert HANDOFFS.decode(answer) == expected


@pytest.mark.parametrize("count", [0, 17, 255])
def test_a_question_for_more_than_an_answer_holds_costs(maker: Maker, count: int) -> None:
    served = Joiner(maker.chain)
    assert served.ahead.on_request(GetHandoffs(0, count), PEER) is None
    assert served.peers.penalties == 1


def test_a_flood_of_questions_is_answered_a_few_times_a_second(maker: Maker) -> None:
    served = Joiner(maker.chain)
    answers = [served.ahead.on_request(GetHandoffs(0, 16), PEER) for _ in range(1_000)]
    assert sum(answer is not None for answer in answers) == ANSWERS_BURST
    assert served.ahead.on_request(GetHandoffs(0, 16), OTHER) is not None


def test_the_longest_answer_fits_into_a_message() -> None:
    longest = HANDOFFS.encode((b"x" * HANDOFF_BYTES_MAX,) * HANDOFFS_PER_ANSWER_MAX)
    assert len(longest) <= max_payload_bytes(FrameKind.HANDOFFS)
    assert HANDOFF_BYTES_MAX * HANDOFFS_PER_ANSWER_MAX <= ANSWER_BYTES_MAX
