"""The entrance of tunnels: a WebSocket of the provider's HTTP server at `/tunnel/<task>`.

Invariants:

* Before the handshake proves the customer's key, each message costs one Diffie-Hellman at most.
* A stranger loses its handshake slot within two seconds.
* A request for a task that does not run here gets no handshake.
* The tunnels of a task and of the daemon are limited. A tunnel that is silent for long ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections import Counter
from functools import partial
from pathlib import Path
from socket import IPPROTO_TCP, TCP_USER_TIMEOUT

from aiohttp import WSMsgType, web

from gpu_tasks.data.sealing import SealKey
from gpu_tasks.provider.blobs.request_slots import (
    BYTES_PER_SECOND_MIN,
    BusyError,
    RequestSlot,
    RequestSlots,
    address_of_peer,
)
from gpu_tasks.provider.tunnel.access import OpenContainer, OpenContainers
from gpu_tasks.provider.tunnel.streams import CopySpool, serve_stream
from gpu_tasks.tunnel.handshake import READY, RECORD_BYTES_MAX, SealedLine, TunnelKeyError, TunnelName
from gpu_tasks.tunnel.multiplexer import Multiplexer
from wallet.private_file import make_folder

HANDSHAKES = (256, 4)
"""Handshakes at once in total and for one address. An attacker needs many addresses to keep customers out."""
TUNNELS_MAX = 64
TUNNELS_OF_TASK_MAX = 4
IDLE_SECONDS = 600.0
"""The time after which a tunnel without traffic ends."""
PING_SECONDS = 30.0
DEAD_SECONDS = 60.0
"""The time after which a customer's machine that acknowledges no data counts as dead."""
ROUND_SECONDS = 4
"""The extra time for the last message of a handshake."""
TASK_DIGITS = 64


class TunnelServer:
    """The server of customers' tunnels into their containers."""

    def __init__(self, rooms: OpenContainers, seal_key: SealKey, genesis: bytes, stash: bytes, spool: Path) -> None:
        """`spool` is a folder for copies in progress."""
        self._rooms = rooms
        self._seal_key = seal_key
        self._genesis = genesis
        self._stash = stash
        shutil.rmtree(spool, ignore_errors=True)  # left by a daemon that was killed during copies
        make_folder(spool)
        self.spool = CopySpool(spool)
        self._handshakes = RequestSlots(*HANDSHAKES)
        self._open: Counter[bytes] = Counter()

    @property
    def count(self) -> int:
        """The number of open tunnels."""
        return self._open.total()

    async def enter(self, request: web.Request) -> web.StreamResponse:
        """Serve a tunnel from its handshake to its end."""
        task, found = self._found(request.match_info["task"])
        # No `heartbeat`: its timer keeps a closed connection in memory for half a minute.
        socket = web.WebSocketResponse(max_msg_size=RECORD_BYTES_MAX, compress=False)
        try:
            async with self._handshakes.take(address_of_peer(request)) as slot:
                # Before the handshake, so that a full server costs a stranger no Diffie-Hellman. `_agreed` checks again
                # after its waits.
                if self._is_full(task):
                    raise web.HTTPServiceUnavailable(text="all tunnels are in use; close one")
                await socket.prepare(request)
                line = await self._agreed(socket, slot, task, found)
        except BusyError:
            raise web.HTTPServiceUnavailable(text="busy; try again") from None
        except (TunnelKeyError, TimeoutError, ConnectionError) as error:
            await socket.close(message=str(error).encode()[:100] or b"too slow")
            return socket
        self._open[task] += 1
        alive = asyncio.create_task(_keep_alive(socket, request.transport))
        try:
            serve = partial(serve_stream, found.room, self.spool)
            tunnel = Multiplexer(_Socket(socket), line, serve)
            await tunnel.run()
            await tunnel.settle()
        finally:
            alive.cancel()
            self._open[task] -= 1
            with contextlib.suppress(ConnectionError):
                await socket.close()
        return socket

    def _is_full(self, task: bytes) -> bool:
        return self._open[task] >= TUNNELS_OF_TASK_MAX or self._open.total() >= TUNNELS_MAX

    def _found(self, text: str) -> tuple[bytes, OpenContainer]:
        try:
            task = bytes.fromhex(text) if len(text) == TASK_DIGITS else b""
        except ValueError:
            task = b""
        if not task:
            raise web.HTTPBadRequest(text=f"a task is {TASK_DIGITS} hexadecimal digits")
        found = self._rooms.find(task)
        if found is None:
            raise web.HTTPNotFound(text="no program of this task runs here now")
        return task, found

    async def _agreed(
        self, socket: web.WebSocketResponse, slot: RequestSlot, task: bytes, found: OpenContainer
    ) -> SealedLine:
        name = TunnelName(self._genesis, task, self._stash)
        line = SealedLine(name, self._seal_key, found.customer_key, is_customer=False)
        line.hear(await _record(socket))
        await socket.send_bytes(line.hello())
        slot.progress(ROUND_SECONDS * BYTES_PER_SECOND_MIN)  # allow for the round trip to the customer
        if line.open(await _record(socket)) != READY:
            raise TunnelKeyError("the handshake ended wrongly")
        if self._is_full(task):  # other customers may have entered during the round trip
            raise TunnelKeyError("all tunnels are in use")
        return line


async def _keep_alive(socket: web.WebSocketResponse, transport: asyncio.Transport | None) -> None:
    """Send pings. The kernel then closes a connection that acknowledges nothing."""
    raw = None if transport is None else transport.get_extra_info("socket")
    if raw is not None:
        raw.setsockopt(IPPROTO_TCP, TCP_USER_TIMEOUT, int(DEAD_SECONDS * 1_000))
    with contextlib.suppress(ConnectionError, RuntimeError):
        while True:
            await asyncio.sleep(PING_SECONDS)
            await socket.ping()


async def _record(socket: web.WebSocketResponse) -> bytes:
    """Return the next message of a handshake. Raise TunnelKeyError if it is not binary."""
    message = await socket.receive()
    if message.type is not WSMsgType.BINARY:
        raise TunnelKeyError("not the handshake of a tunnel")
    return bytes(message.data)


class _Socket:
    """A WebSocket as the connection of a tunnel."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def send(self, record: bytes) -> None:
        try:
            await self._socket.send_bytes(record)
        except (ConnectionError, RuntimeError) as error:
            raise ConnectionError(str(error)) from None

    async def receive(self) -> bytes | None:
        try:
            message = await asyncio.wait_for(self._socket.receive(), IDLE_SECONDS)
        except TimeoutError:
            return None
        return message.data if message.type is WSMsgType.BINARY else None
