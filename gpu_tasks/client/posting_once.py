"""Posting, each prompt once: what was begun before a crash or a lost connection is looked for before anything is sent.

Always: an extrinsic is in the record before a node sees it; a part is signed anew only where the final chain shows that
the earlier extrinsic is not in it and never will be: its nonce is used or its time is over, and no block of that time
holds it (or it failed there), by headers that a certificate covers; nothing is posted if some input could not be
stored; inputs that wait for their turn until their seal is old are sealed anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpu_tasks.client.posting import PostError, Prompt, Sealer, parts_of, post_call
from gpu_tasks.client.posting_record import PostedPart, PostingRecord
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import UNITS_OPEN_MAX, UnitTerms, unit_id_of
from runtime.cryptography.hashing import blake2_256
from runtime.frame.runtime import constant_value
from runtime.pallets.system import System
from wallet.client import ERA_BLOCKS, NotIncludedError
from wallet.rpc import NodeUnreachableError, RpcError
from wallet.sending import block_with

POLL_SECONDS = 0.5
SEAL_MARGIN_BLOCKS = 2 * ERA_BLOCKS
"""Inputs whose seal would be too old this many blocks from now are sealed anew."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Posted:
    """A unit on the chain, with what it asks."""

    unit: bytes
    prompt: str
    block: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Who hears of it: after each input, after each part, and sentences for people."""

    sealed: Callable[[], None]
    posted: Callable[[], None]
    say: Say


class PostingRun:
    """One set of prompts on its way to the chain."""

    def __init__(
        self, sealer: Sealer, record: PostingRecord, prompts: Sequence[Prompt], requests: Sequence[bytes],
        progress: Progress, tip: int = 0,
    ) -> None:  # fmt: skip
        """`record` says what earlier tries did; the tip, in grains, is for each extrinsic."""
        self._sealer = sealer
        self._client = sealer.client
        self._account = sealer.key.account
        self._record = record
        self._prompts = prompts
        self._requests = requests
        self._progress = progress
        self._tip = tip

    async def run(self) -> list[Posted]:
        """Post what is not posted; every unit of the prompts, all in final blocks. PostError, BlobError."""
        await self._settle_earlier()
        missing = [place for place in range(len(self._prompts)) if place not in self._record.recorded]
        sealed = await self._sealed(missing)
        for part in parts_of(missing):
            await self._post(part, sealed)
        return sorted_by_prompt(self._record.parts, self._prompts)

    # -------------------------------------------------------------------------------------------------- earlier tries

    async def _settle_earlier(self) -> None:
        """Learn what became of each part that an earlier try sent, or was about to send."""
        for part in list(self._record.parts):
            if part.block is None:
                await self._settle(part)
            self._progress.posted()

    async def _settle(self, part: PostedPart) -> None:
        self._progress.say(f"an earlier try may have posted {_named(part)}: looking for it")
        final = await self._client.finalized()
        if not await self._is_settled(part, final):
            await self._send_again(part)
            while not await self._is_settled(part, final):
                await asyncio.sleep(POLL_SECONDS)
                final = await self._client.finalized()

    async def _is_settled(self, part: PostedPart, final: bytes) -> bool:
        """Whether the final chain tells what became of a part; the record says it then."""
        if not await self._is_as_noted(part, final):
            if not await self._is_over(part, final):
                return False
            if not await self._is_found(part, final):
                await self._require_lost(part, final)
                self._record.parts.remove(part)
        self._record.save()
        return True

    async def _is_found(self, part: PostedPart, final: bytes) -> bool:
        """Whether the final chain holds the part's units: known by their inputs, whatever numbers they got."""
        if await self._is_as_noted(part, final):
            return True
        count = await self._client.read(InferenceMarket.posted, self._account, at=final)
        # The node that was asked for the first number may have lied: the newest units are looked at whatever it said.
        newest = range(max(0, count - UNITS_OPEN_MAX), count)
        noted = range(part.first_number, min(count, part.first_number + UNITS_OPEN_MAX))
        return await self._is_among(part, sorted({*noted, *newest}), final)

    async def _is_as_noted(self, part: PostedPart, final: bytes) -> bool:
        """Whether the part's units have the numbers that they were to get: a few reads instead of thousands."""
        return await self._is_among(part, range(part.first_number, part.first_number + len(part.places)), final)

    async def _is_among(self, part: PostedPart, numbers: Sequence[int], final: bytes) -> bool:
        """Whether the units of these numbers are the part's, which then says so."""
        ids = [unit_id_of(self._client.genesis_hash, self._account, number) for number in numbers]
        units = await market_reads.units(self._client, ids, final) if ids else []
        found = {unit.terms.input_root.hex(): (name, unit) for name, unit in zip(ids, units, strict=True) if unit}
        if not all(root in found for root in part.input_roots):
            return False
        part.units = [found[root][0].hex() for root in part.input_roots]
        part.block = found[part.input_roots[0]][1].posted_at
        return True

    async def _is_over(self, part: PostedPart, final: bytes) -> bool:
        """Whether the part's extrinsic is in the chain now or never: its nonce is used, or its time is over."""
        height = await self._client.height(final)
        account = await self._client.read(System.account, self._account, at=final)
        if height < part.signed_at and market_reads.is_development(self._client):
            # Or the node shows an old block of the same chain, for us to post a second time.
            raise PostError(
                f"an earlier try was signed at block {part.signed_at:,}, and the newest final block is {height:,}: the "
                "node shows an old one, or this development chain was begun anew, and then --again posts once more"
            )
        return bool(account.nonce > part.nonce or height > part.expires_at)

    async def _require_lost(self, part: PostedPart, final: bytes) -> None:
        """PostError if the part's extrinsic was in the chain: the chain forgets units a while after their end."""
        client, extrinsic = self._client, bytes.fromhex(part.extrinsic)
        last = min(await client.height(final), part.expires_at)
        lived = await client.final_ids(part.signed_at + 1, last) if part.signed_at < last else []
        block = await block_with(client, lived, extrinsic)
        if block is None:
            return
        try:
            outcome = await client.outcome(block, blake2_256(extrinsic))
        except RpcError as error:
            what = f"and the node no longer tells what it did there ({error})"
        else:
            if not outcome.is_success:
                return
            what = "and the chain has forgotten its units since"
        raise PostError(
            f"the extrinsic of an earlier try, with {_named(part)}, is in the final block 0x{block.hex()}, {what}. "
            "It is not posted again: --again posts these prompts once more"
        )

    async def _send_again(self, part: PostedPart) -> None:
        try:
            await self._client.rpc.call("author_submitExtrinsic", "0x" + part.extrinsic)
        except RpcError as error:
            self._progress.say(f"the node does not take it again ({error}): waiting for block {part.expires_at}")

    # --------------------------------------------------------------------------------------------------------- posting

    async def _sealed(self, places: Sequence[int]) -> dict[int, UnitTerms]:
        """Everything is stored before anything is posted."""
        try:
            terms = await self._sealer.terms([self._requests[place] for place in places], self._progress.sealed)
        except BlobError as error:
            raise PostError(f"an input could not be stored, so nothing was posted: {error}") from error
        return dict(zip(places, terms, strict=True))

    async def _post(self, places: Sequence[int], sealed: dict[int, UnitTerms]) -> None:
        client = self._client
        age_max = constant_value(InferenceMarket, InferenceMarket.sealed_age_max, client.runtime)
        if await client.height() > sealed[places[0]].sealed_at + age_max - SEAL_MARGIN_BLOCKS:
            self._progress.say("the inputs were sealed a while ago: sealing those that are left anew")
            left = [place for place in sealed if place >= places[0]]
            sealed.update(await self._sealed(left))
        part = await self._signed(places, [sealed[place] for place in places])
        self._record.parts.append(part)
        self._record.save()
        self._progress.say(f"posting {_named(part)}; written down in {self._record.path}")
        await self._sent(part)
        self._record.save()
        self._progress.posted()

    async def _signed(self, places: Sequence[int], terms: Sequence[UnitTerms]) -> PostedPart:
        client, key = self._client, self._sealer.key
        nonce = await client.nonce(key.account)
        number = await client.read(InferenceMarket.posted, key.account)
        extrinsic = await client.sign(post_call(self._sealer.wish.service, terms), key, nonce=nonce, tip=self._tip)
        signed_at = await client.height(await client.finalized())
        ids = [unit_id_of(client.genesis_hash, key.account, number + place).hex() for place in range(len(terms))]
        roots = [term.input_root.hex() for term in terms]
        expires_at = signed_at + ERA_BLOCKS
        return PostedPart(list(places), extrinsic.hex(), nonce, signed_at, expires_at, number, roots, ids)

    async def _sent(self, part: PostedPart) -> None:
        try:
            outcome = await self._client.send(bytes.fromhex(part.extrinsic))
        except (NodeUnreachableError, RpcError, NotIncludedError) as error:
            raise PostError(
                f"{error}. {_named(part)} may have been sent: repeat the same command, which looks for it first and "
                "posts nothing twice"
            ) from error
        if not outcome.is_success:
            self._record.parts.remove(part)
            self._record.save()
            done = sum(len(known.units) for known in self._record.parts)
            why = (outcome.error or "").rstrip(".")
            raise PostError(
                f"posting failed in block {outcome.block_number} after {done} units: {why}. "
                "The same command posts what is missing"
            )
        if not await self._is_found(part, outcome.block_hash):
            raise PostError(f"block {outcome.block_number} does not hold {_named(part)}: ask another node")


def sorted_by_prompt(parts: Sequence[PostedPart], prompts: Sequence[Prompt]) -> list[Posted]:
    """Every unit with its prompt, in the prompts' order."""
    found = {
        place: Posted(bytes.fromhex(unit), prompts[place].text, part.block or 0)
        for part in parts
        for place, unit in zip(part.places, part.units, strict=True)
    }
    return [found[place] for place in sorted(found)]


def _named(part: PostedPart) -> str:
    """Its units, by their ids."""
    first, count = part.units[0], len(part.units)
    return f"unit 0x{first}" if count == 1 else f"{count} units, from 0x{first} on"
