"""Disputes about batches: show this provider's tree, as far as the chain requests it.

A provider that shows nothing in time loses like a liar, so this duty precedes all less urgent ones. Invariant: the
shown nodes follow from chain, input and journal alone, so they are the same after a restart, and nothing is computed
for them.
"""

from __future__ import annotations

from enum import Enum, auto

from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.market.leaf_disputes.disputes import DisputeStage, side_of
from gpu_tasks.market.leaf_disputes.leaf_disputes_api import DisputeStatus
from gpu_tasks.provider.chain.port import ChainError, RacePort, View
from gpu_tasks.provider.duties.duty import Duty
from gpu_tasks.provider.duties.leaf_work import TURN_BLOCKS, nodes_call, settled_leaves
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sent_steps import StepBook, StepKey, StepMessage
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.telemetry import failure
from runtime.encoding.codec import DecodeError


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

    def _tell_asked(self, dispute_status: DisputeStatus) -> None:
        """Report the request: an operator whose machine cannot answer has until the deadline to repair it."""
        leaf_dispute = dispute_status.dispute
        asked_for = (
            "upper nodes"
            if leaf_dispute.stage is DisputeStage.SUBTREES
            else f"leaves of subtree {leaf_dispute.subtree}"
        )
        self.parts.telemetry.tell(
            "tree_asked", unit=dispute_status.unit, asked_for=asked_for, until_block=leaf_dispute.deadline
        )

    def _is_own_turn(self, dispute_status: DisputeStatus, newest_height: int) -> bool:
        """Return True once this provider's turn among equal answers has come. Showing all at once would waste fees."""
        leaf_dispute, stash = dispute_status.dispute, self.parts.identity.stash
        side = side_of(leaf_dispute, stash)
        if side is None or side.has_shown:
            return False
        return newest_height >= leaf_dispute.deadline - leaf_dispute.window + side.accounts.index(stash) * TURN_BLOCKS

    async def _show(self, dispute_status: DisputeStatus) -> None:
        unit_id, tell = dispute_status.unit, self.parts.telemetry.tell
        try:
            leaves = self._own_leaves(dispute_status)
            await self.book.send(StepMessage(nodes_call(dispute_status, leaves), "tree_shown", {"unit": unit_id}))
        except (ExecutionError, ChainError, DecodeError) as error:
            tell("tree_not_shown", unit=unit_id, **failure(error))

    def _own_leaves(self, dispute_status: DisputeStatus) -> tuple[Leaf, ...]:
        side = side_of(dispute_status.dispute, self.parts.identity.stash)
        if side is None:
            raise ExecutionError("this provider is not a party of the dispute", code="not_a_party")
        return settled_leaves(self.parts, dispute_status.unit, side.root)
