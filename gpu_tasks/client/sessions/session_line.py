"""The stream of a session through a tunnel to its provider, as `SessionClient` needs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from gpu_tasks.client.tasks.tunnel import open_tunnel
from gpu_tasks.data import market_reads
from gpu_tasks.data.endpoint import EndpointError
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.tunnel.frames import Converse
from gpu_tasks.tunnel.tunnel import TunnelError, TunnelStream
from wallet.client import ChainClient
from wallet.rpc import OddAnswerError, RpcError

ConnectNode = Callable[[], Awaitable[ChainClient]]
"""Connects to the node. A chat may wait for hours, so it keeps no connection."""


@dataclass(slots=True)
class SessionLines:
    """Opens the streams of one session to one provider."""

    session: bytes
    stash: bytes
    key: SealKey
    connect: ConnectNode
    genesis: bytes = b""
    _provider: Provider | None = None
    _is_private: bool = False

    @asynccontextmanager
    async def dial(self, period: int) -> AsyncIterator[TunnelLine]:
        """Open a stream. See `Dial`."""
        async with AsyncExitStack() as stack:
            try:
                provider = await self._present()
                tunnel = await stack.enter_async_context(
                    open_tunnel(self.genesis, self.session, self.stash, self.key, provider, is_private=self._is_private)
                )
                stream = await tunnel.open(Converse(period))
            except (TunnelError, EndpointError, RpcError, OddAnswerError, OSError) as error:
                self._provider = None  # its endpoint may have changed
                raise ConnectionError(str(error)) from None
            stack.push_async_callback(stream.finish)
            yield TunnelLine(stream)

    async def _present(self) -> Provider:
        """Return the provider's record, read again after each failure."""
        if self._provider is None:
            async with await self.connect() as client:
                self.genesis, self._is_private = client.genesis_hash, market_reads.is_development(client)
                self._provider = await market_reads.provider(client, self.stash, await client.finalized())
        if self._provider is None:
            raise ConnectionError("its account is no longer a provider")
        return self._provider


class TunnelLine:
    """A stream of a tunnel as a `ProviderLine`."""

    def __init__(self, stream: TunnelStream) -> None:
        """Take an open stream."""
        self._stream = stream

    async def send(self, data: bytes) -> None:
        """See `ProviderLine`."""
        try:
            await self._stream.write(data)
        except TunnelError as error:
            raise ConnectionError(str(error)) from None

    async def receive(self) -> bytes:
        """See `ProviderLine`."""
        received = await self._stream.read()
        if received is None:
            end = await self._stream.end
            raise ConnectionError(end.problem or "the provider ended the stream")
        return received[1]
