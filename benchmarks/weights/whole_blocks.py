"""Whole blocks at their limit, from their bytes to the disk, in the one thread of an importing node.

Signatures count as valid, because a worker has checked them. The worker's time is a separate figure. Figures are real
over declared weight, and the real cost as a share of a slot, both in reference time.

Calls that come by thousands are measured by thousands, and so is the base of an extrinsic: the cost of a full block
above an empty one, divided by the count. These are the plain transfers, and the cost of each call in a batch.
"""

import gc
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

from benchmarks.weights.actors import CUSTOMER, FLEETS, LARGE, PRICEY, RACED, Actor
from benchmarks.weights.findings import LEAST_NANOSECONDS, Ratio
from benchmarks.weights.market_cases import attached
from benchmarks.weights.races import DRAW_BLOCKS, MarketCases
from benchmarks.weights.staking_cases import offer_of
from benchmarks.weights.world import Step
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import UNITS_PER_POST_MAX, InferenceMarket
from gpu_tasks.market.inference.units import RACERS_MAX, UNITS_OPEN_MAX
from node.ledger.storage import FinalEntry
from runtime.blocks.block import BLOCK, Block
from runtime.blocks.digest import seal_item
from runtime.blocks.extrinsic import Extra, MultiSignature
from runtime.cryptography.signatures import Scheme
from runtime.encoding.types import Unsigned
from runtime.execution.block_builder import Authoring
from runtime.execution.executive import execute_block
from runtime.frame.call import Call
from runtime.frame.errors import DispatchError, InvalidReason, InvalidTransaction
from runtime.frame.runtime import Bound
from runtime.frame.weights import SIGNATURE
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from runtime.pallets.utility import Utility
from simulation.chains.extrinsics import signed_extrinsic
from simulation.chains.market_chain import OGPU, signed

SLOT_NANOSECONDS = 1_000_000_000
SHARE_MAX = 0.75
"""The highest permitted share of a slot for a block at its limit."""
ROUNDS, BASE_ROUNDS, BASE_COUNT = 5, 7, 3_000
BLOCK_SLACK_NANOSECONDS = 20_000_000
"""The time for hashing and storing the longest block's bytes. Block length has a limit of its own."""
BATCH = 400
RACES = 12
REMARK_BYTES = 64 * 1024
DRAWN_AT_LAST = 600
"""The approximate number of units that come in last, after nearly all others."""
KEPT_BACK = 50_000
"""Grains left for the fee of a transfer. The remainder is below the existential deposit."""
KEEP_ALIVE, ALLOW_DEATH = "Balances.transfer_keep_alive", "Balances.transfer_allow_death"
Offer = tuple[Actor, Call]


@dataclass(frozen=True, slots=True)
class Filled:
    """A full block, its declared weight, and its number of extrinsics."""

    raw: bytes
    declared: float
    count: int


@dataclass(frozen=True, slots=True)
class Taken:
    """The real cost of a block, and its number of extrinsics."""

    real: float
    count: int


class WholeBlocks(MarketCases):
    """Full blocks, each with one kind of extrinsic."""

    def measure(self) -> None:
        """Measure all of them. The block with 4,096 open units is the last."""
        self._base()
        self._plain_transfers()
        self._calls_of_batches()
        self._case("batches of validate", self._batches_of_validate())
        self._case("long remarks", self._remarks())
        self._reveals()
        self._open_units()

    def _base(self) -> None:
        """Measure an empty block, and an extrinsic's base: the extra cost of thousands, divided by their number."""
        found = self.found
        empty = self._taken(self._filled(()), BASE_ROUNDS)
        nothing = System.remark(remark=b"")
        filled = self._filled((sender, nothing) for sender in self.world.senders[:BASE_COUNT])
        found.rows["block"] = empty
        found.rows["extrinsic"] = (self._taken(filled, BASE_ROUNDS) - empty) / filled.count - found.rows[nothing.name]
        found.figures["extrinsics_of_nothing"] = filled.count

    def _plain_transfers(self) -> None:
        """Measure the rows of transfers: to uncached accounts, to new ones, and those that end the sender's account."""
        taken = (
            self._case("transfers", self._transfers()),
            self._case("transfers to new accounts", self._transfers(is_new=True)),
        )
        alive = max(map(self._each, taken))
        ended = self._each(self._case("transfers of all but dust", self._last_transfers()))
        rows = self.found.rows
        rows[KEEP_ALIVE], rows[ALLOW_DEATH] = alive, max(alive, ended)

    def _calls_of_batches(self) -> None:
        """Measure the cost of each call in a batch beyond its row.

        For a transfer, the row is its cost beside its extrinsic. A transfer in a batch costs more. A transfer outside
        of a batch shares the tree's branches and disk work with its sender's account, which its extrinsic has written.
        Of the three batch calls, `batch` does the most for each call.
        """
        name, rows = "batches of transfers", self.found.rows
        taken = (
            self._case(name, self._batches_of_transfers()),
            self._case(f"{name} to new accounts", self._batches_of_transfers(is_new=True)),
        )
        each = (max(map(self._each, taken)) - rows["Utility.batch"]) / BATCH - rows[KEEP_ALIVE]
        for batch in ("batch", "batch_all", "force_batch"):
            rows[f"Utility.{batch} call"] = max(LEAST_NANOSECONDS, each)

    def _each(self, taken: Taken) -> float:
        """Return the cost of each extrinsic of a block beyond its base."""
        rows = self.found.rows
        return (taken.real - rows["block"]) / taken.count - rows["extrinsic"]

    def _case(self, name: str, offers: Iterator[Offer], attach: Call | None = None) -> Taken:
        filled = self._filled(offers, attach)
        real = self._taken(filled)
        self.found.ratios[f"block: {name}"] = Ratio(real, filled.declared, BLOCK_SLACK_NANOSECONDS)
        key = name.replace(" ", "_")
        self.found.figures[f"{key}_share_of_slot"] = round(real / SLOT_NANOSECONDS, 3)
        self.found.figures[f"{key}_worker_share"] = round(
            filled.count * SIGNATURE.ref_time / 1_000 / SLOT_NANOSECONDS, 3
        )
        self.found.figures[f"{key}_count"] = filled.count
        return Taken(real, filled.count)

    def _transfers(self, *, is_new: bool = False) -> Iterator[Offer]:
        return zip(self.world.senders, self._transfer_calls(is_new=is_new), strict=False)

    def _transfer_calls(self, *, is_new: bool) -> Iterator[Call]:
        """Return transfers, each to a different account."""
        chance, accounts = self.world.chance, self.world.accounts
        found = (chance.randbytes(32) for _ in accounts) if is_new else chance.sample(accounts, len(accounts))
        return (Balances.transfer_keep_alive(dest=dest, value=OGPU // 100) for dest in found)

    def _last_transfers(self) -> Iterator[Offer]:
        """Yield transfers of all funds except for dust below the existential deposit, which burns."""
        account = self.world.now()[System].account
        for sender in self.world.senders:
            data = account[sender.stash].data
            if not data.reserved:
                call = Balances.transfer_allow_death(dest=self.world.chance.randbytes(32), value=data.free - KEPT_BACK)
                yield sender, call

    def _batches_of_transfers(self, *, is_new: bool = False) -> Iterator[Offer]:
        transfers = self._transfer_calls(is_new=is_new)
        each = iter(lambda: tuple(islice(transfers, BATCH)), ())
        return ((sender, Utility.batch(calls=calls)) for sender, calls in zip(self.world.senders, each, strict=False))

    def _batches_of_validate(self) -> Iterator[Offer]:
        """Yield batches in which a candidate offers other keys again and again."""
        stake = self.world.now()[TrustStake]
        candidates = [actor for actor in self.world.senders if stake.candidates[actor.stash] is not None]
        for actor in candidates:
            keys = [Actor(f"keys of {actor.name} {number}") for number in range(BATCH)]
            yield actor, Utility.batch(calls=tuple(offer_of(self.world.genesis, actor, each) for each in keys))

    def _remarks(self) -> Iterator[Offer]:
        remark = System.remark_with_event(remark=bytes(REMARK_BYTES))
        return ((sender, remark) for sender in self.world.senders)

    def _reveals(self) -> None:
        """Measure a block whose attestations settle every race within its budget. Transfers fill the rest."""
        world, races = self.world, self.races
        count = RACES
        units = races.drawn(RACED, count)
        world.block(*races.commits(units))
        world.blocks(2)
        call = attached(races.reveals(units, 0, RACERS_MAX))
        self._case("settling reveals", self._transfers(), call)
        # The measured block was undone, so the races are still to be settled.
        world.block(signed(Unsigned(), call))

    def _open_units(self) -> None:
        """Measure the most open units, with stirred slots and due draws. Transfers fill the rest."""
        world, races = self.world, self.races
        while self._open() < UNITS_OPEN_MAX - DRAWN_AT_LAST:
            world.block(self._posts(PRICEY))
        world.blocks(DRAW_BLOCKS)
        devices = (
            signed(actor.provider, Devices.resume(device=actor.device(1))) for actor in world.validators[:FLEETS]
        )
        world.block(self._posts(LARGE))
        world.block(self._posts(LARGE))
        world.block(self._posts(LARGE), *devices)
        self.found.figures["open_units"] = self._open()
        self._case("open units", self._transfers())
        # `_posts` bypasses the counter of `races`.
        races.posted = world.now()[InferenceMarket].post_counts[CUSTOMER.stash]

    def _open(self) -> int:
        return self.world.now()[InferenceMarket].open_unit_count.get()

    def _posts(self, service: int) -> Step:
        """Return a step that posts units until the market accepts no more in this block or at all."""
        terms = self.races.terms(1, OGPU)

        def step(bound: Bound) -> None:
            room = UNITS_OPEN_MAX - bound[InferenceMarket].open_unit_count.get()
            sizes = [UNITS_PER_POST_MAX] * (room // UNITS_PER_POST_MAX) + [1] * UNITS_PER_POST_MAX
            for size in sizes:
                post = InferenceMarket.post(service=service, units=(terms,) * size)
                with suppress(DispatchError):
                    signed(CUSTOMER.stash, post)(bound)

        return step

    def _filled(self, offers: Iterable[Offer], attach: Call | None = None) -> Filled:
        """Return the next block with as many of the offers as fit.

        They are signed, and the signatures are not checked here.
        """
        world = self.world
        authoring = Authoring(world.runtime, world.storage, world.trie, world.hash_of(world.height), world.digest())
        authoring.inherent(world.time())
        if attach is not None:
            authoring.inherent(attach)
        count = 0
        for actor, call in offers:
            try:
                authoring.offer(self._signed(actor, call), lambda *_: True)
            except InvalidTransaction as error:
                if error.reason is not InvalidReason.EXHAUSTS_RESOURCES:
                    raise
                break
            count += 1
        built = authoring.finish()
        weight = world.runtime.item(System.block_weight)
        spent = weight.decode(built.executed.changes[weight.key()] or b"")
        declared = sum(part.ref_time for part in (spent.normal, spent.operational, spent.mandatory)) / 1_000
        header = replace(built.header, digest=(*built.header.digest, seal_item(bytes(64))))
        return Filled(BLOCK.encode(Block(header, built.extrinsics)), declared, count)

    def _taken(self, filled: Filled, rounds: int = ROUNDS) -> float:
        """Return the reference nanoseconds from the block's bytes to the disk."""
        scale = self.found.meter.scale
        return scale.least(rounds, lambda: self._once(filled))

    def _once(self, filled: Filled) -> float:
        """Return the CPU seconds of the importing thread.

        LevelDB compacts earlier blocks in another thread at any time, so that thread is not counted.
        """
        world = self.world
        gc.collect()
        started = time.thread_time()
        block = BLOCK.decode(filled.raw)
        outcome = execute_block(world.runtime, world.storage, world.trie, block, lambda *_: True)
        taken = time.thread_time() - started
        # The changes are undone below, so that each round starts from the same state.
        before = {key: world.trie.get(key) for key in outcome.changes}
        stored = world.next_stored(filled.raw)
        started = time.thread_time()
        world.storage.commit_final([FinalEntry(stored, outcome.changes, None)])
        taken += time.thread_time() - started
        world.storage.commit_final([FinalEntry(world.next_stored(), before, None)])
        world.storage.rest_on(world.trie)
        return taken

    def _signed(self, actor: Actor, call: Call) -> bytes:
        world, extra = self.world, Extra(nonce=self.world.now()[System].account[actor.stash].nonce)

        def signer(payload: bytes) -> MultiSignature:
            return MultiSignature(Scheme.ED25519, actor.sign("stash", payload))

        return signed_extrinsic(world.runtime, world.genesis, call, extra, actor.stash, signer)
