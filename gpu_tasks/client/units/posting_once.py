"""Posting each prompt once: the program searches for an earlier try of the same posting before it sends anything.

Each set of prompts or task that an account posts on a chain has one record on the disk. The record stays after the
post. The same command never buys a task again, and it announces that it posts units once more. The record holds no
prompt, only the data for finding the units.

Invariants:

* An extrinsic is in the record before a node receives it.
* A part is signed again only if the final chain proves that the earlier extrinsic failed or can never be included. Its
  nonce is used or its era is over, and no block of the era holds it, by headers under a certificate.
* Nothing is posted if an input cannot be stored.
* Inputs whose seal grows too old while they wait are sealed again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Generic, Protocol, Self, TypeVar

from gpu_tasks.client.buyer import Buyer
from gpu_tasks.client.units.posting import PostError, PostingKind, Prompt, SealedTerms, parts_of
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobError
from runtime.cryptography.hashing import blake2_256
from runtime.pallets.system import System
from wallet.client import ERA_BLOCKS, ChainClient, NotIncludedError
from wallet.keypair import Keypair
from wallet.outbox import HeldRecord, OutboxFile, record_name
from wallet.rpc import NodeUnreachableError, RpcError
from wallet.submission import block_with

DEFAULT_FOLDER = Path("~/.ogpu/postings")
SUBMITTED, ENDED = "submitted", "ended"


@dataclass(slots=True)
class PostedPart:
    """Some of the prompts, as one extrinsic. Bytes are in hexadecimal."""

    places: list[int]
    """The places of its prompts."""
    extrinsic: str
    nonce: int
    signed_at: int
    expires_at: int
    """The last block that can hold the extrinsic. Once it is final, none can."""
    first_number: int
    """The account's number for the first unit, if no other posting of the account comes before."""
    input_roots: list[str]
    units: list[str]
    """The units' ids. Until the units are in a final block, the ids follow from `first_number`."""
    block: int | None = None
    """The block of the units, once it is final."""
    told: str = ""
    """The last state that a command showed to the customer: `SUBMITTED` or `ENDED`."""
    number: int = -1
    """The part's number in the record."""


@dataclass(slots=True)
class PostingRecord(HeldRecord):
    """The record of one posting."""

    kind: ClassVar[bytes] = b"posting"
    parts: list[PostedPart] = field(default_factory=list)

    @classmethod
    def open(cls, place: Path | OutboxFile, *identity: bytes) -> Self:
        """Return the record of one posting, with its earlier tries.

        Raise RecordBusyError if another process holds it.
        """
        busy = "another `ogpu unit post` or `ogpu task submit` is posting the same. Wait for it"
        return cls.held(place, record_name(*identity), busy)

    @staticmethod
    def peek(place: Path | OutboxFile, *identity: bytes) -> set[int]:
        """Return the prompts that earlier tries sent or were about to send. Write nothing."""
        return {prompt for part in PostingRecord.look(place, *identity) for prompt in part.places}

    @staticmethod
    def look(place: Path | OutboxFile, *identity: bytes) -> list[PostedPart]:
        """Return the parts that earlier tries sent or were about to send. Write nothing."""
        with OutboxFile.looked(place) as outbox:
            return [] if outbox is None else _stored_parts(outbox, record_name(*identity))

    def _load(self) -> None:
        self.parts = _stored_parts(self.outbox, self.name)

    @property
    def recorded(self) -> set[int]:
        """The prompts of all recorded parts."""
        return {place for part in self.parts for place in part.places}

    def add(self, part: PostedPart) -> None:
        """Record a part, on the disk before this returns."""
        part.number = 1 + max((known.number for known in self.parts), default=-1)
        fields = (part.nonce, part.signed_at, part.expires_at, part.first_number, part.block, part.told)
        units = zip(part.places, part.input_roots, part.units, strict=True)
        with self.outbox.transaction() as connection:
            connection.execute(
                "INSERT INTO parts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (self.name, part.number, bytes.fromhex(part.extrinsic), *fields),
            )
            connection.executemany(
                "INSERT INTO posted_units VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (self.name, part.number, position, place, bytes.fromhex(root), bytes.fromhex(unit))
                    for position, (place, root, unit) in enumerate(units)
                ],
            )
        self.parts.append(part)

    def update(self, part: PostedPart) -> None:
        """Record the block of a part, its units, and how much the customer saw of them."""
        with self.outbox.transaction() as connection:
            connection.execute(
                "UPDATE parts SET extrinsic = ?, block = ?, told = ? WHERE posting = ? AND number = ?",
                (bytes.fromhex(part.extrinsic), part.block, part.told, self.name, part.number),
            )
            connection.executemany(
                "UPDATE posted_units SET unit = ? WHERE posting = ? AND part = ? AND position = ?",
                [(bytes.fromhex(unit), self.name, part.number, position) for position, unit in enumerate(part.units)],
            )

    def remove(self, part: PostedPart) -> None:
        """Remove a part whose extrinsic posted nothing, and never will."""
        self.outbox.execute("DELETE FROM parts WHERE posting = ? AND number = ?", self.name, part.number)
        self.parts.remove(part)

    def note_told(self, told: str, parts: Sequence[PostedPart] | None = None) -> None:
        """Note that all units of these parts are in final blocks and were shown to the customer."""
        with self.outbox.transaction():
            for part in self.parts if parts is None else parts:
                # A final part is never searched for again, so its extrinsic is dropped.
                part.told, part.extrinsic = told, ""
                self.update(part)

    def forget(self) -> None:
        """Forget earlier tries: everything is posted again."""
        self.outbox.execute("DELETE FROM parts WHERE posting = ?", self.name)
        self.parts.clear()


def is_told_of(parts: Sequence[PostedPart]) -> bool:
    """Return True if a command posted and showed everything. The same command then posts once more."""
    return bool(parts) and all(part.told for part in parts)


def _stored_parts(outbox: OutboxFile, posting: bytes) -> list[PostedPart]:
    parts: dict[int, PostedPart] = {}
    for number, extrinsic, nonce, signed_at, expires_at, first_number, block, told in outbox.rows(
        "SELECT number, extrinsic, nonce, signed_at, expires_at, first_number, block, told FROM parts "
        "WHERE posting = ? ORDER BY number",
        posting,
    ):
        numbers = (nonce, signed_at, expires_at, first_number)
        parts[number] = PostedPart([], extrinsic.hex(), *numbers, [], [], block, told, number)
    for number, place, input_root, unit in outbox.rows(
        "SELECT part, place, input_root, unit FROM posted_units WHERE posting = ? ORDER BY part, position", posting
    ):
        part = parts[number]
        part.places.append(place)
        part.input_roots.append(input_root.hex())
        part.units.append(unit.hex())
    return list(parts.values())


POLL_SECONDS = 0.5
SEAL_MARGIN_BLOCKS = 2 * ERA_BLOCKS
"""Inputs whose seal expires within this many blocks are sealed again."""

Say = Callable[[str], None]
Requested = TypeVar("Requested")


Asked_contra = TypeVar("Asked_contra", contravariant=True)


class InputSealer(Protocol[Asked_contra]):
    """Seals and stores the inputs of one customer for one kind of posting."""

    @property
    def client(self) -> ChainClient:
        """The connection to the chain."""

    @property
    def key(self) -> Keypair:
        """The key that posts."""

    @property
    def buyer(self) -> Buyer:
        """The account that posts, and the account of the key."""

    @property
    def kind(self) -> PostingKind:
        """The kind of posting."""

    async def terms(self, requests: Sequence[Asked_contra], tell: Callable[[], None]) -> Sequence[SealedTerms]:
        """Seal and store each request, and return the terms to post. Raise BlobError if one cannot be stored."""


@dataclass(frozen=True, slots=True)
class Posted:
    """A unit or a task on the chain, with its prompt."""

    unit: bytes
    prompt: str
    block: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The listeners: after each sealed input, after each posted part, and for sentences to people."""

    sealed: Callable[[], None]
    posted: Callable[[], None]
    say: Say


class PostingRun(Generic[Requested]):
    """One set of prompts on its way to the chain."""

    def __init__(
        self, sealer: InputSealer[Requested], record: PostingRecord, prompts: Sequence[Prompt],
        requests: Sequence[Requested], progress: Progress, tip: int = 0,
    ) -> None:  # fmt: skip
        """`record` holds the earlier tries. The tip, in grains, is for each extrinsic."""
        self._sealer = sealer
        self._client = sealer.client
        self._kind = sealer.kind
        self._buyer = sealer.buyer
        self._record = record
        self._prompts = prompts
        self._requests = requests
        self._progress = progress
        self._tip = tip

    async def run(
        self, is_over: Callable[[], bool] = lambda: False, places: Sequence[int] | None = None
    ) -> list[Posted]:
        """Post the missing prompts and return all units, in final blocks. Raise PostError if that fails.

        With `places`, post only these prompts. The result also holds the postings of earlier tries. Nothing more is
        sent once `is_over` returns True, and the result then holds the units posted by then.
        """
        await self._settle_earlier()
        wanted_places = range(len(self._prompts)) if places is None else places
        missing = [place for place in wanted_places if place not in self._record.recorded]
        sealed = await self._sealed(missing)
        for part in parts_of(missing):
            if is_over():
                break
            await self._post(part, sealed)
        return sorted_by_prompt(self._record.parts, self._prompts)

    async def settle_alone(self) -> list[Posted]:
        """Find the postings of earlier tries without sending anything, and return them.

        A part that is not in a block yet may still get into one, so wait until its era is over.
        """
        for part in list(self._record.parts):
            if part.block is None:
                self._progress.say(
                    f"an earlier try may have posted {self._named(part)}: ogpu searches for it and sends nothing"
                )
                final_hash = await self._client.finalized()
                while not await self._is_settled(part, final_hash):
                    await asyncio.sleep(POLL_SECONDS)
                    final_hash = await self._client.finalized()
        return sorted_by_prompt(self._record.parts, self._prompts)

    # -------------------------------------------------------------------------------------------------- earlier tries

    async def _settle_earlier(self) -> None:
        """Find out whether each part of an earlier try is on the chain."""
        for part in list(self._record.parts):
            if part.block is None:
                await self._settle(part)
            self._progress.posted()

    async def _settle(self, part: PostedPart) -> None:
        self._progress.say(f"an earlier try may have posted {self._named(part)}: ogpu searches for it")
        final_hash = await self._client.finalized()
        if not await self._is_settled(part, final_hash):
            # The first node may have dropped it. The same bytes have the same nonce, so they cannot post twice.
            await self._send_again(part)
            while not await self._is_settled(part, final_hash):
                await asyncio.sleep(POLL_SECONDS)
                final_hash = await self._client.finalized()

    async def _is_settled(self, part: PostedPart, final_hash: bytes) -> bool:
        """Return True if the final chain decides about a part. Its record is then up to date."""
        if not await self._is_as_noted(part, final_hash):
            if not await self._is_over(part, final_hash):
                return False
            if not await self._is_found(part, final_hash):
                # The units may have been in the chain and be forgotten by now. To remove their part would be to buy
                # them again.
                await self._require_lost(part, final_hash)
                self._record.remove(part)
                return True
        self._record.update(part)
        return True

    async def _is_found(self, part: PostedPart, final_hash: bytes) -> bool:
        """Return True if the final chain holds the part's units, by their inputs, under any numbers."""
        if await self._is_as_noted(part, final_hash):
            return True
        posted_count = await self._client.read(self._kind.counter, self._buyer.customer, at=final_hash)
        # The node that returned the first number may have lied, so the newest units are searched too.
        searched_max = self._kind.looked_at_max
        newest_numbers = range(max(0, posted_count - searched_max), posted_count)
        noted_numbers = range(part.first_number, min(posted_count, part.first_number + searched_max))
        return await self._is_among(part, sorted({*noted_numbers, *newest_numbers}), final_hash)

    async def _is_as_noted(self, part: PostedPart, final_hash: bytes) -> bool:
        """Return True if the part's units have their expected numbers. It takes a few reads instead of thousands."""
        return await self._is_among(part, range(part.first_number, part.first_number + len(part.places)), final_hash)

    async def _is_among(self, part: PostedPart, numbers: Sequence[int], final_hash: bytes) -> bool:
        """Return True if the units of these numbers are the part's, and note their ids in it."""
        unit_ids = [self._kind.id_of(self._client.genesis_hash, self._buyer.customer, number) for number in numbers]
        known = await self._kind.inputs(self._client, unit_ids, final_hash) if unit_ids else []
        # Numbers prove nothing, because another posting may have taken them. Inputs do: each has a random salt.
        units_by_input = {
            known_input[0].hex(): (unit_id, known_input[1])
            for unit_id, known_input in zip(unit_ids, known, strict=True)
            if known_input is not None
        }
        if not all(root in units_by_input for root in part.input_roots):
            return False
        part.units = [units_by_input[root][0].hex() for root in part.input_roots]
        part.block = units_by_input[part.input_roots[0]][1]
        return True

    async def _is_over(self, part: PostedPart, final_hash: bytes) -> bool:
        """Return True if the part's extrinsic is in the chain now or never: its nonce is used, or its era is over."""
        height = await self._client.height(final_hash)
        account = await self._client.read(System.account, self._buyer.signer, at=final_hash)
        if height < part.signed_at and market_reads.is_development(self._client):
            # A node could also replay an old block of the same chain, to make the program post a second time.
            raise PostError(
                f"an earlier try was signed at block {part.signed_at:,}, and the newest final block is {height:,}: the "
                "node shows an old one, or this development chain was begun anew, and then --again posts once more",
                code="chain_behind",
            )
        return bool(account.nonce > part.nonce or height > part.expires_at)

    async def _require_lost(self, part: PostedPart, final_hash: bytes) -> None:
        """Raise PostError if the part's extrinsic may have succeeded in the chain.

        The chain forgets units some time after their end.
        """
        client, extrinsic = self._client, bytes.fromhex(part.extrinsic)
        last_height = min(await client.height(final_hash), part.expires_at)
        era_blocks = await client.final_ids(part.signed_at + 1, last_height) if part.signed_at < last_height else []
        block = await block_with(client, era_blocks, extrinsic)
        if block is None:
            return
        try:
            outcome = await client.outcome(block, blake2_256(extrinsic))
        except RpcError as error:
            explanation = f"and the node no longer shows its outcome ({error})"
        else:
            if not outcome.is_success:
                return
            explanation = f"and the chain has forgotten its {self._kind.noun}s since"
        raise PostError(
            f"the extrinsic of an earlier try, with {self._named(part)}, is in the final block 0x{block.hex()}, "
            f"{explanation}. It is not posted again: --again posts the same once more",
            code="sent_and_failed",
        )

    async def _send_again(self, part: PostedPart) -> None:
        try:
            await self._client.rpc.call("author_submitExtrinsic", "0x" + part.extrinsic)
        except RpcError as error:
            self._progress.say(f"the node refuses it ({error}): ogpu waits for block {part.expires_at}")

    # --------------------------------------------------------------------------------------------------------- posting

    async def _sealed(self, places: Sequence[int]) -> dict[int, SealedTerms]:
        """Seal and store all inputs before anything is posted."""
        try:
            terms = await self._sealer.terms([self._requests[place] for place in places], self._progress.sealed)
        except BlobError as error:
            raise PostError(
                f"nothing was posted, because no store took an input: {error}", code="input_not_stored"
            ) from error
        return dict(zip(places, terms, strict=True))

    async def _post(self, places: Sequence[int], sealed: dict[int, SealedTerms]) -> None:
        client = self._client
        age_max = self._kind.sealed_age_max(client.runtime)
        # The chain refuses units whose seal is too old, and a later part may have waited for long.
        if await client.height() > sealed[places[0]].sealed_at + age_max - SEAL_MARGIN_BLOCKS:
            self._progress.say("the seals of the remaining inputs have become too old: ogpu seals them again")
            remaining_places = [place for place in sealed if place >= places[0]]
            sealed.update(await self._sealed(remaining_places))
        part = await self._signed(places, [sealed[place] for place in places])
        # The record comes before the send. After a kill in between, the next run finds the extrinsic and does not pay
        # again.
        self._record.add(part)
        self._progress.say(f"posting {self._named(part)}; recorded in {self._record.outbox.path}")
        await self._sent(part)
        self._record.update(part)
        self._progress.posted()

    async def _signed(self, places: Sequence[int], terms: Sequence[SealedTerms]) -> PostedPart:
        client, key, kind, buyer = self._client, self._sealer.key, self._kind, self._buyer
        nonce = await client.nonce(key.account)
        first_number = await client.read(kind.counter, buyer.customer)
        extrinsic = await client.sign(buyer.call(kind.call(terms)), key, nonce=nonce, tip=self._tip)
        signed_at = await client.height(await client.finalized())
        unit_ids = [
            kind.id_of(client.genesis_hash, buyer.customer, first_number + place).hex() for place in range(len(terms))
        ]
        input_roots = [term.input_root.hex() for term in terms]
        expires_at = signed_at + ERA_BLOCKS
        return PostedPart(
            list(places), extrinsic.hex(), nonce, signed_at, expires_at, first_number, input_roots, unit_ids
        )

    async def _sent(self, part: PostedPart) -> None:
        try:
            outcome = await self._client.send(bytes.fromhex(part.extrinsic))
        # A node that breaks off may have passed the extrinsic on, so its part stays in the record.
        except (NodeUnreachableError, RpcError, NotIncludedError) as error:
            raise PostError(
                f"{error}. {self._named(part)} may have been sent. Repeat the same command: it searches for it first "
                "and posts nothing twice",
                code="maybe_sent",
            ) from error
        if not outcome.is_success:
            self._record.remove(part)
            posted_count = sum(len(known.units) for known in self._record.parts)
            reason = (outcome.error or "").rstrip(".")
            raise PostError(
                f"posting failed in block {outcome.block_number} after {posted_count} {self._kind.noun}s: {reason}. "
                "The same command posts the missing ones",
                code="posting_failed",
            )
        # The ids were only expected until now. The block has the true ones.
        if not await self._is_found(part, outcome.block_hash):
            raise PostError(
                f"block {outcome.block_number} does not contain {self._named(part)}. Ask another node",
                code="not_in_block",
            )

    def _named(self, part: PostedPart) -> str:
        """Return the part's units by their ids."""
        first, count, noun = part.units[0], len(part.units), self._kind.noun
        return f"{noun} 0x{first}" if count == 1 else f"{count} {noun}s, from 0x{first} on"


def sorted_by_prompt(parts: Sequence[PostedPart], prompts: Sequence[Prompt]) -> list[Posted]:
    """Return all postings with their prompts, in the prompts' order."""
    postings_by_place = {
        place: Posted(bytes.fromhex(unit), prompts[place].text, part.block or 0)
        for part in parts
        for place, unit in zip(part.places, part.units, strict=True)
    }
    return [postings_by_place[place] for place in sorted(postings_by_place)]
