"""Storage version 1 of InferenceMarket: prices are for a thousand output tokens, and a unit has many requests.

Under the program before, a service's prices and a device's ask were for a unit, whatever it asked. Always: an offer
meets the same units as before where they ask all that their service sells, and what is due for a unit that was posted
before is its whole price, whatever its racers reveal.
"""

from typing import Annotated

from gpu_tasks.batches.work import TOKEN, rate_of
from gpu_tasks.market.ids import DeviceId, ServiceId
from gpu_tasks.market.inference.migrations.from_one_clock import begun
from gpu_tasks.market.inference.rules import UnitRules
from gpu_tasks.market.inference.services import SERVICE_NAME_BYTES_MAX, Offer, Service, ServiceTerms
from gpu_tasks.market.inference.units import (
    DECLINERS_MAX,
    DECLINES_MAX,
    RACERS_MAX,
    Racer,
    Refund,
    Reveal,
    Unit,
    UnitState,
    UnitTerms,
)
from gpu_tasks.market.rounds import Round
from runtime.encoding.codec import U8, U32, Bounded, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.storage import storage_prefix
from runtime.frame.storage_version import kept, rewritten
from runtime.state.overlay import Overlay


@struct
class FlatServiceTerms:
    """`ServiceTerms` with prices for a unit."""

    name: Annotated[bytes, Bounded(SERVICE_NAME_BYTES_MAX)]
    workload: Hash
    model: Hash
    price_min: Balance
    price_max: Balance
    ramp: BlockNumber
    lease: BlockNumber
    tokens_max: U32


@struct
class FlatService:
    """`Service`."""

    owner: AccountId
    terms: FlatServiceTerms
    deposit: Balance
    open_units: U32
    is_open: bool
    last_post: BlockNumber


@struct
class FlatUnitTerms:
    """`UnitTerms` of one request."""

    price_max: Balance
    racers: U8
    input_root: Hash
    input_commitment: Hash
    sealed_at: BlockNumber
    tokens_max: U32


@struct
class FlatReveal:
    """`Reveal` whose tokens nobody paid by."""

    output_root: Hash
    output_blob: Hash
    output_tokens: U32
    revealed_at: BlockNumber


@struct
class FlatRacer:
    """`Racer`."""

    owner: AccountId
    device: DeviceId
    collateral: Balance
    commitment: Hash | None
    committed_at: BlockNumber
    reveal: FlatReveal | None
    has_declined: bool
    is_late: bool


@struct
class FlatUnit:
    """`Unit`."""

    service: ServiceId
    customer: AccountId
    terms: FlatUnitTerms
    escrow: Balance
    bond: Balance
    deposit: Balance
    posted_at: BlockNumber
    recorded_at: BlockNumber
    state: UnitState
    attempt: U32
    price: Balance
    round: Round | None
    racers: Annotated[tuple[FlatRacer, ...], Bounded(RACERS_MAX)]
    decliners: Annotated[tuple[FlatRacer, ...], Bounded(DECLINERS_MAX)]
    declined_by: Annotated[tuple[AccountId, ...], Bounded(DECLINES_MAX)]
    output_root: Hash | None
    paid: Balance
    ended_at: BlockNumber
    is_watched: bool
    is_refuted: bool
    asleep_since: BlockNumber
    rules: UnitRules
    is_refilling: bool
    refund: Refund | None


def migrate(overlay: Overlay) -> int:
    """Bring services, offers and units into the form of now; how many there are."""
    sold: dict[int, int] = {}

    def service(key: bytes, before: FlatService) -> Service:
        sold[int.from_bytes(key[-4:], "little")] = before.terms.tokens_max
        return _service(before)

    def offer(key: bytes, before: Offer) -> Offer:
        number = int.from_bytes(key[len(offers) + 8 : len(offers) + 12], "little")
        # of a service that is gone its price is no matter any more
        return Offer(_per_thousand(before.ask, sold.get(number, 1)), before.since, before.deposit)

    offers = storage_prefix("InferenceMarket", "Offers")
    count = rewritten(overlay, storage_prefix("InferenceMarket", "Services"), FlatService, Service, service)
    count += rewritten(overlay, offers, Offer, Offer, offer)
    count += rewritten(
        overlay, storage_prefix("InferenceMarket", "Units"), FlatUnit, Unit, lambda _, before: _unit(before)
    )
    return count


def _per_thousand(price: int, tokens: int) -> int:
    return max(1, rate_of(price, tokens * TOKEN))


def _service(before: FlatService) -> Service:
    terms = kept(before.terms)
    terms["price_min"] = _per_thousand(before.terms.price_min, before.terms.tokens_max)
    terms["price_max"] = max(terms["price_min"], _per_thousand(before.terms.price_max, before.terms.tokens_max))
    return Service(**kept(before) | {"terms": ServiceTerms(**terms)})


def _unit(before: FlatUnit) -> Unit:
    changed = {
        "terms": UnitTerms(**kept(before.terms)),
        "racers": tuple(_racer(racer, before.terms.tokens_max) for racer in before.racers),
        "decliners": tuple(_racer(racer, before.terms.tokens_max) for racer in before.decliners),
    }
    return begun(Unit(**kept(before) | changed))


def _racer(before: FlatRacer, tokens: int) -> Racer:
    reveal = None if before.reveal is None else Reveal(**kept(before.reveal) | {"output_tokens": tokens})
    return Racer(**kept(before) | {"reveal": reveal})
