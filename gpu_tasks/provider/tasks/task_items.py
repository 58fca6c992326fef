"""The items of tasks: segments of a run, fetched from the provider of a claim, computed again and compared.

An item is right if all of these hold. Else it is wrong.

* The blob of the result is the stated run, and opens for the customer.
* The state before the item is a state of the request at that step. The first one is the initial state.
* The computed state after it has the hash that the provider delivered, which is in the claimed root.

Invariants:

* A reader computes from the sealed input, which it opens as a bidder does, and from a state in the claimed trace.
* An input that no bidder could use has no right item. A checker only stays silent about it: its own key may be the
  reason, and a false accusation costs its collateral.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from gpu_tasks.data.claim_delivery import (
    TASK_DELIVERY_MAX,
    DeliveredState,
    DeliveryError,
    encode_task_delivery,
    read_task_delivery,
)
from gpu_tasks.data.run_states import begins_as_stated
from gpu_tasks.data.sealing import SealError
from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.claims.disputes import Dispute, seeds_of
from gpu_tasks.market.claims.draws import ITEM_WEIGHT, item_at
from gpu_tasks.market.claims.findings import ItemSample, ItemVote, Verdict
from gpu_tasks.market.training.items import own_segments
from gpu_tasks.market.training.orders import runs_program
from gpu_tasks.market.training.tasks import Slot, Task, slot_case
from gpu_tasks.provider.blobs.deliveries import RefusedDeliveryError
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.chain.port import ChainError, TaskPort
from gpu_tasks.provider.duties.item_sources import (
    Disputed,
    Fetching,
    ItemSource,
    fetched_delivery,
    vote_without_items,
)
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sides import DeliveredSides, Patience, sides_of
from gpu_tasks.provider.execution.device_times import Activity
from gpu_tasks.provider.execution.executor import BadRequestError, BadStateError, BegunRun, ExecutionError
from gpu_tasks.provider.programs.requests import open_program
from gpu_tasks.provider.tasks.checkpoint_blobs import is_sound
from gpu_tasks.provider.tasks.task_book import TaskBook
from gpu_tasks.provider.tasks.task_inputs import form_of, open_task
from gpu_tasks.provider.tasks.task_runs import TaskRun, stepped
from gpu_tasks.traces.trace import state_hash, trace_root
from gpu_tasks.workloads.fingerprints import trail_fingerprint
from gpu_tasks.workloads.form import WorkloadForm

SIDES_KEPT = 64
"""Delivered states of disputes in memory, up to 1 MiB each, while others are missing."""


@dataclass(frozen=True, slots=True)
class ClaimedSlot:
    """The slot that a claim is about. Its items are the segments of the last leg."""

    claim_id: bytes
    task_id: bytes
    task: Task
    place: int

    @property
    def slot(self) -> Slot:
        """The slot with its result."""
        return self.task.slots[self.place]

    @property
    def segments(self) -> range:
        """The segments for which the provider is liable, in the order of the items."""
        return own_segments(self.task.order, self.task.behind)

    def index_at(self, point: int) -> int:
        """Return the item at a point. Raise ExecutionError for a point outside the claim."""
        index = item_at(point)
        if not 0 <= index < len(self.segments):
            raise ExecutionError("the claim has no item at this point", code="no_such_point")
        return index


@dataclass(frozen=True, slots=True)
class AskedRun:
    """A request, ready to be computed on any device."""

    parts: Parts[TaskPort]
    form: WorkloadForm
    opened: UnitInput
    begun: BegunRun

    async def segment(self, index: int, state: bytes) -> tuple[bytes, bytes] | None:
        """Return the state after a segment and its trail, or None if `state` is no state of the request there.

        Raise ExecutionError if this machine cannot compute it.
        """
        if index == 0 and state != self.begun.state:
            return None
        request, boundaries = self.opened.request, self.begun.boundaries
        try:
            # No steps: the worker only checks the state and counts its steps. A provider could leave steps out, and
            # the readers would make up for them.
            there, _ = await self.parts.workers.advance(self.form, request, state, 0)
            if there.done != boundaries[index]:
                return None
            return await stepped(self.parts, self.form, request, state, boundaries[index + 1] - boundaries[index])
        except BadStateError:
            return None


@dataclass(slots=True)
class DifferingRuns:
    """The delivered runs of a gang with different results, of which false ones drop out one after another.

    A right run is never out: it delivers to every voter, it begins as stated, and it has the hash of each computed
    state. So all voters find the same last one, whatever the others deliver to whom.
    """

    dispute_id: bytes
    task: Task
    run: AskedRun
    delivered: DeliveredSides[DeliveredState]
    fetch: Callable[[int, bytes, bytes], Awaitable[DeliveredState]]
    """Returns the delivery of a segment, by the segment, an owner and its root."""
    fetching: Fetching
    patience: Patience
    """True if a run without a delivery is out."""
    digests: dict[bytes, tuple[bytes, ...]] = field(default_factory=dict)
    """The hashes of all states of each run that is left, by its root."""

    async def reduce(self, drawn: int) -> tuple[bytes, bytes] | None:
        """Compare the runs until one is left, and compute a drawn segment of that. Return its root and trail.

        Return None if no run is left. Raise BlobError or DeliveryError for a missing delivery.
        """
        own = own_segments(self.task.order, self.task.behind)
        with self.fetching():
            fetch = partial(self.fetch, own.start)
            found = await self.delivered.all_of(self.dispute_id, self._sides(), fetch, self.patience, item=own.start)
        self.digests = {root: each.digests for root, each in found.items() if self._begins_right(each.digests)}
        while len(self.digests) > 1:
            pairs = enumerate(zip(*self.digests.values(), strict=True))
            # Different roots have different hashes, and those up to the leg's start are the same.
            await self._compute(next(index for index, hashes in pairs if len(set(hashes)) > 1) - 1)
        trail = await self._compute(drawn) if self.digests else None
        return None if trail is None else (next(iter(self.digests)), trail)

    async def _compute(self, segment: int) -> bytes | None:
        """Compute a segment from the state before it, which is the same in all runs. Drop the runs that are false.

        Return the trail, or None if no run is left.
        """
        left = {root: owners for root, owners in self._sides().items() if root in self.digests}
        with self.fetching():
            fetch = partial(self.fetch, segment)
            found = await self.delivered.any_of(self.dispute_id, left, fetch, self.patience, item=segment)
        later = None if found is None else await self.run.segment(segment, found.state)
        right = None if later is None else state_hash(later[0])
        self.digests = {root: digests for root, digests in self.digests.items() if digests[segment + 1] == right}
        return later[1] if later is not None and self.digests else None

    def _sides(self) -> dict[bytes, list[bytes]]:
        slots = self.task.slots
        return sides_of([(slot.result.root, slot.provider) for slot in slots if slot.result is not None])

    def _begins_right(self, digests: tuple[bytes, ...]) -> bool:
        return digests[0] == state_hash(self.run.begun.state) and begins_as_stated(digests, self.task)


@dataclass(slots=True)
class FetchedSegments:
    """The items of a claim that a check or a dispute is about, as their provider delivered them."""

    claimed: ClaimedSlot
    run: AskedRun | None
    """None if no reader of the input can use it."""
    delivered: Mapping[int, DeliveredState]
    is_sound: bool
    """True if the blob of the result is the stated run, and opens for the customer."""
    _found: dict[int, tuple[bytes, bytes] | None] = field(default_factory=dict)

    def index_at(self, point: int) -> int:
        """See `FetchedItems`."""
        return self.claimed.index_at(point)

    async def check(self, index: int, seed: bytes, _activity: Activity) -> ItemSample | None:
        """Compute an item."""
        found = await self._computed(index)
        return _sample(index, seed, found[1]) if found is not None and self._is_right(index, found) else None

    async def is_confirmed_wrong(self, index: int, _activity: Activity) -> bool:
        """See `FetchedItems`. A blob that is not sound needs no computation."""
        self._found.pop(index, None)
        return not self._is_right(index, await self._computed(index))

    async def vote(self, index: int, seeds: tuple[bytes, ...]) -> ItemVote:
        """See `FetchedItems`. The answer is the hash of the right state after the item, if there is one."""
        found = None if self.run is None else await self._computed(index)
        if found is None:
            return vote_without_items(Verdict.WRONG, self.claimed.claim_id, seeds)
        verdict = Verdict.RIGHT if self._is_right(index, found) else Verdict.WRONG
        return ItemVote(verdict, state_hash(found[0]), tuple(_sample(index, seed, found[1]) for seed in seeds))

    async def _computed(self, index: int) -> tuple[bytes, bytes] | None:
        if self.run is None:
            raise ExecutionError("this machine cannot use the input", code="invalid_input")
        if index not in self._found:
            segment = self.claimed.segments[index]
            self._found[index] = await self.run.segment(segment, self.delivered[index].state)
        return self._found[index]

    def _is_right(self, index: int, found: tuple[bytes, bytes] | None) -> bool:
        stated = self.delivered[index].digests[self.claimed.segments[index] + 1]
        return self.is_sound and found is not None and state_hash(found[0]) == stated


@dataclass(frozen=True, slots=True)
class OwnSegments:
    """The items of this provider's own claim, by the trails of its run."""

    claimed: ClaimedSlot
    run: TaskRun

    def index_at(self, point: int) -> int:
        """See `OwnItems`."""
        return self.claimed.index_at(point)

    async def sample(self, index: int, seed: bytes) -> ItemSample:
        """See `OwnItems`. Nothing is computed."""
        return _sample(index, seed, self.run.trails[index])


class TaskItemSource(ItemSource):
    """The items of tasks."""

    def __init__(self, parts: Parts[TaskPort], book: TaskBook) -> None:
        """It computes on any free device. Own runs are in the book."""
        self._parts = parts
        self._book = book
        self._sides = DeliveredSides[DeliveredState](SIDES_KEPT)

    async def fetched(self, claim_id: bytes, claim: ResultClaim, disputed: Disputed | None = None) -> FetchedSegments:
        """See `ItemSource`."""
        claimed = await self._claimed(claim_id, claim, is_final=True)
        delivered: dict[int, DeliveredState] = {}
        for index in _asked_items(claimed, claim, disputed):
            delivered[index] = await self._delivered(claimed, claim, disputed, index)
        first = next(iter(delivered.values()))
        run = await self._usable_run(claimed.task)
        if run is None:
            return FetchedSegments(claimed, run, delivered, is_sound=False)
        try:
            reply_key = run.opened.reply_key
            is_right_blob = await is_sound(self._parts, claimed.task, claimed.slot, first.key, reply_key)
        except SealError as error:
            # Another reader may have got the right key, so this is no proof of a wrong result.
            raise DeliveryError(f"the delivered key does not open the result: {error}", code="other_key") from None
        return FetchedSegments(claimed, run, delivered, is_right_blob)

    async def own(self, claim_id: bytes, claim: ResultClaim) -> OwnSegments:
        """See `ItemSource`. The trails are those on this machine's disk."""
        claimed = await self._claimed(claim_id, claim, is_final=True)
        task_run = self._own_run(claimed.task_id, claimed.task)
        if task_run is None:
            raise ExecutionError("its states are being read from the disk", code="run_not_read")
        # Other files than those of the claim must not be shown: wrong samples count as a lie.
        if trace_root(task_run.digests) != claim.terms.root:
            raise ExecutionError("the run on the disk differs from the claim", code="other_commitment")
        return OwnSegments(claimed, task_run)

    async def right_side(self, disputed: Disputed, fetching: Fetching, patience: Patience) -> ItemVote:
        """Compute the first segment after which the delivered runs differ, until one is left, and sample that.

        Without a right result, the task is the answer.
        """
        dispute_id, dispute = disputed
        task_id, seeds = dispute.terms.work, seeds_of(dispute)
        task = await self._final_task(task_id)
        segments = own_segments(task.order, task.behind)
        if not segments:
            raise ExecutionError("this release computes no result without a trace", code="no_trace")
        with fetching():
            run = await self._usable_run(task)
        if run is None:
            return vote_without_items(Verdict.WRONG, task_id, seeds)
        # Drawn from the new seed, so that a voter without a computation cannot know the sample.
        index = int.from_bytes(seeds[-1], "little") % len(segments)
        fetch = partial(self._side, dispute_id, task_id, task)
        runs = DifferingRuns(dispute_id, task, run, self._sides, fetch, fetching, patience)
        found = await runs.reduce(segments[index])
        self._sides.forget(dispute_id)
        if found is None:
            return vote_without_items(Verdict.RIGHT, task_id, seeds)
        root, trail = found
        return ItemVote(Verdict.RIGHT, root, tuple(_sample(index, seed, trail) for seed in seeds))

    async def input_vote(self, dispute: Dispute, fetching: Fetching) -> ItemVote:
        """Open the input as a bidder does."""
        task = await self._final_task(dispute.terms.work)
        opening = (
            open_program(self._parts, task)
            if runs_program(task.order)
            else open_task(self._parts, form_of(self._parts, task.order), task)
        )
        verdict = Verdict.RIGHT
        try:
            with fetching():
                await opening
        except UnusableInputError:
            verdict = Verdict.WRONG
        return vote_without_items(verdict, dispute.terms.work, seeds_of(dispute))

    async def delivery(self, work_id: bytes, claim: ResultClaim | None, item: int) -> bytes:
        """See `DeliverySource`. Of differing results, the item is a segment of the run."""
        if claim is None:
            task = (await self._parts.chain.tasks([work_id])).get(work_id)
            own = [] if task is None else [slot for slot in task.slots if slot.provider == self._parts.identity.stash]
            if task is None or not own or item not in own_segments(task.order, task.behind):
                raise RefusedDeliveryError("no such segment here")
            return self._delivery(work_id, task, own[0], item)
        claimed = await self._claimed(work_id, claim, is_final=False)
        if claimed.slot.provider != self._parts.identity.stash or item >= len(claimed.segments):
            raise RefusedDeliveryError("no such item here")
        return self._delivery(claimed.task_id, claimed.task, claimed.slot, claimed.segments[item])

    def _delivery(self, task_id: bytes, task: Task, slot: Slot, segment: int) -> bytes:
        """Return the delivery of a segment of this provider's own run. Raise RefusedDeliveryError without it."""
        result, task_run = slot.result, self._own_run(task_id, task)
        if result is None:
            raise RefusedDeliveryError("no result here")
        # After a restart the run is still being read from the disk.
        if task_run is None:
            raise RefusedDeliveryError("its states are being read from disk; ask again")
        state, blob = task_run.folder.state(segment), self._parts.store.get(result.blob)
        if state is None or blob is None:
            raise RefusedDeliveryError("that state or the result is no longer here")
        key = self._parts.identity.seal_key.opened(blob).key
        return encode_task_delivery(DeliveredState(tuple(task_run.digests), state, key))

    async def _claimed(self, claim_id: bytes, claim: ResultClaim, *, is_final: bool) -> ClaimedSlot:
        """Return the slot of a claim. Raise ChainError if the chain does not have its result."""
        chain = self._parts.chain
        task_id = await chain.task_of_claim(claim_id)
        task = None if task_id is None else (await chain.tasks([task_id], final=is_final)).get(task_id)
        if task_id is None or task is None:
            raise ChainError("the chain does not have the task of the claim", code="task_not_final")
        places = (place for place in range(len(task.slots)) if slot_case(task_id, place) == claim_id)
        place = next(places, None)
        result = None if place is None else task.slots[place].result
        if place is None or result is None or result.root != claim.terms.root:
            raise ChainError("the chain does not have the result of the claim", code="task_not_final")
        claimed = ClaimedSlot(claim_id, task_id, task, place)
        if not task.order.segments or len(claimed.segments) != claim.terms.items:
            raise ExecutionError("this release computes no result without a trace", code="no_trace")
        return claimed

    async def _final_task(self, task_id: bytes) -> Task:
        """Return a task in the final chain, so that no other input is examined. Raise ChainError if it has none."""
        task = (await self._parts.chain.tasks([task_id], final=True)).get(task_id)
        if task is None:
            raise ChainError("the final chain does not have the task", code="task_not_final")
        return task

    async def _usable_run(self, task: Task) -> AskedRun | None:
        """Return the request of a task, begun, or None if no bidder could use its input.

        Raise BlobError, ChainError or ExecutionError.
        """
        form = form_of(self._parts, task.order)
        try:
            opened = await open_task(self._parts, form, task)
            return AskedRun(self._parts, form, opened, await self._parts.workers.begin(form, opened.request))
        except (UnusableInputError, BadRequestError):
            return None

    async def _delivered(
        self, claimed: ClaimedSlot, claim: ResultClaim, disputed: Disputed | None, index: int
    ) -> DeliveredState:
        dispute_id = None if disputed is None else disputed[0]
        delivery = await fetched_delivery(
            self._parts, claim.terms.provider, claimed.claim_id, dispute_id, index, TASK_DELIVERY_MAX
        )
        segments = claimed.task.order.segments
        return read_task_delivery(delivery, claim.terms.root, segments, claimed.segments[index])

    async def _side(
        self, dispute_id: bytes, task_id: bytes, task: Task, segment: int, owner: bytes, root: bytes
    ) -> DeliveredState:
        delivery = await fetched_delivery(self._parts, owner, task_id, dispute_id, segment, TASK_DELIVERY_MAX)
        return read_task_delivery(delivery, root, task.order.segments, segment)

    def _own_run(self, task_id: bytes, task: Task) -> TaskRun | None:
        task_run = self._book.run(task_id, task)
        return task_run if task_run is not None and task_run.is_whole else None


def _asked_items(claimed: ClaimedSlot, claim: ResultClaim, disputed: Disputed | None) -> list[int]:
    """Return the items that a check or a dispute is about, each once."""
    if disputed is None:
        return list(dict.fromkeys(claimed.index_at(point) for point in claim.points))
    terms = disputed[1].terms
    return [claimed.index_at(terms.index * ITEM_WEIGHT if terms.point is None else terms.point)]


def _sample(index: int, seed: bytes, trail: bytes) -> ItemSample:
    return ItemSample(index, ITEM_WEIGHT, trail_fingerprint(seed, [trail]))
