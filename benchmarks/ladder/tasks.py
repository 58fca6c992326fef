"""The rungs of a task with a trace: checkers compute some segments of its run.

Checkers compute the same here as in `gpu_tasks/provider/tasks/task_items.py`, without fetching and unsealing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from benchmarks.ladder.rungs import Found, items_checked, task_bars
from benchmarks.ladder.statements import checked, signed_milestone
from benchmarks.ladder.timer import lowest
from gpu_tasks.data.run_states import encode_run_state, read_run_state, root_of, state_index
from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.traces.trace import state_hash, trace_root
from gpu_tasks.workloads.fingerprints import first_trail, trail_fingerprint
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.stepwise import StepwiseWorkload, trailed_segments

MILESTONES = 4
SEED = b"\x05" * 32


@dataclass(frozen=True, slots=True)
class TaskSize:
    """A request, as a line of a customer's file with its options."""

    label: str
    text: str
    cost_max: int
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run: the hashes of its states, the trails of its segments, and the kept states."""

    digests: tuple[bytes, ...]
    trails: tuple[bytes, ...]
    kept: Mapping[int, bytes]

    @property
    def root(self) -> bytes:
        """The root of the trace."""
        return trace_root(self.digests)


def measured_task(form: WorkloadForm, workload: StepwiseWorkload, size: TaskSize, turns: int) -> list[Found]:
    """Return all rungs at one size. Raise RuntimeError if a check refuses a right result."""
    request = form.encode(size.text, size.cost_max, size.options, bytes(32))
    segments = form.segments(request)
    order = order_of(form, segments)
    item = segments // 2
    held = [state_index(order, number) for number in range(1, order.milestones + 1)]
    done = computed(workload, request, {item, *held})
    statements = [
        signed_milestone(number, root_of(done.digests[: at + 1]), 0) for number, at in enumerate(held, start=1)
    ]
    blobs = [encode_run_state(done.digests[: at + 1], done.kept[at]) for at in held]
    roots = [root_of(done.digests[: at + 1]) for at in held]
    seconds = lowest(
        {
            "provider": partial(computed, workload, request, frozenset()),
            "milestones": partial(_each_checked, statements),
            "checkpoints": partial(_all_read, order, blobs, roots),
            "delivery": partial(delivered, done.root, done.digests, item, done.kept[item]),
            "item": partial(recomputed, workload, request, done.digests, item, done.kept[item]),
            "sample": partial(trail_fingerprint, SEED, done.trails),
        },
        turns,
    )
    taken = seconds | {"claim": items_checked(segments) * seconds["item"]}
    return [
        Found(form.name, "task", size.label, rung, seconds["provider"], taken[rung], bar)
        for rung, bar in task_bars(segments).items()
    ]


def computed(workload: StepwiseWorkload, request: bytes, kept: frozenset[int] | set[int]) -> Run:
    """Compute a run with its trails, and hash all states, as a provider does. Keep the states with indices `kept`."""
    run = workload.begin(request)
    first = run.initial_state()
    digests, trails, found = [state_hash(first)], list[bytes](), {0: first}
    for index, (state, trail) in enumerate(trailed_segments(run), start=1):
        digests.append(state_hash(state))
        trails.append(trail)
        if index in kept:
            found[index] = state
    return Run(tuple(digests), tuple(trails), found)


def delivered(root: bytes, digests: tuple[bytes, ...], item: int, state: bytes) -> None:
    """Compare the hashes of all states with the root of a claim, and the state before an item with its hash.

    Raise RuntimeError if they differ.
    """
    if trace_root(digests) != root or state_hash(state) != digests[item]:
        raise RuntimeError("the delivery of a right result was refused")


def recomputed(workload: StepwiseWorkload, request: bytes, digests: tuple[bytes, ...], item: int, state: bytes) -> None:
    """Compute an item, and its fingerprint. Raise RuntimeError if its later state is another."""
    run = workload.begin(request)
    run.initial_state()  # a worker computes it at the start of each run
    steps = run.boundary(item + 1) - run.boundary(item)
    later, trail = run.trailed(state, steps, first_trail(state))
    trail_fingerprint(SEED, [trail])
    if state_hash(later) != digests[item + 1]:
        raise RuntimeError(f"segment {item} is right, and refused")


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
        auctions=1,
    )


def _each_checked(statements: Sequence[bytes]) -> None:
    for statement in statements:
        checked(statement)


def _all_read(order: TaskOrder, blobs: Sequence[bytes], roots: Sequence[bytes]) -> None:
    for number, (blob, root) in enumerate(zip(blobs, roots, strict=True), start=1):
        read_run_state(blob, order, number, root)
