"""The vouchers of customers: what a session's provider may claim. Each is on the disk before more tokens are sent."""

from __future__ import annotations

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.records import VoucherEntry


class Vouchers:
    """The newest voucher of each session and period. The caller has verified the signatures."""

    def __init__(self, journal: Journal) -> None:
        """They are entries of the journal."""
        self._entries = journal.vouchers

    def note(self, session: bytes, period: int, totals: Totals, signature: bytes) -> bool:
        """Write a voucher, and return True, unless it claims no more than the newest one of its period.

        It is on the disk when this returns. Raise JournalError if it cannot be written.
        """
        earlier = self._entries.get((session, period))
        if earlier is not None and not _is_more(totals, earlier.totals):
            return False
        self._entries.put((session, period), VoucherEntry(totals, signature))
        return True

    def newest(self, session: bytes) -> tuple[int, VoucherEntry] | None:
        """Return a session's last period with a voucher, and that voucher; None without one."""
        return max(self.periods(session).items(), key=lambda item: item[0], default=None)

    def periods(self, session: bytes) -> dict[int, VoucherEntry]:
        """Return a session's vouchers by period, in ascending order."""
        return {period: self._entries[session, period] for period in sorted(self._periods(session))}

    def sessions(self) -> list[bytes]:
        """Return the sessions with vouchers, in the order of their first one."""
        return list(dict.fromkeys(session for session, _ in self._entries))

    def forget(self, session: bytes, *, until: int | None = None) -> None:
        """Remove a session's vouchers, or only those up to a period whose claim is settled."""
        gone = [period for period in self._periods(session) if until is None or period <= until]
        self._entries.remove([(session, period) for period in gone])

    def _periods(self, session: bytes) -> list[int]:
        return [period for each, period in self._entries if each == session]


def _is_more(totals: Totals, earlier: Totals) -> bool:
    """Return True if no count falls, and one grows. A request may be cut, so equal counts may have another top."""
    counts = [(each.requests, each.tokens_in, each.tokens_out) for each in (totals, earlier)]
    return counts[0] != counts[1] and all(count >= old for count, old in zip(*counts, strict=True))
