"""Reads of the market equal those of the chain's own API, proved by proving clients: a real server, a real chain."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from genesis import dev_accounts
from gpu_tasks.data import market_reads
from played_node import served
from wallet.client import ChainClient
from wallet.proved.refutation import NodeRefutedError
from wallet.rpc import RpcJson
from wallet.trust import Trust
from wallet.verified import VerifiedClient

ALICE = dev_accounts.stash("Alice")
LISTS = (market_reads.services, market_reads.devices, market_reads.providers)
Answer = Callable[[str, RpcJson], RpcJson]


@contextlib.asynccontextmanager
async def asking(folder: Path) -> AsyncIterator[tuple[VerifiedClient, dict[str, Answer]]]:
    """Yield a client, and a table whose entry `lie` changes the node's answers."""
    async with served(folder) as (node, port):
        node.author()
        async with await VerifiedClient.connect(f"ws://127.0.0.1:{port}") as client:
            honest, lies = client.rpc.call, dict[str, Answer]()

            async def call(method: str, *parameters: RpcJson) -> RpcJson:
                said = await honest(method, *parameters)
                return lies["lie"](method, said) if lies else said

            client.rpc.call = call  # type: ignore[method-assign]  # a node that may lie
            await client.begin(Trust(folder / "keys"), lambda _: None)
            while int((await client.rpc.call("ogpu_status"))["final"]["number"]) < node.final:
                await asyncio.sleep(0.01)
            yield client, lies


async def agrees(client: ChainClient, at: bytes) -> None:
    """Check that every read equals the API's answer for the same block."""
    table = await client.query("GpuTasksApi_devices_of", ALICE, at=at)  # the only provider
    assert table
    assert await market_reads.devices(client, at) == table
    assert await market_reads.devices_for(client, 0, at) == table  # its offers are of service 0 alone
    assert await market_reads.devices_for(client, 7, at) == ()
    assert await market_reads.devices_of(client, ALICE, at) == table
    assert await market_reads.devices_of(client, bytes(32), at) == ()
    services = await market_reads.services(client, at)
    assert await market_reads.service(client, 0, at) == services[0]
    assert await market_reads.service(client, 7, at) is None
    (stash,) = providers = await market_reads.providers(client, at)
    assert await market_reads.provider(client, stash, at) == providers[stash]
    assert await market_reads.provider(client, bytes(32), at) is None
    assert await market_reads.units(client, [bytes(32)] * 600, at) == [None] * 600


async def test_reads_are_those_of_the_api_with_proof_and_without(tmp_path: Path) -> None:
    async with asking(tmp_path) as (client, _):
        at = await client.finalized()
        await agrees(client, at)
        await agrees(client.unverified(), at)
        assert await market_reads.devices(client) == await market_reads.devices(client.unverified())


@pytest.mark.parametrize("read", LISTS, ids=lambda read: read.__name__)
async def test_a_node_that_hides_entries_hides_none_or_is_named(
    tmp_path: Path, read: Callable[[ChainClient], Awaitable[object]]
) -> None:
    """The node names no key, and omits one node of a proof. The list is then complete or refused."""
    async with asking(tmp_path) as (client, lies):
        whole, refused = await read(client), 0
        lies["lie"] = lambda method, said: {} if method == "state_getReadProof" else said
        assert await read(client) == whole, "asked for once a block"
        for left_out in range(8):

            def lie(method: str, said: RpcJson, left_out: int = left_out) -> RpcJson:
                if method == "state_getReadProof":
                    said["proof"] = said["proof"][:left_out] + said["proof"][left_out + 1 :]
                return [] if method == "state_getKeysPaged" else said

            lies["lie"] = lie
            client._lists.clear()  # lists of a block are asked for once
            try:
                assert await read(client) == whole
            except NodeRefutedError:
                refused += 1
        assert refused >= 3
        assert not await read(client.unverified())
