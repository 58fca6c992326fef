"""`render-tile` as a `Workload` and a `StepwiseWorkload`, and cheaper checks of drawn pixels.

`verify` computes every pixel, because voters are liable for their answers. The output determines the order, so a fault
in one pixel of a hundred appears after some hundred pixels.
"""

from hashlib import blake2b, shake_256

import numpy as np

from gpu_tasks.workloads.fingerprints import TRAIL_BYTES, trail_after, trail_fingerprint
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
from gpu_tasks.workloads.sampling import step_bytes
from gpu_tasks.workloads.stepwise import StepwiseWorkload, trailed_segments
from gpu_tasks.workloads.workload import FingerprintedCheck, OutputCheck
from runtime.encoding.codec import DecodeError

FIRST_LOOKED_AT, LATER_TIMES = 256, 4
_DOMAIN = b"ogpu/render-tile/1/"


class TileRun:
    """The run of one tile. Implements `SegmentedRun` (see there for the methods)."""

    def __init__(self, backend: TileBackend, asked_tile: AskedTile, encoded_request: bytes) -> None:
        """Take a request and its decoded form `asked_tile`."""
        self.asked = asked_tile
        self._tracer = backend.tracer(asked_tile.scene)
        self._digest = request_digest(encoded_request)

    @property
    def segments(self) -> int:
        """The number of segments. All but the last have the length that the request names."""
        return self.asked.segments

    def boundary(self, index: int) -> int:
        """Return a multiple of the segment's length, or all rows at the end."""
        return min(index * self.asked.segment, self.asked.tile.rows)

    def initial_state(self) -> bytes:
        """Return the state without any row."""
        return encode_state(self._digest, 0, b"")

    def steps_done(self, state: bytes) -> int:
        """Return the number of rows in a state."""
        return decode_state(self.asked, self._digest, state)[0]

    def advance(self, state: bytes, steps: int) -> bytes:
        """Compute the next rows below those of a state."""
        return self.trailed(state, steps, bytes(TRAIL_BYTES))[0]

    def trailed(self, state: bytes, steps: int, trail: bytes) -> tuple[bytes, bytes]:
        """Hash the light of each pixel before rounding, all colours together, into the trail: no output contains it."""
        rows_done, pixels_so_far = decode_state(self.asked, self._digest, state)
        if not 0 <= steps <= self.asked.tile.rows - rows_done:
            raise ValueError(f"{steps} rows after {rows_done} of {self.asked.tile.rows}")
        columns = self.asked.tile.columns
        light = self.sums(np.arange(rows_done * columns, (rows_done + steps) * columns))
        later_pixels = shown(light, self.asked.scene.samples)
        later_state = encode_state(self._digest, rows_done + steps, pixels_so_far + later_pixels)
        # One number for each pixel, because hashing three costs 4 % of the fastest scenes.
        totals = light[:, 0] + light[:, 1] + light[:, 2]
        return later_state, trail_after(trail, step_bytes(totals.reshape(steps, columns)))

    def metric(self, state: bytes) -> int:
        """Return the number of pixels that are still to be rendered."""
        return self.asked.pixels - self.steps_done(state) * self.asked.tile.columns

    def pixels(self, pixel_indices: Int64Array) -> bytes:
        """Return red, green and blue of some pixels of the tile, in any order, each computed alone."""
        return shown(self.sums(pixel_indices), self.asked.scene.samples)

    def sums(self, pixel_indices: Int64Array) -> Int64Array:
        """Return int64[n, 3]: the light summed over all their paths, which no output contains."""
        tile = self.asked.tile
        return self._tracer.sums(tile.left + pixel_indices % tile.columns, tile.top + pixel_indices // tile.columns)


class _TileOnce(TileRun):
    """A run that computes no pixel twice."""

    def __init__(self, backend: TileBackend, asked_tile: AskedTile, encoded_request: bytes) -> None:
        super().__init__(backend, asked_tile, encoded_request)
        # No light is negative.
        self._light = np.full((asked_tile.pixels, PIXEL_BYTES), -1, dtype=np.int64)

    def sums(self, pixel_indices: Int64Array) -> Int64Array:
        """Compute the missing pixels."""
        missing = pixel_indices[self._light[pixel_indices, 0] < 0]
        self._light[missing] = super().sums(missing)
        return self._light[pixel_indices]

    def fingerprint(self, seed: bytes) -> bytes:
        """Return the fingerprint of all segments."""
        # All pixels at once, because short segments alone cost NumPy four times as much.
        self.sums(np.arange(self.asked.pixels))
        return trail_fingerprint(seed, [trail for _, trail in trailed_segments(self)])


class TileRendering(StepwiseWorkload):
    """`render-tile` ready to run. See `Workload` and `StepwiseWorkload` for the methods."""

    workload_id = WORKLOAD_ID
    model_id = MODEL_ID

    def __init__(self, backend: TileBackend) -> None:
        """Take a backend. The caller checks its conformance."""
        self._backend = backend

    def begin(self, encoded_request: bytes) -> TileRun:
        """Return the run of a request within the limits."""
        return TileRun(self._backend, decode_request(encoded_request), encoded_request)

    def run(self, encoded_request: bytes) -> bytes:
        """Return the encoded `TileOutput`."""
        asked_tile = decode_request(encoded_request)
        pixels = TileRun(self._backend, asked_tile, encoded_request).pixels(np.arange(asked_tile.pixels))
        return OUTPUT.encode(asked_tile.output(pixels))

    def verify(self, encoded_request: bytes, encoded_output: bytes) -> OutputCheck:
        """Compute every pixel again, up to the first wrong ones.

        `recomputed` and `first_wrong` are pixels of the tile.
        """
        return _wrong_pixels(self.begin(encoded_request), encoded_output)

    def check(self, encoded_request: bytes, encoded_output: bytes, seed: bytes) -> FingerprintedCheck:
        """Compute every pixel again once, for both."""
        run = _TileOnce(self._backend, decode_request(encoded_request), encoded_request)
        output_check = _wrong_pixels(run, encoded_output)
        return FingerprintedCheck(output_check, run.fingerprint(seed) if output_check.valid else None)

    def fingerprint(self, encoded_request: bytes, encoded_output: bytes, seed: bytes) -> bytes:
        """Compute every pixel."""
        return _TileOnce(self._backend, decode_request(encoded_request), encoded_request).fingerprint(seed)

    def spot_check(self, encoded_request: bytes, encoded_output: bytes, seed: bytes, count: int) -> OutputCheck:
        """Compute `count` pixels again, drawn from `seed`, which the provider must not know before it has answered.

        An output with a wrong share f passes with probability (1 - f)**count. Raise DecodeError for an invalid request.
        """
        run = self.begin(encoded_request)
        return _wrong_pixels(run, encoded_output, _drawn_order(b"spots" + seed, run.asked.pixels)[:count])

    def conformance(self) -> bytes:
        """Return the hash of all vectors, which are published."""
        return check(self._backend)


def open_published(backend_name: str) -> TileRendering:
    """Return the workload on a backend after its vectors passed. Raise errors as `WorkloadForm.open`."""
    workload = TileRendering(backend_named(backend_name))
    workload.conformance()
    return workload


def _wrong_pixels(run: TileRun, encoded_output: bytes, pixel_order: Int64Array | None = None) -> OutputCheck:
    """Compare pixels in this order, few at first, four times as many each further time. The default is all pixels."""
    claimed = _claimed_pixels(run.asked, encoded_output)
    if claimed is None:
        return OutputCheck(valid=False, recomputed=0, first_wrong=0)
    if pixel_order is None:
        # Drawn from the output itself: a provider cannot put its wrong pixels where a checker looks last.
        pixel_order = _drawn_order(b"order" + blake2b(encoded_output).digest(), run.asked.pixels)
    # Few at first, so that a wrong output is refuted at a low cost.
    start, size = 0, FIRST_LOOKED_AT
    while start < len(pixel_order):
        batch = pixel_order[start : start + size]
        right = np.frombuffer(run.pixels(batch), np.uint8).reshape(-1, PIXEL_BYTES)
        start, size = start + len(batch), LATER_TIMES * size
        wrong = batch[(claimed[batch] != right).any(axis=1)]
        if len(wrong):
            return OutputCheck(valid=False, recomputed=start, first_wrong=int(wrong.min()))
    return OutputCheck(valid=True, recomputed=start, first_wrong=None)


def _claimed_pixels(
    asked_tile: AskedTile, encoded_output: bytes
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]] | None:
    """Return uint8[n, 3] of an output that can be wrong only in its pixels, or None for any other."""
    try:
        claimed = OUTPUT.decode(encoded_output).pixels
    except DecodeError:
        return None
    # Everything but the pixels follows from the request, so any other byte is a wrong output.
    if len(claimed) != PIXEL_BYTES * asked_tile.pixels or encoded_output != OUTPUT.encode(asked_tile.output(claimed)):
        return None
    return np.frombuffer(claimed, np.uint8).reshape(-1, PIXEL_BYTES)


def _drawn_order(drawn_from: bytes, pixel_count: int) -> Int64Array:
    """Return all pixels of a tile in an order drawn by SHAKE-256."""
    order_keys = np.frombuffer(shake_256(_DOMAIN + drawn_from).digest(8 * pixel_count), "<u8")
    # Stable, so that equal keys have one order on every machine.
    return np.argsort(order_keys, kind="stable").astype(np.int64)
