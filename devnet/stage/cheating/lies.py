"""False statements about a batch: outputs, tokens, sums. Pure functions, so all liars with one seed agree.

Invariant: a lie depends on the right answers and the random source alone. Each leaf has a path, except below impossible
sums. The simulation of cheats computes the gain of each lie, and `make cheats` plays it on a devnet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from gpu_tasks.batches.leaf_draws import covers, drawn_points
from gpu_tasks.batches.leaves import Leaf, leaf_of, leaves_of
from gpu_tasks.batches.outcomes import BatchOutcome, Completed, RefusedRequest
from gpu_tasks.batches.sum_tree import LeafPath, Totals, TreeNode, combined, leaf_paths, totals_of


@dataclass(frozen=True, slots=True)
class RightAnswers:
    """A batch with its right answers."""

    genesis: bytes
    unit: bytes
    salt: bytes
    outcomes: tuple[BatchOutcome, ...]
    most: tuple[int, ...]
    """The most output tokens that the unit pays for, by request."""

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The leaves of the right outcomes."""
        return leaves_of(self.genesis, self.unit, self.salt, self.outcomes)

    @property
    def unused(self) -> int:
        """The output tokens that the unit pays for beyond those of the right answers."""
        outputs = (outcome.tokens_out for outcome in self.outcomes if isinstance(outcome, Completed))
        return sum(self.most) - sum(outputs)


@dataclass(frozen=True, slots=True)
class ToldBatch:
    """A provider's statement about a batch."""

    outcomes: tuple[BatchOutcome, ...]
    """The outcomes that the customer receives."""
    totals: Totals
    paths: tuple[LeafPath, ...]
    """The path of each leaf, in order. A path below made-up sums does not verify."""


BatchLie = Callable[[RightAnswers, Random], ToldBatch]


def one_wrong(right: RightAnswers, chance: Random) -> ToldBatch:
    """Falsify one output, and keep its token count."""
    return some_wrong(right, [chance.randrange(len(right.outcomes))])


def a_tenth_wrong(right: RightAnswers, chance: Random) -> ToldBatch:
    """Falsify one output in ten."""
    size = len(right.outcomes)
    return some_wrong(right, chance.sample(range(size), -(-size // 10)))


def all_wrong(right: RightAnswers, _: Random) -> ToldBatch:
    """Falsify all outputs."""
    return some_wrong(right, range(len(right.outcomes)))


def padded(right: RightAnswers, _: Random) -> ToldBatch:
    """Pad each output up to the tokens that the unit pays for."""
    longer = {
        index: replace(outcome, output=outcome.output + b" " * (most - outcome.tokens_out), tokens_out=most)
        for index, (outcome, most) in enumerate(zip(right.outcomes, right.most, strict=True))
        if isinstance(outcome, Completed) and outcome.tokens_out < most
    }
    return told_with(right, longer)


def cut_short(right: RightAnswers, _: Random) -> ToldBatch:
    """Cut each output to its first half."""
    halves = {
        index: replace(outcome, output=outcome.output[: outcome.tokens_out // 2], tokens_out=outcome.tokens_out // 2)
        for index, outcome in enumerate(right.outcomes)
        if isinstance(outcome, Completed) and outcome.tokens_out
    }
    return told_with(right, halves)


def errors_for_good_requests(right: RightAnswers, chance: Random) -> ToldBatch:
    """Report one request in five as invalid."""
    size = len(right.outcomes)
    return told_with(right, {index: RefusedRequest() for index in chance.sample(range(size), -(-size // 5))})


def totals_over_true_leaves(right: RightAnswers, _: Random) -> ToldBatch:
    """Raise the totals above the sum of all leaves: the left half of the top node claims more tokens."""
    true = told_with(right, {})
    left, beside = true.paths[-1].siblings[-1], true.paths[0].siblings[-1]
    lied = replace(left, tokens_out=left.tokens_out + right.unused)
    paths = tuple(
        replace(path, siblings=(*path.siblings[:-1], lied)) if path.siblings[-1] == left else path
        for path in true.paths
    )
    return ToldBatch(right.outcomes, _totals(len(paths), combined((lied, beside))), paths)


def tokens_beside_a_true_leaf(right: RightAnswers, chance: Random) -> ToldBatch:
    """Claim all unused tokens in one leaf beside its right hash. All sums above it add up."""
    nodes = [TreeNode(path.node, path.tokens_in, path.tokens_out) for path in told_with(right, {}).paths]
    index = chance.randrange(len(nodes))
    nodes[index] = replace(nodes[index], tokens_out=nodes[index].tokens_out + right.unused)
    paths = tuple(_path(nodes, place) for place in range(len(nodes)))
    return ToldBatch(right.outcomes, _totals(len(nodes), combined(nodes)), paths)


def some_wrong(right: RightAnswers, indices: Sequence[int]) -> ToldBatch:
    """Falsify the outputs at these indices, and keep their token counts."""
    false = {
        index: replace(outcome, output=flipped(outcome.output))
        for index in indices
        if isinstance(outcome := right.outcomes[index], Completed)
    }
    return told_with(right, false)


def told_with(right: RightAnswers, changed: Mapping[int, BatchOutcome]) -> ToldBatch:
    """Return a tree over the right outcomes, with some of them replaced."""
    outcomes, leaves = list(right.outcomes), list(right.leaves)
    for index, outcome in changed.items():
        outcomes[index] = outcome
        leaves[index] = leaf_of(right.genesis, right.unit, right.salt, index, outcome)
    return ToldBatch(tuple(outcomes), totals_of(leaves), tuple(leaf_paths(leaves, range(len(leaves)))))


def drawn_paths(told: ToldBatch, seed: bytes, unit: bytes, floor: int, input_share: int) -> list[LeafPath | None]:
    """Return the path to show for each drawn point of the lie, or None if no path covers the point."""
    points = drawn_points(seed, unit, told.totals, floor, input_share=input_share)
    return [
        next((path for path in told.paths if covers(told.totals, floor, path, point, input_share=input_share)), None)
        for point in points
    ]


def flipped(output: bytes) -> bytes:
    """Return the output of any workload with one bit flipped. An empty output becomes one byte."""
    # Only the last byte is safe: outputs of some workloads state their own cost at their beginning. The daemon itself
    # refuses an output that claims more than its unit pays for, so such a lie would be no result at all.
    return output[:-1] + bytes((output[-1] ^ 1,)) if output else b"x"


def _totals(count: int, top: TreeNode | None) -> Totals:
    assert top is not None, "no sum is above 64 bits"
    return Totals(count, top.tokens_in, top.tokens_out, top.hash)


def _path(nodes: Sequence[TreeNode], index: int) -> LeafPath:
    """Return the path of a leaf: at each depth, the node over the neighbouring subtree."""
    siblings = []
    depth = 0
    while 1 << depth < len(nodes):
        beside = (index >> depth) ^ 1
        above = combined(nodes[beside << depth : (beside + 1) << depth])
        siblings += [] if above is None else [above]
        depth += 1
    leaf = nodes[index]
    return LeafPath(index, leaf.tokens_in, leaf.tokens_out, leaf.hash, tuple(siblings))
