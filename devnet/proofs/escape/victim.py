"""`python -m devnet.proofs.escape.victim ADDRESS FOLDER`: a provider with two containers that waits to be killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from devnet.launcher.made_images import MadeImage, busybox_files
from devnet.proofs.escape.scene import CONTAINER_LIMITS, CONTAINER_POLICY
from gpu_tasks.provider.execution.containers.engine import open_engine
from gpu_tasks.provider.execution.containers.spec import ContainerSpec, NetworkAccess


async def run_victim(address: str, provider_folder: Path) -> None:
    """Start the containers, report it, and wait."""
    engine = await open_engine(provider_folder, CONTAINER_POLICY, address)
    busybox = MadeImage(busybox_files()).archive()
    for container_number, network in enumerate(NetworkAccess):
        container_spec = ContainerSpec(
            f"victim-{container_number}",
            busybox,
            ("sleep", "1000"),
            secrets={"key": b"x" * 32},
            inputs={"data": b"y" * 1_000},
            network=network,
            limits=CONTAINER_LIMITS,
        )
        await engine.start(container_spec)
    print("standing", flush=True)
    # The parent kills this process: containers must outlive a provider that had no time to clean up.
    await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(run_victim(sys.argv[1], Path(sys.argv[2])))
