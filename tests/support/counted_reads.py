"""A state that counts its reads, and the reads and weights of hooks in each block."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from runtime.encoding.types import Weight
from runtime.state.overlay import StateReader


class CountingReader:
    """Counts keys and values alike."""

    def __init__(self, below: StateReader) -> None:
        """Over another state."""
        self.below = below
        self.reads = 0

    def get(self, key: bytes, /) -> bytes | None:
        """Count the read and return the value."""
        self.reads += 1
        return self.below.get(key)

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """Count the read keys and return them."""
        for key in self.below.keys(prefix, start):
            self.reads += 1
            yield key


@dataclass(frozen=True)
class HookRun:
    """A run of a pallet's hook in a block: its reads, and its declared weight."""

    reads: int
    weight: Weight

    @property
    def ref_time(self) -> int:
        """The time in the declared weight."""
        return self.weight.ref_time


def watched_hook(patch: pytest.MonkeyPatch, pallet: Any) -> list[HookRun]:
    """Record every later run of a pallet's hook, the newest last."""
    runs: list[HookRun] = []
    hook = pallet.on_initialize

    def watched(bound: Any) -> Weight:
        reader = bound.overlay.reader
        bound.overlay.reader = counting = CountingReader(reader)
        weight: Weight = hook(bound)
        bound.overlay.reader = reader
        runs.append(HookRun(counting.reads, weight))
        return weight

    patch.setattr(pallet, "on_initialize", watched)
    return runs


def most_reads(runs: list[HookRun]) -> int:
    """Return the most reads of one block."""
    return max(run.reads for run in runs)
