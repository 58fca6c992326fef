"""Services: the kinds of units on sale, and the prices at which slots offer them."""

from typing import Annotated, Any

from gpu_tasks.batches.requests import TOKEN
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.ids import DeviceId
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.ss58 import account_from_text
from runtime.encoding.codec import U32, Bounded, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.holds import Hold, HoldReason, numbered_case

SERVICE_DEPOSIT = HoldReason(
    "ServiceDeposit", "The deposit for an open service. One for each service.", is_deposit=True
)
OFFER_DEPOSIT = HoldReason(
    "OfferDeposit", "The deposit for an open offer. One for each service and device.", is_deposit=True
)
SERVICE_NAME_BYTES_MAX = 32
COMMIT_WINDOW_MAX = 600
COMMIT_WINDOW_SLACK = 3
"""A unit's commit window grows by this many times the blocks that its work takes at the service's pace."""
UNIT_COMMIT_WINDOW_MAX = 7_200
"""The longest commit window of a unit, in blocks, for any amount of work."""
RAMP_BLOCKS_MAX = 10_000
SERVICES_MAX = 1_024
OFFERS_PER_SERVICE_MAX = 1_024
OFFERS_PER_DEVICE_MAX = 16
"""The most services that one device offers. Each change of a slot is reported to all of them."""
PRICE_MAX = 10**15
"""The most grains for a unit or for a thousand tokens. Sums of such prices never overflow."""
PACE_MAX = 10**9
CHECK_PPM_MAX = 1_000_000
"""A check that computes the request again costs as much."""


@struct
class ServiceTerms:
    """The terms of one kind of unit."""

    name: Annotated[bytes, Bounded(SERVICE_NAME_BYTES_MAX)]
    workload: Hash
    """The identifier of the program that executes a unit."""
    model: Hash
    """The hash of the weights."""
    price_min: Balance
    """The first price that a unit offers, in grains per 1,000 output tokens."""
    price_max: Balance
    """The upper bound of a customer's maximum price, in grains per 1,000 output tokens."""
    ramp: BlockNumber
    """Blocks in which an unmatched unit's price rises to its maximum."""
    commit_window: BlockNumber
    """Blocks in which racers may commit."""
    tokens_max: U32
    """The most output tokens that a request may ask for."""
    input_share: U32 = 0
    """The count of an input token, in millionths of an output token."""
    pace: U32 = 0
    """Output tokens that the slowest racer computes in a block. A unit's commit window grows by its tokens at this
    pace. With 0 the commit window is the same for all units."""
    consumer_pace: U32 = 0
    """The pace of the slowest device of class consumer, or 0 for the same as `pace`."""
    datacenter_pace: U32 = 0
    """The pace of the slowest device of class datacenter, or 0 for the same as a consumer's."""
    check_ppm: U32 = CHECK_PPM_MAX
    """The cost of checking a request over the cost of computing it, in millionths."""


@struct
class Service:
    """A service on offer."""

    owner: AccountId
    terms: ServiceTerms
    deposit: Balance
    """The grains held of the owner while the service is open."""
    open_units: U32 = 0
    is_open: bool = True
    """True while units may be posted. The record of a closed service is dropped with its last open unit."""
    last_post: BlockNumber = 0
    """The newest block that posted units. The draw reads the service's slots once for all of them."""


@struct
class Offer:
    """A device's offer to work for a service."""

    ask: Balance
    """The lowest price that the owner accepts, in grains per 1,000 output tokens."""
    since: BlockNumber
    """The block in which this ask was made. The ask does not apply to units recorded earlier."""
    deposit: Balance = 0
    """The grains held of the device's owner for the offer."""


def service_hold(service_number: int) -> Hold:
    """Return the hold of an open service's deposit."""
    return Hold(SERVICE_DEPOSIT, numbered_case(service_number))


def offer_hold(service_number: int, device_id: DeviceId) -> Hold:
    """Return the hold of the deposit of a device's offer."""
    return Hold(OFFER_DEPOSIT, blake2_256(b"ogpu/offer" + service_number.to_bytes(4, "little") + device_id))


def pace_of(terms: ServiceTerms, slowest_class: DeviceClass) -> int:
    """Return the output tokens that the slowest device of this class or a faster one computes in a block.

    0 means that the service states no pace.
    """
    if slowest_class is DeviceClass.CPU:
        return terms.pace
    consumer_pace = terms.consumer_pace or terms.pace
    return consumer_pace if slowest_class is DeviceClass.CONSUMER else terms.datacenter_pace or consumer_pace


def commit_window_of(terms: ServiceTerms, work: int, slowest_class: DeviceClass = DeviceClass.CPU) -> int:
    """Return the commit window in blocks: the service's window, and three times the slowest racer's time to work."""
    slowest_pace = pace_of(terms, slowest_class)
    return terms.commit_window + (-(-COMMIT_WINDOW_SLACK * work // (slowest_pace * TOKEN)) if slowest_pace else 0)


def run_blocks_of(terms: ServiceTerms, work: int) -> int:
    """Return the most blocks in which the slowest device of any class computes this work."""
    slowest_pace = pace_of(terms, DeviceClass.CPU)
    return -(-work // (slowest_pace * TOKEN)) if slowest_pace else terms.commit_window


def is_sound(terms: ServiceTerms) -> bool:
    """Return True if the terms keep to all limits."""
    return (
        0 < terms.price_min <= terms.price_max <= PRICE_MAX
        and terms.ramp <= RAMP_BLOCKS_MAX
        and 0 < terms.commit_window <= COMMIT_WINDOW_MAX
        and terms.tokens_max > 0
        and terms.input_share <= TOKEN
        and 0 < terms.check_ppm <= CHECK_PPM_MAX
        and has_sound_paces(terms)
    )


def has_sound_paces(terms: ServiceTerms) -> bool:
    """Return True if no class is slower than the one below it, so that commit windows only shorten with the class."""
    paces = [pace_of(terms, kind) for kind in DeviceClass]
    # Without a pace of its own, the slowest class would have the shortest commit window.
    has_first = terms.pace > 0 or not any(paces)
    return has_first and paces == sorted(paces) and paces[-1] <= PACE_MAX


def terms_from_json(entry: dict[str, Any]) -> ServiceTerms:
    """Return the terms of a service in a chain specification.

    The keys are the names in `ServiceTerms`. Hashes are 0x and hex digits.
    """
    return ServiceTerms(
        name=str(entry["name"]).encode(),
        workload=account_from_text(entry["workload"]),
        model=account_from_text(entry["model"]),
        price_min=int(entry["price_min"]),
        price_max=int(entry["price_max"]),
        ramp=int(entry["ramp"]),
        commit_window=int(entry["commit_window"]),
        tokens_max=int(entry["tokens_max"]),
        input_share=int(entry.get("input_share", 0)),
        pace=int(entry.get("pace", 0)),
        consumer_pace=int(entry.get("consumer_pace", 0)),
        datacenter_pace=int(entry.get("datacenter_pace", 0)),
        check_ppm=int(entry.get("check_ppm", CHECK_PPM_MAX)),
    )
