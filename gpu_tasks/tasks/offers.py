"""The offers of a chain: each offer of a device for a service, in a row with the fields for queries.

Invariant: a row has only the chain's state of device and offer at one block. A provider's claims are apart, in
`claims`. Rows are in the order of their prices.
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
    """The readiness of a device for work."""

    FREE = "free"
    WORKING = "working"
    PAUSED = "paused"
    UNPROVEN = "unproven"
    """The device has proven less than its class claims, and gets no work."""


@dataclass(frozen=True, slots=True)
class DeviceClaims:
    """A provider's signed claims about a device and its machine. Empty or 0 means no claim."""

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
    """The workload's name, or None for one that this program does not know."""
    provider: bytes
    device: bytes
    kind: DeviceClass
    price: int
    """The device's lowest price for a unit."""
    bond: int
    free_bond: int
    """The part of the bond that secures no unit."""
    state: DeviceState
    since: int
    """The block of this price."""
    reliability_ppm: int | None = None
    """From the chain's history of the provider's tasks, in millionths. None if it was not read."""
    claims: DeviceClaims | None = None
    """None if the provider was not asked, or its answer was invalid."""
    proven: int | None = None
    """Throughput at the last roll call, in thousand millions of operations a slot. None if no roll call is in force."""


def rows_of(
    statuses: Iterable[DeviceStatus], services: Mapping[int, Service], rates: ProvenRates = NOT_ASKED
) -> list[OfferRow]:
    """Return all offers for open services, the cheapest first."""
    rows = []
    for status in statuses:
        device = status.device
        for service_number, offer in status.offers:
            service = services.get(service_number)
            # A closed service takes no more units, so its offers are none.
            if service is None or not service.is_open:
                continue
            rows.append(
                OfferRow(
                    service=service_number,
                    workload=registry.workload_name(service.terms.workload),
                    provider=device.owner,
                    device=status.id,
                    kind=device.kind,
                    price=offer.ask,
                    bond=device.bond,
                    # A slash can leave less bond than the units of a device need.
                    free_bond=max(0, device.bond - device.secured),
                    state=state_of(device, has_proven=rates.has_proven(status.id, device.kind)),
                    since=offer.since,
                    proven=rates.proven.get(status.id, 0) if rates.in_force else None,
                )
            )
    return sorted(rows, key=lambda row: (row.price, row.service, row.device))


def state_of(device: Device, *, has_proven: bool) -> DeviceState:
    """Return the readiness of a device for work."""
    if device.is_paused:
        return DeviceState.PAUSED
    if not has_proven:
        return DeviceState.UNPROVEN
    return DeviceState.FREE if device.assignment is None else DeviceState.WORKING
