"""The chain behind a node's JSON-RPC, for a provider.

Always: one call is signed at a time, so nonces never collide; a call that is sent again is the same extrinsic, so it
happens once; a lost connection ends in ChainError for whoever waits, and is opened again by `views`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

from gpu_tasks.data import market_reads
from gpu_tasks.market.api import DeviceStatus, DutyStatus, UnitStatus
from gpu_tasks.market.attestations.statement import SignedAttestation
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.inference.services import Service
from gpu_tasks.provider.chain.port import ChainError, DoubleHeaderEvidence, View
from runtime.encoding.codec import codec
from runtime.frame.call import Call
from runtime.frame.storage import StateCorrupted
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient
from wallet.errors import WalletError
from wallet.keypair import Keypair
from wallet.rpc import NodeUnreachableError, RpcError, RpcJson

ALREADY_KNOWN = 1013
SIGNED_KEPT = 1_024
RECONNECT_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)

ODD_ANSWERS = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, StateCorrupted,
)  # fmt: skip
"""What comes of reading an answer that is none."""

LOG = logging.getLogger("ogpu.provider")
T = TypeVar("T")
_SIGNED_ATTESTATION = codec(SignedAttestation)


class OtherChainError(WalletError):
    """The node that was reached again is of another chain: nothing may be done for this one there."""


class LiveChain:
    """Implements `ChainPort` for one provider key. Use `await LiveChain.connect(url, key)`."""

    def __init__(self, url: str, client: ChainClient, key: Keypair, stash: bytes) -> None:
        """Use `connect`."""
        self._url = url
        self.client = client
        self.key = key
        self.turn = asyncio.Lock()
        self._signed: dict[bytes, bytes] = {}
        self.stash = stash

    @classmethod
    async def connect(cls, url: str, key: Keypair) -> LiveChain:
        """Connect, and find whose provider key this is. ChainError if it is nobody's."""
        client = await ChainClient.connect(url)
        try:
            stash: bytes | None = await market_reads.stash_of(client, key.public_key)
        except ODD_ANSWERS as error:
            await client.rpc.close()
            raise ChainError(f"the node's answer makes no sense ({error!r:.200})") from error
        if stash is None:
            await client.rpc.close()
            raise ChainError(f"{key.address} is no provider key on {client.chain}; run `ogpu-provider register`")
        return cls(url, client, key, stash)

    @property
    def genesis_hash(self) -> bytes:
        """Which chain this is."""
        return self.client.genesis_hash

    @property
    def is_development(self) -> bool:
        """See `ChainPort`."""
        return market_reads.is_development(self.client)

    async def close(self) -> None:
        """Close the connection."""
        await self.client.rpc.close()

    async def views(self) -> AsyncIterator[View]:
        """See `ChainPort`."""
        while True:
            try:
                heads = await self._asked(self.client.best_heads())
                while True:
                    yield await self._view(await self._asked(_next_height(heads)))
            except ChainError as error:
                LOG.warning("the node is away (%s); trying again", error)
            await self._reconnect()

    async def standing(self) -> tuple[int, tuple[DutyStatus, ...]]:
        """The best height and the duties there."""
        view = await self._view(await self._asked(self.client.height()))
        return view.height, view.duties

    async def _view(self, height: int) -> View:
        return View(height, await self._asked(market_reads.duties(self.client, self.stash)))

    async def _reconnect(self) -> None:
        genesis = self.genesis_hash
        await self.client.rpc.close()
        for attempt in range(1_000_000_000):
            await asyncio.sleep(RECONNECT_SECONDS[min(attempt, len(RECONNECT_SECONDS) - 1)])
            try:
                client = await self._asked(ChainClient.connect(self._url))
            except ChainError as error:
                LOG.info("the node is still away: %s", error)
                continue
            if client.genesis_hash != genesis:
                await client.rpc.close()
                raise OtherChainError(f"{self._url} is another chain now: 0x{client.genesis_hash.hex()}")
            self.client = client
            return

    async def final_unit(self, unit: bytes) -> UnitStatus | None:
        """See `ChainPort`."""
        final = await self._asked(self.client.finalized())
        return await self._asked(market_reads.unit(self.client, unit, final))

    async def unit(self, unit: bytes) -> UnitStatus | None:
        """See `ChainPort`."""
        return await self._asked(market_reads.unit(self.client, unit))

    async def service(self, number: int) -> Service:
        """See `ChainPort`."""
        found = (await self.services()).get(number)
        # A closed service goes with its last unit, so one that a race was just about may be gone.
        if found is None:
            raise ChainError(f"there is no service {number} on {self.client.chain}")
        return found

    async def services(self) -> dict[int, Service]:
        """See `ChainPort`."""
        return await self._asked(market_reads.services(self.client))

    async def providers(self) -> dict[bytes, Provider]:
        """See `ChainPort`."""
        return await self._asked(market_reads.providers(self.client))

    async def own_devices(self) -> list[DeviceStatus]:
        """See `ChainPort`."""
        return list(await self._asked(market_reads.devices_of(self.client, self.stash)))

    async def stash_of(self, provider_key: bytes) -> bytes | None:
        """See `ChainPort`."""
        return await self._asked(market_reads.stash_of(self.client, provider_key))

    async def offences(self) -> list[DoubleHeaderEvidence]:
        """See `ChainPort`."""
        return await self._asked(self._offences())

    async def _offences(self) -> list[DoubleHeaderEvidence]:
        found = await self.client.rpc.call("ogpu_inspect", "offences")
        return [
            DoubleHeaderEvidence(bytes.fromhex(pair["first"][2:]), bytes.fromhex(pair["second"][2:])) for pair in found
        ]

    async def is_tombstoned(self, stash: bytes) -> bool:
        """See `ChainPort`."""
        return await self._asked(self.client.read(TrustStake.tombstones, stash)) is not None

    async def submit(self, call: Call) -> None:
        """See `ChainPort`."""
        async with self.turn:
            name = self.client.runtime.call_codec.encode(call)
            known = self._signed.pop(name, None)
            extrinsic = await self._asked(self.client.sign(call, self.key)) if known is None else known
            try:
                await self._sent(self.client.rpc.call("author_submitExtrinsic", "0x" + extrinsic.hex()))
            except ChainError:
                if known is None:
                    raise
                return  # it is in a block, or has outlived its era: if it is missing, it is signed anew next time
            self._signed[name] = extrinsic
            while len(self._signed) > SIGNED_KEPT:
                del self._signed[next(iter(self._signed))]

    async def attest(self, attestation: SignedAttestation) -> None:
        """See `ChainPort`."""
        raw = _SIGNED_ATTESTATION.encode(attestation)
        await self._sent(self.client.rpc.call("ogpu_submitAttestation", "0x" + raw.hex()))

    async def _sent(self, question: Awaitable[RpcJson]) -> None:
        """As `_asked`; what the node has already is as good as sent."""
        try:
            await self._asked(question)
        except ChainError as error:
            if not (isinstance(error.__cause__, RpcError) and error.__cause__.code == ALREADY_KNOWN):
                raise

    async def _asked(self, question: Awaitable[T]) -> T:
        """What the node answers. ChainError for no answer, a refusal, and an answer that is none: all are for later."""
        try:
            return await question
        except (NodeUnreachableError, RpcError, WalletError) as error:
            raise ChainError(str(error)) from error
        # A node may answer anything: other types, missing fields, bytes that decode to nothing.
        except ODD_ANSWERS as error:
            raise ChainError(f"the node's answer makes no sense ({error!r:.200})") from error


async def _next_height(heads: AsyncIterator[RpcJson]) -> int:
    """The number of the next best header."""
    try:
        header = await anext(heads)
    except StopAsyncIteration:
        raise NodeUnreachableError("the node ended its subscription") from None
    return int(header["number"], 16)
