"""Handoffs beside a node's own blocks: equal, overtaken, or of another history; and the served ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from block_maker import SPEC, Maker, open_at
from consensus.certificates import CERTIFICATE
from consensus.events import CertifiedRef
from consensus.headers import TrustedBlock
from consensus.validators import ValidatorSet
from handed_history import handed
from joiner import OTHER, PEER, Joiner, history
from node.errors import NodeError
from node.ledger.chain import Chain
from node.ledger.trusted_point import TrustedPoint
from node.p2p.frames import FrameKind, max_payload_bytes
from node.peers.messages import (
    ANSWER_BYTES_MAX,
    HANDOFF_BYTES_MAX,
    HANDOFFS,
    HANDOFFS_PER_ANSWER_MAX,
    GetHandoffs,
)
from node.sync.sets_ahead import ANSWERS_BURST, PATIENCE_MS, REST_MS
from runtime.blocks.block import BLOCK


@pytest.fixture
def joiner(tmp_path: Path) -> Joiner:
    return Joiner(open_at(tmp_path))


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """Return a maker with two epochs of final blocks. Alice is active in all of them."""
    maker = Maker(tmp_path_factory.mktemp("maker"))
    chain, reference = maker.chain, None
    for _ in range(2 * chain.parameters.epoch_blocks):
        block = maker.make(final_ref=reference)
        certificate = maker.certify(block)
        chain.finalise((block.facts.id,), certificate)
        reference = CertifiedRef(block.facts.height, block.facts.id, certificate)
    return maker


def followed(joiner: Joiner, sets: list[tuple[str, ...]]) -> None:
    """Send a history to the node."""
    handoffs, _ = history(joiner.chain, sets)
    joiner.claim(PEER, len(sets))
    joiner.asks()
    assert joiner.answer(PEER, *handoffs) == len(sets)


def catch_up(joiner: Joiner, maker: Maker, height: int) -> None:
    """Finalise its own blocks up to a height."""
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
        forgotten = [number for number in range(3) if joiner.ahead._set_table.of(number) is None]
        assert forgotten == list(range(epoch))
    assert joiner.ahead.newest.epoch == 2


def test_own_blocks_that_seat_others_stop_the_node_and_the_database_is_whole(
    joiner: Joiner, maker: Maker, tmp_path: Path
) -> None:
    followed(joiner, [("Alice",), ("Bob",), ("Bob",)])
    boundary = joiner.chain.parameters.boundary(1)
    catch_up(joiner, maker, boundary - 1)
    with pytest.raises(NodeError, match="epoch 2 ") as stopped:
        catch_up(joiner, maker, boundary)
    assert stopped.value.code == "two_histories"
    joiner.chain.storage.close()
    again = Joiner(open_at(tmp_path))
    assert again.chain.final.facts.height == boundary
    # Nothing of peers' handoffs is on the disk: it begins with the set that its own blocks seat.
    assert again.ahead.newest == own_set(again.chain, 2)
    assert again.chain.storage.handoff(1) == maker.chain.storage.handoff(1)


def test_below_the_checkpoint_two_histories_stop_nobody(
    joiner: Joiner, maker: Maker, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise two thirds of an old set could stop every joining node without risk."""
    boundary = joiner.chain.parameters.boundary(0)
    TrustedPoint(joiner.chain, SPEC, TrustedBlock(boundary + 1, maker.chain.storage.id_at(boundary + 1) or b""))
    followed(joiner, [("Bob",), ("Bob",)])
    catch_up(joiner, maker, boundary)
    assert joiner.ahead.newest == own_set(joiner.chain, 1)
    assert "contradict this" in caplog.text
    catch_up(joiner, maker, boundary + 1)
    joiner.now_ms += REST_MS
    assert joiner.asks() == [(PEER, 1)]


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
    assert served.peers.penalties == 1_000 - ANSWERS_BURST
    assert PEER.decode() in served.transport.banned


def test_what_a_peer_is_sent_in_answers_is_bounded_and_it_still_gets_on(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the length of a mainnet, and an honest peer's rate of questions."""
    served, handoff = Joiner(maker.chain), b"h" * (54 * 1024)
    monkeypatch.setattr(maker.chain.storage, "handoff", lambda _: handoff)
    counts = []
    for _ in range(240):
        served.now_ms += 250
        answer = served.ahead.on_request(GetHandoffs(0, 16), PEER)
        assert answer is not None
        counts.append(len(HANDOFFS.decode(answer)))
    assert served.peers.penalties == 0
    assert counts[0] == 16
    assert min(counts) == 1
    within = 4 * 1024 * 1024 + 60 * 128 * 1024
    assert sum(counts) * len(handoff) <= within + len(counts) * len(handoff)


def test_what_all_strangers_are_sent_together_is_bounded_and_validators_are_answered(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their names are free, and each is within its own share."""
    served, handoff = Joiner(maker.chain), b"h" * (54 * 1024)
    monkeypatch.setattr(maker.chain.storage, "handoff", lambda _: handoff)
    served.validators.add(PEER.decode())
    sent = 0
    for second in range(20):
        served.now_ms += 1_000
        for name in range(60):
            answer = served.ahead.on_request(GetHandoffs(0, 16), b"%d.%d" % (second % 10, name))
            assert answer is not None
            sent += len(handoff) * len(HANDOFFS.decode(answer))
    within = 8 * 1024 * 1024 + 19 * 2 * 1024 * 1024
    assert within - len(handoff) <= sent <= within
    assert HANDOFFS.decode(served.ahead.on_request(GetHandoffs(0, 16), b"late") or b"") == ()
    assert HANDOFFS.decode(served.ahead.on_request(GetHandoffs(0, 16), PEER) or b"") == (handoff,) * 16
    assert served.peers.penalties == 0


def test_the_longest_answer_fits_into_a_message() -> None:
    longest = HANDOFFS.encode((b"x" * HANDOFF_BYTES_MAX,) * HANDOFFS_PER_ANSWER_MAX)
    assert len(longest) <= max_payload_bytes(FrameKind.HANDOFFS)
    assert HANDOFF_BYTES_MAX * HANDOFFS_PER_ANSWER_MAX <= ANSWER_BYTES_MAX


def test_the_newest_set_that_it_was_told_is_compared_too(joiner: Joiner, maker: Maker) -> None:
    followed(joiner, [("Alice",), ("Bob",)])
    with pytest.raises(NodeError, match="epoch 2 ") as stopped:
        catch_up(joiner, maker, joiner.chain.parameters.boundary(1))
    assert stopped.value.code == "two_histories"


def test_a_right_answer_that_comes_after_the_peer_was_asked_again_costs_it_nothing(tmp_path: Path) -> None:
    """It answers the question from epoch 0, and is read as one from epoch 1, because it does not name the question."""
    maker, reference = Maker(tmp_path / "maker"), None
    for _ in range(2 * maker.chain.parameters.epoch_blocks):
        block = maker.make(final_ref=reference)
        certificate = maker.certify(block)
        maker.chain.finalise((block.facts.id,), certificate)
        reference = CertifiedRef(block.facts.height, block.facts.id, certificate)
    (tmp_path / "joiner").mkdir()
    joiner = Joiner(open_at(tmp_path / "joiner"))
    handoffs = tuple(maker.chain.storage.handoff(epoch) or b"" for epoch in range(2))
    joiner.claim(PEER, 2)
    assert joiner.asks()
    joiner.now_ms += PATIENCE_MS
    joiner.asks()
    catch_up(joiner, maker, joiner.chain.parameters.boundary(0))
    joiner.now_ms += REST_MS
    assert joiner.asks(), "again, from a later epoch"
    joiner.answer(PEER, *handoffs)
    assert joiner.peers.penalties == 0
