"""Statements of checkers and voters: found, committed, and opened once the commitment is final.

Invariants:

* A statement and its salt are in the journal before its commitment is sent, so a restart sends the same one.
* No statement is opened before its commitment is in the final chain: others could copy it, or a node could claim that
  openings are due.
* Only data that another provider withholds makes a statement "unavailable". A machine that is slow or cannot tell
  stays silent, which costs a fee at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Generic, TypeVar

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.claim_delivery import DeliveryError
from gpu_tasks.provider.chain.port import ChainError, ClaimPort, View
from gpu_tasks.provider.duties.duty import ENDINGS_EVERY_BLOCKS, Duty
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sent_steps import StepBook, StepKey, StepMessage
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.journal.records import FindingEntry, VoteEntry
from gpu_tasks.provider.journal.table import JournalTable
from gpu_tasks.provider.telemetry import Detail, failure
from runtime.frame.call import Call

GIVE_UP_BLOCKS = 6
"""This many blocks before commitments close, withheld data count as unavailable."""
OPENED_AT_ONCE = 8
"""Deliveries in memory, up to 34 MiB each with their parts, fetched, computed or waiting for a device."""

T = TypeVar("T")


class ClaimStep(Enum):
    """A step in a claim or a dispute."""

    COMMIT = auto()
    OPEN = auto()
    SHOW = auto()
    APPEAL = auto()


@dataclass(frozen=True, slots=True)
class StatementTurn:
    """The turn of a checker or a voter, as the chain has it."""

    key: StepKey
    """The journal's key."""
    commitment: bytes | None
    may_commit: bool
    may_open: bool
    deadline: int
    """The last block for a commitment; 0 while its window has not begun."""
    window: int
    """The blocks of that window."""

    @property
    def subject(self) -> dict[str, Detail]:
        """Telemetry's fields."""
        return {"claim": self.key[0], "number": self.key[1]}

    def must_give_up(self, newest: int) -> bool:
        """Return True if withheld data must be called unavailable now, before the window is over."""
        return 0 < self.deadline <= newest + min(GIVE_UP_BLOCKS, self.window // 2)


TurnT = TypeVar("TurnT", bound=StatementTurn)
EntryT = TypeVar("EntryT", FindingEntry, VoteEntry)


class StatementDuty(Duty, Generic[TurnT, T, EntryT]):
    """The turns of checkers or of voters."""

    entries: JournalTable[StepKey, EntryT]

    def __init__(self, parts: Parts[ClaimPort]) -> None:
        """It computes on any free device. Races go first (`execution.line`)."""
        self.parts = parts
        self.book: StepBook[ClaimStep] = StepBook(parts)
        self.searches: StepBook[ClaimStep] = StepBook(parts)
        """Apart from other steps, so that hundreds of computations delay none of them."""
        self.running = self.book.tasks, self.searches.tasks
        self._opened = asyncio.Semaphore(OPENED_AT_ONCE)
        self._keys: set[StepKey] = set()
        self._withheld: set[StepKey] = set()
        """The turns that wait for data of others, or did not get it at the last attempt."""

    @abstractmethod
    async def _found(self, turn: TurnT) -> T:
        """Return the right statement.

        Raise BlobError or DeliveryError for withheld data, or ExecutionError or ChainError if this machine cannot tell.
        """

    @contextlib.contextmanager
    def _fetching(self, turn: TurnT) -> Iterator[None]:
        """Count the data of others as withheld until the body has it.

        A store that drips until the window is over must not keep this provider silent.
        """
        self._withheld.add(turn.key)
        yield
        self._withheld.discard(turn.key)

    @abstractmethod
    def _cannot_fetch(self, turn: TurnT) -> T:
        """Return the statement about withheld data."""

    @abstractmethod
    def _entry(self, statement: T, salt: bytes) -> EntryT:
        """Return the journal's entry of a statement."""

    @abstractmethod
    def _commitment(self, turn: TurnT, entry: EntryT) -> bytes:
        """Return the commitment to a statement."""

    @abstractmethod
    def _call(self, turn: TurnT, step: ClaimStep, entry: EntryT) -> Call:
        """Return the call that commits to a statement, or opens it."""

    @abstractmethod
    async def _final_commitment(self, turn: TurnT) -> bytes | None:
        """Return this provider's commitment in the final chain."""

    @abstractmethod
    async def _is_over(self, subject: bytes) -> bool:
        """Return True if the final chain has dropped the claim or dispute."""

    def begin_step(self, view: View) -> None:
        """Take the heights of a view as the present."""
        self.book.look(view)
        self.searches.look(view)

    async def end_step(self, keys: set[StepKey], view: View) -> None:
        """Forget the turns that are not among `keys`, and note from time to time those that are over for good."""
        for key in self._keys - keys:
            self.forget(key)
        self._keys = keys
        if view.height % ENDINGS_EVERY_BLOCKS == 0:
            for key in [key for key, entry in self.entries.items() if not entry.is_over]:
                if await self._is_over(key[0]):
                    self.entries.change(key, is_over=True)

    async def take(self, turn: TurnT, newest: int) -> None:
        """Take the due step of a turn."""
        entry = self.entries.get(turn.key)
        if turn.commitment is not None:
            # Without the journal's entry the salt is lost, and no opening could match the commitment.
            if entry is not None and turn.may_open and await self._is_final(turn, entry):
                await self._send(turn, ClaimStep.OPEN, entry)
            return
        if not turn.may_commit:
            return
        if entry is None and not (turn.key in self._withheld and turn.must_give_up(newest)):
            self.searches.tasks.start(turn.key, self._search(turn))
            return
        if entry is None:
            # The search still waits for the provider. Its late result must not contradict the statement sent now.
            self.searches.tasks.cancel(turn.key)
            entry = self._keep(turn, self._cannot_fetch(turn))
        await self._send(turn, ClaimStep.COMMIT, entry)

    def forget(self, key: StepKey) -> None:
        """Forget a turn that is over, and stop its search."""
        self.book.forget(key)
        self.searches.forget(key)
        self._withheld.discard(key)

    async def _search(self, turn: TurnT) -> None:
        tell = self.parts.telemetry.tell
        try:
            async with self._opened:
                statement = await self._found(turn)
            await self._send(turn, ClaimStep.COMMIT, self._keep(turn, statement))
        except (BlobError, DeliveryError) as error:
            tell("claim_not_delivered", **turn.subject, **failure(error))
        except (ExecutionError, ChainError) as error:
            self._withheld.discard(turn.key)
            tell("claim_not_computed", **turn.subject, **failure(error))

    def _keep(self, turn: TurnT, statement: T) -> EntryT:
        """Write a statement to the journal before any other party learns of it."""
        assert turn.key not in self.entries, "nothing is stated twice"
        entry = self._entry(statement, os.urandom(32))
        self.entries.put(turn.key, entry)
        return entry

    async def _is_final(self, turn: TurnT, entry: EntryT) -> bool:
        is_final = await self._final_commitment(turn) == self._commitment(turn, entry)
        if not is_final:
            problem = "the final chain does not have the statement's commitment"
            self.parts.telemetry.tell("not_final", **turn.subject, problem=problem)
        return is_final

    async def _send(self, turn: TurnT, step: ClaimStep, entry: EntryT) -> None:
        if self.book.is_due(turn.key, step):
            event = {ClaimStep.COMMIT: "statement_commit", ClaimStep.OPEN: "statement_reveal"}[step]
            await self.book.send(StepMessage(self._call(turn, step, entry), event, turn.subject))
