"""A duty: one kind of work for the chain. The daemon steps through a list of duties at each block."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpu_tasks.provider.chain.port import ChainError, View
from gpu_tasks.provider.duties.keyed_tasks import KeyedTasks
from gpu_tasks.provider.journal.journal import RaceKey
from gpu_tasks.provider.telemetry import Telemetry, failure

ENDINGS_EVERY_BLOCKS = 4
"""The interval of looking at the final chain, this provider's devices and the disk."""


@dataclass(frozen=True, slots=True)
class Endings:
    """The endings since the last look."""

    races: list[RaceKey] = field(default_factory=list)
    paid: list[bytes] = field(default_factory=list)
    """The devices whose results were paid."""


class Duty(ABC):
    """The base of duties. Invariant: `step` starts the work of a block and returns soon.

    Long work runs in `running`.
    """

    running: tuple[KeyedTasks, ...] = ()
    """The work beside the loop."""

    @abstractmethod
    async def step(self, view: View) -> None:
        """Start the work of a block. Raise ChainError if the node does not answer; the next block tries again."""

    def learn(self, ended: Endings) -> None:  # noqa: B027 # most duties have nothing to forget
        """Forget ended races, which the journal already notes as over."""

    async def close(self) -> None:
        """Cancel the work beside the loop, and wait for it."""
        for tasks in self.running:
            await tasks.close()


@contextlib.contextmanager
def telling_refusals(telemetry: Telemetry, unit_id: bytes) -> Iterator[None]:
    """Report a ChainError about one unit or claim, so that a duty's others continue."""
    try:
        yield
    except ChainError as refusal:
        telemetry.tell("refused", unit=unit_id, **failure(refusal))
