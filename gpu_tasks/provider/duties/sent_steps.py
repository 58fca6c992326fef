"""A duty's book of steps that the world sees: journal first, then the node, and again until the chain shows it.

Always: what `send` hands to the node was written down before, where the journal has a record of it; the same step goes
out again only after `RESEND_BLOCKS`; a duty that has ended is in the book no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from gpu_tasks.market.attestations.kinds import AnyAttestation
from gpu_tasks.provider.chain.port import SendPort, View
from gpu_tasks.provider.duties.keyed_tasks import KeyedTasks
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.telemetry import Detail
from runtime.frame.call import Call

RESEND_BLOCKS = 3
"""A step that the chain does not show this many blocks after the newest of when it was sent is taken again."""

StepKey = tuple[bytes, int]
S = TypeVar("S", bound=Enum)


@dataclass(frozen=True, slots=True)
class StepMessage:
    """A step as the world sees it, what the journal says before, and what telemetry says after."""

    content: Call | AnyAttestation
    event: str
    details: Mapping[str, Detail] = field(default_factory=dict)
    intent: Callable[[], None] = lambda: None
    """Writes the step into the journal."""


class StepBook(Generic[S]):
    """What was sent for each duty, when, and the long work that runs for it."""

    def __init__(self, parts: Parts[SendPort]) -> None:
        """Nothing was sent by this process."""
        self._parts = parts
        self._sent_at: dict[StepKey, dict[S, int]] = {}
        self.tasks = KeyedTasks()
        self.height = 0
        self.newest = 0

    def look(self, view: View) -> None:
        """From now on it is as late as this view says."""
        self.height, self.newest = view.height, view.newest

    def is_due(self, key: StepKey, step: S, *, was_sent: bool = False) -> bool:
        """Whether to take a step at this height: at once, or again; then it counts as taken."""
        sent_at = self._sent_at.setdefault(key, {})
        # What an earlier process sent may still be on its way: a second copy would only cost a fee.
        if step not in sent_at and was_sent:
            sent_at[step] = self.newest
            return False
        if step in sent_at and self.height < sent_at[step] + RESEND_BLOCKS:
            return False
        sent_at[step] = self.newest
        return True

    def note_sent(self, key: StepKey, step: S) -> None:
        """A step that took long to prepare was sent now: it is repeated by that, not by when the work on it began."""
        self._sent_at.setdefault(key, {})[step] = self.newest

    async def send(self, message: StepMessage) -> None:
        """Write down what is about to happen, and hand it to the node; ChainError if it does not take it."""
        message.intent()
        if isinstance(message.content, Call):
            await self._parts.chain.submit(message.content)
        else:
            await self._parts.chain.attest(message.content)
        self._parts.telemetry.tell(message.event, **message.details)

    def forget(self, key: StepKey) -> None:
        """A duty has ended: nothing is sent for it any more, and work on it stops, which frees its device."""
        self._sent_at.pop(key, None)
        self.tasks.cancel(key)
