"""The sessions of a provider on its disk: the newest voucher of each period, and the exchanges that it pays for.

Chats are private, so they have a file of their own, and go as soon as nobody can check them any more.

Invariants:

* A voucher and the exchanges up to it are one commit, which is on the disk before the steps that follow.
* A closed period takes no voucher any more: its claim may be on its way.
* Exchanges have the totals that their voucher signs, or the file is damaged.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from durable.database import Database, Schema
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.sessions.vouchers import Voucher, session_claim_id
from gpu_tasks.sessions.provider_end import KeepVoucher
from gpu_tasks.sessions.transcript import Exchange, SessionName, StreamedForm, Transcript
from runtime.encoding.codec import DecodeError, codec
from wallet.errors import CodedError

SESSIONS_FILE = "sessions.db"
_STATEMENTS = (
    # Amounts have 128 bits and SQLite's integers 64.
    """CREATE TABLE seats (session BLOB PRIMARY KEY, device BLOB NOT NULL, service INTEGER NOT NULL, rate TEXT NOT NULL,
        input_share INTEGER NOT NULL, settlement_fee INTEGER NOT NULL, since INTEGER NOT NULL) STRICT""",
    """CREATE TABLE periods (session BLOB NOT NULL, period INTEGER NOT NULL, secret BLOB NOT NULL, totals BLOB NOT NULL,
        signature BLOB NOT NULL, is_closed INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (session, period)) STRICT""",
    """CREATE TABLE exchanges (session BLOB NOT NULL, period INTEGER NOT NULL, place INTEGER NOT NULL,
        request BLOB NOT NULL, tokens BLOB NOT NULL, PRIMARY KEY (session, period, place),
        FOREIGN KEY (session, period) REFERENCES periods ON DELETE CASCADE) STRICT""",
)
REMEDY = "Move it away. Without it, unclaimed vouchers are lost, and claims that are being checked may be refuted"
SCHEMA = Schema("transcript", 1, _STATEMENTS, REMEDY)
_TOTALS = codec(Totals)
_U32 = "I"


class SessionStoreError(CodedError):
    """The file of sessions cannot be used. The text states the remedy."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A session at this provider, as far as its money needs it once the chain has dropped it."""

    session: bytes
    device: bytes
    service: int
    rate: int
    """Grains per 1,000 output tokens."""
    input_share: int
    settlement_fee: int
    """The part of a payment that the provider does not get, in millionths."""
    since: int
    """The block in which this provider began."""


@dataclass(frozen=True, slots=True)
class KeptPeriod:
    """A period's newest voucher."""

    voucher: Voucher
    signature: bytes
    secret: bytes
    is_closed: bool


class SessionStore:
    """The open file."""

    def __init__(self, path: Path, *, is_reader: bool = False) -> None:
        """Open the file, or create it. It raises the errors of `Database`, as SessionStoreError."""
        self._database = Database(path, SCHEMA, SessionStoreError, is_sole=not is_reader, is_reader=is_reader)

    def close(self) -> None:
        """Release the file."""
        self._database.close()

    # ------------------------------------------------------------------------------------------------------- sessions

    def seat(self, seat: Seat) -> bool:
        """Note a session, unless it is noted. Return True if it is a new one."""
        values = (seat.session, seat.device, seat.service, str(seat.rate), seat.input_share, seat.settlement_fee)
        return bool(
            self._database.execute("INSERT OR IGNORE INTO seats VALUES (?, ?, ?, ?, ?, ?, ?)", *values, seat.since)
        )

    def seats(self) -> list[Seat]:
        """Return the noted sessions, in their order."""
        rows = self._database.rows("SELECT * FROM seats ORDER BY rowid")
        return [Seat(session, device, service, int(rate), *rest) for session, device, service, rate, *rest in rows]

    def forget_session(self, session: bytes) -> None:
        """Delete a session with all its periods."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM periods WHERE session = ?", (session,))
            connection.execute("DELETE FROM seats WHERE session = ?", (session,))

    # -------------------------------------------------------------------------------------------------------- periods

    def keep(self, transcript: Transcript, kept: KeepVoucher) -> None:
        """Write the newest voucher of a period, with the last exchange that it pays for.

        Each earlier exchange is there: a request is taken once a voucher has paid for all answers before it.
        """
        voucher = kept.voucher
        requests, totals = voucher.totals.requests, _TOTALS.encode(voucher.totals)
        before = sum(len(exchange.tokens) for exchange in transcript.exchanges[: requests - 1])
        exchange = transcript.exchanges[requests - 1]
        tokens = exchange.tokens[: voucher.totals.tokens_out - before]
        with self._database.transaction() as connection:
            changed = connection.execute(
                "INSERT INTO periods (session, period, secret, totals, signature) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET totals = excluded.totals, signature = excluded.signature "
                "WHERE NOT is_closed AND secret = excluded.secret",
                (voucher.session, voucher.period, transcript.name.secret, totals, kept.signature),
            ).rowcount
            assert changed, "a closed period takes no voucher, and a period has one secret"
            connection.execute(
                "INSERT INTO exchanges VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET tokens = excluded.tokens",
                (voucher.session, voucher.period, requests - 1, exchange.request, _token_bytes(tokens)),
            )

    def close_period(self, session: bytes, period: int) -> None:
        """Note that a period takes no voucher any more."""
        self._database.execute("UPDATE periods SET is_closed = 1 WHERE session = ? AND period = ?", session, period)

    def periods(self, session: bytes) -> list[KeptPeriod]:
        """Return the newest voucher of each kept period, in ascending order."""
        rows = self._database.rows(
            "SELECT period, secret, totals, signature, is_closed FROM periods WHERE session = ? ORDER BY period",
            session,
        )
        try:
            return [
                KeptPeriod(Voucher(session, period, _TOTALS.decode(totals)), signature, secret, bool(is_closed))
                for period, secret, totals, signature, is_closed in rows
            ]
        except DecodeError as error:
            raise self._damaged(str(error)) from error

    def period(self, session: bytes, period: int) -> KeptPeriod | None:
        """Return the newest voucher of a period, or None."""
        return next((kept for kept in self.periods(session) if kept.voucher.period == period), None)

    def transcript(self, genesis: bytes, kept: KeptPeriod, form: StreamedForm) -> Transcript:
        """Return the exchanges up to a period's voucher. Raise SessionStoreError for others than it signs."""
        session, period = kept.voucher.session, kept.voucher.period
        rows = self._database.rows(
            "SELECT request, tokens FROM exchanges WHERE session = ? AND period = ? ORDER BY place", session, period
        )
        exchanges = [Exchange(request, _tokens(tokens), is_over=True) for request, tokens in rows]
        name = SessionName(genesis, session_claim_id(session, period), kept.secret)
        transcript = Transcript(name, form, exchanges)
        try:
            is_whole = bool(exchanges) and transcript.totals() == kept.voucher.totals
        except DecodeError:
            is_whole = False
        if not is_whole:
            raise self._damaged(f"period {period} of session 0x{session.hex()}")
        return transcript

    def forget_period(self, session: bytes, period: int) -> None:
        """Delete a period whose claim nobody can check any more."""
        self._database.execute("DELETE FROM periods WHERE session = ? AND period = ?", session, period)

    def _damaged(self, reason: str) -> SessionStoreError:
        text = f"{self._database.path} is damaged ({reason}). {REMEDY}"
        return SessionStoreError(text, code="transcript_damaged")


def _token_bytes(tokens: Sequence[int]) -> bytes:
    numbers = array(_U32, tokens)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _tokens(data: bytes) -> list[int]:
    numbers = array(_U32, data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
