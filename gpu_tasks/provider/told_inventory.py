"""The inventory that a provider's endpoint serves: read once a minute, signed with the provider key.

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
    VERSION,
    ClaimedPolicy,
    MachineInventory,
    sign_inventory,
)
from gpu_tasks.provider.chain.port import Identity
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.inventory import claimed_devices, claimed_machine

KEPT_SECONDS = 60.0


@dataclass(slots=True)
class ToldInventory:
    """What whoever asks is told. `work` is where the daemon keeps what it works on."""

    identity: Identity
    hardware: list[Hardware]
    work: Path
    rates: TransferRates
    policy: Callable[[], ClaimedPolicy] = ClaimedPolicy
    _signed: bytes = b""
    _told: ClaimedPolicy = field(default_factory=ClaimedPolicy)
    _read_at: float = 0.0

    async def told(self) -> bytes:
        """The signed bytes; the machine is read in a thread, since a driver may take its time."""
        now, policy = time.monotonic(), self.policy()
        if not self._signed or policy != self._told or now - self._read_at >= KEPT_SECONDS:
            self._read_at, self._told = now, policy
            self._signed = await asyncio.to_thread(self._read, policy)
        return self._signed

    def _read(self, policy: ClaimedPolicy) -> bytes:
        inventory = inventory_of(self.identity.key.public_key, self.hardware, self.work, self.rates, policy)
        return sign_inventory(inventory, self.identity.genesis, self.identity.key.sign)


def inventory_of(
    provider_key: bytes, hardware: list[Hardware], work: Path, rates: TransferRates, policy: ClaimedPolicy
) -> MachineInventory:
    """Return this machine's inventory and the policy in force."""
    made_at_ms = time.time_ns() // 1_000_000
    return MachineInventory(
        VERSION, provider_key, made_at_ms, claimed_machine(work, rates), claimed_devices(hardware), policy
    )
