"""Checks of batches: show this provider's leaves, and as an auditor compute, and pass or doubt, those of others.

Invariant: every message follows from chain, input and journal alone, so it is the same after a restart. An auditor
without the input sends nothing, which costs a fee at most. A provider whose leaf is refuted appeals by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from enum import Enum, auto

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.market.leaf_checks.checks import LeafStage, ShownLeaf
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_checks.leaf_checks_api import CheckStatus
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.blobs.kept_inputs import InputUse
from gpu_tasks.provider.chain.port import ChainError, UnitCasePort, View
from gpu_tasks.provider.duties.appeals import is_found_lying
from gpu_tasks.provider.duties.duty import Duty
from gpu_tasks.provider.duties.leaf_work import (
    TURN_BLOCKS,
    computed_leaves,
    proof_by,
    settled_leaves,
    showing_call,
    wrong_leaf,
)
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sent_steps import StepBook, StepKey, StepMessage
from gpu_tasks.provider.execution.device_times import Activity
from gpu_tasks.provider.execution.executor import BadRequestError, ExecutionError
from gpu_tasks.provider.telemetry import failure
from runtime.encoding.codec import DecodeError

FETCHED_AT_ONCE = 16
"""Inputs of audits fetched at once. Stores that do not answer block only these."""
OPENED_AT_ONCE = 4
"""Audits with their inputs in memory, up to 16 MiB each, computing or waiting for a device."""


class CheckStep(Enum):
    """The next step of a check."""

    SHOW = auto()
    SAY = auto()
    APPEAL = auto()
    """The verdict refutes this provider's own computation."""


@dataclass(frozen=True, slots=True)
class FoundByAudit:
    """An auditor's finding about the shown leaves."""

    shown: tuple[ShownLeaf, ...]
    message: StepMessage


class CheckDuty(Duty):
    """The steps of all checks."""

    def __init__(self, parts: Parts[UnitCasePort]) -> None:
        """It computes on any free device. Races go first."""
        self.parts = parts
        self.book: StepBook[CheckStep] = StepBook(parts)
        # separate books: hundreds of audits that wait for a device must not delay showing this provider's leaves
        self.audits: StepBook[CheckStep] = StepBook(parts)
        self.running = self.book.tasks, self.audits.tasks
        self._fetching = asyncio.Semaphore(FETCHED_AT_ONCE)
        self._opened = asyncio.Semaphore(OPENED_AT_ONCE)
        self._found: dict[StepKey, FoundByAudit] = {}
        self._keys: set[StepKey] = set()

    async def step(self, view: View) -> None:
        """Take the due steps of all checks."""
        for book in self.books:
            book.look(view)
        checks = {_key_of(check_status): check_status for check_status in view.checks}
        for key, check_status in checks.items():
            check_step = self._next(check_status, view.newest)
            book = self.audits if check_step is CheckStep.SAY else self.book
            if check_step is not None and book.is_due(key, check_step):
                book.tasks.start(key, self._work(check_step, check_status))
        for key in self._keys - checks.keys():
            self._found.pop(key, None)
            for book in self.books:
                book.forget(key)
        self._keys = set(checks)

    @property
    def books(self) -> tuple[StepBook[CheckStep], ...]:
        """Both books."""
        return self.book, self.audits

    def _next(self, check_status: CheckStatus, newest_height: int) -> CheckStep | None:
        leaf_check = check_status.check
        if leaf_check.stage is LeafStage.SHOWING:
            return CheckStep.SHOW if self._is_own_turn(check_status, newest_height) else None
        if leaf_check.stage is LeafStage.CHECKING:
            return CheckStep.SAY if leaf_check.auditor == self.parts.identity.stash else None
        return CheckStep.APPEAL if leaf_check.case is not None else None

    def _work(self, check_step: CheckStep, check_status: CheckStatus) -> Coroutine[None, None, None]:
        work_by_step = {CheckStep.SHOW: self._show, CheckStep.SAY: self._audit, CheckStep.APPEAL: self._appeal}
        return work_by_step[check_step](check_status)

    def _is_own_turn(self, check_status: CheckStatus, newest_height: int) -> bool:
        leaf_check, stash = check_status.check, self.parts.identity.stash
        place = [answerer.account for answerer in leaf_check.terms.answerers].index(stash)
        return newest_height >= leaf_check.deadline - leaf_check.windows.show + place * TURN_BLOCKS

    async def _show(self, check_status: CheckStatus) -> None:
        """Show the leaves of the settled result from the journal. Nothing is computed again."""
        unit_id, tell = check_status.unit, self.parts.telemetry.tell
        try:
            leaves = settled_leaves(self.parts, unit_id, check_status.check.terms.output_root)
            await self.book.send(StepMessage(showing_call(check_status, leaves), "leaves_shown", {"unit": unit_id}))
        except (ExecutionError, ChainError, DecodeError) as error:
            tell("leaves_not_shown", unit=unit_id, **failure(error))

    async def _audit(self, check_status: CheckStatus) -> None:
        """Send the finding. An existing finding about these leaves is sent again, not computed again."""
        key = _key_of(check_status)
        try:
            finding = self._found.get(key)
            # A reverted block may have shown other leaves, so the finding is valid for these leaves only.
            if finding is None or finding.shown != check_status.check.shown:
                finding = FoundByAudit(check_status.check.shown, await self._looked_at(check_status))
                self._found[key] = finding
            await self.audits.send(finding.message)
            # The computation may take many blocks. Without this, the answer would be repeated at the next one.
            self.audits.note_sent(key, CheckStep.SAY)
        except (BlobError, ExecutionError, ChainError, UnusableInputError, BadRequestError) as error:
            self.parts.telemetry.tell("leaves_not_computed", unit=check_status.unit, **failure(error))

    async def _looked_at(self, check_status: CheckStatus) -> StepMessage:
        """Compute the shown leaves. Doubt the first that differs, or pass."""
        unit_id, leaf_check, identity = check_status.unit, check_status.check, self.parts.identity
        unit = await self._posted(unit_id)
        workload_form = await self.parts.form_of(unit)
        async with self._fetching:  # fetched onto the disk only; opened again when a device is free
            await self.parts.inputs.open(unit_id, unit, InputUse.LOOKED_AT)
        async with self._opened:
            unit_input = await self.parts.inputs.open(unit_id, unit, InputUse.LOOKED_AT)
            leaf_indices = [leaf.index for leaf in leaf_check.shown]
            leaves = await computed_leaves(
                self.parts, unit_id, unit, workload_form, unit_input, leaf_indices, Activity.AUDITS
            )
        wrong = wrong_leaf(leaf_check, leaves)
        if wrong is None:
            proof = proof_by(identity.genesis, unit_id, leaf_check, identity.stash, unit_input.salt, leaves)
            return StepMessage(LeafChecks.pass_leaves(unit=unit_id, proof=proof), "leaves_passed", {"unit": unit_id})
        call = LeafChecks.doubt_leaf(unit=unit_id, index=wrong.index, found=wrong.claim)
        return StepMessage(call, "leaf_doubted", {"unit": unit_id, "leaf": wrong.index})

    async def _appeal(self, check_status: CheckStatus) -> None:
        unit_id, case_id = check_status.unit, check_status.check.case
        try:
            court_case = None if case_id is None else await self.parts.chain.case(case_id)
            if case_id is not None and court_case is not None and is_found_lying(court_case, self.parts.identity.stash):
                await self.book.send(StepMessage(Courts.appeal(case_id=case_id), "appealed", {"unit": unit_id}))
        except ChainError as error:
            self.parts.telemetry.tell("refused", unit=unit_id, **failure(error))

    async def _posted(self, unit_id: bytes) -> Unit:
        """Return the unit in the final chain, so that no other input is judged."""
        unit_status = await self.parts.chain.final_unit(unit_id)
        # Judged by a unit that is not final, the leaves could be those of another input.
        if unit_status is None:
            raise ChainError("the final chain does not have the unit yet", code="unit_not_final")
        return unit_status.unit


def _key_of(check_status: CheckStatus) -> StepKey:
    """Return the key of a check. Each further auditor makes it a new duty."""
    return check_status.unit, len(check_status.check.drawn)
