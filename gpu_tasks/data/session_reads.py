"""Sessions as programs read them from a node."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_tasks.market.sessions.records import PeriodClaim
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.sessions_api import SESSIONS_SHOWN_MAX, DevicePlaces, SessionStatus
from wallet.client import ChainClient

PAGES_MAX = 16
"""More than the sessions of a device fill: each occupies one of its places."""


async def session(chain: ChainClient, session_id: bytes, at: bytes | None = None) -> SessionStatus | None:
    """Return a session until it ends, or None."""
    status: SessionStatus | None = await chain.query("SessionsApi_session", session_id, at=at)
    return status


async def sessions_of_device(
    chain: ChainClient, device_id: bytes, at: bytes | None = None
) -> tuple[SessionStatus, ...]:
    """Return the sessions that a device serves or spares."""
    block_hash = await chain.tried_at() if at is None else at
    found: list[SessionStatus] = []
    for _ in range(PAGES_MAX):
        page: tuple[SessionStatus, ...] = await chain.query(
            "SessionsApi_sessions_of_device", device_id, found[-1].id if found else None, at=block_hash
        )
        found += page
        if len(page) < SESSIONS_SHOWN_MAX:
            break
    return tuple(found)


async def period_claim(chain: ChainClient, claim_id: bytes, at: bytes | None = None) -> PeriodClaim | None:
    """Return the period of an open claim, or None for a claim of another market."""
    found: PeriodClaim | None = await chain.query("SessionsApi_period_claim", claim_id, at=at)
    return found


async def offered_places(
    chain: ChainClient, offers: Sequence[tuple[int, bytes]], at: bytes | None = None
) -> dict[tuple[int, bytes], int]:
    """Return the places that devices offer, by service and device, for those of some offers with places."""
    found = await chain.read_many(Sessions.place_offers, offers, at=at) if offers else []
    return {key: offer.places for key, offer in zip(offers, found, strict=True) if offer is not None}


async def places(chain: ChainClient, device_id: bytes, service: int, at: bytes | None = None) -> DevicePlaces:
    """Return the places of a device for sessions of a service."""
    found: DevicePlaces = await chain.query("SessionsApi_places", device_id, service, at=at)
    return found
