"""False statements about a batch: outputs, tokens, sums. Pure functions, so all liars with one seed agree.

Invariant: a lie depends on the right answers and the random source alone. The simulation of cheats computes the gain of
each lie, and `make cheats` plays it on a devnet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from gpu_tasks.batches.leaves import Leaf, leaf_of, leaves_of
from gpu_tasks.batches.outcomes import BatchOutcome, Completed, RefusedRequest
from gpu_tasks.batches.sum_tree import Totals, totals_of


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
        output_tokens = (outcome.tokens_out for outcome in self.outcomes if isinstance(outcome, Completed))
        return sum(self.most) - sum(output_tokens)


@dataclass(frozen=True, slots=True)
class ToldBatch:
    """A provider's statement about a batch."""

    outcomes: tuple[BatchOutcome, ...]
    """The outcomes that the customer receives."""
    leaves: tuple[Leaf, ...]
    """The leaves that the provider can deliver."""
    totals: Totals
    """The totals under its root. If the leaves have others, the provider has no delivery of its claim."""


BatchLie = Callable[[RightAnswers, Random], ToldBatch]


def one_wrong(right_answers: RightAnswers, random_source: Random) -> ToldBatch:
    """Falsify one output, and keep its token count."""
    return wrong_at(right_answers, [random_source.randrange(len(right_answers.outcomes))])


def a_tenth_wrong(right_answers: RightAnswers, random_source: Random) -> ToldBatch:
    """Falsify one output in ten."""
    request_count = len(right_answers.outcomes)
    return wrong_at(right_answers, random_source.sample(range(request_count), -(-request_count // 10)))


def all_wrong(right_answers: RightAnswers, _: Random) -> ToldBatch:
    """Falsify all outputs."""
    return wrong_at(right_answers, range(len(right_answers.outcomes)))


def padded_outputs(right_answers: RightAnswers, _: Random) -> ToldBatch:
    """Pad each output up to the tokens that the unit pays for."""
    longer_outcomes = {
        leaf_index: replace(
            outcome, output=outcome.output + b" " * (tokens_max - outcome.tokens_out), tokens_out=tokens_max
        )
        for leaf_index, (outcome, tokens_max) in enumerate(zip(right_answers.outcomes, right_answers.most, strict=True))
        if isinstance(outcome, Completed) and outcome.tokens_out < tokens_max
    }
    return batch_with(right_answers, longer_outcomes)


def halved_outputs(right_answers: RightAnswers, _: Random) -> ToldBatch:
    """Cut each output to its first half."""
    halved_outcomes = {
        leaf_index: replace(
            outcome, output=outcome.output[: outcome.tokens_out // 2], tokens_out=outcome.tokens_out // 2
        )
        for leaf_index, outcome in enumerate(right_answers.outcomes)
        if isinstance(outcome, Completed) and outcome.tokens_out
    }
    return batch_with(right_answers, halved_outcomes)


def errors_for_good_requests(right_answers: RightAnswers, random_source: Random) -> ToldBatch:
    """Report one request in five as invalid."""
    request_count = len(right_answers.outcomes)
    return batch_with(
        right_answers,
        {
            leaf_index: RefusedRequest()
            for leaf_index in random_source.sample(range(request_count), -(-request_count // 5))
        },
    )


def totals_over_true_leaves(right_answers: RightAnswers, _: Random) -> ToldBatch:
    """Raise the totals above the sum of all leaves."""
    true_batch = batch_with(right_answers, {})
    raised = replace(true_batch.totals, tokens_out=true_batch.totals.tokens_out + right_answers.unused)
    return replace(true_batch, totals=raised)


def wrong_at(right_answers: RightAnswers, indices: Sequence[int]) -> ToldBatch:
    """Falsify the outputs at these indices, and keep their token counts."""
    false_outcomes = {
        leaf_index: replace(outcome, output=with_flipped_bit(outcome.output))
        for leaf_index in indices
        if isinstance(outcome := right_answers.outcomes[leaf_index], Completed)
    }
    return batch_with(right_answers, false_outcomes)


def batch_with(right_answers: RightAnswers, changed_outcomes: Mapping[int, BatchOutcome]) -> ToldBatch:
    """Return a tree over the right outcomes, with some of them replaced."""
    told_outcomes, told_leaves = list(right_answers.outcomes), list(right_answers.leaves)
    for leaf_index, outcome in changed_outcomes.items():
        told_outcomes[leaf_index] = outcome
        told_leaves[leaf_index] = leaf_of(
            right_answers.genesis, right_answers.unit, right_answers.salt, leaf_index, outcome
        )
    return ToldBatch(tuple(told_outcomes), tuple(told_leaves), totals_of(told_leaves))


def with_flipped_bit(output: bytes) -> bytes:
    """Return the output of any workload with one bit flipped. An empty output becomes one byte."""
    # Outputs of some workloads state their own cost at their beginning, and lists their lengths at either end. The
    # daemon itself refuses an output that claims more than its unit pays for, so such a lie would be no result at all.
    middle = len(output) // 2
    return output[:middle] + bytes((output[middle] ^ 1,)) + output[middle + 1 :] if output else b"x"
