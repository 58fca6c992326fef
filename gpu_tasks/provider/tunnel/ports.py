"""Connections to ports of a container, from within its own network: it needs no network of the machine's for that.

Linux, network_namespaces(7): a socket belongs to the network that its thread was in when it was made. So a thread of
its own enters the container's network, connects, and ends; the socket goes on in the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import os
import socket
import threading
from pathlib import Path

from gpu_tasks.provider.execution.containers.refusals import ContainerError

CONNECT_SECONDS = 5.0
_NEW_NETWORK = 0x4000_0000
"""CLONE_NEWNET of sched.h."""


async def open_port(process: int, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to 127.0.0.1 of the network that a process is in; ContainerError with the reason."""
    try:
        made = await _connected_elsewhere(process, port)
    except PermissionError:
        why = "this daemon may not enter networks of containers"
        raise ContainerError("reach a port", why, "run it as root, or with CAP_SYS_ADMIN") from None
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "")
        why = f"nothing listens on port {port}" if error.errno == errno.ECONNREFUSED else f"{error.strerror} {name}"
        raise ContainerError("reach a port", why, "start the service, on 127.0.0.1 or all addresses") from None
    made.setblocking(False)
    return await asyncio.open_connection(sock=made)


async def _connected_elsewhere(process: int, port: int) -> socket.socket:
    """OSError. No thread of the daemon's waits: a service that answers nobody would hold them all up."""
    loop = asyncio.get_running_loop()
    connected: asyncio.Future[socket.socket] = loop.create_future()

    def tell(found: socket.socket | OSError) -> None:
        if isinstance(found, OSError):
            if not connected.done():
                connected.set_exception(found)
        elif connected.done():  # nobody waits for it any more
            found.close()
        else:
            connected.set_result(found)

    def connect() -> None:
        found: socket.socket | OSError
        try:
            enter_network(process)
            found = socket.create_connection(("127.0.0.1", port), CONNECT_SECONDS)
        except OSError as error:
            found = error
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(tell, found)

    threading.Thread(target=connect, name="container port", daemon=True).start()  # it never comes back from there
    return await connected


def enter_network(process: int) -> None:
    """Have this thread in the network of a process that has one of its own; OSError."""
    network = Path("/proc") / str(process) / "ns" / "net"
    if network.readlink() == Path("/proc/self/ns/net").readlink():  # no container of ours has the machine's own
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(network, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, _NEW_NETWORK) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)
