"""Which images run: the provider's list, and what a configuration may not say. Pure.

An image is a stranger's twice: its files are kept in by the container, but its configuration is read by the engine and
by the hooks of the GPU toolkit outside of it.
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
"""The error of an image that is not run: why, and what to do."""


def check_allowed(image: ImageByDigest | ImageArchive, policy: ContainerPolicy) -> None:
    """ContainerRefusedError for an image that the provider's list does not have."""
    if isinstance(image, ImageByDigest):
        if image.repository not in policy.images and image.reference not in policy.images:
            raise refused(f"{image.reference} is not on the provider's list", "ask for one that is")
    elif not policy.any_archive and f"sha256:{image.sha256}" not in policy.images:
        raise refused(f"no archive with the id sha256:{image.sha256[:12]}… is on the provider's list", "ask for one")


def check_config(config: Mapping[str, Any]) -> None:
    """ContainerRefusedError for a configuration that acts outside of the container, or beside our limits."""
    check_environment(_environment(config.get("Env")), "the image")
    if config.get("Volumes"):
        raise refused("it declares volumes, which no limit holds", "write to /workspace, /out and /tmp")
    if config.get("Healthcheck") and _test_of(config["Healthcheck"]) not in ([], ["NONE"]):
        raise refused("it declares a health check, a second program beside the command", "build it without")
    if config.get("OnBuild"):
        raise refused("it declares triggers for builds", "build it without ONBUILD")
    labels = config.get("Labels") or {}
    if not isinstance(labels, Mapping) or any(str(name).startswith(PREFIX) for name in labels):
        raise refused(f"it has labels that begin with {PREFIX}", "build it without")


def check_start(config: Mapping[str, Any], *, has_command: bool) -> None:
    """ContainerRefusedError for an image that the engine would bring, and never start: who won its task would pay."""
    if not (has_command or config.get("Cmd") or config.get("Entrypoint")):
        raise refused("it names no program, and no command is asked for", "ask for a command")
    folder = posixpath.normpath("/" + str(config.get("WorkingDir") or "").lstrip("/"))
    if folder.split("/")[1] in {"in", "secrets"} and folder.count("/") > 1:
        raise refused(f"it begins in {folder[:60]}, where nothing can be made", "build it with another WORKDIR")


def check_platform(system: object, architecture: object, machine: str) -> None:
    """ContainerRefusedError for an image of another machine; `machine` as the engine names its own."""
    ours = _ARCHITECTURES.get(machine, machine)
    if system != "linux" or architecture != ours:
        raise refused(f"it is for {system} on {architecture}", f"build it for linux on {ours}")


def check_size(size: int, size_max: int) -> None:
    """ContainerRefusedError for an image that takes more disk than its limit."""
    if size > size_max:
        raise refused(
            f"it has at least {size} bytes, the limit is {size_max}", "raise image_bytes, or build it smaller"
        )


def _environment(variables: object) -> dict[str, str]:
    if variables is None:
        return {}
    if not isinstance(variables, list) or not all(isinstance(line, str) for line in variables):
        raise refused("its environment is no list of texts", "build it again")
    pairs = [line.partition("=") for line in variables]
    return {name: value for name, _, value in pairs}


def _test_of(check: object) -> object:
    return check.get("Test") or [] if isinstance(check, Mapping) else check
