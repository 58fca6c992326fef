"""Permitted images: the provider's list, and forbidden parts of a configuration. Pure.

An image is untrusted in two ways. The container confines its files, but the engine and the GPU toolkit's hooks read its
configuration outside the container.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from functools import partial
from typing import Any

from gpu_tasks.provider.execution.containers.labels import PREFIX
from gpu_tasks.provider.execution.containers.refusals import ContainerRefusedError
from gpu_tasks.provider.execution.containers.spec import ContainerPolicy, ImageArchive, ImageByDigest, check_environment

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}


refused = partial(ContainerRefusedError, "use an image")
"""The error of a refused image, with reason and remedy."""


def check_allowed(image: ImageByDigest | ImageArchive, policy: ContainerPolicy) -> None:
    """Raise ContainerRefusedError if the provider's list does not contain the image."""
    if isinstance(image, ImageByDigest):
        if image.repository not in policy.images and image.reference not in policy.images:
            raise refused(
                f"{image.reference} is not on the provider's list", "use an image on the list", code="image_not_listed"
            )
    elif not policy.any_archive and f"sha256:{image.sha256}" not in policy.images:
        raise refused(
            f"no archive with the id sha256:{image.sha256[:12]}… is on the provider's list",
            "use an image on the list",
            code="image_not_listed",
        )


def check_config(config: Mapping[str, Any]) -> None:
    """Raise ContainerRefusedError for a configuration that acts outside the container or bypasses our limits."""
    check_environment(_environment(config.get("Env")), "the image")
    if config.get("Volumes"):
        raise refused(
            "it declares volumes, which no limit covers", "write to /workspace, /out and /tmp", code="image_volumes"
        )
    if config.get("Healthcheck") and _test_of(config["Healthcheck"]) not in ([], ["NONE"]):
        raise refused("it declares a health check, a second program", "build it without one", code="image_health_check")
    if config.get("OnBuild"):
        raise refused("it declares build triggers", "build it without ONBUILD", code="image_triggers")
    # `labels` identifies our things by labels with this prefix, and a container inherits its image's labels.
    image_labels = config.get("Labels") or {}
    if not isinstance(image_labels, Mapping) or any(str(label_name).startswith(PREFIX) for label_name in image_labels):
        raise refused(f"it has labels that begin with {PREFIX}", "build it without them", code="image_labels")


def check_start(config: Mapping[str, Any], *, has_command: bool) -> None:
    """Raise ContainerRefusedError for an image that could never start. Its winner would pay for the failure."""
    if not (has_command or config.get("Cmd") or config.get("Entrypoint")):
        raise refused("it names no program, and the request gives no command", "give a command", code="no_command")
    # The engine creates a missing working folder, which fails below the read-only /in and /secrets.
    working_folder = posixpath.normpath("/" + str(config.get("WorkingDir") or "").lstrip("/"))
    if working_folder.split("/")[1] in {"in", "secrets"} and working_folder.count("/") > 1:
        raise refused(
            f"its working directory {working_folder[:60]} is read-only",
            "build it with another WORKDIR",
            code="read_only_workdir",
        )


def check_platform(image_system: object, architecture: object, machine_name: str) -> None:
    """Raise ContainerRefusedError for an image of another platform.

    `machine_name` is the engine's name of its architecture.
    """
    own_architecture = _ARCHITECTURES.get(machine_name, machine_name)
    if image_system != "linux" or architecture != own_architecture:
        raise refused(
            f"it is for {image_system} on {architecture}",
            f"build it for linux on {own_architecture}",
            code="other_platform",
        )


def check_size(image_bytes: int, size_max: int) -> None:
    """Raise ContainerRefusedError for an image beyond its size limit."""
    if image_bytes > size_max:
        raise refused(
            f"it has at least {image_bytes} bytes, of at most {size_max}",
            "raise image_bytes, or make it smaller",
            code="image_too_large",
        )


def _environment(variables: object) -> dict[str, str]:
    if variables is None:
        return {}
    if not isinstance(variables, list) or not all(isinstance(variable_line, str) for variable_line in variables):
        raise refused("its environment is not a list of texts", "build it again", code="invalid_image")
    variable_pairs = [variable_line.partition("=") for variable_line in variables]
    return {name: value for name, _, value in variable_pairs}


def _test_of(health: object) -> object:
    return health.get("Test") or [] if isinstance(health, Mapping) else health
