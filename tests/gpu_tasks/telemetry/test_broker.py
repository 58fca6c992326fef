"""A broker's address, and a connection to a malicious one."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from gpu_tasks.data.endpoint import EndpointError
from gpu_tasks.telemetry import broker as broker_module
from gpu_tasks.telemetry.broker import (
    BROKER_ERRORS,
    INBOX_MAX,
    PACKET_BYTES_MAX,
    BrokerAddress,
    broker_connection,
    parse_broker,
    take_overflow,
)
from mosquitto import mosquitto

CONNECTED = b"\x20\x02\x00\x00"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("mqtt://gpu.example.org", BrokerAddress("mqtt", "gpu.example.org", 1883)),
        ("mqtts://gpu.example.org", BrokerAddress("mqtts", "gpu.example.org", 8883)),
        ("mqtt://gpu.example.org:80", BrokerAddress("mqtt", "gpu.example.org", 80)),
        ("mqtt://[2606:4700::1111]:1884", BrokerAddress("mqtt", "2606:4700::1111", 1884)),
        ("mqtt://[2606:4700::1111]", BrokerAddress("mqtt", "2606:4700::1111", 1883)),
    ],
)
def test_addresses_are_read(text: str, address: BrokerAddress) -> None:
    assert parse_broker(text, is_private_allowed=False) == address
    assert parse_broker(address.url, is_private_allowed=False) == address


@pytest.mark.parametrize(
    "text",
    ["", "gpu.example.org", "http://gpu.example.org", "mqtt://", "mqtt://a:b@gpu.example.org", "mqtt://gpu.example.org/x",
     "mqtt://gpu.example.org:0", "mqtt://gpu.example.org:65536", "mqtt://gpu.example.org:1:2", "mqtt://0x7f000001"],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(EndpointError):
        parse_broker(text, is_private_allowed=True)


@pytest.mark.parametrize("text", ["mqtt://localhost", "mqtt://127.0.0.1:1883", "mqtt://[::1]", "mqtt://10.0.0.7"])
def test_own_networks_are_for_development(text: str) -> None:
    parse_broker(text, is_private_allowed=True)
    with pytest.raises(EndpointError, match="a public address"):
        parse_broker(text, is_private_allowed=False)


@contextlib.asynccontextmanager
async def against(serve: Serve, *, hears: bool = True) -> AsyncIterator[BrokerAddress]:
    """Run a broker that reads a client's first bytes, acts by `serve`, and hangs up."""

    async def whole(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if hears:
            await reader.read(1_024)
        with contextlib.suppress(ConnectionError):
            await serve(reader, writer)
        writer.close()

    async with await asyncio.start_server(whole, "127.0.0.1", 0) as server, asyncio.timeout(30):
        yield BrokerAddress("mqtt", "127.0.0.1", server.sockets[0].getsockname()[1])


async def tells_nothing(address: BrokerAddress) -> None:
    with pytest.raises(BROKER_ERRORS):
        async with broker_connection(address, private=True) as client:
            async for _ in client.messages:
                raise AssertionError("nothing was told")


async def test_a_name_that_leads_into_an_own_network_is_not_spoken_to() -> None:
    """`parse_broker` accepts any name, so the connected address is checked again."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read())

    async with against(serve, hears=False) as address:
        with pytest.raises(BROKER_ERRORS, match="a public address"):
            async with broker_connection(BrokerAddress("mqtt", "localhost", address.port), private=False):
                pass
        await asyncio.sleep(0.1)
    assert not any(heard)


async def test_a_packet_that_is_too_long_is_not_read() -> None:
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(CONNECTED + b"\x30\xff\xff\xff\x7f")  # a message of 256 MB
        for _ in range(256):
            writer.write(bytes(1 << 20))
            await writer.drain()
            sent += 1 << 20

    async with against(serve) as address:
        await tells_nothing(address)
    assert sent < 64 << 20


@pytest.mark.parametrize("length", [PACKET_BYTES_MAX, PACKET_BYTES_MAX + 1])
async def test_the_longest_packet_that_is_read(length: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left, digits = length, b""
        while left:
            digits, left = digits + bytes((left % 128 | (128 if left >= 128 else 0),)), left // 128
        writer.write(CONNECTED + b"\x30" + digits + b"\x00\x01t" + bytes(length - 3))
        await reader.read()

    refused = contextlib.nullcontext() if length == PACKET_BYTES_MAX else pytest.raises(BROKER_ERRORS)
    async with against(serve) as address:
        with refused:
            async with broker_connection(address, private=True) as client:
                message = await anext(client.messages)
                assert len(bytes(message.payload)) == length - 3


@pytest.mark.parametrize(
    "garbage",
    [b"", b"\0" * 64, b"\xff" * 64, CONNECTED + b"\x30\x01\0", CONNECTED + b"\x30\x03\xff\xff\xff", CONNECTED],
)
async def test_garbage_ends_the_connection(garbage: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_module, "TIMEOUT_SECONDS", 1.0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(garbage)
        await writer.drain()

    async with against(serve) as address:
        await tells_nothing(address)


async def test_messages_that_a_broker_has_kept_without_end_end_the_connection() -> None:
    """Of the unused quality of service, the library keeps 65,535 messages until they are released."""
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(CONNECTED)
        for number in range(1, 2_000):
            message = b"\x00\x01t" + number.to_bytes(2, "big") + bytes(16_000)
            length = len(message)
            writer.write(bytes((0x34, length % 128 | 128, length // 128 % 128 | 128, length >> 14)) + message)
            await writer.drain()
            sent += 1

    async with against(serve) as address:
        await tells_nothing(address)
    assert sent < 1_999


async def test_a_broker_that_takes_no_answers_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_module, "ANSWERS_MAX", 8)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CONNECTED)
        await reader.read()

    async with against(serve) as address, broker_connection(address, private=True) as client:
        library: Any = client._client  # the queue of its outgoing messages
        library._out_packet.extend([{}] * 9)
        with pytest.raises(ConnectionError, match="reads no answer"):
            library._sock_recv(1)
        library._out_packet.clear()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_message_that_ends_the_connection_leaves_no_socket_open(caplog: pytest.LogCaptureFixture) -> None:
    """An invalid topic ends it inside the library, which leaves the socket open, and reads on."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CONNECTED)
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.write(b"\x30\x03\x00\x01+")
        await reader.read()

    async with against(serve) as address:
        before = open_files()
        for _ in range(5):
            await tells_nothing(address)
        await asyncio.sleep(0.2)
        assert open_files() <= before
    assert "never retrieved" not in caplog.text


async def test_why_a_connection_ended_at_once_is_not_printed(caplog: pytest.LogCaptureFixture) -> None:
    """The event loop prints unhandled errors with their traces to the terminal."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CONNECTED + b"\xf0\x00")

    async with against(serve) as address:
        for _ in range(3):
            await tells_nothing(address)
        gc.collect()
    assert "never retrieved" not in caplog.text


@contextlib.asynccontextmanager
async def at_a_real_broker(folder: Path) -> AsyncIterator[tuple[aiomqtt.Client, aiomqtt.Client]]:
    """Yield a reader and a writer at a real broker."""
    with mosquitto(folder) as broker:
        address = parse_broker(broker.url, is_private_allowed=True)
        async with (
            asyncio.timeout(60),
            broker_connection(address, private=True) as reader,
            broker_connection(address, private=True) as writer,
        ):
            yield reader, writer


async def test_a_real_broker_hands_over_what_was_published(tmp_path: Path) -> None:
    async with at_a_real_broker(tmp_path) as (reader, writer):
        await reader.subscribe("a/+", 1)
        await writer.publish("a/b", b"hello", 1)
        message = await anext(reader.messages)
        assert (str(message.topic), message.payload) == ("a/b", b"hello")


async def test_what_is_not_read_is_counted_and_forgotten(tmp_path: Path) -> None:
    more = 300
    async with at_a_real_broker(tmp_path) as (reader, writer):
        await reader.subscribe("a", 0)
        for _ in range(INBOX_MAX + more):
            await writer.publish("a", b"x", 1)
        await asyncio.sleep(0.5)
        assert take_overflow(reader) == more
        assert take_overflow(reader) == 0
        assert len(reader.messages) == INBOX_MAX
