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
        keys = {(status.unit, status.dispute.deadline): status for status in view.disputes}
        for key, status in keys.items():
            # Reported once for each request, not once for each block.
            if key not in self._keys:
                self._tell_asked(status)
            if self._is_own_turn(status, view.newest) and self.book.is_due(key, DisputeStep.SHOW):
                self.book.tasks.start(key, self._show(status))
        for key in self._keys - keys.keys():
            self.book.forget(key)
        self._keys = set(keys)

    def _tell_asked(self, status: DisputeStatus) -> None:
        """Report the request: an operator whose machine cannot answer has until the deadline to repair it."""
        dispute = status.dispute
        asked_for = "upper nodes" if dispute.stage is DisputeStage.SUBTREES else f"leaves of subtree {dispute.subtree}"
        self.parts.telemetry.tell("tree_asked", unit=status.unit, asked_for=asked_for, until_block=dispute.deadline)

    def _is_own_turn(self, status: DisputeStatus, newest: int) -> bool:
        """Return True once this provider's turn among equal answers has come. Showing all at once would waste fees."""
        dispute, stash = status.dispute, self.parts.identity.stash
        side = side_of(dispute, stash)
        if side is None or side.has_shown:
            return False
        return newest >= dispute.deadline - dispute.window + side.accounts.index(stash) * TURN_BLOCKS

    async def _show(self, status: DisputeStatus) -> None:
        unit, tell = status.unit, self.parts.telemetry.tell
        try:
            leaves = self._own_leaves(status)
            await self.book.send(StepMessage(nodes_call(status, leaves), "tree_shown", {"unit": unit}))
        except (ExecutionError, ChainError, DecodeError) as error:
            tell("tree_not_shown", unit=unit, **failure(error))

    def _own_leaves(self, status: DisputeStatus) -> tuple[Leaf, ...]:
        side = side_of(status.dispute, self.parts.identity.stash)
        if side is None:
            raise ExecutionError("this provider is not a party of the dispute", code="not_a_party")
        return settled_leaves(self.parts, status.unit, side.root)
