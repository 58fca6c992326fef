"""Streams over one tunnel: bytes both ways, windows, ends, and forbidden messages."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from gpu_tasks.data.sealing import SealKey
from gpu_tasks.tunnel.frames import (
    DATA_BYTES_MAX,
    ERR,
    FRAME,
    OUT,
    STREAMS_MAX,
    WINDOW_BYTES,
    OpenStream,
    ReachPort,
    StreamBytes,
    StreamCredit,
    StreamEnd,
    StreamInputEnd,
)
from gpu_tasks.tunnel.handshake import SealedLine, TunnelName
from gpu_tasks.tunnel.multiplexer import (
    HUNG_UP,
    PIECES_MAX,
    SERVED_MAX,
    Multiplexer,
    StreamPurpose,
    TunnelError,
    TunnelStream,
)

NAME = TunnelName(b"g" * 32, b"t" * 32, b"p" * 32)
PORT = ReachPort(80)


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

    def __init__(self, serve: Callable[[TunnelStream, StreamPurpose], Awaitable[None]]) -> None:
        customer, provider = (SealKey(bytes((number,)) * 32) for number in (1, 2))
        self.line = SealedLine(NAME, customer, provider.public, is_customer=True)
        other = SealedLine(NAME, provider, customer.public, is_customer=False)
        other.hear(self.line.hello())
        self.line.hear(other.hello())
        first, second = asyncio.Queue[bytes | None](), asyncio.Queue[bytes | None]()
        self.pipe, other_pipe = Pipe(first, second), Pipe(second, first)
        self.customer = Multiplexer(self.pipe, self.line)
        self.provider = Multiplexer(other_pipe, other, serve)
        self.running = [asyncio.create_task(each.run()) for each in (self.customer, self.provider)]

    async def say(self, frame: Any) -> None:
        """Send a frame as a customer's other program might."""
        await self.pipe.send(self.line.seal(FRAME.encode(frame)))

    async def close(self) -> None:
        for task in self.running:
            task.cancel()
        await asyncio.wait(self.running)


@contextlib.asynccontextmanager
async def both_ends(
    serve: Callable[[TunnelStream, StreamPurpose], Awaitable[None]] | None = None,
) -> AsyncIterator[Ends]:
    ends = Ends(serve or echo)
    try:
        async with asyncio.timeout(20):
            yield ends
    finally:
        await ends.close()


async def echo(stream: TunnelStream, _wanted: StreamPurpose) -> None:
    """Repeat the input, and end with 3."""
    while (found := await stream.read()) is not None:
        await stream.write(found[1], ERR)
    await stream.finish(3)


async def everything(stream: TunnelStream) -> bytes:
    said = b""
    while (found := await stream.read()) is not None:
        said += found[1]
    return said


async def test_bytes_go_both_ways_and_the_end_is_told() -> None:
    async with both_ends() as ends:
        stream = await ends.customer.open(PORT)
        content = os.urandom(5 * WINDOW_BYTES + 7)
        sending = asyncio.create_task(_send(stream, content))
        assert await everything(stream) == content
        await sending
        assert (await stream.end).code == 3
        await asyncio.sleep(0)
        assert ends.customer.is_idle
        assert ends.provider.is_idle


async def test_a_stream_whose_server_forgets_it_is_over() -> None:
    async def forgets(_stream: TunnelStream, _wanted: StreamPurpose) -> None: ...

    async with both_ends(forgets) as ends:
        stream = await ends.customer.open(PORT)
        assert (await stream.end).code == 0
        assert ends.customer.is_idle


async def _send(stream: TunnelStream, content: bytes) -> None:
    await stream.write(content)
    await stream.end_input()


async def test_who_does_not_read_is_sent_a_window_and_holds_nobody_else_up() -> None:

    async def deaf_first(stream: TunnelStream, wanted: StreamPurpose) -> None:
        if stream.number == 1:
            await stream.end
        else:
            await echo(stream, wanted)

    async with both_ends(deaf_first) as ends:
        idle, busy = await ends.customer.open(PORT), await ends.customer.open(PORT)
        stuck = asyncio.create_task(idle.write(bytes(3 * WINDOW_BYTES)))
        sending = asyncio.create_task(_send(busy, b"words"))
        assert await everything(busy) == b"words"
        await sending
        assert not stuck.done()
        stuck.cancel()


async def test_channels_are_kept_apart() -> None:
    async with both_ends() as ends:
        stream = await ends.customer.open(PORT)
        await _send(stream, b"x")
        assert await stream.read() == (ERR, b"x")
        assert await stream.read() is None


async def test_every_stream_ends_with_the_tunnel() -> None:
    async with both_ends() as ends:
        stream = await ends.customer.open(PORT)
        await ends.pipe.close()
        assert await ends.running[1] == HUNG_UP
        await ends.provider.settle()
        ends.running[0].cancel()
        await asyncio.wait({ends.running[0]})
        assert (await stream.end).problem == HUNG_UP
        with pytest.raises(TunnelError, match=HUNG_UP):
            await stream.write(b"more")


async def test_a_wait_for_room_ends_with_the_stream() -> None:
    async def refuse(served: TunnelStream, _wanted: StreamPurpose) -> None:
        await asyncio.sleep(0.05)
        await served.finish(1, "no more")

    async with both_ends(refuse) as ends:
        stream = await ends.customer.open(PORT)
        with pytest.raises(TunnelError, match="no more"):
            await stream.write(bytes(3 * WINDOW_BYTES))


async def test_streams_are_bounded() -> None:
    async with both_ends() as ends:
        for _ in range(STREAMS_MAX):
            await ends.customer.open(PORT)
        with pytest.raises(TunnelError, match="open streams already"):
            await ends.customer.open(PORT)
        await ends.say(OpenStream(99, PORT))
        assert "more than" in await ends.running[1]


async def test_small_frames_cost_no_more_than_large_ones() -> None:
    async with both_ends() as ends:
        stream = TunnelStream(1, ends.say)
        for number in range(20_000):
            stream.take(StreamBytes(1, number % 2, b"x"))
            stream.take(StreamBytes(1, ERR, b""))
        stream.input_ended()
        pieces = []
        while (found := await stream.read()) is not None:
            pieces.append(found)
        assert len(pieces) <= PIECES_MAX
        said = [b"".join(data for channel, data in pieces if channel == which) for which in (OUT, ERR)]
        assert said == [b"x" * 10_000] * 2


async def test_pieces_keep_their_order_and_their_channels() -> None:
    async with both_ends() as ends:
        stream = TunnelStream(1, ends.say)
        for channel, data in ((OUT, b"a"), (OUT, b"b"), (ERR, b"c"), (OUT, b"d")):
            stream.take(StreamBytes(1, channel, data))
        assert await stream.read() == (OUT, b"ab")
        stream.take(StreamBytes(1, OUT, b"e"))
        assert await stream.read() == (ERR, b"c")
        assert await stream.read() == (OUT, b"de")
        stream.take(StreamBytes(1, OUT, b"f"))
        assert await stream.read() == (OUT, b"f")


async def test_streams_that_are_ended_at_once_are_bounded_too() -> None:
    served, going = 0, asyncio.Event()

    async def slow(_stream: TunnelStream, _wanted: StreamPurpose) -> None:
        nonlocal served
        served += 1
        await going.wait()

    async with both_ends(slow) as ends:
        for number in range(1, 4 * SERVED_MAX):
            await ends.say(OpenStream(number, PORT))
            await ends.say(StreamEnd(number, 0, ""))
        await ends.pipe.is_taken()
        assert served == SERVED_MAX
        assert not ends.running[1].done()
        going.set()
        await asyncio.sleep(0.05)
        await ends.say(OpenStream(9_999, PORT))
        await ends.pipe.is_taken()
        assert served == SERVED_MAX + 1, "there is room once they are over"


@pytest.mark.parametrize(
    ("frames", "says"),
    [
        ([OpenStream(1, PORT), OpenStream(1, PORT)], "used number"),
        ([OpenStream(1, PORT), *[StreamBytes(1, 0, bytes(DATA_BYTES_MAX))] * 9], "than the window"),
        ([OpenStream(1, PORT), StreamCredit(1, 1)], "read than sent"),
        ([OpenStream(1, PORT), StreamInputEnd(1), StreamBytes(1, 0, b"x")], "after the end"),
    ],
)
async def test_what_may_not_be_said_ends_the_tunnel(frames: list[Any], says: str) -> None:

    async def deaf(stream: TunnelStream, _wanted: StreamPurpose) -> None:
        await stream.end

    async with both_ends(deaf) as ends:
        for frame in frames:
            await ends.say(frame)
        assert says in await ends.running[1]


async def test_frames_of_streams_that_are_over_are_passed_over() -> None:
    async with both_ends() as ends:
        for frame in (StreamBytes(7, 0, b"x"), StreamCredit(7, 9), StreamInputEnd(7)):
            await ends.say(frame)
        stream = await ends.customer.open(PORT)
        await _send(stream, b"still there")
        assert await everything(stream) == b"still there"


async def test_bytes_that_were_under_way_when_a_stream_ended_are_nobodys_fault() -> None:
    async with both_ends() as ends:
        stream = TunnelStream(1, ends.say)
        await stream.finish()
        stream.take(StreamBytes(1, 0, b"x"))
        assert await stream.read() is None


async def test_bytes_that_are_no_frame_end_the_tunnel() -> None:
    async with both_ends() as ends:
        await ends.pipe.send(ends.line.seal(b"\xff nonsense"))
        assert "invalid frame" in await ends.running[1]


async def test_a_provider_opens_no_stream() -> None:
    async with both_ends() as ends:
        await ends.provider.open(PORT)
        assert "the customer's" in await ends.running[0]
