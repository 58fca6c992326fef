"""The events and errors of the pallet Sessions."""

from gpu_tasks.market.ids import DeviceId, ServiceId
from gpu_tasks.market.sessions.records import SessionEnd
from runtime.encoding.codec import U8, U32
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.pallet import DispatchError, event


@event
class PlacesOffered:
    """A device serves up to this many sessions of a service. With 0 it serves no new ones."""

    service: ServiceId
    device: DeviceId
    places: U8


@event
class SessionOpened:
    """A customer locked a deposit for a session, which waits for a draw."""

    session: Hash
    customer: AccountId
    service: ServiceId
    deposit: Balance
    rate: Balance
    expires_at: BlockNumber


@event
class SessionSeated:
    """A device was drawn for a session, and a spare device of another owner if there is one."""

    session: Hash
    owner: AccountId
    device: DeviceId
    collateral: Balance
    spare: DeviceId | None


@event
class PeriodClaimed:
    """A provider presented a voucher, or a spare its proof, which became a claim."""

    session: Hash
    period: U32
    claim: Hash
    owner: AccountId
    amount: Balance


@event
class SessionClosing:
    """A session takes no more requests. Its provider may claim up to this block."""

    session: Hash
    claims_until: BlockNumber


@event
class SessionHandedOver:
    """The spare device goes on with a session. The former provider may claim up to this block."""

    session: Hash
    owner: AccountId
    device: DeviceId
    claims_until: BlockNumber


@event
class PlacePaid:
    """A leg of a session is over, and it holds nothing for it any more. `amount` is its pay beyond its claims.

    The spare's leg is one too.
    """

    session: Hash
    leg: U8
    """The number of the leg: 0, 1 after a hand-over, 2 for the spare that stands by."""
    owner: AccountId
    device: DeviceId
    amount: Balance


@event
class SessionEnded:
    """A session is over, and the rest of its deposit has returned."""

    session: Hash
    end: SessionEnd
    paid: Balance
    """Grains of the deposit that have left, settlement fees and fees of checks included."""


class UnknownSession(DispatchError):
    """There is no such session, or it is over."""


class NoSessions(DispatchError):
    """The service states no pace, so it has no sessions."""


class RateOutOfBounds(DispatchError):
    """The rate is outside the service's prices."""


class TermOutOfBounds(DispatchError):
    """The term is too short or too long."""


class SessionDepositTooSmall(DispatchError):
    """The deposit does not pay for a token and its checks."""


class TooManySessions(DispatchError):
    """The customer, or the chain, has no room for another session."""


class TooManyPlaces(DispatchError):
    """A device offers at most 64 places, for at most 16 services. At most 512 devices offer places for a service."""


class NotSessionParty(DispatchError):
    """The account has no part in the session that permits this call."""


class SessionNotOpen(DispatchError):
    """The session waits for its draw, or is closing already."""


class SpareUnable(DispatchError):
    """The session has no spare, or the spare device is out of service or lacks free collateral for this call."""


class WrongVoucher(DispatchError):
    """The voucher is for another session, or for a period that the provider cannot claim now."""


class EmptyVoucher(DispatchError):
    """The voucher pays nothing."""


class VoucherTooLarge(DispatchError):
    """The voucher has too many requests, or more tokens than a check can compute in its longest window."""


class VoucherUnfunded(DispatchError):
    """The deposit does not cover the voucher, or the spare's proof, and the fees of its checks."""


class BadVoucherSignature(DispatchError):
    """The session's signer has not signed the voucher."""


class ClaimsOver(DispatchError):
    """The account claims nothing more in this session: it said so, its window is over, or it has proven already."""


class TooManyUnchecked(DispatchError):
    """The collateral of the session's open claims leaves too little for this one. Wait until one of them ends."""


class FormerClaimsFirst(DispatchError):
    """The former provider claims first after a hand-over, for ten blocks. Wait until it has."""
