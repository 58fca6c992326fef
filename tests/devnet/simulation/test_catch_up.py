"""Nodes that join after many epochs: headers carry every handoff, or storage supplies it."""

from dataclasses import replace

import pytest

from consensus import events as ev
from consensus.parameters import DEVNET, Parameters
from devnet.simulation.node import SimulatedNode
from devnet.simulation.scenario import LAN_DELAY_MS, START_MS, SimulatedScenario, make_world
from devnet.simulation.world import Weather, World

KEPT = 8
SHORT = replace(DEVNET, epoch_blocks=3, boundaries_kept=KEPT)
SECONDS = 120


def grown(seed: int) -> World[SimulatedNode]:
    """Return four validators after slow spells. The fifth node has not started."""
    world = make_world(SimulatedScenario("late", 4, followers=1, late=1, storm_s=0, parameters=SHORT), seed)
    for node in world.nodes[:-1]:
        node.start()
    for second in range(0, SECONDS, 13):
        world.run_until(START_MS + 1_000 * second)
        world.weather = Weather(400, 1_600)
        world.run_until(START_MS + 1_000 * (second + 4))
        world.weather = Weather(*LAN_DELAY_MS)
    world.run_until(START_MS + 1_000 * SECONDS)
    return world


def left_out(world: World[SimulatedNode]) -> int:
    """Return the number of boundaries of the final chain that no header names."""
    node = world.nodes[0]
    chain = [node.blocks[node.disk.ancestors[height]] for height in range(1, node.disk.final.height + 1)]
    named = {facts.final_ref.height for facts in chain if facts.final_ref is not None}
    ends = range(SHORT.epoch_blocks, chain[-1].referenced_height + 1, SHORT.epoch_blocks)
    return sum(height not in named for height in ends)


def joins(world: World[SimulatedNode]) -> bool:
    """Return True if the last node reaches the tip."""
    world.nodes[-1].start()
    world.run_until(world.now_ms + 15_000)
    assert world.findings.conflicting_finals == []
    return world.nodes[-1].disk.final.height >= world.nodes[0].disk.final.height - 2


@pytest.fixture
def old_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the rules of chains whose headers did not have to name each boundary."""
    monkeypatch.setattr(Parameters, "reference_max", lambda *_: 2**31)


def test_headers_carry_every_boundary_and_a_late_node_follows_them() -> None:
    world = grown(1)
    assert world.nodes[0].disk.final.height > SHORT.boundary(2 * KEPT)
    assert left_out(world) == 0
    assert joins(world)


@pytest.mark.usefixtures("old_rules")
def test_boundaries_that_no_header_carries_are_served_for_ever() -> None:
    world = grown(1)
    assert left_out(world) > 0
    assert joins(world)


@pytest.mark.usefixtures("old_rules")
def test_without_the_stored_ones_a_late_node_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stopped at block 23 of 1,092."""
    sound = SimulatedNode.execute

    def forgetful(node: SimulatedNode, effect: ev.Effect) -> None:
        if not isinstance(effect, ev.SendBoundary):
            sound(node, effect)

    monkeypatch.setattr(SimulatedNode, "execute", forgetful)
    assert not joins(grown(1))
