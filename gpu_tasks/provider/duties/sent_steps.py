"""A duty's publicly visible steps: written to the journal first, then sent, and repeated until the chain shows them.

Invariants:

* `send` writes a step to the journal before it reaches the node, where the journal has a record for it.
* A step is repeated only after `RESEND_BLOCKS`.
* The book forgets ended duties.
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
"""A step that the chain does not show this many blocks after the newest block at its sending is sent again."""

StepKey = tuple[bytes, int]
S = TypeVar("S", bound=Enum)


@dataclass(frozen=True, slots=True)
class StepMessage:
    """A publicly visible step, its journal entry before, and its telemetry event after."""

    content: Call | AnyAttestation
    event: str
    details: Mapping[str, Detail] = field(default_factory=dict)
    intent: Callable[[], None] = lambda: None
    """The function that writes the step into the journal."""


class StepBook(Generic[S]):
    """The sent steps of each duty with their heights, and its long work."""

    def __init__(self, parts: Parts[SendPort]) -> None:
        """This process has sent nothing."""
        self._parts = parts
        self._sent_at: dict[StepKey, dict[S, int]] = {}
        self.tasks = KeyedTasks()
        self.height = 0
        self.newest = 0

    def look(self, view: View) -> None:
        """Take the heights of this view as the present."""
        self.height, self.newest = view.height, view.newest

    def is_due(self, step_key: StepKey, step: S, *, was_sent: bool = False) -> bool:
        """Return True if a step must be sent or repeated at this height. It then counts as sent."""
        sent = self._sent_at.setdefault(step_key, {})
        # An earlier process's message may still be in transit, and a second copy would only cost a fee.
        if step not in sent and was_sent:
            sent[step] = self.newest
            return False
        # Compared with the newest height at sending: a message cannot be in an earlier block.
        if step in sent and self.height < sent[step] + RESEND_BLOCKS:
            return False
        sent[step] = self.newest
        return True

    def note_sent(self, step_key: StepKey, step: S) -> None:
        """Note the present height for a step that took long to prepare, so that its repetition counts from now."""
        self._sent_at.setdefault(step_key, {})[step] = self.newest

    async def send(self, message: StepMessage) -> None:
        """Write the intent to the journal and send the message. Raise ChainError if the node refuses it."""
        message.intent()
        if isinstance(message.content, Call):
            await self._parts.chain.submit(message.content)
        else:
            await self._parts.chain.attest(message.content)
        self._parts.telemetry.tell(message.event, **message.details)

    def forget(self, key: StepKey) -> None:
        """Forget an ended duty and stop its work, which frees its device."""
        self._sent_at.pop(key, None)
        self.tasks.cancel(key)
