"""What InferenceMarket tells the world: its events, and why a call of it can fail."""

from typing import Annotated

from gpu_tasks.market.courts.cases import PartyFault
from gpu_tasks.market.ids import DeviceId, ServiceId, UnitId
from gpu_tasks.market.inference.services import SERVICE_NAME_BYTES_MAX
from gpu_tasks.market.inference.units import RACERS_MAX, Refund
from runtime.encoding.codec import U8, U32, Bounded
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.pallet import DispatchError, event


@event
class ServiceCreated:
    """A service can be bought and offered."""

    service: ServiceId
    owner: AccountId
    name: Annotated[bytes, Bounded(SERVICE_NAME_BYTES_MAX)]
    workload: Hash
    model: Hash


@event
class ServiceClosed:
    """No more units of the service may be posted."""

    service: ServiceId


@event
class Offered:
    """A device works for a service from this price on."""

    service: ServiceId
    device: DeviceId
    ask: Balance


@event
class OfferWithdrawn:
    """A device works for a service no more."""

    service: ServiceId
    device: DeviceId


@event
class UnitPosted:
    """A customer locked money for a unit; it waits for a draw."""

    unit: UnitId
    service: ServiceId
    customer: AccountId
    input_root: Hash
    price_max: Balance
    racers: U8


@event
class UnitMatched:
    """Racers were drawn for a unit, named in draw order."""

    unit: UnitId
    attempt: U32
    price: Balance
    racers: Annotated[tuple[AccountId, ...], Bounded(RACERS_MAX)]


@event
class ResultCommitted:
    """A racer committed to a result."""

    unit: UnitId
    attempt: U32
    provider: AccountId


@event
class ResultRevealed:
    """A racer opened its commitment."""

    unit: UnitId
    attempt: U32
    provider: AccountId
    output_root: Hash
    output_blob: Hash


@event
class RaceDeclined:
    """A racer could not open the input."""

    unit: UnitId
    provider: AccountId


@event
class PlaceRefilled:
    """A racer was drawn for the place of another that declined, or was recalled; the others race on."""

    unit: UnitId
    attempt: U32
    provider: AccountId
    declined: AccountId | None


@event
class RacerRecalled:
    """A racer that had not begun races no more: its device failed a unit before. It stands for nothing."""

    unit: UnitId
    attempt: U32
    provider: AccountId


@event
class RaceMissed:
    """A racer did not commit within the window, or did not open its commitment; `amount` of its collateral burned."""

    unit: UnitId
    provider: AccountId
    amount: Balance


@event
class UnitRequeued:
    """A race ended without a result; the unit waits for another draw."""

    unit: UnitId
    recorded_at: BlockNumber


@event
class UnitDisputed:
    """The race is not decided by what was revealed; the case of the unit's id will decide it."""

    unit: UnitId


@event
class ProviderSlashed:
    """A case found a racer at fault: `amount` of its collateral is gone, and its device pauses."""

    unit: UnitId
    provider: AccountId
    device: DeviceId
    fault: PartyFault
    amount: Balance


@event
class ResultRefuted:
    """An audit found a result wrong that was paid for; its customer has the price back."""

    unit: UnitId
    output_root: Hash


@event
class UnitSettled:
    """A result was paid for. `paid` is all that the customer paid; the rest of its lock came back."""

    unit: UnitId
    output_root: Hash
    output_blob: Hash
    winner: AccountId
    price: Balance
    witness: AccountId | None
    paid: Balance


@event
class UnitRefunded:
    """A unit ended without a result. `lost` is what the customer did not get back, to the fire or to judges."""

    unit: UnitId
    refund: Refund
    lost: Balance


@event
class ProviderRebated:
    """A winner got a part of its fee back from the era's emission."""

    provider: AccountId
    amount: Balance


class UnknownService(DispatchError):
    """There is no such service, or it is closed."""


class UnsoundTerms(DispatchError):
    """The terms break a limit: of prices, racers, tokens, or times."""


class NotServiceOwner(DispatchError):
    """The service belongs to somebody else."""


class TooManyOpen(DispatchError):
    """The market holds as many services, offers or open units as it may."""


class UnknownUnit(DispatchError):
    """There is no such unit."""


class NotCustomer(DispatchError):
    """The unit belongs to another customer."""


class NotQueued(DispatchError):
    """The unit has been drawn; it cannot be cancelled any more."""


class NotAssigned(DispatchError):
    """The signer has no part in this race or attempt."""


class WindowClosed(DispatchError):
    """It is too early or too late for this."""


class AlreadyDone(DispatchError):
    """The signer has done this before."""


class WrongOpening(DispatchError):
    """This does not open the commitment."""


class StaleSealing(DispatchError):
    """`sealed_at` is no recent final height."""


class TooFewJudges(DispatchError):
    """Too few in office may judge what comes of the unit, its customer apart, or can pay for a seat at its price."""


class MarketBusy(DispatchError):
    """The draws that this block has taken in leave no room for these units: post them again, or with a tip."""
