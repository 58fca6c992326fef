"""What units cost now: for each service and class of devices the lowest ask, the median, and what was last paid.

Always: an ask of a paused device counts for nothing; a median is an ask that somebody makes, of an even number the
lower of the two in the middle, so nothing is averaged or rounded.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.tasks.offers import DeviceState, OfferRow


@dataclass(frozen=True, slots=True)
class SettledUnit:
    """A unit that was paid: by which kind of device, for how much, in which block."""

    service: int
    kind: DeviceClass
    price: int
    block: int


@dataclass(frozen=True, slots=True)
class PriceRow:
    """Prices of a service's units on a class of devices, in grains."""

    service: int
    workload: str | None
    kind: DeviceClass
    offers: int
    """Of devices that are neither paused nor unproven."""
    free: int
    lowest: int | None
    median: int | None
    last: SettledUnit | None
    """None: none of late."""


def price_rows(offers: Iterable[OfferRow], settled: Sequence[SettledUnit]) -> list[PriceRow]:
    """A row for each service and class that somebody offers or was paid for, in their order."""
    groups: dict[tuple[int, DeviceClass], list[OfferRow]] = {(unit.service, unit.kind): [] for unit in settled}
    workloads: dict[int, str | None] = {}
    for offer in offers:
        workloads[offer.service] = offer.workload
        group = groups.setdefault((offer.service, offer.kind), [])
        if offer.state in {DeviceState.FREE, DeviceState.WORKING}:
            group.append(offer)
    rows = []
    for (service, kind), group in sorted(groups.items()):
        asks = sorted(offer.price for offer in group)
        paid = [unit for unit in settled if (unit.service, unit.kind) == (service, kind)]
        rows.append(
            PriceRow(
                service=service,
                workload=workloads.get(service),
                kind=kind,
                offers=len(group),
                free=sum(offer.state is DeviceState.FREE for offer in group),
                lowest=asks[0] if asks else None,
                median=asks[(len(asks) - 1) // 2] if asks else None,
                last=max(paid, key=lambda unit: unit.block, default=None),
            )
        )
    return rows
