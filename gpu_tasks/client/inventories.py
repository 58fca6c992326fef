"""What providers say that their machines have, asked side by side; who is slow, lies or sends too much is named.

Always: so many providers and so many bytes at most are asked for, and the whole ends within a fixed time, whatever they
do; an answer counts if the chain says that its key works for the provider that was asked. What it says is a claim.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient, BlobError
from gpu_tasks.data.inventory import ClaimedDevice, ClaimedMachine, ClaimedPolicy, InventoryError, read_inventory
from gpu_tasks.market.api import DeviceStatus
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.reputation import PPM, failure_ppm, record_at
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks.offers import DeviceClaims, OfferRow
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient

PROVIDERS_MAX = 512
ASKED_SECONDS = 8.0
"""For all of them together."""
LOSS = GRAINS_PER_OGPU
"""Of the task whose failure reliability is reckoned for."""


@dataclass(slots=True)
class HeardInventories:
    """By provider what it says of each hardware, and why others are left out."""

    claims: dict[bytes, dict[bytes, DeviceClaims]] = field(default_factory=dict)
    policies: dict[bytes, ClaimedPolicy] = field(default_factory=dict)
    """The claimed policies by provider."""
    processors: dict[bytes, DeviceClaims] = field(default_factory=dict)
    """By provider what it says of its CPU."""
    left_out: dict[bytes, str] = field(default_factory=dict)


async def reliability_of(client: ChainClient, owners: Sequence[bytes], at: bytes) -> dict[bytes, int]:
    """How probable the chain holds it that each ends a task with a loss of 1 oGPU well, in millionths."""
    if TrainingMarket not in client.runtime.pallets:
        return {}
    era = await client.read(TrustStake.current_era, at=at)
    records = await client.read_many(TrainingMarket.records, list(owners), at=at)
    pairs = zip(owners, records, strict=True)
    return {owner: PPM - failure_ppm(record_at(record, era), LOSS) for owner, record in pairs}


async def heard_inventories(
    client: ChainClient, blobs: BlobClient, owners: Sequence[bytes], at: bytes
) -> HeardInventories:
    """What providers say of their machines now."""
    found = HeardInventories()
    providers = await market_reads.providers(client, at)
    for owner in owners[PROVIDERS_MAX:]:
        found.left_out[owner] = f"was not asked: {PROVIDERS_MAX} are, and it is dearer"
    raw: dict[bytes, bytes] = {}

    async def ask(owner: bytes) -> None:
        provider = providers.get(owner)
        endpoint = None if provider is None else market_reads.endpoint_of(provider)
        if endpoint is None:
            found.left_out[owner] = "has no endpoint on the chain"
            return
        try:
            raw[owner] = await blobs.inventory_of(endpoint)
        except BlobError as error:
            found.left_out[owner] = str(error)

    asking = {asyncio.create_task(ask(owner)): owner for owner in owners[:PROVIDERS_MAX]}
    if asking:
        _, late = await asyncio.wait(asking, timeout=ASKED_SECONDS)
        for task in late:
            task.cancel()
            found.left_out[asking[task]] = "was too slow"
        await asyncio.gather(*asking, return_exceptions=True)
    for owner, data in raw.items():
        await _take(client, found, owner, data, at)
    return found


async def _take(client: ChainClient, found: HeardInventories, owner: bytes, data: bytes, at: bytes) -> None:
    """Take an answer in, or say why it does not count."""
    try:
        inventory = read_inventory(data, client.genesis_hash, time.time_ns() // 1_000_000)
    except InventoryError as error:
        found.left_out[owner] = str(error)
        return
    if await market_reads.stash_of(client, inventory.provider_key, at) != owner:
        found.left_out[owner] = "sent an inventory that another key has signed"
        return
    found.left_out.pop(owner, None)
    found.policies[owner] = inventory.policy
    pairs = [(device, _claims(inventory.machine, device)) for device in inventory.devices]
    found.claims[owner] = {device.uuid_hash: claims for device, claims in pairs}
    processor = next((claims for device, claims in pairs if device.is_processor), None)
    if processor is not None:
        found.processors[owner] = processor


def _claims(machine: ClaimedMachine, device: ClaimedDevice) -> DeviceClaims:
    return DeviceClaims(
        vendor=device.vendor,
        model=device.model,
        vram_mib=device.memory_mib,
        driver=device.driver,
        platform=device.platform,
        platform_version=device.platform_version,
        processor=machine.processor,
        cores=machine.cores,
        memory_mib=machine.memory_mib,
        disk_free_mib=machine.disk_free_mib,
        down_kbit=machine.down_kbit,
        up_kbit=machine.up_kbit,
    )


def with_claims(rows: Sequence[OfferRow], heard: HeardInventories, devices: Iterable[DeviceStatus]) -> list[OfferRow]:
    """The rows with what their providers claim: by the hash of the hardware's identifier, as the chain has it.

    A CPU has no identifier of its own: a provider's only CPU device is its machine's, as its daemon takes it too.
    """
    known = {status.id: status.device for status in devices}
    processors = Counter(device.owner for device in known.values() if device.kind is DeviceClass.CPU)

    def claims_of(row: OfferRow) -> DeviceClaims | None:
        device = known.get(row.device)
        if device is None:
            return None
        found = heard.claims.get(row.provider, {}).get(device.uuid_hash)
        is_only = device.kind is DeviceClass.CPU and processors[row.provider] == 1
        return found or (heard.processors.get(row.provider) if is_only else None)

    return [replace(row, claims=claims_of(row)) for row in rows]
