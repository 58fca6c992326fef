"""Small made-up devices with offers, services and units, for tests of customers' look-ups."""

from dataclasses import replace
from typing import Any

from gpu_tasks.market.devices.records import Device, DeviceClass
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.market.inference.services import Offer, Service, ServiceTerms
from gpu_tasks.workloads import model_forms

OGPU = 100_000_000


def name(number: int) -> bytes:
    """An account or an id."""
    return bytes([number]) * 32


def service(workload: bytes = model_forms.PACKAGE_FORMS[0].workload_id, **changes: Any) -> Service:
    """A service that is open."""
    terms = ServiceTerms(b"any", workload, bytes(32), 1, OGPU, ramp=1, commit_window=10, tokens_max=64)
    return replace(Service(name(9), terms, 0), **changes)


def device(number: int, asks: dict[int, int] | None = None, **changes: Any) -> DeviceStatus:
    """Return the free device of owner `number`, with a bond of 100 oGPU. `asks` are prices by service."""
    plain = Device(name(number), DeviceClass.CPU, name(number), 100 * OGPU, registered_at=1, changed_at=1)
    offers = tuple((service, Offer(ask, since=5)) for service, ask in sorted((asks or {}).items()))
    return DeviceStatus(name(100 + number), replace(plain, **changes), offers)
