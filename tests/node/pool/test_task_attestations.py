"""Task attestations on their way into a block: beside those of units, kept once, in order, forgotten."""

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import node.pool.attestation_pool
from consensus.parameters import Parameters
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.kinds import encode_attestation
from gpu_tasks.market.training.life.attested_steps import NO_SLOT, NOT_SLOT_OWNER
from gpu_tasks.market.training.task_statement import SignedTaskAttestation
from gpu_tasks.market.training.tasks import TaskState
from node.p2p.frames import FrameKind
from node.p2p.gossip import Gossip
from node.peers.peers import Peers
from node.pool.attestation_pool import AttestationPool
from node.pool.refusal import PoolRefusalError
from played_transport import PlayedTransport
from runtime.blocks.extrinsic import encode_bare
from runtime.encoding.types import Unsigned
from runtime.frame.runtime import Bound
from simulation.chains.market_chain import GENESIS_HASH, MarketChain
from task_attesting import at_end, at_milestone, running, workers
from task_chain import TaskChain


class PlayedChain:
    """The pool's view of a chain, over a chain of tasks."""

    genesis = GENESIS_HASH

    def __init__(self, chain: MarketChain) -> None:
        self.chain = chain
        self.runtime = chain.runtime
        self.parameters = Parameters()

    @property
    def final(self) -> Any:
        return SimpleNamespace(
            state=self.chain.state, facts=SimpleNamespace(height=self.chain.height, id=self.chain.height)
        )

    def get(self, block: bytes) -> Any:
        del block
        return self.final


class Stage:
    """A running task of two slots, and a pool with two peers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, milestones: int = 4) -> None:
        self.tasks: TaskChain = running(slots=2, milestones=milestones)
        self.transport = PlayedTransport("a", "b")
        network = Peers(self.transport)
        monkeypatch.setattr(network, "peer_ids", lambda: self.transport.connected)
        played: Any = PlayedChain(self.tasks.chain)
        self.pool = AttestationPool(
            played, network, Gossip(random.Random(1)), lambda: b"", lambda *_: None, lambda: 0.0
        )

    def submit(self, *attestations: SignedTaskAttestation) -> None:
        for signed in attestations:
            self.pool.submit(encode_attestation(signed))

    def build(self) -> list[Any]:
        """Make the next block, and return its inherent's content."""
        calls: list[Any] = []

        def attach(bound: Bound) -> None:
            before = bound.overlay.changes()
            calls.extend(self.pool.inherents(bound))
            assert bound.overlay.changes() == before
            for call in calls:
                bound.dispatch(call, Unsigned())

        self.tasks.chain.block(attach)
        return [signed for call in calls for signed in call.arguments[0]]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_a_gangs_steps_come_into_one_block_whatever_came_first(stage: Stage) -> None:
    first = [at_milestone(stage.tasks, 1, place) for place in range(2)]
    second = [at_milestone(stage.tasks, 2, place) for place in range(2)]
    stage.submit(second[1], first[1])
    stage.pool.on_gossip(FrameKind.ATTESTATION, encode_attestation(second[0]), "a")
    stage.pool.on_gossip(FrameKind.ATTESTATION, encode_attestation(first[0]), "b")
    assert [peer for peer, _, _ in stage.transport.sent] == ["a", "b", "a", "b", "b", "a"]
    assert stage.build() == [*first, *second]
    assert stage.build() == []


def test_a_step_whose_turn_has_not_come_waits(stage: Stage) -> None:
    early = at_milestone(stage.tasks, 2)
    stage.submit(early)
    assert stage.build() == []
    first = [at_milestone(stage.tasks, 1, place) for place in range(2)]
    stage.submit(*first)
    assert stage.build() == [*first, early]


def test_results_end_the_work(stage: Stage) -> None:
    results = [at_end(stage.tasks, place) for place in range(2)]
    stage.submit(*results)
    assert stage.build() == results
    assert stage.tasks.state() is TaskState.CLAIMED


def test_what_can_never_be_attached_is_refused_and_takes_no_place(stage: Stage) -> None:
    good = at_milestone(stage.tasks, 1)
    other = workers(stage.tasks)[1]
    cases = {
        "Attestation has invalid format": encode_attestation(good)[:-1],
        "bad signature": encode_attestation(replace(good, signature=bytes(64))),
        "another version": encode_attestation(at_milestone(stage.tasks, 1, version=0)),
        NOT_SLOT_OWNER: encode_attestation(at_milestone(stage.tasks, 1, device=other.device)),
        NO_SLOT: encode_attestation(at_milestone(stage.tasks, 1, auction=2)),
        "no such milestone": encode_attestation(at_milestone(stage.tasks, 4)),
        "stated already": encode_attestation(at_milestone(stage.tasks, 0)),
    }
    for reason, raw in cases.items():
        with pytest.raises(PoolRefusalError, match=reason):
            stage.pool.submit(raw)
    assert len(stage.pool) == 0
    stage.submit(good)
    with pytest.raises(PoolRefusalError, match="already known"):
        stage.submit(at_milestone(stage.tasks, 1, started_at=stage.tasks.chain.height))
    assert len(stage.pool) == 1


def test_of_a_slot_two_milestones_and_a_result_are_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot has 64 steps. A stranger's 64 devices would fill the pool, and cost time in each block."""
    stage = Stage(monkeypatch, milestones=64)
    for number in range(1, 64):
        early = at_milestone(stage.tasks, number)
        if number <= 2:
            stage.submit(early)
        else:
            with pytest.raises(PoolRefusalError, match="too far ahead"):
                stage.submit(early)
    stage.submit(at_end(stage.tasks))
    assert len(stage.pool) == 3


def test_what_was_stated_by_transaction_is_forgotten(stage: Stage) -> None:
    alice, bob = workers(stage.tasks)
    stage.submit(at_milestone(stage.tasks, 1), at_milestone(stage.tasks, 2), at_milestone(stage.tasks, 1, 1))
    stage.tasks.report(alice, 1)
    stage.tasks.report(bob, 1, 1)
    final: Any = SimpleNamespace(extrinsics=(), facts=SimpleNamespace(height=stage.tasks.chain.height))
    stage.pool.on_final([final])
    assert len(stage.pool) == 1  # the second milestone: it is next
    stage.submit(at_milestone(stage.tasks, 3))


def test_both_kinds_share_the_limits(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    first = [at_milestone(stage.tasks, 1, place) for place in range(2)]
    monkeypatch.setattr(node.pool.attestation_pool, "BYTES_MAX", 294 + 293)
    stage.submit(first[0])
    with pytest.raises(PoolRefusalError, match="too many"):
        stage.submit(first[1])
    monkeypatch.setattr(node.pool.attestation_pool, "BYTES_MAX", 2 * 294)
    stage.submit(first[1])
    monkeypatch.setattr(node.pool.attestation_pool, "COUNT_MAX", 2)
    with pytest.raises(PoolRefusalError, match="too many"):
        stage.submit(at_milestone(stage.tasks, 2))


def test_what_is_final_is_forgotten(stage: Stage) -> None:
    first = [at_milestone(stage.tasks, 1, place) for place in range(2)]
    stage.submit(*first)
    attached = encode_bare(stage.tasks.chain.runtime, Attestations.attach(attestations=(first[0],)))
    final: Any = SimpleNamespace(extrinsics=(b"\4\4", attached), facts=SimpleNamespace(height=stage.tasks.chain.height))
    stage.pool.on_final([final])
    assert len(stage.pool) == 1
    assert stage.build() == [first[1]]
