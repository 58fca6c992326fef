"""Connections to ports of a container, from within its own network: it needs no network of the machine's for that.

Linux, network_namespaces(7): a socket belongs to the network that its thread was in when it was made. So a thread of
its own enters the container's network, connects, and ends; the socket goes on in the event loop.
"""

from __future__ import annotations

import asyncio
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
        made = await asyncio.to_thread(_connected_elsewhere, process, port)
    except PermissionError:
        why = "this daemon may not enter networks of containers"
        raise ContainerError("reach a port", why, "run it as root, or with CAP_SYS_ADMIN") from None
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "")
        why = f"nothing listens on port {port}" if error.errno == errno.ECONNREFUSED else f"{error.strerror} {name}"
        raise ContainerError("reach a port", why, "start the service, on 127.0.0.1 or all addresses") from None
    made.setblocking(False)
    return await asyncio.open_connection(sock=made)


def _connected_elsewhere(process: int, port: int) -> socket.socket:
    """OSError."""
    found: list[socket.socket] = []
    failed: list[OSError] = []

    def connect() -> None:
        try:
            _enter(process)
            found.append(socket.create_connection(("127.0.0.1", port), CONNECT_SECONDS))
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=connect, name="container port", daemon=True)  # it never comes back from there
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]


def _enter(process: int) -> None:
    network = Path("/proc") / str(process) / "ns" / "net"
    if network.readlink() == Path("/proc/self/ns/net").readlink():
        return  # of a container that has the machine's own, there is nothing to enter
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(network, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, _NEW_NETWORK) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)
