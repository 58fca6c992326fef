"""A service of a Compose file as a lease, or as a job.

The keys are those of the Compose specification (https://github.com/compose-spec/compose-spec). Always: of the
user's environment a value is taken where the user names it, and no other, whatever the file asks for: every bidder can
read it; variables in braces are not filled in.
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
    ("container_name", "hostname", "labels", "logging", "healthcheck", "init", "stop_signal", "tty",
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
    "restart": "nobody begins a program anew when it ends: a lease lasts until its time is up",
    "expose": "there is no network between tasks; name it in `ports` to reach it by `ogpu port-forward`",
    "scale": "a task is one container; for several submit an --array",
}
_PORT = re.compile(r"(?:[0-9.:\[\]a-f-]*:)?([0-9]{1,5})(?:/tcp)?", re.ASCII)
DOLLAR = "$$"
"""How a Compose file writes one."""
UNNEEDED_RESOURCES = "no task has such a resource"
_VARIABLE = re.compile(r"\$(?:\{|[A-Za-z_])", re.ASCII)
_SECRET = re.compile("[A-Za-z_][A-Za-z0-9_]{0,126}", re.ASCII)


@dataclass(slots=True)
class _Found:
    environment: Mapping[str, str]
    """Values that the user gives."""
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
    _note_others(found, tree, services, name)
    for key, value in table_at(services[name], f"services.{name}").items():
        _take(found, key, value, is_job=is_job)
    _fill_dollars(found)
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
    elif key == "restart" and value in (None, "no"):
        found.carrying.leave(key, "nothing of a task depends on it", matters=False)
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
            why = "its value is the one that you gave, and every bidder can read it"
            found.carrying.leave(f"environment {name} as a secret", why, matters=False)
        else:
            why = "it has no value here: --env NAME takes that of your environment, which every bidder can read then"
            found.carrying.leave(f"environment {name}", why)
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
    if "pids" in limits:
        _processes(found, limits["pids"])
    _devices(found, reserved.get("devices"))
    for key in sorted({*limits, *reserved} - {"cpus", "memory", "pids", "devices"}):
        found.carrying.leave(f"deploy.resources {key}", UNNEEDED_RESOURCES)
    if text_at(deploy.get("replicas"), "deploy.replicas") not in {"", "1"}:
        found.carrying.leave("deploy.replicas", "a task is one container; for several submit an --array")
    for key in sorted(deploy.keys() - {"resources", "replicas"}):
        found.carrying.leave(f"deploy.{key}", "nothing of a task depends on it", matters=False)


def _devices(found: _Found, value: Tree) -> None:
    for item in value if isinstance(value, list) else []:
        _device(found, table_at(item, "devices"))


def _gpus(found: _Found, value: Tree) -> None:
    """`all`, or a list as that of devices, each of which is a GPU."""
    asked: list[Tree] = value if isinstance(value, list) else [{"count": value}]
    for item in asked:
        _device(found, {**table_at(item, "gpus"), "capabilities": "gpu"})


def _device(found: _Found, device: dict[str, Tree]) -> None:
    if "gpu" not in texts_at(device.get("capabilities"), "devices.capabilities"):
        found.carrying.leave("a device", "GPUs alone go into containers")
        return
    count = text_at(device.get("count"), "devices.count") or "1"
    named = texts_at(device.get("device_ids"), "devices.device_ids")
    if count == "0":
        return
    if count != "1" or len(named) > 1:
        found.carrying.leave("more than one GPU", "a device is one GPU: one goes in")
    found.fields["gpus"] = "1"


def _cpus(found: _Found, value: Tree) -> None:
    found.fields["cpu"] = cores_of(text_at(value, "cpus"), "cpus")


def _memory(found: _Found, value: Tree) -> None:
    found.fields["memory"] = size_of(text_at(value, "memory"), "memory")
    if not found.fields["memory"]:
        found.carrying.leave("memory without a limit", "nobody sells all of a machine: say how much it takes")


def _processes(found: _Found, value: Tree) -> None:
    found.fields["processes"] = text_at(value, "pids")


def _image(found: _Found, value: Tree) -> None:
    found.image = text_at(value, "image")


def _fill_dollars(found: _Found) -> None:
    """`$$` is one dollar to Compose, and `${NAME}` a variable, which is not filled in here."""
    command, env = found.fields.get("command", ()), found.fields.get("env", {})
    texts = [text.replace(DOLLAR, "") for text in (*command, *env.values())]  # one in an image's name names no digest
    if any(_VARIABLE.search(text) for text in texts):
        why = (
            "Compose fills variables in, and this does not: write their values, or what `docker compose config` prints"
        )
        found.carrying.leave("${…}", why)
    if command:
        found.fields["command"] = tuple(text.replace(DOLLAR, "$") for text in command)
    if env:
        found.fields["env"] = {name: text.replace(DOLLAR, "$") for name, text in env.items()}


def _note_others(found: _Found, tree: dict[str, Tree], services: dict[str, Tree], name: str) -> None:
    """What stands in the file beside the service."""
    for key in services:
        if key != name:
            found.carrying.leave(f"service {key}", "it is a task of its own: --service names it", matters=False)
    for key in tree:
        if key not in {"version", "name", "services"} and not key.startswith("x-"):
            found.carrying.leave(key, "what a service uses of it is said there", matters=False)


_CARRIED: dict[str, Callable[[_Found, Tree], None]] = {
    "image": _image,
    "command": _command,
    "environment": _environment,
    "ports": _ports,
    "secrets": _secrets,
    "deploy": _deploy,
    "cpus": _cpus,
    "mem_limit": _memory,
    "pids_limit": _processes,
    "gpus": _gpus,
}
