"""What providers and customers ask a node about the market, typed.

Always: what is asked goes through the reads of the client that is given, so a `VerifiedClient` proves every answer, and
lists with nothing left out; `at` is a block's hash, None the newest final block (of a client that believes its node the
best one). What one service or some devices need is read by the keys listed; a whole list is proved in
pages, and refused beyond `ENTRIES_BYTES_MAX` of `wallet.proved.view`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpu_tasks.data.endpoint import parse_endpoint
from gpu_tasks.data.sealing import is_usable
from gpu_tasks.market.courts.cases import JudgeSeat
from gpu_tasks.market.courts.courts_api import CaseStatus, SeatStatus
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import Device, Provider
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus, DutyStatus, InputReader, Quote, UnitStatus
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.judges_left import JudgesLeft, judges_needed
from gpu_tasks.market.inference.services import Offer, Service
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.market.leaf_checks.checks import LeafCheck
from gpu_tasks.market.leaf_checks.leaf_checks_api import CheckStatus
from gpu_tasks.market.leaf_disputes.disputes import LeafDispute
from gpu_tasks.market.leaf_disputes.leaf_disputes_api import DisputeStatus
from runtime.frame.storage import StorageItem
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.sudo import Sudo
from wallet.client import ChainClient
from wallet.proved.keys import map_keys


async def services(chain: ChainClient, at: bytes | None = None) -> dict[int, Service]:
    """All services by number."""
    return {number: service for (number,), service in await entries(chain, InferenceMarket.services, at=at)}


async def service(chain: ChainClient, number: int, at: bytes | None = None) -> Service | None:
    """One service; None where there is none of that number."""
    found: Service | None = await chain.read(InferenceMarket.services, number, at=at)
    return found


async def devices(chain: ChainClient, at: bytes | None = None) -> tuple[DeviceStatus, ...]:
    """The device table, by ascending owner."""
    at = await chain.finalized() if at is None else at
    found = await entries(chain, Devices.devices, at=at)
    offers = await entries(chain, InferenceMarket.offers, at=at)
    return _table({device: stored for (device,), stored in found}, offers)


async def devices_of(chain: ChainClient, owner: bytes, at: bytes | None = None) -> tuple[DeviceStatus, ...]:
    """One provider's devices: nobody else's crowd them out."""
    at = await chain.finalized() if at is None else at
    found = await entries(chain, Devices.devices, at=at)
    return await with_offers(chain, {device: stored for (device,), stored in found if stored.owner == owner}, at)


async def with_offers(chain: ChainClient, devices: dict[bytes, Device], at: bytes) -> tuple[DeviceStatus, ...]:
    """Some devices with their offers, which are read by the keys that each lists."""
    offered = await chain.read_many(InferenceMarket.device_offers, list(devices), at=at)
    pairs = [(number, device) for device, numbers in zip(devices, offered, strict=True) for number in sorted(numbers)]
    offers = await chain.read_many(InferenceMarket.offers, pairs, at=at)
    return _table(devices, [(pair, offer) for pair, offer in zip(pairs, offers, strict=True) if offer is not None])


async def devices_for(chain: ChainClient, number: int, at: bytes | None = None) -> tuple[DeviceStatus, ...]:
    """The devices that offer a service, with that offer alone; the chain bounds how many there are."""
    at = await chain.finalized() if at is None else at
    offers = await entries(chain, InferenceMarket.offers, number, at=at)
    names = [device for (_, device), _ in offers]
    stored = await chain.read_many(Devices.devices, names, at=at)
    return _table({name: device for name, device in zip(names, stored, strict=True) if device is not None}, offers)


async def readers(chain: ChainClient, service: int, at: bytes | None = None) -> tuple[InputReader, ...]:
    """Whom to seal an input to: those who may judge, then those who may race."""
    found: tuple[InputReader, ...] = await chain.query("GpuTasksApi_readers", service, at=at)
    return found


def keys_at(readers: Iterable[InputReader], height: int) -> list[bytes]:
    """What is sealed to in an input of that height: the keys of those who had them by then, if they are any."""
    return [reader.seal_key for reader in readers if reader.key_since <= height and is_usable(reader.seal_key)]


async def judging_readers(chain: ChainClient, at: bytes | None = None) -> tuple[InputReader, ...]:
    """Those in office or elected next who may judge, with the block since which each has to be among the readers."""
    found: tuple[InputReader, ...] = await chain.query("GpuTasksApi_judging_readers", at=at)
    return found


async def judges_left(chain: ChainClient, readers: Iterable[InputReader], at: bytes | None = None) -> JudgesLeft:
    """Those of a service's readers who are in office and may judge, and how many must stay outside a race."""
    stakes = {seat.stash: seat.weight for seat in await chain.read(TrustStake.active_set, at=at)}
    needed = judges_needed(len(stakes))
    since = {reader.stash: reader.key_since for reader in readers if reader.stash in stakes}
    return JudgesLeft(needed, since, stakes if needed else {})


async def duties(chain: ChainClient, stash: bytes, at: bytes | None = None) -> tuple[DutyStatus, ...]:
    """The races that a provider was drawn for."""
    found: tuple[DutyStatus, ...] = await chain.query("GpuTasksApi_duties", stash, at=at)
    return found


async def seats(chain: ChainClient, stash: bytes, at: bytes | None = None) -> tuple[SeatStatus, ...]:
    """The cases that a provider judges."""
    found: tuple[SeatStatus, ...] = await chain.query("CourtsApi_seats", stash, at=at)
    return found


async def case(chain: ChainClient, case_id: bytes, at: bytes | None = None) -> CaseStatus | None:
    """A case; None once it is over."""
    found: CaseStatus | None = await chain.query("CourtsApi_case", case_id, at=at)
    return found


async def judges(chain: ChainClient, case: bytes, at: bytes | None = None) -> tuple[tuple[bytes, JudgeSeat], ...]:
    """Who sits or sat in a case, with what each has said; nobody once it is over."""
    found: tuple[tuple[bytes, JudgeSeat], ...] = await chain.query("CourtsApi_judges", case, at=at)
    return found


async def checks(chain: ChainClient, stash: bytes, at: bytes | None = None) -> tuple[CheckStatus, ...]:
    """The checks of batches for which a provider shows leaves now, or computes them."""
    found: tuple[CheckStatus, ...] = await chain.query("LeafChecksApi_duties", stash, at=at)
    return found


async def check(chain: ChainClient, unit_id: bytes, at: bytes | None = None) -> LeafCheck | None:
    """The check of a batch by its leaves, while it goes on."""
    found: LeafCheck | None = await chain.query("LeafChecksApi_check", unit_id, at=at)
    return found


async def check_of_case(chain: ChainClient, case: bytes, at: bytes | None = None) -> CheckStatus | None:
    """The check of a batch that a case before the courts is about."""
    found: CheckStatus | None = await chain.query("LeafChecksApi_check_of_case", case, at=at)
    return found


async def disputes(chain: ChainClient, stash: bytes, at: bytes | None = None) -> tuple[DisputeStatus, ...]:
    """The disputes about batches in which a provider shows nodes of its tree now."""
    found: tuple[DisputeStatus, ...] = await chain.query("LeafDisputesApi_duties", stash, at=at)
    return found


async def dispute(chain: ChainClient, unit_id: bytes, at: bytes | None = None) -> LeafDispute | None:
    """The dispute about a batch whose racers differ; None where there is none, or none any more."""
    found: LeafDispute | None = await chain.query("LeafDisputesApi_dispute", unit_id, at=at)
    return found


async def unit(chain: ChainClient, unit_id: bytes, at: bytes | None = None) -> UnitStatus | None:
    """A unit; None where the chain does not know it, or not any more."""
    found: UnitStatus | None = await chain.query("GpuTasksApi_unit", unit_id, at=at)
    return found


async def units(chain: ChainClient, ids: Sequence[bytes], at: bytes | None = None) -> list[Unit | None]:
    """Many units with few questions; None for those that the chain does not know."""
    return await chain.read_many(InferenceMarket.units, ids, at=at)


async def stash_of(chain: ChainClient, provider_key: bytes, at: bytes | None = None) -> bytes | None:
    """The stash that a provider key works for."""
    found: bytes | None = await chain.query("GpuTasksApi_provider_stash", provider_key, at=at)
    return found


async def provider_key_of(chain: ChainClient, stash: bytes, at: bytes | None = None) -> bytes | None:
    """The provider key that works for a stash."""
    candidate = await chain.read(TrustStake.candidates, stash, at=await chain.finalized() if at is None else at)
    return None if candidate is None else bytes(candidate.provider_key)


async def quote(
    chain: ChainClient, number: int, price_max: int, racers: int, requests: int = 1, at: bytes | None = None
) -> Quote | None:
    """What one unit would lock and cost; None if there is no such service."""
    found: Quote | None = await chain.query("GpuTasksApi_quote", number, price_max, racers, requests, at=at)
    return found


async def providers(chain: ChainClient, at: bytes | None = None) -> dict[bytes, Provider]:
    """All providers by stash: how they are reached, and their keys."""
    return {stash: provider for (stash,), provider in await entries(chain, Devices.providers, at=at)}


async def provider(chain: ChainClient, stash: bytes, at: bytes | None = None) -> Provider | None:
    """How one provider is reached; None for who is none."""
    found: Provider | None = await chain.read(Devices.providers, stash, at=at)
    return found


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


async def entries(
    chain: ChainClient, item: StorageItem, *under: Any, at: bytes | None
) -> list[tuple[tuple[Any, ...], Any]]:
    """What a map holds, by ascending keys."""
    found, known = await chain.entries(item, *under, at=at), chain.runtime.item(item)
    with chain.rpc.understanding("state_getKeysPaged"):
        keyed = [(map_keys(known, key), value) for key, value in found.items()]
    return sorted(keyed, key=lambda entry: entry[0])


def _table(devices: dict[bytes, Device], offers: Sequence[tuple[tuple[Any, ...], Offer]]) -> tuple[DeviceStatus, ...]:
    """Devices with their offers, as `GpuTasksApi_devices` shows them."""
    offered: dict[bytes, list[tuple[int, Offer]]] = {device: [] for device in devices}
    for (number, device), offer in offers:
        if device in offered:
            offered[device].append((number, offer))
    ordered = sorted(devices.items(), key=lambda entry: (entry[1].owner, entry[0]))
    return tuple(DeviceStatus(name, device, tuple(offered[name])) for name, device in ordered)
