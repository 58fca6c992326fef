"""Which keys a computation reads: what a proof must show to whoever does the computation again."""

from collections.abc import Iterator

from runtime.state.overlay import StateReader


class TooManyReads(Exception):
    """The computation reads more keys than it may."""


class RecordedReads:
    """A `StateReader` over another one, that notes each key it was asked for; TooManyReads beyond `keys_max`."""

    def __init__(self, reader: StateReader, keys_max: int) -> None:
        """Nothing is read yet."""
        self._reader = reader
        self._keys_max = keys_max
        self.noted: dict[bytes, None] = {}

    def get(self, key: bytes, /) -> bytes | None:
        """The value under `key`."""
        self._note(key)
        return self._reader.get(key)

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """The keys that begin with `prefix` and come after `start`, ascending.

        The paths to both ends and to each key are all the nodes that a walk over these keys meets.
        """
        self._note(max(prefix, start))
        for key in self._reader.keys(prefix, start):
            self._note(key)
            yield key

    def _note(self, key: bytes) -> None:
        self.noted[key] = None
        if len(self.noted) > self._keys_max:
            raise TooManyReads(f"more than {self._keys_max} keys")
