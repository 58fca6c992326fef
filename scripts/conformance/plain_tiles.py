"""`render-tile` in plain Python integers, without NumPy: the states of a run, pixel by pixel."""

from collections.abc import Iterator
from hashlib import blake2b

from gpu_tasks.workloads.render_tile.reference import pixel_bytes
from gpu_tasks.workloads.render_tile.request import AskedTile, decode_request


def plain_tile_states(request: bytes) -> Iterator[bytes]:
    """The states at all boundaries of the run that a request asks for."""
    asked, digest = decode_request(request), blake2b(request, digest_size=32).digest()
    rows, done = b"", 0
    yield digest + bytes(4)
    while done < asked.tile.rows:
        until = min(done + asked.segment, asked.tile.rows)
        rows += b"".join(_row(asked, row) for row in range(done, until))
        done = until
        yield digest + done.to_bytes(4, "little") + rows


def _row(asked: AskedTile, row: int) -> bytes:
    tile = asked.tile
    return b"".join(
        pixel_bytes(asked.scene, column, tile.top + row) for column in range(tile.left, tile.left + tile.columns)
    )
