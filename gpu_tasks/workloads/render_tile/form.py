"""`render-tile` as programs see it: a scene as text, a part of its picture. The cost unit is a number of ray tests.

Invariant: no request costs more than `cost_max` or breaks the limits of `request.py`. The scene names the seed of its
picture, so that tiles bought one by one fit together.
"""

from collections.abc import Mapping

from gpu_tasks.traces.trace import SEGMENTS_MAX
from gpu_tasks.workloads.form import Option, RequestError, WorkloadForm, settings
from gpu_tasks.workloads.render_tile.request import (
    FRAME_BYTES,
    MODEL_ID,
    OUTPUT,
    PIXEL_BYTES,
    REQUEST,
    WORKLOAD_ID,
    decode_request,
    read_request,
    request_of,
)
from gpu_tasks.workloads.render_tile.scene_text import SIDE_MAX, SceneError, read_text
from gpu_tasks.workloads.workload import Workload
from runtime.encoding.codec import DecodeError

SEGMENT = Option("segment", "1", f"rows between two states of the trace, at most {SEGMENTS_MAX} segments in all")
_SHOWN_MAX = 80
_DIGITS_MAX = len(str(SIDE_MAX))


class TileForm(WorkloadForm):
    """`render-tile` for programs. See `WorkloadForm` for the methods."""

    name = "render-tile"
    workload_id = WORKLOAD_ID
    model_id = MODEL_ID
    cost_unit = "bundle"
    is_stepwise = True
    backends = ("numpy", "reference", "torch")
    options = (SEGMENT,)

    def encode(self, text: str, cost_max: int, options: Mapping[str, str], seed: bytes) -> bytes:
        """Encode the tile that the text names, or the whole picture.

        `seed` is unused, because the scene has its own.
        """
        segment_rows = _segment_rows(settings(self.options, options)[SEGMENT.name])
        try:
            request = request_of(read_text(text), segment_rows)
            cost = read_request(request).cost
        except SceneError as error:
            raise RequestError(str(error)) from None
        if cost > cost_max:
            raise RequestError(
                f"the tile costs {cost:,} bundles, more than {cost_max:,}; take a smaller tile, fewer samples or "
                "bounces, or allow more"
            )
        return REQUEST.encode(request)

    def show_request(self, encoded_request: bytes) -> str:
        """Return the beginning of the scene, and the requested part of the picture."""
        asked_tile, scene = decode_request(encoded_request), REQUEST.decode(encoded_request).scene.decode("ascii")
        start = scene if len(scene) <= _SHOWN_MAX else scene[:_SHOWN_MAX] + "…"
        tile, object_count = asked_tile.tile, len(asked_tile.scene.objects)
        place = f"{tile.left} {tile.top} {tile.columns} {tile.rows}"
        return f"{start} (tile {place}, {object_count} objects)"

    def show_output(self, encoded_output: bytes) -> str:
        """Return the output's part and picture, or all the bytes if they are no output."""
        try:
            output = OUTPUT.decode(encoded_output)
        except DecodeError:
            return "0x" + encoded_output.hex()
        place = f"{output.left} {output.top} {output.columns} {output.rows}"
        return f"tile {place} of picture 0x{output.picture.hex()}, {len(output.pixels):,} bytes"

    def cost_asked(self, encoded_request: bytes) -> int:
        """Return the cost of all tests that the tile's paths may take."""
        return decode_request(encoded_request).cost

    def output_bytes(self, encoded_request: bytes) -> int:
        """Return the bytes of the pixels, and of the fields beside them."""
        return FRAME_BYTES + PIXEL_BYTES * decode_request(encoded_request).pixels

    def segments(self, encoded_request: bytes) -> int:
        """Return the number of segments. All but the last have the length that the request names."""
        return decode_request(encoded_request).segments

    def cost(self, encoded_output: bytes) -> int:
        """Return the cost in the output, or 0 if the bytes are no output."""
        try:
            return OUTPUT.decode(encoded_output).cost
        except DecodeError:
            return 0

    def open(self, backend_name: str) -> Workload:
        """Open the workload on `numpy`, `reference` or `torch-<device>`."""
        from gpu_tasks.workloads.render_tile.service import open_published  # noqa: PLC0415  # NumPy, for executors only

        return open_published(backend_name)


def _segment_rows(text: str) -> int:
    """Return a number of rows in decimal digits."""
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX) or int(text) < 1:
        raise RequestError(f"segment must be a whole number of rows, at least 1, not {text!r}")
    return int(text)
