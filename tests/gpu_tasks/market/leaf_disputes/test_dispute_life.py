"""A dispute about a batch from differing answers to each of its ends: shows, judgements and payments."""

import pytest

from gpu_tasks.market.claims.dispute_events import DisputeEnded, DisputeOpened
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.events import DeviceUnregistered
from gpu_tasks.market.inference.events import ProviderSlashed, ResultClaimed, UnitRequeued
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.market.leaf_disputes.disputes import LeafDisputeStage, roots_of
from gpu_tasks.market.leaf_disputes.events import LeafDisputed, NodesAsked, NodesShown, TreeWithheld
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from simulation.chains.batch_chain import DisputeChain
from simulation.chains.market_chain import CUSTOMER

RIGHT: tuple[int, ...] = ()


def lost(stage: DisputeChain, unit: bytes) -> list[bytes]:
    return [event.provider for event in stage.chain.happened(ProviderSlashed) if event.unit == unit]


@pytest.mark.parametrize(("requests", "wrong"), [(40, 7), (64, 63), (65, 64), (200, 130), (200, 0)])
def test_the_first_leaf_in_which_two_differ_is_judged_and_no_other(requests: int, wrong: int) -> None:
    stage = DisputeChain(requests=requests)
    unit = stage.disputed(RIGHT, range(wrong, requests))
    honest, liar = stage.racer(unit, 0), stage.racer(unit, 1)
    held, before = stage.unit(unit).racers[1].collateral, stage.owned(liar.stash)
    stage.play(unit)
    assert [event.leaf for event in stage.chain.happened(LeafDisputed)] == [wrong]
    assert lost(stage, unit) == [liar.stash]
    assert stage.owned(liar.stash) == before - held
    (claimed,) = stage.chain.happened(ResultClaimed)
    assert (claimed.winner, claimed.witness) == (honest.stash, None)
    assert stage.chain.now()[ResultClaims].open_claim(unit).terms.provider == honest.stash, "it may be checked still"
    room = stage.chain.now()[LeafDisputes]
    for kept in (room.subtrees, room.leaves, room.duties, room.agenda.waiting, room.agenda.places):
        assert not list(kept.items())
    assert not list(room.final_agenda.waiting.items()) + list(room.final_agenda.places.items())


def test_a_liar_that_lost_all_it_held_may_leave_and_the_batch_ends_all_the_same() -> None:
    """The batch's record still has its device, and the look-up of that halted the chain."""
    stage = DisputeChain(requests=100)
    unit = stage.disputed([70], RIGHT)
    liar = stage.racer(unit, 0)
    stage.play(unit)
    assert stage.unit(unit).state is UnitState.CLAIMED
    stage.chain.block(*stage.leaving_steps(unit))
    assert stage.chain.now()[Devices].devices[liar.device] is None
    while stage.unit(unit).state is UnitState.CLAIMED:
        stage.chain.block()
    assert stage.unit(unit).ended_at


def test_so_it_may_while_others_are_disputed_still() -> None:
    stage = DisputeChain(requests=200)
    unit = stage.disputed([150], RIGHT, [10])
    first, second = stage.racer(unit, 2), stage.racer(unit, 0)
    while not stage.chain.happened(DeviceUnregistered):
        stage.play_block(unit)
    assert stage.chain.now()[Devices].devices[first.device] is None
    assert stage.is_disputed(unit)
    stage.play(unit)
    stage.chain.block(*stage.leaving_steps(unit))
    assert stage.chain.now()[Devices].devices[second.device] is None
    while stage.unit(unit).state is UnitState.CLAIMED:
        stage.chain.block()
    assert stage.unit(unit).ended_at


def test_two_steps_lead_to_a_leaf_of_a_large_batch_and_one_to_that_of_a_small_one() -> None:
    large, small = DisputeChain(requests=200), DisputeChain(requests=64)
    for stage, subtrees in ((large, [None, 2]), (small, [0])):
        unit = stage.disputed(RIGHT, [stage.requests - 72 if stage is large else 5])
        stage.play(unit)
        assert [event.subtree for event in stage.chain.happened(NodesAsked)] == subtrees
        assert len(stage.chain.happened(NodesShown)) == 2 * len(subtrees)


def test_who_withholds_its_tree_loses_as_a_liar_though_it_is_right() -> None:
    """Otherwise a liar would show nothing, and be judged whole."""
    stage = DisputeChain(requests=100)
    unit = stage.disputed(RIGHT, [3])
    right, held = stage.racer(unit, 0), stage.unit(unit).racers[0].collateral
    before, customer = stage.owned(right.stash), stage.owned(CUSTOMER.stash)
    root = roots_of(stage.dispute(unit))[0]
    stage.play(unit, 0)
    assert [(event.unit, event.root) for event in stage.chain.happened(TreeWithheld)] == [(unit, root)]
    assert lost(stage, unit) == [right.stash]
    assert stage.owned(right.stash) == before - held
    assert not stage.chain.happened(DisputeOpened), "nobody had to vote"
    (claimed,) = stage.chain.happened(ResultClaimed)
    assert claimed.winner == stage.racer(unit, 1).stash
    assert stage.owned(CUSTOMER.stash) == customer, "what it withheld burns"


def test_where_nobody_shows_anything_both_lose_and_the_batch_is_drawn_again() -> None:
    stage = DisputeChain()
    unit = stage.disputed(RIGHT, [3])
    both = [racer.owner for racer in stage.unit(unit).racers]
    stage.play(unit, 0, 1)
    assert lost(stage, unit) == both
    assert stage.unit(unit).state is UnitState.QUEUED
    assert len(stage.chain.happened(UnitRequeued)) == 1
    assert not stage.unit(unit).racers


def test_where_both_are_wrong_about_the_leaf_both_lose_and_the_batch_is_drawn_again() -> None:
    stage = DisputeChain(requests=100)
    unit = stage.disputed(range(50, 100), range(20, 100))
    # both have wrong leaves from 50 on. They first differ at 20, where the first one is right
    stage.play(unit)
    assert [event.leaf for event in stage.chain.happened(LeafDisputed)] == [20]
    assert len(lost(stage, unit)) == 1
    assert stage.unit(unit).state is UnitState.CLAIMED, "who is left is looked at by its drawn leaves"


def test_of_three_answers_the_one_that_is_right_is_found_leaf_by_leaf() -> None:
    stage = DisputeChain(requests=200)
    unit = stage.disputed([150], RIGHT, [10])
    stage.play(unit)
    assert [event.leaf for event in stage.chain.happened(LeafDisputed)] == [10, 150]
    assert [event.subtree for event in stage.chain.happened(NodesAsked)] == [None, 0, 2]
    assert lost(stage, unit) == [stage.racer(unit, 2).stash, stage.racer(unit, 0).stash]
    (claimed,) = stage.chain.happened(ResultClaimed)
    assert claimed.winner == stage.racer(unit, 1).stash


def test_two_leaves_of_one_subtree_are_judged_without_another_showing() -> None:
    stage = DisputeChain(requests=40)
    unit = stage.disputed([30], [12], RIGHT)
    stage.play(unit)
    assert [event.leaf for event in stage.chain.happened(LeafDisputed)] == [12, 30]
    assert len(stage.chain.happened(NodesAsked)) == 1


def test_one_of_a_side_shows_for_all_of_it() -> None:
    stage = DisputeChain(requests=100)
    unit = stage.disputed(RIGHT, [60], RIGHT)
    stage.play(unit, 2)
    assert lost(stage, unit) == [stage.racer(unit, 1).stash]
    (claimed,) = stage.chain.happened(ResultClaimed)
    assert {claimed.winner, claimed.witness} == {stage.racer(unit, 0).stash, stage.racer(unit, 2).stash}


def test_what_nobody_can_judge_is_refunded_and_costs_nobody_anything() -> None:
    stage = DisputeChain(requests=100, is_silent=True)
    unit = stage.disputed(RIGHT, [60])
    before = [stage.owned(racer.owner) for racer in stage.unit(unit).racers]
    owners = [racer.owner for racer in stage.unit(unit).racers]
    stage.play(unit)
    (ended,) = stage.chain.happened(DisputeEnded)
    assert ended.vote is None
    assert stage.unit(unit).state is UnitState.REFUNDED
    assert [stage.owned(owner) for owner in owners] == before


def test_a_dispute_goes_on_while_its_stage_says_so() -> None:
    stage = DisputeChain(requests=100)
    unit = stage.disputed(RIGHT, [60])
    assert stage.dispute(unit).stage is LeafDisputeStage.SUBTREES
    stage.chain.block(stage.shows(unit, 0), stage.shows(unit, 1))
    assert stage.dispute(unit).stage is LeafDisputeStage.SUBTREES
    stage.chain.block()
    assert (stage.dispute(unit).stage, stage.dispute(unit).subtree) == (LeafDisputeStage.LEAVES, 0)
    stage.chain.block(stage.shows(unit, 1))
    stage.chain.block()
    assert stage.dispute(unit).stage is LeafDisputeStage.LEAVES, "the other one has its window"
    stage.chain.block(stage.shows(unit, 0))
    stage.chain.block()
    assert (stage.dispute(unit).stage, stage.dispute(unit).leaf) == (LeafDisputeStage.JUDGED, 60)
