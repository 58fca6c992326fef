"""The vouchers that a customer signed for its sessions: on the disk before they are sent.

A voucher is a promise to pay, so the newest one of each period stays after a kill. A smaller one never replaces it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpu_tasks.batches.sum_tree import Totals
from wallet.outbox import OutboxFile, RecordError

_COLUMNS = "session, period, requests, tokens_in, tokens_out, top, signature"


@dataclass(frozen=True, slots=True)
class NotedVoucher:
    """A signed voucher: the totals of one period of a session so far."""

    session: bytes
    period: int
    totals: Totals
    signature: bytes


class Vouchers:
    """The newest voucher of each session and period."""

    def __init__(self, outbox: OutboxFile) -> None:
        """Use an open outbox."""
        self._outbox = outbox

    def note(self, voucher: NotedVoucher) -> None:
        """Write a voucher down before it is sent; an equal one may be noted again.

        Raise RecordError if it promises less than a noted one of its period, or if a later period has begun: two
        programs would be signing for one session.
        """
        totals = voucher.totals
        row = (
            voucher.session, voucher.period, totals.requests, totals.tokens_in, totals.tokens_out, totals.top,
            voucher.signature,
        )  # fmt: skip
        with self._outbox.transaction() as connection:
            newest = self.newest(voucher.session)
            if newest is not None and _place(voucher) < _place(newest):
                raise RecordError(
                    f"session 0x{voucher.session.hex()} has a newer voucher in {self._outbox.path}. Another program "
                    "pays in this session. Stop one of the two",
                    code="voucher_outdated",
                )
            connection.execute("INSERT OR REPLACE INTO vouchers VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def newest(self, session: bytes, period: int | None = None) -> NotedVoucher | None:
        """Return the newest voucher of a session, or of one of its periods."""
        rows = self._outbox.rows(
            f"SELECT {_COLUMNS} FROM vouchers WHERE session = ?1 AND (?2 IS NULL OR period = ?2) "  # noqa: S608
            "ORDER BY period DESC LIMIT 1",
            session, period,
        )  # fmt: skip
        for found_session, found_period, requests, tokens_in, tokens_out, top, signature in rows:
            return NotedVoucher(found_session, found_period, Totals(requests, tokens_in, tokens_out, top), signature)
        return None

    def sessions(self) -> list[bytes]:
        """Return the sessions with vouchers."""
        return [session for (session,) in self._outbox.rows("SELECT DISTINCT session FROM vouchers ORDER BY session")]

    def forget(self, session: bytes) -> None:
        """Forget a session that the chain has settled."""
        self._outbox.execute("DELETE FROM vouchers WHERE session = ?", session)


def _place(voucher: NotedVoucher) -> tuple[int, int, int, int]:
    """Return the order of vouchers in a session: periods follow each other, and totals only grow."""
    totals = voucher.totals
    return voucher.period, totals.tokens_out, totals.tokens_in, totals.requests
