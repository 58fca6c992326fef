"""A client that accepts only proved statements of its node: the chain, the final state, the outcomes of calls.

Invariants, unless the user passed `--trust-node`: the chain is the one of the folder's first use. Every read and
runtime API is proved, at the newest final block if none is named. An outcome is one in a final block. A fee and a trial
are computed here, over the newest final state. Only statements about blocks that are not final yet remain unproved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from genesis.chain import apis_for
from genesis.parameters import CONSENSUS
from runtime.frame.call import Call
from runtime.frame.storage import StorageItem
from runtime.interface.standard_apis import RuntimeDispatchInfo
from runtime.pallets.system import AccountInfo, ExtrinsicFailed, System
from wallet.answers import BlockBody
from wallet.client import ChainClient, Outcome, Payer, describe_error
from wallet.proved.chain import ProvedChain, system_clock_ms
from wallet.proved.pins import Pin, check_genesis, compare, hold_to
from wallet.proved.refutation import RefutedError, about, require
from wallet.proved.trusting import SeenBlock, TrustExpiredError, expiry, forget, read_seen, renew, seen_of
from wallet.proved.view import ProvedView
from wallet.rpc import RpcError
from wallet.trust import Trust

VIEWS_KEPT = 16
LISTS_KEPT = 4
KEPT_ENTRIES_MAX = 16_384  # of one list; a longer one is requested again
NONCES_AHEAD_MAX = 4096
"""The most extrinsics of an account that may wait in a pool: a nonce further ahead could never be used."""

Warn = Callable[[str], None]


class VerifiedClient(ChainClient):
    """Use `async with await VerifiedClient.connect_by(url, trust, tell)`."""

    _proved: ProvedChain | None = None
    _views: dict[bytes, ProvedView]
    _lists: dict[tuple[Any, ...], dict[bytes, Any]]
    _listing: asyncio.Lock
    _tell: Warn
    _folder: Path
    _seen: SeenBlock | None = None
    _is_doubted = False
    """True after a warning about the newest final block's age, until there is a recent one."""

    @classmethod
    async def connect_by(cls, url: str, trust: Trust, warn: Warn, patience: float | None = None) -> Self:
        """Connect, check the folder's chain, and prove its validators; `warn` receives warnings.

        Raise ChainChangedError for another chain or other rules, NodeRefutedError if the node does not prove the
        genesis.
        """
        client = await cls.connect(url, patience)
        try:
            await client.begin(trust, warn)
        except BaseException:
            await client.rpc.close()
            raise
        return client

    async def begin(self, trust: Trust, warn: Warn) -> None:
        """Do the part of `connect_by` after the connection."""
        self._views = {}
        self._lists = {}
        self._listing = asyncio.Lock()
        self._tell = warn
        if trust.genesis is not None:
            check_genesis(self.genesis_hash, trust.genesis)
        if trust.is_blind:
            warn(f"--trust-node: what {self.rpc.url} says is believed without proof")
            return
        # Asked again: the answer must match the one at the connection, from which the rules were chosen.
        stated_parameters = await self.rpc.call("ogpu_parameters")
        with about(self.rpc.url, "its parameters"):
            parameter_fields = stated_parameters if isinstance(stated_parameters, dict) else {}
            parameters_name, is_development = (
                str(parameter_fields.get("parameters")),
                bool(parameter_fields.get("isDevelopment")),
            )
            require(parameters_name in CONSENSUS, "the answer names none that this program knows")
            require(
                apis_for(parameters_name, is_development=is_development) is self.apis, "it says now this and now that"
            )
        genesis_hex = "0x" + self.genesis_hash.hex()
        chain_pin = Pin(genesis_hex, self.chain, parameters_name, is_development, self.runtime.version.spec_version)
        compare(trust.folder, chain_pin)
        url, ask_node = self.rpc.url, self.rpc.call
        # A folder is tied to a chain only after its genesis state was proved, not to a mere claim.
        try:
            self._proved = await ProvedChain.open(
                url, ask_node, self.apis, CONSENSUS[parameters_name], self.genesis_hash, trust.folder, warn
            )
        except RpcError as error:
            with about(url, f"its genesis hash {genesis_hex}"):
                raise RefutedError(f"it does not show that block ({error})") from error
        if hold_to(trust.folder, chain_pin):
            warn(f"first use of {trust.folder}: from now on it keeps to the chain {chain_pin}")
        self._folder = trust.folder
        await self._check_age(trust, self._proved, is_development=is_development)

    async def _check_age(self, trust: Trust, proved: ProvedChain, *, is_development: bool) -> None:
        """Raise TrustExpiredError if the folder was unused for longer than the trusting period.

        On a development chain a warning is enough.
        """
        self._seen = read_seen(trust.folder, self.genesis_hash)
        if self._seen is not None and is_development and await proved.is_made_anew(self._seen):
            self._tell(
                f"this development chain was reset: it lacks block {self._seen.number}, which was final here. The "
                f"wallet forgets the old chain in {trust.folder}"
            )
            forget(trust.folder)
            self._seen = None
        if self._seen is not None:
            proved.descend_from(self._seen.number, self._seen.id)
        if trust.checkpoint is not None:
            checkpoint_view = await proved.at(trust.checkpoint)
            with about(self.rpc.url, f"block 0x{trust.checkpoint.hex()}"):
                require(checkpoint_view.height > 0, "it is no recent one, but the first")
            await proved.require_validators(checkpoint_view, self._tell)
            proved.keep_to(checkpoint_view)
            self._renew(proved, checkpoint_view)
        expiry_text = expiry(self._seen, system_clock_ms())
        if expiry_text is not None and not is_development:
            raise TrustExpiredError(expiry_text)
        if expiry_text is not None:
            self._tell(expiry_text)

    def _renew(self, proved: ProvedChain, final_view: ProvedView) -> None:
        """Store the newest final block that was proved."""
        seen_block = seen_of(self.genesis_hash, final_view.block, proved.root.parameters.slot_ms)
        self._seen = renew(self._folder, self._seen, seen_block, system_clock_ms())

    # --- reads

    async def finalized(self) -> bytes:
        """Return the id of the newest final block, and warn if it is old; reads at it are proved."""
        if self._proved is None:
            return await super().finalized()
        final_view = await self._newest(self._proved)
        age_doubt = self._proved.doubt_of(final_view)
        if age_doubt is not None and not self._is_doubted:
            self._tell(age_doubt)
        self._is_doubted = age_doubt is not None
        return final_view.block_id

    @property
    def is_proving(self) -> bool:
        """True if reads are proved, which `--trust-node` disables."""
        return self._proved is not None

    async def height(self, at: bytes | None = None) -> int:
        """Return the number of a block, or of the best one."""
        final_view = None if at is None or self._proved is None else self._views.get(at)
        return await super().height(at) if final_view is None else final_view.height

    def slots_since(self, block_hash: bytes) -> int | None:
        """Return the slots since a final block that was read, by this clock; None without proofs."""
        final_view = self._views.get(block_hash)
        if final_view is None or self._proved is None:
            return None
        parameters = self._proved.root.parameters
        return max(0, (system_clock_ms() + parameters.skew_ms) // parameters.slot_ms - final_view.block.slot)

    async def read(self, item: StorageItem, *keys: Any, at: bytes | None = None) -> Any:
        """Return the value as `ChainClient.read` does, proved; at the newest final block if none is named."""
        final_view = await self._view(at)
        return await (super().read(item, *keys, at=at) if final_view is None else final_view.read(item, *keys))

    async def read_many(self, item: StorageItem, keys: Sequence[Any], *, at: bytes | None = None) -> list[Any]:
        """Return the values as `ChainClient.read_many` does, proved."""
        final_view = await self._view(at)
        return await (super().read_many(item, keys, at=at) if final_view is None else final_view.read_many(item, keys))

    async def entries(self, item: StorageItem, *under: Any, at: bytes | None = None) -> dict[bytes, Any]:
        """Return the entries as `ChainClient.entries` does, proved to be complete."""
        final_view = await self._view(at)
        if final_view is None:
            return await super().entries(item, *under, at=at)
        list_key = (final_view.block_id, item, under)
        async with self._listing:  # concurrent readers of one list of a block request it once
            if list_key in self._lists:
                return dict(self._lists[list_key])
            listed_entries = await final_view.entries(item, *under)
            if len(listed_entries) <= KEPT_ENTRIES_MAX:
                while len(self._lists) >= LISTS_KEPT:
                    del self._lists[next(iter(self._lists))]
                self._lists[list_key] = dict(listed_entries)
            return listed_entries

    async def query(self, function: str, *arguments: Any, at: bytes | None = None) -> Any:
        """Return the answer as `ChainClient.query` does, computed here over proved state."""
        final_view = await self._view(at)
        return await (
            super().query(function, *arguments, at=at) if final_view is None else final_view.query(function, *arguments)
        )

    async def raw(self, keys: Sequence[bytes], *, at: bytes) -> dict[bytes, bytes | None]:
        """Return the bytes as `ChainClient.raw` does, proved."""
        final_view = await self._view(at)
        return await (super().raw(keys, at=at) if final_view is None else final_view.raw(keys))

    async def raw_keys(self, prefix: bytes, *, at: bytes, most: int) -> list[bytes]:
        """Return the keys as `ChainClient.raw_keys` does, proved to be complete."""
        final_view = await self._view(at)
        return await (
            super().raw_keys(prefix, at=at, most=most) if final_view is None else final_view.raw_keys(prefix, most)
        )

    async def tried_at(self) -> bytes:
        """Return the block for dry runs: the newest final one, because the node has to prove its state."""
        return await (super().tried_at() if self._proved is None else self.finalized())

    async def fee(self, call: Call, payer: Payer, tip: int = 0) -> int:
        """Return the fee as `ChainClient.fee` does, computed here over the newest final block's proved state."""
        if self._proved is None:
            return await super().fee(call, payer, tip)
        extrinsic = await self._unsigned(call, payer, tip)
        dispatch_info: RuntimeDispatchInfo = await self.query(
            "TransactionPaymentApi_query_info", extrinsic, len(extrinsic)
        )
        return dispatch_info.partial_fee

    async def nonce(self, account: bytes) -> int:
        """Return the nonce as `ChainClient.nonce` does. Raise NodeRefutedError if it is used or out of reach."""
        stated_nonce = await super().nonce(account)
        if self._proved is not None:
            account_info: AccountInfo = await self.read(System.account, account)
            with about(self.rpc.url, "the next nonce"):
                is_in_reach = account_info.nonce <= stated_nonce <= account_info.nonce + NONCES_AHEAD_MAX
                require(is_in_reach, f"it says {stated_nonce:,}, and {account_info.nonce:,} are used")
        return stated_nonce

    async def final_ids(self, first: int, last: int) -> list[bytes]:
        """Return the ids as `ChainClient.final_ids` does, proved by certificate and hashes."""
        return await (super().final_ids(first, last) if self._proved is None else self._proved.ids(first, last))

    async def block(self, block: bytes) -> BlockBody:
        """Return the block as `ChainClient.block` does, proved to have this id and all its extrinsics."""
        if self._proved is None:
            return await super().block(block)
        header, extrinsics = await self._proved.body(block)
        return BlockBody(header.number, header.parent_hash, extrinsics)

    async def outcome(self, block: bytes, extrinsic_hash: bytes) -> Outcome:
        """Return the outcome of an extrinsic in a final block. Raise NodeRefutedError if the node does not prove it."""
        if self._proved is None:
            return await super().outcome(block, extrinsic_hash)
        inclusion = await self._proved.included(block, extrinsic_hash)
        failure = next((event for event in inclusion.events if isinstance(event, ExtrinsicFailed)), None)
        error = None if failure is None else describe_error(self.runtime, failure.dispatch_error)
        return Outcome(extrinsic_hash, block, inclusion.number, inclusion.index, inclusion.events, error)

    def unverified(self) -> ChainClient:
        """Return a client of the same node without proofs, for blocks that are not final and cannot be proved."""
        return ChainClient(self.rpc, self.apis, self.genesis_hash, self.chain)

    async def _view(self, block_hash: bytes | None) -> ProvedView | None:
        """Return the state after a final block, or after the newest one; None without proofs."""
        if self._proved is None:
            return None
        if block_hash is None:
            return await self._newest(self._proved)
        return self._views.get(block_hash) or self._kept(await self._proved.at(block_hash))

    async def _newest(self, proved: ProvedChain) -> ProvedView:
        final_view = await proved.newest()
        self._renew(proved, final_view)
        return self._kept(final_view)

    def _kept(self, kept_view: ProvedView) -> ProvedView:
        self._views[kept_view.block_id] = kept_view
        while len(self._views) > VIEWS_KEPT:
            del self._views[next(iter(self._views))]
        return kept_view
