"""A chain as a wallet sees it: typed reads, signed calls, and what became of them.

Everything is derived from the pallets' declarations: a call is built by its pallet, a storage item is read by its
declaration (`System.account`). Invariant: nothing is signed before the node's genesis hash and versions have been read
from it, and only for rules (`spec_version`) that this program knows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from genesis.chain import apis_for
from runtime.blocks.era import mortal
from runtime.blocks.extrinsic import Additional, Extra, MultiSignature, encode_signed, payload_head, signing_payload
from runtime.cryptography import ss58
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.types import ApplyExtrinsic
from runtime.frame.api import Apis
from runtime.frame.call import Call
from runtime.frame.errors import ErrorValue
from runtime.frame.runtime import Runtime
from runtime.frame.storage import StorageItem
from runtime.pallets.system import EventRecord, ExtrinsicFailed, System
from runtime.pallets.transaction_payment import TransactionFeePaid
from wallet.errors import WalletError
from wallet.keypair import Keypair
from wallet.rpc import DEFAULT_URL, RpcConnection, RpcJson

ERA_BLOCKS = 64
PAGE_KEYS = 500
FINISHED = ("usurped", "dropped", "invalid", "finalityTimeout")


class UnknownRulesError(WalletError):
    """The node runs rules that this program does not know."""


class NotIncludedError(WalletError):
    """An extrinsic was handed in, but will not be in a block."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """An extrinsic in a block: where, what it did, and why it failed if it did."""

    extrinsic_hash: bytes
    block_hash: bytes
    block_number: int
    index: int
    events: tuple[Any, ...]
    error: str | None

    @property
    def fee(self) -> int:
        """Grains that the signer paid, tip included."""
        return next((event.actual_fee for event in self.events if isinstance(event, TransactionFeePaid)), 0)

    @property
    def is_success(self) -> bool:
        """Whether the call did what it asked for."""
        return self.error is None


class ChainClient:
    """One node, and the rules of its chain. Use `async with await ChainClient.connect(url)`."""

    def __init__(self, rpc: RpcConnection, apis: Apis, genesis_hash: bytes, chain: str) -> None:
        """Use `connect`."""
        self.rpc = rpc
        self.apis = apis
        self.runtime = apis.runtime
        self.genesis_hash = genesis_hash
        self.chain = chain

    @classmethod
    async def connect(cls, url: str = DEFAULT_URL) -> Self:
        """Connect and check that the node's rules are known; NodeUnreachableError, UnknownRulesError."""
        rpc = await RpcConnection.open(url)
        try:
            parameters = await rpc.call("ogpu_parameters")
            version = await rpc.call("state_getRuntimeVersion")
            genesis = await rpc.call("chain_getBlockHash", 0)
            chain = await rpc.call("system_chain")
            try:
                apis = apis_for(parameters["parameters"], is_development=parameters["isDevelopment"])
                _check_version(version, apis.runtime)
                return cls(rpc, apis, bytes.fromhex(genesis[2:]), str(chain))
            except (KeyError, TypeError, ValueError) as error:
                raise UnknownRulesError(f"{url} does not answer as a node of this chain does") from error
        except BaseException:
            await rpc.close()
            raise

    async def __aenter__(self) -> Self:
        """Already connected."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        await self.rpc.close()

    # --- reads

    async def finalized(self) -> bytes:
        """The id of the last final block: what balances and payments should be read at."""
        return bytes.fromhex((await self.rpc.call("chain_getFinalizedHead"))[2:])

    async def height(self, at: bytes | None = None) -> int:
        """The number of a block, or of the best one."""
        header = await self.rpc.call("chain_getHeader", _hex(at))
        return int(header["number"], 16)

    async def read(self, item: StorageItem, *keys: Any, at: bytes | None = None) -> Any:
        """The value of a storage item, its default where nothing is stored: `read(System.account, who)`."""
        known = self.runtime.item(item)
        key = known.key() if not keys else known.key(keys[0] if len(keys) == 1 else keys)  # type: ignore[attr-defined]  # by kind
        raw = await self.rpc.call("state_getStorage", _hex(key), _hex(at))
        return known.default if raw is None else known.decode(bytes.fromhex(raw[2:]))

    async def query(self, function: str, *arguments: Any, at: bytes | None = None) -> Any:
        """The answer of a declared runtime API: `query("OgpuApi_stakes", account)`."""
        method = self.apis.methods[function]
        data = b"".join(codec.encode(argument) for (_, codec), argument in zip(method.inputs, arguments, strict=True))
        raw = await self.rpc.call("state_call", function, _hex(data), _hex(at))
        return method.output.decode(bytes.fromhex(raw[2:]))

    async def nonce(self, account: bytes) -> int:
        """The nonce for the account's next extrinsic, those that wait in the pool counted."""
        return int(await self.rpc.call("system_accountNextIndex", ss58.encode(account)))

    async def events(self, block: bytes) -> tuple[EventRecord, ...]:
        """What happened in a block."""
        records: tuple[EventRecord, ...] = await self.read(System.event_records, at=block)
        return records

    # --- writes

    async def sign(self, call: Call, key: Keypair, *, nonce: int | None = None, tip: int = 0) -> bytes:
        """A signed extrinsic, valid for about `ERA_BLOCKS` blocks from now."""
        if nonce is None:
            nonce = await self.nonce(key.account)
        at = await self.finalized()
        era = mortal(ERA_BLOCKS, await self.height(at))
        birth = era.birth(await self.height(at))
        birth_hash = bytes.fromhex((await self.rpc.call("chain_getBlockHash", birth))[2:])
        return self._signed(call, key, Extra(era, nonce, tip), birth_hash)

    def _signed(self, call: Call, key: Keypair, extra: Extra, birth_hash: bytes) -> bytes:
        version = self.runtime.version
        additional = Additional(version.spec_version, version.transaction_version, self.genesis_hash, birth_hash)
        payload = signing_payload(payload_head(self.runtime, call, extra), additional)
        signature = MultiSignature(key.scheme, key.sign(payload))
        return encode_signed(self.runtime, call, extra, key.account, signature)

    async def fee(self, call: Call, key: Keypair) -> int:
        """Grains that the call would cost in fees, by the node's own reckoning."""
        extrinsic = await self.sign(call, key)
        info = await self.rpc.call("payment_queryInfo", _hex(extrinsic))
        return int(info["partialFee"])

    async def submit(self, call: Call, key: Keypair, *, until: str = "finalized", tip: int = 0) -> Outcome:
        """Sign, hand in, and wait until it is `inBlock` or `finalized`."""
        return await self.send(await self.sign(call, key, tip=tip), until=until)

    async def send(self, extrinsic: bytes, *, until: str = "finalized") -> Outcome:
        """Hand a signed extrinsic in and wait; NotIncludedError if it never will be in a block."""
        updates = await self.rpc.subscribe(
            "author_submitAndWatchExtrinsic", _hex(extrinsic), unsubscribe="author_unwatchExtrinsic"
        )
        async for status in updates:
            name, value = _status(status)
            if name == until:
                return await self.outcome(bytes.fromhex(value[2:]), blake2_256(extrinsic))
            if name in FINISHED:
                raise NotIncludedError(f"the extrinsic was {name} and will not be in a block")
        raise NotIncludedError("the node stopped following the extrinsic")

    async def outcome(self, block: bytes, extrinsic_hash: bytes) -> Outcome:
        """What an extrinsic did in the block that holds it."""
        body = (await self.rpc.call("chain_getBlock", _hex(block)))["block"]
        hashes = [blake2_256(bytes.fromhex(raw[2:])) for raw in body["extrinsics"]]
        index = hashes.index(extrinsic_hash)
        phase = ApplyExtrinsic(index)
        happened = tuple(record.event for record in await self.events(block) if record.phase == phase)
        failed = next((event for event in happened if isinstance(event, ExtrinsicFailed)), None)
        error = None if failed is None else describe_error(self.runtime, failed.dispatch_error)
        return Outcome(extrinsic_hash, block, int(body["header"]["number"], 16), index, happened, error)

    async def finalized_heads(self) -> AsyncIterator[RpcJson]:
        """Every final header from now on."""
        return await self.rpc.subscribe("chain_subscribeFinalizedHeads", unsubscribe="chain_unsubscribeFinalizedHeads")

    async def best_heads(self) -> AsyncIterator[RpcJson]:
        """Every best header from now on."""
        return await self.rpc.subscribe("chain_subscribeNewHeads", unsubscribe="chain_unsubscribeNewHeads")

    def unverified(self) -> ChainClient:
        """The same node, taken at its word; that is what this client does."""
        return self

    # --- reads of several values

    async def read_many(self, item: StorageItem, keys: Sequence[Any], *, at: bytes | None = None) -> list[Any]:
        """The values of a map under several keys, in their order."""
        known = self.runtime.item(item)
        asked = [_hex(known.key(key)) for key in keys]  # type: ignore[attr-defined]  # by kind
        found: dict[str | None, str | None] = {}
        for start in range(0, len(asked), PAGE_KEYS):
            answer = await self.rpc.call("state_queryStorageAt", asked[start : start + PAGE_KEYS], _hex(at))
            found.update(answer[0]["changes"])
        raws = [found[key] for key in asked]
        return [known.default if raw is None else known.decode(bytes.fromhex(raw[2:])) for raw in raws]

    async def entries(self, item: StorageItem, *, at: bytes | None = None) -> dict[bytes, Any]:
        """Every value of a map by storage key."""
        known = self.runtime.item(item)
        found: dict[bytes, Any] = {}
        last: str | None = None
        while True:
            page = await self.rpc.call("state_getKeysPaged", _hex(known.prefix), PAGE_KEYS, last, _hex(at))
            answer = await self.rpc.call("state_queryStorageAt", page, _hex(at))
            for key, raw in answer[0]["changes"]:
                found[bytes.fromhex(key[2:])] = known.decode(bytes.fromhex(raw[2:]))
            if len(page) < PAGE_KEYS:
                return found
            last = page[-1]


def describe_error(runtime: Runtime, value: ErrorValue) -> str:
    """A dispatch error in words: `Balances.VestingBalance: ...` for a pallet's own, else the kind."""
    if value.kind != 3:
        return value.name
    index = value.detail[0]
    number = value.detail[1]
    for pallet in runtime.pallets:
        if pallet.index == index and number < len(pallet.errors):
            error = pallet.errors[number]
            return f"{pallet.__name__}.{error.__name__}: {(error.__doc__ or '').strip().splitlines()[0]}"
    return f"error {number} of pallet {index}"


def _check_version(version: RpcJson, runtime: Runtime) -> None:
    ours = runtime.version
    theirs = (version["specName"], version["specVersion"], version["transactionVersion"])
    if theirs != (ours.spec_name, ours.spec_version, ours.transaction_version):
        raise UnknownRulesError(
            f"the node runs {theirs[0]} spec {theirs[1]}, transactions {theirs[2]}; this program knows "
            f"{ours.spec_name} spec {ours.spec_version}, transactions {ours.transaction_version}: "
            "install the release that matches the network"
        )


def _status(value: RpcJson) -> tuple[str, str]:
    """Name and block hash of a status; the hash is empty for states that have none."""
    if isinstance(value, str):
        return value, ""
    name, detail = next(iter(value.items()))
    return name, detail if isinstance(detail, str) else ""


def _hex(data: bytes | None) -> str | None:
    return None if data is None else "0x" + data.hex()
