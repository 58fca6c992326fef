"""Typed reads of the market for providers and customers.

Invariant: all reads go through the given client, so a `VerifiedClient` proves every answer, and that no list lacks an
entry. `at` is a block's hash. None stands for the newest final block, or for the best block of a client that trusts its
node. Values of one service or of some devices are read by the listed keys. A whole list is proved in pages, and refused
beyond `ENTRIES_BYTES_MAX` of `wallet.proved.view`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpu_tasks.data.endpoint import parse_endpoint
from gpu_tasks.data.sealing import is_usable
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import Device, Provider
from gpu_tasks.market.inference.checkers_left import CheckersLeft, checkers_needed
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus, DutyStatus, InputReader, Quote, UnitStatus
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import Offer, Service
from gpu_tasks.market.inference.units import Unit
from runtime.frame.storage import StorageItem
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.sudo import Sudo
from wallet.client import ChainClient
from wallet.proved.keys import map_keys


async def services(chain: ChainClient, at: bytes | None = None) -> dict[int, Service]:
    """Return all services by number."""
    return {
        service_number: service for (service_number,), service in await entries(chain, InferenceMarket.services, at=at)
    }


async def service(chain: ChainClient, service_number: int, at: bytes | None = None) -> Service | None:
    """Return one service, or None for an unknown number."""
    offered_service: Service | None = await chain.read(InferenceMarket.services, service_number, at=at)
    return offered_service


async def devices(chain: ChainClient, at: bytes | None = None) -> tuple[DeviceStatus, ...]:
    """Return the device table, by ascending owner."""
    at = await chain.finalized() if at is None else at
    stored = await entries(chain, Devices.devices, at=at)
    offers = await entries(chain, InferenceMarket.offers, at=at)
    return _device_table({device_id: device for (device_id,), device in stored}, offers)


async def devices_of(chain: ChainClient, owner: bytes, at: bytes | None = None) -> tuple[DeviceStatus, ...]:
    """Return one provider's devices, which other providers' devices cannot displace."""
    at = await chain.finalized() if at is None else at
    stored = await entries(chain, Devices.devices, at=at)
    return await with_offers(
        chain,
        {device_id: device for (device_id,), device in stored if device.owner == owner},
        at,
    )


async def with_offers(chain: ChainClient, devices: dict[bytes, Device], at: bytes) -> tuple[DeviceStatus, ...]:
    """Return some devices with their offers, read by the keys that each device lists."""
    offered = await chain.read_many(InferenceMarket.device_offers, list(devices), at=at)
    keys = [
        (service_number, device_id)
        for device_id, numbers in zip(devices, offered, strict=True)
        for service_number in sorted(numbers)
    ]
    offers = await chain.read_many(InferenceMarket.offers, keys, at=at)
    return _device_table(
        devices,
        [(key, offer) for key, offer in zip(keys, offers, strict=True) if offer is not None],
    )


async def devices_for(chain: ChainClient, service_number: int, at: bytes | None = None) -> tuple[DeviceStatus, ...]:
    """Return the devices that offer a service, with that offer alone. The chain bounds their number."""
    at = await chain.finalized() if at is None else at
    offers = await entries(chain, InferenceMarket.offers, service_number, at=at)
    device_ids = [device_id for (_, device_id), _ in offers]
    devices = await chain.read_many(Devices.devices, device_ids, at=at)
    return _device_table(
        {device_id: device for device_id, device in zip(device_ids, devices, strict=True) if device is not None},
        offers,
    )


async def readers(chain: ChainClient, service_number: int, at: bytes | None = None) -> tuple[InputReader, ...]:
    """Return the readers of a service's inputs: possible checkers, then possible racers."""
    input_readers: tuple[InputReader, ...] = await chain.query("GpuTasksApi_readers", service_number, at=at)
    return input_readers


def keys_at(readers: Iterable[InputReader], height: int) -> list[bytes]:
    """Return the seal keys for an input of that height: usable keys that their readers had by then."""
    return [reader.seal_key for reader in readers if reader.key_since <= height and is_usable(reader.seal_key)]


async def checking_readers(chain: ChainClient, at: bytes | None = None) -> tuple[InputReader, ...]:
    """Return the possible checkers of the current and next active set, each with the block from which it must read."""
    readers: tuple[InputReader, ...] = await chain.query("GpuTasksApi_checking_readers", at=at)
    return readers


async def checkers_left(chain: ChainClient, readers: Iterable[InputReader], at: bytes | None = None) -> CheckersLeft:
    """Return a service's readers in the active set, who may vote, and the number of them that a race must leave."""
    weights = {seat.stash: seat.weight for seat in await chain.read(TrustStake.active_set, at=at)}
    least_checkers = checkers_needed(len(weights))
    key_since_by_stash = {reader.stash: reader.key_since for reader in readers if reader.stash in weights}
    return CheckersLeft(least_checkers, key_since_by_stash, weights if least_checkers else {})


async def duties(chain: ChainClient, stash: bytes, at: bytes | None = None) -> tuple[DutyStatus, ...]:
    """Return the races that a provider was drawn for."""
    race_duties: tuple[DutyStatus, ...] = await chain.query("GpuTasksApi_duties", stash, at=at)
    return race_duties


async def unit(chain: ChainClient, unit_id: bytes, at: bytes | None = None) -> UnitStatus | None:
    """Return a unit, or None if the chain never had it or dropped it."""
    unit_status: UnitStatus | None = await chain.query("GpuTasksApi_unit", unit_id, at=at)
    return unit_status


async def units(chain: ChainClient, unit_ids: Sequence[bytes], at: bytes | None = None) -> list[Unit | None]:
    """Return many units with few queries, None for each that the chain does not have."""
    return await chain.read_many(InferenceMarket.units, unit_ids, at=at)


async def stash_of(chain: ChainClient, provider_key: bytes, at: bytes | None = None) -> bytes | None:
    """Return the stash of a provider key."""
    stash: bytes | None = await chain.query("GpuTasksApi_provider_stash", provider_key, at=at)
    return stash


async def provider_key_of(chain: ChainClient, stash: bytes, at: bytes | None = None) -> bytes | None:
    """Return the provider key of a stash."""
    # At a final block by default: a retracted one may have named another key.
    candidate = await chain.read(TrustStake.candidates, stash, at=await chain.finalized() if at is None else at)
    return None if candidate is None else bytes(candidate.provider_key)


async def quote(
    chain: ChainClient, service_number: int, price_max: int, racer_count: int, at: bytes | None = None
) -> Quote | None:
    """Return the locked amount and the cost of one unit, or None if there is no such service."""
    unit_quote: Quote | None = await chain.query("GpuTasksApi_quote", service_number, price_max, racer_count, at=at)
    return unit_quote


async def providers(chain: ChainClient, at: bytes | None = None) -> dict[bytes, Provider]:
    """Return all providers by stash, with their endpoints and keys."""
    return {stash: provider for (stash,), provider in await entries(chain, Devices.providers, at=at)}


async def provider(chain: ChainClient, stash: bytes, at: bytes | None = None) -> Provider | None:
    """Return one provider's record, or None if the stash is no provider."""
    provider_record: Provider | None = await chain.read(Devices.providers, stash, at=at)
    return provider_record


def endpoints_of(providers: dict[bytes, Provider]) -> list[str]:
    """Return the addresses of all blob stores, as text, without invalid ones."""
    store_addresses = (endpoint_of(provider) for provider in providers.values())
    return [endpoint for endpoint in store_addresses if endpoint is not None]


def endpoint_of(provider: Provider) -> str | None:
    """Return the address of a provider's blob store, or None for invalid bytes."""
    try:
        return parse_endpoint(provider.endpoint.decode("ascii")).url
    except ValueError:
        return None


def is_development(chain: ChainClient) -> bool:
    """Return True for a development chain, where stores may be on the own machine."""
    return Sudo in chain.runtime.pallets


async def entries(
    chain: ChainClient, item: StorageItem, *prefix: Any, at: bytes | None
) -> list[tuple[tuple[Any, ...], Any]]:
    """Return the entries of a map, by ascending keys."""
    stored, item_type = await chain.entries(item, *prefix, at=at), chain.runtime.item(item)
    with chain.rpc.understanding("state_getKeysPaged"):
        keyed = [(map_keys(item_type, storage_key), value) for storage_key, value in stored.items()]
    return sorted(keyed, key=lambda entry: entry[0])


def _device_table(
    devices: dict[bytes, Device], offers: Sequence[tuple[tuple[Any, ...], Offer]]
) -> tuple[DeviceStatus, ...]:
    """Return devices with their offers, by ascending owner and device."""
    offers_by_id: dict[bytes, list[tuple[int, Offer]]] = {device_id: [] for device_id in devices}
    for (service_number, device_id), offer in offers:
        if device_id in offers_by_id:
            offers_by_id[device_id].append((service_number, offer))
    ordered = sorted(devices.items(), key=lambda entry: (entry[1].owner, entry[0]))
    return tuple(DeviceStatus(device_id, device, tuple(offers_by_id[device_id])) for device_id, device in ordered)
