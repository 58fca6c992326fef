"""A connection that is opened with half a request, fed a byte now and then, and opened again when it is closed."""

from __future__ import annotations

import trio

from devnet.proofs.flood.http_client import LOOPBACK
from devnet.proofs.flood.scene import SOURCE_ADDRESS, Scene

DRIP_SECONDS = 1.0
BROKEN = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)


async def drip(scene: Scene, port: int, opening: bytes, opened_per_second: float, turn: trio.Semaphore) -> None:
    """Hold one connection; `turn` bounds how many are opened at once."""
    async for _ in scene.paced(opened_per_second, at_once=1):
        try:
            async with turn:
                stream = await trio.open_tcp_stream(LOOPBACK, port, local_address=SOURCE_ADDRESS)
        except BROKEN:
            scene.note("refused")
            continue
        try:
            await stream.send_all(opening)
            scene.sent(1, len(opening))
            await _feed(stream)
        except BROKEN:
            pass
        finally:
            await trio.aclose_forcefully(stream)
        scene.note("closed by the node")


async def _feed(stream: trio.SocketStream) -> None:
    """A byte a while, until the other end closes."""
    while True:
        with trio.move_on_after(DRIP_SECONDS):
            if not await stream.receive_some():
                return
        await stream.send_all(b"x")
