"""`python -m devnet.proofs.escape.victim ADDRESS FOLDER`: a provider with two containers that waits to be killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from devnet.launcher.made_images import MadeImage, busybox_files
from devnet.proofs.escape.scene import LIMITS, POLICY
from gpu_tasks.provider.execution.containers.engine import open_engine
from gpu_tasks.provider.execution.containers.spec import ContainerSpec, NetworkAccess


async def stand(address: str, folder: Path) -> None:
    """Start the containers, report it, and wait."""
    engine = await open_engine(folder, POLICY, address)
    image = MadeImage(busybox_files()).archive()
    for number, network in enumerate(NetworkAccess):
        spec = ContainerSpec(
            f"victim-{number}",
            image,
            ("sleep", "1000"),
            secrets={"key": b"x" * 32},
            inputs={"data": b"y" * 1_000},
            network=network,
            limits=LIMITS,
        )
        await engine.start(spec)
    print("standing", flush=True)
    await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(stand(sys.argv[1], Path(sys.argv[2])))
