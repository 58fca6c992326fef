"""Storage subscriptions: bounded bytes in memory, reads in turns, writes in pieces."""

import asyncio
import gc
import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from node.feed import messages as feed
from node.rpc.block_reads import BlockReads
from node.rpc.methods.state import READ_AT_ONCE, TOLD_BLOCKS, WatchedValues
from node.rpc.replica import BlockRecord, Replica
from node.rpc.subscriptions.feeder import PIECE_BYTES
from node.rpc.subscriptions.shares import KEPT_BYTES_EACH, KEPT_BYTES_MAX, kept_bytes
from played_node import served
from runtime.blocks.block import HEADER, Header, block_id
from runtime.state.overlay import Memory
from runtime.state.trie_node import MAX_KEY_BYTES


async def ask(socket: aiohttp.ClientWebSocketResponse, name: str, *params: Any) -> dict[str, Any]:
    await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": name, "params": list(params)})
    while True:
        message: dict[str, Any] = await socket.receive_json()
        if "id" in message:
            return message


def keys(count: int, length: int = 8) -> list[str]:
    return ["0x" + number.to_bytes(length, "big").hex() for number in range(count)]


@pytest.mark.parametrize("length", [8, MAX_KEY_BYTES])
def test_bytes_are_counted_for_a_connection_and_come_back_with_their_subscription(tmp_path: Path, length: int) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as (_, port), aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            socket = await session.ws_connect("/")
            most = KEPT_BYTES_EACH // kept_bytes([[bytes(length)] * 1_000])
            names = [(await ask(socket, "state_subscribeStorage", keys(1_000, length)))["result"] for _ in range(most)]
            refused = await ask(socket, "state_subscribeStorage", keys(1_000, length))
            error = refused["error"]
            assert (error["code"], error["message"]) == (-32006, "Too many bytes of watched keys on the connection")
            assert (await ask(socket, "state_unsubscribeStorage", names[0]))["result"] is True
            assert "result" in await ask(socket, "state_subscribeStorage", keys(1_000, length))
            other = await session.ws_connect("/")
            assert "result" in await ask(other, "state_subscribeStorage", keys(100))
            await socket.close()
            await other.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.parametrize("method", ["state_subscribeStorage", "state_queryStorageAt", "state_getReadProof"])
def test_a_key_that_no_state_can_have_is_refused(tmp_path: Path, method: str) -> None:
    async def scenario() -> None:
        async with (
            served(tmp_path) as (_, port),
            aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
            session.ws_connect("/") as socket,
        ):
            assert "result" in await ask(socket, method, keys(1, MAX_KEY_BYTES))
            refused = await ask(socket, method, keys(1, MAX_KEY_BYTES + 1))
            assert "at most 256 bytes" in refused.get("error", {}).get("data", "")

    asyncio.run(asyncio.wait_for(scenario(), 60))


class CountingReads(Memory):
    """A state that counts its reads."""

    count = 0

    def get(self, key: bytes, /) -> bytes | None:
        self.count += 1
        return super().get(key)


class Blocks:
    """One state under every block id. It records the asked blocks, and `written` by each."""

    def __init__(self, values: dict[bytes, bytes]) -> None:
        self.state = CountingReads(values)
        self.replica = self
        self.writes: set[bytes] = set()

    async def reader(self, _block: bytes) -> CountingReads:
        return self.state

    def written(self, _block: BlockRecord) -> set[bytes]:
        return self.writes


def block_at(number: int, parent: bytes = bytes(32)) -> BlockRecord:
    header = Header(parent, number, bytes(32), bytes(32), ())
    return BlockRecord(block_id(header), header, ())


NUMBERS = itertools.count(1)


KEYS = [number.to_bytes(4, "big") for number in range(1_000)]


def watched(keys: list[bytes], values: dict[bytes, bytes]) -> tuple[WatchedValues, CountingReads]:
    blocks = Blocks(values)
    return WatchedValues(blocks, keys), blocks.state  # type: ignore[arg-type]  # all that is asked of it


async def told(watch: WatchedValues, block: BlockRecord | None = None) -> Any:
    text = "".join([piece async for piece in watch.pieces(block or block_at(next(NUMBERS)))])
    return json.loads(text)["changes"] if text else None


def test_a_thousand_keys_are_read_in_several_turns() -> None:
    async def scenario() -> None:
        watch, reads = watched(KEYS, {})
        task = asyncio.create_task(told(watch))
        seen = [0]
        while not task.done():
            await asyncio.sleep(0)
            seen.append(reads.count)
        assert await task == [["0x" + key.hex(), None] for key in KEYS]
        assert reads.count == len(KEYS)
        assert max(after - before for before, after in itertools.pairwise(seen)) <= READ_AT_ONCE

    asyncio.run(scenario())


def test_long_values_are_written_in_pieces() -> None:
    async def scenario() -> None:
        value = bytes(10_000)
        watch, _ = watched(KEYS, dict.fromkeys(KEYS, value))
        pieces = [piece async for piece in watch.pieces(block_at(1))]
        assert sum(map(len, pieces)) > 20_000_000
        assert max(map(len, pieces)) < PIECE_BYTES + 2 * len(value) + 100

    asyncio.run(scenario())


def test_all_values_are_told_first_and_then_those_that_changed() -> None:
    async def scenario() -> None:
        watch, state = watched([*KEYS[:3], KEYS[0]], {KEYS[0]: b"a", KEYS[1]: b"b"})
        names = ["0x" + key.hex() for key in KEYS]
        assert await told(watch) == [[names[0], "0x61"], [names[1], "0x62"], [names[2], None]]
        assert await told(watch) is None
        del state.values[KEYS[0]]
        state.values[KEYS[2]] = b""
        assert await told(watch) == [[names[0], None], [names[2], "0x"]]
        assert await told(watch) is None
        empty, _ = watched([], {})
        assert await told(empty) == []

    asyncio.run(scenario())


def test_a_key_that_was_written_is_told_though_its_value_is_equal() -> None:
    async def scenario() -> None:
        watch, _ = watched(KEYS[:3], {KEYS[0]: b"a", KEYS[1]: b"b"})
        blocks: Any = watch._blocks
        names = ["0x" + key.hex() for key in KEYS]
        first, second = block_at(1_000_001), block_at(1_000_002)
        assert len(await told(watch, first)) == 3
        blocks.writes = {KEYS[1], KEYS[2], KEYS[7]}
        assert await told(watch, second) == [[names[1], "0x62"], [names[2], None]]
        assert await told(watch, first) is None, "the chain goes back to a block that was told"
        assert await told(watch, second) is None
        blocks.state.values[KEYS[0]] = b"c"
        assert await told(watch, first) == [[names[0], "0x63"]]
        for number in range(TOLD_BLOCKS):
            await told(watch, block_at(1_000_003 + number))
        assert len(watch._reported_blocks) == TOLD_BLOCKS
        for number in range(TOLD_BLOCKS):
            assert await told(watch, block_at(1_000_003 + number)) is None
        assert await told(watch, second) == [[names[1], "0x62"], [names[2], None]], "forgotten"

    asyncio.run(scenario())


def imported(block: BlockRecord, changes: dict[bytes, bytes | None]) -> feed.ImportedBlock:
    pairs: list[list[bytes | None]] = [[key, value] for key, value in changes.items()]
    return feed.ImportedBlock(block.id, HEADER.encode(block.header), [], pairs)


def status(best: BlockRecord, final: BlockRecord) -> feed.NodeStatus:
    return feed.NodeStatus(best.id, best.header.number, final.id, final.header.number, 0, False, 0, 0, 0)


def test_the_blocks_of_a_fork_are_told_once_each() -> None:
    """A1 is best, then B2 above B1, then A1 again, then A2. Only one key ever changes its value."""
    zero = block_at(0)
    a1, b1 = (
        block_at(1, zero.id),
        BlockRecord(b"b" * 32, replace(block_at(1, zero.id).header, state_root=b"b" * 32), ()),
    )
    b1 = replace(b1, id=block_id(b1.header))
    a2, b2 = block_at(2, a1.id), block_at(2, b1.id)

    async def scenario() -> None:
        replica = Replica()
        events, other, pairs = b"events", b"other", [[b"events", b"paid"], [b"other", b"0"]]
        replica.apply(feed.Snapshot(HEADER.encode(zero.header), pairs, True))
        replica.apply(status(zero, zero))
        items = WatchedValues(BlockReads(replica, None), [events, other]).items()  # type: ignore[arg-type]  # not asked

        async def next_told() -> Any:
            text = "".join([piece async for piece in (await anext(items)).pieces()])
            return text and {
                bytes.fromhex(key[2:]): bytes.fromhex(value[2:]) for key, value in json.loads(text)["changes"]
            }

        assert await next_told() == dict(pairs)
        for block, own in ((a1, b"a"), (b1, b"b"), (b2, b"b"), (a2, b"a")):
            replica.apply(imported(block, {events: b"paid", **({other: own} if block in {a1, b1} else {})}))
        replica.apply(status(a1, zero))
        assert await next_told() == {events: b"paid", other: b"a"}
        replica.apply(status(b2, zero))
        assert [await next_told(), await next_told()] == [{events: b"paid", other: b"b"}, {events: b"paid"}]
        replica.apply(status(a1, zero))
        assert await next_told() == {other: b"a"}, "not its events, which were told"
        replica.apply(status(a2, a2))
        assert await next_told() == {events: b"paid"}, "what a block wrote is known when it is final"
        assert set(replica.written(a1)) == {events, other}
        assert not replica.written(b2), "another block became final at its height"

    asyncio.run(scenario())


def test_no_value_that_was_told_is_kept() -> None:
    """Otherwise a slow client could retain values that the state lost long ago."""

    async def scenario() -> None:
        value = bytes(100_000)
        watch, state = watched(KEYS[:10], dict.fromkeys(KEYS[:10], value))
        await told(watch)
        state.values.clear()
        gc.collect()
        assert sys.getrefcount(value) == 2
        assert watch._reported_marks.itemsize * len(watch._reported_marks) == 80

    asyncio.run(scenario())


def test_what_is_counted_for_keys_is_no_less_than_what_they_take() -> None:
    for length in (1, 32, MAX_KEY_BYTES):
        several = [number.to_bytes(length, "big") for number in range(250)] if length > 1 else [b"k"] * 250
        watch, _ = watched(several, {})
        asyncio.run(told(watch))
        taken = (
            sys.getsizeof(watch._watched_keys)
            + sum(map(sys.getsizeof, watch._watched_keys))
            + sys.getsizeof(watch._reported_marks)
        )
        assert taken <= kept_bytes([several]) <= KEPT_BYTES_EACH <= KEPT_BYTES_MAX / 4


def test_an_extrinsic_that_is_watched_counts_by_its_place_not_by_its_length() -> None:
    """It goes on to the node, and only its hash is kept."""
    assert kept_bytes([bytes(100_000)]) == kept_bytes([])
