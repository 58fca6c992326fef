"""Proved reads through a real RPC server: equal to the state, and a lie is reported."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from certified_blocks import payment
from consensus.parameters import DEVNET
from genesis import dev_accounts
from genesis.chain import apis_for
from gpu_tasks.market.inference.inference import InferenceMarket
from played_node import SPEC, DevChain, PlayedNode, certify, served
from runtime.blocks.block import HEADER
from runtime.cryptography.hashing import blake2_256
from runtime.pallets.balances import Transfer
from runtime.pallets.system import System
from runtime.state.trie import Trie
from small_chain import FIRST_SLOT
from wallet.client import ChainClient
from wallet.proved.chain import ProvedChain
from wallet.proved.refutation import NodeRefutedError
from wallet.proved.trusting import SeenBlock
from wallet.proved.view import ProvedView
from wallet.rpc import RpcConnection, RpcError, RpcJson

APIS = apis_for(SPEC.parameters, is_development=True)
STASHES = [dev_accounts.stash(name) for name in ("Alice", "Bob", "Charlie", "Dave")]
Lie = Callable[[RpcJson], RpcJson]


@dataclass
class Liar:
    """A node's JSON-RPC, with some answers changed on the way."""

    rpc: RpcConnection
    lies: dict[str, Lie] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def ask(self, method: str, *parameters: RpcJson) -> RpcJson:
        self.asked.append(method)
        answer = await self.rpc.call(method, *parameters)
        return self.lies.get(method, lambda said: said)(answer)

    async def open(self, genesis: bytes) -> ProvedChain:
        return await ProvedChain.open("ws://liar", self.ask, APIS, DEVNET, genesis)


@asynccontextmanager
async def with_node(folder: Path) -> AsyncIterator[tuple[PlayedNode, Liar]]:
    async with served(folder) as (node, port), await RpcConnection.open(f"ws://127.0.0.1:{port}") as rpc:
        yield node, Liar(rpc)


async def until_final(liar: Liar, node: PlayedNode) -> None:
    while int((await liar.rpc.call("ogpu_status"))["final"]["number"]) < node.final:
        await asyncio.sleep(0.01)


async def everything(view: ProvedView | ChainClient) -> list[Any]:
    """One of each kind of read."""
    found: list[Any] = [
        await view.read(System.number),
        await view.read(System.account, STASHES[0]),
        await view.read(System.account, blake2_256(b"nobody")),
        await view.read_many(System.account, STASHES),
        dict(await view.entries(InferenceMarket.services)),
        dict(await view.entries(InferenceMarket.units)),
    ]
    for name, arguments in (
        ("OgpuApi_stakes", (STASHES[0],)),
        ("GpuTasksApi_devices_of", (STASHES[0],)),
        ("GpuTasksApi_readers", (0,)),
        ("GpuTasksApi_checking_readers", ()),
        ("GpuTasksApi_duties", (STASHES[0],)),
        ("GpuTasksApi_unit", (bytes(32),)),
        ("GpuTasksApi_quote", (0, 10**8, 2)),
        ("GpuTasksApi_provider_stash", (STASHES[1],)),
    ):
        found.append(await view.query(name, *arguments))
    return found


async def test_what_is_proved_is_what_the_node_says_when_it_is_honest(tmp_path: Path) -> None:
    async with with_node(tmp_path) as (node, liar):
        node.author()
        await until_final(liar, node)
        chain = await liar.open(node.chain.genesis_hash)
        view = await chain.newest()
        trusting = ChainClient(liar.rpc, APIS, node.chain.genesis_hash, "Development")
        assert view.height == 1
        assert await everything(view) == await everything(trusting)
        assert await view.read(System.account, STASHES[0]) == node.chain.bound[System].account[STASHES[0]]
        assert "old" in str(chain.doubt_of(view))
        assert chain.doubt_of(view, lambda: (FIRST_SLOT + 1) * 1_000) is None


async def test_the_newest_block_is_block_zero_at_first_and_never_goes_back(tmp_path: Path) -> None:
    async with with_node(tmp_path) as (node, liar):
        chain = await liar.open(node.chain.genesis_hash)
        view = await chain.newest()
        assert await view.read(System.number) == 0
        assert chain.doubt_of(view) == "no block is final yet: what is shown is how the chain began"
        node.author()
        await until_final(liar, node)
        old = await liar.rpc.call("ogpu_certifiedHeader")
        node.author()
        await until_final(liar, node)
        assert (await chain.newest()).height == 2
        liar.lies["ogpu_certifiedHeader"] = lambda _: old
        assert (await chain.newest()).height == 2


async def test_the_chain_goes_on_over_the_ends_of_epochs(tmp_path: Path) -> None:
    async with with_node(tmp_path) as (node, liar):
        chain = await liar.open(node.chain.genesis_hash)
        for _ in range(DEVNET.boundary(1) + 2):
            node.author()
        await until_final(liar, node)
        view = await chain.newest()
        assert await view.read(System.number) == view.height == DEVNET.boundary(1) + 2
        for height in (DEVNET.boundary(0), DEVNET.boundary(0) + 1):
            assert (await chain.at(node.ids[height])).height == height
        assert liar.asked.count("ogpu_handoffs") == 1


async def test_a_block_is_shown_to_be_final_by_hashes_alone_where_no_state_names_it_any_more(tmp_path: Path) -> None:
    async with with_node(tmp_path) as (node, liar):
        for _ in range(5):
            node.author()
        await until_final(liar, node)
        newest = await liar.rpc.call("ogpu_certifiedHeader")
        chain = await liar.open(node.chain.genesis_hash)
        liar.lies["ogpu_certifiedHeader"] = lambda _: newest  # one certificate for five blocks
        for dropped in node.ids[1:]:
            del node.tries[dropped]
        assert (await chain.at(node.ids[2])).height == 2
        assert liar.asked.count("chain_getHeader") == 1 + 1 + 3, "block 0, the block itself, and the way to it"
        other = node.chain.head.parent_hash
        liar.lies["chain_getHeader"] = lambda said: {**said, "number": "0x2"} if said["number"] == "0x3" else said
        with pytest.raises(NodeRefutedError):
            await chain.at(node.ids[2])
        assert (await chain.at(other)).height == 4


async def test_a_new_final_block_descends_from_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Owners of formerly active keys can certify another history, which lacks the blocks that were final here."""

    async with with_node(tmp_path) as (node, liar):
        for _ in range(4):
            node.author()
        await until_final(liar, node)
        chain = await liar.open(node.chain.genesis_hash)
        chain.descend_from(2, node.ids[2])
        assert (await chain.newest()).height == 4
        node.author()
        await until_final(liar, node)
        assert (await chain.newest()).height == 5
        for number in (2, 5):
            strict = await liar.open(node.chain.genesis_hash)
            strict.descend_from(number, blake2_256(b"of another past"))
            with pytest.raises(NodeRefutedError, match="block 5 does not descend from 0x"):
                await strict.newest()
        monkeypatch.setattr("wallet.proved.chain.BLOCK_HASH_COUNT", 2)
        far = await liar.open(node.chain.genesis_hash)
        far.descend_from(2, blake2_256(b"too long ago for a state to tell"))
        assert (await far.newest()).height == 5


async def test_a_history_without_a_block_that_was_final_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow node shows a lower block of an earlier slot."""

    async with with_node(tmp_path) as (node, liar):
        for _ in range(4):
            node.author()
        await until_final(liar, node)
        other = blake2_256(b"of another past")

        async def anew(number: int, block: bytes, time_ms: int = 0, refusals: int = 0) -> tuple[bool, int]:
            """Return the result, and the number of forgotten handoffs."""
            chain = await liar.open(node.chain.genesis_hash)
            certified, left = chain._certified, [None] * refusals
            forgotten: list[None] = []

            async def refusing(height: int | None) -> Any:
                if left:
                    left.pop()
                    raise NodeRefutedError("by a set of another history")
                return await certified(height)

            monkeypatch.setattr(chain, "_certified", refusing)
            monkeypatch.setattr(chain._sets, "forget", lambda: forgotten.append(None))
            found = await chain.is_made_anew(SeenBlock("", number, "0x" + block.hex(), time_ms))
            return found, len(forgotten)

        slot_ms = (await liar.open(node.chain.genesis_hash)).root.parameters.slot_ms
        view = await (await liar.open(node.chain.genesis_hash)).newest()
        now_ms = view.block.slot * slot_ms
        for number in (2, 4):
            assert await anew(number, node.ids[number]) == (False, 0)
            assert await anew(number, other, 2**62) == (True, 1)
            assert await anew(number, node.ids[number], refusals=1) == (False, 1)
        assert await anew(5, other, now_ms) == (False, 0)
        assert await anew(5, other, now_ms - 1) == (True, 1)
        with pytest.raises(NodeRefutedError):
            await anew(4, node.ids[4], refusals=2)
        monkeypatch.setattr("wallet.proved.chain.BLOCK_HASH_COUNT", 2)
        assert [await anew(number, other) for number in (1, 2)] == [(False, 0), (True, 1)]


async def test_what_an_extrinsic_did_is_shown_by_the_block_and_by_one_above_it(tmp_path: Path) -> None:
    async with with_node(tmp_path) as (node, liar):
        chain = await liar.open(node.chain.genesis_hash)
        raw = payment(node.chain, 7)
        node.pool.append(raw)
        block = node.author()
        await until_final(liar, node)
        first = await chain.included(block, blake2_256(raw))
        assert Transfer(STASHES[0], STASHES[1], 7) in first.events
        assert (first.number, first.index) == (1, 1)
        node.author()
        await until_final(liar, node)
        above = await liar.rpc.call("ogpu_certifiedHeader", 2)
        liar.lies["ogpu_certifiedHeader"] = lambda _: above
        assert await chain.included(block, blake2_256(raw)) == first


def _without_last(name: str) -> Lie:
    return lambda said: {**said, name: said[name][:-1]}


def _flipped(text: str) -> str:
    return text[:-1] + ("0" if text[-1] != "0" else "1")


def _of_another_state(said: RpcJson) -> RpcJson:
    """The proof of a richer world."""
    key = APIS.runtime.item(System.account).key(STASHES[0])
    trie = Trie({key: b"\xff" * 80})
    return {**said, "proof": ["0x" + node.hex() for node in trie.prove([key])]}


LIES_ABOUT_READS: dict[str, tuple[str, Lie, str]] = {
    "another world's proof": ("state_getReadProof", _of_another_state, "System.Number: incomplete proof"),
    "a node left out": ("state_getReadProof", _without_last("proof"), "System.Number: incomplete proof"),
    "no proof": (
        "state_getReadProof",
        lambda said: {**said, "proof": []},
        "System.Number: incomplete proof",
    ),
    "null": ("state_getReadProof", lambda _: None, "System.Number: the answer is not the object"),
    "a number": ("state_getReadProof", lambda _: 7, "System.Number: the answer is not the object"),
    "no hex": ("state_getReadProof", lambda _: {"proof": ["0xzz"]}, "System.Number: the answer is not the hex"),
    "a text": ("state_getReadProof", lambda _: {"proof": "0x00"}, "System.Number: the answer is not the list"),
    "call proof": ("ogpu_callProof", _without_last("proof"), "OgpuApi_stakes: incomplete proof"),
    "keys left out": (
        "state_getKeysPaged",
        lambda _: [],
        "all of InferenceMarket.Services: incomplete proof",
    ),
    "key without 0x": (
        "state_getKeysPaged",
        lambda _: ["ab"],
        "all of InferenceMarket.Services: .*not the hex",
    ),
}


@pytest.mark.parametrize(("method", "lie", "sentence"), LIES_ABOUT_READS.values(), ids=LIES_ABOUT_READS)
async def test_who_lies_about_the_state_is_named(tmp_path: Path, method: str, lie: Lie, sentence: str) -> None:
    async with with_node(tmp_path) as (node, liar):
        node.author()
        await until_final(liar, node)
        view = await (await liar.open(node.chain.genesis_hash)).newest()
        liar.lies[method] = lie
        with pytest.raises(NodeRefutedError, match=f"do not believe the node at ws://liar about {sentence}"):
            await everything(view)


HEADER_LIES: dict[str, tuple[Lie, str]] = {
    "other root": (lambda said: {**said, "header": {**said["header"], "stateRoot": "0x" + "ab" * 32}}, "another block"),
    "other height": (lambda said: {**said, "header": {**said["header"], "number": "0x03"}}, "another block"),
    "of another epoch": (lambda said: {**said, "header": {**said["header"], "number": "0x63"}}, "shows 0 handoffs"),
    "no height": (lambda said: {**said, "header": {**said["header"], "number": -1}}, "has no height"),
    "digest cut": (lambda said: {**said, "header": {**said["header"], "digest": {"logs": ["0x"]}}}, "malformed"),
    "too many logs": (lambda said: {**said, "header": {**said["header"], "digest": {"logs": ["0x"] * 9}}}, "no header"),
    "flipped": (lambda said: {**said, "certificate": _flipped(said["certificate"])}, "not signed by two thirds"),
    "no certificate": (lambda said: {"header": said["header"]}, "not the hexadecimal"),
    "a list": (lambda _: [], "not the object"),
}


@pytest.mark.parametrize(("lie", "sentence"), HEADER_LIES.values(), ids=HEADER_LIES)
async def test_who_lies_about_the_final_block_is_named(tmp_path: Path, lie: Lie, sentence: str) -> None:
    async with with_node(tmp_path) as (node, liar):
        node.author()
        await until_final(liar, node)
        chain = await liar.open(node.chain.genesis_hash)
        liar.lies["ogpu_certifiedHeader"] = lie
        with pytest.raises(
            NodeRefutedError, match=f"ws://liar about (the final block|who sits in epoch 1): .*{sentence}"
        ):
            await chain.newest()


async def test_who_serves_another_genesis_is_named(tmp_path: Path) -> None:
    async with with_node(tmp_path) as (node, liar):
        node.author()
        liar.lies["chain_getHeader"] = lambda said: {**said, "stateRoot": "0x" + "ab" * 32}
        with pytest.raises(NodeRefutedError, match=r"the validators of the genesis block: .*not have the genesis hash"):
            await liar.open(node.chain.genesis_hash)
        liar.lies["chain_getHeader"] = lambda _: None
        with pytest.raises(NodeRefutedError, match="the validators of the genesis block: the answer is not the object"):
            await liar.open(node.chain.genesis_hash)


async def test_two_certified_blocks_of_one_height_are_said(tmp_path: Path) -> None:
    """More than a third of the validators signed both, so nothing of this chain is trustworthy."""

    async with with_node(tmp_path) as (node, liar):
        node.author()
        await until_final(liar, node)
        chain = await liar.open(node.chain.genesis_hash)
        await chain.newest()
        twin = PlayedNode().chain
        twin.author(payment(twin, 1))
        header = (await liar.rpc.call("ogpu_certifiedHeader"))["header"]
        forged = {**header, "stateRoot": "0x" + twin.head.state_root.hex()}
        forged["extrinsicsRoot"] = "0x" + twin.head.extrinsics_root.hex()
        block = blake2_256(_encoded(twin))
        said = {"header": forged, "certificate": "0x" + certify(twin, 1, block).hex()}
        liar.lies["ogpu_certifiedHeader"] = lambda _: said
        with pytest.raises(NodeRefutedError, match="two certified blocks of height 1"):
            await chain.newest()


def _encoded(chain: DevChain) -> bytes:
    return HEADER.encode(chain.head)


def _block(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Lie:
    return lambda said: {"block": {**said["block"], **change(said["block"])}}


OUTCOME_LIES: dict[str, tuple[str, Lie, str]] = {
    "no such block": ("chain_getBlock", lambda _: None, "about block 0x.*: the answer is not the object"),
    "another header": (
        "chain_getBlock",
        _block(lambda block: {"header": {**block["header"], "number": "0x2"}}),
        "about block 0x.*: it shows a block that has another hash",
    ),
    "extrinsic added": (
        "chain_getBlock",
        _block(lambda block: {"extrinsics": [*block["extrinsics"], "0x00"]}),
        "about block 0x.*: the extrinsics are not those",
    ),
    "events left out": ("state_getReadProof", lambda _: {"proof": []}, "about the events of block 1: incomplete"),
}


@pytest.mark.parametrize(("method", "lie", "sentence"), OUTCOME_LIES.values(), ids=OUTCOME_LIES)
async def test_who_lies_about_an_extrinsic_is_named(tmp_path: Path, method: str, lie: Lie, sentence: str) -> None:
    async with with_node(tmp_path) as (node, liar):
        chain = await liar.open(node.chain.genesis_hash)
        raw = payment(node.chain, 7)
        node.pool.append(raw)
        block = node.author()
        await until_final(liar, node)
        liar.lies[method] = lie
        with pytest.raises(NodeRefutedError, match=sentence):
            await chain.included(block, blake2_256(raw))


async def test_a_block_that_is_not_final_and_one_that_never_was_are_not_reported(tmp_path: Path) -> None:
    async with with_node(tmp_path) as (node, liar):
        chain = await liar.open(node.chain.genesis_hash)
        raw = payment(node.chain, 7)
        node.pool.append(raw)
        block = node.author(finalise=False)
        with pytest.raises(NodeRefutedError, match="being final: it has no certificate of a block"):
            await chain.included(block, blake2_256(raw))
        with pytest.raises(NodeRefutedError, match="being final: it has no certificate of a block"):
            await chain.at(block)
        with pytest.raises(NodeRefutedError, match=r"the extrinsic 0x0000.* is not in that block"):
            await chain.included(block, bytes(32))
        branch = PlayedNode().chain
        lone = branch.author(payment(branch, 8))
        node.author()
        await until_final(liar, node)
        dead = blake2_256(_encoded(branch))
        node.blocks[dead], node.tries[dead] = lone, branch.trie
        for height in (1, 2):
            above = await liar.rpc.call("ogpu_certifiedHeader", height)
            liar.lies["ogpu_certifiedHeader"] = lambda _, said=above: said  # type: ignore[misc]  # kept for this turn
            with pytest.raises(NodeRefutedError, match="being final"):
                await chain.included(dead, blake2_256(lone.extrinsics[1]))


async def test_another_header_under_the_hash_of_a_final_block_is_refused(tmp_path: Path) -> None:
    """Otherwise a node could choose the state behind a checkpoint, or behind any read at a block."""

    async with with_node(tmp_path) as (node, liar):
        chain = await liar.open(node.chain.genesis_hash)
        block = node.author()
        await until_final(liar, node)
        assert (await chain.at(block)).block_id == block
        liar.lies["chain_getHeader"] = lambda said: {**said, "stateRoot": "0x" + "11" * 32}
        with pytest.raises(NodeRefutedError, match="another hash"):
            await chain.at(block)


async def test_a_call_that_reads_too_much_is_refused_by_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.rpc.methods.state.MAX_CALL_KEYS", 3)

    async with with_node(tmp_path) as (node, liar):
        node.author()
        await until_final(liar, node)
        view = await (await liar.open(node.chain.genesis_hash)).newest()
        with pytest.raises(RpcError, match="GpuTasksApi_checking_readers reads more than 3 keys"):
            await view.query("GpuTasksApi_checking_readers")
