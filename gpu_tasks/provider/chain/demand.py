"""Demand in services, and a provider's eligibility, computed with the market's own rules over its state.

Only the oldest few waiting units count, because the market retries them in this order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from gpu_tasks.batches.requests import price_of, rate_of
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.ids import unit_of
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.classes import ALL_CLASSES, classes_of
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import ServiceTerms
from gpu_tasks.market.inference.units import Unit
from runtime.frame.runtime import Bound
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from wallet.client import ChainClient
from wallet.trial import over_state

SLEEPERS_SEEN = 4
"""The waiting units read for each service. Each costs a read."""


@dataclass(frozen=True, slots=True)
class WaitingUnit:
    """The present requirements of a unit that found no racers."""

    rate: int
    """The highest ask within its price, in grains per thousand output tokens."""
    collateral: int
    """Grains of the bond for one racer."""
    classes: tuple[DeviceClass, ...] = ALL_CLASSES
    """Device classes that may race for it at present."""


@dataclass(frozen=True, slots=True)
class ServiceDemand:
    """The open units of a service, and some of those that found no racers."""

    open_units: int
    waiting: tuple[WaitingUnit, ...] = ()


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand for one provider."""

    may_work: bool = True
    """True if its stash is a candidate with a provider record. Otherwise it is never drawn."""
    services: Mapping[int, ServiceDemand] = field(default_factory=dict)


async def demand(client: ChainClient, stash: bytes, services: Collection[int]) -> Demand:
    """Return the demand for a provider in some services, in the final state."""
    block_hash = await client.finalized()
    return await over_state(client, block_hash, lambda state: demand_of(state, stash, services))


def demand_of(state: Bound, stash: bytes, services: Iterable[int]) -> Demand:
    """Return the demand for a provider in some services, in a given state. Closed services are left out."""
    market_state, height = state[InferenceMarket], state[System].number.get()
    may_work = state[TrustStake].is_candidate(stash) and state[Devices].providers[stash] is not None
    demand_by_service: dict[int, ServiceDemand] = {}
    for service_number in services:
        service = market_state.services[service_number]
        if service is None:
            continue
        # A service without open units has no waiting ones, which saves a read.
        sleeping_units = market_state.waiting_unit_count[service_number] if service.open_units else 0
        # Ordered by the block of posting, so these are the units that the market retries first.
        waiting_keys = (
            islice((waiting_key for waiting_key, _ in market_state.waiting_units.under(service_number)), SLEEPERS_SEEN)
            if sleeping_units
            else ()
        )
        unit_records = (market_state.units[unit_of(waiting_key)] for waiting_key in waiting_keys)
        waiting_units = tuple(_waiting_unit(service.terms, unit, height) for unit in unit_records if unit is not None)
        demand_by_service[service_number] = ServiceDemand(service.open_units, waiting_units)
    return Demand(may_work, demand_by_service)


def _waiting_unit(terms: ServiceTerms, unit: Unit, height: int) -> WaitingUnit:
    work_allowed = money.work_allowed(unit)
    floor_price = price_of(terms.price_min, work_allowed)
    asked_price = money.ramped_price(floor_price, unit.terms.price_max, height - unit.posted_at, terms.ramp)
    collateral = money.collateral(unit.rules, asked_price, unit.terms.racers, unit.terms.requests)
    return WaitingUnit(rate_of(asked_price, work_allowed), collateral, classes_of(unit, terms.ramp))
