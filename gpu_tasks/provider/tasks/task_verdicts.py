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
from gpu_tasks.provider.duties.cases import Lacking, Search, SeatedCase, case_number
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
        return self.id, case_number(drawn_at, self.seat.bench)

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
        form, opening_input = None, _given_up(parts, case.task)
    else:
        form = form_of(parts, case.task.order)
        opening_input = open_task(parts, form, case.task)
    search.lacks = Lacking.INPUT
    opened = await opening_input
    search.lacks = Lacking.NOTHING
    if case.is_about_input or form is None:
        computed_states = [opened.request]
        opinion = Answered(case.task.order.input_root)
    else:
        is_right, computed_states = await _compute_stretches(parts, case, form, opened, search)
        opinion = Answered(_stated_root(case) if is_right else refuted(_stated_root(case)))
    result_probe = _result_probe(case, opened, computed_states, parts.identity.stash, case.seat.probe_place)
    return Statement(opinion, result_probe, await _doubted_opinions(parts, case, opened, computed_states, opinion))


async def _given_up(parts: Parts[TaskPort], task: Task) -> UnitInput:
    return (await open_program(parts, task)).given


def unshown(case: TaskCase) -> Statement:
    """Return the statement for a result whose states were unavailable."""
    return Statement(Answered(refuted(_stated_root(case))), UNSHOWN)


async def _compute_stretches(
    parts: Parts[TaskPort], case: TaskCase, form: WorkloadForm, opened: UnitInput, search: Search
) -> tuple[bool, list[bytes]]:
    """Return whether all judged stretches are right, and the computed states up to the first wrong one."""
    begun_run = await parts.workers.begin(form, opened.request)
    if not await _is_sound(parts, case, opened, search):
        return False, []
    computed_states: list[bytes] = []
    for stretch in judged_stretches(case.task_id, case.task, case.place):
        search.lacks = Lacking.STATES
        shown_states = await _shown_states(parts, case, stretch)
        search.lacks = Lacking.NOTHING
        # The first state follows from the request, so every judge can compare it.
        if stretch.first == 0 and shown_states.state != begun_run.state:
            return False, [*computed_states, begun_run.state]
        try:
            # No steps: the worker only checks the state and counts its steps.
            state_there, _ = await parts.workers.advance(form, opened.request, shown_states.state, 0)
        except BadStateError:
            return False, [*computed_states, shown_states.state]
        # A provider could leave steps out, and the judges would make up for them.
        if state_there.done != begun_run.boundaries[stretch.first]:
            return False, [*computed_states, shown_states.state]
        stretch_steps = begun_run.boundaries[stretch.end] - state_there.done
        computed_states.append(await stepped(parts, form, opened.request, shown_states.state, stretch_steps))
        if state_hash(computed_states[-1]) != shown_states.after.digest:
            return False, computed_states
    return True, computed_states


async def _is_sound(parts: Parts[TaskPort], case: TaskCase, opened: UnitInput, search: Search) -> bool:
    """Return True if the result is the stated run and its customer can open it.

    Each part may be right while the whole is useless. A case about a fraud proof concerns its segment only.
    """
    if case.task.challenge is not None:
        return True
    search.lacks = Lacking.STATES
    is_state_sound = await is_sound(parts, case.task, case.slot, opened.reply_key)
    search.lacks = Lacking.NOTHING
    return is_state_sound


async def _shown_states(parts: Parts[TaskPort], case: TaskCase, stretch: TraceStretch) -> ShownState:
    """Return the state before a stretch from its provider. Raise BlobError if it shows none from its trace."""
    accused_provider = await parts.chain.provider(case.slot.provider)
    endpoint = None if accused_provider is None else endpoint_of(accused_provider)
    if endpoint is None:
        raise BlobError("its provider has no store", code="no_store")
    sealed_answer = await parts.blobs.ask(endpoint, PATH, question(parts.identity, case.id, stretch))
    try:
        shown_states: ShownState = SHOWN_STATE.decode(parts.identity.seal_key.open(sealed_answer))
    except (SealError, DecodeError) as error:
        raise BlobError(f"its provider returns no state: {error}", code="no_state") from None
    stated_root, segments = _stated_root(case), case.task.order.segments
    # A provider may show anything. Only a state in its stated trace can convict or clear it.
    is_shown = is_in_trace(stated_root, segments, stretch.first, shown_states.before)
    if (
        not is_shown
        or not is_in_trace(stated_root, segments, stretch.end, shown_states.after)
        or state_hash(shown_states.state) != shown_states.before.digest
    ):
        raise BlobError("its provider returned a state outside its trace", code="state_outside_trace")
    return shown_states


def _stated_root(case: TaskCase) -> bytes:
    result = case.slot.result
    assert result is not None, "a judged provider has a result"
    return result.root


def _result_probe(
    case: TaskCase, opened: UnitInput, computed_states: Sequence[bytes], judge_stash: bytes, drawn_place: bytes
) -> bytes:
    """Return the probe over one computed state, which the seat's place selects."""
    chosen_state = (
        computed_states[int.from_bytes(drawn_place, "little") % len(computed_states)] if computed_states else b""
    )
    return probe_of(case.id, judge_stash, opened.salt, blake2_256(b"ogpu/state-probe" + drawn_place + chosen_state))


async def _doubted_opinions(
    parts: Parts[TaskPort], case: TaskCase, opened: UnitInput, computed_states: Sequence[bytes], opinion: Answered
) -> int:
    """Return a court member's bits for earlier judges with the same answer and a wrong probe."""
    if case.seat.bench != BenchKind.COURT:
        return 0
    doubted_bits = 0
    for seat_number, (judge_stash, seat) in enumerate((await parts.chain.judges(case.id))[:EARLIER_JUDGES_MAX]):
        statement = seat.statement
        if (
            seat.bench == BenchKind.COURT
            or statement is None
            or statement.opinion != opinion
            or statement.probe == UNSHOWN
        ):
            continue
        if statement.probe != _result_probe(case, opened, computed_states, judge_stash, seat.probe_place):
            doubted_bits |= 1 << seat_number
    return doubted_bits
