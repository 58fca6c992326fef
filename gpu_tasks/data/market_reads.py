"""What providers and customers ask a node about the market, typed. `at` is a block's hash; None is the best block."""

from __future__ import annotations

from typing import Annotated, Any

from gpu_tasks.market import api
from gpu_tasks.market.agenda import UNITS_OPEN_MAX
from gpu_tasks.market.api import DeviceStatus, DutyStatus, Quote, Reader, UnitStatus
from gpu_tasks.market.device_records import Provider
from gpu_tasks.market.devices import Devices
from gpu_tasks.market.services import SERVICES_MAX, Service
from gpu_tasks.market.units import ServiceId
from runtime.codec import U8, Bounded, codec
from runtime.types import AccountId, Balance, Hash
from wallet.client import ChainClient

PAGE = 500
PROVIDERS_MAX = 4_096

_SERVICES = codec(Annotated[tuple[tuple[ServiceId, Service], ...], Bounded(SERVICES_MAX)])
_DEVICES = codec(Annotated[tuple[DeviceStatus, ...], Bounded(api.DEVICES_MAX)])
_READERS = codec(Annotated[tuple[Reader, ...], Bounded(api.READERS_MAX)])
_DUTIES = codec(Annotated[tuple[DutyStatus, ...], Bounded(UNITS_OPEN_MAX)])
_STASH = codec(AccountId | None)
_UNIT = codec(UnitStatus | None)
_QUOTE = codec(Quote | None)


async def services(chain: ChainClient, at: bytes | None = None) -> dict[int, Service]:
    """All services by number."""
    return dict(await chain.ask("GpuTasksApi_services", b"", _SERVICES, at))


async def devices(chain: ChainClient, at: bytes | None = None) -> tuple[DeviceStatus, ...]:
    """The device table, by ascending owner."""
    table: tuple[DeviceStatus, ...] = await chain.ask("GpuTasksApi_devices", b"", _DEVICES, at)
    return table


async def readers(chain: ChainClient, service: int, at: bytes | None = None) -> tuple[Reader, ...]:
    """Whom to seal an input to: those who may judge, then those who may race."""
    found: tuple[Reader, ...] = await chain.ask("GpuTasksApi_readers", _arguments((ServiceId, service)), _READERS, at)
    return found


async def duties(chain: ChainClient, stash: bytes, at: bytes | None = None) -> tuple[DutyStatus, ...]:
    """What a provider has to do."""
    found: tuple[DutyStatus, ...] = await chain.ask("GpuTasksApi_duties", _arguments((AccountId, stash)), _DUTIES, at)
    return found


async def unit(chain: ChainClient, unit_id: bytes, at: bytes | None = None) -> UnitStatus | None:
    """A unit; None where the chain does not know it, or not any more."""
    found: UnitStatus | None = await chain.ask("GpuTasksApi_unit", _arguments((Hash, unit_id)), _UNIT, at)
    return found


async def stash_of(chain: ChainClient, provider_key: bytes, at: bytes | None = None) -> bytes | None:
    """The stash that a provider key works for."""
    found: bytes | None = await chain.ask(
        "GpuTasksApi_provider_stash", _arguments((AccountId, provider_key)), _STASH, at
    )
    return found


async def quote(chain: ChainClient, service: int, price_max: int, racers: int) -> Quote | None:
    """What one unit would lock and cost; None if there is no such service."""
    arguments = _arguments((ServiceId, service), (Balance, price_max), (U8, racers))
    found: Quote | None = await chain.ask("GpuTasksApi_quote", arguments, _QUOTE)
    return found


async def providers(chain: ChainClient, at: bytes | None = None) -> dict[bytes, Provider]:
    """All providers by stash: how they are reached, and their keys."""
    known = chain.runtime.item(Devices.providers)
    found: list[str] = []
    while len(found) < PROVIDERS_MAX:
        page = await chain.rpc.call(
            "state_getKeysPaged", _hex(known.prefix), PAGE, found[-1] if found else None, _hex(at)
        )
        found += page
        if len(page) < PAGE:
            break
    answer = await chain.rpc.call("state_queryStorageAt", found[:PROVIDERS_MAX], _hex(at)) if found else []
    changes = answer[0]["changes"] if answer else []
    return {bytes.fromhex(key[-64:]): known.decode(bytes.fromhex(raw[2:])) for key, raw in changes if raw is not None}


def endpoints_of(known: dict[bytes, Provider]) -> list[str]:
    """The addresses of all blob stores, as text."""
    return [one.endpoint.decode("ascii") for one in known.values()]


def _arguments(*pairs: tuple[Any, Any]) -> bytes:
    return b"".join(codec(kind).encode(value) for kind, value in pairs)


def _hex(data: bytes | None) -> str | None:
    return None if data is None else "0x" + data.hex()
