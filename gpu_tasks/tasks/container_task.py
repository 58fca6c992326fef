"""A job or a lease as a customer's file says it: a program in a container, for a time that is bought.

A job ends when its program ends; a lease when its time is up. Always: a task that was read keeps to all limits that
need no chain; images are named by digest, for a tag means something else tomorrow; one device, one container: work that
takes more than one runs outside of containers.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
    is_loader_variable,
)
from gpu_tasks.tasks.declarations import FileKey, FileReading, KeySection, NamedWords, Word, WordList, read_section
from gpu_tasks.tasks.file_words import (
    COLLATERAL,
    LOSS,
    MAX_PRICE,
    METADATA,
    VERSION,
    ReadFile,
    choice_word,
    deadline_of,
    path_of,
    quantity_word,
    text_word,
    whole_word,
)
from gpu_tasks.tasks.problems import TaskFileError
from gpu_tasks.tasks.quantities import SPAN_PATTERN, QuantityError, TimeSpan
from gpu_tasks.tasks.yaml_tree import FileNode

JOB, LEASE = "Job", "Lease"
GPU_CLASSES = tuple(name for name in CLASS_NAMES if name != "cpu")
GPUS_REFUSED = "a device is one GPU, and devices do not share one program"
REPLICAS_REFUSED = "more than one replica never runs in containers; submit it once for each device"
CPU_THOUSANDTHS_MAX = 512_000
BYTES_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
BYTES_PATTERN = "^[0-9]{1,9}(Ki|Mi|Gi|Ti)$"
CPU_PATTERN = r"^[0-9]{1,3}(\.[0-9]{1,3})?$"
NETWORKS = {"none": ContainerNetwork.NONE, "outbound": ContainerNetwork.OUTBOUND}
_INPUT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
_IMAGE = re.compile(r"((?P<repository>[a-z0-9][a-z0-9._:/-]{0,199})@)?sha256:(?P<sha256>[0-9a-f]{64})", re.ASCII)


@dataclass(frozen=True, slots=True)
class NamedImage:
    """An image of a registry, by digest."""

    repository: str
    """Empty where only the id of an archive is named."""
    sha256: bytes

    def __str__(self) -> str:
        """As a file says it."""
        return f"{self.repository}@sha256:{self.sha256.hex()}"


@dataclass(frozen=True, slots=True)
class SavedImage:
    """An image as `docker save` wrote it, beside the task file."""

    path: str
    sha256: bytes
    """Its id."""

    def __str__(self) -> str:
        """For people."""
        return f"sha256:{self.sha256.hex()}, of {self.path}"


@dataclass(frozen=True, slots=True)
class ContainerTask:
    """What a file asks for. Amounts are grains, sizes bytes."""

    name: str
    labels: Mapping[str, str]
    is_lease: bool
    image: NamedImage | SavedImage
    command: tuple[str, ...]
    environment: Mapping[str, str]
    inputs: tuple[str, ...]
    """Paths; their last parts name the files of /in."""
    secrets: tuple[str, ...]
    network: ContainerNetwork
    ports: tuple[int, ...]
    gpus: int
    classes: tuple[DeviceClass, ...]
    cpu_thousandths: int
    memory_bytes: int
    disk_bytes: int
    processes: int
    price_max: int
    loss: int | None
    collateral: int
    time: TimeSpan
    interval: TimeSpan | None
    """None: the usual interval, or a longer one if the time needs it."""
    keep: TimeSpan | None
    """For so long the workspace of a lease is kept; None: not at all."""
    copies: int = 1
    """How many devices compute it, and are compared."""


ContainerFile = ReadFile[ContainerTask]


def image_of(text: str) -> NamedImage:
    """An image of a registry by its digest, or the id of an archive."""
    found = _IMAGE.fullmatch(text)
    if found is None:
        tagged = "; a tag means something else tomorrow: `docker inspect --format '{{.RepoDigests}}'` says the digest"
        raise QuantityError(f"is a repository with a digest, such as ghcr.io/acme/lora@sha256:<64 digits>{tagged}")
    return NamedImage(found["repository"] or "", bytes.fromhex(found["sha256"]))


def bytes_of(text: str) -> int:
    """`512Mi`, `16Gi`."""
    if re.fullmatch(BYTES_PATTERN, text, re.ASCII) is None:
        raise QuantityError(f"is a size; write it like `512Mi` or `16Gi`, in {', '.join(BYTES_UNITS)}")
    size = int(text[:-2]) * BYTES_UNITS[text[-2:]]
    if not 1 << 20 <= size <= 4_096 << 30:
        raise QuantityError("is 1Mi to 4096Gi; give a size between")
    return size


def cpu_of(text: str) -> int:
    """`1`, `0.5`: thousandths of a core."""
    if re.fullmatch(CPU_PATTERN, text, re.ASCII) is None:
        raise QuantityError("is a number of cores; write it like `1`, `0.5` or `16`")
    whole, _, part = text.partition(".")
    found = int(whole) * 1_000 + int(part.ljust(3, "0") or 0)
    if not 10 <= found <= CPU_THOUSANDTHS_MAX:
        raise QuantityError("is 0.01 to 512 cores; give a number between")
    return found


def one_replica(text: str) -> int:
    """One, and why no more."""
    if quantities.whole(text) != 1:
        raise QuantityError(f"is 1: {REPLICAS_REFUSED}")
    return 1


def gpus_of(text: str) -> int:
    """As many as a device has, or none."""
    found = quantities.whole(text)
    if found not in (0, 1):
        raise QuantityError(f"is 0 or 1: {GPUS_REFUSED}")
    return found


def copies_of(text: str) -> int:
    """One, or as many as can have a majority."""
    found = quantities.whole(text)
    if found not in (1, *REPLICAS):
        raise QuantityError(f"is 1, or {', '.join(map(str, REPLICAS))} that are compared: most of them decide")
    return found


def _free(text: str) -> str:
    halves = any("\ud800" <= letter <= "\udfff" for letter in text)  # of a pair, which stands for one letter
    if halves or "\x00" in text or len(text.encode()) > WORD_BYTES_MAX:
        raise QuantityError(f"is a text of at most {WORD_BYTES_MAX:,} bytes, without a zero byte or half a letter")
    return text


_VARIABLE = text_word("[A-Za-z_][A-Za-z0-9_]*", NAME_BYTES_MAX - 1, "a name of letters, digits and _")
_VALUE = Word(
    _free,
    {"type": ["string", "integer"], "maxLength": WORD_BYTES_MAX},
    letters_max=WORD_BYTES_MAX,
    too_long="put it into a file, and name that in spec.run.inputs, or by `ogpu run --in FILE`",
)
_CLASSES = FileKey("classes", WordList(choice_word("class", list(CLASS_NAMES)), len(CLASS_NAMES)), "that suit")


def _run(*, is_lease: bool) -> KeySection:
    keys = (
        FileKey(
            "image",
            quantity_word(image_of, "^(.+@)?sha256:[0-9a-f]{64}$"),
            "what runs, by its digest",
            is_required=True,
        ),
        FileKey("archive", quantity_word(path_of, "^.+$"), "the image with this id, as `docker save` wrote it"),
        FileKey("command", WordList(_VALUE, WORDS_MAX, may_repeat=True), "its arguments; the image's own if left out"),
        FileKey("env", NamedWords(_VARIABLE, _VALUE, VARIABLES_MAX), "variables, which every bidder can read"),
        FileKey(
            "inputs",
            WordList(quantity_word(path_of, "^.+$"), INPUT_FILES_MAX),
            "files beside the task file, found in /in",
        ),
        FileKey("secrets", WordList(_VARIABLE, SECRETS_MAX), "names of your environment, for the winner alone"),
        FileKey("network", choice_word("network", list(NETWORKS)), "what it may reach", "none"),
    )
    ports = FileKey("ports", WordList(whole_word(1, 65_535), PORTS_MAX), "that you may reach by `ogpu port-forward`")
    return KeySection((*keys, ports) if is_lease else keys)


_GPUS = Word(gpus_of, {"type": "integer", "minimum": 0, "maximum": 1}, needs_no_quotes=True)
_RESOURCES = KeySection(
    (
        FileKey("gpus", _GPUS, "GPUs of the device that go in: a device is one", "0"),
        _CLASSES,
        FileKey("cpu", Word(cpu_of, {"type": ["string", "number"], "pattern": CPU_PATTERN}), "cores", "1"),
        FileKey("memory", quantity_word(bytes_of, BYTES_PATTERN), "with all that it writes to memory", "512Mi"),
        FileKey("disk", quantity_word(bytes_of, BYTES_PATTERN), "/workspace", "64Mi"),
        FileKey("processes", whole_word(16, 65_536), "with threads", "128"),
        FileKey(
            "replicas",
            Word(one_replica, {"type": "integer", "minimum": 1, "maximum": 1}, needs_no_quotes=True),
            "1 in containers",
            "1",
        ),
    )
)
RESOURCE_DEFAULTS = {key.name: key.default or "" for key in _RESOURCES.keys}
TIME_DEFAULT = "1h"
_MARKET = KeySection((MAX_PRICE, LOSS, COLLATERAL))
_COPIES = Word(copies_of, {"type": "integer", "enum": [1, *REPLICAS]}, needs_no_quotes=True)
_VERIFY = KeySection((FileKey("copies", _COPIES, "devices of several owners that compute the same", "1"),))


def _limits(*, is_lease: bool) -> KeySection:
    span = quantity_word(deadline_of, SPAN_PATTERN)
    interval = FileKey("interval", span, "it is paid in, 5m at most; 1m if left out, or what a long time needs")
    time = FileKey("time", span, "that is bought, 255 intervals at most", TIME_DEFAULT)
    keep = FileKey("keep", span, "its workspace for so long after the end")
    return KeySection((time, interval, keep) if is_lease else (time, interval))


def _file(kind: str) -> KeySection:
    is_lease = kind == LEASE
    spec = KeySection(
        (
            FileKey("run", _run(is_lease=is_lease), "which program, and what it is given", is_required=True),
            FileKey("resources", _RESOURCES, "what it may use, and of which devices"),
            FileKey("market", _MARKET, "what all of its time may cost", is_required=True),
            FileKey("limits", _limits(is_lease=is_lease), "how long it may take"),
            *(() if is_lease else (FileKey("verify", _VERIFY, "how its outputs are checked"),)),
        )
    )
    return KeySection(
        (
            VERSION,
            FileKey("kind", choice_word("kind of task", [kind]), "what the file asks for", is_required=True),
            FileKey("metadata", METADATA, "what the task is called", is_required=True),
            FileKey("spec", spec, "what is asked for", is_required=True),
        )
    )


FILES = {kind: _file(kind) for kind in (JOB, LEASE)}


def read_container_task(tree: FileNode, kind: str, file: str) -> ContainerFile:
    """The job or lease of a file's tree; TaskFileError says all that is wrong with it."""
    reading = FileReading()
    found = read_section(FILES[kind], tree, "", reading)
    if not reading.problems:
        _check(found["spec"], reading)
    if reading.problems:
        raise TaskFileError(file, reading.problems)
    return ContainerFile(file, _task(found, is_lease=kind == LEASE), reading.lines)


def _check(spec: dict[str, Any], reading: FileReading) -> None:
    run = spec["run"]
    if bool(run["archive"]) is bool(run["image"].repository):
        of_archive = "is an id, so `archive` names the file that `docker save` wrote; add it, or name a repository"
        of_registry = "names a registry's image, and `archive` another; leave one out, or give the archive's id alone"
        text = of_registry if run["archive"] else of_archive
        reading.refuse(reading.lines["spec.run.image"], "spec.run.image", text)
    _check_variables(run["env"], reading)
    resources = spec["resources"]
    if resources["gpus"] and resources["classes"] and not set(resources["classes"]) & set(GPU_CLASSES):
        text = f"are none that have a GPU, and `gpus` asks for one; give {' or '.join(GPU_CLASSES)}"
        reading.refuse(reading.lines["spec.resources.classes"], "spec.resources.classes", text)
    names = [path.rpartition("/")[2] for path in run["inputs"] or ()]
    for name in names:
        if _INPUT.fullmatch(name) is None:
            text = f"has {name!r:.60}: a file of /in is named by letters, digits, _ . and -; rename it"
            reading.refuse(reading.lines["spec.run.inputs"], "spec.run.inputs", text)
    if spec.get("verify", {}).get("copies", 1) != 1:
        for where, why in (("spec.run.secrets", "are handed to one winner"), ("spec.limits.interval", "pay time")):
            if where in reading.lines:
                text = f"{why}, and copies are paid by what most of them find; leave it out, or `verify`"
                reading.refuse(reading.lines[where], where, text)
    for name in {name for name in names if names.count(name) > 1}:
        text = f"has two files that are {name} in /in; rename one"
        reading.refuse(reading.lines["spec.run.inputs"], "spec.run.inputs", text)


def _check_variables(environment: Mapping[str, str], reading: FileReading) -> None:
    for name in environment:
        if is_loader_variable(name):
            where = f"spec.run.env.{name[:20]}"
            text = "is one that loaders act on, and no provider sets it; set it in the program, once it runs"
            reading.refuse(reading.lines[where], where, text)


def _task(found: dict[str, Any], *, is_lease: bool) -> ContainerTask:
    spec, metadata = found["spec"], found["metadata"]
    run, resources, market, limits = spec["run"], spec["resources"], spec["market"], spec["limits"]
    return ContainerTask(
        name=metadata["name"],
        labels=metadata["labels"],
        is_lease=is_lease,
        image=SavedImage(run["archive"], run["image"].sha256) if run["archive"] else run["image"],
        command=run["command"] or (),
        environment=run["env"],
        inputs=run["inputs"] or (),
        secrets=run["secrets"] or (),
        network=NETWORKS[run["network"]],
        ports=run.get("ports") or (),
        gpus=resources["gpus"],
        classes=_classes(resources["classes"], resources["gpus"]),
        cpu_thousandths=resources["cpu"],
        memory_bytes=resources["memory"],
        disk_bytes=resources["disk"],
        processes=resources["processes"],
        price_max=market["maxPrice"],
        loss=market["lossOnFailure"],
        collateral=market["collateral"],
        time=limits["time"],
        interval=limits["interval"],
        keep=limits.get("keep"),
        copies=1 if is_lease else spec["verify"]["copies"],
    )


def _classes(named: tuple[str, ...] | None, gpus: int) -> tuple[DeviceClass, ...]:
    """Those that suit: of a task that wants a GPU none without one, whose owners would never bid."""
    suit = GPU_CLASSES if gpus else CLASS_NAMES
    return tuple(sorted(CLASS_NAMES[name] for name in named or suit if name in suit))
