"""Leaves of a batch: those of this provider's result, and those that an auditor or judge computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_tasks.batches.leaf_draws import drawn_points, index_at, weight_floor
from gpu_tasks.batches.leaves import Leaf, leaf_of, leaves_of
from gpu_tasks.batches.outcomes import BatchOutcome, decode_outcomes
from gpu_tasks.batches.sum_tree import batch_root, leaf_claim, leaf_paths, nodes_below, subtrees_of, totals_of
from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.market.leaf_checks.checks import LeafCheck
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_checks.leaf_checks_api import CheckStatus
from gpu_tasks.market.leaf_checks.proofs import leaves_proof
from gpu_tasks.market.leaf_disputes.disputes import DisputeStage
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from gpu_tasks.market.leaf_disputes.leaf_disputes_api import DisputeStatus
from gpu_tasks.provider.chain.port import RacePort
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.work import payable_requests
from gpu_tasks.provider.execution.device_times import Activity
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.workloads.form import WorkloadForm, outcomes_of
from runtime.frame.call import Call

TURN_BLOCKS = 4
"""The delay between providers with the same answer. The next one shows its leaves only if the previous one has not, to
save fees."""


@dataclass(frozen=True, slots=True)
class FoundLeaf:
    """A leaf that was computed again, with its request and outcome."""

    index: int
    request: bytes
    outcome: BatchOutcome
    leaf: Leaf

    @property
    def claim(self) -> bytes:
        """The claim that is right for this leaf."""
        return leaf_claim(self.index, self.leaf)


def settled_leaves(parts: Parts[RacePort], unit: bytes, root: bytes) -> tuple[Leaf, ...]:
    """Return the leaves of this provider's result with this root, from the journal alone.

    Raise ExecutionError if the journal has no such result.
    """
    entries = (entry for key, entry in parts.journal.races.items() if key[0] == unit)
    found = next((entry for entry in entries if entry.result is not None and entry.result.output_root == root), None)
    if found is None or found.result is None or found.input_salt is None:
        raise ExecutionError("the journal lacks this result", code="no_result")
    leaves = leaves_of(parts.identity.genesis, unit, found.input_salt, decode_outcomes(found.result.outcomes))
    # A damaged entry must not be shown: wrong leaves count as a lie.
    if batch_root(totals_of(leaves)) != root:
        raise ExecutionError("the journal's result differs from its commitment", code="other_commitment")
    return leaves


def showing_call(status: CheckStatus, leaves: Sequence[Leaf]) -> Call:
    """Return the call that shows the drawn leaves of this provider's result."""
    check, terms, totals = status.check, status.check.terms, totals_of(leaves)
    assert check.seed is not None, "the drawn leaves are known"
    floor, share = weight_floor(terms.allowed, terms.requests), terms.input_share
    points = drawn_points(check.seed, status.unit, totals, floor, input_share=share)
    indices = [index_at(leaves, floor, point, input_share=share) for point in points]
    return LeafChecks.show_leaves(unit=status.unit, totals=totals, paths=tuple(leaf_paths(leaves, indices)))


def nodes_call(status: DisputeStatus, leaves: Sequence[Leaf]) -> Call:
    """Return the call that shows the nodes of this provider's tree that a dispute requests."""
    dispute = status.dispute
    is_first = dispute.stage is DisputeStage.SUBTREES
    nodes = subtrees_of(leaves) if is_first else nodes_below(leaves, dispute.subtree)
    return LeafDisputes.show_nodes(unit=status.unit, totals=totals_of(leaves), nodes=nodes)


async def computed_leaves(
    parts: Parts[RacePort],
    unit_id: bytes,
    unit: Unit,
    form: WorkloadForm,
    asked: UnitInput,
    indices: Sequence[int],
    activity: Activity = Activity.JUDGING,
) -> list[FoundLeaf]:
    """Compute some leaves of a batch from its input. Raise UnusableInputError if no one could have answered it."""
    # Auditors and judges refuse the same inputs as racers do.
    requests = payable_requests(form, asked, unit.terms)
    chosen = [requests[index] for index in indices]
    outcomes = outcomes_of(form, chosen, await parts.workers.recompute_many(form, chosen, activity))
    genesis, salt = parts.identity.genesis, asked.salt
    return [
        FoundLeaf(index, request, outcome, leaf_of(genesis, unit_id, salt, index, outcome))
        for index, request, outcome in zip(indices, chosen, outcomes, strict=True)
    ]


def proof_by(
    genesis: bytes, unit: bytes, check: LeafCheck, auditor: bytes, salt: bytes, found: Sequence[FoundLeaf]
) -> bytes:
    """Return the proof with which an auditor passes, or should have passed, these leaves (see `proofs`)."""
    digests = [each.leaf.digest for each in found]
    return leaves_proof(genesis, unit, auditor, salt, digests, is_shown=wrong_leaf(check, found) is None)


def wrong_leaf(check: LeafCheck, found: Sequence[FoundLeaf]) -> FoundLeaf | None:
    """Return the first leaf that differs from the shown one."""
    return next((each for each, shown in zip(found, check.shown, strict=True) if each.claim != shown.claim), None)
