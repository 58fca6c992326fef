"""Batches of a recorded chain whose racers differ: each side shows its tree, or withholds it."""

from collections.abc import Iterator

from gpu_tasks.batches.sum_tree import batch_root, leaf_claim, nodes_below, subtrees_of, totals_of
from gpu_tasks.market.courts.opinions import Answered
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.market.leaf_disputes.disputes import DisputeStage, LeafDispute, Side
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from scripts.replay.cast import BY_STASH
from scripts.replay.habits import Deed, portion
from scripts.replay.leaf_deeds import Leaves, leaves_of
from scripts.replay.world import World

WITHHOLDS = 0.15
"""Of the sides of disputes: nobody shows its tree."""


def dispute_deeds(world: World) -> Iterator[Deed]:
    """What is owed to the disputes that go on, as far as it is remembered."""
    for unit_id, dispute in list(world.bound[LeafDisputes].disputes.items()):
        assert dispute is not None
        silent = [side for side in dispute.sides if not side.has_shown]
        for side in silent if dispute.stage is not DisputeStage.JUDGED else ():
            if portion(unit_id + side.root, b"tree") >= WITHHOLDS and world.chance.random() < 0.5:
                yield _show(world, unit_id, dispute, side)


def true_of_dispute(world: World, case_id: bytes) -> Answered | None:
    """What is right about the leaf of a batch that is disputed; None for any other case."""
    dispute = world.bound[LeafDisputes].disputes[case_id]
    if dispute is None:
        return None
    right = leaves_of(case_id, _unit(world, case_id), is_right=True)
    return Answered(leaf_claim(dispute.leaf, right[dispute.leaf]))


def _show(world: World, unit_id: bytes, dispute: LeafDispute, side: Side) -> Deed:
    leaves = _answered(world, unit_id, side.root)
    is_first = dispute.stage is DisputeStage.SUBTREES
    nodes = subtrees_of(leaves) if is_first else nodes_below(leaves, dispute.subtree)
    call = LeafDisputes.show_nodes(unit=unit_id, totals=totals_of(leaves), nodes=nodes)
    return Deed(BY_STASH[side.accounts[0]].provider, call)


def _answered(world: World, unit_id: bytes, root: bytes) -> Leaves:
    """The leaves of a root: those that are right, or those of the unit's liars."""
    unit = _unit(world, unit_id)
    right = leaves_of(unit_id, unit, is_right=True)
    return right if batch_root(totals_of(right)) == root else leaves_of(unit_id, unit, is_right=False)


def _unit(world: World, unit_id: bytes) -> Unit:
    unit = world.bound[InferenceMarket].units[unit_id]
    assert unit is not None, "its dispute is not over"
    return unit
