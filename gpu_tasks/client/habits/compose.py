"""A service of a Compose file as a lease, or as a job.

The keys are those of the Compose specification (https://github.com/compose-spec/compose-spec). Always: values of the
environment are taken where they are asked for by name, and no others; variables in braces are not filled in.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_tasks.client.habits.amounts import cores_of, size_of
from gpu_tasks.client.habits.drafts import ProgramDraft
from gpu_tasks.client.habits.foreign import Carrying, Foreign, ForeignFileError, image_for
from gpu_tasks.client.habits.trees import Tree, only_key, pairs_at, table_at, text_at, texts_at, tree_of

UNNEEDED = dict.fromkeys(
    ("container_name", "hostname", "labels", "logging", "restart", "healthcheck", "init", "stop_signal", "tty",
     "stop_grace_period", "stdin_open", "pull_policy", "profiles", "platform"),
    "nothing of a task depends on it",
)  # fmt: skip
WHY = {
    "build": "an image is not built: push it to a registry, and name it with --image",
    "entrypoint": "the image's own entry point runs: make an image with this one",
    "volumes": "files go in by spec.run.inputs, `ogpu cp` or the network; /workspace is the task's own",
    "env_file": "write its variables with --env, or into the file",
    "privileged": "no container is privileged",
    "cap_add": "no container has capabilities",
    "user": "programs run as the container's own user",
    "working_dir": "programs begin in /workspace",
    "depends_on": "a task is one container; `ogpu submit --after-ok` waits for another task",
    "networks": "there is no network between tasks",
    "scale": "a task is one container; for several submit an --array",
}
_PORT = re.compile(r"(?:[0-9.:\[\]a-f-]*:)?([0-9]{1,5})(?:/tcp)?", re.ASCII)
_VARIABLE = re.compile(r"\$(?:\{|[A-Za-z_])", re.ASCII)
_SECRET = re.compile("[A-Za-z_][A-Za-z0-9_]{0,126}", re.ASCII)


@dataclass(slots=True)
class _Found:
    environment: Mapping[str, str]
    carrying: Carrying = field(default_factory=Carrying)
    fields: dict[str, Any] = field(default_factory=dict)
    image: str = ""


def from_compose(
    data: bytes, file: str, service: str | None, image: str | None, max_price: str, environment: Mapping[str, str], *,
    is_job: bool = False, network: str = "",
) -> Foreign:  # fmt: skip
    """One service of the file; TaskFileError, ForeignFileError."""
    tree = tree_of(data, file)
    services = table_at(tree.get("services"), "services")
    name = only_key(services, service, "services", "--service")
    found = _Found(environment)
    for key, value in table_at(services[name], f"services.{name}").items():
        _take(found, key, value, is_job=is_job)
    _note_variables(found)
    if not network:
        found.carrying.leave("the network", "none is open: --network outbound asks for public addresses", matters=False)
    draft = ProgramDraft(
        name=name, image=image_for(image, found.image), max_price=max_price, is_lease=not is_job, network=network,
        **found.fields,
    )  # fmt: skip
    return Foreign(draft, found.carrying)


def _take(found: _Found, key: str, value: Tree, *, is_job: bool) -> None:
    if key == "ports" and is_job:
        found.carrying.leave("ports", "a job has none: without --job it becomes a lease, whose ports are reached")
    elif key in _CARRIED:
        _CARRIED[key](found, value)
    elif key in UNNEEDED or key.startswith("x-"):
        found.carrying.leave(key, UNNEEDED.get(key, "it is an extension"), matters=False)
    else:
        found.carrying.leave(key, WHY.get(key, "a task has nothing like it"))


def _command(found: _Found, value: Tree) -> None:
    if isinstance(value, str):
        try:
            found.fields["command"] = tuple(shlex.split(value))
        except ValueError:
            raise ForeignFileError("command: its quotes do not match") from None
    else:
        found.fields["command"] = tuple(texts_at(value, "command"))


def _environment(found: _Found, value: Tree) -> None:
    env: dict[str, str] = {}
    for name, text in pairs_at(value, "environment"):
        if text is not None:
            env[name] = text
        elif name in found.environment:
            env[name] = found.environment[name]
        else:
            found.carrying.leave(f"environment {name}", "it has no value here, and your environment has none")
    found.fields["env"] = env


def _ports(found: _Found, value: Tree) -> None:
    ports: list[str] = []
    for item in value if isinstance(value, list) else [value]:
        text = text_at(item.get("target"), "ports.target") if isinstance(item, dict) else text_at(item, "ports")
        match = _PORT.fullmatch(text)
        if match is None or not 1 <= int(match[1]) <= 65_535:
            found.carrying.leave(f"port {text}", "one port of TCP is reached at a time")
        else:
            ports.append(match[1])
    found.fields["ports"] = tuple(dict.fromkeys(ports))


def _secrets(found: _Found, value: Tree) -> None:
    names: list[str] = []
    for item in value if isinstance(value, list) else [value]:
        text = text_at(item.get("source"), "secrets.source") if isinstance(item, dict) else text_at(item, "secrets")
        if _SECRET.fullmatch(text):
            names.append(text)
        else:
            found.carrying.leave(f"secret {text}", "a secret is named like a variable")
    found.fields["secrets"] = tuple(dict.fromkeys(names))
    found.carrying.leave("where secrets lie", "in /secrets, and not in /run/secrets")


def _deploy(found: _Found, value: Tree) -> None:
    deploy = table_at(value, "deploy")
    resources = table_at(deploy.get("resources"), "deploy.resources")
    limits = table_at(resources.get("limits"), "deploy.resources.limits")
    reserved = table_at(resources.get("reservations"), "deploy.resources.reservations")
    for key, take in (("cpus", _cpus), ("memory", _memory)):
        asked = limits.get(key, reserved.get(key))
        if asked is not None:
            take(found, asked)
    for item in reserved.get("devices", []) or []:
        _device(found, table_at(item, "devices"))
    if text_at(deploy.get("replicas"), "deploy.replicas") not in {"", "1"}:
        found.carrying.leave("deploy.replicas", "a task is one container; for several submit an --array")
    for key in deploy.keys() - {"resources", "replicas"}:
        found.carrying.leave(f"deploy.{key}", "nothing of a task depends on it", matters=False)


def _device(found: _Found, device: dict[str, Tree]) -> None:
    if "gpu" not in texts_at(device.get("capabilities"), "devices.capabilities"):
        found.carrying.leave("a device", "GPUs alone go into containers")
        return
    count = text_at(device.get("count"), "devices.count") or "1"
    named = texts_at(device.get("device_ids"), "devices.device_ids")
    if count != "1" or len(named) > 1:
        found.carrying.leave("more than one GPU", "a device is one GPU: one goes in")
    found.fields["gpus"] = "1"


def _cpus(found: _Found, value: Tree) -> None:
    found.fields["cpu"] = cores_of(text_at(value, "cpus"), "cpus")


def _memory(found: _Found, value: Tree) -> None:
    found.fields["memory"] = size_of(text_at(value, "memory"), "memory")


def _image(found: _Found, value: Tree) -> None:
    found.image = text_at(value, "image")


def _note_variables(found: _Found) -> None:
    texts = [*found.fields.get("command", ()), *found.fields.get("env", {}).values(), found.image]
    if any(_VARIABLE.search(text) for text in texts):
        found.carrying.leave("${…}", "Compose fills variables in, and this does not: write their values")


_CARRIED: dict[str, Callable[[_Found, Tree], None]] = {
    "image": _image,
    "command": _command,
    "environment": _environment,
    "ports": _ports,
    "secrets": _secrets,
    "deploy": _deploy,
    "cpus": _cpus,
    "mem_limit": _memory,
}
