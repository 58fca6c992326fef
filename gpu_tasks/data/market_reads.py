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
    """Return all services by number."""
    return {
        service_number: offered_service
        for (service_number,), offered_service in await entries(chain, InferenceMarket.services, at=at)
    }


async def service(chain: ChainClient, service_number: int, at: bytes | None = None) -> Service | None:
    """Return one service, or None for an unknown number."""
    offered_service: Service | None = await chain.read(InferenceMarket.services, service_number, at=at)
    return offered_service


async def devices(chain: ChainClient, at: bytes | None = None) -> tuple[DeviceStatus, ...]:
    """Return the device table, by ascending owner."""
    at = await chain.finalized() if at is None else at
    stored_devices = await entries(chain, Devices.devices, at=at)
    stored_offers = await entries(chain, InferenceMarket.offers, at=at)
    return _device_table({device_id: device_record for (device_id,), device_record in stored_devices}, stored_offers)


async def devices_of(chain: ChainClient, owner_account: bytes, at: bytes | None = None) -> tuple[DeviceStatus, ...]:
    """Return one provider's devices, which other providers' devices cannot displace."""
    at = await chain.finalized() if at is None else at
    stored_devices = await entries(chain, Devices.devices, at=at)
    return await with_offers(
        chain,
        {
            device_id: device_record
            for (device_id,), device_record in stored_devices
            if device_record.owner == owner_account
        },
        at,
    )


async def with_offers(chain: ChainClient, device_records: dict[bytes, Device], at: bytes) -> tuple[DeviceStatus, ...]:
    """Return some devices with their offers, read by the keys that each device lists."""
    offered_numbers = await chain.read_many(InferenceMarket.device_offers, list(device_records), at=at)
    offer_keys = [
        (service_number, device_id)
        for device_id, service_numbers in zip(device_records, offered_numbers, strict=True)
        for service_number in sorted(service_numbers)
    ]
    stored_offers = await chain.read_many(InferenceMarket.offers, offer_keys, at=at)
    return _device_table(
        device_records,
        [
            (offer_key, stored_offer)
            for offer_key, stored_offer in zip(offer_keys, stored_offers, strict=True)
            if stored_offer is not None
        ],
    )


async def devices_for(chain: ChainClient, service_number: int, at: bytes | None = None) -> tuple[DeviceStatus, ...]:
    """Return the devices that offer a service, with that offer alone. The chain bounds their number."""
    at = await chain.finalized() if at is None else at
    stored_offers = await entries(chain, InferenceMarket.offers, service_number, at=at)
    device_ids = [device_record for (_, device_record), _ in stored_offers]
    device_records = await chain.read_many(Devices.devices, device_ids, at=at)
    return _device_table(
        {
            device_id: device_record
            for device_id, device_record in zip(device_ids, device_records, strict=True)
            if device_record is not None
        },
        stored_offers,
    )


async def readers(chain: ChainClient, service_number: int, at: bytes | None = None) -> tuple[InputReader, ...]:
    """Return the readers of a service's inputs: possible judges, then possible racers."""
    input_readers: tuple[InputReader, ...] = await chain.query("GpuTasksApi_readers", service_number, at=at)
    return input_readers


def keys_at(input_readers: Iterable[InputReader], block_height: int) -> list[bytes]:
    """Return the seal keys for an input of that height: usable keys that their readers had by then."""
    return [
        input_reader.seal_key
        for input_reader in input_readers
        if input_reader.key_since <= block_height and is_usable(input_reader.seal_key)
    ]


async def judging_readers(chain: ChainClient, at: bytes | None = None) -> tuple[InputReader, ...]:
    """Return the possible judges of the current and next active set, each with the block from which it must read."""
    input_readers: tuple[InputReader, ...] = await chain.query("GpuTasksApi_judging_readers", at=at)
    return input_readers


async def judges_left(chain: ChainClient, input_readers: Iterable[InputReader], at: bytes | None = None) -> JudgesLeft:
    """Return a service's readers in the active set who may judge, and the number of them that a race must leave."""
    weight_by_stash = {
        active_seat.stash: active_seat.weight for active_seat in await chain.read(TrustStake.active_set, at=at)
    }
    least_judges = judges_needed(len(weight_by_stash))
    key_since_by_stash = {
        input_reader.stash: input_reader.key_since
        for input_reader in input_readers
        if input_reader.stash in weight_by_stash
    }
    return JudgesLeft(least_judges, key_since_by_stash, weight_by_stash if least_judges else {})


async def duties(chain: ChainClient, stash_account: bytes, at: bytes | None = None) -> tuple[DutyStatus, ...]:
    """Return the races that a provider was drawn for."""
    race_duties: tuple[DutyStatus, ...] = await chain.query("GpuTasksApi_duties", stash_account, at=at)
    return race_duties


async def seats(chain: ChainClient, stash_account: bytes, at: bytes | None = None) -> tuple[SeatStatus, ...]:
    """Return the cases that a provider judges."""
    judge_seats: tuple[SeatStatus, ...] = await chain.query("CourtsApi_seats", stash_account, at=at)
    return judge_seats


async def case(chain: ChainClient, case_id: bytes, at: bytes | None = None) -> CaseStatus | None:
    """Return a case, or None after its end."""
    case_status: CaseStatus | None = await chain.query("CourtsApi_case", case_id, at=at)
    return case_status


async def judges(chain: ChainClient, case_id: bytes, at: bytes | None = None) -> tuple[tuple[bytes, JudgeSeat], ...]:
    """Return the present and former judges of a case with their answers, none after its end."""
    judges_of_case: tuple[tuple[bytes, JudgeSeat], ...] = await chain.query("CourtsApi_judges", case_id, at=at)
    return judges_of_case


async def checks(chain: ChainClient, stash_account: bytes, at: bytes | None = None) -> tuple[CheckStatus, ...]:
    """Return the checks of batches in which a provider must show or compute leaves."""
    check_duties: tuple[CheckStatus, ...] = await chain.query("LeafChecksApi_duties", stash_account, at=at)
    return check_duties


async def check(chain: ChainClient, unit_id: bytes, at: bytes | None = None) -> LeafCheck | None:
    """Return the ongoing check of a batch by its leaves, or None."""
    leaf_check: LeafCheck | None = await chain.query("LeafChecksApi_check", unit_id, at=at)
    return leaf_check


async def check_of_case(chain: ChainClient, case_id: bytes, at: bytes | None = None) -> CheckStatus | None:
    """Return the check of a batch that a case before the courts is about."""
    check_status: CheckStatus | None = await chain.query("LeafChecksApi_check_of_case", case_id, at=at)
    return check_status


async def disputes(chain: ChainClient, stash_account: bytes, at: bytes | None = None) -> tuple[DisputeStatus, ...]:
    """Return the disputes about batches in which a provider must show nodes of its tree."""
    dispute_duties: tuple[DisputeStatus, ...] = await chain.query("LeafDisputesApi_duties", stash_account, at=at)
    return dispute_duties


async def dispute(chain: ChainClient, unit_id: bytes, at: bytes | None = None) -> LeafDispute | None:
    """Return the dispute about a batch whose racers differ, or None."""
    leaf_dispute: LeafDispute | None = await chain.query("LeafDisputesApi_dispute", unit_id, at=at)
    return leaf_dispute


async def unit(chain: ChainClient, unit_id: bytes, at: bytes | None = None) -> UnitStatus | None:
    """Return a unit, or None if the chain never had it or dropped it."""
    unit_status: UnitStatus | None = await chain.query("GpuTasksApi_unit", unit_id, at=at)
    return unit_status


async def units(chain: ChainClient, unit_ids: Sequence[bytes], at: bytes | None = None) -> list[Unit | None]:
    """Return many units with few queries, None for each that the chain does not have."""
    return await chain.read_many(InferenceMarket.units, unit_ids, at=at)


async def stash_of(chain: ChainClient, provider_key: bytes, at: bytes | None = None) -> bytes | None:
    """Return the stash of a provider key."""
    stash_account: bytes | None = await chain.query("GpuTasksApi_provider_stash", provider_key, at=at)
    return stash_account


async def provider_key_of(chain: ChainClient, stash_account: bytes, at: bytes | None = None) -> bytes | None:
    """Return the provider key of a stash."""
    # At a final block by default: a retracted one may have named another key.
    candidate = await chain.read(TrustStake.candidates, stash_account, at=await chain.finalized() if at is None else at)
    return None if candidate is None else bytes(candidate.provider_key)


async def quote(
    chain: ChainClient,
    service_number: int,
    price_max: int,
    racer_count: int,
    requests: int = 1,
    at: bytes | None = None,
) -> Quote | None:
    """Return the locked amount and the cost of one unit, or None if there is no such service."""
    unit_quote: Quote | None = await chain.query(
        "GpuTasksApi_quote", service_number, price_max, racer_count, requests, at=at
    )
    return unit_quote


async def providers(chain: ChainClient, at: bytes | None = None) -> dict[bytes, Provider]:
    """Return all providers by stash, with their endpoints and keys."""
    return {stash_account: provider for (stash_account,), provider in await entries(chain, Devices.providers, at=at)}


async def provider(chain: ChainClient, stash_account: bytes, at: bytes | None = None) -> Provider | None:
    """Return one provider's record, or None if the stash is no provider."""
    provider_record: Provider | None = await chain.read(Devices.providers, stash_account, at=at)
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
    chain: ChainClient, storage_item: StorageItem, *key_prefix: Any, at: bytes | None
) -> list[tuple[tuple[Any, ...], Any]]:
    """Return the entries of a map, by ascending keys."""
    stored_entries, item_type = await chain.entries(storage_item, *key_prefix, at=at), chain.runtime.item(storage_item)
    with chain.rpc.understanding("state_getKeysPaged"):
        keyed_entries = [
            (map_keys(item_type, storage_key), stored_value) for storage_key, stored_value in stored_entries.items()
        ]
    return sorted(keyed_entries, key=lambda keyed_entry: keyed_entry[0])


def _device_table(
    device_records: dict[bytes, Device], stored_offers: Sequence[tuple[tuple[Any, ...], Offer]]
) -> tuple[DeviceStatus, ...]:
    """Return devices with their offers, as `GpuTasksApi_devices` shows them."""
    offers_by_device: dict[bytes, list[tuple[int, Offer]]] = {device_record: [] for device_record in device_records}
    for (service_number, device_record), stored_offer in stored_offers:
        if device_record in offers_by_device:
            offers_by_device[device_record].append((service_number, stored_offer))
    # As the runtime API orders them, so that both ways of reading show one table.
    ordered_devices = sorted(device_records.items(), key=lambda device_entry: (device_entry[1].owner, device_entry[0]))
    return tuple(
        DeviceStatus(device_id, device_record, tuple(offers_by_device[device_id]))
        for device_id, device_record in ordered_devices
    )
