"""The keys of a job or a lease in a customer's file: a program in a container, for paid time.

A job ends when its program ends, a lease when its time is up. Invariant: a task that was read keeps to all limits that
need no chain. Images are named by digest, because a tag can change. A container has one device: work on several devices
runs outside of containers.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from gpu_tasks.market.devices.records import CLASS_NAMES, DeviceClass
from gpu_tasks.market.training.orders import REPLICAS
from gpu_tasks.tasks import quantities
from gpu_tasks.tasks.container_request import (
    INPUT_FILES_MAX,
    NAME_BYTES_MAX,
    PORTS_MAX,
    SECRETS_MAX,
    VARIABLES_MAX,
    WORD_BYTES_MAX,
    WORDS_MAX,
    ContainerNetwork,
    RegistryImage,
    is_loader_variable,
)
from gpu_tasks.tasks.declarations import NamedWords, Section, Word, WordList, read_section, written
from gpu_tasks.tasks.file_words import (
    SPAN,
    Classes,
    FilePath,
    ReadFile,
    TaskForm,
    TaskMarket,
    TaskMetadata,
    choice_word,
    path_of,
    quantity_word,
    text_word,
    whole_word,
)
from gpu_tasks.tasks.problems import Problem, TaskFileError
from gpu_tasks.tasks.quantities import BYTES_PATTERN, CPU_PATTERN, QuantityError, TimeSpan, bytes_of, cpu_of
from gpu_tasks.tasks.yaml_tree import FileNode

JOB, LEASE = "Job", "Lease"
GPU_CLASSES = tuple(name for name in CLASS_NAMES if name != "cpu")
GPUS_REFUSED = "a device has one GPU, and a program runs on one device"
REPLICAS_REFUSED = "a container never runs on several devices; submit the task once per device"
NETWORKS = {"none": ContainerNetwork.NONE, "outbound": ContainerNetwork.OUTBOUND}
_INPUT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
_IMAGE = re.compile(r"((?P<repository>[a-z0-9][a-z0-9._:/-]{0,199})@)?sha256:(?P<sha256>[0-9a-f]{64})", re.ASCII)


@dataclass(frozen=True, slots=True)
class SavedImage:
    """An image file of `docker save`, beside the task file."""

    path: str
    sha256: bytes
    """The image's id."""

    def __str__(self) -> str:
        """Return the id and the path, for people."""
        return f"sha256:{self.sha256.hex()}, from {self.path}"


def image_of(text: str) -> RegistryImage:
    """Return the registry image of a text with a digest. Without a repository, the digest is an archive's id."""
    match = _IMAGE.fullmatch(text)
    if match is None:
        # A tag can point to another image tomorrow.
        how_to_find = "run `docker inspect --format '{{.RepoDigests}}'` to see the digest"
        raise QuantityError(
            f"has no digest; write it like ghcr.io/acme/lora@sha256:<64 digits>; {how_to_find}", code="no_digest"
        )
    return RegistryImage(match["repository"] or "", bytes.fromhex(match["sha256"]))


def one_replica(text: str) -> int:
    """Return 1, the only number of replicas in containers."""
    if quantities.whole(text) != 1:
        raise QuantityError(f"is not 1: {REPLICAS_REFUSED}", code="several_replicas")
    return 1


def gpus_of(text: str) -> int:
    """Return 0 or 1: a device has one GPU."""
    gpu_count = quantities.whole(text)
    if gpu_count not in (0, 1):
        raise QuantityError(f"is not 0 or 1: {GPUS_REFUSED}", code="several_gpus")
    return gpu_count


def copies_of(text: str) -> int:
    """Return 1, or a number of copies that can have a majority."""
    copy_count = quantities.whole(text)
    if copy_count not in (1, *REPLICAS):
        raise QuantityError(
            f"is not allowed; give 1, or {', '.join(map(str, REPLICAS))} for results that a majority decides",
            code="invalid_copies",
        )
    return copy_count


def _read_free_text(text: str) -> str:
    has_surrogates = any("\ud800" <= character <= "\udfff" for character in text)  # A surrogate has no UTF-8 encoding
    if has_surrogates or "\x00" in text or len(text.encode()) > WORD_BYTES_MAX:
        raise QuantityError(
            f"is not a text of at most {WORD_BYTES_MAX:,} bytes without zero bytes", code="wrong_letters"
        )
    return text


Image = RegistryImage | SavedImage
_VARIABLE = text_word("[A-Za-z_][A-Za-z0-9_]*", NAME_BYTES_MAX - 1, "a name of letters, digits and _")
_VALUE = Word(
    _read_free_text,
    {"type": ["string", "integer"], "maxLength": WORD_BYTES_MAX},
    letters_max=WORD_BYTES_MAX,
    too_long="put it into a file and name the file in spec.run.inputs or with `ogpu run --in FILE`",
)
Variable = Annotated[str, _VARIABLE]
CommandWord = Annotated[str, _VALUE]
Size = Annotated[int, quantity_word(bytes_of, BYTES_PATTERN)]
TIME_DEFAULT = "1h"


class ProgramRun(Section):
    """The program, and its inputs."""

    image: Annotated[Image, quantity_word(image_of, "^(.+@)?sha256:[0-9a-f]{64}$")] = Field(
        description="the image, named by its digest"
    )
    archive: Annotated[str | None, quantity_word(path_of, "^.+$")] = Field(
        default=None, description="the file of `docker save` with this image"
    )
    command: Annotated[tuple[CommandWord, ...], WordList(WORDS_MAX, may_repeat=True)] = Field(
        default=(), description="the command; by default the image's own"
    )
    environment: Annotated[dict[Variable, CommandWord], NamedWords(_VARIABLE, _VALUE, VARIABLES_MAX)] = Field(
        default={}, alias="env", description="environment variables; every bidder can read them"
    )
    inputs: Annotated[tuple[FilePath, ...], WordList(INPUT_FILES_MAX)] = Field(
        default=(), description="files beside the task file, which the program finds in /in"
    )
    secrets: Annotated[tuple[Variable, ...], WordList(SECRETS_MAX)] = Field(
        default=(), description="names of your environment variables that only the winner receives"
    )
    network: Annotated[ContainerNetwork, choice_word("network", NETWORKS)] = Field(
        default=written("none"), description="the network that it may reach"
    )


class LeaseRun(ProgramRun):
    """The program, its inputs and its ports."""

    ports: Annotated[tuple[Annotated[int, whole_word(1, 65_535)], ...], WordList(PORTS_MAX)] = Field(
        default=(), description="ports that `ogpu port-forward` may reach"
    )


class ProgramResources(Section):
    """The program's share of a device."""

    gpus: Annotated[int, Word(gpus_of, {"type": "integer", "minimum": 0, "maximum": 1}, needs_no_quotes=True)] = Field(
        default=0, description="number of GPUs, 0 or 1"
    )
    classes: Classes = Field(default=(), description="suitable classes of devices")
    cpu_thousandths: Annotated[int, Word(cpu_of, {"type": ["string", "number"], "pattern": CPU_PATTERN})] = Field(
        default=written("1"), alias="cpu", description="cores"
    )
    memory_bytes: Size = Field(
        default=written("512Mi"), alias="memory", description="memory, including files in memory"
    )
    disk_bytes: Size = Field(default=written("64Mi"), alias="disk", description="size of /workspace")
    processes: Annotated[int, whole_word(16, 65_536)] = Field(
        default=128, description="number of processes and threads"
    )
    replicas: Annotated[
        int, Word(one_replica, {"type": "integer", "minimum": 1, "maximum": 1}, needs_no_quotes=True)
    ] = Field(default=1, description="always 1 in containers")


class ProgramLimits(Section):
    """The program's time."""

    time: Annotated[TimeSpan, SPAN] = Field(
        default=written(TIME_DEFAULT), description="the time to buy, at most 255 intervals"
    )
    interval: Annotated[TimeSpan | None, SPAN] = Field(
        default=None, description="the time of one payment, at most 5m; by default 1m, longer for a long task"
    )


class LeaseLimits(ProgramLimits):
    """The lease's time."""

    keep: Annotated[TimeSpan | None, SPAN] = Field(
        default=None, description="time for which its workspace is kept after the end"
    )


class Verify(Section):
    """The check of the outputs."""

    copies: Annotated[int, Word(copies_of, {"type": "integer", "enum": [1, *REPLICAS]}, needs_no_quotes=True)] = Field(
        default=1, description="number of devices of different owners that run the same program"
    )


class ProgramSpec(Section):
    """A program in a container."""

    run: ProgramRun = Field(description="the program and its inputs")
    resources: ProgramResources = Field(
        default_factory=ProgramResources, description="its share of a device, and the suitable devices"
    )
    market: TaskMarket = Field(description="the price limits for all of its time")
    limits: ProgramLimits = Field(default_factory=ProgramLimits, description="the time limits")


class JobSpec(ProgramSpec):
    """A program that ends by itself."""

    verify: Verify = Field(default_factory=Verify, description="the check of its outputs")


class LeaseSpec(ProgramSpec):
    """A program that runs until its time is up."""

    run: LeaseRun = Field(description="the program and its inputs")
    limits: LeaseLimits = Field(default_factory=LeaseLimits, description="the time limits")


class JobFile(TaskForm):
    """The file of a job."""

    kind: Annotated[str, choice_word("kind of task", {JOB: JOB})] = Field(description="the kind of task")
    spec: JobSpec = Field(description="the task")


class LeaseFile(TaskForm):
    """The file of a lease."""

    kind: Annotated[str, choice_word("kind of task", {LEASE: LEASE})] = Field(description="the kind of task")
    spec: LeaseSpec = Field(description="the task")


class ContainerTask(TaskMetadata, LeaseRun, ProgramResources, TaskMarket, LeaseLimits, Verify):
    """All values of a file. Amounts are grains, sizes bytes.

    An interval of None is the usual one, or as long as `time` needs.
    """

    is_lease: bool


ContainerFile = ReadFile[ContainerTask]
FILES: dict[str, type[JobFile | LeaseFile]] = {JOB: JobFile, LEASE: LeaseFile}
RESOURCE_DEFAULTS = {
    name: "" if field.default == () else str(field.default) for name, field in ProgramResources.keys().items()
}


def read_container_task(tree: FileNode, kind: str, name: str) -> ContainerFile:
    """Return the job or lease of a file's tree. Raise TaskFileError with all its problems."""
    form = read_section(FILES[kind], tree, name)
    spec = form.spec
    sections = (form.metadata, spec.run, spec.resources, spec.market, spec.limits)
    task = ContainerTask.joined(
        *sections,
        *([spec.verify] if isinstance(spec, JobSpec) else []),
        is_lease=kind == LEASE,
        image=SavedImage(spec.run.archive, spec.run.image.sha256) if spec.run.archive else spec.run.image,
        classes=_classes(spec.resources),
    )
    read = ReadFile(name, task, tree)
    if problems := list(_problems(spec, read)):
        raise TaskFileError(name, problems)
    return read


def _problems(spec: ProgramSpec, file: ContainerFile) -> Iterator[Problem]:
    """Yield the problems that involve several keys."""
    task, image = file.task, spec.run.image
    # An id alone needs an archive, and a repository excludes one.
    if isinstance(image, RegistryImage) and bool(task.archive) is bool(image.repository):
        of_archive = "is an id without an archive; name the file of `docker save` in `archive`, or give a repository"
        of_registry = "names a registry besides `archive`; remove one of the two, or give only the archive's id"
        code = "two_images" if task.archive else "no_archive"
        yield file.problem("spec.run.image", of_registry if task.archive else of_archive, code)
    for name in filter(is_loader_variable, task.environment):
        text = "changes how programs are loaded, so no provider sets it; set it in the program itself"
        # The file chooses this name, so the message repeats only its beginning.
        yield replace(
            file.problem(f"spec.run.env.{name}", text, "loader_variable"),
            where=f"spec.run.env.{name[:20]}",
        )
    if not task.classes:
        text = f"have no GPU, and `gpus` asks for one; give {' or '.join(GPU_CLASSES)}"
        yield file.problem("spec.resources.classes", text, "no_gpu_class")
    names = [path.rpartition("/")[2] for path in task.inputs]
    for name in names:
        if _INPUT.fullmatch(name) is None:
            text = f"has {name!r:.60}, a name that /in cannot have; rename it with letters, digits, _ . and -"
            yield file.problem("spec.run.inputs", text, "wrong_letters")
    if task.copies != 1:
        for excluded, obstacle in (("spec.run.secrets", "has secrets"), ("spec.limits.interval", "pays for time")):
            if file.names(excluded):
                text = f"{obstacle}, but copies are paid by their results; remove it, or `verify`"
                yield file.problem(excluded, text, "not_for_copies")
    # Files of different folders share /in, so their last names must differ.
    for name in {name for name in names if names.count(name) > 1}:
        yield file.problem("spec.run.inputs", f"has two files with the name {name} in /in; rename one", "same_name")


def _classes(resources: ProgramResources) -> tuple[DeviceClass, ...]:
    """Return the suitable classes, ascending.

    A task with a GPU excludes the class without one, which would never bid.
    """
    suitable = GPU_CLASSES if resources.gpus else CLASS_NAMES
    return tuple(sorted({CLASS_NAMES[name] for name in suitable} & set(resources.classes or CLASS_NAMES.values())))
