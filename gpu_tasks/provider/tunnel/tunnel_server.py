"""The entrance of tunnels: a WebSocket of the provider's HTTP server at `/tunnel/<task>`, or a session in its place.

Invariants:

* Before the handshake proves the customer's key, each message costs one Diffie-Hellman at most.
* A stranger loses its handshake slot within two seconds.
* A request for a target that is not here gets no handshake.
* The tunnels of a target and of the daemon are limited. A tunnel that is silent for long ends.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
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
from gpu_tasks.provider.tunnel.access import TunnelTarget, TunnelTargets
from gpu_tasks.tunnel.handshake import READY, RECORD_BYTES_MAX, SealedLine, TunnelKeyError, TunnelName
from gpu_tasks.tunnel.tunnel import Tunnel

HANDSHAKES = (256, 4)
"""Handshakes at once in total and for one address. An attacker needs many addresses to keep customers out."""
TUNNELS_MAX = 64
TUNNELS_OF_TARGET_MAX = 4
IDLE_SECONDS = 600.0
"""The time after which a tunnel without traffic ends."""
PING_SECONDS = 30.0
DEAD_SECONDS = 60.0
"""The time after which a customer's machine that acknowledges no data counts as dead."""
ROUND_SECONDS = 4
"""The extra time for the last message of a handshake."""
ID_DIGITS = 64


class TunnelServer:
    """The server of customers' tunnels into their containers and sessions."""

    def __init__(
        self, targets: Sequence[TunnelTargets], seal_key: SealKey, genesis_hash: bytes, provider_stash: bytes
    ) -> None:
        """`targets` are asked in order for the id of a tunnel."""
        self.targets = targets
        self._seal_key = seal_key
        self._genesis = genesis_hash
        self._provider_stash = provider_stash
        self._handshakes = RequestSlots(*HANDSHAKES)
        self._open_counts: Counter[bytes] = Counter()

    @property
    def count(self) -> int:
        """The number of open tunnels."""
        return self._open_counts.total()

    async def enter(self, request: web.Request) -> web.StreamResponse:
        """Serve a tunnel from its handshake to its end."""
        target_id, target = self._found(request.match_info["task"])
        # No `heartbeat`: its timer keeps a closed connection in memory for half a minute.
        web_socket = web.WebSocketResponse(max_msg_size=RECORD_BYTES_MAX, compress=False)
        try:
            async with self._handshakes.take(address_of_peer(request)) as request_slot:
                # Before the handshake, so that a full server costs a stranger no Diffie-Hellman. `_agreed` checks again
                # after its waits.
                if self._is_full(target_id):
                    raise web.HTTPServiceUnavailable(text="all tunnels are in use; close one")
                await web_socket.prepare(request)
                sealed_line = await self._agreed(web_socket, request_slot, target_id, target)
        except BusyError:
            raise web.HTTPServiceUnavailable(text="busy; try again") from None
        except (TunnelKeyError, TimeoutError, ConnectionError) as error:
            await web_socket.close(message=str(error).encode()[:100] or b"too slow")
            return web_socket
        self._open_counts[target_id] += 1
        ping_task = asyncio.create_task(_keep_alive(web_socket, request.transport))
        try:
            tunnel = Tunnel(_Socket(web_socket), sealed_line, target.serve_stream)
            await tunnel.run()
            await tunnel.settle()
        finally:
            ping_task.cancel()
            self._open_counts[target_id] -= 1
            with contextlib.suppress(ConnectionError):
                await web_socket.close()
        return web_socket

    def _is_full(self, target_id: bytes) -> bool:
        return self._open_counts[target_id] >= TUNNELS_OF_TARGET_MAX or self._open_counts.total() >= TUNNELS_MAX

    def _found(self, digits: str) -> tuple[bytes, TunnelTarget]:
        try:
            target_id = bytes.fromhex(digits) if len(digits) == ID_DIGITS else b""
        except ValueError:
            target_id = b""
        if not target_id:
            raise web.HTTPBadRequest(text=f"an id has {ID_DIGITS} hexadecimal digits")
        for targets in self.targets:
            if (target := targets.find(target_id)) is not None:
                return target_id, target
        raise web.HTTPNotFound(text="no program or session with this id runs here now")

    async def _agreed(
        self,
        web_socket: web.WebSocketResponse,
        request_slot: RequestSlot,
        target_id: bytes,
        target: TunnelTarget,
    ) -> SealedLine:
        tunnel_name = TunnelName(self._genesis, target_id, self._provider_stash)
        sealed_line = SealedLine(tunnel_name, self._seal_key, target.customer_key, is_customer=False)
        sealed_line.hear(await _record(web_socket))
        await web_socket.send_bytes(sealed_line.hello())
        request_slot.progress(ROUND_SECONDS * BYTES_PER_SECOND_MIN)  # allow for the round trip to the customer
        if sealed_line.open(await _record(web_socket)) != READY:
            raise TunnelKeyError("the handshake ended wrongly")
        if self._is_full(target_id):  # other customers may have entered during the round trip
            raise TunnelKeyError("all tunnels are in use")
        return sealed_line


async def _keep_alive(web_socket: web.WebSocketResponse, transport: asyncio.Transport | None) -> None:
    """Send pings. The kernel then closes a connection that acknowledges nothing."""
    raw_socket = None if transport is None else transport.get_extra_info("socket")
    if raw_socket is not None:
        raw_socket.setsockopt(IPPROTO_TCP, TCP_USER_TIMEOUT, int(DEAD_SECONDS * 1_000))
    with contextlib.suppress(ConnectionError, RuntimeError):
        while True:
            await asyncio.sleep(PING_SECONDS)
            await web_socket.ping()


async def _record(web_socket: web.WebSocketResponse) -> bytes:
    """Return the next message of a handshake. Raise TunnelKeyError if it is not binary."""
    web_message = await web_socket.receive()
    if web_message.type is not WSMsgType.BINARY:
        raise TunnelKeyError("not the handshake of a tunnel")
    return bytes(web_message.data)


class _Socket:
    """A WebSocket as the connection of a tunnel."""

    def __init__(self, web_socket: web.WebSocketResponse) -> None:
        self._socket = web_socket

    async def send(self, record: bytes) -> None:
        try:
            await self._socket.send_bytes(record)
        except (ConnectionError, RuntimeError) as error:
            raise ConnectionError(str(error)) from None

    async def receive(self) -> bytes | None:
        try:
            web_message = await asyncio.wait_for(self._socket.receive(), IDLE_SECONDS)
        except TimeoutError:
            return None
        return web_message.data if web_message.type is WSMsgType.BINARY else None
