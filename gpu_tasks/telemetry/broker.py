"""A broker's address, and a connection to it (MQTT 3.1.1, aiomqtt over paho).

Always: a broker may be anybody's. Outside of development chains no address of an own network is connected to; a packet
that is longer than any of ours ends the connection before it is read (paho itself would take 256 MB), and so does one
that is to be kept until the broker lets it go, or a broker that takes none of our answers; what arrives faster than it
is read is counted and dropped; a connection that has ended holds no socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import aiomqtt

from gpu_tasks.data.endpoint import EndpointError, is_public, parse_endpoint, reachable_endpoint
from gpu_tasks.telemetry.envelope import ENVELOPE_BYTES_MAX

PORTS = {"mqtt": 1883, "mqtts": 8883}
TOPIC_BYTES_MAX = 512
PACKET_BYTES_MAX = ENVELOPE_BYTES_MAX + TOPIC_BYTES_MAX + 16
INBOX_MAX = 512
ANSWERS_MAX = 4_096
"""Packets of ours that wait for a broker to read them: it is sent one for each of its own, of two bytes."""
TIMEOUT_SECONDS = 10.0
KEEPALIVE_SECONDS = 20
QUIET = logging.getLogger("ogpu.mqtt")
"""Paho says every mishap here: what matters of them, our own words say."""
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False

_FORM = re.compile(r"(mqtts?)://([^/?#@]+)")
_HAS_PORT = re.compile(r".*:[0-9]+")

BROKER_ERRORS = (aiomqtt.MqttError, OSError)


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where a broker listens."""

    scheme: str
    host: str
    port: int

    @property
    def url(self) -> str:
        """As text."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


class BrokerInbox(asyncio.Queue[aiomqtt.Message]):
    """Messages that wait to be read; counts those that found no room."""

    overflowed = 0

    def put_nowait(self, item: aiomqtt.Message) -> None:
        """Take it in; one too many is counted and forgotten."""
        if self.full():
            self.overflowed += 1
            return
        super().put_nowait(item)


def parse_broker(text: str, *, private: bool) -> BrokerAddress:
    """The address of a broker; EndpointError for what is none, or, without `private`, one of an own network."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise EndpointError(f"{text!r} is no mqtt(s)://HOST:PORT: no user, path, query or fragment belongs to it")
    scheme, rest = found.groups()
    if not _HAS_PORT.fullmatch(rest.rpartition("]")[2] if rest.startswith("[") else rest):
        rest = f"{rest}:{PORTS[scheme]}"
    address = parse_endpoint(f"http://{rest}")
    reachable_endpoint(f"http://{rest}", private=private)
    return BrokerAddress(scheme, address.host, address.port)


@contextlib.asynccontextmanager
async def broker_connection(
    address: BrokerAddress,
    *,
    private: bool,
    will: aiomqtt.Will | None = None,
    login: tuple[str, str] | None = None,
) -> AsyncIterator[aiomqtt.Client]:
    """A client that is connected; what goes wrong is one of `BROKER_ERRORS`."""
    client = aiomqtt.Client(
        address.host,
        address.port,
        logger=QUIET,
        queue_type=BrokerInbox,
        max_queued_incoming_messages=INBOX_MAX,
        max_inflight_messages=1,
        keepalive=KEEPALIVE_SECONDS,
        timeout=TIMEOUT_SECONDS,
        will=will,
        username=None if login is None else login[0],
        password=None if login is None else login[1],
        tls_context=ssl.create_default_context() if address.scheme == "mqtts" else None,
    )
    _bound(client, private=private)
    entering = broken_off(client)
    try:
        async with client:
            # Who is thrown out while it enters is not told so by the library, and would wait for ever.
            if client._client.socket() is None:  # noqa: SLF001
                raise aiomqtt.MqttError("the broker ended the connection at once")
            yield client
    finally:
        _let_go(client, entering)


def broken_off(client: aiomqtt.Client) -> asyncio.Future[None]:
    """Done once the connection of a client is: nothing else tells who only sends, and has nothing to send."""
    return client._disconnected  # noqa: SLF001


def take_overflow(client: aiomqtt.Client) -> int:
    """How many messages a client was handed that it had no room for, since this was asked last."""
    inbox = client._queue  # noqa: SLF001 - the queue that we gave it
    assert isinstance(inbox, BrokerInbox)
    found, inbox.overflowed = inbox.overflowed, 0
    return found


def _let_go(client: aiomqtt.Client, entering: asyncio.Future[None]) -> None:
    """Close what the library leaves open where a message ended the connection, and take note of why it ended."""
    client._client._sock_close()  # noqa: SLF001 - nothing where it is closed
    for ended in (entering, broken_off(client)):
        if ended.done() and not ended.cancelled():
            ended.exception()  # else it is printed as one that nobody has seen


def _bound(client: aiomqtt.Client, *, private: bool) -> None:
    """Hold the client to packets of our size and few answers and, unless `private`, to public addresses."""
    paho: Any = client._client  # noqa: SLF001 - it has no option for either
    receive: Callable[[int], bytes] = paho._sock_recv  # noqa: SLF001
    connect: Callable[[], socket.socket] = paho._create_socket_connection  # noqa: SLF001

    def received(wanted: int) -> bytes:
        if wanted > PACKET_BYTES_MAX:
            raise ConnectionError(f"a packet of {wanted:,} bytes is none of ours")
        if paho._in_messages or len(paho._out_packet) > ANSWERS_MAX:  # noqa: SLF001
            raise ConnectionError("a broker that has everything kept and takes nothing is none of ours")
        return receive(wanted)

    def connected() -> socket.socket:
        made = connect()
        peer = str(made.getpeername()[0])
        if not private and not is_public(peer):
            made.close()
            raise OSError(f"{peer} is no public address")
        return made

    paho._sock_recv = received  # noqa: SLF001
    paho._create_socket_connection = connected  # noqa: SLF001
