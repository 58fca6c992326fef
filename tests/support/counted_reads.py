"""A state that counts what is read of it."""

from collections.abc import Iterator

from runtime.state.overlay import StateReader


class CountingReader:
    """Counts keys and values alike."""

    def __init__(self, below: StateReader) -> None:
        """Over another state."""
        self.below = below
        self.reads = 0

    def get(self, key: bytes, /) -> bytes | None:
        """As below."""
        self.reads += 1
        return self.below.get(key)

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """As below."""
        for key in self.below.keys(prefix, start):
            self.reads += 1
            yield key
