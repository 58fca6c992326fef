"""Both markets and a third, which no product module names, in one pool, one inherent and one list of figures."""

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.kinds import encode_attestation
from gpu_tasks.market.inference.units import UnitState
from node.monitoring.figures import Figures
from node.monitoring.metrics import Metrics
from node.p2p.frames import FrameKind
from node.p2p.gossip import Gossip
from node.peers.peers import Peers
from node.pool.attestation_pool import AttestationPool
from node.pool.refusal import ForgedError, PoolRefusalError
from played_transport import PlayedTransport
from runtime.blocks.extrinsic import encode_bare
from runtime.encoding.types import Unsigned
from runtime.frame.runtime import Bound
from settled_chain import SettledChain
from simulation.chains.market_chain import PALLETS, MarketChain, attestation, commit, named_keys, root_of, signed, terms
from task_attesting import at_milestone, running
from toy_market import SignedSum, Summed, Summer, ToyMarket

JOB, TOTAL = b"j" * 32, 42
ROOT = root_of(b"R" * 32)
SUMMER = Summer(named_keys(1)[0])
THREE = (*PALLETS, ToyMarket)


class Stage:
    """A chain of three markets with a job of the third, and the pool of a node with one peer."""

    def __init__(self, market: MarketChain) -> None:
        self.market = market
        settled: Any = SettledChain(market)
        self.settled = settled
        self.pool = AttestationPool(
            self.settled,
            Peers(PlayedTransport("a")),
            Gossip(random.Random(1)),
            lambda: b"",
            lambda *_: None,
            lambda: 0.0,
        )
        asking = ToyMarket.ask(job=JOB, provider_key=SUMMER.keys.provider)
        market.block(signed(SUMMER.keys.stash, asking))

    def attached(self) -> list[Any]:
        """Make the next block, and return its inherent's content."""
        calls: list[Any] = []

        def attach(bound: Bound) -> None:
            calls.extend(self.pool.inherents(bound))
            for call in calls:
                bound.dispatch(call, Unsigned())

        self.market.block(attach)
        return [each for call in calls for each in call.arguments[0]]

    def final(self, *extrinsics: bytes) -> Any:
        facts = SimpleNamespace(height=self.market.height, slot=self.market.height, id=b"i" * 32)
        return SimpleNamespace(state=self.market.state, extrinsics=extrinsics, facts=facts)


def test_attestations_of_three_markets_come_into_one_block_in_the_order_of_their_variants() -> None:
    tasks = running(pallets=THREE, run_blocks=40)
    stage = Stage(tasks.chain)
    market = stage.market
    (unit_id,) = market.post(terms())
    while market.unit(unit_id).state is UnitState.QUEUED:
        market.block()
    unit = market.unit(unit_id)
    racers = [market.keys_of(racer.owner) for racer in unit.racers]
    market.block(*(commit(racer, unit_id, unit, ROOT) for racer in racers))
    of_units = [attestation(racer, unit_id, unit, ROOT) for racer in racers]
    expected = [*of_units, at_milestone(tasks, 1), SUMMER.states(JOB, TOTAL)]
    for each in reversed(expected):
        stage.pool.submit(encode_attestation(each))
    metrics = Metrics("test", "node", "0", is_validator=False)
    machine: Any = SimpleNamespace(best=SimpleNamespace(height=1), gadget_round=(0, 0))
    clock: Any = SimpleNamespace(now_ms=lambda: 0)
    figures = Figures(stage.settled, machine, metrics, clock)

    def told() -> list[float | None]:
        figures.on_final([stage.final()])
        names = ("ogpu_open_units", "ogpu_open_tasks", "ogpu_open_sums", "ogpu_attestations")
        return [metrics.registry.get_sample_value(name, {"chain": "test"}) for name in names]

    assert told() == [1, 1, 1, 0]
    assert stage.attached() == expected
    assert market.events.count(Summed(JOB, TOTAL)) == 1
    assert market.unit(unit_id).state is UnitState.CLAIMED
    assert tasks.now().slots[0].reported == 1
    assert told() == [1, 1, 0, len(expected)]  # the unit holds money until its leaves are checked
    assert stage.attached() == []


@pytest.fixture
def stage() -> Stage:
    return Stage(MarketChain(named_keys(4), pallets=THREE))


def test_a_market_says_what_is_refused_and_what_is_forged(stage: Stage) -> None:
    good = SUMMER.states(JOB, TOTAL)
    other = replace(good, statement=replace(good.statement, job=b"o" * 32))
    with pytest.raises(PoolRefusalError, match="the job's key"):
        stage.pool.submit(encode_attestation(other))
    with pytest.raises(ForgedError):
        stage.pool.submit(encode_attestation(SignedSum(good.statement, bytes(64))))
    assert len(stage.pool) == 0
    stage.pool.on_gossip(FrameKind.ATTESTATION, encode_attestation(good), "a")
    assert len(stage.pool) == 1
    with pytest.raises(PoolRefusalError, match="already known"):
        stage.pool.submit(encode_attestation(good))


def test_a_pool_of_a_chain_without_the_market_does_not_read_its_attestations() -> None:
    pool = Stage(MarketChain(named_keys(4), pallets=THREE)).pool
    others: Any = SettledChain(MarketChain(named_keys(4)))
    plain = AttestationPool(
        others, Peers(PlayedTransport()), Gossip(random.Random(1)), lambda: b"", lambda *_: None, lambda: 0.0
    )
    raw = encode_attestation(SUMMER.states(JOB, TOTAL))
    with pytest.raises(PoolRefusalError, match="invalid format"):
        plain.submit(raw)
    assert pool.submit(raw)


@pytest.mark.parametrize("is_attached", [True, False])
def test_what_is_in_a_final_block_or_overtaken_is_forgotten(stage: Stage, *, is_attached: bool) -> None:
    good = SUMMER.states(JOB, TOTAL)
    stage.pool.submit(encode_attestation(good))
    stage.pool.on_final([stage.final()])
    assert len(stage.pool) == 1
    if is_attached:
        attached = encode_bare(stage.market.runtime, Attestations.attach(attestations=(good,)))
        stage.pool.on_final([stage.final(b"\4\4", attached)])
    else:
        stage.attached()
        stage.pool.on_final([stage.final()])
    assert len(stage.pool) == 0
