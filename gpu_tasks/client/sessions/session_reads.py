"""Sessions on the chain, as their customer reads them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpu_tasks.client.buyer import accounts_of
from gpu_tasks.client.sessions.session_store import SUFFIX, SessionFile
from gpu_tasks.data import market_reads
from gpu_tasks.market.sessions.records import SessionRecord, SessionState, all_legs, claims_until
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.vouchers import Voucher, amount_of
from gpu_tasks.sessions.provider_end import SessionTerms
from wallet.amounts import counted
from wallet.client import ChainClient
from wallet.errors import WalletError

BEACON_BLOCKS = 2
"""A draw uses the beacon of so many blocks after the session's recording."""


class SessionError(WalletError):
    """A session cannot be opened, found or used."""


@dataclass(frozen=True, slots=True)
class KnownSession:
    """A session at a final block."""

    id: bytes
    record: SessionRecord
    height: int

    @property
    def spent(self) -> int:
        """Grains of the deposit that have left or stand behind open claims."""
        return self.record.paid + self.record.reserved

    @property
    def blocks_left(self) -> int:
        """The blocks until the term is over."""
        return max(0, self.record.expires_at - self.height) if self.record.state is not SessionState.CLOSING else 0

    @property
    def waits_for(self) -> str | None:
        """The reason why the session is not in use, or None."""
        record = self.record
        claims = sum(leg.claims for _, leg in all_legs(record))
        if record.state is SessionState.WAITING:
            return f"the draw by the beacon of block {record.recorded_at + BEACON_BLOCKS}, once it is final"
        if record.state is SessionState.OPEN:
            return None
        if claims:
            return f"the checks of {counted(claims, 'claim')}"
        until = max((claims_until(record, leg) for leg in record.legs if not leg.is_over), default=self.height)
        return f"the last claim of its provider, up to block {until}"

    def terms(self, genesis: bytes) -> SessionTerms:
        """Return the terms that its stream needs."""
        return SessionTerms(genesis, self.id, self.record.rate, self.record.input_share)


async def session_of(client: ChainClient, session_id: bytes) -> KnownSession:
    """Return a session at the newest final block. Raise SessionError if there is none, or no more."""
    final = await client.finalized()
    record: SessionRecord | None = await client.read(Sessions.sessions, session_id, at=final)
    if record is None:
        raise SessionError(
            f"there is no session 0x{session_id.hex()}, or it has ended. `ogpu session ps` lists yours",
            code="session_unknown",
        )
    return KnownSession(session_id, record, await client.height(final))


async def sessions_of(client: ChainClient, account: bytes, folder: Path) -> list[KnownSession]:
    """Return the sessions of a customer, and those whose vouchers it signs, oldest first.

    The latter have a file here, or belong to a budget that the account may spend.
    """
    final = await client.finalized()
    own = [
        session_id
        for customer in await accounts_of(client, account)
        for session_id in await _ids_of_customer(client, customer, final)
    ]
    found = await _known(client, list(dict.fromkeys([*own, *sessions_here(folder)])), final)
    return [each for each in found if account in (each.record.customer, each.record.signer)]


async def sessions_of_customer(client: ChainClient, customer: bytes) -> list[KnownSession]:
    """Return the sessions of a customer, oldest first."""
    final = await client.finalized()
    return await _known(client, await _ids_of_customer(client, customer, final), final)


async def _ids_of_customer(client: ChainClient, customer: bytes, final: bytes) -> list[bytes]:
    listed = await market_reads.entries(client, Sessions.customer_sessions, customer, at=final)
    return [keys[-1] for keys, _ in listed]


async def _known(client: ChainClient, ids: list[bytes], final: bytes) -> list[KnownSession]:
    """Return those of some sessions that the chain knows, oldest first."""
    records, height = await client.read_many(Sessions.sessions, ids, at=final), await client.height(final)
    found = [
        KnownSession(session_id, record, height)
        for session_id, record in zip(ids, records, strict=True)
        if record is not None
    ]
    return sorted(found, key=lambda each: (each.record.opened_at, each.id))


def sessions_here(folder: Path) -> list[bytes]:
    """Return the ids of the sessions with a file in a folder."""
    names = sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    return [bytes.fromhex(name) for name in names if len(name) == 64 and set(name) <= set("0123456789abcdef")]


def vouchers_here(session: KnownSession, folder: Path) -> list[Voucher] | None:
    """Return the newest voucher of each period that this machine signed, or None without a file here."""
    try:
        with SessionFile(folder, session.id, is_reader=True) as store:
            return [voucher for voucher, _ in store.vouchers()]
    except FileNotFoundError:
        return None


def unclaimed(session: KnownSession, folder: Path) -> int | None:
    """Return the grains that vouchers of this machine promise beyond the claims, or None without a file here."""
    vouchers, record = vouchers_here(session, folder), session.record
    if vouchers is None:
        return None
    return sum(
        amount_of(record.rate, record.input_share, voucher.totals)
        for voucher in vouchers
        if voucher.period >= record.period
    )


def is_usable(session: KnownSession) -> bool:
    """Return True if a chat can use the session, or will once its provider is drawn."""
    return session.record.state is not SessionState.CLOSING and session.blocks_left > 0
