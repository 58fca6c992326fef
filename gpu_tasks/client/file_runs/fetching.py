"""The outcomes that units of a file were paid for: whom to ask now, and what is asked for once.

Always: a unit that nobody serves is asked for more and more seldom, whatever the others are at, and is left for the
next run after `TRIES`; of its input, which a try needs to check what is served, only the salt is kept.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gpu_tasks.batches.outcomes import BatchOutcome
from gpu_tasks.client.results import ResultError, outcomes_served, salt_of
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.inference.units import Unit
from wallet.client import ChainClient
from wallet.keypair import Keypair

FETCHED_AT_ONCE = 8
"""Units: a store that drips holds the others up no more."""
INPUTS_AT_ONCE = 2
"""Of these: one of 16 MiB takes 64 MiB while it is read."""
TRIES = 6
"""How often an output is asked for, before it is left for the next run: over 31 final blocks."""


@dataclass(slots=True)
class _Trying:
    """One unit: how often it was not served, and the look at the chain from which on it is asked for again."""

    failed: int = 0
    next_look: int = 0
    salt: bytes | None = None


class PaidOutcomes:
    """Fetches the outcomes of one file's units, by their places."""

    def __init__(self, client: ChainClient, key: Keypair) -> None:
        self._client, self._key = client, key
        self._trying: dict[int, _Trying] = {}
        self._inputs = asyncio.Semaphore(INPUTS_AT_ONCE)
        self._look = 0

    @property
    def given_up(self) -> set[int]:
        """The units that were asked for often enough, in this run."""
        return {place for place, trying in self._trying.items() if trying.failed >= TRIES}

    def begin_look(self) -> None:
        """One more look at the chain, as blocks become final: by these it is counted how long a unit waits."""
        self._look += 1

    def is_due(self, place: int) -> bool:
        """Whether a unit is asked for now."""
        trying = self._trying.get(place, _Trying())
        return trying.failed < TRIES and self._look >= trying.next_look

    async def of(
        self, blobs: BlobClient, place: int, unit_id: bytes, unit: Unit, providers: dict[bytes, Provider]
    ) -> tuple[BatchOutcome, ...] | None:
        """What a unit was paid for; None where nobody serves it now, or its input: then it waits twice as long."""
        trying = self._trying.setdefault(place, _Trying())
        try:
            if trying.salt is None:
                async with self._inputs:
                    trying.salt = await salt_of(blobs, self._key, unit, providers)
            found = await outcomes_served(self._client, blobs, self._key, unit_id, unit, trying.salt, providers)
        except ResultError:
            trying.next_look = self._look + 2**trying.failed
            trying.failed += 1
            return None
        del self._trying[place]
        return found
