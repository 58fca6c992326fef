"""Payments for judging, auditing and standing by, noted among the earnings as each ends.

Invariant: a payment is named by its case, batch or task and the paying block, so it counts once. A failed read is
repeated at the next block. Ends during the daemon's absence are not noted, except for audited batches with a check that
still runs at its return, for which the chain lists the holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpu_tasks.provider.chain.port import ChainError, SidePayPort, View
from gpu_tasks.provider.chain.side_pay import SidePayment
from gpu_tasks.provider.duties.duty import Duty
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.telemetry import failure

JUDGING, AUDITING, STANDING_BY = "judging", "auditing", "standing by"
WATCHED_BLOCKS = 16
"""After this many blocks, a payment that was not found is given up."""


class SideEarnings(Duty):
    """The observer of seats, audits and runner-up places until they end."""

    def __init__(self, parts: Parts[SidePayPort], standing_by: Callable[[], Mapping[bytes, bytes]]) -> None:
        """Nothing is followed yet. `standing_by` returns the standby devices by task."""
        self._standing_by = standing_by
        self._parts = parts
        self._seats: set[bytes] = set()
        self._standing: dict[bytes, bytes] = {}
        self._since = 0
        self._audits: dict[bytes, int] = {}
        """The audited batches, each with the last block at which its check was known to run."""
        self._knows_audits = False

    async def step(self, view: View) -> None:
        """Note the ends since the last view."""
        standing = self._standing_by()
        await self._look_at_audits(view)
        seat_ids = {judge_seat.id for judge_seat in view.seats}
        cases, tasks = self._seats - seat_ids, self._standing.keys() - standing.keys()
        # The search begins at the last view without open questions, because the ends lie after it.
        self._since = self._since if cases or tasks else view.height
        if cases or tasks:
            try:
                payments = await self._parts.chain.side_payments(sorted(cases), sorted(tasks), self._since)
            except ChainError as error:
                self._parts.telemetry.tell("not_noted", **failure(error))
                payments = {}
            for subject, side_payment in payments.items():
                if subject in cases:
                    self._note(JUDGING, "case", subject, side_payment)
                else:
                    self._note(STANDING_BY, "task", subject, side_payment, self._standing[subject])
            is_stale = view.height > self._since + WATCHED_BLOCKS
            cases = set() if is_stale else cases - payments.keys()
            tasks = set() if is_stale else tasks - payments.keys()
        self._seats = seat_ids | cases
        self._standing = {**{subject: self._standing[subject] for subject in tasks}, **standing}

    async def _look_at_audits(self, view: View) -> None:
        """Note payments of ended checks. A check goes on after the auditor's answer, without a duty in the view."""
        stash = self._parts.identity.stash
        self._audits.update((each.unit, view.height) for each in view.checks if each.check.auditor == stash)
        try:
            # After a restart the chain lists the audits, as no view has them after the auditor's answer.
            if not self._knows_audits:
                self._audits.update(dict.fromkeys(await self._parts.chain.audited(), view.height))
                self._knows_audits = True
            if not self._audits:
                return
            payments = await self._parts.chain.audit_payments(sorted(self._audits), min(self._audits.values()))
        except ChainError as error:
            self._parts.telemetry.tell("not_noted", **failure(error))
            return
        for unit_id, side_payment in payments.items():
            if side_payment is None:
                self._audits[unit_id] = view.height
            else:
                self._note(AUDITING, "unit", unit_id, side_payment)
                del self._audits[unit_id]
        stale_units = [unit_id for unit_id, seen_at in self._audits.items() if view.height > seen_at + WATCHED_BLOCKS]
        for unit_id in stale_units:
            del self._audits[unit_id]

    def _note(self, kind: str, name: str, subject: bytes, side_payment: SidePayment, device_id: bytes = b"") -> None:
        """Note and report a payment of a case, a batch or a task, if it is not zero."""
        grains = side_payment.grains
        self._parts.earnings.note(kind, subject, side_payment.block, device=device_id, service=kind, grains=grains)
        if grains:
            self._parts.telemetry.tell("paid", grains=grains, why=kind, **{name: subject})
