"""What providers and customers ask a node about the market, typed. `at` is a block's hash; None is the best block."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_tasks.data.endpoint import parse_endpoint
from gpu_tasks.market.api import DeviceStatus, DutyStatus, InputReader, Quote, UnitStatus
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import Service
from gpu_tasks.market.inference.units import Unit
from runtime.pallets.sudo import Sudo
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


async def devices_of(chain: ChainClient, owner: bytes, at: bytes | None = None) -> tuple[DeviceStatus, ...]:
    """One provider's devices: nobody else's crowd them out."""
    table: tuple[DeviceStatus, ...] = await chain.query("GpuTasksApi_devices_of", owner, at=at)
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
    item = chain.runtime.item(InferenceMarket.units)
    keys = ["0x" + item.key(unit_id).hex() for unit_id in ids]
    stored: dict[str, str | None] = {}
    for start in range(0, len(keys), PAGE):
        answer = await chain.rpc.call("state_queryStorageAt", keys[start : start + PAGE], _hex(at))
        stored.update(answer[0]["changes"])
    raws = [stored[key] for key in keys]
    return [None if raw is None else item.decode(bytes.fromhex(raw[2:])) for raw in raws]


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
    item = chain.runtime.item(Devices.providers)
    keys: list[str] = []
    while len(keys) < PROVIDERS_MAX:
        page = await chain.rpc.call("state_getKeysPaged", _hex(item.prefix), PAGE, keys[-1] if keys else None, _hex(at))
        keys += page
        if len(page) < PAGE:
            break
    if not keys:
        return {}
    answer = await chain.rpc.call("state_queryStorageAt", keys[:PROVIDERS_MAX], _hex(at))
    return {
        bytes.fromhex(key[-64:]): item.decode(bytes.fromhex(raw[2:]))
        for key, raw in answer[0]["changes"]
        if raw is not None
    }


def endpoints_of(providers: dict[bytes, Provider]) -> list[str]:
    """The addresses of all blob stores, as text; those that are none are left out."""
    found = (endpoint_of(provider) for provider in providers.values())
    return [endpoint for endpoint in found if endpoint is not None]


def endpoint_of(provider: Provider) -> str | None:
    """The address of a provider's blob store; None for bytes that are none."""
    try:
        return parse_endpoint(provider.endpoint.decode("ascii")).url
    except ValueError:
        return None


def is_development(chain: ChainClient) -> bool:
    """Whether this is a chain for development, where stores may be on the own machine."""
    return Sudo in chain.runtime.pallets


def _hex(data: bytes | None) -> str | None:
    return None if data is None else "0x" + data.hex()
