"""The run of a task on this machine: its request, its states so far, and the next one.

Invariants:

* A state is on the disk before the next is computed, so a restart continues from the newest.
* An existing state is never computed again.
* A run begins with the state that the chain names, whichever provider computed it.

A chunk of steps is short, so that no other user waits long for the device.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.run_states import state_index
from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.provider.chain.port import NetworkPort
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.work import NOTHING_USED, usage_of
from gpu_tasks.provider.execution.executor import BadStateError, ExecutionError
from gpu_tasks.provider.tasks.bid_terms import MeasuredRun
from gpu_tasks.provider.tasks.checkpoint_blobs import fetch_run
from gpu_tasks.provider.tasks.run_folder import RunFolder
from gpu_tasks.provider.tasks.task_inputs import form_of, open_task
from gpu_tasks.traces.trace import state_hash
from gpu_tasks.workloads.form import WorkloadForm

CHUNK_US = 3_000_000
"""The approximate time of one request to the worker."""
MEASURED_US = 300_000
"""The time of a measurement, unless the whole run is shorter."""


def together(first: Usage, second: Usage) -> Usage:
    """Return the usage of two consecutive pieces of work: the greater peak of memory, the sum of all else."""
    return Usage(
        first.work_units + second.work_units,
        first.gpu_ms + second.gpu_ms,
        first.energy_mj + second.energy_mj,
        first.cpu_ms + second.cpu_ms,
        first.wall_ms + second.wall_ms,
        max(first.memory_peak_bytes, second.memory_peak_bytes),
    )


@dataclass
class TaskRun:
    """One leg of one task. `digests` are the hashes of the states from the first of the task to the newest."""

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
        state, done = self.newest, self.boundaries[self.index]
        end = self.boundaries[self.index + 1]
        while done < end:
            steps = min(end - done, max(1, CHUNK_US // self.step_us if self.step_us else 1))
            state, usage = await self._advance(state, steps)
            self._used = together(self._used, usage)
            done += steps
            tell(done)
        self.folder.keep_state(self.index + 1, state)
        self._take(state)

    def usage_taken(self) -> Usage:
        """Return this process's usage for the run since the last call, without the measurement for a bid."""
        taken, self._used = self._used, NOTHING_USED
        return taken

    async def measure(self) -> MeasuredRun:
        """Measure the time of a step from the newest state on. Raise ExecutionError on failure."""
        left, steps = self.boundaries[-1] - self.boundaries[self.index], 1
        if not self.step_us:
            await self._advance(self.newest, min(1, left))  # the first step warms up
            while left and steps * self.step_us < MEASURED_US:
                await self._advance(self.newest, min(steps, left))
                if steps >= left:
                    break
                # Doubling finds a measurable number of steps quickly for both slow and fast steps.
                steps *= 2
        return MeasuredRun(self.boundaries, max(1, self.step_us), len(self.newest))

    def go_on(self) -> None:
        """Continue from the states on the disk."""
        while not self.is_whole and (state := self.folder.state(self.index + 1)) is not None:
            self._take(state)

    def _take(self, state: bytes) -> None:
        self.digests.append(state_hash(state))
        self.newest = state

    async def _advance(self, state: bytes, steps: int) -> tuple[bytes, Usage]:
        began = self.clock()
        try:
            later, reading = await self.parts.workers.advance(self.form, self.asked.request, state, steps, self.device)
        except BadStateError as error:
            raise ExecutionError(f"this machine's own state is invalid: {error}", code="own_state_invalid") from None
        wall_us = (self.clock() - began) // 1_000
        self.step_us = max(1, wall_us // max(1, steps))
        return later.state, usage_of(steps, wall_us // 1_000, later, reading)


async def prepared_run(
    parts: Parts[NetworkPort], base: Path, task_id: bytes, task: Task, device: bytes | None
) -> TaskRun:
    """Return the run of a task's leg on a device (or any), with its beginning on this machine's disk.

    Raise UnusableInputError or BadRequestError for the customer's fault, BlobError or ChainError if something is
    unavailable at the moment, or ExecutionError if this machine cannot run it.
    """
    form, folder = form_of(parts, task.order), RunFolder(base, task_id, task.behind)
    kept = folder.input()
    # The store deletes a blob at the end of its life, and a task may run for longer.
    if kept is not None and parts.store.get(task.order.input_blob) is None:
        parts.store.put(kept, is_own=True)
    asked = await open_task(parts, form, task)
    blob = parts.store.get(task.order.input_blob)
    if kept is None and blob is not None:
        folder.keep_input(blob)
    begun = await parts.workers.begin(form, asked.request, device)
    first, earlier = folder.state(state_index(task.order, task.behind)), list(folder.earlier())
    if first is None or len(earlier) != state_index(task.order, task.behind):
        first, earlier = await _beginning(parts, task, form, asked, begun.state, begun.boundaries)
        folder.keep_earlier(earlier)
        folder.keep_state(len(earlier), first)
    run = TaskRun(parts, device, form, asked, begun.boundaries, folder, [*earlier, state_hash(first)], first)
    run.go_on()
    return run


async def _beginning(
    parts: Parts[NetworkPort],
    task: Task,
    form: WorkloadForm,
    asked: UnitInput,
    initial: bytes,
    boundaries: tuple[int, ...],
) -> tuple[bytes, list[bytes]]:
    """Return the first state of a leg, and the hashes of the states before it."""
    if not task.behind:
        return initial, []
    held = task.checkpoint
    assert held is not None, "a leg after the first begins with a checkpoint"
    # the standby signed with its provider key, but stores are listed by stash
    holder = await parts.chain.stash_of(held.holder) or held.holder
    keepers = (holder, *(slot.provider for slot in task.slots))
    found = await fetch_run(parts, task, held.milestone, keepers, is_kept=True)
    # The trace proves that a state was stated, not that it belongs to the request at this step.
    await check_state(parts, form, asked.request, found.state, boundaries[len(found.digests) - 1])
    return found.state, list(found.digests[:-1])


async def stepped(parts: Parts[NetworkPort], form: WorkloadForm, request: bytes, state: bytes, steps: int) -> bytes:
    """Return the state after `steps` steps, in chunks, on any device. Raise BadStateError or ExecutionError."""
    step_us = 0
    while steps:
        chunk = min(steps, max(1, CHUNK_US // step_us if step_us else 1))
        began = time.monotonic_ns()
        later, _ = await parts.workers.advance(form, request, state, chunk)
        state = later.state
        step_us, steps = max(1, (time.monotonic_ns() - began) // 1_000 // chunk), steps - chunk
    return state


async def check_state(parts: Parts[NetworkPort], form: WorkloadForm, request: bytes, state: bytes, done: int) -> None:
    """Raise BlobError for a state of another request or step, because no run can continue from it."""
    try:
        found, _ = await parts.workers.advance(form, request, state, 0)
    except BadStateError as error:
        raise BlobError(f"its checkpoint is not a state of its run: {error}", code="invalid_checkpoint") from None
    if found.done != done:
        raise BlobError(f"its checkpoint is at step {found.done} instead of {done}", code="wrong_step")
