"""A duty: one kind of work that the chain asks of a provider. The daemon steps through a list of them at each block."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpu_tasks.provider.chain.port import ChainError, View
from gpu_tasks.provider.duties.keyed_tasks import KeyedTasks
from gpu_tasks.provider.journal.journal import CaseKey, RaceKey
from gpu_tasks.provider.telemetry import Telemetry

ENDINGS_EVERY_BLOCKS = 4
"""The final chain, the own devices and the disk are looked at this often."""


@dataclass(frozen=True, slots=True)
class Endings:
    """What has ended since the last look."""

    races: list[RaceKey] = field(default_factory=list)
    paid: list[bytes] = field(default_factory=list)
    """The devices whose results were paid for."""
    cases: list[CaseKey] = field(default_factory=list)
    wronged: list[bytes] = field(default_factory=list)
    """The units whose verdict says that this provider's own result is wrong, or that an input is good which its own
    copy shows to be unusable, and can still be appealed."""


class Duty(ABC):
    """Always: `step` begins what a block asks for and returns soon; long work runs in `running`."""

    running: tuple[KeyedTasks, ...] = ()
    """The work beside the loop."""

    @abstractmethod
    async def step(self, view: View) -> None:
        """Begin what a block asks for. ChainError if the node cannot be asked: the next block brings it again."""

    def learn(self, ended: Endings) -> None:  # noqa: B027  # most duties have nothing to forget
        """Forget what is over; the journal says so already."""

    async def close(self) -> None:
        """Cancel the work beside the loop, and wait for it."""
        for tasks in self.running:
            await tasks.close()


@contextlib.contextmanager
def telling_refusals(telemetry: Telemetry, unit: bytes) -> Iterator[None]:
    """Report a ChainError about one unit or case, so that the others of a duty go on."""
    try:
        yield
    except ChainError as error:
        telemetry.tell("refused", unit=unit, problem=str(error))
