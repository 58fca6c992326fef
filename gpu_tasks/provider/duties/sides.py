"""The deliveries of all sides of a dispute about different results, as one voter gathers them.

A side is a result with its owners. One delivery of a side is enough, because it is compared with the stated root.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.claim_delivery import DeliveryError

T = TypeVar("T")
FetchSide = Callable[[bytes, bytes], Awaitable[T]]
"""Returns the delivery of a provider (its stash) for a root. It raises BlobError or DeliveryError without one."""
Sides = Mapping[bytes, Sequence[bytes]]
"""The owners of each result, by its root."""


@dataclass(frozen=True, slots=True)
class Patience:
    """A voter's patience with sides that deliver slowly, so that no side can use up the window for votes."""

    seconds: float
    """The most seconds of one attempt: a sixth of the window."""
    is_late: Callable[[], bool]
    """Returns True once half of the window is over. Then a side without a delivery is out."""


class DeliveredSides(Generic[T]):
    """The deliveries in memory, until the vote is found. While one is missing, the others are not fetched again."""

    def __init__(self, kept_max: int) -> None:
        """It keeps the newest `kept_max` deliveries."""
        self._kept_max = kept_max
        self._kept: dict[tuple[bytes, bytes, int], T] = {}
        """By dispute, root and item."""

    async def all_of(
        self, dispute_id: bytes, sides: Sides, fetch: FetchSide[T], patience: Patience, *, item: int = 0
    ) -> dict[bytes, T]:
        """Return the delivered results by root. Until it is late, a missing one raises BlobError or DeliveryError."""
        attempts = (self._attempt(dispute_id, root, owners, fetch, patience, item) for root, owners in sides.items())
        found: dict[bytes, T] = {}
        missing: BlobError | DeliveryError | None = None
        for root, result in zip(sides, await asyncio.gather(*attempts, return_exceptions=True), strict=True):
            if isinstance(result, BlobError | DeliveryError):
                missing = result
            elif isinstance(result, BaseException):
                raise result
            else:
                found[root] = result
        if missing is not None and not patience.is_late():
            raise missing
        return found

    async def any_of(
        self, dispute_id: bytes, sides: Sides, fetch: FetchSide[T], patience: Patience, *, item: int
    ) -> T | None:
        """Return the first delivery of several sides. Without one, raise as `all_of`, or return None."""
        try:
            return await _first(
                self._attempt(dispute_id, root, owners, fetch, patience, item) for root, owners in sides.items()
            )
        except (BlobError, DeliveryError):
            if patience.is_late():
                return None
            raise

    def forget(self, dispute_id: bytes) -> None:
        """Forget the deliveries for a dispute."""
        for key in [key for key in self._kept if key[0] == dispute_id]:
            del self._kept[key]

    async def _attempt(
        self,
        dispute_id: bytes,
        root: bytes,
        owners: Sequence[bytes],
        fetch: FetchSide[T],
        patience: Patience,
        item: int,
    ) -> T:
        try:
            async with asyncio.timeout(patience.seconds):
                return await self._one_of(dispute_id, root, owners, fetch, item)
        except TimeoutError:
            raise DeliveryError("a side was too slow", code="store_slow") from None

    async def _one_of(
        self, dispute_id: bytes, root: bytes, owners: Sequence[bytes], fetch: FetchSide[T], item: int
    ) -> T:
        key = dispute_id, root, item
        found = self._kept.get(key)
        if found is None:
            # At once: a slow owner must not use up the time of an honest one with the same result.
            found = await _first(fetch(owner, root) for owner in owners)
            self._kept[key] = found
        while len(self._kept) > self._kept_max:
            del self._kept[next(iter(self._kept))]
        return found


async def _first(attempts: Iterable[Awaitable[T]]) -> T:
    """Return the first delivery, and cancel the other attempts. Without one, raise the last BlobError or DeliveryError.

    Other errors pass through.
    """
    tasks = [asyncio.ensure_future(attempt) for attempt in attempts]
    missing: BlobError | DeliveryError | None = None
    try:
        for finished in asyncio.as_completed(tasks):
            try:
                return await finished
            except (BlobError, DeliveryError) as error:
                missing = error
    finally:
        for task in tasks:
            task.cancel()
    assert missing is not None, "a side has owners"
    raise missing


def sides_of(results: Sequence[tuple[bytes, bytes]]) -> dict[bytes, list[bytes]]:
    """Return the owners of each root, from pairs of root and owner. Each owner of a root is there once."""
    sides: dict[bytes, list[bytes]] = {}
    for root, owner in dict.fromkeys(results):
        sides.setdefault(root, []).append(owner)
    return sides
