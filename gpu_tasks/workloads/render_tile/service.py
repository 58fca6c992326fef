"""`render-tile` as a `Workload` and a `StepwiseWorkload`, and cheaper checks of drawn pixels.

`verify` computes every pixel, because judges are liable for their answers. The output determines the order, so a fault
in one pixel of a hundred appears after some hundred pixels.
"""

from hashlib import blake2b, shake_256

import numpy as np

from gpu_tasks.workloads.fingerprints import fingerprint, sampled_places
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

FIRST_LOOKED_AT, LATER_TIMES = 256, 4
_DOMAIN = b"ogpu/render-tile/1/"


class TileRun:
    """The run of one tile. Implements `SegmentedRun` (see there for the methods)."""

    def __init__(self, backend: TileBackend, asked_tile: AskedTile, encoded_request: bytes) -> None:
        """Take a request and its decoded form `asked_tile`."""
        self._asked = asked_tile
        self._tracer = backend.tracer(asked_tile.scene)
        self._digest = request_digest(encoded_request)

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
        rows_done, pixels_so_far = decode_state(self._asked, self._digest, state)
        later_pixels = self.pixels(self._next_pixels(state, steps))
        return encode_state(self._digest, rows_done + steps, pixels_so_far + later_pixels)

    def metric(self, state: bytes) -> int:
        """Return the number of pixels that are still to be rendered."""
        return self._asked.pixels - self.steps_done(state) * self._asked.tile.columns

    def fingerprint(self, state: bytes, steps: int, seed: bytes) -> bytes:
        """Sample one colour of each pixel's light before rounding, which no output contains."""
        indices = self._next_pixels(state, steps)
        colours = sampled_places(seed, 0, len(indices), PIXEL_BYTES)
        return fingerprint(seed, [self.sums(indices)[np.arange(len(indices)), colours]])

    def _next_pixels(self, state: bytes, steps: int) -> Int64Array:
        """Return the pixels of the next rows. Raise DecodeError for a false state, and ValueError beyond the end."""
        rows_done = self.steps_done(state)
        if not 0 <= steps <= self._asked.tile.rows - rows_done:
            raise ValueError(f"{steps} rows after {rows_done} of {self._asked.tile.rows}")
        columns = self._asked.tile.columns
        return np.arange(rows_done * columns, (rows_done + steps) * columns)

    def pixels(self, pixel_indices: Int64Array) -> bytes:
        """Return red, green and blue of some pixels of the tile, in any order, each computed alone."""
        return shown(self.sums(pixel_indices), self._asked.scene.samples)

    def sums(self, pixel_indices: Int64Array) -> Int64Array:
        """Return int64[n, 3]: the light summed over all their paths, which no output contains."""
        tile = self._asked.tile
        return self._tracer.sums(tile.left + pixel_indices % tile.columns, tile.top + pixel_indices // tile.columns)


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
        asked_tile = decode_request(encoded_request)
        return self._wrong_pixels(
            encoded_request,
            encoded_output,
            # Drawn from the output itself: a provider cannot put its wrong pixels where a judge looks last.
            _drawn_order(b"order" + blake2b(encoded_output).digest(), asked_tile.pixels),
        )

    def spot_check(self, encoded_request: bytes, encoded_output: bytes, seed: bytes, count: int) -> OutputCheck:
        """Compute `count` pixels again, drawn from `seed`, which the provider must not know before it has answered.

        An output with a wrong share f passes with probability (1 - f)**count. Raise DecodeError for an invalid request.
        """
        asked_tile = decode_request(encoded_request)
        return self._wrong_pixels(
            encoded_request, encoded_output, _drawn_order(b"spots" + seed, asked_tile.pixels)[:count]
        )

    def fingerprint(self, encoded_request: bytes, encoded_output: bytes, seed: bytes) -> bytes:
        """Sample one colour of each pixel's light before rounding."""
        asked_tile = decode_request(encoded_request)
        run = TileRun(self._backend, asked_tile, encoded_request)
        return run.fingerprint(run.initial_state(), asked_tile.tile.rows, seed)

    def conformance(self) -> bytes:
        """Return the hash of all vectors, which are published."""
        return check(self._backend)

    def _wrong_pixels(self, encoded_request: bytes, encoded_output: bytes, pixel_order: Int64Array) -> OutputCheck:
        """Compare the pixels in this order, few at first, four times as many each further time."""
        asked_tile = decode_request(encoded_request)
        claimed = _claimed_pixels(asked_tile, encoded_output)
        if claimed is None:
            return OutputCheck(valid=False, recomputed=0, first_wrong=0)
        # Few at first, so that a wrong output is refuted at a low cost.
        run, start, size = TileRun(self._backend, asked_tile, encoded_request), 0, FIRST_LOOKED_AT
        while start < len(pixel_order):
            batch = pixel_order[start : start + size]
            right = np.frombuffer(run.pixels(batch), np.uint8).reshape(-1, PIXEL_BYTES)
            start, size = start + len(batch), LATER_TIMES * size
            wrong = batch[(claimed[batch] != right).any(axis=1)]
            if len(wrong):
                return OutputCheck(valid=False, recomputed=start, first_wrong=int(wrong.min()))
        return OutputCheck(valid=True, recomputed=start, first_wrong=None)


def open_published(backend_name: str) -> TileRendering:
    """Return the workload on a backend after its vectors passed. Raise errors as `WorkloadForm.open`."""
    workload = TileRendering(backend_named(backend_name))
    workload.conformance()
    return workload


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
