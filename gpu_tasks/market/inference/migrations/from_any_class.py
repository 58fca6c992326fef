"""Storage version 3 of InferenceMarket: a unit may name a class of devices, and a service has a pace for each.

Under the program before, any device raced. Always: it still does for every unit that was posted before, in as many
blocks; nothing else changes.
"""

from typing import Annotated

from gpu_tasks.market.ids import ServiceId
from gpu_tasks.market.inference.rules import UnitRules
from gpu_tasks.market.inference.services import SERVICE_NAME_BYTES_MAX, Service, ServiceTerms
from gpu_tasks.market.inference.units import (
    DECLINERS_MAX,
    DECLINES_MAX,
    RACERS_MAX,
    Racer,
    Refund,
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
class AnyClassServiceTerms:
    """`ServiceTerms` with one pace."""

    name: Annotated[bytes, Bounded(SERVICE_NAME_BYTES_MAX)]
    workload: Hash
    model: Hash
    price_min: Balance
    price_max: Balance
    ramp: BlockNumber
    lease: BlockNumber
    tokens_max: U32
    input_share: U32
    pace: U32


@struct
class AnyClassService:
    """`Service`."""

    owner: AccountId
    terms: AnyClassServiceTerms
    deposit: Balance
    open_units: U32
    is_open: bool
    last_post: BlockNumber


@struct
class AnyClassUnitTerms:
    """`UnitTerms` that name no class."""

    price_max: Balance
    racers: U8
    input_root: Hash
    input_commitment: Hash
    sealed_at: BlockNumber
    tokens_max: U32
    requests: U32
    tokens_in: U32


@struct
class AnyClassUnit:
    """`Unit`."""

    service: ServiceId
    customer: AccountId
    terms: AnyClassUnitTerms
    escrow: Balance
    bond: Balance
    deposit: Balance
    posted_at: BlockNumber
    recorded_at: BlockNumber
    state: UnitState
    attempt: U32
    price: Balance
    round: Round | None
    racers: Annotated[tuple[Racer, ...], Bounded(RACERS_MAX)]
    decliners: Annotated[tuple[Racer, ...], Bounded(DECLINERS_MAX)]
    declined_by: Annotated[tuple[AccountId, ...], Bounded(DECLINES_MAX)]
    output_root: Hash | None
    paid: Balance
    ended_at: BlockNumber
    is_watched: bool
    is_refuted: bool
    asleep_since: BlockNumber
    input_share: U32
    rules: UnitRules
    is_refilling: bool
    refund: Refund | None
    leaf_audit_ppm: U32


def migrate(overlay: Overlay) -> int:
    """Bring services and units into the form of now; how many there are."""
    units = storage_prefix("InferenceMarket", "Units")
    return services(overlay) + rewritten(overlay, units, AnyClassUnit, Unit, lambda _, before: _unit(before))


def services(overlay: Overlay) -> int:
    """Bring services into the form of now; how many there are."""
    prefix = storage_prefix("InferenceMarket", "Services")
    return rewritten(overlay, prefix, AnyClassService, Service, lambda _, before: _service(before))


def _service(before: AnyClassService) -> Service:
    return Service(**kept(before) | {"terms": ServiceTerms(**kept(before.terms))})


def _unit(before: AnyClassUnit) -> Unit:
    return Unit(**kept(before) | {"terms": UnitTerms(**kept(before.terms))})
