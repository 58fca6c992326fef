"""A prepared job or lease: its request, its intervals, its order.

Invariant: the order's hash covers the whole request, so a bidder knows the exact work. Time is rounded up to whole
intervals, and an interval to at least a block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.money import collateral_min
from gpu_tasks.market.training.orders import INTERVALS_MAX, CheckedBy, TaskOrder
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.market.training.terms import TaskTerms, default_loss
from gpu_tasks.tasks import container_request
from gpu_tasks.tasks.canonical import CanonicalTask, task_hash_of
from gpu_tasks.tasks.container_task import ContainerFile, SavedImage
from gpu_tasks.tasks.order import AUCTIONS, StoredInput
from gpu_tasks.tasks.quantities import written_span
from runtime.cryptography.hashing import blake2_256

INTERVAL_MS_USUAL = 60_000
INTERVAL_MS_MAX = 300_000
"""Each side can lose at most one interval, so five minutes. A chain may allow less."""
LONGEST = written_span(INTERVALS_MAX * INTERVAL_MS_MAX)
NO_MODEL = bytes(32)


@dataclass(frozen=True, slots=True)
class PreparedContainer:
    """A job or lease with its request. Implements `AskedTask`."""

    file: ContainerFile
    request: bytes

    @property
    def name(self) -> str:
        """The customer's name for it."""
        return self.file.task.name

    @property
    def classes(self) -> tuple[DeviceClass, ...]:
        """The suitable classes of devices."""
        return self.file.task.classes

    def with_parts(self, size: int, parts: Sequence[container_request.ImagePart]) -> "PreparedContainer":
        """Return the task with the parts of its archive, once they are stored. `size` is uncompressed."""
        request = container_request.REQUEST.decode(self.request)
        assert isinstance(request.image, container_request.ArchivedImage), "the image is an archive"
        image = replace(request.image, size=size, parts=tuple(parts))
        return replace(self, request=container_request.REQUEST.encode(replace(request, image=image)))

    @property
    def checked_by(self) -> CheckedBy:
        """The way in which the work is checked: time is paid, or copies are compared."""
        if self.file.task.copies > 1:
            return CheckedBy.REPLICATED
        return CheckedBy.LEASED if self.file.task.is_lease else CheckedBy.METERED

    def intervals(self, slot_ms: int) -> int:
        """Return the number of paid intervals, 0 if a result is paid. Raise TaskFileError as `terms`."""
        return 0 if self.file.task.copies > 1 else intervals_of(self.file, slot_ms)[1]

    def terms(self, task_rules: TaskRules, slot_length_ms: int) -> TaskTerms:
        """Return its terms for bids. Raise TaskFileError if a chain would refuse them."""
        task, (blocks, _) = self.file.task, intervals_of(self.file, slot_length_ms)
        return TaskTerms(
            price_max=task.price_max,
            time_value=0,
            loss=default_loss(task.price_max) if task.loss is None else task.loss,
            blocks_max=blocks,
            collateral_min=collateral_min(task_rules, task.price_max, items=1, customer_minimum=task.collateral),
            slots=task.copies,
        )

    def order(self, stored: StoredInput, task_rules: TaskRules, slot_length_ms: int) -> TaskOrder:
        """Return the order to submit. Raise TaskFileError if a chain with these slots would refuse its terms."""
        task, terms = self.file.task, self.terms(task_rules, slot_length_ms)
        interval_count = max(1, self.intervals(slot_length_ms))
        return TaskOrder(
            task_hash=container_hash(self.request, interval_count, task.classes, task.copies),
            workload=container_request.CONTAINER_WORKLOAD,
            input_root=stored.root,
            input_blob=stored.blob,
            sealed_at=stored.sealed_at,
            classes=sum(1 << kind for kind in task.classes),
            milestones=interval_count,
            segments=0,
            run_blocks=0,
            price_max=terms.price_max,
            time_value=0,
            loss=task.loss,
            blocks_max=terms.blocks_max,
            collateral_min=task.collateral,
            slots=task.copies,
            auctions=AUCTIONS,
            checked_by=self.checked_by,
        )


def container_hash(request: bytes, intervals: int, classes: tuple[DeviceClass, ...], copy_count: int = 1) -> bytes:
    """Return the hash that names a job or a lease on a chain. A replicated job has one part."""
    return task_hash_of(
        CanonicalTask(
            workload=container_request.CONTAINER_WORKLOAD,
            model=NO_MODEL,
            request=blake2_256(request),
            request_bytes=len(request),
            cost=0,
            milestones=intervals,
            slots=copy_count,
            classes=classes,
        )
    )


def prepare_container(file: ContainerFile, inputs: Mapping[str, bytes], slot_ms: int) -> PreparedContainer:
    """Return the request with `inputs`, files by name in /in. Raise TaskFileError if they are too large."""
    task = file.task
    if sum(map(len, inputs.values())) > container_request.INPUT_BYTES_MAX:
        most_bytes = f"{container_request.INPUT_BYTES_MAX:,}"
        text = f"have more than {most_bytes} bytes together; put data into the image, or copy it with `ogpu cp`"
        raise file.refused("spec.run.inputs", text, "inputs_too_large")
    kept = 0 if task.keep is None else task.keep.in_blocks(slot_ms)
    request = container_request.ContainerRequest(
        version=container_request.CONTAINER_VERSION,
        image=_asked_image(task.image),
        command=task.command,
        # Sorted, like all lists here, so that the same request has the same bytes.
        environment=tuple(
            container_request.EnvironmentVariable(*variable) for variable in sorted(task.environment.items())
        ),
        secrets=tuple(sorted(task.secrets)),
        inputs=tuple(container_request.RequestFile(*input_file) for input_file in sorted(inputs.items())),
        ports=tuple(sorted(task.ports)),
        network=task.network,
        limits=container_request.AskedLimits(
            cpu_thousandths=task.cpu_thousandths,
            memory_bytes=task.memory_bytes,
            processes=task.processes,
            workspace_bytes=task.disk_bytes,
        ),
        gpus=task.gpus,
        is_lease=task.is_lease,
        keep_blocks=kept,
    )
    return PreparedContainer(file, container_request.REQUEST.encode(request))


def _asked_image(image: container_request.RegistryImage | SavedImage) -> container_request.AskedImage:
    """Return the image of a request. An archive has no parts yet: they get addresses when they are stored."""
    return container_request.ArchivedImage(image.sha256, 0, ()) if isinstance(image, SavedImage) else image


def intervals_of(file: ContainerFile, slot_ms: int) -> tuple[int, int]:
    """Return the paid blocks and the number of intervals. Raise TaskFileError if these are too many or too long."""
    task = file.task
    # Copies are paid by their result, so their whole time is one interval.
    if task.copies > 1:
        return max(1, task.time.in_blocks(slot_ms)), 1
    time_blocks = max(1, task.time.in_blocks(slot_ms))
    if task.interval is None:
        # The usual interval, or the shortest that needs no more intervals than a task can have.
        interval_blocks = max(1, INTERVAL_MS_USUAL // slot_ms, -(-time_blocks // INTERVALS_MAX))
        if interval_blocks * slot_ms > INTERVAL_MS_MAX:
            raise file.refused(
                "spec.limits.time", f"is longer than {LONGEST}, the most that a task can pay for; shorten it",
                "time_too_long",
            )  # fmt: skip
    else:
        interval_blocks = max(1, task.interval.in_blocks(slot_ms))
    if interval_blocks * slot_ms > INTERVAL_MS_MAX:
        raise file.refused(
            "spec.limits.interval",
            "is longer than five minutes, the most that one side may lose; shorten it",
            "interval_too_long",
        )
    # A task that is shorter than an interval pays for its own time only.
    interval_blocks = min(interval_blocks, time_blocks)
    interval_count = -(-time_blocks // interval_blocks)
    if interval_count > INTERVALS_MAX:
        longest_minutes = INTERVALS_MAX * interval_blocks * slot_ms // 60_000
        text = (
            f"has {interval_count} intervals, and at most {INTERVALS_MAX} are allowed; "
            f"give {longest_minutes} minutes or less"
        )
        raise file.refused("spec.limits.time", f"{text}, or longer intervals", "too_many_intervals")
    return interval_count * interval_blocks, interval_count
