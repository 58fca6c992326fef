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

    def __init__(self, url: str, ask: AskNode, apis: Apis, root: TrustRoot, sets: KnownSets) -> None:
        """Use `open`."""
        self.root = root
        self._sets = sets
        self._url = url
        self._ask = ask
        self._apis = apis
        self._newest: FinalHeader | None = None
        self._before: tuple[int, bytes] | None = None

    @classmethod
    async def open(
        cls,
        url: str,
        ask: AskNode,
        apis: Apis,
        parameters: Parameters,
        genesis: bytes,
        folder: Path | None = None,
        tell: Callable[[str], object] = lambda _: None,
    ) -> ProvedChain:
        """Prove the validators of the genesis block, and the kind of its chain, by the genesis hash.

        The later sets are stored in `folder`; `tell` receives a message before a long walk to them.
        """
        at = "0x" + genesis.hex()
        header = await ask("chain_getHeader", at)
        proof = await ask("state_getReadProof", ["0x" + key.hex() for key in GENESIS_KEYS], at)
        with about(url, "the validators of the genesis block"):
            root = trust_root(genesis, header_of(header), proof_of(proof), apis.runtime, parameters)
        file = None if folder is None else SetsFile(folder, genesis)
        return cls(url, ask, apis, root, KnownSets(url, ask, root, file, tell))

    def keep_to(self, view: ProvedView) -> None:
        """Refuse any final block below this one as the newest."""
        if self._newest is None or view.height > self._newest.header.number:
            self._newest = view.block
            self.descend_from(view.height, view.block_id)

    async def require_validators(self, view: ProvedView, tell: Callable[[str], object] = lambda _: None) -> None:
        """Check a trusted block's validators against the handoffs; forget the handoffs and raise if they differ.

        Validators whose stake was returned may hand over to anybody, and certify any block, also a true one. The
        block's state names the validators. If the node no longer keeps the state, the header at which its epoch began
        names them, which nodes keep for ever. `tell` receives a message before a long walk there.
        """
        followed = seats_of(await self._sets.of(self.root.parameters.epoch_of(view.height)))
        matter = f"who validates at block 0x{view.block_id.hex()}"
        try:
            said = await view.read(TrustStake.active_set)
        except RpcError as error:
            if STATE_IS_GONE not in str(error):
                raise
            with about(self._url, matter):
                # An empty set differs from every real one, so the check below fails.
                said = followed if await self._began_with(view, followed, tell) else ()
        if said != followed:
            self._sets.forget()
        with about(self._url, matter):
            require(said == followed, "the state of that block seats others than the handoffs lead to")

    async def _began_with(self, view: ProvedView, seats: tuple[Seat, ...], tell: Callable[[str], object]) -> bool:
        """Return whether a block's epoch has these seats, by its hash alone. Raise RefutedError for false headers."""
        epoch, header = self.root.parameters.epoch_of(view.height), view.block.header
        # No header precedes epoch 0: the genesis state names its seats.
        if not epoch:
            return seats == self.root.seats
        boundary = self.root.parameters.boundary(epoch - 1)
        way = header.number - boundary
        if way >= WALK_TOLD_FROM:
            gone = f"{self._url} keeps the state of block {header.number:,} no longer"
            tell(f"{gone}: following {way:,} headers to the one that says who validated then")
        while header.number > boundary:
            header = await self._parent(header)
        return hands_on_to(header, seats)

    def descend_from(self, number: int, block: bytes) -> None:
        """Refuse any higher final block that does not descend from this one; see `_require_descent`."""
        if self._before is None or number > self._before[0]:
            self._before = number, block

    async def is_made_anew(self, seen: SeenBlock) -> bool:
        """Return whether the node's history lacks a block that was final before; if so, forget the kept handoffs.

        A node that lags behind that block shows a lower block of an earlier slot, another history one of a later slot.
        """
        try:
            found = await self._certified(None) or self.root.block_zero
        except NodeRefutedError:  # perhaps by validators that another history elected
            self._sets.forget()
            found = await self._certified(None) or self.root.block_zero
        if found.header.number < seen.number:
            is_other = found.slot * self.root.parameters.slot_ms > seen.time_ms
        else:
            is_other = not await self._descends(found, seen.number, seen.id)
        if is_other:
            self._sets.forget()
        return is_other

    async def newest(self) -> ProvedView:
        """Return the state after the newest final block, or after a newer one that was seen before."""
        known = self._newest
        found = await self._certified(None)
        if found is None:
            with about(self._url, "the final block"):
                require(known is None or not known.header.number, "it says that there is none, and showed one before")
            found = self.root.block_zero
        # A node that lags may answer with an older block: then the newest known one stays.
        if known is None or found.header.number > known.header.number:
            await self._require_descent(found)
            self._newest = known = found
        with about(self._url, "the final block"):
            # Two certificates for one height: a third of the stake signed both.
            is_one_chain = found.header.number < known.header.number or found.id == known.id
            require(is_one_chain, f"there are two certified blocks of height {found.header.number}")
        return ProvedView(self._url, self._ask, self._apis, known)

    def doubt_of(self, view: ProvedView, clock_ms: Callable[[], int] = system_clock_ms) -> str | None:
        """Return a warning if the view's block is too old to show the present state; else None."""
        return doubt_of_age(view.block, self.root.parameters, clock_ms())

    async def at(self, block: bytes) -> ProvedView:
        """Return the state after any final block. Raise NodeRefutedError if the node does not prove it final."""
        answer = await self._ask("chain_getHeader", "0x" + block.hex())
        with about(self._url, f"block 0x{block.hex()}"):
            header = header_of(answer)
            require(block_id(header) == block, "it shows a header that has another hash")
        await self._require_final(block, header.number)
        with about(self._url, f"block 0x{block.hex()}"):
            return ProvedView(self._url, self._ask, self._apis, descended(header))

    async def ids(self, first: int, last: int) -> list[bytes]:
        """Return the ids of the final blocks from height `first` to `last`, proved by hashes: no state is needed.

        Raise NodeRefutedError if the node does not prove the last one final.
        """
        found: list[bytes] = []
        with about(self._url, f"the final blocks {first} to {last}"):
            above = await self._certified(last) or self.root.block_zero
            # This bounds the headers that a node can make this program fetch.
            within = last <= above.header.number <= last + BLOCK_HASH_COUNT
            require(within, f"the next certified block has the number {above.header.number}, not {last} or soon after")
            block, header = above.id, above.header
            while True:
                if header.number <= last:
                    found.append(block)
                if header.number <= first:
                    return found[::-1]
                block, header = header.parent_hash, await self._parent(header)

    async def _parent(self, child: Header) -> Header:
        """Return the parent of a header. Raise RefutedError if the node shows another, or none."""
        number, block = child.number - 1, child.parent_hash
        header = header_of(await self._ask("chain_getHeader", "0x" + block.hex()))
        is_next = block_id(header) == block and header.number == number
        require(is_next, f"it shows another header than that of block 0x{block.hex()}")
        return header

    async def body(self, block: bytes) -> tuple[Header, tuple[bytes, ...]]:
        """Return header and extrinsics of the block with this id, final or not.

        Raise NodeRefutedError if the node shows others.
        """
        answer = await self._ask("chain_getBlock", "0x" + block.hex())
        with about(self._url, f"block 0x{block.hex()}"):
            header, extrinsics = block_of(answer)
            require(block_id(header) == block, "it shows a block that has another hash")
            require_whole(header, extrinsics)
            return header, extrinsics

    async def included(self, block: bytes, extrinsic_hash: bytes) -> Inclusion:
        """Return an extrinsic in a final block, and its events. Raise NodeRefutedError without a proof."""
        header, extrinsics = await self.body(block)
        with about(self._url, f"block 0x{block.hex()}"):
            place = place_in(header, extrinsics, extrinsic_hash)
        await self._require_final(block, header.number)
        key = self._apis.runtime.item(System.event_records).key()
        answer = await self._ask("state_getReadProof", ["0x" + key.hex()], "0x" + block.hex())
        with about(self._url, f"the events of block {header.number}"):
            raw = ProvedState(header.state_root, proof_of(answer)).get(key)
            records = self._apis.runtime.item(System.event_records).decode(raw or b"")
        return Inclusion(block, header.number, place, events_of(records, place))

    async def _require_final(self, block: bytes, number: int) -> None:
        """Check that a block is certified, or an ancestor of a certified one, by that one's state or by hashes."""
        matter = f"block 0x{block.hex()} being final"
        certified = await self._certified(number)
        with about(self._url, matter):
            if certified is None:
                raise RefutedError(f"it has no certificate of a block of height {number} or above")
            if certified.id == block:
                return
            within = number < certified.header.number <= number + BLOCK_HASH_COUNT
            require(within, f"the next certified block has the number {certified.header.number}, not above {number}")
        view = ProvedView(self._url, self._ask, self._apis, certified)
        try:
            ancestor = await view.read(System.block_hash, number)
        except RpcError as error:
            if STATE_IS_GONE not in str(error):
                raise
            # A node keeps headers for longer than states.
            (ancestor,) = await self.ids(number, number)
        with about(self._url, matter):
            require(ancestor == block, f"the final block {number} is another: 0x{ancestor.hex()}")

    async def _require_descent(self, found: FinalHeader) -> None:
        """Check that a new final block descends from the previous one, as far as its state shows.

        A state names the last `BLOCK_HASH_COUNT` blocks, and the chain commits to no earlier ones. After a longer
        absence only the certificate counts, by validators whose bonds are locked for longer than the absence.
        """
        if self._before is not None and found.header.number >= self._before[0]:
            descends = await self._descends(found, *self._before)
            with about(self._url, "the final block"):
                text = f"block {found.header.number} does not descend from 0x{self._before[1].hex()}"
                require(descends, f"{text}, which was final before")
        self.descend_from(found.header.number, found.id)

    async def _descends(self, found: FinalHeader, number: int, block: bytes) -> bool:
        """Return whether a final block descends from one that is not above it, as far as its state shows."""
        above = found.header.number - number
        if above == 0:
            return found.id == block
        if above > BLOCK_HASH_COUNT:
            return True
        view = ProvedView(self._url, self._ask, self._apis, found)
        ancestor: bytes = await view.read(System.block_hash, number)
        return ancestor == block

    async def _certified(self, height: int | None) -> FinalHeader | None:
        answer = await self._ask("ogpu_certifiedHeader", *([] if height is None else [height]))
        if answer is None:
            return None
        with about(self._url, "the final block"):
            header, certificate = certified_of(answer)
            if self._newest is not None and block_id(header) == self._newest.id:
                return self._newest  # with 128 validators a certificate takes 25 ms to verify
        members = await self._sets.of(self.root.parameters.epoch_of(header.number))
        with about(self._url, "the final block"):
            return final_header(self.root, members, header, certificate)
