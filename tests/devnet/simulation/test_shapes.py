"""Any connected network of honest nodes finalises, in any shape. A full mesh has no extra cost."""

from dataclasses import replace

import pytest

from consensus.finality.relay import BallotRelay
from consensus.parameters import DEVNET
from devnet.simulation.node import SimulatedNode
from devnet.simulation.scenario import START_MS, ScenarioOutcome, SimulatedScenario, both_ways, make_world, run
from devnet.simulation.world import World

SHAPES = [(4, "star"), (4, "line"), (7, "ring 2"), (10, "ring 4"), (13, "ring 6"), (10, "sparse")]


def calm(size: int, shape: str, followers: int = 0) -> ScenarioOutcome:
    return run(SimulatedScenario("shape", size, followers=followers, shape=shape, storm_s=0, quiet_s=25), 1)


@pytest.mark.parametrize(("size", "shape"), SHAPES)
def test_connected_is_enough(size: int, shape: str) -> None:
    outcome = calm(size, shape)
    assert outcome.failures == ()
    assert outcome.finals >= 20


def apart(followers: int) -> World[SimulatedNode]:
    """Return four validators that connect only to the full nodes between them."""
    world = make_world(SimulatedScenario("apart", 4, followers=followers, storm_s=0), 1)
    world.links = both_ways(
        (validator, 4 + place)
        for place in range(followers)
        for validator in range(place, 4 if followers == 1 else place + 2)
    )
    for node in world.nodes:
        node.start()
    return world


@pytest.mark.parametrize("followers", [1, 3])
def test_through_full_nodes_too(followers: int) -> None:
    world = apart(followers)
    world.run_until(START_MS + 25_000)
    assert min(node.disk.final.height for node in world.nodes) >= 10
    assert world.findings.conflicting_finals == []


def test_two_that_never_meet_lose_no_time() -> None:
    world = make_world(SimulatedScenario("missing link", 7, storm_s=0), 1)
    everybody = range(7)
    world.links = both_ways((a, b) for a in everybody for b in everybody if a < b and (a, b) != (2, 5))
    for node in world.nodes:
        node.start()
    world.run_until(START_MS + 25_000)
    final = sorted(world.findings.final_ms)
    assert final[len(final) // 2] < DEVNET.soft_wait_ms


def test_without_passing_on_they_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BallotRelay, "pass_vote", lambda *_: [])
    assert calm(10, "ring 4").finals == 0


def test_a_full_mesh_pays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost ends once the nodes know each other's connections, after a fraction of a second."""
    world = make_world(SimulatedScenario("mesh", 7, storm_s=0), 1)
    for node in world.nodes:
        node.start()
    world.run_until(START_MS + 2_000)
    needed = world.findings.messages["NeedCerts"]
    passed: list[object] = []

    def noted(effect: object) -> object:
        passed.append(effect)
        return effect

    for name in ("pass_vote", "pass_certificate"):
        sound = getattr(BallotRelay, name)
        monkeypatch.setattr(BallotRelay, name, lambda *known, sound=sound: [noted(effect) for effect in sound(*known)])
    world.run_until(START_MS + 20_000)
    assert min(node.disk.final.height for node in world.nodes) >= 15
    assert passed == []
    assert world.findings.messages["NeedCerts"] == needed


@pytest.mark.nightly
def test_a_sparse_network_outlives_a_storm() -> None:
    scenario = SimulatedScenario("sparse", 7, shape="sparse", followers=2, storm_s=30, quiet_s=40)
    assert run(scenario, 3).failures == ()
    assert run(replace(scenario, equivocators=2, shape="ring 4"), 3).failures == ()
