"""The client of wallets: its bound chain, and a node that lies on any path to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from certified_blocks import BOB, DevAlice, payment
from genesis import dev_accounts
from gpu_tasks.market.inference.inference import InferenceMarket
from played_node import PlayedNode, served
from runtime.cryptography.hashing import blake2_256
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from wallet.client import ChainClient
from wallet.proved.pins import PIN_FILE, ChainChangedError
from wallet.proved.refutation import NodeRefutedError
from wallet.rpc import RpcJson
from wallet.suri import keypair_from_suri
from wallet.trust import Trust
from wallet.verified import VerifiedClient

ALICE = dev_accounts.stash("Alice")
Lies = dict[str, Callable[[RpcJson], RpcJson]]
Body = Callable[[PlayedNode, VerifiedClient, Lies], Awaitable[None]]


def lying(client: ChainClient) -> Lies:
    """Change the answers to methods in this table from here on."""
    lies: Lies = {}
    honest = client.rpc.call

    async def call(method: str, *parameters: RpcJson) -> RpcJson:
        return lies.get(method, lambda said: said)(await honest(method, *parameters))

    client.rpc.call = call  # type: ignore[method-assign]  # a node that lies
    return lies


def with_client(folder: Path, body: Body, *, is_blind: bool = False, genesis: bytes | None = None) -> list[str]:
    told: list[str] = []

    async def main() -> None:
        async with served(folder) as (node, port):
            node.author()
            trust = Trust(folder / "keys", genesis, is_blind)
            async with await VerifiedClient.connect(f"ws://127.0.0.1:{port}") as client:
                lies = lying(client)
                await client.begin(trust, told.append)
                while int((await client.rpc.call("ogpu_status"))["final"]["number"]) < node.final:
                    await asyncio.sleep(0.01)
                await body(node, client, lies)

    asyncio.run(main())
    return told


async def nothing(*_: Any) -> None:
    """The connection alone."""


def test_reads_are_of_the_newest_final_block_and_say_how_old_it_is(tmp_path: Path) -> None:
    async def body(node: PlayedNode, client: VerifiedClient, lies: Lies) -> None:
        word = client.unverified()
        at = await client.finalized()
        assert await client.height(at) == 1
        node.author(finalise=False)
        await asyncio.sleep(0.1)
        for reader, where in ((client, None), (client, at), (word, at)):
            assert (await reader.read(System.account, ALICE, at=where)).nonce == 0
            assert await reader.read(System.number, at=where) == 1
            assert len(await reader.read_many(System.account, [ALICE, BOB], at=where)) == 2
            assert await reader.entries(InferenceMarket.services, at=where) == await word.entries(
                InferenceMarket.services, at=at
            )
            assert await reader.query("OgpuApi_stakes", ALICE, at=where) == await word.query(
                "OgpuApi_stakes", ALICE, at=at
            )
        assert await client.nonce(ALICE) == 0

    told = with_client(tmp_path, body)
    assert told[0].startswith("first use of")
    assert "what it shows may have changed since" in told[1]


def test_a_final_block_of_any_age_can_be_read_and_no_other(tmp_path: Path) -> None:
    async def body(node: PlayedNode, client: VerifiedClient, lies: Lies) -> None:
        first = node.ids[1]
        node.author()
        loose = node.author(finalise=False)
        await asyncio.sleep(0.1)
        assert await client.read(System.number, at=first) == 1
        with pytest.raises(NodeRefutedError, match="being final"):
            await client.read(System.number, at=loose)
        assert await client.unverified().read(System.number, at=loose) == 3

    with_client(tmp_path, body)


def test_an_outcome_is_shown_or_refused(tmp_path: Path) -> None:
    async def body(node: PlayedNode, client: VerifiedClient, lies: Lies) -> None:
        raw = payment(node.chain, 7)
        node.pool.append(raw)
        block = node.author()
        await asyncio.sleep(0.1)
        outcome = await client.outcome(block, blake2_256(raw))
        assert outcome == await client.unverified().outcome(block, blake2_256(raw))
        assert outcome.is_success
        assert outcome.fee > 0
        failing = node.chain.signed(
            DevAlice("Alice", keypair_from_suri("//Alice").scheme),
            Balances.transfer_keep_alive(dest=BOB, value=2**100),
        )
        node.pool.append(failing)
        block = node.author()
        await asyncio.sleep(0.1)
        assert (await client.outcome(block, blake2_256(failing))).error is not None
        lies.update({"ogpu_certifiedHeader": lambda _: None})
        with pytest.raises(NodeRefutedError, match="being final: it has no certificate"):
            await client.outcome(block, blake2_256(failing))

    with_client(tmp_path, body)


@pytest.mark.parametrize(("said", "refused"), [(4097, True), (4096, False)])
def test_a_nonce_out_of_reach_is_refused(tmp_path: Path, said: int, refused: bool) -> None:
    async def body(node: PlayedNode, client: VerifiedClient, lies: Lies) -> None:
        lies.update({"system_accountNextIndex": lambda _: said})
        if not refused:
            assert await client.nonce(ALICE) == said
            return
        with pytest.raises(NodeRefutedError, match="about the next nonce: it says"):
            await client.nonce(ALICE)

    with_client(tmp_path, body)


def test_the_chain_of_a_folder_stays(tmp_path: Path) -> None:
    with_client(tmp_path, nothing)
    assert with_client(tmp_path, nothing) == []
    pin = tmp_path / "keys" / PIN_FILE
    pin.write_text(pin.read_text().replace("Development", "Mainnet"))
    with pytest.raises(ChainChangedError, match=r"'Mainnet'.*'Development'"):
        with_client(tmp_path, nothing)
    assert with_client(tmp_path, nothing, is_blind=True)[0].startswith("--trust-node: what ws://")


def test_a_genesis_that_was_given_is_asked_for_first(tmp_path: Path) -> None:
    with_client(tmp_path, nothing, genesis=PlayedNode().chain.genesis_hash)
    with pytest.raises(ChainChangedError, match="not 0x0000"):
        with_client(tmp_path / "keys", nothing, genesis=bytes(32), is_blind=True)


@pytest.mark.parametrize("said", [None, 7, {}, {"parameters": ["devnet"], "isDevelopment": True},
                                  {"parameters": "mainnet", "isDevelopment": True}])  # fmt: skip
def test_a_node_that_says_now_this_and_now_that_is_not_begun_with(tmp_path: Path, said: RpcJson) -> None:
    async def body(node: PlayedNode, client: VerifiedClient, lies: Lies) -> None:
        lies.update({"ogpu_parameters": lambda _: said})
        with pytest.raises(NodeRefutedError, match="about its parameters"):
            await client.begin(Trust(tmp_path / "others"), print)
        assert not (tmp_path / "others").exists()

    with_client(tmp_path, body)


def test_no_folder_keeps_to_a_chain_whose_genesis_was_not_shown(tmp_path: Path) -> None:
    async def body(node: PlayedNode, client: VerifiedClient, lies: Lies) -> None:
        client.genesis_hash = bytes(32)
        with pytest.raises(NodeRefutedError, match=r"its genesis hash 0x0.*State already discarded"):
            await client.begin(Trust(tmp_path / "others"), print)
        client.genesis_hash = node.chain.genesis_hash
        lies.update({"state_getReadProof": lambda _: {"proof": []}})
        with pytest.raises(NodeRefutedError, match="about the validators of the genesis block"):
            await client.begin(Trust(tmp_path / "others"), print)
        assert not (tmp_path / "others").exists()

    with_client(tmp_path, body)
