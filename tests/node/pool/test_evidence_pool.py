"""Evidence on its way into a block, over the real staking: judged, forwarded, attached once, forgotten."""

from __future__ import annotations

import random
from typing import Any

import pytest

from node.p2p.frames import MAX_SMALL_PAYLOAD_BYTES, FrameKind, MessageClass, class_of
from node.p2p.gossip import Gossip
from node.peers.peers import PENALTIES_MAX, Peers
from node.pool.evidence_pool import OFFENDERS_MAX, EvidencePool
from node.pool.gossip_pool import FAILED_CHECKS_MAX
from offending import REPORTER, chain_of
from played_transport import PlayedTransport
from runtime.blocks.block import HEADER_BYTES_MAX
from runtime.blocks.evidence import EVIDENCE, DoubleBallot, DoubleHeader
from runtime.blocks.votes import Ballot, BallotKind
from runtime.cryptography import ss58
from runtime.encoding.types import Unsigned
from runtime.frame.runtime import Bound
from runtime.pallets.staking import offences
from runtime.pallets.staking.trust_lock import PROOFS_MAX, OffenceProven, TrustLock
from settled_chain import SettledChain
from simulation.chains.evidence import double, sealed
from simulation.chains.market_chain import Keys, named_keys, signed

KEYS = named_keys(7)
ALICE, BOB = KEYS[:2]


def proof_of(who: Keys, slot: int = 9, epoch: int = 0, signer: Keys | None = None) -> DoubleHeader:
    first, second = (sealed(who, slot, epoch, parent, signer) for parent in (b"p" * 32, b"q" * 32))
    return DoubleHeader(first, second)


class Stage:
    """A chain of seven validators, two peers, and a pool."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.market = chain_of(7)
        self.market.block()
        self.transport = PlayedTransport("a", "b")
        self.blamed: list[str] = []
        network = Peers(self.transport)
        monkeypatch.setattr(network, "peer_ids", lambda: self.transport.connected)
        chain: Any = SettledChain(self.market)
        self.chain = chain
        self.pool = EvidencePool(chain, network, Gossip(random.Random(1)), lambda: b"", self.blame, lambda: 0.0)

    def blame(self, peer: str, reason: str) -> None:
        assert reason
        self.blamed.append(peer)

    def hear(self, raw: bytes, peer: str = "a") -> list[tuple[str, FrameKind, bytes]]:
        """Return the messages after a peer's evidence."""
        before = len(self.transport.sent)
        self.pool.on_gossip(FrameKind.EVIDENCE, raw, peer)
        return self.transport.sent[before:]

    def make_block(self, left: int | None = None) -> list[bytes]:
        """Make the next block with the pool's calls, and finalise it. Return the punished validators."""

        def attach(bound: Bound) -> None:
            before = bound.mandatory_left
            bound.mandatory_left = before if left is None else left
            for call in self.pool.inherents(bound):
                with bound.overlay.transaction():
                    bound.dispatch(call, Unsigned())
            bound.mandatory_left = before

        self.market.block(attach)
        self.pool.on_final([self.chain.final])
        return [one.offender for one in self.market.events if isinstance(one, OffenceProven)]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_what_this_node_saw_is_told_to_all_and_attached_and_forgotten(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    evidence = proof_of(ALICE)
    stage.pool.on_offence(ALICE.stash, 9, evidence.first, evidence.second)
    stage.pool.on_evidence(BOB.public("session"), EVIDENCE.encode(proof_of(BOB)))
    assert [record.args[0] for record in caplog.records if isinstance(record.args, tuple)] == [
        ss58.encode(who.stash) for who in (ALICE, BOB)
    ]
    raws = [EVIDENCE.encode(proof_of(who)) for who in (ALICE, BOB)]
    assert stage.transport.sent == [(peer, FrameKind.EVIDENCE, raw) for raw in raws for peer in ("a", "b")]
    assert sorted(stage.make_block()) == sorted([ALICE.stash, BOB.stash])
    assert len(stage.pool) == 0
    assert stage.make_block() == []


def test_what_a_peer_brings_goes_on_to_the_others_once(stage: Stage) -> None:
    raw = EVIDENCE.encode(proof_of(ALICE))
    assert stage.hear(raw) == [("b", FrameKind.EVIDENCE, raw)]
    assert stage.hear(raw, "b") == [], "known"
    assert stage.hear(EVIDENCE.encode(proof_of(ALICE, slot=10))) == [], "of this offender one is kept"
    assert len(stage.pool) == 1
    assert stage.make_block() == [ALICE.stash]
    assert stage.hear(EVIDENCE.encode(proof_of(ALICE, slot=11))) == [], "it is punished"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x01" + bytes(40),
        EVIDENCE.encode(proof_of(ALICE, signer=BOB)),
        EVIDENCE.encode(proof_of(REPORTER)),
        EVIDENCE.encode(proof_of(ALICE, epoch=9)),
        EVIDENCE.encode(DoubleHeader(sealed(ALICE), sealed(ALICE))),
    ],
    ids=["empty", "cut", "signed by another", "never sat", "epoch to come", "one header twice"],
)
def test_what_proves_nothing_is_neither_kept_nor_passed_on(raw: bytes, stage: Stage) -> None:
    assert stage.hear(raw) == []
    assert len(stage.pool) == 0


def test_another_frame_is_not_for_this_pool(stage: Stage) -> None:
    stage.pool.on_gossip(FrameKind.HEARTBEAT, EVIDENCE.encode(proof_of(ALICE)), "a")
    assert len(stage.pool) == 0


def test_own_evidence_that_proves_nothing_is_told_to_nobody(stage: Stage) -> None:
    stage.pool.on_evidence(b"", EVIDENCE.encode(proof_of(ALICE, signer=BOB)))
    assert (stage.transport.sent, len(stage.pool)) == ([], 0)


def test_a_block_takes_no_more_than_it_may_and_the_rest_waits(stage: Stage) -> None:
    for who in KEYS:
        stage.hear(EVIDENCE.encode(proof_of(who)))
    assert stage.make_block(left=0) == [], "no room"
    of_two = TrustLock.attach_evidence(proofs=(proof_of(ALICE),) * 2).weight.ref_time
    assert len(stage.make_block(left=of_two)) == 2
    assert [len(stage.make_block()), len(stage.make_block())] == [PROOFS_MAX, len(KEYS) - 2 - PROOFS_MAX]


def test_what_a_call_brought_first_is_not_attached(stage: Stage) -> None:
    stage.hear(EVIDENCE.encode(proof_of(ALICE)))
    stage.hear(EVIDENCE.encode(proof_of(BOB)))
    stage.market.block(signed(REPORTER.stash, double(ALICE)))
    assert stage.make_block() == [BOB.stash]


def test_what_waits_is_told_again_in_each_epoch_and_forgotten_when_it_is_too_old(stage: Stage) -> None:
    stage.hear(EVIDENCE.encode(proof_of(ALICE)))
    told = []
    for _ in range(6 * 5):
        before = len(stage.transport.sent)
        stage.make_block(left=0)
        told.append(len(stage.transport.sent) - before)
    assert [count for count in told if count] == [2] * 4, "in four epochs, to two peers"
    assert len(stage.pool) == 0


def test_the_pool_is_bounded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    assert OFFENDERS_MAX == 128
    monkeypatch.setattr("node.pool.evidence_pool.OFFENDERS_MAX", 1)
    stage.hear(EVIDENCE.encode(proof_of(ALICE)))
    assert stage.hear(EVIDENCE.encode(proof_of(BOB))) == []
    assert len(stage.pool) == 1


def test_the_largest_proof_fits_into_a_frame_that_is_served_after_consensus() -> None:
    largest = EVIDENCE.encode(DoubleHeader(bytes(HEADER_BYTES_MAX), bytes(HEADER_BYTES_MAX)))
    assert len(largest) < MAX_SMALL_PAYLOAD_BYTES
    assert class_of(FrameKind.EVIDENCE) is MessageClass.GOSSIP


def proof_at_an_edge(slot: int, first: int, second: int) -> bytes:
    """Two headers of Alice in one slot, each of another epoch."""
    return EVIDENCE.encode(
        DoubleHeader(sealed(ALICE, slot, first, b"p" * 32, None), sealed(ALICE, slot, second, b"q" * 32, None))
    )


def forged_ballots(who: Keys, number: int, epoch: int = 0) -> bytes:
    """Return two conflicting ballots of one round without valid signatures."""
    first, second = (Ballot(BallotKind.NOTARISE, epoch, number, 5, block * 32) for block in (b"p", b"q"))
    return EVIDENCE.encode(DoubleBallot(who.public("session"), first, bytes(64), second, bytes(64)))


def test_a_peer_that_forges_evidence_is_blamed_until_it_is_banned_and_few_signatures_are_checked(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = counting_checks(monkeypatch)
    for number in range(100):
        assert stage.hear(forged_ballots(ALICE, number)) == []
    assert len(stage.blamed) >= PENALTIES_MAX
    assert len(checks) == FAILED_CHECKS_MAX
    stage.hear(forged_ballots(ALICE, 100), "b")
    assert len(checks) == FAILED_CHECKS_MAX + 1, "another peer is heard"


def counting_checks(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Record all checks of votes' signatures from here on. All of them fail."""
    checks: list[object] = []

    def counted(*claim: bytes) -> bool:
        checks.append(claim)
        return False

    monkeypatch.setattr(offences, "verify_ed25519", counted)
    return checks


def test_failed_checks_are_counted_for_each_accused_and_each_epoch(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks, counts = counting_checks(monkeypatch), []
    for turn, (who, blocks) in enumerate([(ALICE, 0), (BOB, 0), (ALICE, 0), (ALICE, 6)]):
        stage.market.blocks(blocks)
        for number in range(2 * FAILED_CHECKS_MAX):
            stage.hear(forged_ballots(who, 100 * turn + number))
        counts.append(len(checks) // FAILED_CHECKS_MAX)
    assert counts == [1, 2, 2, 3]


def test_evidence_of_a_set_that_only_the_best_block_knows_is_not_blamed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer's best block differs, and nothing of it is final yet."""
    final = stage.chain.final
    stage.market.blocks(14)
    best = stage.chain.final
    monkeypatch.setattr(type(stage.chain), "final", final)
    monkeypatch.setattr(type(stage.chain), "get", lambda _, block: final if block == final.facts.id else best)
    for number in range(8):
        stage.hear(forged_ballots(ALICE, number, epoch=2))
    assert stage.blamed == []


@pytest.mark.parametrize(
    ("raws", "is_blamed"),
    [
        ([EVIDENCE.encode(proof_of(ALICE, slot=slot, signer=BOB)) for slot in range(8)], True),
        ([forged_ballots(REPORTER, number) for number in range(8)], True),
        ([b"\x01" + bytes(number) for number in range(8)], True),
        ([forged_ballots(ALICE, number, epoch=9) for number in range(8)], False),
        ([EVIDENCE.encode(proof_of(ALICE, slot=slot, epoch=9)) for slot in range(8)], False),
        ([proof_at_an_edge(slot, 0, 9) for slot in range(8)], False),
        ([proof_at_an_edge(slot, 9, 0) for slot in range(8)], False),
    ],
    ids=[
        "headers that another key signed",
        "no member",
        "undecodable",
        "votes of a set to come",
        "headers of a set to come",
        "the second header of a set to come",
        "the first header of a set to come",
    ],
)
def test_evidence_is_forged_where_this_node_knows_the_set(raws: list[bytes], *, is_blamed: bool, stage: Stage) -> None:
    for raw in raws:
        stage.hear(raw)
    assert stage.blamed == ["a"] * is_blamed


def test_evidence_of_an_offence_that_is_punished_already_is_no_forgery(stage: Stage) -> None:
    stage.hear(EVIDENCE.encode(proof_of(ALICE)))
    stage.make_block()
    for slot in range(20, 40):
        stage.hear(EVIDENCE.encode(proof_of(ALICE, slot=slot)))
    assert stage.blamed == []
