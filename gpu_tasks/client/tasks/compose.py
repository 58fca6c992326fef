"""A service of a Compose file as a lease, or as a job.

The keys are those of the Compose specification (https://github.com/compose-spec/compose-spec). Invariant: a value of
the user's environment is taken only if the user names it, even if the file requests it, because every bidder can read
it. Variables in braces are not filled in.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_tasks.client.tasks.drafts import ProgramDraft
from gpu_tasks.client.tasks.foreign import (
    SMALL_SHM,
    VARIABLE_FORM,
    Carrying,
    Foreign,
    ForeignFileError,
    Tree,
    cores_of,
    image_for,
    line_of,
    only_key,
    pairs_at,
    refuse_other,
    size_of,
    table_at,
    text_at,
    texts_at,
    tree_of,
)
from gpu_tasks.tasks.problems import shown
from gpu_tasks.tasks.task_kinds import OtherFile

UNNEEDED = dict.fromkeys(
    ("container_name", "hostname", "labels", "logging", "healthcheck", "init", "stop_signal", "tty",
     "stop_grace_period", "stdin_open", "pull_policy", "profiles"),
    "it has no effect on a task",
) | {
    "cap_drop": "containers have no capabilities anyway",
    "read_only": "the image is read-only anyway; programs write to /workspace, /out and /tmp",
}  # fmt: skip
"""Keys without effect on the program."""
WHY = {
    "build": "ogpu builds no images. Push the image to a registry and name it with --image",
    "entrypoint": "the image's own entry point runs. Build an image with this entry point",
    "volumes": "a task cannot mount your files. Use spec.run.inputs, `ogpu cp` or the network, and write to /workspace",
    "env_file": "ogpu does not read it. Pass its variables with --env, or write them into this file",
    "privileged": "containers are never privileged",
    "cap_add": "containers have no capabilities",
    "user": "the provider chooses the user",
    "working_dir": "programs start in /workspace",
    "depends_on": "a task is one container. To wait for another task, use `ogpu task submit --after-ok`",
    "networks": "tasks have no network between them",
    "restart": "an ended program is not restarted; a lease lasts until its time is up",
    "expose": "tasks have no network between them. Name the port in `ports` and reach it with `ogpu port-forward`",
    "scale": "a task is one container. For several, submit an --array",
    "extends": "ogpu reads no other files. Convert the output of `docker compose config`",
    "devices": "containers get GPUs only",
    "ulimits": "the provider sets the limits",
    "ipc": "each container has its own IPC namespace",
    "platform": "most devices run linux/amd64. Use an image for that platform",
    "network_mode": "tasks have no network between them. For access to the internet, use --network outbound",
    "security_opt": "containers run with the engine's default profiles and without new privileges",
    "tmpfs": "only /tmp is in memory",
    "shm_size": SMALL_SHM,
}
FILLED_BY_COMPOSE = "ogpu does not substitute variables. Convert the output of `docker compose config`"
UNANCHORED = "convert the output of `docker compose config`, which has none"
NO_LIMIT = "-1"
SAME: dict[str, tuple[Tree, ...]] = {
    "restart": ("no",),
    "network_mode": ("none",),
    "networks": ({"default": None}, ["default"]),
    "platform": ("linux/amd64", "linux/x86_64"),
    "runtime": ("runc",),
    "security_opt": (["no-new-privileges:true"], ["no-new-privileges"], ["no-new-privileges=true"]),
    "ipc": ("private",),
    "tmpfs": ("/tmp", ["/tmp"]),  # noqa: S108
}
"""Values that are the same as in a task."""
_PORT = re.compile(r"(?:(?:[0-9.:\[\]a-f-]|\$\{[^{}]{0,60}\}|\$[A-Za-z_][A-Za-z0-9_]{0,60})*:)?([0-9]{1,5})(?:/tcp)?")
_GPU_DEVICE = re.compile(r"nvidia\.com/gpu=.{1,80}|/dev/nvidia[0-9]{1,2}(?::.*)?", re.ASCII)
DOLLAR = "$$"
"""The escape of one dollar in a Compose file."""
UNNEEDED_RESOURCES = "tasks have no such resource"
_VARIABLE = re.compile(r"\$(?:\{|[A-Za-z_])", re.ASCII)


@dataclass(slots=True)
class _Found:
    environment: Mapping[str, str]
    """Values that the user gives."""
    carrying: Carrying = field(default_factory=Carrying)
    fields: dict[str, Any] = field(default_factory=dict)
    image: str = ""

    def put(self, name: str, value: Any, words: str, tree: Tree) -> None:
        """Carry a value over into a field of the draft."""
        self.fields[name] = value
        self.carrying.place(name, words, line_of(tree))


def from_compose(
    data: bytes, file: str, service: str | None, image: str | None, max_price: str, environment: Mapping[str, str], *,
    is_job: bool = False, network: str = "", is_archived: bool = False,
) -> Foreign:  # fmt: skip
    """Return one service of the file. Raise TaskFileError or ForeignFileError if it cannot be carried over."""
    refuse_other(data, OtherFile.COMPOSE)
    tree = tree_of(data, file, UNANCHORED)
    services = table_at(tree.get("services"), "services")
    if not services:
        raise ForeignFileError(_without_services(tree), 1, code="no_services")
    name = only_key(services, service, "services", "--service")
    found = _Found(environment)
    _note_others(found, tree, services, name)
    for key, value in table_at(services[name], f"services.{name}").items():
        _take(found, key, value, is_job=is_job)
    _fill_dollars(found)
    if not network:
        found.carrying.leave(
            "the network",
            "a task has no network by default. For access to the internet, use --network outbound",
            matters=False,
        )
    with found.carrying.named_beside_errors():
        named = _image_of(found, image, is_archived=is_archived)
    draft = ProgramDraft(
        name=name, image=named, max_price=max_price, is_lease=not is_job, network=network, **found.fields
    )
    return Foreign(draft, found.carrying)


def _without_services(tree: dict[str, Tree]) -> str:
    parts = [value for value in tree.values() if isinstance(value, dict)]
    if any("image" in part or "build" in part for part in parts):
        return "this is a Compose file of version 1. Indent its services under `services:`"
    return "the file has no services. Is it a Compose file?"


def _image_of(found: _Found, given: str | None, *, is_archived: bool) -> str:
    if given is None and _VARIABLE.search(found.image) is not None:
        why = f"image: {FILLED_BY_COMPOSE}, or name the image with --image"
        raise ForeignFileError(why, line_of(found.image), code="variable")
    return image_for(given, found.image, is_archived=is_archived)


def _is_nothing(key: str, value: Tree) -> bool:
    """Return True if a key is empty or off, as `docker compose config` prints unused keys.

    An empty entry point is neither: it removes the image's.
    """
    return value is None or (key != "entrypoint" and value in ([], {}, "", "false"))


def _take(found: _Found, key: str, value: Tree, *, is_job: bool) -> None:
    if _is_nothing(key, value):
        return
    if key == "ports" and is_job:
        found.carrying.leave("ports", "a job has no ports. Leave out --job to get a lease, which has ports")
    elif value in SAME.get(key, ()):
        found.carrying.leave(key, "it has no effect on a task", matters=False)
    elif key in _CARRIED:
        _CARRIED[key](found, value)
    elif key in UNNEEDED or key.startswith("x-"):
        found.carrying.leave(key, UNNEEDED.get(key, "extensions have no effect on a task"), matters=False)
    else:
        found.carrying.leave(key, WHY.get(key, "tasks have no equivalent"))


def _command(found: _Found, value: Tree) -> None:
    if isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError:
            raise ForeignFileError("command: its quotes do not match", line_of(value), code="quotes") from None
    else:
        words = texts_at(value, "command")
    found.put("command", tuple(words), "command", value)


def _environment(found: _Found, value: Tree) -> None:
    env: dict[str, str] = {}
    lines: dict[str, int | None] = {}
    for name, text in pairs_at(value, "environment"):
        lines[name] = line_of(name)
        if text is not None:
            env[name] = text
        elif name in found.environment:
            env[name] = found.environment[name]
            why = "its value comes from your --env, and every bidder can read it"
            found.carrying.leave(f"environment {name} as a secret", why, matters=False)
        else:
            why = (
                "the file has no value for it. To take the value of your environment, pass --env NAME. Every bidder "
                "can read it"
            )
            found.carrying.leave(f"environment {name}", why)
    # The user named these with --env and so made them public: they are not held back as secrets.
    lent = {name: text for name, text in env.items() if name in found.environment}
    own = {name: text for name, text in env.items() if name not in lent}
    found.put("env", found.carrying.variables(own, "environment", lines) | lent, "environment", value)


def _ports(found: _Found, value: Tree) -> None:
    ports: list[str] = []
    for item in value if isinstance(value, list) else [value]:
        text = _port_of(item)
        match = _PORT.fullmatch(text)
        if match is not None and 1 <= int(match[1]) <= 65_535:
            ports.append(match[1])
        elif _VARIABLE.search(text) is not None:
            found.carrying.leave(f"port {text}", FILLED_BY_COMPOSE)
        else:
            found.carrying.leave(f"port {text}", "a tunnel reaches a single TCP port. List ports one by one")
    found.put("ports", tuple(dict.fromkeys(ports)), "ports", value)


def _port_of(item: Tree) -> str:
    """Return a port of the container, with its protocol, from the short or the long form."""
    if not isinstance(item, dict):
        return text_at(item, "ports")
    protocol = text_at(item.get("protocol"), "ports.protocol") or "tcp"
    return f"{text_at(item.get('target'), 'ports.target')}/{protocol}"


def _secrets(found: _Found, value: Tree) -> None:
    names: list[str] = []
    for item in value if isinstance(value, list) else [value]:
        text = text_at(item.get("source"), "secrets.source") if isinstance(item, dict) else text_at(item, "secrets")
        if VARIABLE_FORM.fullmatch(text):
            names.append(text)
        else:
            found.carrying.leave(f"secret {text}", "a secret needs the name of a variable")
    found.put("secrets", tuple(dict.fromkeys(names)), "secrets", value)
    found.carrying.leave("the place of secrets", "they are in /secrets, not in /run/secrets")


def _deploy(found: _Found, value: Tree) -> None:
    deploy = table_at(value, "deploy")
    resources = table_at(deploy.get("resources"), "deploy.resources")
    limits = table_at(resources.get("limits"), "deploy.resources.limits")
    reserved = table_at(resources.get("reservations"), "deploy.resources.reservations")
    for key, take in (("cpus", _cpus), ("memory", _memory)):
        # A reservation is only the least that Compose guarantees, so the limit comes first.
        asked = limits.get(key, reserved.get(key))
        if asked is not None:
            take(found, asked)
    if "pids" in limits:
        _processes(found, limits["pids"])
    _reservations(found, reserved)
    for key in sorted({*limits, *reserved} - {"cpus", "memory", "pids", "devices", "generic_resources"}):
        found.carrying.leave(f"deploy.resources {key}", UNNEEDED_RESOURCES)
    if text_at(deploy.get("replicas"), "deploy.replicas") not in {"", "1"}:
        found.carrying.leave("deploy.replicas", "a task is one container. For several, submit an --array")
    condition = text_at(table_at(deploy.get("restart_policy"), "restart_policy").get("condition"), "condition")
    if "restart_policy" in deploy and condition != "none":
        found.carrying.leave("deploy.restart_policy", WHY["restart"])
    for key in sorted(deploy.keys() - {"resources", "replicas", "restart_policy"}):
        found.carrying.leave(f"deploy.{key}", "it has no effect on a task", matters=False)


def _reservations(found: _Found, reserved: dict[str, Tree]) -> None:
    """Carry over GPUs, whether reserved as devices or as generic resources."""
    devices, generic = reserved.get("devices"), reserved.get("generic_resources")
    for item in devices if isinstance(devices, list) else []:
        _device(found, table_at(item, "devices"))
    for item in generic if isinstance(generic, list) else []:
        asked = table_at(table_at(item, "generic_resources").get("discrete_resource_spec"), "discrete_resource_spec")
        kind = text_at(asked.get("kind"), "kind")
        if "gpu" in kind.lower():
            _device(found, {"count": asked.get("value"), "capabilities": "gpu"})
        else:
            found.carrying.leave(f"generic_resources {kind}", UNNEEDED_RESOURCES)


def _host_devices(found: _Found, value: Tree) -> None:
    """Carry over GPUs that are named as CDI devices or as device files."""
    named = [item for item in texts_at(value, "devices") if _GPU_DEVICE.fullmatch(item) is not None]
    for item in texts_at(value, "devices"):
        if item not in named:
            found.carrying.leave(f"device {item}", WHY["devices"])
    if named:
        _one_gpu(found, "devices", value)
    if len(named) > 1:
        found.carrying.leave("more than one GPU", "a device is one GPU, so the task gets one")


def _runtime(found: _Found, value: Tree) -> None:
    """Take NVIDIA's runtime as a GPU; leave out any other."""
    if value == "nvidia":
        _one_gpu(found, "runtime", value)
    else:
        found.carrying.leave("runtime", "the provider's engine chooses the runtime")


def _one_gpu(found: _Found, words: str, tree: Tree) -> None:
    found.put("gpus", "1", words, tree)


def _gpus(found: _Found, value: Tree) -> None:
    """Carry over `all`, or a list like that of devices, each of which is a GPU."""
    asked: list[Tree] = value if isinstance(value, list) else [{"count": value}]
    for item in asked:
        _device(found, {**table_at(item, "gpus"), "capabilities": "gpu"})


def _device(found: _Found, device: dict[str, Tree]) -> None:
    if "gpu" not in texts_at(device.get("capabilities"), "devices.capabilities"):
        found.carrying.leave("a device", "containers get GPUs only")
        return
    count = _filled(device.get("count"), "devices.count") or "1"
    named = texts_at(device.get("device_ids"), "devices.device_ids")
    if count == "0":
        return
    if count != "1" or len(named) > 1:
        found.carrying.leave("more than one GPU", "a device is one GPU, so the task gets one")
    _one_gpu(found, "devices", device.get("count"))


def _filled(value: Tree, where: str) -> str:
    """Return a single value that is no variable of Compose."""
    text = text_at(value, where)
    if _VARIABLE.search(text) is not None:
        raise ForeignFileError(f"{where}: {shown(text)}: {FILLED_BY_COMPOSE}", line_of(value), code="variable")
    return text


def _cpus(found: _Found, value: Tree) -> None:
    found.put("cpu", cores_of(_filled(value, "cpus"), "cpus"), "cpus", value)


def _memory(found: _Found, value: Tree) -> None:
    found.put("memory", size_of(_filled(value, "memory"), "memory"), "memory", value)


def _processes(found: _Found, value: Tree) -> None:
    # By Docker's API, -1 and 0 mean no limit.
    pids = _filled(value, "pids")
    found.put("processes", "" if pids in {"0", NO_LIMIT} else pids, "pids", value)


def _image(found: _Found, value: Tree) -> None:
    found.image = text_at(value, "image")
    found.carrying.place("image", "image", line_of(value))


def _fill_dollars(found: _Found) -> None:
    """Replace `$$` by one dollar. Compose fills in `${NAME}`, but this program does not."""
    command, env = found.fields.get("command", ()), found.fields.get("env", {})
    # An image name with a variable has no digest, so `_image_of` treats it.
    texts = [text.replace(DOLLAR, "") for text in (*command, *env.values())]
    if any(_VARIABLE.search(text) for text in texts):
        found.carrying.leave("${…}", FILLED_BY_COMPOSE)
    if command:
        found.fields["command"] = tuple(text.replace(DOLLAR, "$") for text in command)
    if env:
        found.fields["env"] = {name: text.replace(DOLLAR, "$") for name, text in env.items()}


def _note_others(found: _Found, tree: dict[str, Tree], services: dict[str, Tree], name: str) -> None:
    """Note the parts of the file beside the service."""
    for key in services:
        if key != name:
            found.carrying.leave(
                f"service {key}", "it becomes a task of its own. Convert it with --service", matters=False
            )
    for key in tree:
        if key not in {"version", "name", "services"} and not key.startswith("x-"):
            found.carrying.leave(key, "only the parts that the service names are used", matters=False)


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
    "devices": _host_devices,
    "runtime": _runtime,
}
