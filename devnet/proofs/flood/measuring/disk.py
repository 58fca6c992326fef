"""How long the machine's disk takes for a write that a node would wait for: where it stands still, all nodes do."""

from __future__ import annotations

import os
import time
from pathlib import Path

import trio

from devnet.proofs.flood.measuring.records import DiskWrite, Records

PAUSE_SECONDS = 0.05
WRITTEN = bytes(512)


async def watch(folder: Path, records: Records) -> None:
    """Write to a file of its own beside the nodes', and wait until it is there, again and again, until cancelled."""
    path = folder / "disk.probe"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        while True:
            began = time.monotonic()
            await trio.to_thread.run_sync(_write, descriptor)
            records.writes.append(DiskWrite(began, time.monotonic() - began))
            await trio.sleep(PAUSE_SECONDS)
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)


def _write(descriptor: int) -> None:
    os.pwrite(descriptor, WRITTEN, 0)
    os.fsync(descriptor)
