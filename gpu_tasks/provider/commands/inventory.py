"""`inventory`: the hardware and policy that the daemon publishes."""

from __future__ import annotations

from typing import Any

from cli.session import note
from gpu_tasks.data.blob_client import TransferRates
from gpu_tasks.data.inventory import ClaimedDevice
from gpu_tasks.provider.commands.containers import policy_of
from gpu_tasks.provider.commands.options import ProviderOptions
from gpu_tasks.provider.execution.gpu import all_hardware
from gpu_tasks.provider.execution.inventory import claimed_devices, claimed_machine
from gpu_tasks.provider.tasks.policy import BidPolicy, price_text

COLUMNS = ("vendor", "model", "memory_mib", "driver", "platform", "platform_version", "uuid_hash", "can_be_offered")


def inventory(options: ProviderOptions) -> None:
    """Print the published inventory."""
    hardware = all_hardware(options.base_path)
    machine = claimed_machine(options.base_path, TransferRates())
    offered = {piece.uuid_hash for piece in hardware}
    rows = [_row(device, is_offered=device.uuid_hash in offered) for device in claimed_devices(hardware)]
    facts = {
        "processor": machine.processor,
        "cores": machine.cores,
        "memory_mib": machine.memory_mib,
        "disk_free_mib": machine.disk_free_mib,
        **_policy(policy_of(options)),
    }
    # A program reads one JSON value from standard output.
    if options.output.as_json:
        options.output.facts(facts | {"devices": rows})
        return
    options.output.facts(facts)
    options.output.rows("Devices", COLUMNS, rows)
    note("the daemon measures the transfer rates while it works, and publishes them then")


def _policy(policy: BidPolicy) -> dict[str, Any]:
    """Return the policy as customers read it, with hashes instead of the list of images."""
    means = policy.containers
    return {
        "bids_for": ", ".join(policy.kinds) or "nothing",
        "least_price": price_text(policy.least_price),
        "container_memory_mib": means.memory_bytes >> 20,
        "container_disk_mib": means.disk_bytes >> 20,
        "container_cores": f"{means.cpu_thousandths / 1_000:g}",
        "container_network": means.outbound,
        "container_images": "any archive" if means.any_archive else len(means.images),
    }


def _row(device: ClaimedDevice, *, is_offered: bool) -> dict[str, Any]:
    return {
        "vendor": device.vendor,
        "model": device.model,
        "memory_mib": device.memory_mib,
        "driver": device.driver,
        "platform": device.platform,
        "platform_version": device.platform_version,
        "uuid_hash": device.uuid_hash,
        "can_be_offered": is_offered,
    }
