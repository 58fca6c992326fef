"""TCP ports on loopback that are free, and stay free until the caller listens on them.

If the system picks a port for a probe, it takes one from its range for outgoing connections. Some connection could then
take the port between the probe and the start of a node. These ports lie below that range. A process yields each port
once, and two processes begin far apart.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator

FIRST_PORT = 10_000  # to 29,999: Linux gives 32,768 and more to outgoing connections, others 49,152 and more
PORTS = 20_000
APART = 1_009  # between the first choices of two processes with consecutive pids


def one_free_port() -> int:
    """Return a free port, another one at each call."""
    return next(_unused)


def free_ports(preferred: Iterable[int] = ()) -> Iterator[int]:
    """Yield the free ones of the preferred ports, then other free ports without an end."""
    yield from filter(_is_free, preferred)
    while True:  # not `yield from`: closing this generator would close the shared one
        yield next(_unused)


def _walk() -> Iterator[int]:
    first = os.getpid() * APART
    while True:
        for step in range(PORTS):
            port = FIRST_PORT + (first + step) % PORTS
            if _is_free(port):
                yield port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # Without this option a port in the state TIME_WAIT looks taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


_unused = _walk()
