"""From a task on the chain to an open tunnel into its container.

Always: the provider is whom the final chain says that it is, and proves it; nothing is sent before it has.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

import aiohttp

from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import TUNNEL_PATH
from gpu_tasks.data.endpoint import EndpointError, public_socket, reachable_endpoint
from gpu_tasks.data.name_lookup import NameResolver
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.orders import is_replicated
from gpu_tasks.market.training.tasks import Task, TaskState
from gpu_tasks.tunnel.frames import HANDED, SECRETS_BYTES_MAX, HandedSecret, TakeSecrets
from gpu_tasks.tunnel.handshake import READY, RECORD_BYTES_MAX, SealedLine, TunnelKeyError, TunnelName
from gpu_tasks.tunnel.multiplexer import Multiplexer, TunnelError
from runtime.cryptography import ss58
from wallet.client import ChainClient
from wallet.errors import harmless
from wallet.keypair import Keypair

CONNECT_SECONDS = 10.0
PING_SECONDS = 30.0
REFUSAL_BYTES_MAX = 300
END_SECONDS = 2.0


@contextlib.asynccontextmanager
async def open_tunnel(
    genesis: bytes, task_id: bytes, task: Task, key: SealKey, provider: Provider, *, is_private: bool
) -> AsyncIterator[Multiplexer]:
    """A tunnel to who runs a task now; TunnelError with the reason why there is none.

    `is_private`: addresses of own networks are connected to, as on development chains.
    """
    stash = runner_of(task)
    endpoint = reachable_endpoint(provider.endpoint.decode("ascii", errors="replace"), private=is_private).url
    path = TUNNEL_PATH.format(task=task_id.hex())
    connector = aiohttp.TCPConnector(socket_factory=None if is_private else public_socket, resolver=NameResolver())
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        try:
            socket = await asyncio.wait_for(
                session.ws_connect(
                    f"{endpoint}{path}", max_msg_size=RECORD_BYTES_MAX, heartbeat=PING_SECONDS, compress=0
                ),
                CONNECT_SECONDS,
            )
        except aiohttp.WSServerHandshakeError as error:
            raise TunnelError(f"the provider lets nobody in: {_refusal(error)}") from None
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise TunnelError(
                f"the provider is not reached at {endpoint}: {harmless(str(error) or 'no answer')}"
            ) from None
        async with socket:
            line = SealedLine(TunnelName(genesis, task_id, stash), key, provider.seal_key, is_customer=True)
            await _agree(socket, line)
            tunnel = Multiplexer(_Socket(socket), line)
            running = asyncio.create_task(tunnel.run())
            try:
                yield tunnel
            finally:
                await socket.close()
                await asyncio.wait({running}, timeout=END_SECONDS)
                running.cancel()


@contextlib.asynccontextmanager
async def entered(
    client: ChainClient, key: Keypair, task_id: bytes, task: Task, final: bytes
) -> AsyncIterator[Multiplexer]:
    """A tunnel to who runs a task by the final block; TunnelError, also where its address is none."""
    stash = runner_of(task)
    provider = (await market_reads.providers(client, final)).get(stash)
    if provider is None:
        raise TunnelError(f"{ss58.encode(stash)}, who runs it, is no provider any more")
    is_private = market_reads.is_development(client)
    try:
        async with open_tunnel(
            client.genesis_hash, task_id, task, SealKey.of(key), provider, is_private=is_private
        ) as tunnel:
            yield tunnel
    except EndpointError as error:
        raise TunnelError(str(error)) from None


def runner_of(task: Task) -> bytes:
    """Who runs a program of a task, or keeps what it left; TunnelError where nobody does."""
    if is_replicated(task.order):
        raise TunnelError("several compute this task, and what they find is compared: nobody enters their containers")
    if task.state not in (TaskState.RUNNING, TaskState.ENDED) or not task.slots:
        raise TunnelError(f"the task is {task.state.name.lower()}: only one that runs has a container to enter")
    return task.slots[0].provider


async def _agree(socket: aiohttp.ClientWebSocketResponse, line: SealedLine) -> None:
    try:
        await socket.send_bytes(line.hello())
        answer = await asyncio.wait_for(socket.receive(), CONNECT_SECONDS)
        if answer.type is not aiohttp.WSMsgType.BINARY:
            raise TunnelError("the provider lets nobody in: is --key the key that submitted the task?")
        line.hear(answer.data)
        await socket.send_bytes(line.seal(READY))
    except TunnelKeyError as error:
        raise TunnelError(f"who answers is not the provider of the task: {error}") from None
    except (aiohttp.ClientError, ConnectionError, TimeoutError):
        raise TunnelError("the provider hung up while keys were agreed on") from None


def _refusal(error: aiohttp.WSServerHandshakeError) -> str:
    reasons = {404: "no program of this task runs there now", 503: "as many tunnels are open as may be; try again"}
    return reasons.get(error.status, harmless(f"{error.status} {error.message}")[:REFUSAL_BYTES_MAX])


class _Socket:
    """A WebSocket as the tunnel's connection."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def send(self, record: bytes) -> None:
        try:
            await self._socket.send_bytes(record)
        except (aiohttp.ClientError, ConnectionError, RuntimeError) as error:
            raise ConnectionError(str(error)) from None

    async def receive(self) -> bytes | None:
        message = await self._socket.receive()
        return message.data if message.type is aiohttp.WSMsgType.BINARY else None


# Secrets go to the provider that has the task by the final chain, once it has proved its key. They lie on no disk here.
async def hand_secrets(tunnel: Multiplexer, secrets: Mapping[str, bytes]) -> None:
    """Hand over all that a task names; TunnelError where they are not taken."""
    if sum(map(len, secrets.values())) > SECRETS_BYTES_MAX:
        raise TunnelError(f"secrets have at most {SECRETS_BYTES_MAX:,} bytes: seal data as inputs")
    stream = await tunnel.open(TakeSecrets())
    await stream.write(HANDED.encode(tuple(HandedSecret(name, secrets[name]) for name in sorted(secrets))))
    await stream.end_input()
    end = await stream.end
    if end.problem:
        raise TunnelError(end.problem)
