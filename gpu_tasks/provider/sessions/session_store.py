"""The sessions of a provider on its disk: the newest voucher of each period, and the exchanges that it pays for.

Chats are private, so they go as soon as nobody can check them any more.

Invariants:

* A voucher and the exchanges up to it are one commit, which is on the disk before the steps that follow.
* A closed period takes no voucher any more: its claim may be on its way.
* Exchanges have the totals that their voucher signs, or the journal is damaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from durable.database import Database
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.sessions.records import SPARE_PERIOD
from gpu_tasks.market.sessions.vouchers import Voucher, session_claim_id
from gpu_tasks.provider.journal.schema import damaged
from gpu_tasks.sessions.provider_end import KeepVoucher
from gpu_tasks.sessions.transcript import (
    Exchange,
    SessionName,
    StreamedForm,
    Transcript,
    packed_tokens,
    unpacked_tokens,
)
from runtime.encoding.codec import DecodeError, codec

_TOTALS = codec(Totals)


@dataclass(frozen=True, slots=True)
class SessionNote:
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


class PeriodState(IntEnum):
    """The state of a period."""

    OPEN = 0
    """It takes vouchers."""
    CLOSED = 1
    """Its claim may be on its way."""
    CLAIMED = 2
    """The chain has, or had, its claim."""


@dataclass(frozen=True, slots=True)
class KeptPeriod:
    """A period's newest voucher."""

    voucher: Voucher
    signature: bytes
    secret: bytes
    state: PeriodState

    @property
    def is_closed(self) -> bool:
        """True if the period takes no voucher any more."""
        return self.state is not PeriodState.OPEN


class SessionStore:
    """The sessions of a journal's database. Each method may raise JournalError."""

    def __init__(self, database: Database) -> None:
        """They are tables of the journal."""
        self._database = database

    # ------------------------------------------------------------------------------------------------------- sessions

    def note(self, note: SessionNote) -> bool:
        """Note a session, or that its spare serves it now. Return True if that is new."""
        values = (note.session, note.device, note.service, str(note.rate), note.input_share, note.settlement_fee)
        return bool(
            self._database.execute(
                "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET since = excluded.since WHERE since < excluded.since",
                *values,
                note.since,
            )
        )

    def noted(self) -> list[SessionNote]:
        """Return the noted sessions, in their order."""
        rows = self._database.rows(
            "SELECT session, device, service, rate, input_share, settlement_fee, since FROM sessions ORDER BY rowid"
        )
        return [
            SessionNote(session, device, service, int(rate), *rest) for session, device, service, rate, *rest in rows
        ]

    def forget_session(self, session: bytes) -> None:
        """Delete a session with all its periods."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM periods WHERE session = ?", (session,))
            connection.execute("DELETE FROM sessions WHERE session = ?", (session,))

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
                "WHERE state = 0 AND secret = excluded.secret",
                (voucher.session, voucher.period, transcript.name.secret, totals, kept.signature),
            ).rowcount
            assert changed, "a closed period takes no voucher, and a period has one secret"
            connection.execute(
                "INSERT INTO exchanges VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET tokens = excluded.tokens",
                (voucher.session, voucher.period, requests - 1, exchange.request, packed_tokens(tokens)),
            )

    def close_period(self, session: bytes, period: int) -> None:
        """Note that a period takes no voucher any more."""
        self._advance(session, period, PeriodState.CLOSED)

    def note_claimed(self, session: bytes, period: int) -> None:
        """Note that the chain has the claim of a period."""
        self._advance(session, period, PeriodState.CLAIMED)

    def _advance(self, session: bytes, period: int, state: PeriodState) -> None:
        self._database.execute(
            "UPDATE periods SET state = ? WHERE session = ? AND period = ? AND state < ?", state, session, period, state
        )

    def periods(self, session: bytes) -> list[KeptPeriod]:
        """Return the newest voucher of each kept period, in ascending order, without the spare's proof."""
        return [kept for kept in self._kept(session) if kept.voucher.period != SPARE_PERIOD]

    def _kept(self, session: bytes) -> list[KeptPeriod]:
        rows = self._database.rows(
            "SELECT period, secret, totals, signature, state FROM periods WHERE session = ? ORDER BY period",
            session,
        )
        try:
            return [
                KeptPeriod(Voucher(session, period, _TOTALS.decode(totals)), signature, secret, PeriodState(state))
                for period, secret, totals, signature, state in rows
            ]
        except DecodeError as error:
            raise damaged(self._database, str(error)) from error

    def period(self, session: bytes, period: int) -> KeptPeriod | None:
        """Return the newest voucher of a period, or None. The spare's proof has the period `SPARE_PERIOD`."""
        return next((kept for kept in self._kept(session) if kept.voucher.period == period), None)

    def period_of_claim(self, claim: bytes) -> KeptPeriod | None:
        """Return the newest voucher of the period that became a claim, or None if it is not here."""
        for session, period in self._database.rows("SELECT session, period FROM periods WHERE state > 0"):
            if session_claim_id(session, period) == claim:
                return self.period(session, period)
        return None

    def transcript(self, genesis: bytes, kept: KeptPeriod, form: StreamedForm) -> Transcript:
        """Return the exchanges up to a period's voucher. Raise JournalError for others than it signs."""
        session, period = kept.voucher.session, kept.voucher.period
        rows = self._database.rows(
            "SELECT request, tokens FROM exchanges WHERE session = ? AND period = ? ORDER BY place", session, period
        )
        exchanges = [Exchange(request, unpacked_tokens(tokens), is_over=True) for request, tokens in rows]
        name = SessionName(genesis, session_claim_id(session, period), kept.secret)
        transcript = Transcript(name, form, exchanges)
        try:
            is_whole = bool(exchanges) and transcript.totals() == kept.voucher.totals
        except DecodeError:
            is_whole = False
        if not is_whole:
            raise damaged(self._database, f"period {period} of session 0x{session.hex()}")
        return transcript

    def forget_period(self, session: bytes, period: int) -> None:
        """Delete a period whose claim nobody can check any more."""
        self._database.execute("DELETE FROM periods WHERE session = ? AND period = ?", session, period)
