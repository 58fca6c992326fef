"""TCP ports on loopback that nobody uses, and that nobody comes to use before who asked for them listens.

A port that the system picks for a probe lies among those that it gives to outgoing connections: between the probe and
the start of a node some connection may take it.  These lie below that range, each is given once by a process, and two
processes begin to look at places far apart.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator

FIRST_PORT = 10_000  # to 29,999: Linux gives 32,768 and more to outgoing connections, others 49,152 and more
PORTS = 20_000
APART = 1_009  # between the first choices of two processes that were started one after the other


def one_free_port() -> int:
    """A port that nobody uses now, another at each call."""
    return next(_unused)


def free_ports(preferred: Iterable[int] = ()) -> Iterator[int]:
    """Those of the preferred ports that are free, then others without an end."""
    yield from filter(_is_free, preferred)
    while True:  # not `yield from`: who ends with this generator would end the one that all share
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
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


_unused = _walk()
