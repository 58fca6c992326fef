"""What may be stated of a batch instead of what is right: outputs, tokens, sums. Pure, the same for all who state it.

Always: a lie follows from the right answers and from chance, so who knows both knows the lie; what has a path can be
shown. The simulation of cheats reckons what each earns, `make cheats` plays it on a devnet.
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
    """A batch, and what is right."""

    genesis: bytes
    unit: bytes
    salt: bytes
    outcomes: tuple[BatchOutcome, ...]
    most: tuple[int, ...]
    """Tokens out of each request that its unit pays for at most."""

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """Of these outcomes."""
        return leaves_of(self.genesis, self.unit, self.salt, self.outcomes)

    @property
    def unused(self) -> int:
        """Tokens out that are paid for and that no right answer has."""
        outputs = (outcome.tokens_out for outcome in self.outcomes if isinstance(outcome, Completed))
        return sum(self.most) - sum(outputs)


@dataclass(frozen=True, slots=True)
class ToldBatch:
    """What a provider states of a batch."""

    outcomes: tuple[BatchOutcome, ...]
    """What it gives its customer."""
    totals: Totals
    paths: tuple[LeafPath, ...]
    """Of each leaf, in order; those below sums that are none do not hold."""


BatchLie = Callable[[RightAnswers, Random], ToldBatch]


def one_wrong(right: RightAnswers, chance: Random) -> ToldBatch:
    """One output is another one, with as many tokens."""
    return some_wrong(right, [chance.randrange(len(right.outcomes))])


def a_tenth_wrong(right: RightAnswers, chance: Random) -> ToldBatch:
    """So is one in ten."""
    size = len(right.outcomes)
    return some_wrong(right, chance.sample(range(size), -(-size // 10)))


def all_wrong(right: RightAnswers, _: Random) -> ToldBatch:
    """So are all."""
    return some_wrong(right, range(len(right.outcomes)))


def padded(right: RightAnswers, _: Random) -> ToldBatch:
    """Each output goes on to the most that is paid for."""
    longer = {
        index: replace(outcome, output=outcome.output + b" " * (most - outcome.tokens_out), tokens_out=most)
        for index, (outcome, most) in enumerate(zip(right.outcomes, right.most, strict=True))
        if isinstance(outcome, Completed) and outcome.tokens_out < most
    }
    return told_with(right, longer)


def cut_short(right: RightAnswers, _: Random) -> ToldBatch:
    """Half of each output."""
    halves = {
        index: replace(outcome, output=outcome.output[: outcome.tokens_out // 2], tokens_out=outcome.tokens_out // 2)
        for index, outcome in enumerate(right.outcomes)
        if isinstance(outcome, Completed) and outcome.tokens_out
    }
    return told_with(right, halves)


def errors_for_good_requests(right: RightAnswers, chance: Random) -> ToldBatch:
    """One request in five is said to be none."""
    size = len(right.outcomes)
    return told_with(right, {index: RefusedRequest() for index in chance.sample(range(size), -(-size // 5))})


def totals_over_true_leaves(right: RightAnswers, _: Random) -> ToldBatch:
    """The totals say more than all leaves do: sums are made up at the top, over the left half of true leaves."""
    true = told_with(right, {})
    left, beside = true.paths[-1].siblings[-1], true.paths[0].siblings[-1]
    lied = replace(left, tokens_out=left.tokens_out + right.unused)
    paths = tuple(
        replace(path, siblings=(*path.siblings[:-1], lied)) if path.siblings[-1] == left else path
        for path in true.paths
    )
    return ToldBatch(right.outcomes, _totals(len(paths), combined((lied, beside))), paths)


def tokens_beside_a_true_leaf(right: RightAnswers, chance: Random) -> ToldBatch:
    """One leaf is counted with all tokens that are left, beside its right node; all sums above are right."""
    nodes = [TreeNode(path.node, path.tokens_in, path.tokens_out) for path in told_with(right, {}).paths]
    index = chance.randrange(len(nodes))
    nodes[index] = replace(nodes[index], tokens_out=nodes[index].tokens_out + right.unused)
    paths = tuple(_path(nodes, place) for place in range(len(nodes)))
    return ToldBatch(right.outcomes, _totals(len(nodes), combined(nodes)), paths)


def some_wrong(right: RightAnswers, indices: Sequence[int]) -> ToldBatch:
    """The outputs of these requests are others, with the tokens that a computed one has."""
    false = {
        index: replace(outcome, output=flipped(outcome.output))
        for index in indices
        if isinstance(outcome := right.outcomes[index], Completed)
    }
    return told_with(right, false)


def told_with(right: RightAnswers, changed: Mapping[int, BatchOutcome]) -> ToldBatch:
    """A tree over the right outcomes, but for some."""
    outcomes, leaves = list(right.outcomes), list(right.leaves)
    for index, outcome in changed.items():
        outcomes[index] = outcome
        leaves[index] = leaf_of(right.genesis, right.unit, right.salt, index, outcome)
    return ToldBatch(tuple(outcomes), totals_of(leaves), tuple(leaf_paths(leaves, range(len(leaves)))))


def drawn_paths(told: ToldBatch, seed: bytes, unit: bytes, floor: int, input_share: int) -> list[LeafPath | None]:
    """For each point that the beacon draws of what was told the path that can be shown; None where there is none."""
    points = drawn_points(seed, unit, told.totals, floor, input_share=input_share)
    return [
        next((path for path in told.paths if covers(told.totals, floor, path, point, input_share=input_share)), None)
        for point in points
    ]


def flipped(output: bytes) -> bytes:
    """An output with one bit flipped, of any workload; something where there was nothing."""
    # The last byte: what an output says of its own cost stands at its beginning where it says so. A lie about that is
    # no result at all: the daemon itself gives it back as one that asks for more than its unit pays for.
    return output[:-1] + bytes((output[-1] ^ 1,)) if output else b"x"


def _totals(count: int, top: TreeNode | None) -> Totals:
    assert top is not None, "no sum is above 64 bits"
    return Totals(count, top.tokens_in, top.tokens_out, top.hash)


def _path(nodes: Sequence[TreeNode], index: int) -> LeafPath:
    """The path of a leaf in the tree over these nodes: beside it, at each depth, what stands above its neighbours."""
    siblings = []
    depth = 0
    while 1 << depth < len(nodes):
        beside = (index >> depth) ^ 1
        above = combined(nodes[beside << depth : (beside + 1) << depth])
        siblings += [] if above is None else [above]
        depth += 1
    leaf = nodes[index]
    return LeafPath(index, leaf.tokens_in, leaf.tokens_out, leaf.hash, tuple(siblings))
