"""A judge's search for the right answer about a task, with the probe that proves its computation.

A case about the input is answered with the input's root, or with none. In a case about a result, the judge computes the
drawn parts from the states that the provider shows. If all are right, the answer is the stated root, otherwise its
`refuted` form.

Invariants:

* Judges refuse the same inputs as bidders.
* A part that its provider does not show counts as wrong, because right states could be shown.
* A probe is over computed states and differs for every seat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.market_reads import endpoint_of
from gpu_tasks.data.sealing import SealError
from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.cases import EARLIER_JUDGES_MAX
from gpu_tasks.market.courts.opinions import Answered, Statement, probe_of
from gpu_tasks.market.training.orders import runs_program
from gpu_tasks.market.training.showing import TraceStretch, judged_stretches, refuted
from gpu_tasks.market.training.tasks import JudgedFor, Slot, Task
from gpu_tasks.provider.chain.port import TaskPort
from gpu_tasks.provider.duties.cases import TASK_CASES, Lacking, Search, SeatedCase, case_number
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.execution.executor import BadStateError
from gpu_tasks.provider.programs.requests import open_program
from gpu_tasks.provider.tasks.checkpoint_blobs import is_sound
from gpu_tasks.provider.tasks.state_answers import PATH, SHOWN_STATE, ShownState, question
from gpu_tasks.provider.tasks.task_inputs import form_of, open_task
from gpu_tasks.provider.tasks.task_runs import stepped
from gpu_tasks.provider.telemetry import Detail
from gpu_tasks.traces.trace import is_in_trace, state_hash
from gpu_tasks.workloads.form import WorkloadForm
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError

UNSHOWN = bytes(32)
"""The probe of a judge that received no states and so computed nothing."""


@dataclass(frozen=True, slots=True)
class TaskCase(SeatedCase):
    """A seat in a case about a slot of a task."""

    task_id: bytes
    task: Task
    place: int

    @property
    def key(self) -> tuple[bytes, int]:
        """The journal's key: later blocks may draw other benches for the same slot."""
        drawn_at = 0 if self.record.round is None else self.record.round.drawn_at
        return self.id, TASK_CASES + case_number(drawn_at, self.seat.bench)

    @property
    def subject(self) -> dict[str, Detail]:
        """Telemetry's fields for the slot."""
        return {"task": self.task_id, "place": self.place}

    @property
    def slot(self) -> Slot:
        """The judged slot."""
        return self.task.slots[self.place]

    @property
    def is_about_input(self) -> bool:
        """True if the case is about the input's availability."""
        return self.task.judged_for is JudgedFor.INPUT


async def find_task_verdict(parts: Parts[TaskPort], case: TaskCase, search: Search) -> Statement:
    """Return the right statement. Raise UnusableInputError if there is none.

    Raise BlobError or ChainError if it cannot be told at the moment.
    """
    if runs_program(case.task.order):  # courts judge only the input of such a task
        form, asking = None, _given(parts, case.task)
    else:
        form = form_of(parts, case.task.order)
        asking = open_task(parts, form, case.task)
    search.lacks = Lacking.INPUT
    asked = await asking
    search.lacks = Lacking.NOTHING
    if case.is_about_input or form is None:
        found = [asked.request]
        opinion = Answered(case.task.order.input_root)
    else:
        is_right, found = await _computed(parts, case, form, asked, search)
        opinion = Answered(_stated(case) if is_right else refuted(_stated(case)))
    probe = _probe(case, asked, found, parts.identity.stash, case.seat.probe_place)
    return Statement(opinion, probe, await _doubted(parts, case, asked, found, opinion))


async def _given(parts: Parts[TaskPort], task: Task) -> UnitInput:
    return (await open_program(parts, task)).given


def unshown(case: TaskCase) -> Statement:
    """Return the statement for a result whose states were unavailable."""
    return Statement(Answered(refuted(_stated(case))), UNSHOWN)


async def _computed(
    parts: Parts[TaskPort], case: TaskCase, form: WorkloadForm, asked: UnitInput, search: Search
) -> tuple[bool, list[bytes]]:
    """Return whether all judged stretches are right, and the computed states up to the first wrong one."""
    run = await parts.workers.begin(form, asked.request)
    if not await _is_sound(parts, case, asked, search):
        return False, []
    found: list[bytes] = []
    for stretch in judged_stretches(case.task_id, case.task, case.place):
        search.lacks = Lacking.STATES
        shown = await _shown(parts, case, stretch)
        search.lacks = Lacking.NOTHING
        # The first state follows from the request, so every judge can compare it.
        if stretch.first == 0 and shown.state != run.state:
            return False, [*found, run.state]
        try:
            # No steps: the worker only checks the state and counts its steps.
            stands, _ = await parts.workers.advance(form, asked.request, shown.state, 0)
        except BadStateError:
            return False, [*found, shown.state]
        if stands.done != run.boundaries[stretch.first]:
            return False, [*found, shown.state]
        steps = run.boundaries[stretch.end] - stands.done
        found.append(await stepped(parts, form, asked.request, shown.state, steps))
        if state_hash(found[-1]) != shown.after.digest:
            return False, found
    return True, found


async def _is_sound(parts: Parts[TaskPort], case: TaskCase, asked: UnitInput, search: Search) -> bool:
    """Return True if the result is the stated run and its customer can open it.

    Each part may be right while the whole is useless. A case about a fraud proof concerns its segment only.
    """
    if case.task.challenge is not None:
        return True
    search.lacks = Lacking.STATES
    found = await is_sound(parts, case.task, case.slot, asked.reply_key)
    search.lacks = Lacking.NOTHING
    return found


async def _shown(parts: Parts[TaskPort], case: TaskCase, stretch: TraceStretch) -> ShownState:
    """Return the state before a stretch from its provider. Raise BlobError if it shows none from its trace."""
    known = await parts.chain.provider(case.slot.provider)
    endpoint = None if known is None else endpoint_of(known)
    if endpoint is None:
        raise BlobError("its provider has no store", code="no_store")
    sealed = await parts.blobs.ask(endpoint, PATH, question(parts.identity, case.id, stretch))
    try:
        shown: ShownState = SHOWN_STATE.decode(parts.identity.seal_key.open(sealed))
    except (SealError, DecodeError) as error:
        raise BlobError(f"its provider returns no state: {error}", code="no_state") from None
    root, segments = _stated(case), case.task.order.segments
    # A provider may show anything. Only a state in its stated trace can convict or clear it.
    is_shown = is_in_trace(root, segments, stretch.first, shown.before)
    if (
        not is_shown
        or not is_in_trace(root, segments, stretch.end, shown.after)
        or state_hash(shown.state) != shown.before.digest
    ):
        raise BlobError("its provider returned a state outside its trace", code="state_outside_trace")
    return shown


def _stated(case: TaskCase) -> bytes:
    result = case.slot.result
    assert result is not None, "a judged provider has a result"
    return result.root


def _probe(case: TaskCase, asked: UnitInput, found: Sequence[bytes], judge: bytes, place: bytes) -> bytes:
    """Return the probe over one computed state, which the seat's place selects."""
    chosen = found[int.from_bytes(place, "little") % len(found)] if found else b""
    return probe_of(case.id, judge, asked.salt, blake2_256(b"ogpu/state-probe" + place + chosen))


async def _doubted(
    parts: Parts[TaskPort], case: TaskCase, asked: UnitInput, found: Sequence[bytes], opinion: Answered
) -> int:
    """Return a court member's bits for earlier judges with the same answer and a wrong probe."""
    if case.seat.bench != BenchKind.COURT:
        return 0
    doubted = 0
    for number, (judge, seat) in enumerate((await parts.chain.judges(case.id))[:EARLIER_JUDGES_MAX]):
        said = seat.statement
        if seat.bench == BenchKind.COURT or said is None or said.opinion != opinion or said.probe == UNSHOWN:
            continue
        if said.probe != _probe(case, asked, found, judge, seat.probe_place):
            doubted |= 1 << number
    return doubted
