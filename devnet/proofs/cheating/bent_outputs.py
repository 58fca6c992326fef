"""A daemon that runs its customers' programs honestly, and gives something else than they left.

Always: what it gives is a sound archive with the hash that it states: nothing but a comparison finds it out.
"""

from __future__ import annotations

import hashlib
import tarfile

from gpu_tasks.provider.daemon import Daemon
from gpu_tasks.provider.journal.task_records import TaskKey
from gpu_tasks.provider.programs.house import ProgramHouse, ProgramOutputs


class BendingHouse(ProgramHouse):
    """Flips a bit of the first file that a program left."""

    async def outputs(self, key: TaskKey) -> ProgramOutputs:
        """See `ProgramHouse`."""
        honest = (await super().outputs(key)).archive
        at = tarfile.BLOCKSIZE  # behind the header of the first file
        bent = honest[:at] + bytes((honest[at] ^ 1,)) + honest[at + 1 :]
        return ProgramOutputs(bent, hashlib.blake2b(bent, digest_size=32).digest())


class BentOutputs(Daemon):
    """See `BendingHouse`."""

    house_kind = BendingHouse
