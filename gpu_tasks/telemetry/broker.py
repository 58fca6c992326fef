"""A broker's address, and a connection to it (MQTT 3.1.1, aiomqtt over paho).

The broker is untrusted. The limits of a connection:

* Outside development chains it connects to public addresses only.
* A packet longer than any of ours ends the connection before it is read. Paho itself would accept 256 MB.
* A QoS 2 message, which would have to be kept until the broker releases it, ends the connection.
* A broker that reads none of our answers ends the connection.
* Messages that arrive faster than they are read are counted and dropped.

Invariant: a connection that has ended holds no socket.
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
"""The most unsent packets to the broker. We owe a two-byte answer to each of its packets."""
TIMEOUT_SECONDS = 10.0
KEEPALIVE_SECONDS = 20
QUIET = logging.getLogger("ogpu.mqtt")
"""A muted logger for paho. Our own messages report the problems that matter."""
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False

_FORM = re.compile(r"(mqtts?)://([^/?#@]+)")
_HAS_PORT = re.compile(r".*:[0-9]+")

BROKER_ERRORS = (aiomqtt.MqttError, OSError)


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """The address of a broker."""

    scheme: str
    host: str
    port: int

    @property
    def url(self) -> str:
        """The address as text."""
        url_host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{url_host}:{self.port}"


class BrokerInbox(asyncio.Queue[aiomqtt.Message]):
    """A bounded queue of unread messages. It counts the messages that it drops."""

    overflowed = 0

    def put_nowait(self, item: aiomqtt.Message) -> None:
        """Add a message, or drop and count it if the queue is full."""
        if self.full():
            self.overflowed += 1
            return
        super().put_nowait(item)


def parse_broker(text: str, *, is_private_allowed: bool) -> BrokerAddress:
    """Return the address of a broker.

    Raise EndpointError if the text is no broker's address or, without `is_private_allowed`, names a private network.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise EndpointError(f"{text!r} is not mqtt(s)://HOST:PORT; remove any user, path, query or fragment")
    scheme, host_and_port = match.groups()
    if not _HAS_PORT.fullmatch(host_and_port.rpartition("]")[2] if host_and_port.startswith("[") else host_and_port):
        host_and_port = f"{host_and_port}:{PORTS[scheme]}"
    address = parse_endpoint(f"http://{host_and_port}")
    # A literal address is checked here. A host name is checked after it resolves, when the socket connects.
    reachable_endpoint(f"http://{host_and_port}", is_private_allowed=is_private_allowed)
    return BrokerAddress(scheme, address.host, address.port)


@contextlib.asynccontextmanager
async def broker_connection(
    address: BrokerAddress,
    *,
    private: bool,
    last_will: aiomqtt.Will | None = None,
    user_and_password: tuple[str, str] | None = None,
) -> AsyncIterator[aiomqtt.Client]:
    """Yield a connected client. A failure raises one of `BROKER_ERRORS`."""
    client = aiomqtt.Client(
        address.host,
        address.port,
        logger=QUIET,
        queue_type=BrokerInbox,
        max_queued_incoming_messages=INBOX_MAX,
        # MQTT 3.1.1, 4.6: one message in flight keeps the order, and so the running numbers.
        max_inflight_messages=1,
        keepalive=KEEPALIVE_SECONDS,
        timeout=TIMEOUT_SECONDS,
        will=last_will,
        username=None if user_and_password is None else user_and_password[0],
        password=None if user_and_password is None else user_and_password[1],
        tls_context=ssl.create_default_context() if address.scheme == "mqtts" else None,
    )
    _bind_client(client, private=private)
    entering = broken_off(client)
    try:
        async with client:
            # aiomqtt reports no error if the broker disconnects us during entry, and the caller would wait for ever.
            if client._client.socket() is None:  # noqa: SLF001
                raise aiomqtt.MqttError("the broker closed the connection at once")
            yield client
    finally:
        _release_client(client, entering)


def broken_off(client: aiomqtt.Client) -> asyncio.Future[None]:
    """Return a future that is done when the client's connection ends.

    A client that sends rarely would notice the end in no other way.
    """
    return client._disconnected  # noqa: SLF001


def take_overflow(client: aiomqtt.Client) -> int:
    """Return the number of messages that the client's full inbox has dropped since the last call."""
    inbox = client._queue  # noqa: SLF001 - the queue that we gave it
    assert isinstance(inbox, BrokerInbox)
    overflow_count, inbox.overflowed = inbox.overflowed, 0
    return overflow_count


def _release_client(client: aiomqtt.Client, entering: asyncio.Future[None]) -> None:
    """Close the socket, which the library leaves open if a message ended the connection, and retrieve the error."""
    client._client._sock_close()  # noqa: SLF001 - nothing where it is closed
    for ending_step in (entering, broken_off(client)):
        if ending_step.done() and not ending_step.cancelled():
            ending_step.exception()  # otherwise asyncio logs it as never retrieved


def _bind_client(client: aiomqtt.Client, *, private: bool) -> None:
    """Limit the size and number of the client's packets and, unless `private`, connect to public addresses only."""
    paho: Any = client._client  # noqa: SLF001 - it has no option for either
    receive: Callable[[int], bytes] = paho._sock_recv  # noqa: SLF001
    connect: Callable[[], socket.socket] = paho._create_socket_connection  # noqa: SLF001

    def received(read_bytes: int) -> bytes:
        if read_bytes > PACKET_BYTES_MAX:
            raise ConnectionError(f"the broker sent a packet of {read_bytes:,} bytes, longer than any message")
        # paho keeps QoS 2 messages until the broker releases them, and has no bound for its own answers.
        if paho._in_messages or len(paho._out_packet) > ANSWERS_MAX:  # noqa: SLF001
            raise ConnectionError("the broker releases no message and reads no answer")
        return receive(read_bytes)

    def connected() -> socket.socket:
        new_socket = connect()
        # The check is on the connected peer, not on the name: a name could resolve to another address at the second
        # lookup.
        peer_host = str(new_socket.getpeername()[0])
        if not private and not is_public(peer_host):
            new_socket.close()
            raise OSError(f"{peer_host} is not a public address")
        return new_socket

    paho._sock_recv = received  # noqa: SLF001
    paho._create_socket_connection = connected  # noqa: SLF001
