"""Habits of public clients, each by an earlier failure."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from node.feed import messages as feed
from node.feed.client import RequestRefusedError
from node.rpc.methods import author
from node.rpc.methods.author import json_error
from played_node import PlayedNode, served
from runtime.blocks.block import HEADER, Header, block_id
from runtime.frame.errors import InvalidReason
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from wallet.client import ChainClient
from wallet.rpc import RpcConnection, RpcError
from wallet.suri import keypair_from_suri

ALICE, BOB = keypair_from_suri("//Alice"), keypair_from_suri("//Bob")
UNKNOWN = "0x" + "11" * 32

Body = Callable[[PlayedNode, RpcConnection, ChainClient], Awaitable[None]]


def run(folder: Path, body: Body) -> None:
    async def main() -> None:
        async with served(folder) as (node, port):
            at = f"ws://127.0.0.1:{port}"
            rpc = await RpcConnection.open(at)
            async with await ChainClient.connect(at) as client:
                await body(node, rpc, client)
            await rpc.close()

    asyncio.run(asyncio.wait_for(main(), 120))


def test_hexadecimal_without_its_prefix(tmp_path: Path) -> None:
    async def body(_node: PlayedNode, rpc: RpcConnection, _client: ChainClient) -> None:
        versions = await rpc.call("state_call", "Metadata_metadata_versions", "0x")
        assert await rpc.call("state_call", "Metadata_metadata_versions", "") == versions
        for wrong in ("0x0", "0", "zz", "0xzz", "0x0x00", "00 00", "é0", 5):
            with pytest.raises(RpcError) as refused:
                await rpc.call("state_call", "Core_version", wrong)
            assert refused.value.code == -32602
            assert "hexadecimal" in str(refused.value)

    run(tmp_path, body)


def test_a_transaction_whose_life_begins_at_the_queried_block_is_valid(tmp_path: Path) -> None:
    async def body(node: PlayedNode, rpc: RpcConnection, client: ChainClient) -> None:
        node.author()
        head = node.ids[-1]
        while await rpc.call("chain_getFinalizedHead") != "0x" + head.hex():
            await asyncio.sleep(0.01)
        extrinsic = await client.sign(Balances.transfer_keep_alive(dest=BOB.account, value=10**8), ALICE)
        arguments = b"\x02" + extrinsic + head
        for at in (None, "0x" + head.hex()):
            answer = await rpc.call("state_call", "TaggedTransactionQueue_validate_transaction", arguments.hex(), at)
            assert answer.startswith("0x00")
        damaged = arguments[:60] + bytes([arguments[60] ^ 1]) + arguments[61:]
        answer = await rpc.call("state_call", "TaggedTransactionQueue_validate_transaction", damaged.hex(), None)
        assert answer == "0x010004"

    run(tmp_path, body)


@pytest.mark.parametrize(
    ("function", "params", "failure"),
    [
        ("state_getStorage", ["0x00"], "UnknownBlock"),
        ("state_getKeysPaged", ["0x", 1, None], "UnknownBlock"),
        ("state_queryStorageAt", [["0x00"]], "UnknownBlock"),
        ("state_getMetadata", [], "Api called for an unknown Block"),
        ("state_call", ["Core_version", "0x"], "Api called for an unknown Block"),
        ("payment_queryInfo", ["0x00"], "Api called for an unknown Block"),
    ],
)
def test_a_state_that_is_gone_is_told_from_one_that_never_was(
    tmp_path: Path, function: str, params: list[Any], failure: str
) -> None:
    async def body(node: PlayedNode, rpc: RpcConnection, _client: ChainClient) -> None:
        old = Header(bytes(32), 1, bytes(32), bytes(32), ())
        old_id = "0x" + block_id(old).hex()
        node.known[block_id(old)] = [HEADER.encode(old), []]
        for at, text in (
            (old_id, f"Client error: {failure}: State already discarded for {old_id}"),
            (UNKNOWN, f"Client error: {failure}: Header was not found in the database: {UNKNOWN}"),
        ):
            with pytest.raises(RpcError) as refused:
                await rpc.call(function, *params, at)
            assert (refused.value.code, refused.value.message) == (4003, text)

    run(tmp_path, body)


def test_the_version_of_an_old_block_is_known_though_its_state_is_gone(tmp_path: Path) -> None:
    """polkadot.js asks for it before it decodes a block. Without an answer it reads no old block."""

    async def body(node: PlayedNode, rpc: RpcConnection, _client: ChainClient) -> None:
        old = Header(bytes(32), 1, bytes(32), bytes(32), ())
        node.known[block_id(old)] = [HEADER.encode(old), []]
        at = "0x" + block_id(old).hex()
        for name in ("state_getRuntimeVersion", "chain_getRuntimeVersion"):
            assert await rpc.call(name, at) == await rpc.call(name)
            with pytest.raises(RpcError) as refused:
                await rpc.call(name, UNKNOWN)
            assert refused.value.code == 4003
            assert UNKNOWN in refused.value.message
        assert (await rpc.call("chain_getBlock", at))["block"]["header"]["number"] == "0x1"

    run(tmp_path, body)


def test_best_heads_come_before_final_ones_and_none_is_left_out(tmp_path: Path) -> None:
    async def body(node: PlayedNode, rpc: RpcConnection, _client: ChainClient) -> None:
        final = await rpc.subscribe("chain_subscribeFinalizedHeads", unsubscribe="chain_unsubscribeFinalizedHeads")
        best = await rpc.subscribe("chain_subscribeNewHeads", unsubscribe="chain_unsubscribeNewHeads")
        number_key = "0x" + node.chain.runtime.item(System.number).key().hex()
        changes = await rpc.subscribe("state_subscribeStorage", [number_key], unsubscribe="state_unsubscribeStorage")
        order: list[tuple[str, int]] = []

        async def note(kind: str, heads: AsyncIterator[Any], count: int) -> None:
            for _ in range(count):
                head = await anext(heads)
                order.append((kind, int(head["number"], 16)))

        await note("final", final, 1)
        await note("best", best, 1)
        await anext(changes)
        order.clear()
        for _ in range(5):
            node.author(finalise=False, tell=False)  # blocks come one by one, the status of all at once
        node.finalise()
        await asyncio.gather(note("best", best, 5), note("final", final, 5))
        heights = list(range(1, 6))
        assert [height for kind, height in order if kind == "best"] == heights
        assert [height for kind, height in order if kind == "final"] == heights
        for height in heights:
            assert order.index(("best", height)) < order.index(("final", height))
        seen = [(await anext(changes))["changes"][0][1] for _ in heights]
        assert seen == ["0x" + height.to_bytes(4, "little").hex() for height in heights]

    run(tmp_path, body)


def test_equal_events_are_told_of_each_block(tmp_path: Path) -> None:
    """Twelve equal payments, one a block, were one notice to clients that follow the events."""

    async def body(node: PlayedNode, rpc: RpcConnection, _client: ChainClient) -> None:
        key = "0x" + node.chain.runtime.item(System.event_records).key().hex()
        node.author()
        changes = await rpc.subscribe("state_subscribeStorage", [key], unsubscribe="state_unsubscribeStorage")
        first = await anext(changes)
        ids = ["0x" + node.author(finalise=number % 2 == 0).hex() for number in range(4)]
        told = [await anext(changes) for _ in ids]
        assert [change["block"] for change in told] == ids
        assert [change["changes"] for change in told] == [[[key, first["changes"][0][1]]]] * 4

    run(tmp_path, body)


def test_heights_are_found_whoever_keeps_them(tmp_path: Path) -> None:
    async def body(node: PlayedNode, rpc: RpcConnection, _client: ChainClient) -> None:
        ids = ["0x" + node.chain.genesis_hash.hex()]
        ids += ["0x" + node.author(finalise=number < 4).hex() for number in range(6)]
        while await rpc.call("chain_getBlockHash") != ids[-1]:
            await asyncio.sleep(0.01)
        assert await rpc.call("chain_getBlockHash", [*range(7), 7]) == [*ids, None]

    run(tmp_path, body)


def test_finality_is_held_back_until_inclusion_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        pauses: list[float] = []
        now = 100.0

        async def sleep(seconds: float) -> None:
            nonlocal now
            pauses.append(seconds)
            now += seconds

        async def news() -> AsyncIterator[feed.ExtrinsicStatus]:
            nonlocal now
            for status, passed in (("in_block", 1.0), ("finalized", 0.1)):
                now += passed
                yield feed.ExtrinsicStatus(b"h", status, b"b")

        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
        monkeypatch.setattr("node.rpc.methods.author.asyncio.sleep", sleep)
        shown = [item async for item in author._statuses(news())]
        assert shown == [{"inBlock": "0x62"}, {"finalized": "0x62"}]
        assert pauses == [pytest.approx(author.IN_BLOCK_SECONDS - 0.1)]

    asyncio.run(scenario())


@pytest.mark.parametrize("reason", InvalidReason)
def test_refusals_have_the_sentences_of_substrate(reason: InvalidReason) -> None:
    shown = json_error(RequestRefusedError(1010, "Invalid Transaction", f"{reason.name.lower()}: why"))
    assert (shown.code, shown.message) == (1010, "Invalid Transaction")
    assert shown.data.endswith(": why")
    assert "_" not in shown.data
    assert shown.data[0].isupper()


def test_other_refusals_are_left_as_they_are() -> None:
    assert json_error(RequestRefusedError(1013, "Already imported", "")).to_json() == {
        "code": 1013, "message": "Already imported",
    }  # fmt: skip
    assert json_error(RequestRefusedError(1010, "Invalid Transaction", "empty")).data == "empty"
