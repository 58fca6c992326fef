"""Services: what may be bought as units, and at which prices slots offer it."""

from typing import Annotated, Any

from gpu_tasks.batches.requests import TOKEN
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.ids import DeviceId
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.ss58 import account_from_text
from runtime.encoding.codec import U32, Bounded, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.holds import Hold, HoldReason, numbered_case

SERVICE_DEPOSIT = HoldReason("ServiceDeposit", "For an open service; the case is its number.", is_deposit=True)
OFFER_DEPOSIT = HoldReason(
    "OfferDeposit", "For an offer that stands; the case is the hash of service and device.", is_deposit=True
)
SERVICE_NAME_BYTES_MAX = 32
COMMIT_WINDOW_MAX = 600
COMMIT_WINDOW_SLACK = 3
"""Times the blocks that a unit's work takes at the service's pace are added to its commit window."""
UNIT_COMMIT_WINDOW_MAX = 7_200
"""No unit may be raced for in more blocks, however much it asks."""
RAMP_BLOCKS_MAX = 10_000
SERVICES_MAX = 1_024
OFFERS_PER_SERVICE_MAX = 1_024
OFFERS_PER_DEVICE_MAX = 16
"""Each change of a slot is told to so many services at most."""
PRICE_MAX = 10**15
"""Neither a unit nor a thousand tokens costs more than this many grains: a sum of such prices never overflows."""
PACE_MAX = 10**9


@struct
class ServiceTerms:
    """What one kind of unit is."""

    name: Annotated[bytes, Bounded(SERVICE_NAME_BYTES_MAX)]
    workload: Hash
    """Identifier of the program that executes a unit."""
    model: Hash
    """Hash of the weights."""
    price_min: Balance
    """What a unit offers first, per thousand output tokens."""
    price_max: Balance
    """The most that a customer may offer at last, per thousand output tokens."""
    ramp: BlockNumber
    """Blocks in which an unmatched unit's price rises to its maximum."""
    commit_window: BlockNumber
    """Blocks that racers have to commit in."""
    tokens_max: U32
    """Most output tokens that a request may ask for."""
    input_share: U32 = 0
    """What an input token counts, in millionths of an output token."""
    pace: U32 = 0
    """Output tokens that the slowest racer computes in a block: a unit's window is longer by its tokens at this pace; 0
    where a commit window is the same for all."""
    consumer_pace: U32 = 0
    """The same of the slowest device of class consumer; 0 where it is as `pace`."""
    datacenter_pace: U32 = 0
    """The same of the slowest device of class datacenter; 0 where it is as a consumer's."""


@struct
class Service:
    """A service on offer."""

    owner: AccountId
    terms: ServiceTerms
    deposit: Balance
    """Locked while the service is open."""
    open_units: U32 = 0
    is_open: bool = True
    """Whether units may still be posted. A closed service is forgotten with its last open unit."""
    last_post: BlockNumber = 0
    """The newest block that posted units: its slots are read once for all of them."""


@struct
class Offer:
    """A device's standing offer to work for a service."""

    ask: Balance
    """The lowest price, per thousand output tokens."""
    since: BlockNumber
    """The block in which this ask was made: it counts for no unit recorded before."""
    deposit: Balance = 0
    """Locked on its device's owner while the offer stands."""


def service_hold(number: int) -> Hold:
    """What an open service's deposit is held for."""
    return Hold(SERVICE_DEPOSIT, numbered_case(number))


def offer_hold(number: int, device: DeviceId) -> Hold:
    """What the deposit of a device's offer for a service is held for."""
    return Hold(OFFER_DEPOSIT, blake2_256(b"ogpu/offer" + number.to_bytes(4, "little") + device))


def pace_of(terms: ServiceTerms, slowest: DeviceClass) -> int:
    """Output tokens that the slowest device of a class, or of a faster one, computes in a block; 0 if nobody says."""
    if slowest is DeviceClass.CPU:
        return terms.pace
    consumer = terms.consumer_pace or terms.pace
    return consumer if slowest is DeviceClass.CONSUMER else terms.datacenter_pace or consumer


def commit_window_of(terms: ServiceTerms, work: int, slowest: DeviceClass = DeviceClass.CPU) -> int:
    """Blocks that racers have for so much work: the service's window and three times the slowest racer's time."""
    pace = pace_of(terms, slowest)
    return terms.commit_window + (-(-COMMIT_WINDOW_SLACK * work // (pace * TOKEN)) if pace else 0)


def is_sound(terms: ServiceTerms) -> bool:
    """Whether the terms keep to all limits."""
    return (
        0 < terms.price_min <= terms.price_max <= PRICE_MAX
        and terms.ramp <= RAMP_BLOCKS_MAX
        and 0 < terms.commit_window <= COMMIT_WINDOW_MAX
        and terms.tokens_max > 0
        and terms.input_share <= TOKEN
        and has_sound_paces(terms)
    )


def has_sound_paces(terms: ServiceTerms) -> bool:
    """Whether no class is slower than the one below it: so that commit windows only shorten with it."""
    paces = [pace_of(terms, each) for each in DeviceClass]
    has_first = terms.pace > 0 or not any(paces)
    return has_first and paces == sorted(paces) and paces[-1] <= PACE_MAX


def terms_from_json(given: dict[str, Any]) -> ServiceTerms:
    """The terms of a service in a chain specification: names as in `ServiceTerms`, hashes as 0x and hex digits."""
    return ServiceTerms(
        name=str(given["name"]).encode(),
        workload=account_from_text(given["workload"]),
        model=account_from_text(given["model"]),
        price_min=int(given["price_min"]),
        price_max=int(given["price_max"]),
        ramp=int(given["ramp"]),
        commit_window=int(given["commit_window"]),
        tokens_max=int(given["tokens_max"]),
        input_share=int(given.get("input_share", 0)),
        pace=int(given.get("pace", 0)),
        consumer_pace=int(given.get("consumer_pace", 0)),
        datacenter_pace=int(given.get("datacenter_pace", 0)),
    )
