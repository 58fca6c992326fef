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
class _Conversion:
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
    file_bytes: bytes, file: str, service: str | None, image: str | None, max_price: str,
    environment: Mapping[str, str], *, is_job: bool = False, network: str = "", is_archived: bool = False,
) -> Foreign:  # fmt: skip
    """Return one service of the file. Raise TaskFileError or ForeignFileError if it cannot be carried over."""
    refuse_other(file_bytes, OtherFile.COMPOSE)
    tree = tree_of(file_bytes, file, UNANCHORED)
    services = table_at(tree.get("services"), "services")
    if not services:
        raise ForeignFileError(_without_services(tree), 1, code="no_services")
    name = only_key(services, service, "services", "--service")
    conversion = _Conversion(environment)
    _note_others(conversion, tree, services, name)
    for key, value in table_at(services[name], f"services.{name}").items():
        _carry_key(conversion, key, value, is_job=is_job)
    _fill_dollars(conversion)
    if not network:
        conversion.carrying.leave(
            "the network",
            "a task has no network by default. For access to the internet, use --network outbound",
            matters=False,
        )
    with conversion.carrying.named_beside_errors():
        image_name = _image_name(conversion, image, is_archived=is_archived)
    draft = ProgramDraft(
        name=name, image=image_name, max_price=max_price, is_lease=not is_job, network=network, **conversion.fields
    )
    return Foreign(draft, conversion.carrying)


def _without_services(tree: dict[str, Tree]) -> str:
    tables = [value for value in tree.values() if isinstance(value, dict)]
    if any("image" in table or "build" in table for table in tables):
        return "this is a Compose file of version 1. Indent its services under `services:`"
    return "the file has no services. Is it a Compose file?"


def _image_name(conversion: _Conversion, given: str | None, *, is_archived: bool) -> str:
    if given is None and _VARIABLE.search(conversion.image) is not None:
        reason = f"image: {FILLED_BY_COMPOSE}, or name the image with --image"
        raise ForeignFileError(reason, line_of(conversion.image), code="variable")
    return image_for(given, conversion.image, is_archived=is_archived)


def _is_nothing(key: str, value: Tree) -> bool:
    """Return True if a key is empty or off, as `docker compose config` prints unused keys.

    An empty entry point is neither: it removes the image's.
    """
    return value is None or (key != "entrypoint" and value in ([], {}, "", "false"))


def _carry_key(conversion: _Conversion, key: str, value: Tree, *, is_job: bool) -> None:
    if _is_nothing(key, value):
        return
    if key == "ports" and is_job:
        conversion.carrying.leave("ports", "a job has no ports. Leave out --job to get a lease, which has ports")
    elif value in SAME.get(key, ()):
        conversion.carrying.leave(key, "it has no effect on a task", matters=False)
    elif key in _CARRIED:
        _CARRIED[key](conversion, value)
    elif key in UNNEEDED or key.startswith("x-"):
        conversion.carrying.leave(key, UNNEEDED.get(key, "extensions have no effect on a task"), matters=False)
    else:
        conversion.carrying.leave(key, WHY.get(key, "tasks have no equivalent"))


def _carry_command(conversion: _Conversion, value: Tree) -> None:
    if isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError:
            raise ForeignFileError("command: its quotes do not match", line_of(value), code="quotes") from None
    else:
        words = texts_at(value, "command")
    conversion.put("command", tuple(words), "command", value)


def _carry_environment(conversion: _Conversion, value: Tree) -> None:
    variables: dict[str, str] = {}
    lines: dict[str, int | None] = {}
    for name, text in pairs_at(value, "environment"):
        lines[name] = line_of(name)
        if text is not None:
            variables[name] = text
        elif name in conversion.environment:
            variables[name] = conversion.environment[name]
            reason = "its value comes from your --env, and every bidder can read it"
            conversion.carrying.leave(f"environment {name} as a secret", reason, matters=False)
        else:
            reason = (
                "the file has no value for it. To take the value of your environment, pass --env NAME. Every bidder "
                "can read it"
            )
            conversion.carrying.leave(f"environment {name}", reason)
    # The user named these with --env and so made them public: they are not held back as secrets.
    given_variables = {name: text for name, text in variables.items() if name in conversion.environment}
    file_variables = {name: text for name, text in variables.items() if name not in given_variables}
    conversion.put(
        "env",
        conversion.carrying.variables(file_variables, "environment", lines) | given_variables,
        "environment",
        value,
    )


def _carry_ports(conversion: _Conversion, value: Tree) -> None:
    ports: list[str] = []
    for item in value if isinstance(value, list) else [value]:
        text = _port_of(item)
        match = _PORT.fullmatch(text)
        if match is not None and 1 <= int(match[1]) <= 65_535:
            ports.append(match[1])
        elif _VARIABLE.search(text) is not None:
            conversion.carrying.leave(f"port {text}", FILLED_BY_COMPOSE)
        else:
            conversion.carrying.leave(f"port {text}", "a tunnel reaches a single TCP port. List ports one by one")
    conversion.put("ports", tuple(dict.fromkeys(ports)), "ports", value)


def _port_of(item: Tree) -> str:
    """Return a port of the container, with its protocol, from the short or the long form."""
    if not isinstance(item, dict):
        return text_at(item, "ports")
    protocol = text_at(item.get("protocol"), "ports.protocol") or "tcp"
    return f"{text_at(item.get('target'), 'ports.target')}/{protocol}"


def _carry_secrets(conversion: _Conversion, value: Tree) -> None:
    names: list[str] = []
    for item in value if isinstance(value, list) else [value]:
        text = text_at(item.get("source"), "secrets.source") if isinstance(item, dict) else text_at(item, "secrets")
        if VARIABLE_FORM.fullmatch(text):
            names.append(text)
        else:
            conversion.carrying.leave(f"secret {text}", "a secret needs the name of a variable")
    conversion.put("secrets", tuple(dict.fromkeys(names)), "secrets", value)
    conversion.carrying.leave("the place of secrets", "they are in /secrets, not in /run/secrets")


def _carry_deploy(conversion: _Conversion, value: Tree) -> None:
    deploy = table_at(value, "deploy")
    resources = table_at(deploy.get("resources"), "deploy.resources")
    limits = table_at(resources.get("limits"), "deploy.resources.limits")
    reservations = table_at(resources.get("reservations"), "deploy.resources.reservations")
    for key, carry in (("cpus", _carry_cpus), ("memory", _carry_memory)):
        # A reservation is only the least that Compose guarantees, so the limit comes first.
        requested = limits.get(key, reservations.get(key))
        if requested is not None:
            carry(conversion, requested)
    if "pids" in limits:
        _carry_processes(conversion, limits["pids"])
    _carry_reservations(conversion, reservations)
    for key in sorted({*limits, *reservations} - {"cpus", "memory", "pids", "devices", "generic_resources"}):
        conversion.carrying.leave(f"deploy.resources {key}", UNNEEDED_RESOURCES)
    if text_at(deploy.get("replicas"), "deploy.replicas") not in {"", "1"}:
        conversion.carrying.leave("deploy.replicas", "a task is one container. For several, submit an --array")
    condition = text_at(table_at(deploy.get("restart_policy"), "restart_policy").get("condition"), "condition")
    if "restart_policy" in deploy and condition != "none":
        conversion.carrying.leave("deploy.restart_policy", WHY["restart"])
    for key in sorted(deploy.keys() - {"resources", "replicas", "restart_policy"}):
        conversion.carrying.leave(f"deploy.{key}", "it has no effect on a task", matters=False)


def _carry_reservations(conversion: _Conversion, reservations: dict[str, Tree]) -> None:
    """Carry over GPUs, whether reserved as devices or as generic resources."""
    devices, generic = reservations.get("devices"), reservations.get("generic_resources")
    for item in devices if isinstance(devices, list) else []:
        _carry_device(conversion, table_at(item, "devices"))
    for item in generic if isinstance(generic, list) else []:
        requested = table_at(
            table_at(item, "generic_resources").get("discrete_resource_spec"), "discrete_resource_spec"
        )
        kind = text_at(requested.get("kind"), "kind")
        if "gpu" in kind.lower():
            _carry_device(conversion, {"count": requested.get("value"), "capabilities": "gpu"})
        else:
            conversion.carrying.leave(f"generic_resources {kind}", UNNEEDED_RESOURCES)


def _carry_devices(conversion: _Conversion, value: Tree) -> None:
    """Carry over GPUs that are named as CDI devices or as device files."""
    gpu_names = [item for item in texts_at(value, "devices") if _GPU_DEVICE.fullmatch(item) is not None]
    for item in texts_at(value, "devices"):
        if item not in gpu_names:
            conversion.carrying.leave(f"device {item}", WHY["devices"])
    if gpu_names:
        _carry_one_gpu(conversion, "devices", value)
    if len(gpu_names) > 1:
        conversion.carrying.leave("more than one GPU", "a device is one GPU, so the task gets one")


def _carry_runtime(conversion: _Conversion, value: Tree) -> None:
    """Take NVIDIA's runtime as a GPU; leave out any other."""
    if value == "nvidia":
        _carry_one_gpu(conversion, "runtime", value)
    else:
        conversion.carrying.leave("runtime", "the provider's engine chooses the runtime")


def _carry_one_gpu(conversion: _Conversion, words: str, tree: Tree) -> None:
    conversion.put("gpus", "1", words, tree)


def _carry_gpus(conversion: _Conversion, value: Tree) -> None:
    """Carry over `all`, or a list like that of devices, each of which is a GPU."""
    requested: list[Tree] = value if isinstance(value, list) else [{"count": value}]
    for item in requested:
        _carry_device(conversion, {**table_at(item, "gpus"), "capabilities": "gpu"})


def _carry_device(conversion: _Conversion, device: dict[str, Tree]) -> None:
    if "gpu" not in texts_at(device.get("capabilities"), "devices.capabilities"):
        conversion.carrying.leave("a device", "containers get GPUs only")
        return
    count = _without_variable(device.get("count"), "devices.count") or "1"
    device_ids = texts_at(device.get("device_ids"), "devices.device_ids")
    if count == "0":
        return
    if count != "1" or len(device_ids) > 1:
        conversion.carrying.leave("more than one GPU", "a device is one GPU, so the task gets one")
    _carry_one_gpu(conversion, "devices", device.get("count"))


def _without_variable(value: Tree, where: str) -> str:
    """Return a single value that is no variable of Compose."""
    text = text_at(value, where)
    if _VARIABLE.search(text) is not None:
        raise ForeignFileError(f"{where}: {shown(text)}: {FILLED_BY_COMPOSE}", line_of(value), code="variable")
    return text


def _carry_cpus(conversion: _Conversion, value: Tree) -> None:
    conversion.put("cpu", cores_of(_without_variable(value, "cpus"), "cpus"), "cpus", value)


def _carry_memory(conversion: _Conversion, value: Tree) -> None:
    conversion.put("memory", size_of(_without_variable(value, "memory"), "memory"), "memory", value)


def _carry_processes(conversion: _Conversion, value: Tree) -> None:
    # By Docker's API, -1 and 0 mean no limit.
    pids = _without_variable(value, "pids")
    conversion.put("processes", "" if pids in {"0", NO_LIMIT} else pids, "pids", value)


def _carry_image(conversion: _Conversion, value: Tree) -> None:
    conversion.image = text_at(value, "image")
    conversion.carrying.place("image", "image", line_of(value))


def _fill_dollars(conversion: _Conversion) -> None:
    """Replace `$$` by one dollar. Compose fills in `${NAME}`, but this program does not."""
    command, variables = conversion.fields.get("command", ()), conversion.fields.get("env", {})
    # An image name with a variable has no digest, so `_image_name` treats it.
    texts = [text.replace(DOLLAR, "") for text in (*command, *variables.values())]
    if any(_VARIABLE.search(text) for text in texts):
        conversion.carrying.leave("${…}", FILLED_BY_COMPOSE)
    if command:
        conversion.fields["command"] = tuple(text.replace(DOLLAR, "$") for text in command)
    if variables:
        conversion.fields["env"] = {name: text.replace(DOLLAR, "$") for name, text in variables.items()}


def _note_others(conversion: _Conversion, tree: dict[str, Tree], services: dict[str, Tree], name: str) -> None:
    """Note the parts of the file beside the service."""
    for key in services:
        if key != name:
            conversion.carrying.leave(
                f"service {key}", "it becomes a task of its own. Convert it with --service", matters=False
            )
    for key in tree:
        if key not in {"version", "name", "services"} and not key.startswith("x-"):
            conversion.carrying.leave(key, "only the parts that the service names are used", matters=False)


_CARRIED: dict[str, Callable[[_Conversion, Tree], None]] = {
    "image": _carry_image,
    "command": _carry_command,
    "environment": _carry_environment,
    "ports": _carry_ports,
    "secrets": _carry_secrets,
    "deploy": _carry_deploy,
    "cpus": _carry_cpus,
    "mem_limit": _carry_memory,
    "pids_limit": _carry_processes,
    "gpus": _carry_gpus,
    "devices": _carry_devices,
    "runtime": _carry_runtime,
}
