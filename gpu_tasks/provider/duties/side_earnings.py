"""Money of checks and votes, and payments for standing by, noted as each moves.

Invariant: a payment is named by its work and the paying block, so it counts once. A failed read is
repeated at the next block. Payments during the daemon's absence are not noted, except the newest ones of open checks
and votes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from gpu_tasks.provider.chain.bond_losses import Fault
from gpu_tasks.provider.chain.claim_money import ClaimMoney
from gpu_tasks.provider.chain.port import ChainError, SideMoneyPort, View
from gpu_tasks.provider.chain.side_pay import SidePayment
from gpu_tasks.provider.duties.duty import Duty
from gpu_tasks.provider.duties.losses import loss_text
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.earnings import NO_DEVICE, LostPart
from gpu_tasks.provider.telemetry import failure

CHECKING, VOTING, STANDING_BY = "checking", "voting", "standing by"
WATCHED_BLOCKS = 16
"""After this many blocks, a payment that was not found is given up."""


class SideEarnings(Duty):
    """The observer of checks, votes and runner-up places until they end."""

    def __init__(
        self,
        parts: Parts[SideMoneyPort],
        standing_by: Callable[[], Mapping[bytes, bytes]],
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Follow the open checks of the journal. `standing_by` returns the standby devices by task."""
        self._standing_by = standing_by
        self._parts = parts
        self._clock = clock_ns
        self._standing: dict[bytes, bytes] = {}
        self._since = 0
        # A check goes on after the checker's finding, without a duty in the view.
        self._checks = {claim_id for (claim_id, _), _ in parts.journal.open_findings()}
        self._votes: dict[bytes, bytes] = {}
        """The works of the disputes in which this provider votes."""
        self._read_until: int | None = None
        """The last block whose money of claims is noted; None without an open check or vote."""
        self._may_have_missed = True
        """True if a followed claim or dispute may have ended in a block that was not read."""

    async def step(self, view: View) -> None:
        """Note the money since the last view."""
        standing = self._standing_by()
        await self._look_at_claims(view)
        tasks = self._standing.keys() - standing.keys()
        # The search begins at the last view without open questions, because the ends lie after it.
        self._since = self._since if tasks else view.height
        if tasks:
            try:
                payments = await self._parts.chain.side_payments(sorted(tasks), self._since)
            except ChainError as error:
                self._parts.telemetry.tell("not_noted", **failure(error))
                payments = {}
            for task_id, side_payment in payments.items():
                self._note(STANDING_BY, "task", task_id, side_payment, self._standing[task_id])
            is_stale = view.height > self._since + WATCHED_BLOCKS
            tasks = set() if is_stale else tasks - payments.keys()
        self._standing = {**{subject: self._standing[subject] for subject in tasks}, **standing}

    async def _look_at_claims(self, view: View) -> None:
        """Note the money of checks and votes in the blocks that are final since the last look."""
        stash = self._parts.identity.stash
        for status in view.claims:
            if any(check.checker == stash for check in status.claim.checks):
                self._checks.add(status.id)
        self._votes.update((ballot.id, ballot.status.dispute.terms.work) for ballot in view.ballots)
        if not self._checks and not self._votes:
            self._read_until, self._may_have_missed = None, True
            return
        since = view.height - 1 if self._read_until is None else self._read_until
        try:
            found = await self._parts.chain.claim_money(self._checks, self._votes, since)
            self._read_until = found.until
            for money in found.moved:
                self._note_money(money)
            self._may_have_missed |= not found.is_whole
            await self._forget(found.ended)
        except ChainError as error:
            self._parts.telemetry.tell("not_noted", **failure(error))

    async def _forget(self, ended: frozenset[bytes]) -> None:
        """Forget ended claims and disputes, also those that ended in blocks that were not read."""
        gone, chain = set(ended), self._parts.chain
        if self._may_have_missed:
            gone |= {each for each in self._checks if await chain.claim(each, final=True) is None}
            gone |= {each for each in self._votes if await chain.item_dispute(each, final=True) is None}
            self._may_have_missed = False
        self._checks -= gone
        for dispute_id in gone & self._votes.keys():
            del self._votes[dispute_id]

    def _note_money(self, money: ClaimMoney) -> None:
        kind = CHECKING if money.dispute is None else VOTING
        self._note(kind, "work", money.work, SidePayment(money.block, money.earned))
        if money.lost:
            fault = Fault.CHECK if money.dispute is None else Fault.VOTE
            name, case = f"{kind} 0x{money.work.hex()} {money.block}", money.dispute
            now_ms = self._clock() // 1_000_000
            part = LostPart(
                now_ms, name, NO_DEVICE, money.lost, fault.name.lower(), money.block,
                "" if case is None else f"0x{case.hex()}",
            )  # fmt: skip
            self._parts.losses.note(part)
            self._parts.telemetry.tell(
                "lost", work=money.work, grains=money.lost, block=money.block, problem=loss_text(part)
            )

    def _note(self, kind: str, name: str, subject: bytes, side_payment: SidePayment, device_id: bytes = b"") -> None:
        """Note and report a payment of a unit or a task, if it is not zero."""
        grains = side_payment.grains
        self._parts.earnings.note(kind, subject, side_payment.block, device=device_id, service=kind, grains=grains)
        if grains:
            self._parts.telemetry.tell("paid", grains=grains, why=kind, **{name: subject})
