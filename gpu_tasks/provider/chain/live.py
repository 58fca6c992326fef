"""The chain behind a node's JSON-RPC, for a provider.

Always: what the daemon acts on is proved at a final block, unless its operator trusts the node (`Trust.is_blind`): then
it is the node's word at the best one. One call is signed at a time, so nonces never collide; a call that is sent again
is the same extrinsic, so it happens once; a lost connection ends in ChainError for whoever waits, and is opened again
by `views`, to the same chain or not at all.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from gpu_tasks.data import market_reads
from gpu_tasks.market.attestations.kinds import AnyAttestation, encode_attestation
from gpu_tasks.market.courts.cases import CourtCase
from gpu_tasks.market.courts.courts_api import SeatStatus
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DEVICES_PER_PROVIDER_MAX, Provider
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus, DutyStatus, UnitStatus
from gpu_tasks.market.inference.services import Service
from gpu_tasks.market.inference.units import racer_of
from gpu_tasks.market.leaf_disputes.disputes import LeafDispute
from gpu_tasks.market.training.bids import TaskBid
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.provider.chain import roll_calls, side_pay, task_records
from gpu_tasks.provider.chain.bond_losses import bond_losses
from gpu_tasks.provider.chain.demand import demand
from gpu_tasks.provider.chain.port import BidName, ChainError, Inspection, NobodyError, RollCallView, SeenOffence, View
from runtime.blocks.evidence import EVIDENCE
from runtime.encoding.codec import DecodeError
from runtime.frame.call import Call
from runtime.frame.storage import StateCorrupted
from runtime.pallets.staking.offences import proven
from runtime.pallets.staking.stakers import Seats
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient
from wallet.errors import WalletError, harmless, in_words
from wallet.keypair import Keypair
from wallet.proved.pins import ChainChangedError
from wallet.rpc import NodeUnreachableError, RpcError, RpcJson
from wallet.trust import Trust
from wallet.verified import VerifiedClient, Warn

ALREADY_KNOWN = 1013
SIGNED_KEPT = 1_024
ANSWER_SECONDS = (2.0, 2.0, 2.0, 4.0, 8.0)
"""A node that takes longer is asked again on a new connection: in the 20 s of other programs a race is lost.

By times in a row that it was mute: a moment costs no race, and one that is slow gets the time that it needs.
"""
RECONNECT_SECONDS = (0.5, 0.5, 0.5, 1.0, 2.0)
"""Until a node that is away, or was not believed, is asked again; ten seconds later it is too late to reveal."""

ODD_ANSWERS = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, StateCorrupted,
)  # fmt: skip
"""What comes of reading an answer that is none."""

T = TypeVar("T")
P = ParamSpec("P")
ChainAnswer = Coroutine[Any, Any, T]
LOG = logging.getLogger("ogpu.provider")


# A provider's own devices, proved one by one: the market's whole table would grow with everybody else's.
#
# Always: which there are is a hint of the node, beside those that were seen before; what each is, is proved where the
# client proves what it reads. A node can keep a new device from its owner for a while, and say nothing false of one.
NAMES_MAX = 4 * DEVICES_PER_PROVIDER_MAX
"""How many devices are asked after at most: a node may name any number that are no one's."""


# When to look at the chain: whenever the node tells of a block, and every few seconds whether it does or not.
#
# Always: what a node tells is only a bell; which block is final, and what holds there, is asked and proved afterwards.
# A node that tells of nothing is asked all the same.
LOOK_SECONDS = 3.0


PROVIDERS_KEPT_BLOCKS = 16
"""So long a proved list of all providers is used again."""


AGAIN_SECONDS = 5.0
"""So often a warning is told that comes with every block."""
KINDS_MAX = 64
_NUMBERS = re.compile(r"\b(0x)?[0-9a-f]{8,}\b|[0-9]+")

EVIDENCE_MAX = 128
"""So much of one answer is looked at."""


async def offences(client: ChainClient) -> list[SeenOffence]:
    """Those that are offences: a report of what is none would cost its fee, for each name that a node makes up."""
    found = await client.rpc.call("ogpu_inspect", "offences")
    if not found:
        return []
    validators = await _validators(client)
    seen = []
    for shown in found[:EVIDENCE_MAX]:
        try:
            evidence = EVIDENCE.decode(bytes.fromhex(shown["evidence"][2:]))
        except DecodeError:
            continue
        proof = proven(evidence, client.genesis_hash, validators)
        if proof is not None:
            seen.append(SeenOffence(proof.offender, evidence))
    return seen


async def _validators(client: ChainClient) -> Callable[[int], Seats]:
    """Who sat in an epoch about which evidence counts."""
    at = await client.finalized()
    starts = await client.read(TrustStake.validator_set_starts, at=at)
    elected_to = await client.read(TrustStake.last_elected_epoch, at=at)
    sets = await client.read_many(TrustStake.validator_sets, starts, at=at)

    def validators(epoch: int) -> Seats:
        place = bisect_right(starts, epoch)
        seats: Seats = sets[place - 1] if place and epoch <= elected_to else ()
        return seats

    return validators


class KnownProviders:
    """The newest list."""

    def __init__(self) -> None:
        """None was read."""
        self._read: tuple[int, dict[bytes, Provider]] | None = None

    async def read(self, client: ChainClient) -> dict[bytes, Provider]:
        """All of them, by stash."""
        at = await client.finalized()
        height = await client.height(at)
        if self._read is None or height >= self._read[0] + PROVIDERS_KEPT_BLOCKS:
            self._read = height, await market_reads.providers(client, at)
        return self._read[1]


class RateLimitedLog:
    """Passes a text on, unless one that differs from it in numbers only was passed on just now."""

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing was told."""
        self._tell = tell
        self._clock = clock
        self._told: dict[str, float] = {}

    def __call__(self, text: str) -> None:
        """Tell it, or not."""
        kind, now = _NUMBERS.sub("", text), self._clock()
        if kind in self._told and now < self._told[kind] + AGAIN_SECONDS:
            return
        if len(self._told) >= KINDS_MAX:  # a node chooses what it says
            self._told.clear()
        self._told[kind] = now
        self._tell(text)


def warn(text: str) -> None:
    """What its operator should know of the node."""
    LOG.warning("%s", harmless(text))


class HeadSubscription:
    """Use `async with HeadSubscription(heads) as bell`; rings once for all blocks that were told of meanwhile."""

    def __init__(self, heads: AsyncIterator[RpcJson]) -> None:
        """Over a subscription, which it ends."""
        self._heads = heads
        self._rung = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Listen; the first ring is at once."""
        self._rung.set()
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Listen no more."""
        assert self._listening is not None  # entered
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)

    async def ring(self, patience_seconds: float = LOOK_SECONDS) -> None:
        """Wait for the next block that is told of, or until it is time; whatever ended the subscription is raised."""
        assert self._listening is not None  # entered
        try:
            async with asyncio.timeout(patience_seconds):
                await self._rung.wait()
        except TimeoutError:
            return
        if self._listening.done():
            self._listening.result()
        self._rung.clear()

    async def _listen(self) -> None:
        try:
            async for _ in self._heads:
                self._rung.set()
            raise NodeUnreachableError("the node ended its subscription")
        finally:
            self._rung.set()


class OwnDevices:
    """The devices of one provider."""

    def __init__(self, stash: bytes) -> None:
        """None is known yet."""
        self._stash = stash
        self._known: dict[bytes, None] = {}

    def heard_of(self, device: bytes) -> None:
        """A device that may be one: a race names it."""
        if len(self._known) < NAMES_MAX:
            self._known[device] = None

    async def read(self, client: ChainClient) -> list[DeviceStatus]:
        """How they stand, by ascending id."""
        at = await client.finalized()
        hinted = await client.unverified().query("GpuTasksApi_devices_of", self._stash)
        names = sorted({*self._known, *(status.id for status in hinted[:DEVICES_PER_PROVIDER_MAX])})
        stored = await client.read_many(Devices.devices, names, at=at)
        found = ((name, device) for name, device in zip(names, stored, strict=True) if device is not None)
        own = {name: device for name, device in found if device.owner == self._stash}
        self._known = dict.fromkeys(own)  # what is not, or is another's, was a lie or has been unregistered
        return list(await market_reads.with_offers(client, own, at))


def _asks(
    read: Callable[Concatenate[VerifiedClient, P], Awaitable[T]],
) -> Callable[Concatenate[LiveChain, P], ChainAnswer[T]]:
    """Make a method of a function that reads by a client. The method raises ChainError."""

    async def method(chain: LiveChain, /, *arguments: P.args, **named: P.kwargs) -> T:
        return await chain.asked(read(chain.client, *arguments, **named))

    return method


def _asks_own(
    read: Callable[Concatenate[VerifiedClient, bytes, P], Awaitable[T]],
) -> Callable[Concatenate[LiveChain, P], ChainAnswer[T]]:
    """Make a method of a function that reads what belongs to a stash: the provider's own."""

    async def method(chain: LiveChain, /, *arguments: P.args, **named: P.kwargs) -> T:
        return await chain.asked(read(chain.client, chain.stash, *arguments, **named))

    return method


class LiveChain:
    """Implements `ChainPort` for one provider key. Use `await LiveChain.connect(url, key, trust)`."""

    def __init__(self, url: str, client: VerifiedClient, key: Keypair, stash: bytes, trust: Trust, tell: Warn) -> None:
        """Use `connect`."""
        self._url = url
        self._trust = trust
        self.client = client
        self.key = key
        self.turn = asyncio.Lock()
        self._signed: dict[bytes, bytes] = {}
        self.stash = stash
        self._devices = OwnDevices(stash)
        self._warn = tell
        self._failures = 0
        self._mute = 0
        self._final_height = 0
        self._providers = KnownProviders()

    @classmethod
    async def connect(cls, url: str, key: Keypair, trust: Trust, tell: Warn | None = None) -> LiveChain:
        """Connect to the known chain, and find whose provider key this is. ChainError if it is nobody's.

        ChainChangedError, NodeRefutedError: another chain, or one that nobody shows.
        """
        tell = RateLimitedLog(warn if tell is None else tell)
        client = await VerifiedClient.connect_by(url, trust, tell, ANSWER_SECONDS[-1])
        try:
            stash: bytes | None = await market_reads.stash_of(client, key.public_key)
        except ODD_ANSWERS as error:
            await client.rpc.close()
            raise ChainError(f"the node's answer makes no sense ({in_words(error)})") from error
        except BaseException:
            await client.rpc.close()
            raise
        if stash is None:
            await client.rpc.close()
            raise NobodyError(f"{key.address} is no provider key on {client.chain}; run `ogpu-provider register`")
        client.rpc.patience = ANSWER_SECONDS[0]  # connecting takes many answers, some of them long
        return cls(url, client, key, stash, trust, tell)

    @property
    def genesis_hash(self) -> bytes:
        """Which chain this is."""
        return self.client.genesis_hash

    @property
    def is_development(self) -> bool:
        """See `ChainPort`."""
        return market_reads.is_development(self.client)

    async def close(self) -> None:
        """Close the connection."""
        await self.client.rpc.close()

    # --- the rhythm

    async def views(self) -> AsyncIterator[View]:
        """See `ChainPort`."""
        while True:
            try:
                heads = self.client.best_heads() if self._trust.is_blind else self.client.finalized_heads()
                async with HeadSubscription(await self.asked(heads)) as bell:
                    last = None
                    while True:
                        await self.asked(bell.ring())
                        view = await self.asked(self._look())
                        self._failures = self._mute = 0
                        if last is None or (view.height, view.newest) != (last.height, last.newest):
                            yield view
                        last = view
            except ChainError as error:
                self._note(error)
                self._warn(f"the node is away ({error}); trying again")
            await self._reconnect()

    async def standing(self) -> tuple[int, tuple[DutyStatus, ...]]:
        """The newest height that counts, and the duties there."""
        view = await self.asked(self._look())
        return view.height, view.duties

    async def _look(self) -> View:
        """The duties at the newest final block, proved; of a node that is trusted, those at the best one."""
        at = None if self._trust.is_blind else await self._final(self.client)
        height = await self.client.height(at)
        duties = await market_reads.duties(self.client, self.stash, at)
        for duty in duties:
            racer = racer_of(duty.status.unit, self.stash)
            if racer is not None:
                self._devices.heard_of(racer.device)
        seats = await market_reads.seats(self.client, self.stash, at)
        checks = await market_reads.checks(self.client, self.stash, at)
        disputes = await market_reads.disputes(self.client, self.stash, at)
        return View(height, duties, await self._best_height(height, at), seats, checks, disputes)

    async def _best_height(self, final: int, at: bytes | None) -> int:
        """How far the chain may have come by now: the node's word, as far as the clock leaves room for so many blocks.

        A lie costs a race that is given back too early, or too late; no more, and never by more blocks than slots.
        """
        room = self.client.slots_since(at) if at is not None else None
        if room is None:
            return final
        said = await self.client.unverified().height()
        return min(max(final, said), final + room)

    # --- the connection

    async def _reconnect(self) -> None:
        await self.client.rpc.close()
        while True:
            await asyncio.sleep(_after(self._failures, RECONNECT_SECONDS))
            try:
                self.client = await self.asked(self._same_chain())
            except ChainError as error:
                self._note(error)
                self._warn(f"the node is still away: {error}")
            else:
                return
            finally:
                self._failures += 1

    def _note(self, error: ChainError) -> None:
        """Count how often in a row nothing was answered: who answers wrongly, or refuses, is not slow."""
        unreached = error.__cause__
        is_mute = unreached is not None and isinstance(unreached.__cause__, TimeoutError)
        self._mute = self._mute + 1 if is_mute else 0

    async def _same_chain(self) -> VerifiedClient:
        """A new connection; ChainChangedError where the node is of another chain now, ChainError where it is behind.

        The daemon waits then: its journal holds what it owes to the chain that it knows, and the node may come back.
        """
        patience = _after(self._mute, ANSWER_SECONDS)
        client = await VerifiedClient.connect_by(self._url, self._trust, self._warn, patience)
        try:
            await self._check_goes_on(client)
        except BaseException:
            await client.rpc.close()
            raise
        return client

    async def _check_goes_on(self, client: VerifiedClient) -> None:
        if client.genesis_hash != self.genesis_hash:
            raise ChainChangedError(
                f"{self._url} is another chain now, 0x{client.genesis_hash.hex()}: nothing is signed until it serves "
                f"0x{self.genesis_hash.hex()} again"
            )
        if not self._trust.is_blind:
            await self._final(client)

    async def _final(self, client: VerifiedClient) -> bytes:
        """The newest final block; ChainError for one below what was final before.

        On one connection it never falls. On a new one it may: who works on a unit that was seen would be told who had
        to read its input before it was sealed, or that nobody knows the unit.
        """
        at = await client.finalized()
        height = await client.height(at)
        if height < self._final_height:
            raise ChainError(f"its newest final block is {height}, and {self._final_height} was final before")
        self._final_height = height
        return at

    # --- reads

    async def final_unit(self, unit: bytes) -> UnitStatus | None:
        """See `ChainPort`."""
        final = await self.asked(self.client.finalized())
        return await self.asked(market_reads.unit(self.client, unit, final))

    async def final_seats(self) -> tuple[SeatStatus, ...]:
        """See `ChainPort`."""
        final = await self.asked(self.client.finalized())
        return await self.asked(market_reads.seats(self.client, self.stash, final))

    async def case(self, case: bytes) -> CourtCase | None:
        """See `ChainPort`."""
        found = await self.asked(market_reads.case(self.client, case))
        return None if found is None else found.case

    # Each as `ChainPort` says, by a function that reads it.
    judges = _asks(market_reads.judges)
    check_of_case = _asks(market_reads.check_of_case)
    services = _asks(market_reads.services)
    provider = _asks(market_reads.provider)
    judging_readers = _asks(market_reads.judging_readers)
    stash_of = _asks(market_reads.stash_of)
    auctions = _asks(task_records.auctions)
    task_of_case = _asks(task_records.task_of_case)
    side_payments = _asks_own(side_pay.side_payments)
    audited = _asks_own(side_pay.audited)
    audit_payments = _asks_own(side_pay.audit_payments)
    bond_losses = _asks_own(bond_losses)
    demand = _asks_own(demand)

    async def unit(self, unit: bytes) -> UnitStatus | None:
        """See `ChainPort`."""
        return await self.asked(market_reads.unit(self.client, unit))

    async def final_dispute(self, unit: bytes) -> LeafDispute | None:
        """See `ChainPort`."""
        final = await self.asked(self.client.finalized())
        return await self.asked(market_reads.dispute(self.client, unit, final))

    async def service(self, number: int) -> Service:
        """See `ChainPort`."""
        found = await self.asked(market_reads.service(self.client, number))
        # A closed service goes with its last unit, so one that a race was just about may be gone.
        if found is None:
            raise ChainError(f"there is no service {number} on {self.client.chain}")
        return found

    async def providers(self) -> dict[bytes, Provider]:
        """See `ChainPort`."""
        return await self.asked(self._providers.read(self.client))

    async def own_devices(self) -> list[DeviceStatus]:
        """See `ChainPort`."""
        return await self.asked(self._devices.read(self.client))

    async def roll_call(self, devices: Sequence[bytes]) -> RollCallView:
        """See `ChainPort`."""
        return await self.asked(roll_calls.roll_call(self.client.unverified(), devices))

    async def inspections(self) -> tuple[Inspection, ...]:
        """See `ChainPort`."""
        at = await self.asked(self.client.finalized())
        return await self.asked(roll_calls.inspections(self.client, self.stash, at))

    async def slot_ms(self) -> int:
        """See `ChainPort`."""
        return task_records.slot_ms(self.client)

    async def spendable(self) -> int:
        """See `ChainPort`."""
        return await self.asked(task_records.spendable(self.client, self.stash))

    async def key_balance(self) -> int:
        """See `ChainPort`."""
        return await self.asked(task_records.spendable(self.client, self.key.account))

    async def tasks(self, ids: Sequence[bytes], *, final: bool = False) -> dict[bytes, Task]:
        """See `ChainPort`."""
        at = await self.asked(self.client.finalized()) if final else None
        return await self.asked(task_records.tasks(self.client, ids, at))

    async def bids(self, bids: Sequence[BidName], *, final: bool = False) -> dict[BidName, TaskBid]:
        """See `ChainPort`."""
        at = await self.asked(self.client.finalized()) if final else None
        return await self.asked(task_records.bids(self.client, bids, at))

    async def offences(self) -> list[SeenOffence]:
        """See `ChainPort`."""
        return await self.asked(offences(self.client))

    async def is_tombstoned(self, stash: bytes) -> bool:
        """See `ChainPort`."""
        return await self.asked(self.client.read(TrustStake.tombstones, stash)) is not None

    # --- writes

    async def submit(self, call: Call) -> None:
        """See `ChainPort`."""
        async with self.turn:
            name = self.client.runtime.call_codec.encode(call)
            known = self._signed.pop(name, None)
            extrinsic = await self.asked(self.client.sign(call, self.key)) if known is None else known
            try:
                await self._sent(self.client.rpc.call("author_submitExtrinsic", "0x" + extrinsic.hex()))
            except ChainError:
                if known is None:
                    raise
                return  # it is in a block, or has outlived its era: if it is missing, it is signed anew next time
            self._signed[name] = extrinsic
            while len(self._signed) > SIGNED_KEPT:
                del self._signed[next(iter(self._signed))]

    async def attest(self, attestation: AnyAttestation) -> None:
        """See `ChainPort`."""
        raw = encode_attestation(attestation)
        await self._sent(self.client.rpc.call("ogpu_submitAttestation", "0x" + raw.hex()))

    async def _sent(self, question: Awaitable[RpcJson]) -> None:
        """As `asked`; what the node has already is as good as sent."""
        try:
            await self.asked(question)
        except ChainError as error:
            if not (isinstance(error.__cause__, RpcError) and error.__cause__.code == ALREADY_KNOWN):
                raise

    async def asked(self, question: Awaitable[T]) -> T:
        """What the node answers. ChainError for no answer, a refusal, a lie, one that is none: to be asked later."""
        try:
            return await question
        except (NodeUnreachableError, RpcError, WalletError) as error:
            raise ChainError(str(error)) from error
        # A node may answer anything: other types, missing fields, bytes that decode to nothing.
        except ODD_ANSWERS as error:
            raise ChainError(f"the node's answer makes no sense ({in_words(error)})") from error


def _after(failures: int, seconds: tuple[float, ...]) -> float:
    """What holds after so many failures in a row."""
    return seconds[min(failures, len(seconds) - 1)]
