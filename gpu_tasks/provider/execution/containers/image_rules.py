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
from gpu_tasks.provider.execution.containers.spec import (
    ContainerPolicy,
    ImageArchive,
    ImageByDigest,
    check_environment,
)

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
    labels = config.get("Labels") or {}
    if not isinstance(labels, Mapping) or any(str(name).startswith(PREFIX) for name in labels):
        raise refused(f"it has labels that begin with {PREFIX}", "build it without them", code="image_labels")


def check_start(config: Mapping[str, Any], *, has_command: bool) -> None:
    """Raise ContainerRefusedError for an image that could never start. Its winner would pay for the failure."""
    if not (has_command or config.get("Cmd") or config.get("Entrypoint")):
        raise refused("it names no program, and the request gives no command", "give a command", code="no_command")
    # The engine creates a missing working folder, which fails below the read-only /in and /secrets.
    folder = posixpath.normpath("/" + str(config.get("WorkingDir") or "").lstrip("/"))
    if folder.split("/")[1] in {"in", "secrets"} and folder.count("/") > 1:
        raise refused(
            f"its working directory {folder[:60]} is read-only",
            "build it with another WORKDIR",
            code="read_only_workdir",
        )


def check_platform(system: object, architecture: object, machine: str) -> None:
    """Raise ContainerRefusedError for an image of another platform.

    `machine` is the engine's name of its architecture.
    """
    ours = _ARCHITECTURES.get(machine, machine)
    if system != "linux" or architecture != ours:
        raise refused(f"it is for {system} on {architecture}", f"build it for linux on {ours}", code="other_platform")


def check_size(size: int, size_max: int) -> None:
    """Raise ContainerRefusedError for an image beyond its size limit."""
    if size > size_max:
        raise refused(
            f"it has at least {size} bytes, of at most {size_max}",
            "raise image_bytes, or make it smaller",
            code="image_too_large",
        )


def _environment(variables: object) -> dict[str, str]:
    if variables is None:
        return {}
    if not isinstance(variables, list) or not all(isinstance(line, str) for line in variables):
        raise refused("its environment is not a list of texts", "build it again", code="invalid_image")
    pairs = [line.partition("=") for line in variables]
    return {name: value for name, _, value in pairs}


def _test_of(check: object) -> object:
    return check.get("Test") or [] if isinstance(check, Mapping) else check
