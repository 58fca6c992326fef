"""A run of `render-tile` in steps: a step is a row of the tile, a state (`state.py`) the rows that are done."""

import numpy as np

from gpu_tasks.workloads.render_tile.array_arithmetic import Int64Array
from gpu_tasks.workloads.render_tile.backends import TileBackend, shown
from gpu_tasks.workloads.render_tile.picture import decode_state, encode_state, request_digest
from gpu_tasks.workloads.render_tile.request import AskedTile


class TileRun:
    """Implements `SegmentedRun` (see there for the methods)."""

    def __init__(self, use: TileBackend, asked: AskedTile, request: bytes) -> None:
        """`asked` is what was read of `request`."""
        self._asked = asked
        self._tracer = use.tracer(asked.scene)
        self._digest = request_digest(request)

    @property
    def segments(self) -> int:
        """All but the last of the length that the request names."""
        return self._asked.segments

    def boundary(self, index: int) -> int:
        """A multiple of the segment's length, but for the end."""
        return min(index * self._asked.segment, self._asked.tile.rows)

    def initial_state(self) -> bytes:
        """No row."""
        return encode_state(self._digest, 0, b"")

    def steps_done(self, state: bytes) -> int:
        """The rows that a state has."""
        return decode_state(self._asked, self._digest, state)[0]

    def advance(self, state: bytes, steps: int) -> bytes:
        """The next rows below those of a state."""
        done, pixels = decode_state(self._asked, self._digest, state)
        if not 0 <= steps <= self._asked.tile.rows - done:
            raise ValueError(f"{steps} rows after {done}: there are {self._asked.tile.rows}")
        columns = self._asked.tile.columns
        later = np.arange(done * columns, (done + steps) * columns)
        return encode_state(self._digest, done + steps, pixels + self.pixels(later))

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
