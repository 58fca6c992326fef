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


def settled_leaves(parts: Parts[RacePort], unit_id: bytes, settled_root: bytes) -> tuple[Leaf, ...]:
    """Return the leaves of this provider's result with this root, from the journal alone.

    Raise ExecutionError if the journal has no such result.
    """
    race_entries = (race_entry for race_key, race_entry in parts.journal.races.items() if race_key[0] == unit_id)
    settled_entry = next(
        (
            race_entry
            for race_entry in race_entries
            if race_entry.result is not None and race_entry.result.output_root == settled_root
        ),
        None,
    )
    if settled_entry is None or settled_entry.result is None or settled_entry.input_salt is None:
        raise ExecutionError("the journal lacks this result", code="no_result")
    leaves = leaves_of(
        parts.identity.genesis, unit_id, settled_entry.input_salt, decode_outcomes(settled_entry.result.outcomes)
    )
    # A damaged entry must not be shown: wrong leaves count as a lie.
    if batch_root(totals_of(leaves)) != settled_root:
        raise ExecutionError("the journal's result differs from its commitment", code="other_commitment")
    return leaves


def showing_call(check_status: CheckStatus, leaves: Sequence[Leaf]) -> Call:
    """Return the call that shows the drawn leaves of this provider's result."""
    leaf_check, check_terms, check_totals = check_status.check, check_status.check.terms, totals_of(leaves)
    assert leaf_check.seed is not None, "the drawn leaves are known"
    least_weight, input_share = weight_floor(check_terms.allowed, check_terms.requests), check_terms.input_share
    points = drawn_points(leaf_check.seed, check_status.unit, check_totals, least_weight, input_share=input_share)
    leaf_indices = [index_at(leaves, least_weight, point, input_share=input_share) for point in points]
    return LeafChecks.show_leaves(
        unit=check_status.unit, totals=check_totals, paths=tuple(leaf_paths(leaves, leaf_indices))
    )


def nodes_call(dispute_status: DisputeStatus, leaves: Sequence[Leaf]) -> Call:
    """Return the call that shows the nodes of this provider's tree that a dispute requests."""
    leaf_dispute = dispute_status.dispute
    is_first = leaf_dispute.stage is DisputeStage.SUBTREES
    nodes = subtrees_of(leaves) if is_first else nodes_below(leaves, leaf_dispute.subtree)
    return LeafDisputes.show_nodes(unit=dispute_status.unit, totals=totals_of(leaves), nodes=nodes)


async def computed_leaves(
    parts: Parts[RacePort],
    unit_id: bytes,
    unit: Unit,
    workload_form: WorkloadForm,
    unit_input: UnitInput,
    leaf_indices: Sequence[int],
    activity: Activity = Activity.JUDGING,
) -> list[FoundLeaf]:
    """Compute some leaves of a batch from its input. Raise UnusableInputError if no one could have answered it."""
    # Auditors and judges refuse the same inputs as racers do.
    requests = payable_requests(workload_form, unit_input, unit.terms)
    chosen_requests = [requests[leaf_index] for leaf_index in leaf_indices]
    outcomes = outcomes_of(
        workload_form, chosen_requests, await parts.workers.recompute_many(workload_form, chosen_requests, activity)
    )
    genesis, input_salt = parts.identity.genesis, unit_input.salt
    return [
        FoundLeaf(
            leaf_index, leaf_request, leaf_outcome, leaf_of(genesis, unit_id, input_salt, leaf_index, leaf_outcome)
        )
        for leaf_index, leaf_request, leaf_outcome in zip(leaf_indices, chosen_requests, outcomes, strict=True)
    ]


def proof_by(
    genesis: bytes,
    unit_id: bytes,
    leaf_check: LeafCheck,
    auditor: bytes,
    proof_salt: bytes,
    found_leaves: Sequence[FoundLeaf],
) -> bytes:
    """Return the proof with which an auditor passes, or should have passed, these leaves (see `proofs`)."""
    leaf_digests = [found_leaf.leaf.digest for found_leaf in found_leaves]
    return leaves_proof(
        genesis, unit_id, auditor, proof_salt, leaf_digests, is_shown=wrong_leaf(leaf_check, found_leaves) is None
    )


def wrong_leaf(leaf_check: LeafCheck, found_leaves: Sequence[FoundLeaf]) -> FoundLeaf | None:
    """Return the first leaf that differs from the shown one."""
    return next(
        (
            found_leaf
            for found_leaf, shown in zip(found_leaves, leaf_check.shown, strict=True)
            if found_leaf.claim != shown.claim
        ),
        None,
    )
