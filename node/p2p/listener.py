"""The listening socket, bound for this process alone; every accepted socket is admitted or closed at once.

py-libp2p's listener sets SO_REUSEPORT, so that two nodes on one port start without an error and share its connections.
This one does not.
"""

import contextlib
import errno
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from node.p2p.admission import Ticket
from node.p2p.transport import PortInUse, TransportError

BACKLOG: Final = 1024
"""Connections that the system holds until they are accepted. With 128, strangers took all places while a block was
executed, and an honest peer retried a second later."""
OUT_OF_SOCKETS_PAUSE_SECONDS: Final = 0.1
_OUT_OF_SOCKETS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_ANY_ADDRESS_HOSTS: Final = {
    "0.0.0.0": (socket.AF_INET, "192.0.2.1", "127.0.0.1"),  # noqa: S104  # compared with, not bound
    "::": (socket.AF_INET6, "2001:db8::1", "::1"),
}
"""Hosts that mean every address of the machine: family, an address reserved for documentation, the loopback."""

Serve = Callable[[trio.SocketStream, str, Ticket], Awaitable[None]]


async def listen(host: str, port: int) -> Sequence[trio.SocketListener]:
    """Return listening sockets on `host`; port 0 takes any free one.

    Raise `PortInUse`, or `TransportError` for another failure.
    """
    try:
        return await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(f"another process listens on {host}:{port}. Stop it, or choose another p2p port") from error
        raise TransportError(f"cannot listen on {host}:{port}: {error}") from error


async def serve(
    listener: trio.SocketListener,
    admit: Callable[[str], Ticket | None],
    serve_socket: Serve,
    nursery: trio.Nursery,
) -> None:
    """Accept connections for ever; `serve_socket` runs in `nursery` and closes its socket."""
    async with listener:
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                # A peer that opens too many sockets must not end the accepting task: it waits until some are closed.
                if error.errno not in _OUT_OF_SOCKETS:
                    raise
                await trio.sleep(OUT_OF_SOCKETS_PAUSE_SECONDS)
                continue
            host = _remote_host(stream)
            ticket = None if host is None else admit(host)
            if host is None or ticket is None:
                await trio.aclose_forcefully(stream)
            else:
                nursery.start_soon(serve_socket, stream, host, ticket)


def dialable_hosts(listen_host: str) -> list[str]:
    """Return the hosts at which this machine can be dialled when it listens on `listen_host`: 0.0.0.0 is none."""
    if listen_host not in _ANY_ADDRESS_HOSTS:
        return [listen_host]
    family, outside_address, loopback = _ANY_ADDRESS_HOSTS[listen_host]
    # Connecting a datagram socket sends nothing. It shows the address from which packets to the internet would come.
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((outside_address, 9))
        return [str(probe.getsockname()[0]), loopback]
    return [loopback]


def _remote_host(stream: trio.SocketStream) -> str | None:
    try:
        return str(stream.socket.getpeername()[0])
    except OSError:
        return None
