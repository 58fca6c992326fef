"""The rungs of a task with a trace: a run in segments, of which judges compute a part.

Judges compute the same here as in `gpu_tasks/provider/tasks/task_verdicts.py`, without fetching and unsealing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from benchmarks.ladder.rungs import AUDIT_JUDGES, TRACE_AUDIT_CHANCE, Found, task_bars
from benchmarks.ladder.statements import checked, signed_milestone
from benchmarks.ladder.timer import lowest
from gpu_tasks.data.run_states import encode_run_state, read_run_state, root_of, state_index
from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.showing import ShownStretch, TraceStretch, is_shown, looked_at
from gpu_tasks.traces.trace import (
    TraceFraudProof,
    has_form,
    is_in_trace,
    proof_of_fraud,
    state_hash,
    trace_root,
    traced_state,
)
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.segment_checks import convicts
from gpu_tasks.workloads.stepwise import StepwiseWorkload, states

MILESTONES = 4
_SEED, _SLOT = b"\x05" * 32, b"\x06" * 32


@dataclass(frozen=True, slots=True)
class TaskSize:
    """A request, as a line of a customer's file with its options."""

    label: str
    text: str
    cost_max: int
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run: the hashes of its states, and the kept states."""

    digests: tuple[bytes, ...]
    kept: Mapping[int, bytes]

    @property
    def segments(self) -> int:
        """The number of segments."""
        return len(self.digests) - 1

    @property
    def root(self) -> bytes:
        """The root of the trace."""
        return trace_root(self.digests)


def measured_task(form: WorkloadForm, workload: StepwiseWorkload, size: TaskSize, turns: int) -> list[Found]:
    """Return all rungs at one size. Raise RuntimeError if a check refuses a right result or accepts a false one."""
    request = form.encode(size.text, size.cost_max, size.options, bytes(32))
    segments = form.segments(request)
    order = order_of(form, segments)
    lied_at = segments // 2
    wanted = looked_at(_SEED, _SLOT, range(segments), lied_at)
    held = [state_index(order, number) for number in range(1, order.milestones + 1)]
    done = computed(workload, request, {*(each.first for each in wanted), lied_at, *held})
    statements = [
        signed_milestone(number, root_of(done.digests[: at + 1]), 0) for number, at in enumerate(held, start=1)
    ]
    blobs = [encode_run_state(done.digests[: at + 1], done.kept[at]) for at in held]
    roots = [root_of(done.digests[: at + 1]) for at in held]
    shown = [
        ShownStretch(traced_state(done.digests, each.first), traced_state(done.digests, each.end)) for each in wanted
    ]
    root, (false_root, proof) = done.root, lie_about(done.digests, lied_at)
    seconds = lowest(
        {
            "provider": partial(computed, workload, request, frozenset()),
            "milestones": partial(_each_checked, statements),
            "checkpoints": partial(_all_read, order, blobs, roots),
            "shown": partial(_demand, partial(is_shown, root, segments, wanted, shown)),
            "parts": partial(_judged, workload, request, root, wanted, shown, done.kept),
            "fraud claim": partial(_demand, partial(has_form, false_root, segments, proof)),
            "fraud proof": partial(_convicted, workload, request, false_root, proof, done.kept[lied_at]),
        },
        turns,
    )
    taken = seconds | {"final audit": TRACE_AUDIT_CHANCE * AUDIT_JUDGES * seconds["parts"]}
    return [
        Found(form.name, "task", size.label, rung, seconds["provider"], taken[rung], bar)
        for rung, bar in task_bars(segments).items()
    ]


def computed(workload: StepwiseWorkload, request: bytes, kept: frozenset[int] | set[int]) -> Run:
    """Compute and hash all states, as a provider does. Keep the states with the indices `kept`."""
    digests, found = [], {}
    for index, state in enumerate(states(workload.begin(request))):
        digests.append(state_hash(state))
        if index in kept:
            found[index] = state
    return Run(tuple(digests), found)


def lie_about(digests: tuple[bytes, ...], index: int) -> tuple[bytes, TraceFraudProof]:
    """Return the root of a trace that is false after segment `index`, and the proof of the fraud."""
    lies = [*digests[: index + 1], *(state_hash(digest) for digest in digests[index + 1 :])]
    return trace_root(lies), proof_of_fraud(lies, index, digests[index + 1])


def order_of(form: WorkloadForm, segments: int) -> TaskOrder:
    """Return a task for a run of `segments` segments. The benchmark uses only its segments and milestones."""
    return TaskOrder(
        task_hash=bytes(32),
        workload=form.workload_id,
        input_root=bytes(32),
        input_blob=bytes(32),
        sealed_at=0,
        classes=1,
        milestones=min(MILESTONES, segments),
        segments=segments,
        run_blocks=1,
        price_max=1,
        time_value=None,
        loss=None,
        blocks_max=1,
        collateral_min=1,
        slots=1,
        is_homogeneous=True,
        auctions=1,
    )


def _each_checked(statements: Sequence[bytes]) -> None:
    for statement in statements:
        checked(statement)


def _all_read(order: TaskOrder, blobs: Sequence[bytes], roots: Sequence[bytes]) -> None:
    for number, (blob, root) in enumerate(zip(blobs, roots, strict=True), start=1):
        read_run_state(blob, order, number, root)


def _judged(
    workload: StepwiseWorkload,
    request: bytes,
    root: bytes,
    wanted: Sequence[TraceStretch],
    shown: Sequence[ShownStretch],
    held: Mapping[int, bytes],
) -> None:
    """Check that each stretch's state is in the trace, then compute the stretch from it."""
    run = workload.begin(request)
    run.initial_state()  # a worker computes it at the start of each run, also when no drawn stretch needs it
    for stretch, each in zip(wanted, shown, strict=True):
        state = held[stretch.first]
        is_its_state = (
            is_in_trace(root, run.segments, stretch.first, each.before)
            and is_in_trace(root, run.segments, stretch.end, each.after)
            and state_hash(state) == each.before.digest
        )
        steps = run.boundary(stretch.end) - run.boundary(stretch.first)
        if not is_its_state or state_hash(run.advance(state, steps)) != each.after.digest:
            raise RuntimeError(f"segments {stretch.first} to {stretch.end} are right, and refused")


def _convicted(workload: StepwiseWorkload, request: bytes, root: bytes, proof: TraceFraudProof, state: bytes) -> None:
    _demand(partial(convicts, workload.begin(request), root, proof, state))


def _demand(check: Callable[[], bool]) -> None:
    if not check():
        raise RuntimeError("a correct result was refused")
