"""A prepared task: its request, its canonical form with the hash on the chain, and its terms.

Invariant: the canonical task has the computation and the number and classes of devices. Price, time and collateral
are on the chain in the clear. Names and labels are in neither. The same task, input and seed give the same bytes on
every machine.
"""

from dataclasses import dataclass
from typing import Annotated

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.money import collateral_min
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.market.training.terms import TaskTerms, default_loss, default_time_value
from gpu_tasks.tasks.training_task import TaskFile, stepwise_forms
from gpu_tasks.workloads.form import RequestError
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U8, U32, Bounded, codec, struct
from runtime.encoding.types import Hash

INPUT_BYTES_MAX = 1024 * 1024
"""No workload takes more. Each has a lower limit of its own."""


@struct
class CanonicalTask:
    """The computation, and the number and classes of its devices."""

    workload: Hash
    model: Hash
    request: Hash
    """The hash of the request's bytes. These contain the input and 32 random bytes, so that they cannot be found by
    trial."""
    request_bytes: U32
    cost: U32
    """In the workload's unit."""
    milestones: U8
    slots: U8
    classes: Annotated[tuple[DeviceClass, ...], Bounded(len(DeviceClass))]
    """The suitable classes, ascending."""


CANONICAL = codec(CanonicalTask)


def task_hash_of(task: CanonicalTask) -> bytes:
    """Return the hash of a canonical task, which names it on a chain."""
    # The prefix separates these hashes from those of other structures.
    return blake2_256(b"ogpu/task/1" + CANONICAL.encode(task))


@dataclass(frozen=True, slots=True)
class PreparedTask:
    """A task with its request, which the provider receives."""

    request: bytes
    segments: int
    """Segments of the run's trace. Milestones are at their ends."""
    check_ppm: int
    """The cost of checking a segment over the cost of computing it, in millionths."""
    canonical: CanonicalTask

    @property
    def encoded(self) -> bytes:
        """The canonical bytes."""
        return CANONICAL.encode(self.canonical)

    @property
    def task_hash(self) -> bytes:
        """The hash that names them on a chain."""
        return task_hash_of(self.canonical)


def prepare(file: TaskFile, content: bytes, seed: bytes) -> PreparedTask:
    """Return the request for an input's bytes, with its canonical task. Raise TaskFileError for an unsuitable input.

    `seed` is 32 random bytes; the file's own seed, if it has one, takes precedence.
    """
    task = file.task
    form = stepwise_forms()[task.workload]
    if len(content) > INPUT_BYTES_MAX:
        raise file.refused(
            "spec.run.input",
            f"{task.input} has more than {INPUT_BYTES_MAX:,} bytes; shorten it",
            "input_too_large",
        )
    try:
        request = form.encode(content.decode("utf-8"), task.length, task.options, task.seed or seed)
    except UnicodeDecodeError as unicode_error:
        raise file.refused(
            "spec.run.input",
            f"{task.input} is not UTF-8 at byte {unicode_error.start}; save it as UTF-8",
            "not_utf8",
        ) from None
    except RequestError as unicode_error:
        raise file.refused("spec.run", f"{task.workload} cannot run this: {unicode_error}", "invalid_request") from None
    segments = form.segments(request)
    # A default number of milestones adapts to the run; only a number that the file gives can be wrong.
    if task.milestones > segments and file.names("spec.run.milestones"):
        text = f"{task.milestones} milestones, but the run has only {segments} segments; lower the number"
        advice = ", or shorten the segments if the workload has an option for it"
        raise file.refused("spec.run.milestones", f"{text}{advice}", "too_many_milestones")
    canonical = CanonicalTask(
        workload=form.workload_id,
        model=form.model_id,
        # Of bytes with 32 random ones inside, so that nobody finds a private input by trial.
        request=blake2_256(request),
        request_bytes=len(request),
        cost=form.cost_asked(request),
        milestones=min(task.milestones, segments),
        slots=task.devices,
        classes=task.classes,
    )
    return PreparedTask(request, segments, form.check_ppm, canonical)


def terms_of(file: TaskFile, segments: int, rules: TaskRules, slot_ms: int) -> TaskTerms:
    """Return the terms for bids of a task whose trace has so many segments, with these rules and slots.

    Raise TaskFileError if a chain would refuse them.
    """
    task = file.task
    blocks_max = task.deadline.in_blocks(slot_ms)
    if blocks_max < 1:
        raise file.refused("spec.limits.deadline", "is shorter than a block; lengthen it", "time_too_short")
    return TaskTerms(
        price_max=task.price_max,
        time_value=_time_value(file, blocks_max, slot_ms),
        loss=default_loss(task.price_max) if task.loss is None else task.loss,
        blocks_max=blocks_max,
        collateral_min=collateral_min(rules, task.price_max, items=max(1, segments), customer_minimum=task.collateral),
        slots=task.devices,
    )


def _time_value(file: TaskFile, blocks_max: int, slot_ms: int) -> int:
    """Return the value of a block. Raise TaskFileError above the price of the whole task, which no chain accepts."""
    task = file.task
    if task.time_value is None:
        return default_time_value(task.price_max, blocks_max)
    block_value = task.time_value.per_block(slot_ms)
    if block_value > task.price_max:
        text = "makes a block worth more than maxPrice; lower it"
        raise file.refused("spec.market.valueOfTime", text, "time_too_dear")
    return block_value
