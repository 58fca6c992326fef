"""The inventory that a provider's endpoint serves: read once a minute, and signed with the provider key.

Its policy is the one in force for bids: a draining daemon publishes one that bids for nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gpu_tasks.data.blob_client import TransferRates
from gpu_tasks.data.inventory import (
    IMAGES_MAX,
    KINDS_MAX,
    VERSION,
    ClaimedPolicy,
    ClaimedPrograms,
    MachineInventory,
    claim_text,
    image_mark,
    sign_inventory,
)
from gpu_tasks.provider.chain.port import Identity
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.inventory import claimed_devices, claimed_machine
from gpu_tasks.provider.programs.means import ProgramMeans
from gpu_tasks.provider.tasks.policy import BidPolicy
from runtime.encoding.types import U64_MAX

KEPT_SECONDS = 60.0
U32_MAX = (1 << 32) - 1


@dataclass(slots=True)
class ToldInventory:
    """The inventory for any caller. `work` is the folder of the daemon's work."""

    identity: Identity
    hardware: list[Hardware]
    work: Path
    rates: TransferRates
    policy: Callable[[], ClaimedPolicy] = ClaimedPolicy
    _signed: bytes = b""
    _told: ClaimedPolicy = field(default_factory=ClaimedPolicy)
    _read_at: float = 0.0

    async def told(self) -> bytes:
        """Return the signed bytes. A thread reads the machine, because drivers may be slow."""
        now_seconds, bid_policy = time.monotonic(), self.policy()
        # A new policy is signed at once: a draining daemon must publish that it bids for nothing.
        if not self._signed or bid_policy != self._told or now_seconds - self._read_at >= KEPT_SECONDS:
            # Noted before the reading, so that parallel requests do not read the machine again.
            self._read_at, self._told = now_seconds, bid_policy
            self._signed = await asyncio.to_thread(self._read, bid_policy)
        return self._signed

    def _read(self, claimed_policy: ClaimedPolicy) -> bytes:
        inventory = inventory_of(self.identity.key.public_key, self.hardware, self.work, self.rates, claimed_policy)
        return sign_inventory(inventory, self.identity.genesis, self.identity.key.sign)


def inventory_of(
    provider_key: bytes, hardware: list[Hardware], work: Path, rates: TransferRates, claimed_policy: ClaimedPolicy
) -> MachineInventory:
    """Return this machine's inventory and the policy in force."""
    made_at_ms = time.time_ns() // 1_000_000
    return MachineInventory(
        VERSION, provider_key, made_at_ms, claimed_machine(work, rates), claimed_devices(hardware), claimed_policy
    )


def claimed_policy(bid_policy: BidPolicy, program_means: ProgramMeans, why_not: str) -> ClaimedPolicy:
    """Return the published policy; `program_means` and `why_not` are the daemon's container limits since its start."""
    least_price = bid_policy.least_price
    return ClaimedPolicy(
        kinds=tuple(dict.fromkeys(map(claim_text, bid_policy.kinds)))[:KINDS_MAX],
        gangs=bid_policy.gangs,
        price=least_price.grains,
        price_ms=least_price.span.milliseconds,
        price_blocks=least_price.span.blocks,
        programs=ClaimedPrograms(
            why_not=claim_text(why_not),
            images=tuple(map(image_mark, program_means.images))[:IMAGES_MAX],
            any_archive=program_means.any_archive,
            outbound=program_means.outbound,
            cpu_thousandths=min(program_means.cpu_thousandths, U32_MAX),
            memory_bytes=min(program_means.memory_bytes, U64_MAX),
            disk_bytes=min(program_means.disk_bytes, U64_MAX),
            processes=min(program_means.processes, U32_MAX),
            keep_seconds=min(program_means.keep_seconds, U32_MAX),
        ),
    )
