"""What is on offer: each offer of a device for a service, in a row with the fields that a query can ask for.

Always: a row says what the chain says of device and offer at one block, and nothing of its own; what a provider claims
stands apart, in `claims`; rows stand in the order of their prices.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from gpu_tasks.market.capacity.standing import NOT_ASKED, ProvenRates
from gpu_tasks.market.devices.records import Device, DeviceClass
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.market.inference.services import Service
from gpu_tasks.workloads import registry


class DeviceState(Enum):
    """Whether a device takes work now."""

    FREE = "free"
    WORKING = "working"
    PAUSED = "paused"
    UNPROVEN = "unproven"
    """It has proven less than its class claims, and gets no work."""


@dataclass(frozen=True, slots=True)
class DeviceClaims:
    """What a provider says of a device and its machine: its word, signed. Empty or 0 is what it does not say."""

    vendor: str
    model: str
    vram_mib: int
    driver: str
    platform: str
    platform_version: str
    processor: str
    cores: int
    memory_mib: int
    disk_free_mib: int
    down_kbit: int
    up_kbit: int


@dataclass(frozen=True, slots=True)
class OfferRow:
    """A device's offer for a service. Amounts are grains."""

    service: int
    workload: str | None
    """By its name; None for one that this program does not know."""
    provider: bytes
    device: bytes
    kind: DeviceClass
    price: int
    """The lowest that it takes for a unit."""
    bond: int
    free_bond: int
    """What of the bond secures no unit."""
    state: DeviceState
    since: int
    """The block in which this price was named."""
    reliability_ppm: int | None = None
    """By the chain's history of the provider's tasks, in millionths; None where it was not read."""
    claims: DeviceClaims | None = None
    """None where nothing was asked, or no answer counted."""
    proven: int | None = None
    """Its throughput at the last roll call, in thousand millions of operations a slot; None where none is in force."""


def rows_of(
    devices: Iterable[DeviceStatus], services: Mapping[int, Service], rates: ProvenRates = NOT_ASKED
) -> list[OfferRow]:
    """All offers for services that are open, the cheapest first."""
    rows = []
    for status in devices:
        device = status.device
        for number, offer in status.offers:
            service = services.get(number)
            if service is None or not service.is_open:
                continue
            form = registry.form_of(service.terms.workload)
            rows.append(
                OfferRow(
                    service=number,
                    workload=None if form is None else form.name,
                    provider=device.owner,
                    device=status.id,
                    kind=device.kind,
                    price=offer.ask,
                    bond=device.bond,
                    free_bond=max(0, device.bond - device.secured),
                    state=state_of(device, has_proven=not rates.why_not(status.id, device.kind)),
                    since=offer.since,
                    proven=rates.proven.get(status.id, 0) if rates.in_force else None,
                )
            )
    return sorted(rows, key=lambda row: (row.price, row.service, row.device))


def state_of(device: Device, *, has_proven: bool) -> DeviceState:
    """Whether a device takes work now."""
    if device.is_paused:
        return DeviceState.PAUSED
    if not has_proven:
        return DeviceState.UNPROVEN
    return DeviceState.FREE if device.assignment is None else DeviceState.WORKING
