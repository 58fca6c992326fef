"""What providers and customers ask a node about the market, typed. `at` is a block's hash; None is the best block."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_tasks.market.api import DeviceStatus, DutyStatus, InputReader, Quote, UnitStatus
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import Service
from gpu_tasks.market.inference.units import Unit
from wallet.client import ChainClient

PAGE = 500
PROVIDERS_MAX = 4_096


async def services(chain: ChainClient, at: bytes | None = None) -> dict[int, Service]:
    """All services by number."""
    return dict(await chain.query("GpuTasksApi_services", at=at))


async def devices(chain: ChainClient, at: bytes | None = None) -> tuple[DeviceStatus, ...]:
    """The device table, by ascending owner."""
    table: tuple[DeviceStatus, ...] = await chain.query("GpuTasksApi_devices", at=at)
    return table


async def readers(chain: ChainClient, service: int, at: bytes | None = None) -> tuple[InputReader, ...]:
    """Whom to seal an input to: those who may judge, then those who may race."""
    found: tuple[InputReader, ...] = await chain.query("GpuTasksApi_readers", service, at=at)
    return found


async def duties(chain: ChainClient, stash: bytes, at: bytes | None = None) -> tuple[DutyStatus, ...]:
    """What a provider has to do."""
    found: tuple[DutyStatus, ...] = await chain.query("GpuTasksApi_duties", stash, at=at)
    return found


async def unit(chain: ChainClient, unit_id: bytes, at: bytes | None = None) -> UnitStatus | None:
    """A unit; None where the chain does not know it, or not any more."""
    found: UnitStatus | None = await chain.query("GpuTasksApi_unit", unit_id, at=at)
    return found


async def units(chain: ChainClient, ids: Sequence[bytes], at: bytes | None = None) -> list[Unit | None]:
    """Many units with few questions; None for those that the chain does not know."""
    known = chain.runtime.item(InferenceMarket.units)
    keys = ["0x" + known.key(one).hex() for one in ids]
    stored: dict[str, str | None] = {}
    for start in range(0, len(keys), PAGE):
        answer = await chain.rpc.call("state_queryStorageAt", keys[start : start + PAGE], _hex(at))
        stored.update(answer[0]["changes"])
    raws = [stored[key] for key in keys]
    return [None if raw is None else known.decode(bytes.fromhex(raw[2:])) for raw in raws]


async def stash_of(chain: ChainClient, provider_key: bytes, at: bytes | None = None) -> bytes | None:
    """The stash that a provider key works for."""
    found: bytes | None = await chain.query("GpuTasksApi_provider_stash", provider_key, at=at)
    return found


async def quote(chain: ChainClient, service: int, price_max: int, racers: int) -> Quote | None:
    """What one unit would lock and cost; None if there is no such service."""
    found: Quote | None = await chain.query("GpuTasksApi_quote", service, price_max, racers)
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


def _hex(data: bytes | None) -> str | None:
    return None if data is None else "0x" + data.hex()
