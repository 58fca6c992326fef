"""Streams over one tunnel: bytes both ways, windows, ends, and forbidden messages."""

import asyncio
import contextlib
import os
import random
from typing import Any

import pytest

from gpu_tasks.tunnel.frames import (
    ASK,
    DATA_BYTES_MAX,
    ERR,
    MESSAGE_BYTES_MAX,
    OUT,
    STREAMS_MAX,
    WINDOW_BYTES,
    Converse,
    InputEnd,
    ResizeTerminal,
    RunProgram,
    StreamBytes,
    StreamEnd,
    TunnelAsk,
)
from gpu_tasks.tunnel.tunnel import DROPPED, HUNG_UP, SERVED_MAX, TunnelError, TunnelStream
from tunnel_ends import (
    DATA,
    FIN,
    PORT,
    RST,
    SYN,
    WINDOW_UPDATE,
    Ends,
    both_ends,
    echo,
    everything,
    framed,
    send_all,
    stream_ends,
    yamux_frame,
)

ASK_BYTES = framed(PORT, ASK)
ASKED = yamux_frame(DATA, SYN, 1, ASK_BYTES)


async def deaf(stream: TunnelStream, _ask: TunnelAsk) -> None:
    await stream.end


async def test_bytes_go_both_ways_and_the_end_is_told() -> None:
    async with both_ends() as ends:
        stream = await ends.customer.open(PORT)
        content = os.urandom(5 * WINDOW_BYTES + 7)
        sending = asyncio.create_task(send_all(stream, content))
        assert await everything(stream) == content
        await sending
        assert (await stream.end).code == 3
        await asyncio.sleep(0)
        assert not ends.customer._open_streams
        assert not ends.provider._open_streams


async def test_pieces_of_any_size_arrive_over_many_streams_at_once() -> None:
    chance = random.Random(7)

    async def exchange(ends: Ends) -> None:
        stream = await ends.customer.open(PORT)
        pieces = [chance.randbytes(chance.choice((1, 100, DATA_BYTES_MAX, 50_000))) for _ in range(30)]

        async def send() -> None:
            for piece in pieces:
                await stream.write(piece)
            await stream.end_input()

        sending = asyncio.create_task(send())
        assert await everything(stream) == b"".join(pieces)
        await sending

    async with both_ends() as ends:
        for _ in range(3):
            await asyncio.gather(*(exchange(ends) for _ in range(STREAMS_MAX)))


async def test_the_ask_arrives_as_it_was_made() -> None:
    asked: list[TunnelAsk] = []

    async def note(_stream: TunnelStream, ask: TunnelAsk) -> None:
        asked.append(ask)

    asks: list[TunnelAsk] = [RunProgram(("sh", "-c"), is_terminal=True, rows=2, columns=3), Converse(7)]
    async with both_ends(note) as ends:
        for ask in asks:
            await (await ends.customer.open(ask)).end
        assert asked == asks
        with pytest.raises(TunnelError, match="at most"):
            await ends.customer.open(RunProgram(("x" * 4_000,) * 10, is_terminal=False, rows=0, columns=0))
        assert not ends.customer._open_streams


async def test_a_stream_whose_server_forgets_it_is_over() -> None:
    async def forgets(_stream: TunnelStream, _ask: TunnelAsk) -> None: ...

    async with both_ends(forgets) as ends:
        stream = await ends.customer.open(PORT)
        assert await stream.end == StreamEnd(0, "")
        await asyncio.sleep(0)
        assert not ends.customer._open_streams


async def test_who_does_not_read_is_sent_a_window_and_holds_nobody_else_up() -> None:

    async def deaf_first(stream: TunnelStream, ask: TunnelAsk) -> None:
        await (deaf if stream.number == 1 else echo)(stream, ask)

    async with both_ends(deaf_first) as ends:
        idle, busy = await ends.customer.open(PORT), await ends.customer.open(PORT)
        stuck = asyncio.create_task(idle.write(bytes(3 * WINDOW_BYTES)))
        sending = asyncio.create_task(send_all(busy, b"words"))
        assert await everything(busy) == b"words"
        await sending
        assert not stuck.done()
        assert WINDOW_BYTES // 2 < len(ends.provider._open_streams[1]._received_bytes) <= WINDOW_BYTES
        stuck.cancel()


async def test_channels_are_kept_apart() -> None:
    async with both_ends() as ends:
        stream = await ends.customer.open(PORT)
        await send_all(stream, b"x")
        assert await stream.read() == (ERR, b"x")
        assert await stream.read() is None


async def test_a_resize_comes_in_its_place_among_the_bytes() -> None:
    async with stream_ends() as (customer, provider):
        sizes: list[tuple[int, int]] = []

        async def resized(rows: int, columns: int) -> None:
            sizes.append((rows, columns))

        provider.on_resize = resized
        await customer.write(b"before")
        await customer.resize(50, 80)
        await customer.write(b"after")
        assert (await provider.read(), sizes) == ((OUT, b"before"), [])
        assert (await provider.read(), sizes) == ((OUT, b"after"), [(50, 80)])


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
        with pytest.raises(TunnelError, match=HUNG_UP):
            await ends.customer.open(PORT)


async def test_a_wait_for_room_ends_with_the_stream_and_the_reason_passes_a_full_window() -> None:
    async def refuse(served: TunnelStream, _ask: TunnelAsk) -> None:
        filling = asyncio.create_task(served.write(bytes(3 * WINDOW_BYTES)))
        await asyncio.sleep(0.05)
        await served.finish(1, "no more" + "é" * 1_000)
        assert isinstance((await asyncio.wait({filling}))[0].pop().exception(), TunnelError)

    async with both_ends(refuse) as ends:
        stream = await ends.customer.open(PORT)
        with pytest.raises(TunnelError, match="no more"):
            await stream.write(bytes(3 * WINDOW_BYTES))
        assert (await stream.end).problem.startswith("no more")
        assert 0 < len(await everything(stream)) < WINDOW_BYTES


async def test_a_reader_that_is_cancelled_loses_nothing() -> None:
    async with stream_ends() as (customer, provider):
        content = os.urandom(4 * WINDOW_BYTES)
        sending = asyncio.create_task(send_all(customer, content))
        said, chance = b"", random.Random(7)
        while True:
            reading = asyncio.create_task(provider.read())
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
            if not reading.done():
                reading.cancel()
                await asyncio.wait({reading})
            if not reading.cancelled():
                if (found := reading.result()) is None:
                    break
                said += found[1]
        await sending
        assert said == content


async def test_streams_are_bounded() -> None:
    async with both_ends() as ends:
        for _ in range(STREAMS_MAX):
            await ends.customer.open(PORT)
        with pytest.raises(TunnelError, match="open streams already"):
            await ends.customer.open(PORT)
        await ends.say(yamux_frame(WINDOW_UPDATE, SYN, 99))
        assert "too many streams" in await ends.running[1]


async def test_what_has_room_is_sent_although_the_other_side_reads_nothing_and_the_end_too() -> None:
    async def fill(stream: TunnelStream, _ask: TunnelAsk) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                while True:
                    await stream.write(b"x" * 100)
        await stream.finish(9, "full" * 250)

    async with both_ends(fill) as ends:
        stream = await ends.customer.open(PORT)
        assert await stream.end == StreamEnd(9, "full" * 250)
        assert WINDOW_BYTES - 2_000 < len(stream._received_bytes) <= WINDOW_BYTES


async def test_small_messages_cost_no_more_memory_than_large_ones_and_let_others_run() -> None:
    async with stream_ends() as (customer, provider):
        for number in range(5_000):
            await customer.write(b"x", number % 2)
        await customer.end_input()
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_turns())
        await asyncio.sleep(0.05)
        before = turns
        assert await everything(provider) == b"x" * 5_000
        assert turns - before >= 5_000
        counting.cancel()


async def test_streams_that_are_ended_at_once_are_bounded_too() -> None:
    served, going = 0, asyncio.Event()

    async def slow(_stream: TunnelStream, _ask: TunnelAsk) -> None:
        nonlocal served
        served += 1
        await going.wait()

    async with both_ends(slow) as ends:
        for number in range(1, 8 * SERVED_MAX, 2):
            await ends.say(yamux_frame(DATA, SYN, number, ASK_BYTES))
            await ends.say(yamux_frame(WINDOW_UPDATE, FIN, number))
        await ends.pipe.is_taken()
        assert served == SERVED_MAX
        assert not ends.running[1].done()
        refused = await ends.customer.open(PORT)
        assert (await refused.end).problem == DROPPED
        going.set()
        await asyncio.sleep(0.05)
        await ends.customer.open(PORT)
        await ends.pipe.is_taken()
        assert served == SERVED_MAX + 1, "there is room once they are over"


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (ASKED + yamux_frame(WINDOW_UPDATE, SYN, 1), "cannot open"),
        (yamux_frame(WINDOW_UPDATE, SYN, 2), "cannot open"),
        (ASKED + yamux_frame(DATA, 0, 1, length=WINDOW_BYTES), "window exceeded"),
        (yamux_frame(DATA, 0, 7, b"x"), "do not exist"),
        (yamux_frame(2, SYN, 0) * 1_400, "faster than it reads"),
        (yamux_frame(3, 0, 0), HUNG_UP),
        (b"\xff nonsense that is no frame", "not a yamux frame"),
    ],
)
async def test_what_may_not_be_said_ends_the_tunnel(sent: bytes, says: str) -> None:
    async with both_ends(deaf) as ends:
        await ends.say(sent)
        assert says in await ends.running[1]


async def test_a_customer_that_claims_to_have_read_more_is_sent_no_more_than_a_window() -> None:
    async def talk(stream: TunnelStream, _ask: TunnelAsk) -> None:
        await stream.write(bytes(3 * WINDOW_BYTES))

    async with both_ends(talk) as ends:
        await ends.say(yamux_frame(DATA, SYN, 1, ASK_BYTES) + yamux_frame(WINDOW_UPDATE, 0, 1, length=2**32 - 1))
        await ends.pipe.is_taken()
        assert ends.provider._serving_tasks


@pytest.mark.parametrize(
    "content",
    [
        (MESSAGE_BYTES_MAX + 1).to_bytes(4, "little"),
        b"\xff\xff\xff\xff",
        b"\2\0\0\0\xff\xff",
        b"\0\0\0\0",
    ],
)
@pytest.mark.parametrize("is_ask", [True, False])
async def test_an_invalid_message_ends_its_stream_and_no_other(content: bytes, *, is_ask: bool) -> None:
    async with both_ends() as ends:
        other = await ends.customer.open(PORT)
        await ends.say(yamux_frame(DATA, SYN, 3, (b"" if is_ask else ASK_BYTES) + content))
        await ends.pipe.is_taken()
        assert 3 not in ends.provider._open_streams
        await send_all(other, b"still there")
        assert await everything(other) == b"still there"


@pytest.mark.parametrize("flag", [FIN, RST])
async def test_a_stream_that_is_closed_without_an_end_is_broken_off(flag: int) -> None:
    ended: list[StreamEnd] = []

    async def serve(stream: TunnelStream, _ask: TunnelAsk) -> None:
        assert await stream.read() == (OUT, b"half")
        assert await stream.read() is None
        ended.append(await stream.end)

    async with both_ends(serve) as ends:
        await ends.say(ASKED + yamux_frame(DATA, flag, 1, framed(StreamBytes(OUT, b"half"))))
        await ends.pipe.is_taken()
        assert ended == [StreamEnd(1, DROPPED)]


async def test_bytes_after_the_end_of_the_input_are_not_read() -> None:
    async with stream_ends() as (customer, provider):
        await send_all(customer, b"all")
        await customer.write(b"more")
        assert await everything(provider) == b"all"
        assert await provider.read() is None


async def test_bytes_that_were_under_way_when_a_stream_ended_are_nobodys_fault() -> None:
    async def leaves(stream: TunnelStream, _ask: TunnelAsk) -> None:
        await stream.finish()

    async with both_ends(leaves) as ends:
        for number in range(1, 4 * STREAMS_MAX, 2):
            await ends.say(yamux_frame(DATA, SYN, number, ASK_BYTES))
            await ends.pipe.is_taken()
            for message in (StreamBytes(0, bytes(DATA_BYTES_MAX)), ResizeTerminal(1, 1), InputEnd()):
                await ends.say(yamux_frame(DATA, 0, number, framed(message)))
        await ends.pipe.is_taken()
        assert not ends.running[1].done()
        assert not ends.provider._open_streams


async def test_a_provider_opens_no_stream() -> None:
    async with both_ends() as ends:
        await ends.provider.open(PORT)
        assert "the customer's" in await ends.running[0]


async def test_an_end_reads_on_while_it_cannot_send() -> None:
    """Two ends that both stop reading until they can send would wait for each other for ever."""

    async def never(_record: bytes) -> None:
        await asyncio.Event().wait()

    async with both_ends(deaf) as ends:
        connection: Any = ends.provider._connection
        connection.send = never
        await ends.say(ASKED)
        await ends.pipe.is_taken()
        assert ends.provider._send_lock.locked()
        message = framed(StreamBytes(OUT, b"read"))
        await ends.say(yamux_frame(DATA, 0, 1, message))
        await ends.pipe.is_taken()
        assert message in ends.provider._open_streams[1]._received_bytes
        await ends.pipe.close()
        assert await ends.running[1] == HUNG_UP
        await asyncio.sleep(0)
        assert not ends.provider._send_lock.locked()
