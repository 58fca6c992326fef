"""`state_*`: storage, runtime calls, metadata, and the streams of changes."""

from __future__ import annotations

import asyncio
import itertools
from array import array
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from functools import partial

from node.rpc.block_reads import BlockReads, to_hex
from node.rpc.jsonrpc import INVALID_PARAMS, Json, JsonRpcError
from node.rpc.long_calls import LongCalls
from node.rpc.questions import Questions
from node.rpc.registry import HashParameter, Hex, Safety, method, subscription
from node.rpc.replica import BlockRecord
from node.rpc.runtime_calls import RuntimeCalls
from node.rpc.subscriptions.broadcast import Publisher
from node.rpc.subscriptions.feeder import PIECE_BYTES
from node.rpc.subscriptions.shared_items import LongItem, SharedItems
from runtime.cryptography.hashing import blake2_256
from runtime.state.overlay import RecordedReads, StateReader, TooManyReads
from runtime.state.trie_node import MAX_KEY_BYTES

MAX_KEYS_PER_PAGE = 1000
MAX_KEYS_PER_QUERY = 1000
MAX_QUERY_BLOCKS = 256
MAX_PAIRS = 10_000
MAX_CALL_KEYS = 5_000
"""The most keys that a proven call reads. The largest call lists the readers of a unit's input: at worst 4 keys for
each offer that a service can have.

Proving them takes 0.2 s of the node's time, in parts, in turns and at the pace of all proofs, so no other caller waits
longer for it."""


# The state and the reports of one subscription to storage.
# Invariant: for each block it reports once the keys that the block wrote, equal values included, and the keys whose
# values differ from the last report. It keeps one number of a reported value, for values of any length. No turn reads
# more than `READ_AT_ONCE` keys or writes much more than `PIECE_BYTES`. It reads only while the client has room.
READ_AT_ONCE = 256
"""Keys in one turn, at most about 10 us each far below a final block."""
TOLD_BLOCKS = 32
"""Blocks that a subscription remembers, in case the best chain returns to them: more than are above a final one."""


# The pace of proofs, which the node's own process makes: keys a second, and the order of callers.
# Invariant: at most `KEYS_PER_SECOND` reach the node. Each part of a proof waits for its caller's turn in `Questions`,
# so hundreds of connections of one address are one caller.
KEYS_AT_ONCE = 64
"""2 ms of the node's time: between two such questions it votes and gossips."""
KEYS_PER_SECOND = 4_000
"""35 us each, so a seventh of a core: below the node's share for questions, beyond which they wait."""


class ProofPace:
    """The pace of one RPC process."""

    def __init__(self, keys_per_second: float = KEYS_PER_SECOND) -> None:
        """Create it without waiting callers."""
        self._seconds_per_key = 1 / keys_per_second
        self._caller_queue = Questions(1)

    async def take(self, key_count: int) -> None:
        """Wait until `key_count` keys may be proved. Raise `JsonRpcError` if too many parts of the caller wait."""
        # The turn ends by the clock, not with the answer: a caller whose question waits at the node delays no other.
        await self._caller_queue.start(key_count * self._seconds_per_key)


class WatchedValues:
    """Watched keys, and a mark of each last reported value."""

    def __init__(self, blocks: BlockReads, watched_keys: Sequence[bytes]) -> None:
        """Create it without reports; a key that is named twice is read once."""
        self._blocks = blocks
        self._watched_keys = tuple(dict.fromkeys(watched_keys))
        # Python's own hash of a value, keyed by a secret of this process: 8 bytes, safe from built collisions.
        self._reported_marks = array("q")
        self._reported_blocks: tuple[bytes, ...] = ()

    async def items(self) -> AsyncIterator[LongItem]:
        """Yield all values, then those that each best block wrote."""
        new_best_blocks = self._blocks.replica.new_best.listen()
        yield LongItem(partial(self.pieces, self._blocks.best))
        async for (
            best
        ) in new_best_blocks:  # each block, even if several came at once: events are in their block's state only
            yield LongItem(partial(self.pieces, best))

    async def pieces(self, block: BlockRecord) -> AsyncGenerator[str, None]:
        """Yield a block's written values, and those that differ from the last report, as a change set in JSON."""
        opening, key_index = f'{{"block":"{to_hex(block.id)}","changes":[', 0
        written = self._written_keys_of(block)
        is_begun = not self._reported_marks
        if is_begun:
            yield opening
        separator = ""
        while key_index < len(self._watched_keys):
            if key_index:
                await asyncio.sleep(0)  # a turn for others
            key_index, change_texts = await self._read_values(block.id, key_index, written)
            if change_texts:
                yield ("" if is_begun else opening) + separator + ",".join(change_texts)
                is_begun, separator = True, ","
        if is_begun:
            yield "]}"

    def _written_keys_of(self, block: BlockRecord) -> set[bytes]:
        """Return the watched keys that a block wrote; none for a block to which the best chain returned."""
        if block.id in self._reported_blocks:
            return set()
        self._reported_blocks = (*self._reported_blocks[1 - TOLD_BLOCKS :], block.id)
        written = self._blocks.replica.written(block)
        # A client that reads slowly keeps these keys, not the block's values.
        return {key for key in self._watched_keys if key in written}

    async def _read_values(self, block_id: bytes, key_index: int, written: set[bytes]) -> tuple[int, list[str]]:
        """Read from `key_index` on as much as one turn may; return the next place, and the changes."""
        reader, value_marks, text_bytes = await self._blocks.reader(block_id), self._reported_marks, 0
        change_texts: list[str] = []
        for key in self._watched_keys[key_index : key_index + READ_AT_ONCE]:
            value = reader.get(key)
            value_mark = hash(value)
            if key_index == len(value_marks):
                value_marks.append(value_mark)
            elif value_marks[key_index] == value_mark and key not in written:
                key_index += 1
                continue
            value_marks[key_index] = value_mark
            key_index += 1
            value_text = "null" if value is None else f'"{to_hex(value)}"'
            change_texts.append(f'["{to_hex(key)}",{value_text}]')
            text_bytes += len(change_texts[-1])
            if text_bytes >= PIECE_BYTES:
                break
        return key_index, change_texts


class State:
    """Reads of storage at any kept block."""

    def __init__(self, blocks: BlockReads, runtime: RuntimeCalls, long_calls: LongCalls) -> None:
        """Create it; it reads from the replica, and executes with the chain's own runtime."""
        self.blocks = blocks
        self.runtime = runtime
        self.long_calls = long_calls
        self.pace = ProofPace()
        self._versions = SharedItems(Publisher(), lambda: runtime, id, _version_json)

    @method("state_getStorage", "state_getStorageAt")
    async def storage(self, key: Hex, at: HashParameter | None) -> Json:
        """Return the value under a storage key; null if there is none."""
        return _hex_or_none((await self.blocks.reader(at)).get(key))

    @method("state_getStorageHash", "state_getStorageHashAt")
    async def storage_hash(self, key: Hex, at: HashParameter | None) -> Json:
        """Return the hash of a value."""
        value = (await self.blocks.reader(at)).get(key)
        return None if value is None else to_hex(blake2_256(value))

    @method("state_getStorageSize", "state_getStorageSizeAt")
    async def storage_size(self, key: Hex, at: HashParameter | None) -> Json:
        """Return the length of a value in bytes."""
        value = (await self.blocks.reader(at)).get(key)
        return None if value is None else len(value)

    @method("state_getKeysPaged", "state_getKeysPagedAt")
    async def keys_paged(self, prefix: Hex, count: int, start: Hex | None, at: HashParameter | None) -> Json:
        """Return at most `count` keys under a prefix, after `start`, in order."""
        if count > MAX_KEYS_PER_PAGE:
            raise JsonRpcError(INVALID_PARAMS, "Invalid params", f"count: at most {MAX_KEYS_PER_PAGE} keys a page")
        page_keys = (await self.blocks.reader(at)).keys(prefix, start or b"")
        return [to_hex(key) for key in itertools.islice(page_keys, count)]

    @method("state_getPairs", safety=Safety.UNSAFE)
    async def pairs(self, prefix: Hex, at: HashParameter | None) -> Json:
        """Return the keys and values under a prefix."""
        reader = await self.blocks.reader(at)
        # One more than allowed shows that there are more.
        prefix_keys = list(itertools.islice(reader.keys(prefix), MAX_PAIRS + 1))
        if len(prefix_keys) > MAX_PAIRS:
            raise JsonRpcError(INVALID_PARAMS, "Invalid params", f"more than {MAX_PAIRS} keys; use state_getKeysPaged")
        return [[to_hex(key), _hex_or_none(reader.get(key))] for key in prefix_keys]

    @method("state_queryStorageAt")
    async def query_storage_at(self, keys: list[Hex], at: HashParameter | None) -> Json:
        """Return several values at one block."""
        block_id = self.blocks.best.id if at is None else at
        return [_change_set(block_id, _read_values(await self.blocks.reader(block_id), _require_bounded(keys)))]

    @method("state_queryStorage", safety=Safety.UNSAFE)
    async def query_storage(self, keys: list[Hex], first: HashParameter, last: HashParameter | None) -> Json:
        """Return several values over a range of blocks: all of them at the first, then the changes."""
        change_sets: list[Json] = []
        earlier_values: list[tuple[bytes, bytes | None]] | None = None
        bounded_keys = _require_bounded(keys)
        for block_id in await self._ids_in_range(first, self.blocks.best.id if last is None else last):
            values = _read_values(await self.blocks.reader(block_id), bounded_keys)
            if earlier_values is None:
                change_sets.append(_change_set(block_id, values))
            else:
                changed = [
                    new_pair for new_pair, old_pair in zip(values, earlier_values, strict=True) if new_pair != old_pair
                ]
                if changed:
                    change_sets.append(_change_set(block_id, changed))
            earlier_values = values
            await asyncio.sleep(0)  # a pause for others, at which the spent time is checked too
        return change_sets

    @method("state_getReadProof")
    async def read_proof(self, keys: list[Hex], at: HashParameter | None) -> Json:
        """Return a proof of values against the state root of a block."""
        return await self._proof_json(self.blocks.best.id if at is None else at, list(_require_bounded(keys)))

    @method("state_call", "state_callAt")
    async def call(self, function: str, arguments: Hex, at: HashParameter | None) -> Json:
        """Return the encoded answer of a runtime API."""
        reader, block_id = await self.blocks.state_for_call(at)
        compute_answer = partial(self.runtime.call_hex, reader, block_id, function, arguments)
        return await self.long_calls.run(function, len(arguments), compute_answer)

    @method("ogpu_callProof")
    async def call_proof(self, function: str, arguments: Hex, at: HashParameter | None) -> Json:
        """Return a proof of all reads of a runtime API, with which a client can answer the call without trust.

        Refuse a call that reads more than `MAX_CALL_KEYS` keys.
        """
        reader, block_id = await self.blocks.state_for_call(at)
        recorded_reads = RecordedReads(reader, MAX_CALL_KEYS)
        try:
            compute_answer = partial(self.runtime.call_hex, recorded_reads, block_id, function, arguments)
            await self.long_calls.run(function, len(arguments), compute_answer)
        except TooManyReads as error:
            raise JsonRpcError(INVALID_PARAMS, "Invalid params", f"{function} reads {error}") from None
        return await self._proof_json(block_id, list(recorded_reads.noted))

    @method("state_getMetadata")
    async def metadata(self, at: HashParameter | None) -> Json:
        """Return the runtime's description of itself, version 14."""
        await self.blocks.state_for_call(at)  # an unknown block must fail here, because the client reads its state next
        return self.runtime.metadata_v14

    @method("state_getRuntimeVersion", "chain_getRuntimeVersion")
    async def runtime_version(self, at: HashParameter | None) -> Json:
        """Return the runtime version at a known block: the same for all blocks, also those without state."""
        if at is not None:
            await self.blocks.require_known(at)
        return self.runtime.version_json

    @subscription(
        "state_subscribeRuntimeVersion", "chain_subscribeRuntimeVersion",
        notification="state_runtimeVersion",
        unsubscribe=("state_unsubscribeRuntimeVersion", "chain_unsubscribeRuntimeVersion"),
    )  # fmt: skip
    def runtime_versions(self) -> SharedItems[RuntimeCalls]:
        """Send the runtime version. A second item never follows: the rules cannot change while this program runs."""
        return self._versions

    @subscription("state_subscribeStorage", notification="state_storage", unsubscribe=("state_unsubscribeStorage",))
    async def storage_changes(self, keys: list[Hex]) -> AsyncIterator[LongItem]:
        """Send the values under `keys`: all of them, then those that each best block wrote, equal ones included."""
        return WatchedValues(self.blocks, _require_bounded(keys)).items()

    async def _proof_json(self, block_id: bytes, keys: list[bytes]) -> Json:
        nodes: set[bytes] = set()
        for start in range(0, max(1, len(keys)), KEYS_AT_ONCE):
            part = keys[start : start + KEYS_AT_ONCE]
            await self.pace.take(len(part))
            nodes.update(await self.blocks.node.prove(block_id, part))
        return {"at": to_hex(block_id), "proof": [to_hex(node) for node in sorted(nodes)]}

    async def _ids_in_range(self, first_id: bytes, last_id: bytes) -> list[bytes]:
        """Return the ids from `first_id` up to `last_id`, which descends from it."""
        range_ids = [last_id]
        while range_ids[-1] != first_id:
            header = await self.blocks.header(range_ids[-1])
            if header is None or header.number == 0 or len(range_ids) >= MAX_QUERY_BLOCKS:
                raise JsonRpcError(INVALID_PARAMS, "Invalid params", f"no range of at most {MAX_QUERY_BLOCKS} blocks")
            range_ids.append(header.parent_hash)
        return range_ids[::-1]


def _version_json(runtime: RuntimeCalls) -> Json:
    return runtime.version_json


def _require_bounded(keys: list[Hex]) -> list[Hex]:
    if len(keys) > MAX_KEYS_PER_QUERY:
        raise JsonRpcError(INVALID_PARAMS, "Invalid params", f"at most {MAX_KEYS_PER_QUERY} keys")
    if any(len(key) > MAX_KEY_BYTES for key in keys):  # no such key exists, and each block would be searched for it
        raise JsonRpcError(INVALID_PARAMS, "Invalid params", f"a key of the state has at most {MAX_KEY_BYTES} bytes")
    return keys


def _read_values(reader: StateReader, keys: list[Hex]) -> list[tuple[bytes, bytes | None]]:
    return [(key, reader.get(key)) for key in keys]


def _change_set(block_id: bytes, values: list[tuple[bytes, bytes | None]]) -> Json:
    return {
        "block": to_hex(block_id),
        "changes": [[to_hex(key), _hex_or_none(value)] for key, value in values],
    }


def _hex_or_none(value: bytes | None) -> Json:
    return None if value is None else to_hex(value)
