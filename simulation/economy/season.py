"""One chain under random steps: every actor signs, rightly and wrongly, and the books are compared after each step.

A step is a signed extrinsic (accepted, failed or refused) or an author's inherent. Extrinsics are encoded and decoded
as on a node, except for their signatures. A stand-in is compared instead, and `make replay` makes and verifies real
ones.

Invariant: the same seed and number give the same steps. The books balance after each step and after the hooks of each
block. A refused extrinsic writes nothing, and no block's hooks weigh more than their budgets.
"""

import random
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from genesis import dev_accounts
from genesis.chain import genesis_state, runtime_of
from genesis.presets import preset, validator_names
from gpu_tasks.market.claims.claim_events import CheckEnded, ClaimEnded
from gpu_tasks.market.claims.claims import CheckEnd, ClaimOutcome
from gpu_tasks.market.claims.collateral import RATES_PPM
from gpu_tasks.market.claims.dispute_events import VoterCharged
from gpu_tasks.market.claims.disputes import DisputeQuestion
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.events import ProviderSlashed
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.training.events import SlotSettled, TaskDisputed
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Task, is_open
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.blocks.digest import Digest
from runtime.blocks.extrinsic import Extra, MultiSignature, decode_extrinsic, encode_bare, encode_signed
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme
from runtime.encoding.types import CAP_GRAINS
from runtime.execution.executive import BlockExecution
from runtime.frame.call import Call
from runtime.frame.errors import InvalidTransaction
from runtime.frame.runtime import Bound, Runtime
from runtime.frame.weights import BLOCK_BASE
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.im_online import Heartbeat, ImOnline, SeenFinal, heartbeat_payload
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.sudo import Sudo
from runtime.pallets.system import ExtrinsicFailed, System
from runtime.pallets.timestamp import Timestamp
from runtime.state.overlay import Changes
from runtime.state.written_keys import ITEM_PREFIX_BYTES
from simulation.actors import ACTORS, BY_STASH, NODES, OGPU, WALKERS, Actor, World
from simulation.books import Books, BooksBroken, keys_of
from simulation.catalogue import HOOKS_MAX, WORLDS, check_books
from simulation.chains.presence import attached, digest_of
from simulation.economy.claim_watch import CONVICTED, ClaimWatch
from simulation.economy.figures import Tally, claim_ends, session_ends, task_ends
from simulation.replay.calls import POWERS, draw, draw_post
from simulation.replay.duties import deeds
from simulation.replay.record import FIRST_SLOT, SLOT_MS, attached_of, error_name, gift
from simulation.replay.roll_deeds import with_numbers, with_roll_calls
from simulation.runs import Stretch
from wallet.keypair import Keypair

RECENT_UNITS = 60
LOOKED_THROUGH = 300


@dataclass
class Directory:
    """Units with their customers (the newest last), and devices with their owners."""

    runtime: Runtime
    units: dict[bytes, bytes] = field(default_factory=dict)
    devices: dict[bytes, bytes] = field(default_factory=dict)
    tasks: dict[bytes, bytes] = field(default_factory=dict)
    """Open tasks, with their customers."""

    def read(self, changes: Changes) -> None:
        """Record the writes of a block, or of block 0."""
        listed = (
            (self.runtime.item(InferenceMarket.units), self.units, "customer"),
            (self.runtime.item(Devices.devices), self.devices, "owner"),
        )
        tasks = self.runtime.item(TrainingMarket.tasks)
        for key, raw in changes.items():
            for item, known, whose in listed:
                if key[:ITEM_PREFIX_BYTES] == item.prefix:
                    self._note(known, keys_of(item, key)[0], raw, item, whose)
            if key[:ITEM_PREFIX_BYTES] == tasks.prefix:
                self._note_task(keys_of(tasks, key)[0], None if raw is None else tasks.decode(raw))

    def _note(self, known: dict[bytes, bytes], name: bytes, raw: bytes | None, item: Any, whose: str) -> None:
        if raw is None:
            known.pop(name, None)
        elif name not in known:
            known[name] = getattr(item.decode(raw), whose)

    def _note_task(self, name: bytes, task: Task | None) -> None:
        if task is not None and is_open(task):
            self.tasks[name] = task.customer
        else:
            self.tasks.pop(name, None)


@dataclass(frozen=True)
class Crowd(World):
    """A random caller's view of this season's chain."""

    directory: Directory = field(kw_only=True)

    def device(self, owner: Actor) -> bytes:
        """Return a device, mostly the owner's if it has one, sometimes another's or an unknown one."""
        devices = self.directory.devices
        mine = [key for key, stash in devices.items() if stash == owner.stash.account]
        known = mine if mine and self.chance.random() < 0.9 else list(devices)
        return self.chance.choice(known) if known and self.chance.random() < 0.95 else self.chance.randbytes(32)

    def unit(self, customer: bytes | None = None) -> bytes:
        """Return a recent unit, open or ended, of this customer if it has one, sometimes an unknown one."""
        newest = islice(reversed(self.directory.units.items()), LOOKED_THROUGH)
        units = [unit_id for unit_id, whose in newest if customer in (None, whose)][:RECENT_UNITS]
        return self.chance.choice(units) if units and self.chance.random() < 0.9 else self.chance.randbytes(32)

    def open_tasks(self) -> list[tuple[bytes, Task]]:
        """Return the tasks that were open after the last block and still are."""
        found = ((task_id, self.bound[TrainingMarket].tasks[task_id]) for task_id in self.directory.tasks)
        return [(task_id, task) for task_id, task in found if task is not None and is_open(task)]


FULL_COUNT_BLOCKS = 250
SEASON_STEPS = 25_000
"""The steps of a chain.

A run of twice as many plays one chain with enough validators for nine voters, and one with too few.
"""
CALM_EVERY, CALM_LIARS = 8, {2: 3, 4: 0}
"""Two of eight chains have only posts as random calls, and few liars or none: less than a third of the stake.

In both, no honest provider is convicted. Without liars, no party of a claim or a dispute loses.
"""
CALM_EAGERNESS = 1
"""Their random calls in a block: few units are posted, so that tasks find devices."""
ROOT_SHARE = 0.02
"""The share of random steps that the holder of the Root key makes."""
LARGE, SMALL = (12, 13, 14), (4, 5, 6, 8)
"""Numbers of validators: enough for nine voters beside customer, parties and partners, and too few."""
SIGNED, FORGED = bytes(64), b"\1" * 64
GOES_AWAY, COMES_BACK = 1 / 60, 1 / 250
"""Chances per block that a validator goes away for some epochs, and returns. It is jailed if it must keep its seat."""
SETTLE_BLOCKS = 30
HEARTBEAT_BLOCKS = 20
"""In every block with a multiple of this number, candidates that were not on line in the epoch send heartbeats."""
REFUSED, TAKEN, INHERENT = "refused", "taken", "inherent"


# The first block of a season: some accounts without money become validators with devices. Invariant: these steps are
# signed and applied like all others.
GIFT, BOND = 20_000 * OGPU, 12_000 * OGPU


# Heartbeats of a season: candidates without a seat show from time to time that they are on line. Invariant: they are
# valid, as those in an author's pool are.
def heartbeats(bound: Bound, genesis: bytes, final: int, block: bytes, absent: Collection[bytes]) -> list[Heartbeat]:
    """Return heartbeats of all candidates but `absent` that were not on line in this epoch.

    Each saw `block` as final.
    """
    silent = [one for one in ACTORS if _is_silent(bound, one, absent)]
    signed = [_signed(one, genesis, SeenFinal(one.stash.account, final, block)) for one in silent]
    return [heartbeat for heartbeat in signed if not bound[ImOnline].problem(heartbeat)]


def _is_silent(bound: Bound, who: Actor, absent: Collection[bytes]) -> bool:
    stash, stake = who.stash.account, bound[TrustStake]
    is_candidate = stash in stake.candidates and stash not in absent
    return is_candidate and not stake.was_on_line(stash, bound[Beacon].epoch())


def _signed(who: Actor, genesis: bytes, seen: SeenFinal) -> Heartbeat:
    return Heartbeat(seen, who.session.sign(heartbeat_payload(genesis, seen)))


# A state in memory that changes in place: a block's writes are inserted without a copy or a sort. Invariant: no entry
# has the value None, and the keys of each storage item are sorted.
class KeptState:
    """A `StateReader` that changes only between blocks, when no execution reads it."""

    def __init__(self, values: dict[bytes, bytes]) -> None:
        """Begin with these entries."""
        self.values = dict(values)
        self._by_item: dict[bytes, list[bytes]] = {}
        for key in sorted(values):
            self._by_item.setdefault(key[:ITEM_PREFIX_BYTES], []).append(key)

    def get(self, key: bytes, /) -> bytes | None:
        """Return the value under `key`."""
        return self.values.get(key)

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """Yield the keys after `start` with this prefix, ascending. The prefix is at least an item's."""
        assert len(prefix) >= ITEM_PREFIX_BYTES, "pallets list entries of one item"
        listed = self._by_item.get(prefix[:ITEM_PREFIX_BYTES], [])
        first = bisect_left(listed, prefix) if start < prefix else bisect_right(listed, start)
        for position in range(first, len(listed)):
            key = listed[position]
            if not key.startswith(prefix):
                return
            yield key

    def apply(self, changes: Changes) -> None:
        """Apply the writes of a block."""
        for key, value in changes.items():
            is_there = key in self.values
            if value is None:
                if is_there:
                    del self.values[key]
                    listed = self._by_item[key[:ITEM_PREFIX_BYTES]]
                    del listed[bisect_left(listed, key)]
            else:
                if not is_there:
                    insort(self._by_item.setdefault(key[:ITEM_PREFIX_BYTES], []), key)
                self.values[key] = value


def founding(genesis: bytes, giver: Actor, founders: list[Actor]) -> Iterator[tuple[Keypair, Call]]:
    """Yield calls that make founders validators: money, bond, candidacy and endpoint.

    They register devices themselves.
    """
    for one in founders:
        yield giver.stash, Balances.transfer_keep_alive(dest=one.stash.account, value=GIFT)
        yield giver.stash, Balances.transfer_keep_alive(dest=one.provider.account, value=10 * OGPU)
        yield one.stash, TrustStake.bond(value=BOND)
        yield (
            one.stash,
            TrustStake.validate(
                keys=dev_accounts.node_keys(one.name),
                proof=dev_accounts.keys_proof(one.name, genesis),
                provider_key=one.provider.account,
                commission_ppm=50_000,
            ),
        )
        yield one.stash, Devices.register_provider(seal_key=one.vrf, endpoint=b"http://127.0.0.1:1")


class Season:
    """A chain from block 0 on."""

    def __init__(self, seed: int, number: int) -> None:
        """Make block 0."""
        self.chance = random.Random(f"economy {seed}/{number}")
        self.tally = Tally()
        seated = validator_names(self.chance.choice(SMALL if number % 2 else LARGE))
        spec = preset("Economy", "economy", "Local", seated)
        if number % 3:
            spec = with_roll_calls(spec)
        # small sets without exits, so absent validators are jailed; large sets in which all keep their seats
        rate = self.chance.choice(RATES_PPM)
        rates = dict.fromkeys(("ResultClaims.check_rate", "TrainingMarket.check_rate"), rate)
        # Short windows, so that many sessions end in each chain.
        windows = {"Sessions.session_settle_blocks": SETTLE_BLOCKS}
        spec = with_numbers(spec, {"TrustStake.elections_enabled": number % 2, **rates, **windows})
        self.runtime = runtime_of(spec)
        self.state = KeptState(genesis_state(spec))
        self.directory = Directory(self.runtime)
        self.directory.read(self.state.values)
        self.books, self.watch = Books(self.runtime.at(self.state), WORLDS), ClaimWatch()
        self.ids = [blake2_256(f"economy {seed}/{number}".encode())]
        self.slot, self.final, self.stalled_until = FIRST_SLOT, 0, 0
        self.absent: frozenset[bytes] = frozenset()
        others = [name for name in NODES + WALKERS if name not in seated]
        self.founders = self.chance.sample(others, self.chance.choice((0, 2, 4)))
        known = [*seated, *self.founders]
        few = CALM_LIARS.get(number % CALM_EVERY)
        self.is_calm = few is not None
        many = self.chance.choice((3, 4, 5) if number % 2 else (5, 6, 7))
        self.liars = tuple(self.chance.sample(known, min(len(known), many if few is None else few)))
        self.eagerness = CALM_EAGERNESS if self.is_calm else self.chance.choice((12, 20, 40))
        """The mean number of random calls in a block."""
        self.waiting_max = self.chance.choice((30, 60, 200))
        """The number of open units above which most customers wait."""

    @property
    def height(self) -> int:
        """The height of the newest block."""
        return len(self.ids) - 1

    def play(self, steps: int, on_block: Callable[[], None] = lambda: None) -> Tally:
        """Make at least `steps` steps, count the whole state, and return the tally.

        Raise BooksBroken, with the place, if a book does not balance. Exceptions of the execution propagate.
        """
        while self.tally.steps.total() < steps:
            self.block()
            on_block()
        self.count_anew()
        return self.tally

    def block(self) -> None:
        """Make one block."""
        number = len(self.ids)
        author = self._author()
        execution = BlockExecution(self.runtime, self.state, number, self.ids[-1], self._digest(number, author))
        bound = execution.bound
        self._check_hooks(execution)
        self.books.step(bound, bound.overlay.changes())
        self._inherent(execution, Timestamp.set(now=self.slot * SLOT_MS))
        crowd = Crowd(bound, self.chance, self.ids[0], self.liars, has_many_sessions=True, directory=self.directory)
        if number == 1:
            for keys, call in founding(
                self.ids[0], ACTORS[0], [actor for actor in ACTORS if actor.name in self.founders]
            ):
                self.sign(execution, keys, call)
        self._duties(execution, crowd)
        for _ in range(self.chance.randrange(2 * self.eagerness)):
            self._random(execution, crowd)
        changes = execution.finalize()
        self.books.step(bound, changes)
        events = [event for _, event in bound.overlay.events]
        self.tally.events.update(type(event).__name__ for event in events)
        if self.is_calm and not self.liars:
            _check_honest(events)
        self.tally.claims.update(claim_ends(events))
        self.tally.tasks.update(task_ends(events))
        self.tally.sessions.update(session_ends(events))
        ends = list(self.watch.follow(crowd, events, self.tally.draws))
        if self.is_calm:
            self._check_calm(events, ends)
        self.tally.blocks += 1
        self.state.apply(changes)
        self.directory.read(changes)
        self.ids.append(blake2_256(self.ids[-1] + number.to_bytes(4, "little")))
        bound.overlay.release()
        if number % FULL_COUNT_BLOCKS == 0:
            self.count_anew()

    def count_anew(self) -> None:
        """Count the whole state, and check the relations that single steps do not show.

        Raise BooksBroken if one fails.
        """
        bound = self.runtime.at(self.state)
        self.tally.full_counts += 1
        self.books.compare(bound)
        try:
            check_books(bound, CAP_GRAINS)
        except AssertionError as error:
            raise BooksBroken(f"a full count: {error}") from error

    # --------------------------------------------------------------------------------------------------------- steps

    def sign(
        self, execution: BlockExecution, keys: Keypair, call: Call, *, nonce_off: int = 0, is_forged: bool = False
    ) -> None:
        """Make a step: an extrinsic, accepted or refused."""
        nonce = execution.bound[System].account[keys.account].nonce + nonce_off
        extra = Extra(nonce=max(0, nonce), tip=self.chance.choice((0, 0, 0, 1, 5_000)))
        signature = MultiSignature(keys.scheme, FORGED if is_forged else SIGNED)
        extrinsic = decode_extrinsic(self.runtime, encode_signed(self.runtime, call, extra, keys.account, signature))
        overlay = execution.bound.overlay
        with overlay.transaction():
            try:
                succeeded = execution.apply_signed(extrinsic, _verify)
            except InvalidTransaction as refusal:
                self._refused(refusal, list(overlay.keys_in_layers()))
                return
            self.books.step(execution.bound, overlay.keys_in_layers())
        self.tally.steps[TAKEN] += 1
        self.tally.calls[call.name] += 1
        if succeeded:
            self.tally.done[call.name] += 1
        else:
            failed = overlay.events[-1][1]
            assert isinstance(failed, ExtrinsicFailed)
            self.tally.failures[error_name(self.runtime, failed.dispatch_error)] += 1

    def _refused(self, refusal: InvalidTransaction, written: list[bytes]) -> None:
        if written:
            raise BooksBroken(f"a refused extrinsic wrote {len(written)} entries: {refusal}")
        self.tally.steps[REFUSED] += 1
        self.tally.refusals[refusal.reason.name] += 1

    def _inherent(self, execution: BlockExecution, call: Call) -> None:
        extrinsic = decode_extrinsic(self.runtime, encode_bare(self.runtime, call))
        with execution.bound.overlay.transaction():
            execution.apply_inherent(extrinsic)
            self.books.step(execution.bound, execution.bound.overlay.keys_in_layers())
        self.tally.steps[INHERENT] += 1

    def _heartbeats(self, execution: BlockExecution) -> None:
        """From time to time, attach heartbeats of candidates without a seat."""
        if len(self.ids) % HEARTBEAT_BLOCKS:
            return
        beats = heartbeats(execution.bound, self.ids[0], self.final, self.ids[self.final], self.absent)
        if beats:
            self._inherent(execution, attached(beats))

    def _duties(self, execution: BlockExecution, crowd: Crowd) -> None:
        """Do the providers' duties: first attestations for the author, then heartbeats, then calls."""
        owed = list(deeds(crowd))
        attached_call = attached_of(execution.bound, owed)
        if attached_call is not None:
            self._inherent(execution, attached_call)
        self._heartbeats(execution)
        for deed in owed:
            if deed.call is not None:
                self.sign(execution, deed.keys, deed.call)

    def _random(self, execution: BlockExecution, crowd: Crowd) -> None:
        """Make a random call, or let a rich account give money to a poor one, so that all can continue."""
        root = BY_STASH.get(execution.bound[Sudo].key.get() or b"")
        if root is not None and not self.is_calm and self.chance.random() < ROOT_SHARE:
            self.sign(execution, root.stash, self.chance.choice(POWERS)(crowd, root))
            return
        who = self.chance.choice(ACTORS)
        keys = who.provider if self.chance.random() < 0.1 else who.stash
        if execution.bound[Balances].spendable_balance(keys.account) < OGPU and self.chance.random() < 0.9:
            self.sign(execution, *gift(self.chance, keys))
            return
        call = draw_post(crowd, who) if self.is_calm else draw(crowd, who)
        if call.name != "InferenceMarket.post" or not self._is_full(execution):
            nonce_off = self.chance.choice((-1, 1)) if self.chance.random() < 0.01 else 0
            self.sign(execution, keys, call, nonce_off=nonce_off, is_forged=self.chance.random() < 0.005)

    def _is_full(self, execution: BlockExecution) -> bool:
        open_units = execution.bound[InferenceMarket].open_unit_count.get()
        self.tally.most_open = max(self.tally.most_open, open_units)
        return open_units > self.waiting_max and self.chance.random() < 0.95

    # -------------------------------------------------------------------------------------------------------- blocks

    def _check_calm(self, events: Iterable[Any], ends: list[str]) -> None:
        """Count the ends of claims by their truth. Raise BooksBroken if an honest provider was convicted."""
        self.tally.truths.update(ends)
        lied = (
            event.provider for event in events if isinstance(event, SlotSettled) and event.outcome is TaskOutcome.LIED
        )
        honest = [who for who in lied if who in BY_STASH and BY_STASH[who].name not in self.liars]
        if honest or not CONVICTED.isdisjoint(ends):
            raise BooksBroken(f"an honest provider was convicted: {ends}, {[BY_STASH[who].name for who in honest]}")

    def _check_hooks(self, execution: BlockExecution) -> None:
        # A block's base weight is charged beside the weights of the hooks.
        weighed = execution.fullness.consumed().mandatory.ref_time - BLOCK_BASE.ref_time
        self.tally.heaviest_hooks = max(self.tally.heaviest_hooks, weighed)
        if weighed > HOOKS_MAX.ref_time:
            raise BooksBroken(f"the hooks weigh {weighed}, more than {HOOKS_MAX.ref_time}")

    def _author(self) -> bytes:
        """Return a validator of the active set."""
        bound = self.runtime.at(self.state)
        seats = [seat.stash for seat in bound[TrustStake].validators(bound[Beacon].epoch_of(len(self.ids)))]
        here = [stash for stash in seats if stash in BY_STASH]
        if self.chance.random() < (COMES_BACK if self.absent else GOES_AWAY):
            self.absent = frozenset() if self.absent else frozenset([self.chance.choice(here)])
        # A block needs an author, even if the absent validator is the only candidate.
        return self.chance.choice([stash for stash in here if stash not in self.absent] or here)

    def _digest(self, number: int, author: bytes) -> Digest:
        """Return the digest of the next block. Time advances, and finality follows, lags, or stalls for a while."""
        bound = self.runtime.at(self.state)
        self.slot += self.chance.choice((1, 1, 1, 1, 2, 3))
        output, final, beacon = self.chance.randbytes(32), None, bound[Beacon]
        is_first = beacon.epoch_of(number - 1) != beacon.epoch_of(number)
        if self.chance.random() < 0.005:
            self.stalled_until = number + self.chance.randrange(10, 50)
        if is_first or (number >= self.stalled_until and self.chance.random() < 0.8):
            reached = max(self.final, number - 1 - self.chance.choice((0, 1, 1, 2, 5)))
            if reached > self.final:
                self.final, final = reached, (reached, self.ids[reached])
        return digest_of(bound, number, author, self.slot, output, final, self.absent)


def _check_honest(events: Iterable[Any]) -> None:
    """Raise BooksBroken if a check or a claim did not pass, results differed, or a provider or voter was charged."""
    for event in events:
        is_bad_end = isinstance(event, CheckEnded) and event.end is not CheckEnd.PASSED
        is_bad_claim = isinstance(event, ClaimEnded) and event.outcome is not ClaimOutcome.PASSED
        is_bad_task = isinstance(event, TaskDisputed) and event.question is DisputeQuestion.SIDES
        if is_bad_end or is_bad_claim or is_bad_task or isinstance(event, (ProviderSlashed, VoterCharged)):
            raise BooksBroken(f"an honest party lost its claim, or a part of its money: {event}")


def _verify(_scheme: Scheme, _signer: bytes, _payload: bytes, signature: bytes) -> bool:
    """Return whether the stand-in signature is valid. No account here can sign, and no other code calls this."""
    return signature == SIGNED


@dataclass(frozen=True)
class Played:
    """The result of one chain of a run."""

    tally: Tally
    seconds: float
    """CPU seconds."""
    problem: str | None
    """The failure, its place, and the command that repeats it."""


def play(part: Stretch) -> Played:
    """Play a chain, and record its failure."""
    begun, season, problem = time.process_time(), Season(part.seed, part.number), None
    try:
        season.play(part.steps)
    except Exception as error:  # noqa: BLE001  # every exception of an execution is a finding
        place = f"block {season.height}, after {season.tally.steps.total()} of its steps"
        problem = part.told("economy", error, place)
    return Played(season.tally, time.process_time() - begun, problem)
