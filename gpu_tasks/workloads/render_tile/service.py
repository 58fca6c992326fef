"""`render-tile` as a `Workload` and a `StepwiseWorkload`, and cheaper checks of drawn pixels.

`verify` computes every pixel, because judges are liable for their answers. The output determines the order, so a fault
in one pixel of a hundred appears after some hundred pixels.
"""

from hashlib import blake2b, shake_256

import numpy as np

from gpu_tasks.workloads.render_tile.array_arithmetic import Int64Array
from gpu_tasks.workloads.render_tile.backends import TileBackend, backend_named, shown
from gpu_tasks.workloads.render_tile.conformance import check
from gpu_tasks.workloads.render_tile.picture import decode_state, encode_state, request_digest
from gpu_tasks.workloads.render_tile.request import (
    MODEL_ID,
    OUTPUT,
    PIXEL_BYTES,
    WORKLOAD_ID,
    AskedTile,
    decode_request,
)
from gpu_tasks.workloads.stepwise import StepwiseWorkload
from gpu_tasks.workloads.workload import OutputCheck
from runtime.encoding.codec import DecodeError

PROBE_PIXELS = 32
FIRST_LOOKED_AT, LATER_TIMES = 256, 4
_DOMAIN = b"ogpu/render-tile/1/"


class TileRun:
    """The run of one tile. Implements `SegmentedRun` (see there for the methods)."""

    def __init__(self, use: TileBackend, asked: AskedTile, request: bytes) -> None:
        """Take a request and its decoded form `asked`."""
        self._asked = asked
        self._tracer = use.tracer(asked.scene)
        self._digest = request_digest(request)

    @property
    def segments(self) -> int:
        """The number of segments. All but the last have the length that the request names."""
        return self._asked.segments

    def boundary(self, index: int) -> int:
        """Return a multiple of the segment's length, or all rows at the end."""
        return min(index * self._asked.segment, self._asked.tile.rows)

    def initial_state(self) -> bytes:
        """Return the state without any row."""
        return encode_state(self._digest, 0, b"")

    def steps_done(self, state: bytes) -> int:
        """Return the number of rows in a state."""
        return decode_state(self._asked, self._digest, state)[0]

    def advance(self, state: bytes, steps: int) -> bytes:
        """Compute the next rows below those of a state."""
        done, pixels = decode_state(self._asked, self._digest, state)
        if not 0 <= steps <= self._asked.tile.rows - done:
            raise ValueError(f"{steps} rows after {done} of {self._asked.tile.rows}")
        columns = self._asked.tile.columns
        later = np.arange(done * columns, (done + steps) * columns)
        return encode_state(self._digest, done + steps, pixels + self.pixels(later))

    def metric(self, state: bytes) -> int:
        """Return the number of pixels that are still to be rendered."""
        return self._asked.pixels - self.steps_done(state) * self._asked.tile.columns

    def pixels(self, indices: Int64Array) -> bytes:
        """Return red, green and blue of some pixels of the tile, in any order, each computed alone."""
        return shown(self.sums(indices), self._asked.scene.samples)

    def sums(self, indices: Int64Array) -> Int64Array:
        """Return int64[n, 3]: the light summed over all their paths, which no output contains."""
        tile = self._asked.tile
        return self._tracer.sums(tile.left + indices % tile.columns, tile.top + indices // tile.columns)


class TileRendering(StepwiseWorkload):
    """`render-tile` ready to run. See `Workload` and `StepwiseWorkload` for the methods."""

    workload_id = WORKLOAD_ID
    model_id = MODEL_ID

    def __init__(self, use: TileBackend) -> None:
        """Take a backend. The caller checks its conformance."""
        self._use = use

    def begin(self, request: bytes) -> TileRun:
        """Return the run of a request within the limits."""
        return TileRun(self._use, decode_request(request), request)

    def run(self, request: bytes) -> bytes:
        """Return the encoded `TileOutput`."""
        asked = decode_request(request)
        pixels = TileRun(self._use, asked, request).pixels(np.arange(asked.pixels))
        return OUTPUT.encode(asked.output(pixels))

    def verify(self, request: bytes, output: bytes) -> OutputCheck:
        """Compute every pixel again, up to the first wrong ones.

        `recomputed` and `first_wrong` are pixels of the tile.
        """
        asked = decode_request(request)
        return self._looked_at(request, output, _order(b"order" + blake2b(output).digest(), asked.pixels))

    def spot_check(self, request: bytes, output: bytes, seed: bytes, count: int) -> OutputCheck:
        """Compute `count` pixels again, drawn from `seed`, which the provider must not know before it has answered.

        An output with a wrong share f passes with probability (1 - f)**count. Raise DecodeError for an invalid request.
        """
        asked = decode_request(request)
        return self._looked_at(request, output, _order(b"spots" + seed, asked.pixels)[:count])

    def trace(self, request: bytes, output: bytes, place: bytes) -> bytes:
        """Return the hash of some pixels' light before rounding, which no output contains."""
        asked = decode_request(request)
        drawn = np.sort(_order(b"probe" + place, asked.pixels)[:PROBE_PIXELS])
        sums = TileRun(self._use, asked, request).sums(drawn)
        told = drawn.astype("<u4").tobytes() + sums.astype("<i8").tobytes()
        return blake2b(_DOMAIN + b"trace" + told, digest_size=32).digest()

    def conformance(self) -> bytes:
        """Return the hash of all vectors, which are published."""
        return check(self._use)

    def _looked_at(self, request: bytes, output: bytes, order: Int64Array) -> OutputCheck:
        """Compare the pixels in this order, few at first, four times as many each further time."""
        asked = decode_request(request)
        claimed = _claimed(asked, output)
        if claimed is None:
            return OutputCheck(valid=False, recomputed=0, first_wrong=0)
        # Few at first, so that a wrong output is refuted at a low cost.
        run, start, size = TileRun(self._use, asked, request), 0, FIRST_LOOKED_AT
        while start < len(order):
            looked = order[start : start + size]
            right = np.frombuffer(run.pixels(looked), np.uint8).reshape(-1, PIXEL_BYTES)
            start, size = start + len(looked), LATER_TIMES * size
            wrong = looked[(claimed[looked] != right).any(axis=1)]
            if len(wrong):
                return OutputCheck(valid=False, recomputed=start, first_wrong=int(wrong.min()))
        return OutputCheck(valid=True, recomputed=start, first_wrong=None)


def open_published(backend: str) -> TileRendering:
    """Return the workload on a backend after its vectors passed. Raise errors as `WorkloadForm.open`."""
    workload = TileRendering(backend_named(backend))
    workload.conformance()
    return workload


def _claimed(asked: AskedTile, output: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]] | None:
    """Return uint8[n, 3] of an output that can be wrong only in its pixels, or None for any other."""
    try:
        pixels = OUTPUT.decode(output).pixels
    except DecodeError:
        return None
    if len(pixels) != PIXEL_BYTES * asked.pixels or output != OUTPUT.encode(asked.output(pixels)):
        return None
    return np.frombuffer(pixels, np.uint8).reshape(-1, PIXEL_BYTES)


def _order(drawn_from: bytes, count: int) -> Int64Array:
    """Return all pixels of a tile in an order drawn by SHAKE-256."""
    keys = np.frombuffer(shake_256(_DOMAIN + drawn_from).digest(8 * count), "<u8")
    return np.argsort(keys, kind="stable").astype(np.int64)
