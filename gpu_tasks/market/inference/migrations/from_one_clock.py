"""Storage version 2 of InferenceMarket: each racer has a clock, which begins when its device turns to the unit.

Under the program before, a device was drawn for a unit only when it had no other. Always: whoever races has as long as
it had; nothing of it is checked by leaves; nothing else changes.
"""

from dataclasses import replace
from typing import Annotated

from gpu_tasks.market.ids import DeviceId, ServiceId
from gpu_tasks.market.inference.migrations.from_any_class import AnyClassUnitTerms, services
from gpu_tasks.market.inference.rules import UnitRules
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
from runtime.encoding.codec import U32, Bounded, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.storage import storage_prefix
from runtime.frame.storage_version import kept, rewritten
from runtime.state.overlay import Overlay


@struct
class OneClockRacer:
    """`Racer`, of whom all began together."""

    owner: AccountId
    device: DeviceId
    collateral: Balance
    commitment: Hash | None
    committed_at: BlockNumber
    reveal: Reveal | None
    has_declined: bool
    is_late: bool


@struct
class OneClockUnit:
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
    racers: Annotated[tuple[OneClockRacer, ...], Bounded(RACERS_MAX)]
    decliners: Annotated[tuple[OneClockRacer, ...], Bounded(DECLINERS_MAX)]
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


def migrate(overlay: Overlay) -> int:
    """Bring services and units into the form of now; how many there are."""
    prefix = storage_prefix("InferenceMarket", "Units")
    return services(overlay) + rewritten(overlay, prefix, OneClockUnit, Unit, lambda _, before: _unit(before))


def begun(unit: Unit) -> Unit:
    """A unit whose racers all began at its draw."""
    if unit.round is None:
        return unit
    drawn_at = unit.round.drawn_at
    return replace(unit, racers=tuple(replace(racer, started_at=drawn_at) for racer in unit.racers))


def _unit(before: OneClockUnit) -> Unit:
    changed = {
        "terms": UnitTerms(**kept(before.terms)),
        "racers": tuple(Racer(**kept(racer)) for racer in before.racers),
        "decliners": tuple(Racer(**kept(racer)) for racer in before.decliners),
    }
    return begun(Unit(**kept(before) | changed))
