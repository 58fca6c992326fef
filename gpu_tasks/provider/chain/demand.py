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
    at = await client.finalized()
    return await over_state(client, at, lambda bound: demand_of(bound, stash, services))


def demand_of(bound: Bound, stash: bytes, services: Iterable[int]) -> Demand:
    """Return the demand for a provider in some services, in a given state. Closed services are left out."""
    market, height = bound[InferenceMarket], bound[System].number.get()
    may_work = bound[TrustStake].is_candidate(stash) and bound[Devices].providers[stash] is not None
    found: dict[int, ServiceDemand] = {}
    for number in services:
        service = market.services[number]
        if service is None:
            continue
        # A service without open units has no waiting ones, which saves a read.
        slept = market.waiting_unit_count[number] if service.open_units else 0
        # Ordered by the block of posting, so these are the units that the market retries first.
        keys = islice((key for key, _ in market.waiting_units.under(number)), SLEEPERS_SEEN) if slept else ()
        units = (market.units[unit_of(key)] for key in keys)
        waiting = tuple(_asked(service.terms, unit, height) for unit in units if unit is not None)
        found[number] = ServiceDemand(service.open_units, waiting)
    return Demand(may_work, found)


def _asked(terms: ServiceTerms, unit: Unit, height: int) -> WaitingUnit:
    work = money.work_allowed(unit)
    floor = price_of(terms.price_min, work)
    price = money.ramped_price(floor, unit.terms.price_max, height - unit.posted_at, terms.ramp)
    return WaitingUnit(rate_of(price, work), money.collateral(unit.rules, price), classes_of(unit, terms.ramp))
