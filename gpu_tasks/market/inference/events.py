"""The events and errors of InferenceMarket."""

from typing import Annotated

from gpu_tasks.market.ids import DeviceId, ServiceId, UnitId
from gpu_tasks.market.inference.services import SERVICE_NAME_BYTES_MAX
from gpu_tasks.market.inference.units import RACERS_MAX, Refund
from runtime.encoding.codec import U8, U32, Bounded
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.pallet import DispatchError, event


@event
class ServiceCreated:
    """A service was created: it can be bought and offered."""

    service: ServiceId
    owner: AccountId
    name: Annotated[bytes, Bounded(SERVICE_NAME_BYTES_MAX)]
    workload: Hash
    model: Hash


@event
class ServiceClosed:
    """A service was closed. No more units of it may be posted."""

    service: ServiceId


@event
class Offered:
    """A device offered a service at this price or more."""

    service: ServiceId
    device: DeviceId
    ask: Balance


@event
class OfferWithdrawn:
    """A device withdrew its offer of a service."""

    service: ServiceId
    device: DeviceId


@event
class UnitPosted:
    """A customer locked money for a unit, which waits for a draw."""

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
    """A racer declined because it could not open the input."""

    unit: UnitId
    provider: AccountId


@event
class PlaceRefilled:
    """A racer was drawn for the place of a declined or recalled one. The other racers continue."""

    unit: UnitId
    attempt: U32
    provider: AccountId
    declined: AccountId | None


@event
class RacerRecalled:
    """A racer that had not begun left the race, because its device failed an earlier unit. It is liable for nothing."""

    unit: UnitId
    attempt: U32
    provider: AccountId


@event
class RaceMissed:
    """A racer missed its commit window, did not open its commitment, or declined an input that can be opened.

    It lost `amount` of its collateral, which burned or paid voters.
    """

    unit: UnitId
    provider: AccountId
    amount: Balance


@event
class UnitRequeued:
    """A race ended without a result. The unit waits for another draw."""

    unit: UnitId
    recorded_at: BlockNumber


@event
class UnitDisputed:
    """Results differ, or two owners declined the input and no racer revealed a result. Voters will decide."""

    unit: UnitId


@event
class ResultClaimed:
    """A result can be read. The winner is paid once its claim, with the unit's id, has passed."""

    unit: UnitId
    winner: AccountId
    output_root: Hash
    output_blob: Hash
    witness: AccountId | None


@event
class RacePassed:
    """A racer left the race, because it cannot finish in time or at all. `amount` of its collateral burned."""

    unit: UnitId
    attempt: U32
    provider: AccountId
    amount: Balance


@event
class ProviderSlashed:
    """A racer gave a false result or withheld it. It lost `amount` of its collateral, and its device paused."""

    unit: UnitId
    provider: AccountId
    device: DeviceId
    amount: Balance


@event
class UnitSettled:
    """A result was paid for. `paid` is all that the customer paid. The rest of its lock came back."""

    unit: UnitId
    output_root: Hash
    output_blob: Hash
    winner: AccountId
    price: Balance
    witness: AccountId | None
    paid: Balance


@event
class UnitRefunded:
    """A unit ended without a result. `lost` is the part of the customer's money that burned or went to voters."""

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
    """The terms break a limit of prices, racers, tokens or times."""


class NotServiceOwner(DispatchError):
    """The service belongs to another account."""


class TooManyOpen(DispatchError):
    """The market is full: it has the maximum number of services, offers or open units."""


class UnknownUnit(DispatchError):
    """There is no such unit."""


class NotCustomer(DispatchError):
    """The unit belongs to another customer."""


class NotQueued(DispatchError):
    """The unit has been drawn, so it can no longer be cancelled."""


class NotAssigned(DispatchError):
    """The signer has no part in this race or attempt."""


class WindowClosed(DispatchError):
    """This call comes before or after its window."""


class AlreadyDone(DispatchError):
    """The signer has already done this."""


class WrongOpening(DispatchError):
    """The result and the salt do not open the commitment."""


class StaleSealing(DispatchError):
    """`sealed_at` is no recent final height."""


class TooFewCheckers(DispatchError):
    """Too few validators of the active set could check the unit's result. The customer itself does not count."""


class MarketBusy(DispatchError):
    """The draws admitted in this block leave no room for these units. Post them again, or with a tip."""
