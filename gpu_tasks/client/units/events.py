"""The market's events block after block, over broken connections, as sentences for people and rows for programs.

Invariants:

* Blocks are final and in order. After a break within a block, the stream resumes at the first event not yet delivered.
* Blocks whose events the node cannot serve any more are named.
* A row has every field of the event in full. A sentence holds no terminal control sequence.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import IntEnum
from functools import cache
from typing import Any, get_args, get_type_hints

from cli.output import Account, plain
from gpu_tasks.client.offers.outlook import sells_tasks
from gpu_tasks.client.units.watch import moments
from gpu_tasks.data import market_reads, training_reads
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.training.tasks import slot_case
from gpu_tasks.market.training.terms import SLOTS_MAX
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.cryptography import ss58
from runtime.encoding.types import AccountId, Balance
from wallet.amounts import SYMBOL, Grains, format_amount
from wallet.client import ChainClient
from wallet.errors import harmless
from wallet.rpc import NodeUnreachableError, OddAnswerError, RpcError

MARKET = "gpu_tasks.market."
"""The package that declares the market's events."""
ACCOUNT_LETTERS, HASH_DIGITS = 8, 8
NAMED = re.compile(r"\{([a-z_.]+)\}")


@dataclass(frozen=True, slots=True)
class ToldEvent:
    """An event of a final block."""

    block: int
    block_id: bytes
    index: int
    """Its place among all events of the block, also those of other pallets. With the block's number it names the event.
    """
    event: Any

    def row(self) -> dict[str, Any]:
        """Return the event for programs, as JSON values."""
        return {
            "kind": "event",
            "block": self.block,
            "block_hash": "0x" + self.block_id.hex(),
            "index": self.index,
            "event": type(self.event).__name__,
            "fields": plain(values(self.event)),
            "says": self.says(),
        }

    def says(self) -> str:
        """Return the event as a sentence."""
        field_texts = {name: _in_words(value) for name, value in _leaf_values(values(self.event))}
        name = type(self.event).__name__
        template = SENTENCES.get(f"{name}: {field_texts.get('outcome')}", SENTENCES.get(name))
        if template is None:
            event_text = (type(self.event).__doc__ or type(self.event).__name__).strip().split("\n")[0].rstrip(".")
            field_list = ", ".join(f"{name} {text}" for name, text in field_texts.items())
            return harmless(f"{event_text}: {field_list}" if field_list else event_text)
        # A provider writes its endpoint itself, so it could hold control sequences for a terminal.
        return harmless(NAMED.sub(lambda found: field_texts.get(found[1], "-"), template))


@dataclass(frozen=True, slots=True)
class UntoldBlocks:
    """Blocks whose events the node does not serve any more."""

    first: int
    last: int

    def row(self) -> dict[str, Any]:
        """Return the gap for programs."""
        return {"kind": "gap", "from": self.first, "to": self.last, "says": self.says()}

    def says(self) -> str:
        """Return the gap as a sentence."""
        blocks = f"block {self.first}" if self.first == self.last else f"blocks {self.first} to {self.last}"
        return f"{blocks}: the node cannot show these events, because no node keeps states for so long"


def is_of_market(event: Any) -> bool:
    """Return True for an event of units, claims, disputes, tasks or devices."""
    return type(event).__module__.startswith(MARKET)


def values(event: Any) -> dict[str, Any]:
    """Return the fields of an event or a record.

    Accounts and amounts are typed apart from other bytes and numbers.
    """
    kind: Any = type(event)
    kinds = _field_kinds(kind)
    return {
        event_field.name: _typed_value(getattr(event, event_field.name), kinds[event_field.name])
        for event_field in fields(event)
    }


def accounts_of(event: Any) -> set[bytes]:
    """Return every account that the event names."""
    return {bytes(value) for _, value in _leaf_values(values(event)) if isinstance(value, Account)} | {
        bytes(inner_value)
        for _, value in _leaf_values(values(event))
        if isinstance(value, tuple)
        for inner_value in value
        if isinstance(inner_value, Account)
    }


@cache
def _field_kinds(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def _typed_value(value: Any, kind: Any) -> Any:
    """Return a value with the meaning of its declared type."""
    type_arguments = get_args(kind)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, IntEnum):
        return value.name.lower().replace("_", " ")
    if isinstance(value, bytes):
        return Account(value) if AccountId in (kind, *type_arguments) else value
    if isinstance(value, int):
        return Grains(value) if Balance in (kind, *type_arguments) else value
    if isinstance(value, tuple):
        element_kind = get_args(type_arguments[0])[0] if type_arguments and get_args(type_arguments[0]) else None
        return tuple(_typed_value(each, element_kind) for each in value)
    return values(value) if is_dataclass(value) else str(value)


def _leaf_values(record_fields: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value by its name. A field of an inner record is named `record.field`."""
    for name, value in record_fields.items():
        if isinstance(value, dict):
            yield from _leaf_values(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _in_words(value: Any) -> str:
    """Return a short text. Accounts and hashes are cut to their first characters."""
    match value:
        case None:
            return "-"
        case tuple():
            return ", ".join(map(_in_words, value)) or "nobody"
        case Account():
            return ss58.encode(value)[:ACCOUNT_LETTERS]
        case bytes() if value.isascii() and value.decode("ascii").isprintable():
            return value.decode("ascii")
        case bytes():
            return "0x" + value.hex()[:HASH_DIGITS]
        case Grains():
            return f"{format_amount(value)} {SYMBOL}"
        case _:
            return str(value)


# Each kind of event has a sentence with its field names as placeholders. A key with a colon is for one outcome. An
# event without a sentence is shown by its docstring and all its fields.
SENTENCES = {
    # services and units
    "ServiceCreated": "{owner} sells service {service}",
    "ServiceClosed": "service {service} is closed to new units",
    "Offered": "device {device} offers service {service} for {ask} or more",
    "OfferWithdrawn": "device {device} withdraws its offer for service {service}",
    "UnitPosted": "{customer} posts unit {unit} of service {service} for at most {price_max}, to {racers} racers",
    "UnitMatched": "{racers} race for unit {unit}, at {price}",
    "ResultCommitted": "{provider} commits to an answer to unit {unit}",
    "ResultRevealed": "{provider} reveals its answer to unit {unit}",
    "RaceDeclined": "{provider} cannot open the input of unit {unit}",
    "PlaceRefilled": "{provider} takes a free place in the race for unit {unit}",
    "RacerRecalled": "{provider} leaves the race for unit {unit}, which waited on its device: another racer is drawn",
    "RaceMissed": "{provider} missed the deadline of unit {unit} and loses {amount}",
    "UnitRequeued": "the race for unit {unit} had no result: the unit waits for another draw",
    "UnitDisputed": "unit {unit} has no agreed answer: validators vote",
    "ResultClaimed": "{winner} claims its pay for unit {unit}: the answer can be read, the payment waits for a check",
    "RacePassed": "{provider} leaves the race for unit {unit} for {amount}, because it cannot finish",
    "ProviderSlashed": "{provider} loses {amount} for unit {unit}: its result is false or withheld",
    "UnitSettled": "unit {unit} is settled: {winner} earns {price}, its customer paid {paid} in total",
    "UnitRefunded": "unit {unit} ends without a result ({refund}); its customer lost {lost}",
    "ProviderRebated": "the emission returns {amount} of its fee to {provider}",
    "Attested": "the attestation of {provider} about unit {unit} is on the chain",
    # claims and disputes
    "ClaimOpened": "the result of {claim} by {provider} waits for the draw of its check",
    "PointsDrawn": "the beacons draw items of {claim} for a check",
    "CheckerDrawn": "{checker} checks {claim}, and holds {held}",
    "FindingCommitted": "the checker of {claim} commits to its finding",
    "SamplesShown": "the provider of {claim} shows its samples",
    "FindingOpened": "the checker of {claim} opens its finding: {finding.verdict}",
    "CheckEnded": "a check of {claim} is over ({end})",
    "ItemDisputed": "an item of {claim} is disputed: validators vote",
    "ClaimEnded": "the check of {claim} is over ({outcome})",
    "DisputeOpened": "dispute {dispute} waits for voters ({question})",
    "VotersDrawn": "{voters} vote in dispute {dispute}, and hold {bond} each",
    "VoteCommitted": "{voter} commits to its vote on dispute {dispute}",
    "VoteOpened": "{voter} opens its vote on dispute {dispute}: {vote.verdict}",
    "DisputeDecided": "dispute {dispute} is decided ({vote.verdict}); a party may appeal by block {appealable_until}",
    "DisputeAppealed": "{appellant} appeals in dispute {dispute}: all validators vote",
    "VoterCharged": "{voter} loses {amount} in dispute {dispute}",
    "DisputeEnded": "dispute {dispute} is over (decision: {vote.verdict})",
    # tasks
    "TaskSubmitted": "{customer} submits task {task} for at most {price_max}; {locked} is locked",
    "BidCommitted": "{provider} bids for task {task} with device {device}",
    "BidsClosed": "task {task} has {bids} bids: their bidders reveal them by block {reveal_until}",
    "BidRevealed": "{provider} reveals its bid for task {task}: {offer.price}, {offer.blocks} blocks, collateral "
    "{offer.collateral}",
    "TaskAwarded": "{provider} wins slot {place} of task {task} for {price} and must start before block {start_until}",
    "StandbyNamed": "{provider} is the standby of task {task}, at {price} for the whole task",
    "StandbyReleased": "{provider} is no longer the standby of task {task}",
    "BidEnded": "the bid of {provider} for task {task} did not win; {burned} of its bond is burned",
    "SlotStarted": "{provider} starts slot {place} of task {task}",
    "TaskRunning": "task {task} is running",
    "TaskAttested": "the attestation of {provider} about slot {place} of task {task} is on the chain",
    "MilestoneReported": "slot {place} of task {task} reports milestone {milestone.number}, metric {milestone.metric}",
    "MilestoneCounted": "milestone {number} of task {task} is confirmed: {holder} holds its checkpoint",
    "ResultStated": "slot {place} of task {task} reports its result, metric or exit code {result.metric}",
    "StandbyAsked": "a provider of task {task} dropped out: {provider} may take over by block {until}",
    "TaskReopened": "task {task} goes to auction {auction}: {milestones} milestones for at most {price_max}",
    "ResultsClaimed": "the result of task {task} can be read, and {claims} payments wait for a check",
    "TaskDisputed": "validators vote about task {task} ({question})",
    "SlotSettled": "slot {place} of task {task} has ended ({outcome}): {provider} earned {earned}, lost {lost}",
    "SlotSettled: interval paid": "an interval of slot {place} of task {task} is paid: {provider} earned {earned}",
    "TaskEnded": "task {task} has ended ({outcome}), after {auctions} auctions",
    "ReplicasSought": "task {task} needs {wanted} more devices, at {price} each, by block {until}",
    "Volunteered": "{provider} offers device {device} as a replica of task {task}",
    "ResultBound": "slot {place} of task {task} has committed to its result, and reveals it once all have",
    "ReplicasCompared": "{votes} of {places} replicas of task {task} agree: {root}",
    # devices
    "ProviderRegistered": "{provider} registers as a provider, at {endpoint}",
    "ProviderUnregistered": "{provider} is no longer a provider",
    "DeviceRegistered": "{owner} registers device {device} ({kind}), with a bond of {bond}",
    "DeviceUnregistered": "{owner} unregisters device {device}",
    "DeviceBonded": "the bond of device {device} grows by {amount}",
    "DeviceAssigned": "device {device} works on {unit}",
    "DevicePaused": "device {device} is paused: it gets no work",
    "DeviceQueueSet": "device {device} queues at most {queue} units while it works",
    "DeviceResumed": "device {device} takes work again",
}


BLOCKS_PROVED = 64
"""The number of newest final blocks whose states a node serves."""
FIRST_WITH_EVENTS = 1
"""Block 0 has no events."""
RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)

Connect = Callable[[], Awaitable[ChainClient]]


@dataclass
class EventStream:
    """The events from a block on. Use each stream once."""

    connect: Connect
    wanted: EventFilter
    first: int | None
    """The first block. None: the newest `BLOCKS_PROVED`, or only new blocks if `is_followed`."""
    is_followed: bool
    say: Callable[[str], None]
    _next: int = -1
    _told: int = 0
    """The number of delivered events of the block `_next`."""
    _failures: int = 0

    async def told(self) -> AsyncIterator[ToldEvent | UntoldBlocks]:
        """Yield events up to the newest final block, or for ever. Raise NodeUnreachableError if it never connects."""
        is_begun = False
        while True:
            try:
                async with await self.connect() as client:
                    is_begun = True
                    async for told_event in self._up_to_now(client):
                        yield told_event
                    if not self.is_followed:
                        return
                    async for _ in moments(client):
                        async for told_event in self._up_to_now(client):
                            yield told_event
            except (NodeUnreachableError, RpcError) as error:
                # An address that never answered is more likely mistyped than broken.
                if not is_begun or (not self.is_followed and self._failures >= len(RETRY_SECONDS)):
                    raise
                await self._wait(error)

    @property
    def next_block(self) -> int:
        """The block to resume at: every earlier block was delivered."""
        return self._next

    async def _wait(self, error: Exception) -> None:
        """Wait before the next connection, longer after each failure."""
        seconds = RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)]
        self._failures += 1
        where = f"; block {self._next} is next" if self._next >= 0 else ""
        self.say(f"the connection broke ({error}): trying again{where}")
        await asyncio.sleep(seconds)

    async def _up_to_now(self, client: ChainClient) -> AsyncIterator[ToldEvent | UntoldBlocks]:
        """Yield the events of blocks that became final since the last call."""
        height = await client.height(await client.finalized())
        if self._next < 0:
            self._next = self._begin(height)
        while self._next <= height:
            oldest = max(0, height - BLOCKS_PROVED + 1)
            try:
                async for told_event in self._block(client, self._next):
                    yield told_event
            except (RpcError, OddAnswerError):
                # More blocks became final during the request, so the block may be out of the served range by now.
                height = await client.height(await client.finalized())
                oldest = max(0, height - BLOCKS_PROVED + 1)
                if self._next >= oldest:
                    raise  # The node must serve this block: try again on a new connection.
                yield UntoldBlocks(self._next, oldest - 1)
                self._next = oldest - 1
            self._next, self._told, self._failures = self._next + 1, 0, 0

    def _begin(self, height: int) -> int:
        if self.first is not None:
            return max(FIRST_WITH_EVENTS, self.first)
        return height + 1 if self.is_followed else max(FIRST_WITH_EVENTS, height - BLOCKS_PROVED + 1)

    async def _block(self, client: ChainClient, block_number: int) -> AsyncIterator[ToldEvent]:
        """Yield the events of a block that were not delivered yet, and count them."""
        block_id = await client.block_id(block_number)
        event_records = await client.events(block_id)
        for index, event_record in enumerate(event_records):
            if index < self._told:
                continue
            if is_of_market(event_record.event) and await self.wanted.wants(client, event_record.event, block_id):
                # Counted before the yield: a consumer that breaks off during it never receives the event twice.
                self._told = index + 1
                yield ToldEvent(block_number, block_id, index, event_record.event)


# An event's subject is read in the state of its own block, so later blocks change nothing.
KNOWN_MAX = 4_096
"""The most ids whose owners are cached. A unit's customer never changes."""


@dataclass
class EventFilter:
    """A filter of events: of an account, about units and tasks, or all."""

    account: bytes | None = None
    about: Sequence[bytes] = ()
    """Units and tasks. Events of their claims and disputes match too."""
    _owners: dict[bytes, bytes | None] = field(default_factory=dict)
    _works: dict[bytes, bytes] = field(default_factory=dict)
    """The unit or task of each dispute that was looked up."""

    async def wants(self, client: ChainClient, event: Any, block_hash: bytes) -> bool:
        """Return True if an event of the block `block_hash` matches."""
        work = await self._work_of(client, event, block_hash)
        if self.about and not self._is_about(event, work):
            return False
        if self.account is None:
            return True
        own_accounts = await self._own(client, block_hash)
        if accounts_of(event) & own_accounts:
            return True
        if work is not None and await self._owner(client, "unit", work, block_hash) in own_accounts:
            return True
        for kind in ("unit", "claim", "task", "device"):
            subject_id = getattr(event, kind, None)
            if (
                isinstance(subject_id, bytes)
                and await self._owner(client, kind, subject_id, block_hash) in own_accounts
            ):
                return True
        return False

    def _is_about(self, event: Any, work: bytes | None) -> bool:
        event_ids = {work, *(getattr(event, kind, None) for kind in ("unit", "claim", "task"))}
        return any(subject_id in event_ids or event_ids & set(_claims_of(subject_id)) for subject_id in self.about)

    async def _work_of(self, client: ChainClient, event: Any, block_hash: bytes) -> bytes | None:
        """Return the unit or task of an event's open dispute, or None."""
        dispute_id = getattr(event, "dispute", None)
        if not isinstance(dispute_id, bytes):
            return None
        if dispute_id not in self._works:
            dispute = await client.read(Disputes.disputes, dispute_id, at=block_hash)
            if dispute is None:
                return None
            # Anyone can fill blocks with events of new ids.
            while len(self._works) >= KNOWN_MAX:
                del self._works[next(iter(self._works))]
            self._works[dispute_id] = bytes(dispute.terms.work)
        return self._works[dispute_id]

    async def _own(self, client: ChainClient, block_hash: bytes) -> set[bytes]:
        """Return the account, and the stash that it works for if it is a provider key."""
        assert self.account is not None, "asked for one account"
        key = b"own" + self.account
        if key not in self._owners:
            self._owners[key] = await market_reads.stash_of(client, self.account, block_hash)
        stash = self._owners[key]
        return {self.account} if stash is None else {self.account, stash}

    async def _owner(self, client: ChainClient, kind: str, subject_id: bytes, block_hash: bytes) -> bytes | None:
        """Return the customer of a unit, a task or a claim, or the owner of a device; None for an unknown id."""
        if subject_id not in self._owners:
            owner = await self._read_owner(client, kind, subject_id, block_hash)
            if owner is None:
                return None
            # Anyone can fill blocks with events of new ids.
            while len(self._owners) >= KNOWN_MAX:
                del self._owners[next(iter(self._owners))]
            self._owners[subject_id] = owner
        return self._owners[subject_id]

    async def _read_owner(self, client: ChainClient, kind: str, subject_id: bytes, block_hash: bytes) -> bytes | None:
        if kind == "device":
            device = await client.read(Devices.devices, subject_id, at=block_hash)
            return None if device is None else bytes(device.owner)
        # A unit's claim has the unit's id.
        (unit,) = await market_reads.units(client, [subject_id], block_hash)
        if unit is not None:
            return unit.customer
        if not sells_tasks(client):
            return None
        task = await training_reads.task(client, subject_id, block_hash)
        if task is not None:
            return task.customer
        if kind == "task":
            return None
        claimed: bytes | None = await client.read(TrainingMarket.task_of_claim, subject_id, at=block_hash)
        if claimed is not None:
            return await self._owner(client, "task", claimed, block_hash)
        return self.account if kind == "claim" and await self._had_claim(client, subject_id, block_hash) else None

    async def _had_claim(self, client: ChainClient, claim_id: bytes, block_hash: bytes) -> bool:
        """Return True if an ended claim is of one of the account's tasks."""
        assert self.account is not None, "asked for one account"
        tasks = await training_reads.tasks_of(client, self.account, block_hash)
        return any(claim_id in _claims_of(task_id) for task_id, _ in tasks)


def _claims_of(task_id: bytes) -> list[bytes]:
    """Return the ids of all claims that a task may have."""
    return [slot_case(task_id, place) for place in range(SLOTS_MAX)]
