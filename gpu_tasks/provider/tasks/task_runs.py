"""The run of a task on this machine: its request, its states so far, and the next one.

Invariants:

* A state and its segment's trail are on the disk before the next is computed, so a restart continues from the newest.
* A state with the trail of its segment is never computed again. If a trail is lost, its segment is.
* A run begins with the state that the chain names, whichever provider computed it.

A chunk of steps is short, so that no other user waits long for the device.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.run_states import state_index
from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.provider.chain.port import NetworkPort
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.work import NOTHING_USED, usage_of
from gpu_tasks.provider.execution.executor import BadStateError, ExecutionError, LaterState
from gpu_tasks.provider.tasks.bid_terms import MeasuredRun
from gpu_tasks.provider.tasks.checkpoint_blobs import fetch_run
from gpu_tasks.provider.tasks.run_folder import RunFolder
from gpu_tasks.provider.tasks.task_inputs import form_of, open_task
from gpu_tasks.traces.trace import state_hash
from gpu_tasks.workloads.fingerprints import first_trail, trail_from
from gpu_tasks.workloads.form import WorkloadForm

CHUNK_US = 3_000_000
"""The approximate time of one request to the worker."""
MEASURED_US = 300_000
"""The time of a measurement, unless the whole run is shorter."""


def together(first_usage: Usage, second_usage: Usage) -> Usage:
    """Return the usage of two consecutive pieces of work: the greater peak of memory, the sum of all else."""
    return Usage(
        first_usage.work_units + second_usage.work_units,
        first_usage.gpu_ms + second_usage.gpu_ms,
        first_usage.energy_mj + second_usage.energy_mj,
        first_usage.cpu_ms + second_usage.cpu_ms,
        first_usage.wall_ms + second_usage.wall_ms,
        max(first_usage.memory_peak_bytes, second_usage.memory_peak_bytes),
    )


@dataclass
class TaskRun:
    """One leg of one task.

    `digests` are the hashes of the states from the first of the task to the newest. `trails` are those of this leg's
    segments so far, in their order.
    """

    parts: Parts[NetworkPort]
    device: bytes | None
    """None for any free device."""
    form: WorkloadForm
    asked: UnitInput
    boundaries: tuple[int, ...]
    folder: RunFolder
    digests: list[bytes]
    newest: bytes
    """The newest state."""
    step_us: int = 0
    """Microseconds for one step; 0 while unknown."""
    clock: Callable[[], int] = time.monotonic_ns
    """Monotonic nanoseconds."""
    trails: list[bytes] = field(default_factory=list)
    _used: Usage = NOTHING_USED

    @property
    def index(self) -> int:
        """The index of the newest state."""
        return len(self.digests) - 1

    @property
    def is_whole(self) -> bool:
        """True if the run is at its end."""
        return self.index == len(self.boundaries) - 1

    async def compute_next(self, tell: Callable[[int], None] = lambda _: None) -> None:
        """Compute the next state in chunks. `tell` receives the completed steps after each chunk.

        Raise ExecutionError if this machine cannot compute it.
        """
        next_state, trail = self.newest, trail_from(self.digests[self.index])
        steps_done = self.boundaries[self.index]
        boundary_end = self.boundaries[self.index + 1]
        while steps_done < boundary_end:
            chunk_steps = min(boundary_end - steps_done, max(1, CHUNK_US // self.step_us if self.step_us else 1))
            later, chunk_usage = await self._advance_state(next_state, chunk_steps, trail)
            next_state, trail = later.state, trail_of(later)
            self._used = together(self._used, chunk_usage)
            steps_done += chunk_steps
            tell(steps_done)
        # On the disk first: after a restart the run continues from there.
        self.folder.keep_trail(self.index, trail)
        self.folder.keep_state(self.index + 1, next_state)
        self._take_state(next_state, trail)

    def usage_taken(self) -> Usage:
        """Return this process's usage for the run since the last call, without the measurement for a bid."""
        taken_usage, self._used = self._used, NOTHING_USED
        return taken_usage

    async def measure(self) -> MeasuredRun:
        """Measure the time of a step from the newest state on. Raise ExecutionError on failure."""
        steps_left, sample_steps = self.boundaries[-1] - self.boundaries[self.index], 1
        if not self.step_us:
            await self._advance_state(self.newest, min(1, steps_left))  # the first step warms up
            while steps_left and sample_steps * self.step_us < MEASURED_US:
                await self._advance_state(self.newest, min(sample_steps, steps_left))
                if sample_steps >= steps_left:
                    break
                # Doubling finds a measurable number of steps quickly for both slow and fast steps.
                sample_steps *= 2
        return MeasuredRun(self.boundaries, max(1, self.step_us), len(self.newest))

    async def go_on(self) -> None:
        """Continue from the states on the disk. Raise errors as `compute_next` if a lost trail cannot be computed."""
        while not self.is_whole and (newest_state := self.folder.state(self.index + 1)) is not None:
            trail = self.folder.trail(self.index)
            if trail is None:
                await self.compute_next()
            else:
                self._take_state(newest_state, trail)

    def _take_state(self, state: bytes, trail: bytes) -> None:
        self.digests.append(state_hash(state))
        self.trails.append(trail)
        self.newest = state

    async def _advance_state(
        self, state: bytes, step_count: int, trail: bytes | None = None
    ) -> tuple[LaterState, Usage]:
        started_ns = self.clock()
        try:
            later_state, meter_reading = await self.parts.workers.advance(
                self.form, self.asked.request, state, step_count, self.device, trail
            )
        except BadStateError as error:
            raise ExecutionError(f"this machine's own state is invalid: {error}", code="own_state_invalid") from None
        elapsed_us = (self.clock() - started_ns) // 1_000
        self.step_us = max(1, elapsed_us // max(1, step_count))
        return later_state, usage_of(step_count, elapsed_us // 1_000, later_state, meter_reading)


async def prepared_run(
    parts: Parts[NetworkPort], base_path: Path, task_id: bytes, task: Task, device: bytes | None
) -> TaskRun:
    """Return the run of a task's leg on a device (or any), with its beginning on this machine's disk.

    Raise UnusableInputError or BadRequestError for the customer's fault, BlobError or ChainError if something is
    unavailable at the moment, or ExecutionError if this machine cannot run it.
    """
    form, run_folder = form_of(parts, task.order), RunFolder(base_path, task_id, task.behind)
    kept_input = run_folder.input()
    # The store deletes a blob at the end of its life, and a task may run for longer.
    if kept_input is not None and parts.store.get(task.order.input_blob) is None:
        parts.store.put(kept_input, is_own=True)
    opened = await open_task(parts, form, task)
    input_blob = parts.store.get(task.order.input_blob)
    if kept_input is None and input_blob is not None:
        run_folder.keep_input(input_blob)
    begun_run = await parts.workers.begin(form, opened.request, device)
    first_state, earlier_digests = run_folder.state(state_index(task.order, task.behind)), list(run_folder.earlier())
    # After a power cut the folder may be incomplete. The root of a shorter trace would count as a lie.
    if first_state is None or len(earlier_digests) != state_index(task.order, task.behind):
        first_state, earlier_digests = await _first_state(
            parts, task, form, opened, begun_run.state, begun_run.boundaries
        )
        run_folder.keep_earlier(earlier_digests)
        run_folder.keep_state(len(earlier_digests), first_state)
    task_run = TaskRun(
        parts,
        device,
        form,
        opened,
        begun_run.boundaries,
        run_folder,
        [*earlier_digests, state_hash(first_state)],
        first_state,
    )
    await task_run.go_on()
    return task_run


async def _first_state(
    parts: Parts[NetworkPort],
    task: Task,
    form: WorkloadForm,
    opened: UnitInput,
    initial_state: bytes,
    boundaries: tuple[int, ...],
) -> tuple[bytes, list[bytes]]:
    """Return the first state of a leg, and the hashes of the states before it."""
    if not task.behind:
        return initial_state, []
    held_checkpoint = task.checkpoint
    assert held_checkpoint is not None, "a leg after the first begins with a checkpoint"
    # the standby signed with its provider key, but stores are listed by stash
    holder_stash = await parts.chain.stash_of(held_checkpoint.holder) or held_checkpoint.holder
    state_keepers = (holder_stash, *(slot.provider for slot in task.slots))
    fetched_run = await fetch_run(parts, task, held_checkpoint.milestone, state_keepers, is_to_keep=True)
    # The trace proves that a state was stated, not that it belongs to the request at this step.
    await check_state(parts, form, opened.request, fetched_run.state, boundaries[len(fetched_run.digests) - 1])
    return fetched_run.state, list(fetched_run.digests[:-1])


async def stepped(
    parts: Parts[NetworkPort], form: WorkloadForm, encoded_request: bytes, state: bytes, step_count: int
) -> tuple[bytes, bytes]:
    """Return the state after `step_count` steps and the trail of them, in chunks, on any device.

    Raise BadStateError or ExecutionError.
    """
    step_us, trail = 0, first_trail(state)
    while step_count:
        chunk_steps = min(step_count, max(1, CHUNK_US // step_us if step_us else 1))
        started_ns = time.monotonic_ns()
        later_state, _ = await parts.workers.advance(form, encoded_request, state, chunk_steps, trail=trail)
        state, trail = later_state.state, trail_of(later_state)
        step_us, step_count = (
            max(1, (time.monotonic_ns() - started_ns) // 1_000 // chunk_steps),
            step_count - chunk_steps,
        )
    return state, trail


def trail_of(later_state: LaterState) -> bytes:
    """Return the trail that was asked for."""
    assert later_state.trail is not None, "an executor returns a trail if it gets one"
    return later_state.trail


async def check_state(
    parts: Parts[NetworkPort], form: WorkloadForm, encoded_request: bytes, state: bytes, steps_done: int
) -> None:
    """Raise BlobError for a state of another request or step, because no run can continue from it."""
    try:
        next_state, _ = await parts.workers.advance(form, encoded_request, state, 0)
    except BadStateError as error:
        raise BlobError(f"its checkpoint is not a state of its run: {error}", code="invalid_checkpoint") from None
    if next_state.done != steps_done:
        raise BlobError(f"its checkpoint is at step {next_state.done} instead of {steps_done}", code="wrong_step")
