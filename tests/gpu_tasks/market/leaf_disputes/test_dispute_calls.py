"""`show_nodes`: the allowed senders, nodes and times. Only the sender's own tree is accepted."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.batches.sum_tree import TreeNode, nodes_below, subtrees_of, totals_of
from gpu_tasks.market.leaf_disputes.disputes import LeafDisputeStage
from gpu_tasks.market.leaf_disputes.events import NotASide, NothingAsked, UnknownLeafDispute, WrongNodes
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from simulation.chains.batch_chain import DisputeChain
from simulation.chains.market_chain import CUSTOMER, refused

NONE: tuple[int, ...] = ()


@pytest.fixture
def stage() -> DisputeChain:
    return DisputeChain(requests=100)


def test_only_who_answered_shows_and_by_its_provider_key(stage: DisputeChain) -> None:
    unit = stage.disputed(NONE, [60])
    call = stage.nodes_call(unit, stage.racer(unit, 0))
    racers = {racer.owner for racer in stage.unit(unit).racers}
    others = [keys for keys in stage.chain.validators if keys.stash not in racers]
    stage.chain.block(
        *(refused(keys.provider, call, NotASide) for keys in others),
        refused(CUSTOMER.stash, call, NotASide),
        refused(stage.racer(unit, 1).provider, call, WrongNodes),
    )
    assert not any(side.has_shown for side in stage.dispute(unit).sides)


def test_other_nodes_than_those_of_the_own_root_are_refused(stage: DisputeChain) -> None:
    unit = stage.disputed(NONE, [60])
    keys = stage.racer(unit, 0)
    leaves = stage.answer(unit, keys)
    totals, nodes = totals_of(leaves), subtrees_of(leaves)
    top = TreeNode(totals.top, totals.tokens_in, totals.tokens_out)
    more = replace(nodes[0], tokens_out=nodes[0].tokens_out + 1)
    less = replace(nodes[1], tokens_out=nodes[1].tokens_out - 1)
    wrong: list[dict[str, Any]] = [
        {"nodes": ()}, {"nodes": nodes[:1]}, {"nodes": (*nodes, nodes[0])}, {"nodes": nodes[::-1]},
        {"nodes": (more, less)}, {"nodes": (replace(nodes[0], tokens_out=2**64 - 1), nodes[1])},
        {"nodes": nodes_below(leaves, 0)}, {"nodes": (top,)}, {"totals": replace(totals, requests=99)},
        {"totals": totals_of(stage.answer(unit, stage.racer(unit, 1)))},
    ]  # fmt: skip
    stage.chain.block(*(refused(keys.provider, stage.nodes_call(unit, keys, **each), WrongNodes) for each in wrong))


def test_leaves_are_those_of_the_subtree_that_is_asked_for(stage: DisputeChain) -> None:
    unit = stage.disputed(NONE, [70])
    stage.chain.block(stage.shows(unit, 0), stage.shows(unit, 1))
    stage.chain.block()
    assert (stage.dispute(unit).stage, stage.dispute(unit).subtree) == (LeafDisputeStage.LEAVES, 1)
    keys = stage.racer(unit, 0)
    leaves = stage.answer(unit, keys)
    right = nodes_below(leaves, 1)
    assert len(right) == 36
    for nodes in (nodes_below(leaves, 0), subtrees_of(leaves), right[:-1], (right[1], right[0], *right[2:])):
        stage.chain.block(refused(keys.provider, stage.nodes_call(unit, keys, nodes=nodes), WrongNodes))
    stage.chain.block(stage.shows(unit, 0))


def test_each_side_shows_once_in_its_window_and_not_while_a_leaf_is_judged(stage: DisputeChain) -> None:
    unit = stage.disputed(NONE, [70], NONE)
    call, partner = stage.nodes_call(unit, stage.racer(unit, 0)), stage.racer(unit, 2).provider
    stage.chain.block(stage.shows(unit, 0), refused(partner, call, NothingAsked))
    while stage.chain.height < stage.dispute(unit).deadline:
        stage.chain.block()
    late = stage.nodes_call(unit, stage.racer(unit, 1))
    stage.chain.block(refused(stage.racer(unit, 1).provider, late, UnknownLeafDispute))
    other = stage.disputed(NONE, [70])
    for _ in range(2):
        stage.chain.block(stage.shows(other, 0), stage.shows(other, 1))
        stage.chain.block()
    assert stage.dispute(other).stage is LeafDisputeStage.JUDGED
    stage.chain.block(
        refused(stage.racer(other, 0).provider, stage.nodes_call(other, stage.racer(other, 0)), NothingAsked)
    )


def test_a_batch_that_nobody_disputes_has_nothing_to_show(stage: DisputeChain) -> None:
    unit = stage.claimed(NONE, NONE)
    call = LeafDisputes.show_nodes(unit=unit, totals=totals_of(stage.answers[unit][0]), nodes=())
    stage.chain.block(refused(stage.racer(unit, 0).provider, call, UnknownLeafDispute))
