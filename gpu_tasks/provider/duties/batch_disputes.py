"""Disputes about batches: show this provider's tree, as far as the chain requests it.

A provider that shows nothing in time loses like a liar, so this duty precedes all less urgent ones. Invariant: the
shown nodes follow from chain, input and journal alone, so they are the same after a restart, and nothing is computed
for them.
"""

from __future__ import annotations

from enum import Enum, auto

from gpu_tasks.batches.leaves import Leaf, leaves_of
from gpu_tasks.batches.outcomes import decode_outcomes
from gpu_tasks.batches.sum_tree import batch_root, nodes_below, subtrees_of, totals_of
from gpu_tasks.market.leaf_disputes.disputes import LeafDisputeStage, side_of
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from gpu_tasks.market.leaf_disputes.leaf_disputes_api import LeafDisputeStatus
from gpu_tasks.provider.chain.port import ChainError, RacePort, View
from gpu_tasks.provider.duties.duty import Duty
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sent_steps import StepBook, StepKey, StepMessage
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.telemetry import failure
from runtime.encoding.codec import DecodeError
from runtime.frame.call import Call

TURN_BLOCKS = 4
"""The delay between providers with the same answer. The next one shows its tree only if the previous one has not, to
save fees."""


class DisputeStep(Enum):
    """The next step of a dispute."""

    SHOW = auto()


class DifferingDuty(Duty):
    """The duty to show this provider's tree in all disputes."""

    def __init__(self, parts: Parts[RacePort]) -> None:
        """This duty uses no device."""
        self.parts = parts
        self.book: StepBook[DisputeStep] = StepBook(parts)
        self.running = (self.book.tasks,)
        self._keys: set[StepKey] = set()

    async def step(self, view: View) -> None:
        """Show the requested nodes of all disputes."""
        self.book.look(view)
        # A dispute asks for nodes of several levels. Each has a deadline of its own, so it is a step of its own.
        disputes = {
            (dispute_status.unit, dispute_status.dispute.deadline): dispute_status for dispute_status in view.disputes
        }
        for key, dispute_status in disputes.items():
            # Reported once for each request, not once for each block.
            if key not in self._keys:
                self._tell_asked(dispute_status)
            if self._is_own_turn(dispute_status, view.newest) and self.book.is_due(key, DisputeStep.SHOW):
                self.book.tasks.start(key, self._show(dispute_status))
        for key in self._keys - disputes.keys():
            self.book.forget(key)
        self._keys = set(disputes)

    def _tell_asked(self, dispute_status: LeafDisputeStatus) -> None:
        """Report the request: an operator whose machine cannot answer has until the deadline to repair it."""
        leaf_dispute = dispute_status.dispute
        asked_for = (
            "upper nodes"
            if leaf_dispute.stage is LeafDisputeStage.SUBTREES
            else f"leaves of subtree {leaf_dispute.subtree}"
        )
        self.parts.telemetry.tell(
            "tree_asked", unit=dispute_status.unit, asked_for=asked_for, until_block=leaf_dispute.deadline
        )

    def _is_own_turn(self, dispute_status: LeafDisputeStatus, newest_height: int) -> bool:
        """Return True once this provider's turn among equal answers has come. Showing all at once would waste fees."""
        leaf_dispute, stash = dispute_status.dispute, self.parts.identity.stash
        side = side_of(leaf_dispute, stash)
        if side is None or side.has_shown:
            return False
        return newest_height >= leaf_dispute.deadline - leaf_dispute.window + side.accounts.index(stash) * TURN_BLOCKS

    async def _show(self, dispute_status: LeafDisputeStatus) -> None:
        unit_id, tell = dispute_status.unit, self.parts.telemetry.tell
        try:
            call = nodes_call(dispute_status, self._own_leaves(dispute_status))
            await self.book.send(StepMessage(call, "tree_shown", {"unit": unit_id}))
        except (ExecutionError, ChainError, DecodeError) as error:
            tell("tree_not_shown", unit=unit_id, **failure(error))

    def _own_leaves(self, dispute_status: LeafDisputeStatus) -> tuple[Leaf, ...]:
        side = side_of(dispute_status.dispute, self.parts.identity.stash)
        if side is None:
            raise ExecutionError("this provider is not a party of the dispute", code="not_a_party")
        return revealed_leaves(self.parts, dispute_status.unit, side.root)


def revealed_leaves(parts: Parts[RacePort], unit_id: bytes, revealed_root: bytes) -> tuple[Leaf, ...]:
    """Return the leaves of this provider's result with this root, from the journal alone.

    Raise ExecutionError if the journal has no such result.
    """
    for (entry_unit, _), entry in parts.journal.races.items():
        result = entry.result
        if entry_unit != unit_id or result is None or result.output_root != revealed_root or entry.input_salt is None:
            continue
        leaves = leaves_of(parts.identity.genesis, unit_id, entry.input_salt, decode_outcomes(result.outcomes))
        # A damaged entry must not be shown: wrong leaves count as a lie.
        if batch_root(totals_of(leaves)) != revealed_root:
            raise ExecutionError("the journal's result differs from its commitment", code="other_commitment")
        return leaves
    raise ExecutionError("the journal lacks this result", code="no_result")


def nodes_call(dispute_status: LeafDisputeStatus, leaves: tuple[Leaf, ...]) -> Call:
    """Return the call that shows the nodes of this provider's tree that a dispute requests."""
    leaf_dispute = dispute_status.dispute
    is_first = leaf_dispute.stage is LeafDisputeStage.SUBTREES
    nodes = subtrees_of(leaves) if is_first else nodes_below(leaves, leaf_dispute.subtree)
    return LeafDisputes.show_nodes(unit=dispute_status.unit, totals=totals_of(leaves), nodes=nodes)
