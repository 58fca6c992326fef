"""The specification of a container: values that are checked before any request to the engine.

Invariant: each limit has a name and bounds, and "unlimited" cannot be expressed. No text that this module makes
contains a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import partial
from pathlib import Path

from gpu_tasks.provider.execution.containers.refusals import ContainerRefusedError
from gpu_tasks.tasks.container_request import is_loader_variable

KIB, MIB, GIB = 1024, 1024**2, 1024**3
ENVIRONMENT_MAX = 256
ENVIRONMENT_BYTES_MAX = 64 * KIB
COMMAND_BYTES_MAX = 64 * KIB
SECRETS_MAX = 64
SECRET_BYTES_MAX = MIB
"""The limit for all secrets together. Secrets are keys and passwords, not data."""
INPUTS_MAX = 1_024
GPUS_MAX = 16

ID_FORM = re.compile(r"[a-z0-9][a-z0-9-]{0,47}")
NAME_FORM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
VARIABLE_FORM = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
REPOSITORY_FORM = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]([a-z0-9._-]*[a-z0-9])?)*")
SHA256_FORM = re.compile(r"[0-9a-f]{64}")
GPU_FORM = re.compile(r"(GPU|MIG)-[0-9A-Za-z/-]{1,80}")


class NetworkAccess(Enum):
    """The network access of a container."""

    NONE = "none"
    OUTBOUND = "outbound"
    """Public addresses only: never this machine, its networks, other containers or a cloud's metadata."""


@dataclass(frozen=True, slots=True)
class ImageByDigest:
    """An image of a registry. It is named by digest, because a tag can move to another image."""

    repository: str
    sha256: str
    """64 hexadecimal digits."""

    @property
    def reference(self) -> str:
        """The name under which an engine pulls it."""
        return f"{self.repository}@sha256:{self.sha256}"


@dataclass(frozen=True, slots=True)
class ImageArchive:
    """An image as written by `docker save`, and its required id."""

    content: bytes | Path = field(repr=False)
    sha256: str
    """The image's id: the hash of its configuration, 64 hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class ContainerLimits:
    """The limits of a container. `BOUNDS` has the minimum and maximum of each."""

    cpu_thousandths: int = 1_000
    """Thousandths of a core: 500 is half a core."""
    memory_bytes: int = 512 * MIB
    """All memory, including shared memory and temporary folders."""
    processes: int = 128
    """Processes and threads."""
    wall_seconds: int = 3_600
    log_bytes: int = MIB
    """Kept output of both streams together, the last part."""
    workspace_bytes: int = 64 * MIB
    """Size of /workspace."""
    output_bytes: int = 64 * MIB
    """Size of /out."""
    output_files: int = 1_024
    input_bytes: int = 64 * MIB
    """Size of /in."""
    tmp_bytes: int = 16 * MIB
    """Size of each of the two temporary folders."""
    open_files: int = 1_024
    """Open files of one process."""
    image_bytes: int = 16 * GIB
    """Unpacked size of the image."""


BOUNDS: dict[str, tuple[int, int]] = {
    "cpu_thousandths": (10, 512_000),
    "memory_bytes": (16 * MIB, 4_096 * GIB),
    "processes": (16, 65_536),
    "wall_seconds": (1, 30 * 24 * 3_600),
    "log_bytes": (4 * KIB, 64 * MIB),
    "workspace_bytes": (MIB, 4_096 * GIB),
    "output_bytes": (MIB, 4_096 * GIB),
    "output_files": (1, 100_000),
    "input_bytes": (MIB, 4_096 * GIB),
    "tmp_bytes": (64 * KIB, 64 * GIB),
    "open_files": (16, 1_048_576),
    "image_bytes": (64 * KIB, 256 * GIB),
}


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """A customer's program and its resources."""

    container_id: str
    """Task and place. It labels every thing made for the container."""
    image: ImageByDigest | ImageArchive
    command: tuple[str, ...] = ()
    """Arguments of the image's entry point. Without them, the image's own are used."""
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Files of /secrets, in memory only."""
    inputs: Mapping[str, bytes | Path] = field(default_factory=dict, repr=False)
    """Files and folders of /in, read-only for the program."""
    gpus: tuple[str, ...] = ()
    """NVML's identifiers."""
    network: NetworkAccess = NetworkAccess.NONE
    limits: ContainerLimits = field(default_factory=ContainerLimits)


@dataclass(frozen=True, slots=True)
class ContainerPolicy:
    """The permissions that a provider gives to strangers' programs."""

    images: tuple[str, ...] = ()
    """Repositories, repositories with a digest ("name@sha256:…"), or archive ids ("sha256:…")."""
    any_archive: bool = False
    """True if archives of any id may run."""
    outbound: bool = False
    greatest: ContainerLimits = field(
        default_factory=lambda: ContainerLimits(**{name: greatest for name, (_, greatest) in BOUNDS.items()})
    )
    """The maximum of each limit of a container."""
    gpus: tuple[str, ...] = ()
    """The GPUs that containers may use."""
    name_servers: tuple[str, ...] = ("9.9.9.9", "1.1.1.1")
    """Public name servers, because those of this machine's network are unreachable from containers."""
    image_disk_bytes: int = 20 * GIB
    """The space for all images fetched for tasks."""
    image_age_seconds: int = 7 * 86_400
    """An image unused for so long is removed; 0: only when its space is needed."""


_refused = partial(ContainerRefusedError, "run a container")


def check_spec(spec: ContainerSpec, policy: ContainerPolicy) -> None:
    """Raise ContainerRefusedError unless the spec is well formed and within the policy.

    The content of the image is not examined.
    """
    # The id becomes part of names in the engine, the kernel and the file system.
    if not ID_FORM.fullmatch(spec.container_id):
        raise _refused(
            "its id is not 1 to 48 of the characters a to z, 0 to 9 and -",
            "name it by task and place",
            code="invalid_id",
        )
    _check_image(spec.image)
    check_limits(spec.limits, policy.greatest)
    _check_command(spec.command)
    check_environment(spec.environment, "the task's environment")
    _check_files(spec)
    _check_gpus(spec.gpus, policy.gpus)
    if spec.network is NetworkAccess.OUTBOUND and not policy.outbound:
        raise _refused(
            "it asks for the network, which the provider's policy forbids",
            "ask without a network",
            code="network_forbidden",
        )


def check_limits(limits: ContainerLimits, greatest: ContainerLimits) -> None:
    """Raise ContainerRefusedError for a limit out of its bounds or beyond the provider's maximum."""
    for limit_field in fields(ContainerLimits):
        value, (least_value, greatest_value) = getattr(limits, limit_field.name), BOUNDS[limit_field.name]
        greatest_value = min(greatest_value, getattr(greatest, limit_field.name))
        # `type(...) is int`, because bool is a subclass of int.
        if type(value) is not int or not least_value <= value <= greatest_value:
            raise _refused(
                f"{limit_field.name} is {value!r:.40}",
                f"ask for {least_value} to {greatest_value}",
                code="limit_out_of_range",
            )


def check_environment(environment: Mapping[str, str], owner_words: str) -> None:
    """Raise ContainerRefusedError for loader variables, invalid names or too much environment."""
    if len(environment) > ENVIRONMENT_MAX:
        raise _refused(
            f"{owner_words} has {len(environment)} variables",
            f"use at most {ENVIRONMENT_MAX}",
            code="too_many_variables",
        )
    if sum(len(name) + len(value.encode()) + 2 for name, value in environment.items()) > ENVIRONMENT_BYTES_MAX:
        raise _refused(
            f"{owner_words} is longer than {ENVIRONMENT_BYTES_MAX} bytes",
            "put data into inputs",
            code="variables_too_long",
        )
    for name, value in environment.items():
        # The engine's helpers and GPU hooks run with the container's environment, outside of it.
        if is_loader_variable(name):
            raise _refused(
                f"{owner_words} sets {name:.60}, which changes how programs are loaded",
                "set it in the program itself",
                code="loader_variable",
            )
        if not VARIABLE_FORM.fullmatch(name) or "\0" in value:
            raise _refused(
                f"{owner_words} has a variable {name[:60]!r}", "use letters, digits and _", code="invalid_variable"
            )


def _check_image(image: ImageByDigest | ImageArchive) -> None:
    if not SHA256_FORM.fullmatch(image.sha256):
        raise _refused(
            "the image's SHA-256 is not 64 hexadecimal digits",
            "name images by digest, not by tag",
            code="invalid_digest",
        )
    if isinstance(image, ImageByDigest) and not (
        len(image.repository) <= 200 and REPOSITORY_FORM.fullmatch(image.repository)
    ):
        raise _refused(
            f"{image.repository[:60]!r} is not a repository",
            "write host/name, without tag and digest",
            code="invalid_repository",
        )


def _check_command(command: tuple[str, ...]) -> None:
    if sum(len(command_word.encode()) + 1 for command_word in command) > COMMAND_BYTES_MAX:
        raise _refused(
            f"the command is longer than {COMMAND_BYTES_MAX} bytes",
            "put the program into inputs",
            code="command_too_long",
        )
    if any("\0" in command_word for command_word in command):
        raise _refused("the command has a zero byte", "remove it", code="command_zero_byte")


def _check_files(spec: ContainerSpec) -> None:
    for files_kind, file_names, files_max in (
        ("secrets", spec.secrets, SECRETS_MAX),
        ("inputs", spec.inputs, INPUTS_MAX),
    ):
        if len(file_names) > files_max:
            raise _refused(f"{len(file_names)} {files_kind}", f"use at most {files_max}", code="too_many_files")
        for file_name in file_names:
            if not NAME_FORM.fullmatch(file_name):
                raise _refused(
                    f"a name among its {files_kind} is {file_name[:60]!r}",
                    "use letters, digits, _ . and -, no path",
                    code="invalid_name",
                )
    if sum(map(len, spec.secrets.values())) > SECRET_BYTES_MAX:
        raise _refused(
            f"its secrets are longer than {SECRET_BYTES_MAX} bytes", "seal data as inputs", code="secrets_too_large"
        )


def _check_gpus(wanted_gpus: tuple[str, ...], allowed_gpus: tuple[str, ...]) -> None:
    if len(set(wanted_gpus)) != len(wanted_gpus) or len(wanted_gpus) > GPUS_MAX:
        raise _refused("GPUs are repeated or too many", f"use at most {GPUS_MAX}", code="too_many_gpus")
    for wanted_gpu in wanted_gpus:
        if not GPU_FORM.fullmatch(wanted_gpu) or wanted_gpu not in allowed_gpus:
            raise _refused(
                f"GPU {wanted_gpu[:60]!r} is not available to containers",
                "use those of the assignment",
                code="unknown_gpu",
            )
