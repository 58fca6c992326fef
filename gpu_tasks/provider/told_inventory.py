"""The inventory as it is served at the provider's door: read at most once a minute, signed with the provider key."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from gpu_tasks.data.inventory import VERSION, MachineInventory, sign_inventory
from gpu_tasks.data.transfer_rates import TransferRates
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
    _signed: bytes = b""
    _read_at: float = 0.0

    async def told(self) -> bytes:
        """The signed bytes; the machine is read in a thread, since a driver may take its time."""
        now = time.monotonic()
        if not self._signed or now - self._read_at >= KEPT_SECONDS:
            self._read_at = now
            self._signed = await asyncio.to_thread(self._read)
        return self._signed

    def _read(self) -> bytes:
        inventory = inventory_of(self.identity.key.public_key, self.hardware, self.work, self.rates)
        return sign_inventory(inventory, self.identity.genesis, self.identity.key.sign)


def inventory_of(provider_key: bytes, hardware: list[Hardware], work: Path, rates: TransferRates) -> MachineInventory:
    """What this machine has now."""
    return MachineInventory(
        VERSION, provider_key, time.time_ns() // 1_000_000, claimed_machine(work, rates), claimed_devices(hardware)
    )
