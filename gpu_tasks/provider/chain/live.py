"""The chain for a provider, over a node's JSON-RPC.

Invariants:

* The daemon acts on proven data of a final block. If its operator trusts the node (`Trust.is_blind`), it acts on the
  node's unproven data of the best block.
* Calls are signed one at a time, so nonces never collide. A repeated call is the same extrinsic, so it is executed
  once.
* A lost connection raises ChainError in every waiting call. `views` connects again, to the same chain only.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from gpu_tasks.data import claim_reads, market_reads, proven_rates, session_reads
from gpu_tasks.market.attestations.kinds import AnyAttestation, encode_attestation
from gpu_tasks.market.capacity.proofs import OpenProof
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.claims.disputes import Dispute
from gpu_tasks.market.claims.disputes_api import BallotStatus
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DEVICES_PER_PROVIDER_MAX, Provider
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus, DutyStatus, UnitStatus
from gpu_tasks.market.inference.services import Service
from gpu_tasks.market.inference.units import racer_of
from gpu_tasks.market.sessions.records import PeriodClaim
from gpu_tasks.market.sessions.sessions_api import SessionStatus
from gpu_tasks.market.training.bids import TaskBid
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.provider.chain import roll_calls, side_pay, task_records
from gpu_tasks.provider.chain.bond_losses import bond_losses
from gpu_tasks.provider.chain.claim_money import claim_money
from gpu_tasks.provider.chain.demand import demand
from gpu_tasks.provider.chain.offences import offences
from gpu_tasks.provider.chain.port import BidName, ChainError, NobodyError, RollCallView, SeenOffence, View
from runtime.frame.call import Call
from runtime.frame.storage import StateCorrupted
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient
from wallet.errors import WalletError, code_of, harmless, in_words
from wallet.keypair import Keypair
from wallet.proved.pins import ChainChangedError
from wallet.rpc import NodeUnreachableError, RpcError, RpcJson
from wallet.trust import Trust
from wallet.verified import VerifiedClient, Warn

ALREADY_KNOWN = 1013
SIGNED_KEPT = 1_024
ANSWER_SECONDS = (2.0, 2.0, 2.0, 4.0, 8.0)
"""The patience with a node, by the number of consecutive timeouts.

A slower node is asked again over a new connection. The 20 seconds of other programs would lose a race. The patience
grows, so a short failure costs no race and a slow node gets enough time.
"""
RECONNECT_SECONDS = (0.5, 0.5, 0.5, 1.0, 2.0)
"""The delays before reconnecting to a node that failed or was not believed. Ten seconds later it may be too late to
reveal."""

ODD_ANSWERS = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, StateCorrupted,
)  # fmt: skip
"""The errors that a malformed answer can cause while it is read."""

T = TypeVar("T")
P = ParamSpec("P")
ChainAnswer = Coroutine[Any, Any, T]
LOG = logging.getLogger("ogpu.provider")


# A provider's own devices, proved one by one. The market's whole table would grow with all providers' devices.
# Invariant: the node only suggests the names of devices, in addition to those seen before. The client proves each
# device's data. So a node can hide a new device for a while, but not forge one.
NAMES_MAX = 4 * DEVICES_PER_PROVIDER_MAX
"""The most devices that are looked up. A node may name any number of foreign ones."""


# The rhythm of reading the chain: after each announced block, and every few seconds in any case.
# Invariant: an announcement is only a trigger. The final block and its state are read and proved afterwards. A node
# without announcements is read too.
LOOK_SECONDS = 3.0


PROVIDERS_KEPT_BLOCKS = 16
"""The number of blocks for which a proved list of all providers is used again."""


AGAIN_SECONDS = 5.0
"""The interval of a repeated warning."""
KINDS_MAX = 64
_NUMBERS = re.compile(r"\b(0x)?[0-9a-f]{8,}\b|[0-9]+")


class KnownProviders:
    """The newest list of providers."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self._read: tuple[int, dict[bytes, Provider]] | None = None

    async def read(self, client: ChainClient) -> dict[bytes, Provider]:
        """Return all providers by stash."""
        block_hash = await client.finalized()
        height = await client.height(block_hash)
        if self._read is None or height >= self._read[0] + PROVIDERS_KEPT_BLOCKS:
            self._read = height, await market_reads.providers(client, block_hash)
        return self._read[1]


class RateLimitedLog:
    """A log that drops a text if it differs only in numbers from a recent one."""

    def __init__(self, report: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing was passed on yet."""
        self._tell = report
        self._clock = clock
        self._told: dict[str, float] = {}

    def __call__(self, text: str) -> None:
        """Pass a text on, unless a similar one was passed on recently."""
        message_kind, now_seconds = _NUMBERS.sub("", text), self._clock()
        if message_kind in self._told and now_seconds < self._told[message_kind] + AGAIN_SECONDS:
            return
        if len(self._told) >= KINDS_MAX:  # the node chooses the texts
            self._told.clear()
        self._told[message_kind] = now_seconds
        self._tell(text)


def warn(text: str) -> None:
    """Warn the operator about the node."""
    LOG.warning("%s", harmless(text))


class HeadSubscription:
    """A signal for announced blocks, once for all since the last. Use `async with HeadSubscription(heads) as bell`."""

    def __init__(self, heads: AsyncIterator[RpcJson]) -> None:
        """`heads` is a subscription. It is cancelled at the end."""
        self._heads = heads
        self._rung = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin to listen. The first signal comes at once."""
        self._rung.set()
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        assert self._listening is not None  # entered
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)

    async def ring(self, patience_seconds: float = LOOK_SECONDS) -> None:
        """Wait for the next announced block, or for the timeout. An error of the subscription is raised."""
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
        """No device is known yet."""
        self._stash = stash
        self._known: dict[bytes, None] = {}

    def heard_of(self, device_id: bytes) -> None:
        """Note a possible own device, named by a race."""
        # The node names the devices, so their number needs a bound.
        if len(self._known) < NAMES_MAX:
            self._known[device_id] = None

    async def read(self, client: ChainClient) -> list[DeviceStatus]:
        """Return this provider's devices' status, by ascending id."""
        block_hash = await client.finalized()
        hinted = await client.unverified().query("GpuTasksApi_devices_of", self._stash)
        # The hint is unproven: it can only add names, and each is proved below.
        device_ids = sorted({*self._known, *(status.id for status in hinted[:DEVICES_PER_PROVIDER_MAX])})
        stored = await client.read_many(Devices.devices, device_ids, at=block_hash)
        found = ((name, device) for name, device in zip(device_ids, stored, strict=True) if device is not None)
        own_devices = {name: device for name, device in found if device.owner == self._stash}
        # The others do not exist, are another provider's, or were unregistered.
        self._known = dict.fromkeys(own_devices)
        return list(await market_reads.with_offers(client, own_devices, block_hash))


def _asks_chain(
    read: Callable[Concatenate[VerifiedClient, P], Awaitable[T]],
) -> Callable[Concatenate[LiveChain, P], ChainAnswer[T]]:
    """Make a method from a function that reads with a client. The method raises ChainError."""

    async def method(chain: LiveChain, /, *arguments: P.args, **named: P.kwargs) -> T:
        return await chain.asked(read(chain.client, *arguments, **named))

    return method


def _asks_own(
    read: Callable[Concatenate[VerifiedClient, bytes, P], Awaitable[T]],
) -> Callable[Concatenate[LiveChain, P], ChainAnswer[T]]:
    """Make a method from a function that reads data of a stash, for the provider's own stash."""

    async def method(chain: LiveChain, /, *arguments: P.args, **named: P.kwargs) -> T:
        return await chain.asked(read(chain.client, chain.stash, *arguments, **named))

    return method


class LiveChain:
    """The `ChainPort` of one provider key, over JSON-RPC. Use `await LiveChain.connect(url, key, trust)`."""

    def __init__(self, url: str, client: VerifiedClient, key: Keypair, stash: bytes, trust: Trust, warn: Warn) -> None:
        """Use `connect` instead."""
        self._url = url
        self._trust = trust
        self.client = client
        self.key = key
        self.turn = asyncio.Lock()
        self._signed: dict[bytes, bytes] = {}
        self.stash = stash
        self._devices = OwnDevices(stash)
        self._report = warn
        self._failures = 0
        self._silent_answers = 0
        self._final_height = 0
        self._providers = KnownProviders()

    @classmethod
    async def connect(cls, url: str, key: Keypair, trust: Trust, tell: Warn | None = None) -> LiveChain:
        """Connect to the known chain, and find the stash of this provider key.

        Raise ChainError if the key has no stash, and ChainChangedError or NodeRefutedError for another or unproven
        chain.
        """
        tell = RateLimitedLog(warn if tell is None else tell)
        client = await VerifiedClient.connect_by(url, trust, tell, ANSWER_SECONDS[-1])
        try:
            stash: bytes | None = await market_reads.stash_of(client, key.public_key)
        except ODD_ANSWERS as error:
            await client.rpc.close()
            raise _implausible(error) from error
        except BaseException:
            await client.rpc.close()
            raise
        if stash is None:
            await client.rpc.close()
            raise NobodyError(
                f"{key.address} is no provider key on {client.chain}; run `ogpu-provider register`",
                code="not_registered",
            )
        # Only connecting needs long patience, for many and large answers.
        client.rpc.patience = ANSWER_SECONDS[0]
        return cls(url, client, key, stash, trust, tell)

    @property
    def genesis_hash(self) -> bytes:
        """The chain's genesis hash."""
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
                async with HeadSubscription(await self.asked(heads)) as wake_event:
                    last = None
                    while True:
                        await self.asked(wake_event.ring())
                        view = await self.asked(self._read_view())
                        self._failures = self._silent_answers = 0
                        # The bell also rings without a new block, and duties must not repeat their steps for it.
                        if last is None or (view.height, view.newest) != (last.height, last.newest):
                            yield view
                        last = view
            except ChainError as error:
                self._note_failure(error)
                self._report(f"the node is away ({error}); trying again")
            await self._reconnect()

    async def standing(self) -> tuple[int, tuple[DutyStatus, ...]]:
        """Return the newest height in use (see `_look`), and the duties there."""
        view = await self.asked(self._read_view())
        return view.height, view.duties

    async def _read_view(self) -> View:
        """Return the duties at the newest final block, proved; from a trusted node, those at the best block."""
        block_hash = None if self._trust.is_blind else await self._final(self.client)
        height = await self.client.height(block_hash)
        duties = await market_reads.duties(self.client, self.stash, block_hash)
        for duty in duties:
            racer = racer_of(duty.status.unit, self.stash)
            if racer is not None:
                self._devices.heard_of(racer.device)
        claims = await claim_reads.claim_duties(self.client, self.stash, block_hash)
        ballots = await claim_reads.ballots(self.client, self.stash, block_hash)
        best_height = await self._best_height(height, block_hash)
        return View(height, duties, best_height, claims, ballots)

    async def _best_height(self, final_height: int, block_hash: bytes | None) -> int:
        """Return the height that the chain may have reached, by the node's word within the limit of elapsed slots.

        A dishonest node can only make this provider decline a race too early or too late, by as many blocks as slots
        passed.
        """
        possible_slots = self.client.slots_since(block_hash) if block_hash is not None else None
        if possible_slots is None:
            return final_height
        claimed_height = await self.client.unverified().height()
        return min(max(final_height, claimed_height), final_height + possible_slots)

    # --- the connection

    async def _reconnect(self) -> None:
        await self.client.rpc.close()
        while True:
            await asyncio.sleep(_waiting_seconds(self._failures, RECONNECT_SECONDS))
            try:
                self.client = await self.asked(self._same_chain())
            except ChainError as error:
                self._note_failure(error)
                self._report(f"the node is still away: {error}")
            else:
                return
            finally:
                self._failures += 1

    def _note_failure(self, error: ChainError) -> None:
        """Count consecutive timeouts. A wrong answer or a refusal is no timeout."""
        unreached = error.__cause__
        is_mute = unreached is not None and isinstance(unreached.__cause__, TimeoutError)
        self._silent_answers = self._silent_answers + 1 if is_mute else 0

    async def _same_chain(self) -> VerifiedClient:
        """Return a new connection to the same chain.

        Raise ChainChangedError if the node serves another chain, or ChainError if it is behind. The daemon then waits:
        its journal holds obligations to the known chain, and the node may return.
        """
        patience = _waiting_seconds(self._silent_answers, ANSWER_SECONDS)
        client = await VerifiedClient.connect_by(self._url, self._trust, self._report, patience)
        try:
            await self._check_goes_on(client)
        except BaseException:
            await client.rpc.close()
            raise
        return client

    async def _check_goes_on(self, client: VerifiedClient) -> None:
        if client.genesis_hash != self.genesis_hash:
            raise ChainChangedError(
                f"{self._url} serves another chain, 0x{client.genesis_hash.hex()}; nothing is signed until it "
                f"serves 0x{self.genesis_hash.hex()} again"
            )
        # A node that is behind would serve an old state as final.
        if not self._trust.is_blind:
            await self._final(client)

    async def _final(self, client: VerifiedClient) -> bytes:
        """Return the newest final block. Raise ChainError if it is below an earlier one.

        On one connection the height never falls, but a new connection may be to a node that is behind. Such a state may
        not contain a unit in progress, or may name other readers than those that its input was sealed to.
        """
        block_hash = await client.finalized()
        height = await client.height(block_hash)
        if height < self._final_height:
            raise ChainError(
                f"its newest final block is {height}; an earlier answer had final block {self._final_height}",
                code="node_went_back",
            )
        self._final_height = height
        return block_hash

    # --- reads

    async def final_unit(self, unit: bytes) -> UnitStatus | None:
        """See `ChainPort`."""
        final_hash = await self.asked(self.client.finalized())
        return await self.asked(market_reads.unit(self.client, unit, final_hash))

    async def claim(self, claim: bytes, *, final: bool = False) -> ResultClaim | None:
        """See `ChainPort`."""
        return await self.asked(claim_reads.claim(self.client, claim, await self._hash_at(final=final)))

    async def item_dispute(self, dispute: bytes, *, final: bool = False) -> Dispute | None:
        """See `ChainPort`."""
        status = await self.asked(claim_reads.item_dispute(self.client, dispute, await self._hash_at(final=final)))
        return None if status is None else status.dispute

    async def final_ballots(self) -> tuple[BallotStatus, ...]:
        """See `ChainPort`."""
        return await self.asked(claim_reads.ballots(self.client, self.stash, await self._hash_at(final=True)))

    async def _hash_at(self, *, final: bool) -> bytes | None:
        """Return the newest final block, or None for the newest state in use."""
        return await self.asked(self.client.finalized()) if final else None

    # Each is described in `ChainPort`.
    services = _asks_chain(market_reads.services)
    provider = _asks_chain(market_reads.provider)
    checking_readers = _asks_chain(market_reads.checking_readers)
    stash_of = _asks_chain(market_reads.stash_of)
    auctions = _asks_chain(task_records.auctions)
    task_of_claim = _asks_chain(task_records.task_of_claim)
    proof_hold = _asks_chain(proven_rates.proof_hold)
    places = _asks_chain(session_reads.places)
    side_payments = _asks_own(side_pay.side_payments)
    claim_money = _asks_own(claim_money)
    bond_losses = _asks_own(bond_losses)
    demand = _asks_own(demand)

    async def unit(self, unit: bytes) -> UnitStatus | None:
        """See `ChainPort`."""
        return await self.asked(market_reads.unit(self.client, unit))

    async def service(self, number: int) -> Service:
        """See `ChainPort`."""
        service = await self.asked(market_reads.service(self.client, number))
        # A closed service is removed with its last unit, possibly just before this read.
        if service is None:
            raise ChainError(f"there is no service {number} on {self.client.chain}", code="unknown_service")
        return service

    async def providers(self) -> dict[bytes, Provider]:
        """See `ChainPort`."""
        return await self.asked(self._providers.read(self.client))

    async def own_devices(self) -> list[DeviceStatus]:
        """See `ChainPort`."""
        return await self.asked(self._devices.read(self.client))

    async def roll_call(self, devices: Sequence[bytes]) -> RollCallView:
        """See `ChainPort`."""
        return await self.asked(roll_calls.roll_call(self.client.unverified(), devices))

    async def final_roll_call(self) -> RollCall | None:
        """See `ChainPort`."""
        return await self.asked(roll_calls.newest_roll_call(self.client, await self._hash_at(final=True)))

    async def open_proof(self, claim: bytes, *, final: bool = False) -> OpenProof | None:
        """See `ChainPort`."""
        return await self.asked(roll_calls.open_proof(self.client, claim, await self._hash_at(final=final)))

    async def session(self, session: bytes, *, final: bool = False) -> SessionStatus | None:
        """See `ChainPort`."""
        return await self.asked(session_reads.session(self.client, session, await self._hash_at(final=final)))

    async def sessions_of_device(self, device: bytes, *, final: bool = False) -> tuple[SessionStatus, ...]:
        """See `ChainPort`."""
        block_hash = await self._hash_at(final=final)
        return await self.asked(session_reads.sessions_of_device(self.client, device, block_hash))

    async def period_claim(self, claim: bytes, *, final: bool = False) -> PeriodClaim | None:
        """See `ChainPort`."""
        return await self.asked(session_reads.period_claim(self.client, claim, await self._hash_at(final=final)))

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
        block_hash = await self.asked(self.client.finalized()) if final else None
        return await self.asked(task_records.tasks(self.client, ids, block_hash))

    async def bids(self, bids: Sequence[BidName], *, final: bool = False) -> dict[BidName, TaskBid]:
        """See `ChainPort`."""
        block_hash = await self.asked(self.client.finalized()) if final else None
        return await self.asked(task_records.bids(self.client, bids, block_hash))

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
            encoded = self.client.runtime.call_codec.encode(call)
            signed_before = self._signed.pop(encoded, None)
            # A repeated call reuses the signed extrinsic: a second signature with a new nonce would execute it twice.
            extrinsic = await self.asked(self.client.sign(call, self.key)) if signed_before is None else signed_before
            try:
                await self._sent_or_known(self.client.rpc.call("author_submitExtrinsic", "0x" + extrinsic.hex()))
            except ChainError:
                if signed_before is None:
                    raise
                return  # it is in a block, or its era is over; if it is missing, the next call signs it again
            self._signed[encoded] = extrinsic
            while len(self._signed) > SIGNED_KEPT:
                del self._signed[next(iter(self._signed))]

    async def attest(self, attestation: AnyAttestation) -> None:
        """See `ChainPort`."""
        encoded = encode_attestation(attestation)
        await self._sent_or_known(self.client.rpc.call("ogpu_submitAttestation", "0x" + encoded.hex()))

    async def _sent_or_known(self, question: Awaitable[RpcJson]) -> None:
        """Send as `asked` does. A message that the node already has counts as sent."""
        try:
            await self.asked(question)
        except ChainError as error:
            if not (isinstance(error.__cause__, RpcError) and error.__cause__.code == ALREADY_KNOWN):
                raise

    async def asked(self, question: Awaitable[T]) -> T:
        """Return the node's answer.

        Raise ChainError for no answer, a refusal, a wrong or a malformed one: ask again later.
        """
        try:
            return await question
        except (NodeUnreachableError, RpcError, WalletError) as error:
            raise ChainError(str(error), code=code_of(error)) from error
        # A node can return anything: other types, missing fields, or bytes that do not decode.
        except ODD_ANSWERS as error:
            raise _implausible(error) from error


def _implausible(error: Exception) -> ChainError:
    return ChainError(f"the node's answer makes no sense ({in_words(error)})", code="implausible_answer")


def _waiting_seconds(failures: int, waiting_times: tuple[float, ...]) -> float:
    """Return the seconds for a number of consecutive failures. The last value applies to all further ones."""
    return waiting_times[min(failures, len(waiting_times) - 1)]
