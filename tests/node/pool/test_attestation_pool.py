"""Attestations on their way into a block, over the real market: kept once, checked, attached in order, forgotten."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import node.pool.attestation_pool
from consensus.parameters import Parameters
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.kinds import encode_attestation
from gpu_tasks.market.attestations.statement import SignedAttestation, signing_payload
from gpu_tasks.market.inference import attested_units
from gpu_tasks.market.inference import events as market_events
from gpu_tasks.market.inference.units import UnitState
from node.p2p.frames import FrameKind
from node.p2p.gossip import Gossip
from node.peers.peers import PENALTIES_MAX, Peers
from node.pool.attestation_pool import KEPT_BLOCKS, AttestationPool
from node.pool.gossip_pool import FAILED_CHECKS_MAX
from node.pool.refusal import PoolRefusalError
from played_transport import PlayedTransport
from runtime.blocks.extrinsic import encode_bare
from runtime.encoding.types import Unsigned
from runtime.frame.runtime import Bound
from settled_chain import SettledChain
from simulation.chains.market_chain import (
    GENESIS_HASH,
    Keys,
    MarketChain,
    attestation,
    commit,
    named_keys,
    root_of,
    terms,
)

ROOT = root_of(b"R" * 32)
ENCODE = encode_attestation


class Stage:
    """A race in which every racer has committed, and a pool."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.market = MarketChain(named_keys(4))
        self.market.blocks(3)
        (self.unit_id,) = self.market.post(terms())
        while self.market.unit(self.unit_id).state is UnitState.QUEUED:
            self.market.block()
        self.unit = self.market.unit(self.unit_id)
        self.racers = [self.market.keys_of(racer.owner) for racer in self.unit.racers]
        self.market.block(*(commit(racer, self.unit_id, self.unit, ROOT) for racer in self.racers))
        self.transport = PlayedTransport("a", "b")
        self.blamed: list[str] = []
        network = Peers(self.transport)
        monkeypatch.setattr(network, "peer_ids", lambda: self.transport.connected)
        chain: Any = SettledChain(self.market)
        self.pool = AttestationPool(chain, network, Gossip(random.Random(1)), lambda: b"", self.blame, lambda: 0.0)

    def blame(self, peer: str, reason: str) -> None:
        assert reason
        self.blamed.append(peer)

    def attested(self, racer: Keys, **changed: Any) -> SignedAttestation:
        return attestation(racer, self.unit_id, self.unit, ROOT, **changed)

    def build(self) -> list[Any]:
        """Make the next block, and return its inherents."""
        calls: list[Any] = []

        def attach(bound: Bound) -> None:
            before = bound.overlay.changes()
            calls.extend(self.pool.inherents(bound))
            assert bound.overlay.changes() == before
            for call in calls:
                bound.dispatch(call, Unsigned())

        self.market.block(attach)
        return calls


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_what_is_submitted_and_heard_is_attached_in_one_call_and_told(stage: Stage) -> None:
    first, second = (stage.attested(racer) for racer in stage.racers)
    stage.pool.submit(ENCODE(second))
    assert [(peer, kind) for peer, kind, _ in stage.transport.sent] == [
        ("a", FrameKind.ATTESTATION),
        ("b", FrameKind.ATTESTATION),
    ]
    stage.pool.on_gossip(FrameKind.ATTESTATION, ENCODE(first), "a")
    assert [peer for peer, _, _ in stage.transport.sent[2:]] == ["b"]
    (call,) = stage.build()
    assert call.arguments == ((first, second),)
    assert len(stage.market.happened(market_events.ResultClaimed)) == 1
    assert stage.build() == []


@pytest.mark.parametrize("kind", ["session", "vrf"])
def test_d9_another_key_of_the_racer_takes_no_place(stage: Stage, kind: str) -> None:
    racer = stage.racers[0]
    statement = stage.attested(racer, provider_key=racer.public(kind)).statement
    other = SignedAttestation(statement, racer.sign(kind, signing_payload(GENESIS_HASH, statement)))
    with pytest.raises(PoolRefusalError, match="no provider's key"):
        stage.pool.submit(ENCODE(other))
    stage.pool.submit(ENCODE(stage.attested(racer)))


def test_what_can_never_be_attached_is_refused(stage: Stage) -> None:
    good = stage.attested(stage.racers[0])
    outsider = next(keys for keys in stage.market.validators if keys not in stage.racers)
    cases = {
        "Attestation has invalid format": b"nonsense",
        "not the racer's key": ENCODE(stage.attested(stage.racers[0], replica=1)),
        "bad signature": ENCODE(replace(good, signature=bytes(64))),
        "no such race": ENCODE(replace(good, statement=replace(good.statement, unit=b"x" * 32))),
        "no provider's key": ENCODE(replace(good, statement=replace(good.statement, provider_key=outsider.stash))),
    }
    for reason, raw in cases.items():
        with pytest.raises(PoolRefusalError, match=reason):
            stage.pool.submit(raw)
    assert len(stage.pool) == 0
    stage.pool.submit(ENCODE(good))
    with pytest.raises(PoolRefusalError, match="already known"):
        stage.pool.submit(ENCODE(good))


def test_well_signed_ones_of_another_attempt_or_place_are_refused(stage: Stage) -> None:
    for changed in ({"attempt": stage.unit.attempt + 1}, {"replica": len(stage.racers)}):
        with pytest.raises(PoolRefusalError, match="no such race"):
            stage.pool.submit(ENCODE(stage.attested(stage.racers[0], **changed)))
    assert len(stage.pool) == 0


def test_one_that_does_not_open_its_commitment_is_left_out_and_spoils_nothing(stage: Stage) -> None:
    good = stage.attested(stage.racers[0])
    wrong = attestation(stage.racers[1], stage.unit_id, stage.unit, b"W" * 32)
    stage.pool.submit(ENCODE(wrong))
    stage.pool.submit(ENCODE(good))
    (call,) = stage.build()
    assert call.arguments == ((good,),)


def test_limits(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.pool.attestation_pool, "COUNT_MAX", 1)
    stage.pool.submit(ENCODE(stage.attested(stage.racers[0])))
    with pytest.raises(PoolRefusalError, match="too many"):
        stage.pool.submit(ENCODE(stage.attested(stage.racers[1])))


def test_what_is_final_or_too_old_is_forgotten(stage: Stage) -> None:
    first, second = (stage.attested(racer) for racer in stage.racers)
    stage.pool.submit(ENCODE(first))
    stage.pool.submit(ENCODE(second))
    runtime = stage.market.runtime
    raws = (
        b"\4\4",
        encode_bare(runtime, Attestations.attach(attestations=(first,))),
    )
    height = stage.market.height
    stage.pool.on_final([SimpleNamespace(extrinsics=raws, facts=SimpleNamespace(height=height))])  # type: ignore[list-item]
    assert len(stage.pool) == 1
    later = SimpleNamespace(extrinsics=raws[:1], facts=SimpleNamespace(height=height + KEPT_BLOCKS + 1))
    stage.pool.on_final([later])  # type: ignore[list-item]
    assert len(stage.pool) == 0
    assert stage.pool._bytes == 0


def test_what_is_not_too_old_is_kept(stage: Stage) -> None:
    stage.pool.submit(ENCODE(stage.attested(stage.racers[0])))
    facts = SimpleNamespace(height=stage.market.height + KEPT_BLOCKS)
    stage.pool.on_final([SimpleNamespace(extrinsics=(), facts=facts)])  # type: ignore[list-item]
    assert len(stage.pool) == 1


def test_bytes_that_are_not_those_of_what_is_kept_are_found(stage: Stage) -> None:
    stage.pool.submit(ENCODE(stage.attested(stage.racers[0])))
    stage.pool._bytes += 1
    block = SimpleNamespace(extrinsics=(), facts=SimpleNamespace(height=stage.market.height))
    with pytest.raises(AssertionError, match="the byte count"):
        stage.pool.on_final([block])  # type: ignore[list-item]


def test_a_peer_that_forges_attestations_is_blamed_until_it_is_banned_and_few_signatures_are_checked(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[object] = []

    def counted(*claim: bytes) -> bool:
        checks.append(claim)
        return False

    monkeypatch.setattr(attested_units, "verify_ed25519", counted)
    good = stage.attested(stage.racers[0])
    for number in range(100):
        raw = ENCODE(replace(good, signature=number.to_bytes(64, "big")))
        stage.pool.on_gossip(FrameKind.ATTESTATION, raw, "a")
    assert len(stage.blamed) >= PENALTIES_MAX
    assert len(checks) == FAILED_CHECKS_MAX
    assert len(stage.pool) == 0
    monkeypatch.setattr(Parameters, "epoch_of", lambda *_: 9)
    stage.pool.on_gossip(FrameKind.ATTESTATION, ENCODE(replace(good, signature=b"y" * 64)), "b")
    stage.pool.on_gossip(FrameKind.ATTESTATION, ENCODE(replace(good, signature=b"x" * 64)), "a")
    assert len(checks) == FAILED_CHECKS_MAX + 2, "in another epoch the peer is heard again"


def test_forgeries_of_one_peer_keep_out_no_other_peer_and_not_this_node(stage: Stage) -> None:
    first, second = (stage.attested(racer) for racer in stage.racers[:2])
    for number in range(2 * FAILED_CHECKS_MAX):
        for good in (first, second):
            stage.pool.on_gossip(
                FrameKind.ATTESTATION, ENCODE(replace(good, signature=number.to_bytes(64, "big"))), "a"
            )
    blamed = len(stage.blamed)
    stage.pool.on_gossip(FrameKind.ATTESTATION, ENCODE(first), "b")
    stage.pool.submit(ENCODE(second))
    assert len(stage.pool) == 2
    assert len(stage.blamed) == blamed
