"""The fate of an earlier submission comes from certified blocks, so no node can hide or invent it (B5)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection

from between import Between
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from wallet.client import ChainClient
from wallet.outbox import SentNotes
from wallet.proved.refutation import NodeRefutedError
from wallet.submission import send_once
from wallet.suri import keypair_from_suri
from wallet.trust import Trust
from wallet.verified import VerifiedClient
from wallet_runner import chain

ALICE, BOB = keypair_from_suri("//Alice"), keypair_from_suri("//Bob")
PAY = Balances.transfer_keep_alive(dest=BOB.account, value=10**8)
PAY_LESS = Balances.transfer_keep_alive(dest=ALICE.account, value=10**7)


class Liar:
    """Changes the node's answers to one method."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.numbers: set[Any] = set()

    async def spoil(self, direction: str, message: dict[str, Any], wallet_side: ServerConnection, _: Any) -> bool:
        if direction == "ask":
            self.numbers |= {message["id"]} if message["method"] == self.method else set()
            return False
        if message.get("id") not in self.numbers or not message.get("result"):
            return False
        self.change(message)
        await wallet_side.send(json.dumps(message))
        return True

    def change(self, message: dict[str, Any]) -> None:
        """The lie."""
        match self.method:
            case "chain_getBlock":  # without the author's payment
                message["result"]["block"]["extrinsics"] = message["result"]["block"]["extrinsics"][:1]
            case "chain_getHeader":
                message["result"]["number"] = hex(int(message["result"]["number"], 16) + 1)
            case "chain_getBlockHash":
                message["result"] = "0x" + "77" * 32
            case "state_getReadProof":
                message["result"]["proof"] = message["result"]["proof"][1:]
            case _:
                raise AssertionError(self.method)


async def connected(url: str, folder: Path) -> VerifiedClient:
    return await VerifiedClient.connect_by(url, Trust(folder / "keys"), lambda _: None)


async def paid_before(node: str, folder: Path) -> SentNotes:
    """Make a payment without the note of its success: the answer was lost, then five blocks came."""
    async with await connected(node, folder) as client:
        await client.submit(PAY_LESS, BOB)
        notes = SentNotes(folder / "sent", client.genesis_hash)
        earlier = await client.prepare(PAY, ALICE)
        with notes.noted(earlier):
            await client.send(earlier.extrinsic)
        for _ in range(5):
            await client.submit(PAY_LESS, BOB)
    return notes


async def nonce_of(node: str) -> int:
    async with await ChainClient.connect(node) as client:
        return int((await client.read(System.account, ALICE.account, at=await client.finalized())).nonce)


@pytest.mark.parametrize("method", ["chain_getBlock", "chain_getHeader", "state_getReadProof"])
def test_b5_a_node_that_hides_an_earlier_payment_is_named_and_nothing_is_paid_again(
    tmp_path: Path, method: str
) -> None:
    async def hidden(node: str) -> None:
        notes = await paid_before(node, tmp_path)
        between, liar = Between(node), Liar(method)
        async with between.served() as url, await connected(url, tmp_path) as client:
            between.spoil = liar.spoil
            for _ in range(2):
                with pytest.raises(NodeRefutedError, match="do not believe the node at "):
                    await send_once(client, PAY, ALICE, notes, print)
            assert len(notes.unsettled(ALICE.account)) == 1
            between.spoil = None
            said: list[str] = []
            assert (await send_once(client, PAY, ALICE, notes, said.append)).is_success
            assert "is not sent again" in said[0]
            assert between.submitted() == []
        assert await nonce_of(node) == 1

    with chain(tmp_path) as node:
        asyncio.run(hidden(node))


def test_b5_which_blocks_there_were_is_not_asked_of_the_node(tmp_path: Path) -> None:
    """Ids by height are only the node's claim. They come from a certified header instead, with that of birth."""

    async def asked(node: str) -> None:
        notes = await paid_before(node, tmp_path)
        between, liar = Between(node), Liar("chain_getBlockHash")
        async with between.served() as url, await connected(url, tmp_path) as client:
            between.spoil = liar.spoil
            assert (await send_once(client, PAY, ALICE, notes, print)).is_success
            assert between.submitted() == []
            assert (await send_once(client, PAY, ALICE, notes, print)).is_success  # a payment of its own
            assert len(between.submitted()) == 1
            ids = await client.final_ids(0, 8)
            assert ids[0] == client.genesis_hash
            assert [(await client.block(block)).height for block in ids] == list(range(9))
        assert await nonce_of(node) == 2

    with chain(tmp_path) as node:
        asyncio.run(asked(node))


def test_a_tip_is_paid(tmp_path: Path) -> None:
    async def tipped(node: str) -> None:
        async with await connected(node, tmp_path) as client:
            notes = SentNotes(tmp_path / "sent", client.genesis_hash)
            fee, tip = await client.fee(PAY, ALICE, 10**7), 10**7
            outcome = await send_once(client, PAY, ALICE, notes, print, tip=tip)
            assert outcome.fee == fee + tip

    with chain(tmp_path) as node:
        asyncio.run(tipped(node))
