"""A connection's final blocks, by proof: the newest one, one at or above a height, and an extrinsic's events in one.

Invariant: each returned block was certified under the pinned genesis. The newest final block never goes back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from consensus.handoffs import seats_of
from consensus.parameters import Parameters
from genesis.chain import GENESIS_KEYS
from runtime.blocks.block import Header, block_id
from runtime.frame.api import Apis
from runtime.pallets.staking.stakers import Seat
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import BLOCK_HASH_COUNT, System
from runtime.state.trie_proof import ProvedState
from wallet.proved.finality import (
    FinalHeader,
    TrustRoot,
    descended,
    doubt_of_age,
    final_header,
    hands_on_to,
    trust_root,
)
from wallet.proved.inclusion import Inclusion, events_of, place_in, require_whole
from wallet.proved.json_forms import block_of, certified_of, header_of, proof_of
from wallet.proved.refutation import NodeRefutedError, RefutedError, about, require
from wallet.proved.sets import KnownSets
from wallet.proved.sets_file import SetsFile
from wallet.proved.trusting import SeenBlock
from wallet.proved.view import STATE_IS_GONE, AskNode, ProvedView
from wallet.rpc import RpcError

WALK_TOLD_FROM = 256
"""The number of headers to follow at once from which a person is told: an epoch of a live chain has 1,800."""


def system_clock_ms() -> int:
    """Return this machine's time since 1970."""
    return time.time_ns() // 1_000_000


class ProvedChain:
    """The final blocks of a node without trust in it. Create it with `await ProvedChain.open(...)`."""

    def __init__(self, url: str, ask_node: AskNode, apis: Apis, trust_root: TrustRoot, known_sets: KnownSets) -> None:
        """Use `open`."""
        self.root = trust_root
        self._sets = known_sets
        self._url = url
        self._ask = ask_node
        self._apis = apis
        self._newest: FinalHeader | None = None
        self._before: tuple[int, bytes] | None = None

    @classmethod
    async def open(
        cls,
        url: str,
        ask_node: AskNode,
        apis: Apis,
        parameters: Parameters,
        genesis: bytes,
        folder: Path | None = None,
        report_progress: Callable[[str], object] = lambda _: None,
    ) -> ProvedChain:
        """Prove the validators of the genesis block, and the kind of its chain, by the genesis hash.

        The later sets are stored in `folder`; `report_progress` receives a message before a long walk to them.
        """
        genesis_hex = "0x" + genesis.hex()
        header = await ask_node("chain_getHeader", genesis_hex)
        proof = await ask_node(
            "state_getReadProof", ["0x" + genesis_key.hex() for genesis_key in GENESIS_KEYS], genesis_hex
        )
        with about(url, "the validators of the genesis block"):
            genesis_root = trust_root(genesis, header_of(header), proof_of(proof), apis.runtime, parameters)
        sets_file = None if folder is None else SetsFile(folder, genesis)
        return cls(
            url, ask_node, apis, genesis_root, KnownSets(url, ask_node, genesis_root, sets_file, report_progress)
        )

    def keep_to(self, block_view: ProvedView) -> None:
        """Refuse any final block below this one as the newest."""
        if self._newest is None or block_view.height > self._newest.header.number:
            self._newest = block_view.block
            self.descend_from(block_view.height, block_view.block_id)

    async def require_validators(
        self, block_view: ProvedView, report_progress: Callable[[str], object] = lambda _: None
    ) -> None:
        """Check a trusted block's validators against the handoffs; forget the handoffs and raise if they differ.

        Validators whose stake was returned may hand over to anybody, and certify any block, also a true one. The
        block's state names the validators. If the node no longer keeps the state, the header at which its epoch began
        names them, which nodes keep for ever. `report_progress` receives a message before a long walk there.
        """
        followed = seats_of(await self._sets.of(self.root.parameters.epoch_of(block_view.height)))
        matter = f"who validates at block 0x{block_view.block_id.hex()}"
        try:
            stated_seats = await block_view.read(TrustStake.active_set)
        except RpcError as error:
            if STATE_IS_GONE not in str(error):
                raise
            with about(self._url, matter):
                # An empty set differs from every real one, so the check below fails.
                stated_seats = followed if await self._began_with(block_view, followed, report_progress) else ()
        if stated_seats != followed:
            self._sets.forget()
        with about(self._url, matter):
            require(stated_seats == followed, "the state of that block seats others than the handoffs lead to")

    async def _began_with(
        self, block_view: ProvedView, seats: tuple[Seat, ...], report_progress: Callable[[str], object]
    ) -> bool:
        """Return whether a block's epoch has these seats, by its hash alone. Raise RefutedError for false headers."""
        epoch, header = self.root.parameters.epoch_of(block_view.height), block_view.block.header
        # No header precedes epoch 0: the genesis state names its seats.
        if not epoch:
            return seats == self.root.seats
        boundary = self.root.parameters.boundary(epoch - 1)
        header_count = header.number - boundary
        if header_count >= WALK_TOLD_FROM:
            state_is_gone = f"{self._url} keeps the state of block {header.number:,} no longer"
            report_progress(
                f"{state_is_gone}: following {header_count:,} headers to the one that says who validated then"
            )
        while header.number > boundary:
            header = await self._parent(header)
        return hands_on_to(header, seats)

    def descend_from(self, height: int, block_id_there: bytes) -> None:
        """Refuse any higher final block that does not descend from this one; see `_require_descent`."""
        if self._before is None or height > self._before[0]:
            self._before = height, block_id_there

    async def is_made_anew(self, seen_block: SeenBlock) -> bool:
        """Return whether the node's history lacks a block that was final before; if so, forget the kept handoffs.

        A node that lags behind that block shows a lower block of an earlier slot, another history one of a later slot.
        """
        try:
            newest_block = await self._certified(None) or self.root.block_zero
        except NodeRefutedError:  # perhaps by validators that another history elected
            self._sets.forget()
            newest_block = await self._certified(None) or self.root.block_zero
        if newest_block.header.number < seen_block.number:
            is_other = newest_block.slot * self.root.parameters.slot_ms > seen_block.time_ms
        else:
            is_other = not await self._descends(newest_block, seen_block.number, seen_block.id)
        if is_other:
            self._sets.forget()
        return is_other

    async def newest(self) -> ProvedView:
        """Return the state after the newest final block, or after a newer one that was seen before."""
        newest_known = self._newest
        certified = await self._certified(None)
        if certified is None:
            with about(self._url, "the final block"):
                require(
                    newest_known is None or not newest_known.header.number,
                    "it says that there is none, and showed one before",
                )
            certified = self.root.block_zero
        # A node that lags may answer with an older block: then the newest known one stays.
        if newest_known is None or certified.header.number > newest_known.header.number:
            await self._require_descent(certified)
            self._newest = newest_known = certified
        with about(self._url, "the final block"):
            # Two certificates for one height: a third of the stake signed both.
            is_one_chain = certified.header.number < newest_known.header.number or certified.id == newest_known.id
            require(is_one_chain, f"there are two certified blocks of height {certified.header.number}")
        return ProvedView(self._url, self._ask, self._apis, newest_known)

    def doubt_of(self, block_view: ProvedView, clock_ms: Callable[[], int] = system_clock_ms) -> str | None:
        """Return a warning if the view's block is too old to show the present state; else None."""
        return doubt_of_age(block_view.block, self.root.parameters, clock_ms())

    async def at(self, block_hash: bytes) -> ProvedView:
        """Return the state after any final block. Raise NodeRefutedError if the node does not prove it final."""
        answer = await self._ask("chain_getHeader", "0x" + block_hash.hex())
        with about(self._url, f"block 0x{block_hash.hex()}"):
            header = header_of(answer)
            require(block_id(header) == block_hash, "it shows a header that has another hash")
        await self._require_final(block_hash, header.number)
        with about(self._url, f"block 0x{block_hash.hex()}"):
            return ProvedView(self._url, self._ask, self._apis, descended(header))

    async def ids(self, first_height: int, last_height: int) -> list[bytes]:
        """Return the ids of the final blocks between two heights, proved by hashes: no state is needed.

        Raise NodeRefutedError if the node does not prove the last one final.
        """
        block_ids: list[bytes] = []
        with about(self._url, f"the final blocks {first_height} to {last_height}"):
            certified = await self._certified(last_height) or self.root.block_zero
            # This bounds the headers that a node can make this program fetch.
            is_in_reach = last_height <= certified.header.number <= last_height + BLOCK_HASH_COUNT
            require(
                is_in_reach,
                f"the next certified block has the number {certified.header.number}, not {last_height} or soon after",
            )
            current_id, current_header = certified.id, certified.header
            while True:
                if current_header.number <= last_height:
                    block_ids.append(current_id)
                if current_header.number <= first_height:
                    return block_ids[::-1]
                current_id, current_header = current_header.parent_hash, await self._parent(current_header)

    async def _parent(self, child: Header) -> Header:
        """Return the parent of a header. Raise RefutedError if the node shows another, or none."""
        parent_number, parent_id = child.number - 1, child.parent_hash
        parent_header = header_of(await self._ask("chain_getHeader", "0x" + parent_id.hex()))
        is_the_parent = block_id(parent_header) == parent_id and parent_header.number == parent_number
        require(is_the_parent, f"it shows another header than that of block 0x{parent_id.hex()}")
        return parent_header

    async def body(self, block_hash: bytes) -> tuple[Header, tuple[bytes, ...]]:
        """Return header and extrinsics of the block with this id, final or not.

        Raise NodeRefutedError if the node shows others.
        """
        answer = await self._ask("chain_getBlock", "0x" + block_hash.hex())
        with about(self._url, f"block 0x{block_hash.hex()}"):
            header, extrinsics = block_of(answer)
            require(block_id(header) == block_hash, "it shows a block that has another hash")
            require_whole(header, extrinsics)
            return header, extrinsics

    async def included(self, block_hash: bytes, extrinsic_hash: bytes) -> Inclusion:
        """Return an extrinsic in a final block, and its events. Raise NodeRefutedError without a proof."""
        header, extrinsics = await self.body(block_hash)
        with about(self._url, f"block 0x{block_hash.hex()}"):
            extrinsic_index = place_in(header, extrinsics, extrinsic_hash)
        await self._require_final(block_hash, header.number)
        events_key = self._apis.runtime.item(System.event_records).key()
        answer = await self._ask("state_getReadProof", ["0x" + events_key.hex()], "0x" + block_hash.hex())
        with about(self._url, f"the events of block {header.number}"):
            encoded_events = ProvedState(header.state_root, proof_of(answer)).get(events_key)
            records = self._apis.runtime.item(System.event_records).decode(encoded_events or b"")
        return Inclusion(block_hash, header.number, extrinsic_index, events_of(records, extrinsic_index))

    async def _require_final(self, block_hash: bytes, height: int) -> None:
        """Check that a block is certified, or an ancestor of a certified one, by that one's state or by hashes."""
        matter = f"block 0x{block_hash.hex()} being final"
        certified = await self._certified(height)
        with about(self._url, matter):
            if certified is None:
                raise RefutedError(f"it has no certificate of a block of height {height} or above")
            if certified.id == block_hash:
                return
            is_in_reach = height < certified.header.number <= height + BLOCK_HASH_COUNT
            require(
                is_in_reach, f"the next certified block has the number {certified.header.number}, not above {height}"
            )
        certified_view = ProvedView(self._url, self._ask, self._apis, certified)
        try:
            ancestor = await certified_view.read(System.block_hash, height)
        except RpcError as error:
            if STATE_IS_GONE not in str(error):
                raise
            # A node keeps headers for longer than states.
            (ancestor,) = await self.ids(height, height)
        with about(self._url, matter):
            require(ancestor == block_hash, f"the final block {height} is another: 0x{ancestor.hex()}")

    async def _require_descent(self, final_block: FinalHeader) -> None:
        """Check that a new final block descends from the previous one, as far as its state shows.

        A state names the last `BLOCK_HASH_COUNT` blocks, and the chain commits to no earlier ones. After a longer
        absence only the certificate counts, by validators whose bonds are locked for longer than the absence.
        """
        if self._before is not None and final_block.header.number >= self._before[0]:
            descends = await self._descends(final_block, *self._before)
            with about(self._url, "the final block"):
                description = f"block {final_block.header.number} does not descend from 0x{self._before[1].hex()}"
                require(descends, f"{description}, which was final before")
        self.descend_from(final_block.header.number, final_block.id)

    async def _descends(self, final_block: FinalHeader, height: int, ancestor_id: bytes) -> bool:
        """Return whether a final block descends from one that is not above it, as far as its state shows."""
        distance = final_block.header.number - height
        if distance == 0:
            return final_block.id == ancestor_id
        if distance > BLOCK_HASH_COUNT:
            return True
        final_view = ProvedView(self._url, self._ask, self._apis, final_block)
        stated_ancestor: bytes = await final_view.read(System.block_hash, height)
        return stated_ancestor == ancestor_id

    async def _certified(self, height: int | None) -> FinalHeader | None:
        answer = await self._ask("ogpu_certifiedHeader", *([] if height is None else [height]))
        if answer is None:
            return None
        with about(self._url, "the final block"):
            header, certificate = certified_of(answer)
            if self._newest is not None and block_id(header) == self._newest.id:
                return self._newest  # with 128 validators a certificate takes 25 ms to verify
        validators = await self._sets.of(self.root.parameters.epoch_of(header.number))
        with about(self._url, "the final block"):
            return final_header(self.root, validators, header, certificate)
