"""Networks with changing sets: at the cut, at random, without a common member; and nodes that join by handoffs."""

from dataclasses import replace
from random import Random

import pytest

from consensus import events as ev
from consensus.parameters import DEVNET
from devnet.simulation.__main__ import catalogue, deal_jobs, parse
from devnet.simulation.byzantine import Equivocator
from devnet.simulation.elections import Elections, Field, SetChange, place_of
from devnet.simulation.joiner import Joiner
from devnet.simulation.keys import KeyRing, fake_signer
from devnet.simulation.node import SimulatedNode
from devnet.simulation.packets import HandoffsAsked, HandoffsSent, Packet
from devnet.simulation.scenario import START_MS, SimulatedScenario, make_world, run
from devnet.simulation.world import World

TINY = replace(DEVNET, epoch_blocks=3)
JOINED = SimulatedScenario(
    "joined", 4, change=SetChange.CUT, spares=2, unequal=True, rekey=True, joiners=1, storm_s=0, parameters=TINY
)


def elections(change: SetChange, seats: int = 4, spares: int = 3) -> Elections:
    rings = [KeyRing((fake_signer(number),)) for number in range(seats + spares)]
    return Elections(
        Field(rings, [1_000 + 37 * number for number in range(seats + spares)], {0}, seats), change, 1, "x"
    )


def stashes(made: Elections, epoch: int) -> set[bytes]:
    return {member.stash for member in made(epoch).validators.members}


@pytest.mark.parametrize("change", list(SetChange))
def test_who_misbehaves_never_weighs_a_third_and_the_first_two_eras_are_the_genesis_sets(change: SetChange) -> None:
    made = elections(change)
    for epoch in range(60):
        members = made(epoch).validators
        assert 3 * sum(member.weight for member in members.members if place_of(member.stash) == 0) < members.total
    assert made(0).validators.members == made(1).validators.members
    assert (made.table.count() > 30) == (change is not SetChange.NONE)


def test_sets_may_have_nobody_in_common() -> None:
    made = elections(SetChange.ANY, spares=4)
    assert sum(not stashes(made, epoch) & stashes(made, epoch + 1) for epoch in range(60)) > 10


def test_half_of_all_networks_change_their_sets() -> None:
    options = parse(["--seeds", "200"])
    dealt = [
        scenario
        for place, size in enumerate((4, 5, 7))
        for scenario, _ in deal_jobs(list(catalogue(size)), options, place * 200)
    ]
    assert sum(scenario.change is not SetChange.NONE for scenario in dealt) >= len(dealt) / 2


def test_just_under_a_third_of_the_new_set_may_be_down_at_every_edge() -> None:
    scenario = next(scenario for scenario in catalogue(5) if scenario.name == "n5-third-down")
    outcome = run(scenario, 3)
    assert outcome.failures == ()
    assert outcome.set_changes > 8
    assert outcome.finals > 45  # in 90 s: a round whose leader is down costs a time-out


def test_disjoint_sets_with_an_offender_and_trouble_at_the_edges() -> None:
    scenario = next(scenario for scenario in catalogue(4) if scenario.name == "n4-any-equivocators")
    outcome = run(replace(scenario, storm_s=40, quiet_s=20), 5)
    assert outcome.failures == ()
    assert outcome.accused == 1


def grown(seconds: int, seed: int = 1) -> World[SimulatedNode]:
    """A network in which the last node has yet to join."""
    world = make_world(JOINED, seed)
    for node in world.nodes[:-1]:
        node.start()
    world.run_until(START_MS + 1_000 * seconds)
    return world


def join(world: World[SimulatedNode], seconds: int = 20) -> Joiner:
    joiner = world.nodes[-1]
    assert isinstance(joiner, Joiner)
    joiner.start()
    world.run_until(world.now_ms + 1_000 * seconds)
    return joiner


@pytest.mark.nightly
def test_a_node_joins_from_handoffs_alone_over_two_hundred_epochs() -> None:
    world = grown(610)
    joiner = join(world)
    assert joiner.followed > 200
    assert joiner.table is not None
    assert joiner.table.count() > 150
    for epoch in range(joiner.table.newest.epoch + 1):
        assert joiner.table.of(epoch) == world.epochs(epoch).validators
    assert joiner.disk.final.height >= max(world.final_at) - 2
    assert len(joiner.disk.blocks) < 40  # of more than 600: it never saw the others
    assert world.findings.refused_handoffs == []


def test_who_joined_by_handoffs_hands_on_and_goes_on_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    world = grown(40)
    joiner = join(world)
    joiner.crash()
    world.run_until(world.now_ms + 5_000)
    joiner.start()
    world.run_until(world.now_ms + 15_000)
    assert joiner.disk.final.height >= max(world.final_at) - 2
    sent: list[Packet] = []
    monkeypatch.setattr(world, "send", lambda _sender, _receiver, packet: sent.append(packet))
    newest = max(joiner.disk.boundaries)
    joiner.receive(world.nodes[0], HandoffsAsked(newest))
    (answer,) = sent
    assert isinstance(answer, HandoffsSent)
    assert [proven.handoff.certificate.ballot.epoch for proven in answer.handoffs] == [newest]


def test_handoffs_that_a_peer_made_up_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world = grown(30)
    true = SimulatedNode._handoffs_from

    def false(node: SimulatedNode, epoch: int) -> HandoffsSent:
        told = true(node, epoch)
        made_up = [
            replace(proven, handoff=replace(proven.handoff, seats=proven.handoff.seats[1:])) for proven in told.handoffs
        ]
        return replace(told, handoffs=tuple(made_up))

    monkeypatch.setattr(SimulatedNode, "_handoffs_from", false)
    joiner = join(world, 3)
    assert joiner.machine is None
    assert set(world.findings.refused_handoffs) == {"seats differ from the header"}
    monkeypatch.setattr(SimulatedNode, "_handoffs_from", true)
    world.run_until(world.now_ms + 10_000)
    assert joiner.disk.final.height >= max(world.final_at) - 2


def test_a_boundary_whose_header_names_other_seats_is_no_block() -> None:
    world = make_world(replace(JOINED, joiners=0), 1)
    facts = ev.BlockFacts(b"i" * 32, b"p" * 32, TINY.boundary(3), 7, b"a" * 32, 5)
    assert world.names_next_set(world.seal(facts))
    assert not world.names_next_set(world.seal(facts, world.epochs(3).validators))
    sealed = world.seal(facts)
    assert not world.names_next_set(replace(sealed, slot=8))


def test_a_proposer_that_names_other_seats_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    seal = World.seal
    chance = Random("lies")

    def lying(node: Equivocator, request: ev.Build, nonce: int) -> ev.BlockFacts:
        facts = SimulatedNode.make_block(node, request, nonce)
        if not node.world.parameters.is_boundary(facts.height) or chance.random() < 0.5:
            return facts
        return seal(node.world, facts, node.world.epochs(0).validators)

    monkeypatch.setattr(Equivocator, "make_block", lying)
    scenario = replace(JOINED, name="lies", equivocators=1, storm_s=20, quiet_s=20)
    outcome = run(scenario, 2)
    assert outcome.failures == ()


def test_a_joiner_that_followed_too_little_fails_the_run() -> None:
    few = replace(JOINED, storm_s=20, quiet_s=10, handoffs_least=3)
    assert run(few, 1).failures == ()
    assert run(replace(few, handoffs_least=500), 1).failures[0].startswith("the joiner by handoffs followed ")
