"""`SessionsApi`: queries of customers, providers and checkers about sessions."""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

from gpu_tasks.market.ids import DeviceId, ServiceId
from gpu_tasks.market.sessions.money import collateral_of
from gpu_tasks.market.sessions.records import (
    LEGS_MAX,
    PeriodClaim,
    SessionRecord,
    claims_until,
    left_of,
    period_of,
)
from gpu_tasks.market.sessions.sessions import Sessions
from runtime.encoding.codec import U8, U16, U32, Bounded, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.api import RuntimeApi, query

SESSIONS_SHOWN_MAX = 64
"""The most sessions in one answer. The next answer begins after the last of them."""


@struct
class LegClock:
    """The present rights of a provider in a session."""

    period: U32
    """The period that it claims next."""
    claims_until: BlockNumber
    """The last block in which it may claim, if nobody closes the session earlier; 0 if it claims nothing more."""
    collateral_left: Balance
    """The part of its collateral that stands behind no open claim."""


@struct
class SessionStatus:
    """A session with its clocks."""

    id: Hash
    session: SessionRecord
    left: Balance
    """Grains of the deposit that no payment and no open claim has taken."""
    collateral: Balance
    """The collateral that a device needs for the session."""
    legs: Annotated[tuple[LegClock, ...], Bounded(LEGS_MAX)]


@struct
class DevicePlaces:
    """The places of a device for a service."""

    places: U8
    """The offered places, or 0."""
    sessions: U16
    """The sessions that occupy a place of the device, for all services together."""


Statuses = Annotated[tuple[SessionStatus, ...], Bounded(SESSIONS_SHOWN_MAX)]


class SessionsApi(RuntimeApi, version=1):
    """Sessions, their claims and their places."""

    @query
    def session(self, session_id: Hash) -> SessionStatus | None:
        """Return a session until it ends, or None."""
        found = self.bound[Sessions].sessions[session_id]
        return None if found is None else _status(session_id, found)

    @query
    def sessions_of_customer(self, customer: AccountId, after: Hash | None) -> Statuses:
        """Return the first 64 sessions of a customer, or those after `after`. Their order has no meaning."""
        return self._listed(self.bound[Sessions].customer_sessions.under(customer, behind=after))

    @query
    def sessions_of_device(self, device: DeviceId, after: Hash | None) -> Statuses:
        """Return the first 64 sessions that a device serves or spares, or those after `after`, in the same order."""
        return self._listed(self.bound[Sessions].device_sessions.under(device, behind=after))

    @query
    def period_claim(self, claim_id: Hash) -> PeriodClaim | None:
        """Return the period that an open claim is about, or None for another market's claim."""
        return self.bound[Sessions].period_claims[claim_id]

    @query
    def places(self, device: DeviceId, service: ServiceId) -> DevicePlaces:
        """Return the places of a device for a service."""
        room = self.bound[Sessions]
        offered = room.place_offers[service, device]
        return DevicePlaces(0 if offered is None else offered.places, room.occupied[device].sessions)

    def _listed(self, entries: Iterator[tuple[bytes, bool]]) -> tuple[SessionStatus, ...]:
        room = self.bound[Sessions]
        shown = ((session_id, room.sessions[session_id]) for session_id, _ in islice(entries, SESSIONS_SHOWN_MAX))
        return tuple(_status(session_id, session) for session_id, session in shown if session is not None)


def _status(session_id: bytes, session: SessionRecord) -> SessionStatus:
    return SessionStatus(
        session_id,
        session,
        left_of(session),
        collateral_of(session.rules, session.exposure),
        tuple(
            LegClock(
                period_of(session, number),
                0 if leg.is_over else claims_until(session, leg),
                leg.collateral - leg.engaged,
            )
            for number, leg in enumerate(session.legs)
        ),
    )
