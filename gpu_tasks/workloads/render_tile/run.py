"""A run of `render-tile` in steps: a step is a row of the tile, a state the rows that are done.

    blake2b-256 of the request ‖ rows done: u32 ‖ red, green, blue of their pixels, row by row     little-endian

Always: one state is bytes in one way, of a length that the request and the rows fix.
"""

from hashlib import blake2b

import numpy as np

from gpu_tasks.workloads.render_tile.array_arithmetic import Int64Array
from gpu_tasks.workloads.render_tile.backends import TileBackend, shown
from gpu_tasks.workloads.render_tile.request import PIXEL_BYTES, AskedTile
from runtime.encoding.codec import DecodeError

DIGEST_BYTES = 32
HEADER_BYTES = DIGEST_BYTES + 4


class TileRun:
    """Implements `SegmentedRun` (see there for the methods)."""

    def __init__(self, use: TileBackend, asked: AskedTile, request: bytes) -> None:
        """`asked` is what was read of `request`."""
        self._asked = asked
        self._tracer = use.tracer(asked.scene)
        self._digest = blake2b(request, digest_size=DIGEST_BYTES).digest()
        self._row_bytes = PIXEL_BYTES * asked.tile.columns

    @property
    def segments(self) -> int:
        """All but the last of the length that the request names."""
        return self._asked.segments

    def boundary(self, index: int) -> int:
        """A multiple of the segment's length, but for the end."""
        return min(index * self._asked.segment, self._asked.tile.rows)

    def initial_state(self) -> bytes:
        """No row."""
        return self._digest + bytes(4)

    def steps_done(self, state: bytes) -> int:
        """The rows that a state has."""
        if state[:DIGEST_BYTES] != self._digest or len(state) < HEADER_BYTES:
            raise DecodeError("a state of another request")
        done = int.from_bytes(state[DIGEST_BYTES:HEADER_BYTES], "little")
        if done > self._asked.tile.rows:
            raise DecodeError("more rows than there are", DIGEST_BYTES)
        if len(state) != HEADER_BYTES + done * self._row_bytes:
            raise DecodeError("a state of another length", len(state))
        return done

    def advance(self, state: bytes, steps: int) -> bytes:
        """The next rows below those of a state."""
        done, columns = self.steps_done(state), self._asked.tile.columns
        if not 0 <= steps <= self._asked.tile.rows - done:
            raise ValueError(f"{steps} rows after {done}: there are {self._asked.tile.rows}")
        later = np.arange(done * columns, (done + steps) * columns)
        rows = state[HEADER_BYTES:] + self.pixels(later)
        return self._digest + (done + steps).to_bytes(4, "little") + rows

    def metric(self, state: bytes) -> int:
        """The pixels that are still to be rendered."""
        return self._asked.pixels - self.steps_done(state) * self._asked.tile.columns

    def pixels(self, indices: Int64Array) -> bytes:
        """Red, green and blue of some pixels of the tile, in any order, each computed alone."""
        return shown(self.sums(indices), self._asked.scene.samples)

    def sums(self, indices: Int64Array) -> Int64Array:
        """int64[n, 3]: the light of all their paths, which no output tells."""
        tile = self._asked.tile
        return self._tracer.sums(tile.left + indices % tile.columns, tile.top + indices // tile.columns)
