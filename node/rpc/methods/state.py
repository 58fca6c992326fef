"""`state_*`: storage, runtime calls, metadata, and the streams of changes."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator

from node.feed.client import RequestRefusedError
from node.rpc.block_reads import BlockReads, to_hex
from node.rpc.jsonrpc import CLIENT_ERROR, INVALID_PARAMS, Json, JsonRpcError
from node.rpc.registry import HashParameter, Hex, Safety, method, subscription
from node.rpc.runtime_calls import RuntimeCalls
from runtime.cryptography.hashing import blake2_256
from runtime.state.overlay import StateReader

MAX_KEYS_PER_PAGE = 1000
MAX_KEYS_PER_QUERY = 1000
MAX_QUERY_BLOCKS = 256
MAX_PAIRS = 10_000
SCAN_SECONDS = 2.0


class State:
    """Reads of storage at any kept block."""

    def __init__(self, blocks: BlockReads, runtime: RuntimeCalls) -> None:
        """Reads from the replica; executes with the chain's own runtime."""
        self.blocks = blocks
        self.runtime = runtime

    @method("state_getStorage", "state_getStorageAt")
    def storage(self, key: Hex, at: HashParameter | None) -> Json:
        """The value under a storage key; null where there is none."""
        return _hex_or_none(self.blocks.reader(at).get(key))

    @method("state_getStorageHash", "state_getStorageHashAt")
    def storage_hash(self, key: Hex, at: HashParameter | None) -> Json:
        """The hash of a value."""
        value = self.blocks.reader(at).get(key)
        return None if value is None else to_hex(blake2_256(value))

    @method("state_getStorageSize", "state_getStorageSizeAt")
    def storage_size(self, key: Hex, at: HashParameter | None) -> Json:
        """The length of a value in bytes."""
        value = self.blocks.reader(at).get(key)
        return None if value is None else len(value)

    @method("state_getKeysPaged", "state_getKeysPagedAt")
    def keys_paged(self, prefix: Hex, count: int, start: Hex | None, at: HashParameter | None) -> Json:
        """At most `count` keys under a prefix, after `start`, in order."""
        if count > MAX_KEYS_PER_PAGE:
            raise JsonRpcError(INVALID_PARAMS, "Invalid params", f"count: at most {MAX_KEYS_PER_PAGE} keys a page")
        keys = self.blocks.reader(at).keys(prefix, start or b"")
        return [to_hex(key) for key in itertools.islice(keys, count)]

    @method("state_getPairs", safety=Safety.UNSAFE)
    def pairs(self, prefix: Hex, at: HashParameter | None) -> Json:
        """Keys and values under a prefix."""
        reader = self.blocks.reader(at)
        keys = list(itertools.islice(reader.keys(prefix), MAX_PAIRS + 1))
        if len(keys) > MAX_PAIRS:
            raise JsonRpcError(INVALID_PARAMS, "Invalid params", f"more than {MAX_PAIRS} keys; use state_getKeysPaged")
        return [[to_hex(key), _hex_or_none(reader.get(key))] for key in keys]

    @method("state_queryStorageAt")
    def query_storage_at(self, keys: list[Hex], at: HashParameter | None) -> Json:
        """Several values at one block."""
        block_id = self.blocks.best.id if at is None else at
        return [_change_set(block_id, _read(self.blocks.reader(block_id), _bounded(keys)))]

    @method("state_queryStorage", safety=Safety.UNSAFE)
    async def query_storage(self, keys: list[Hex], first: HashParameter, last: HashParameter | None) -> Json:
        """Several values over a range of blocks: all of them at the first, then what changed."""
        answer: list[Json] = []
        before: list[tuple[bytes, bytes | None]] | None = None
        wanted = _bounded(keys)
        until = time.monotonic() + SCAN_SECONDS
        for block_id in await self._range(first, self.blocks.best.id if last is None else last):
            values = _read(self.blocks.reader(block_id), wanted)
            if before is None:
                answer.append(_change_set(block_id, values))
            else:
                changed = [new for new, old in zip(values, before, strict=True) if new != old]
                if changed:
                    answer.append(_change_set(block_id, changed))
            before = values
            # One process answers everybody: a long scan is broken off.
            if time.monotonic() > until:
                raise JsonRpcError(CLIENT_ERROR, f"Client error: the query took longer than {SCAN_SECONDS:.0f} s")
        return answer

    @method("state_getReadProof")
    async def read_proof(self, keys: list[Hex], at: HashParameter | None) -> Json:
        """A proof of values against the state root of a block."""
        block_id = self.blocks.best.id if at is None else at
        try:
            nodes = await self.blocks.node.prove(block_id, list(_bounded(keys)))
        except RequestRefusedError as error:
            raise JsonRpcError(error.code, error.text, error.data or None) from None
        return {"at": to_hex(block_id), "proof": [to_hex(node) for node in nodes]}

    @method("state_call", "state_callAt")
    def call(self, function: str, arguments: Hex, at: HashParameter | None) -> Json:
        """The answer of a runtime API, encoded."""
        return to_hex(self.runtime.call(self.blocks.reader(at), function, arguments))

    @method("state_getMetadata")
    def metadata(self, at: HashParameter | None) -> Json:
        """The runtime's description of itself, version 14."""
        del at  # one program has one set of rules
        return to_hex(self.runtime.metadata_v14)

    @method("state_getRuntimeVersion", "chain_getRuntimeVersion")
    def runtime_version(self, at: HashParameter | None) -> Json:
        """Which rules are in force."""
        del at
        return self.runtime.version_json

    @subscription(
        "state_subscribeRuntimeVersion", "chain_subscribeRuntimeVersion",
        notification="state_runtimeVersion",
        unsubscribe=("state_unsubscribeRuntimeVersion", "chain_unsubscribeRuntimeVersion"),
    )  # fmt: skip
    async def runtime_versions(self) -> AsyncIterator[Json]:
        """The rules in force; another item would follow if they changed while this program runs, which they cannot."""
        yield self.runtime.version_json
        await asyncio.Event().wait()

    @subscription("state_subscribeStorage", notification="state_storage", unsubscribe=("state_unsubscribeStorage",))
    async def storage_changes(self, keys: list[Hex]) -> AsyncIterator[Json]:
        """Values under `keys`: all of them now, then those that the best block changed."""
        wanted = _bounded(keys)
        news = self.blocks.replica.new_best.listen()
        values = _read(self.blocks.reader(None), wanted)
        yield _change_set(self.blocks.best.id, values)
        async for block in news:
            if self.blocks.best.id != block.id:
                continue  # a newer best block is already on its way
            now = _read(self.blocks.reader(block.id), wanted)
            changed = [new for new, old in zip(now, values, strict=True) if new != old]
            values = now
            if changed:
                yield _change_set(block.id, changed)

    async def _range(self, first: bytes, last: bytes) -> list[bytes]:
        """The ids from `first` up to `last`, which descends from it."""
        path = [last]
        while path[-1] != first:
            header = await self.blocks.header(path[-1])
            if header is None or header.number == 0 or len(path) >= MAX_QUERY_BLOCKS:
                raise JsonRpcError(INVALID_PARAMS, "Invalid params", f"no range of at most {MAX_QUERY_BLOCKS} blocks")
            path.append(header.parent_hash)
        return path[::-1]


def _bounded(keys: list[Hex]) -> list[Hex]:
    if len(keys) > MAX_KEYS_PER_QUERY:
        raise JsonRpcError(INVALID_PARAMS, "Invalid params", f"at most {MAX_KEYS_PER_QUERY} keys")
    return keys


def _read(reader: StateReader, keys: list[Hex]) -> list[tuple[bytes, bytes | None]]:
    return [(key, reader.get(key)) for key in keys]


def _change_set(block_id: bytes, values: list[tuple[bytes, bytes | None]]) -> Json:
    return {"block": to_hex(block_id), "changes": [[to_hex(key), _hex_or_none(value)] for key, value in values]}


def _hex_or_none(value: bytes | None) -> Json:
    return None if value is None else to_hex(value)
