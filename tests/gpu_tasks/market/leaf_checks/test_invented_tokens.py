"""A tree with right nodes and wrong tokens: a lie that a comparison of nodes alone does not find."""

from collections.abc import Collection
from dataclasses import replace

import pytest

from gpu_tasks.batches import sum_tree
from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.sum_tree import TreeNode
from gpu_tasks.market.leaf_checks.checks import CheckOutcome, LeafStage
from gpu_tasks.market.leaf_checks.events import LeafCheckEnded
from simulation.chains import batch_chain
from simulation.chains.batch_chain import LeafChain
from simulation.chains.market_chain import signed


def test_tokens_that_a_tree_counts_beside_right_nodes_are_a_wrong_leaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node and every sum above is right. Only the tokens beside the lowest nodes are invented."""
    stage, real_leaves, real_node = LeafChain(), batch_chain.leaves_for, sum_tree._leaf_node

    def inflated(unit: bytes, requests: int, wrong: Collection[int] = ()) -> tuple[Leaf, ...]:
        return tuple(replace(leaf, tokens_out=leaf.tokens_out + 7) for leaf in real_leaves(unit, requests, wrong))

    def beside(index: int, leaf: Leaf) -> TreeNode:
        node = real_node(index, replace(leaf, tokens_out=leaf.tokens_out - 7))
        return replace(node, tokens_out=leaf.tokens_out)

    with monkeypatch.context() as lying:
        lying.setattr(batch_chain, "leaves_for", inflated)
        lying.setattr(sum_tree, "_leaf_node", beside)
        unit = stage.settled()
        stage.until(unit, LeafStage.SHOWING)
        call = stage.show_call(unit)
    stage.chain.block(signed(stage.answerers(unit)[0].provider, call))
    auditor, shown = stage.auditor(unit), stage.check(unit).shown[0]
    assert shown.claim != stage.claim(unit, shown.index)
    stage.chain.block(stage.doubts(unit, auditor, shown.index, stage.claim(unit, shown.index)))
    stage.until(unit)
    (ended,) = stage.chain.happened(LeafCheckEnded)
    assert CheckOutcome(ended.outcome) is CheckOutcome.REFUTED
