"""A chain for a wallet: typed reads, signed calls, and their outcomes.

Everything is derived from the pallets' declarations: a pallet builds a call, and a storage item is read by its
declaration (`System.account`). Invariants: the client signs only after it has read the node's genesis hash and
versions, and only for rules (`spec_version`) that this program knows. Only `prepare` signs, and only extrinsics that
are meant to be sent: the request for a fee carries a signature that cannot be valid. A node's answer becomes a value,
or an error of `wallet.rpc`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self

from genesis.chain import apis_for
from runtime.blocks.era import mortal
from runtime.blocks.extrinsic import Additional, Extra, MultiSignature, encode_signed, payload_head, signing_payload
from runtime.cryptography import ss58
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme
from runtime.encoding.types import ApplyExtrinsic
from runtime.frame.api import Apis
from runtime.frame.call import Call
from runtime.frame.errors import DispatchError, ErrorValue
from runtime.frame.runtime import Runtime
from runtime.frame.storage import StorageItem
from runtime.pallets.system import EventRecord, ExtrinsicFailed, System
from runtime.pallets.transaction_payment import TransactionFeePaid
from wallet.amounts import MAX_GRAINS
from wallet.answers import (
    U32_MAX,
    BlockBody,
    all_bytes_of,
    block_body_of,
    bytes_of,
    hash_of,
    hex_of,
    status_of,
    stored_of,
    whole_of,
)
from wallet.errors import WalletError
from wallet.keypair import Keypair
from wallet.proved.keys import prefix_of, storage_key
from wallet.rpc import NodeUnreachableError, RpcConnection, RpcJson
from wallet.trust import DEFAULT_URL

ERA_BLOCKS = 64
FIRST_STATUS_SECONDS = 10.0  # a node that took an extrinsic says so at once
NEXT_STATUS_SECONDS = 30.0  # until it is in a block, and then until that is final
NO_SIGNATURE = b"\x7f" * 64
"""Valid under no key and for no message: ed25519 requires a scalar below its order, sr25519 a mark in the last byte."""
PAGE_KEYS = 500
FINISHED = ("usurped", "dropped", "invalid", "finalityTimeout")


class UnknownRulesError(WalletError):
    """The node's rules are unknown to this program."""


class NotIncludedError(WalletError):
    """An extrinsic was sent, but will not be in a block."""


class Payer(Protocol):
    """The future signer: a key, or a locked key file."""

    @property
    def account(self) -> bytes:
        """The 32-byte account id."""

    @property
    def scheme(self) -> Scheme:
        """The signature scheme."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A signed extrinsic that was not sent yet; blocks from `born` to before `dies` can hold it."""

    extrinsic: bytes
    call: bytes
    signer: bytes
    nonce: int
    born: int
    dies: int
    birth: bytes
    """The block at `born`, which the signature covers: if it is at another height, both limits are wrong."""

    @property
    def hash(self) -> bytes:
        """The extrinsic's hash, its name on the chain."""
        return blake2_256(self.extrinsic)


@dataclass(frozen=True, slots=True)
class Outcome:
    """An extrinsic in a block: its place, its events, and its error if it failed."""

    extrinsic_hash: bytes
    block_hash: bytes
    block_number: int
    index: int
    events: tuple[Any, ...]
    error: str | None

    @property
    def fee(self) -> int:
        """The grains that the signer paid, tip included."""
        return next((event.actual_fee for event in self.events if isinstance(event, TransactionFeePaid)), 0)

    @property
    def is_success(self) -> bool:
        """Return True if the call succeeded."""
        return self.error is None

    @property
    def error_code(self) -> str:
        """The chain's name of the error, such as `TrustStake.BondTooSmall`."""
        error_name = (self.error or "").partition(":")[0]
        return error_name if error_name and " " not in error_name else "call_failed"


class ChainClient:
    """One node, and the rules of its chain. Use `async with await ChainClient.connect(url)`."""

    def __init__(self, rpc: RpcConnection, apis: Apis, genesis_hash: bytes, chain_name: str) -> None:
        """Use `connect`."""
        self.rpc = rpc
        self.apis = apis
        self.runtime = apis.runtime
        self.genesis_hash = genesis_hash
        self.chain = chain_name

    @classmethod
    async def connect(cls, url: str = DEFAULT_URL, patience: float | None = None) -> Self:
        """Connect, and check that this program knows the node's rules.

        Raise NodeUnreachableError if no node answers, UnknownRulesError if the rules are unknown.
        """
        rpc = await RpcConnection.open(url, patience)
        try:
            parameters = await rpc.call("ogpu_parameters")
            node_version = await rpc.call("state_getRuntimeVersion")
            genesis_hex = await rpc.call("chain_getBlockHash", 0)
            chain_name = await rpc.call("system_chain")
            try:
                apis = apis_for(parameters["parameters"], is_development=parameters["isDevelopment"])
                _check_version(node_version, apis.runtime)
                return cls(rpc, apis, hash_of(genesis_hex), str(chain_name))
            except (KeyError, TypeError, ValueError) as error:
                raise UnknownRulesError(f"{url} is not a node of an ogpu chain", code="other_chain") from error
        except BaseException:
            await rpc.close()
            raise

    async def __aenter__(self) -> Self:
        """Return the connected client."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        await self.rpc.close()

    # --- reads

    async def finalized(self) -> bytes:
        """Return the id of the last final block, at which balances and payments should be read."""
        return await self.rpc.ask(hash_of, "chain_getFinalizedHead")

    async def height(self, at: bytes | None = None) -> int:
        """Return the number of a block, or of the best one."""
        return await self.rpc.ask(
            lambda header: whole_of(int(header["number"], 16), U32_MAX), "chain_getHeader", hex_of(at)
        )

    async def read(self, item: StorageItem, *keys: Any, at: bytes | None = None) -> Any:
        """Return the value of a storage item, or its default: `read(System.account, who)`."""
        compiled_item = self.runtime.item(item)
        storage_key_hex = hex_of(storage_key(compiled_item, keys))
        return await self.rpc.ask(
            lambda encoded_value: stored_of(compiled_item, encoded_value),
            "state_getStorage",
            storage_key_hex,
            hex_of(at),
        )

    async def raw(self, keys: Sequence[bytes], *, at: bytes) -> dict[bytes, bytes | None]:
        """Return the stored bytes under each of a few keys; None for an empty one."""
        values_by_key = await self._values(bytes_of, keys, at)
        return {key: values_by_key.get(key) for key in keys}

    async def raw_keys(self, prefix: bytes, *, at: bytes, most: int) -> list[bytes]:
        """Return the keys with a prefix, ascending, up to the page that exceeds `most`."""
        collected_keys: list[bytes] = []
        async for page in self._pages(prefix, at):
            collected_keys += page
            if len(collected_keys) > most:
                break
        return collected_keys

    async def tried_at(self) -> bytes:
        """Return the id of the block for dry runs of calls: the best one."""
        return await self.block_id()

    async def query(self, function: str, *arguments: Any, at: bytes | None = None) -> Any:
        """Return the answer of a declared runtime API: `query("OgpuApi_stakes", account)`."""
        api_method = self.apis.methods[function]
        encoded_arguments = b"".join(
            argument_codec.encode(argument)
            for (_, argument_codec), argument in zip(api_method.inputs, arguments, strict=True)
        )

        def decoded(encoded: RpcJson) -> Any:
            return api_method.output.decode(bytes_of(encoded))

        return await self.rpc.ask(decoded, "state_call", function, hex_of(encoded_arguments), hex_of(at))

    async def nonce(self, account: bytes) -> int:
        """Return the nonce for the account's next extrinsic, counting those in the pool."""
        return await self.rpc.ask(
            lambda nonce: whole_of(nonce, U32_MAX), "system_accountNextIndex", ss58.encode(account)
        )

    async def events(self, block: bytes) -> tuple[EventRecord, ...]:
        """Return the events of a block."""
        records: tuple[EventRecord, ...] = await self.read(System.event_records, at=block)
        return records

    async def block_id(self, height: int | None = None) -> bytes:
        """Return the id of the block at a height, or of the best one."""
        return await self.rpc.ask(hash_of, "chain_getBlockHash", height)

    async def final_ids(self, first: int, last: int) -> list[bytes]:
        """Return the ids of the final blocks from one height to another. The node must have them."""
        return [await self.block_id(height) for height in range(first, last + 1)]

    async def block(self, block: bytes) -> BlockBody:
        """Return a block. The node must have it."""
        return await self.rpc.ask(block_body_of, "chain_getBlock", hex_of(block))

    async def block_if_known(self, block: bytes) -> BlockBody | None:
        """Return a block; None if the node has none with that id."""
        return await self.rpc.ask(
            lambda answer: None if answer is None else block_body_of(answer), "chain_getBlock", hex_of(block)
        )

    async def pending(self) -> list[bytes]:
        """Return the hashes of the extrinsics in the node's pool."""
        return [blake2_256(extrinsic) for extrinsic in await self.rpc.ask(all_bytes_of, "author_pendingExtrinsics")]

    # --- writes

    async def prepare(self, call: Call, key: Keypair, *, nonce: int | None = None, tip: int = 0) -> Prepared:
        """Return a signed extrinsic, valid for about `ERA_BLOCKS` blocks; after this anybody who has it can send it."""
        extensions, birth_height = await self._extra(key.account, nonce, tip)
        (birth_hash,) = await self.final_ids(birth_height, birth_height)
        runtime_version = self.runtime.version
        additional = Additional(
            runtime_version.spec_version, runtime_version.transaction_version, self.genesis_hash, birth_hash
        )
        payload = signing_payload(payload_head(self.runtime, call, extensions), additional)
        extrinsic = self._encoded(call, extensions, key, key.sign(payload))
        death_height = birth_height + extensions.era.period
        return Prepared(
            extrinsic,
            self.runtime.call_codec.encode(call),
            key.account,
            extensions.nonce,
            birth_height,
            death_height,
            birth_hash,
        )

    async def sign(self, call: Call, key: Keypair, *, nonce: int | None = None, tip: int = 0) -> bytes:
        """Return the bytes of `prepare`."""
        return (await self.prepare(call, key, nonce=nonce, tip=tip)).extrinsic

    async def fee(self, call: Call, payer: Payer, tip: int = 0) -> int:
        """Return the grains of a call's fee without the tip, as the node computes it.

        The node gets an extrinsic of the right length with an invalid signature, so the request sends nothing.
        """
        extrinsic = await self._unsigned(call, payer, tip)
        return await self.rpc.ask(
            lambda dispatch_info: whole_of(dispatch_info["partialFee"], MAX_GRAINS),
            "payment_queryInfo",
            hex_of(extrinsic),
        )

    async def _unsigned(self, call: Call, payer: Payer, tip: int) -> bytes:
        """Return an extrinsic of the final length that no chain accepts."""
        extensions, _ = await self._extra(payer.account, None, tip)
        return self._encoded(call, extensions, payer, NO_SIGNATURE)

    async def _extra(self, account: bytes, nonce: int | None, tip: int) -> tuple[Extra, int]:
        """Return the transaction extensions, and the height of the block from which the extrinsic is valid."""
        if nonce is None:
            nonce = await self.nonce(account)
        # A final block cannot be reverted. A signature over a reverted birth block would be invalid.
        height = await self.height(await self.finalized())
        mortal_era = mortal(ERA_BLOCKS, height)
        return Extra(mortal_era, nonce, tip), mortal_era.birth(height)

    def _encoded(self, call: Call, extensions: Extra, payer: Payer, signature: bytes) -> bytes:
        return encode_signed(self.runtime, call, extensions, payer.account, MultiSignature(payer.scheme, signature))

    async def submit(self, call: Call, key: Keypair, *, until: str = "finalized", tip: int = 0) -> Outcome:
        """Sign and send a call, and wait until it is `inBlock` or `finalized`."""
        return await self.send(await self.sign(call, key, tip=tip), until=until)

    async def send(self, extrinsic: bytes, *, until: str = "finalized") -> Outcome:
        """Send a signed extrinsic and wait. Raise NotIncludedError if it will never be in a block.

        Raise NodeUnreachableError also if the node falls silent about it: its fate is then unknown.
        """
        status_updates = await self.rpc.subscribe(
            "author_submitAndWatchExtrinsic", hex_of(extrinsic), unsubscribe="author_unwatchExtrinsic"
        )
        patience = FIRST_STATUS_SECONDS
        while (status_json := await self._next_status(status_updates, patience)) is not None:
            with self.rpc.understanding("author_submitAndWatchExtrinsic"):
                status_name, status_hash = status_of(status_json)
                block_hash = hash_of(status_hash) if status_name == until else b""
            if status_name == until:
                return await self.outcome(block_hash, blake2_256(extrinsic))
            if status_name in FINISHED:
                raise NotIncludedError(
                    f"the extrinsic was {status_name}, and no block will hold it", code="not_included"
                )
            patience = NEXT_STATUS_SECONDS
        raise NotIncludedError("the node stopped reporting on the extrinsic")

    async def _next_status(self, status_updates: AsyncIterator[RpcJson], patience: float) -> RpcJson | None:
        """Return the next status; None after the last one."""
        try:
            async with asyncio.timeout(patience):
                return await anext(status_updates, None)
        except TimeoutError as error:
            raise NodeUnreachableError(
                f"{self.rpc.url} reported nothing on the extrinsic for {patience:.0f} s"
            ) from error

    async def outcome(self, block: bytes, extrinsic_hash: bytes) -> Outcome:
        """Return the outcome of an extrinsic in its block."""
        block_body = await self.block(block)
        with self.rpc.understanding("chain_getBlock"):
            extrinsic_index = [blake2_256(extrinsic) for extrinsic in block_body.extrinsics].index(extrinsic_hash)
        phase = ApplyExtrinsic(extrinsic_index)
        own_events = tuple(record.event for record in await self.events(block) if record.phase == phase)
        failure = next((event for event in own_events if isinstance(event, ExtrinsicFailed)), None)
        error = None if failure is None else describe_error(self.runtime, failure.dispatch_error)
        return Outcome(extrinsic_hash, block, block_body.height, extrinsic_index, own_events, error)

    async def finalized_heads(self) -> AsyncIterator[RpcJson]:
        """Return a stream of every later final header."""
        return await self.rpc.subscribe("chain_subscribeFinalizedHeads", unsubscribe="chain_unsubscribeFinalizedHeads")

    async def best_heads(self) -> AsyncIterator[RpcJson]:
        """Return a stream of every later best header."""
        return await self.rpc.subscribe("chain_subscribeNewHeads", unsubscribe="chain_unsubscribeNewHeads")

    def unverified(self) -> ChainClient:
        """Return a client that accepts the node's statements without proof: this one."""
        return self

    # --- reads of several values

    async def read_many(self, item: StorageItem, keys: Sequence[Any], *, at: bytes | None = None) -> list[Any]:
        """Return the values of a map under several keys, in their order."""
        compiled_item = self.runtime.item(item)
        storage_keys = [compiled_item.key(key) for key in keys]  # type: ignore[attr-defined]  # by kind
        values_by_key: dict[bytes, Any] = {}
        for page_start in range(0, len(storage_keys), PAGE_KEYS):
            values_by_key.update(
                await self._values(
                    partial(stored_of, compiled_item), storage_keys[page_start : page_start + PAGE_KEYS], at
                )
            )
        return [values_by_key.get(key, compiled_item.default) for key in storage_keys]

    async def entries(self, item: StorageItem, *under: Any, at: bytes | None = None) -> dict[bytes, Any]:
        """Return every value of a map by storage key; of a double map those `under` a first key."""
        compiled_item = self.runtime.item(item)
        found_entries: dict[bytes, Any] = {}
        async for page in self._pages(prefix_of(compiled_item, under), at):
            found_entries.update(await self._values(partial(stored_of, compiled_item), page, at))
        return found_entries

    async def _pages(self, prefix: bytes, block_hash: bytes | None) -> AsyncIterator[list[bytes]]:
        last_key_hex: str | None = None
        while True:
            page = await self.rpc.ask(
                all_bytes_of, "state_getKeysPaged", hex_of(prefix), PAGE_KEYS, last_key_hex, hex_of(block_hash)
            )
            yield page
            if len(page) < PAGE_KEYS:
                return
            last_key_hex = hex_of(page[-1])

    async def _values(
        self, decode: Callable[[RpcJson], Any], keys: Sequence[bytes], block_hash: bytes | None
    ) -> dict[bytes, Any]:
        """Return the stored values of a few keys, without the empty ones."""

        def decoded(answer: RpcJson) -> dict[bytes, Any]:
            changes = {bytes_of(key): encoded for key, encoded in answer[0]["changes"]}
            # A key that the node leaves out raises KeyError: only null means that nothing is stored.
            return {key: decode(changes[key]) for key in keys if changes[key] is not None}

        return await self.rpc.ask(decoded, "state_queryStorageAt", [hex_of(key) for key in keys], hex_of(block_hash))


def describe_error(runtime: Runtime, error_value: ErrorValue) -> str:
    """Return a dispatch error in words: `Balances.VestingBalance: ...` for a pallet's own, else `Token.Frozen: ...`."""
    # Kind 3 is an error that a pallet declares: `DispatchError::Module` of Substrate.
    if error_value.kind != 3:
        error_kinds = (
            error_kind for error_kind in DispatchError.__subclasses__() if vars(error_kind).get("value") == error_value
        )
        return ": ".join((error_value.name, *((error_kind.__doc__ or "").strip() for error_kind in error_kinds)))
    for pallet in runtime.pallets:
        for declared_error in pallet.errors:
            if declared_error.value == error_value:
                return (
                    f"{pallet.__name__}.{declared_error.__name__}: "
                    f"{(declared_error.__doc__ or '').strip().splitlines()[0]}"
                )
    return f"error {error_value.detail[1]} of pallet {error_value.detail[0]}"


def _check_version(node_version: RpcJson, runtime: Runtime) -> None:
    own_version = runtime.version
    node_rules = (node_version["specName"], node_version["specVersion"], node_version["transactionVersion"])
    # Under other rules the signed bytes can be another call than the person reads.
    if node_rules != (own_version.spec_name, own_version.spec_version, own_version.transaction_version):
        raise UnknownRulesError(
            f"the node runs {node_rules[0]} spec {node_rules[1]}, transactions {node_rules[2]}. This program knows "
            f"{own_version.spec_name} spec {own_version.spec_version}, transactions {own_version.transaction_version}. "
            "Install the release that matches the network"
        )
