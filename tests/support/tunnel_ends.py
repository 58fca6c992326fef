"""Both ends of a tunnel over a connection in memory."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from typing import Any

from gpu_tasks.data.sealing import SealKey
from gpu_tasks.tunnel import frames
from gpu_tasks.tunnel.handshake import SealedLine, TunnelName
from gpu_tasks.tunnel.tunnel import ServeStream, Tunnel, TunnelStream
from runtime.encoding.codec import Codec

NAME = TunnelName(b"g" * 32, b"t" * 32, b"p" * 32)
PORT = frames.ReachPort(80)
DATA, WINDOW_UPDATE = 0, 1
SYN, FIN, RST = 1, 4, 8


def yamux_frame(kind: int, flags: int, stream: int, data: bytes = b"", length: int | None = None) -> bytes:
    return struct.pack(">BBHII", 0, kind, flags, stream, len(data) if length is None else length) + data


def framed(message: Any, form: Codec[Any] = frames.MESSAGE) -> bytes:
    """Return a message with its length."""
    encoded = form.encode(message)
    return len(encoded).to_bytes(frames.LENGTH_BYTES, "little") + encoded


class Pipe:
    """One end of a connection in memory."""

    def __init__(self, out: asyncio.Queue[bytes | None], into: asyncio.Queue[bytes | None]) -> None:
        self._out, self._in = out, into

    async def send(self, record: bytes) -> None:
        await self._out.put(record)

    async def receive(self) -> bytes | None:
        return await self._in.get()

    async def close(self) -> None:
        await self._out.put(None)

    async def is_taken(self) -> None:
        """Wait until the other side has read all sent bytes and begun to act on them."""
        while not self._out.empty():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)


class Ends:
    """A customer's end that opens streams, and a provider's that serves them."""

    def __init__(self, serve: ServeStream) -> None:
        customer, provider = (SealKey(bytes((number,)) * 32) for number in (1, 2))
        self.line = SealedLine(NAME, customer, provider.public, is_customer=True)
        other = SealedLine(NAME, provider, customer.public, is_customer=False)
        other.hear(self.line.hello())
        self.line.hear(other.hello())
        first, second = asyncio.Queue[bytes | None](), asyncio.Queue[bytes | None]()
        self.pipe, other_pipe = Pipe(first, second), Pipe(second, first)
        self.customer = Tunnel(self.pipe, self.line)
        self.provider = Tunnel(other_pipe, other, serve)
        self.running = [asyncio.create_task(each.run()) for each in (self.customer, self.provider)]

    async def say(self, data: bytes) -> None:
        """Send bytes in a record as a customer's other program might."""
        await self.pipe.send(self.line.seal(data))

    async def close(self) -> None:
        for task in self.running:
            task.cancel()
        await asyncio.wait(self.running)
        await self.provider.settle()


@contextlib.asynccontextmanager
async def both_ends(serve: ServeStream | None = None) -> AsyncIterator[Ends]:
    ends = Ends(serve or echo)
    try:
        async with asyncio.timeout(20):
            yield ends
    finally:
        await ends.close()


@contextlib.asynccontextmanager
async def stream_ends(ask: frames.TunnelAsk = PORT) -> AsyncIterator[tuple[TunnelStream, TunnelStream]]:
    """Yield a customer's stream, and the same stream at the provider."""
    served: asyncio.Future[TunnelStream] = asyncio.get_running_loop().create_future()

    async def hand_out(stream: TunnelStream, _ask: frames.TunnelAsk) -> None:
        served.set_result(stream)
        await stream.end

    async with both_ends(hand_out) as ends:
        yield await ends.customer.open(ask), await served


async def echo(stream: TunnelStream, _ask: frames.TunnelAsk) -> None:
    """Repeat the input, and end with 3."""
    while (found := await stream.read()) is not None:
        await stream.write(found[1], frames.ERR)
    await stream.finish(3)


async def everything(stream: TunnelStream) -> bytes:
    said = b""
    while (found := await stream.read()) is not None:
        said += found[1]
    return said


async def send_all(stream: TunnelStream, content: bytes) -> None:
    await stream.write(content)
    await stream.end_input()
