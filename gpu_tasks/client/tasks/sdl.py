"""A service of an Akash deployment as a lease, or as a job.

The keys are those of Akash's Stack Definition Language, version 2 (https://akash.network/docs). Invariant: prices are
not carried over, because another chain's money is no measure here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpu_tasks.client.tasks.drafts import ProgramDraft
from gpu_tasks.client.tasks.foreign import (
    SMALL_SHM,
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
from gpu_tasks.tasks.task_kinds import OtherFile

VERSIONS = ("2.0", "2.1", "2")
TUNNELLED = {"", "tcp", "http", "https"}
SERVICE_KEYS = {"image", "command", "args", "env", "expose", "params"}
WHY = {
    "credentials": "a task carries no registry credentials. Use a public image, or an archive (--archive)",
    "depends-on": "a task is one container. To wait for another task, use `ogpu task submit --after-ok`",
}
SHM = "/dev/shm"  # noqa: S108
YES = {"true", "yes", "on"}


@dataclass(frozen=True, slots=True)
class _Volume:
    name: str
    mebibytes: int
    is_memory: bool


def from_sdl(
    data: bytes,
    file: str,
    service: str | None,
    image: str | None,
    max_price: str,
    *,
    is_job: bool = False,
    network: str = "",
    is_archived: bool = False,
) -> Foreign:
    """Return one service of the file. Raise TaskFileError or ForeignFileError if it cannot be carried over."""
    # An SDL has `services` at its top like a Compose file, so without a version it looks like one.
    refuse_other(data, OtherFile.SDL, OtherFile.COMPOSE)
    tree = tree_of(data, file)
    if text_at(tree.get("version"), "version") not in VERSIONS:
        refuse_other(data, OtherFile.SDL)
        text = f"the file is not an SDL of version {VERSIONS[0]}. Its first line must be `version`"
        raise ForeignFileError(text, line_of(tree.get("version")), code="unsupported_version")
    services = table_at(tree.get("services"), "services")
    name = only_key(services, service, "services", "--service")
    service_keys, carrying = table_at(services[name], f"services.{name}"), Carrying()
    if not network:
        carrying.leave(
            "the network",
            "a task has no network by default. For access to the internet, use --network outbound",
            matters=False,
        )
    for key in sorted(service_keys.keys() - SERVICE_KEYS):
        carrying.leave(f"services.{name}.{key}", WHY.get(key, "tasks have no equivalent"))
    resources = _service_resources(tree, name, carrying)
    volumes = _listed_volumes(resources, carrying)
    _note_mounts(table_at(service_keys.get("params"), "params"), volumes, carrying)
    for key in sorted(services.keys() - {name}):
        carrying.leave(f"service {key}", "it becomes a task of its own. Convert it with --service", matters=False)
    for key in sorted(tree.keys() - {"version", "services", "profiles", "deployment"}):
        carrying.leave(key, "tasks have no equivalent")
    draft = ProgramDraft(
        name=name,
        image=_image_name(service_keys, carrying),
        max_price=max_price,
        is_lease=not is_job,
        command=_command_words(service_keys, carrying),
        env=_service_variables(service_keys.get("env"), carrying),
        ports=() if is_job else _exposed_ports(service_keys.get("expose"), carrying),
        network=network,
        gpus=_gpu_count(resources, carrying),
        cpu=_cpu_cores(resources, carrying),
        memory=_memory_size(resources, volumes, carrying),
        disk=_total_disk([volume for volume in volumes if not volume.is_memory]),
    )
    with carrying.named_beside_errors():
        return Foreign(replace(draft, image=image_for(image, draft.image, is_archived=is_archived)), carrying)


def _command_words(service_keys: dict[str, Tree], carrying: Carrying) -> tuple[str, ...]:
    command, args = texts_at(service_keys.get("command"), "command"), texts_at(service_keys.get("args"), "args")
    if command:
        carrying.leave(
            "command", "the image's entry point runs and receives it as arguments. Use an image without an entry point"
        )
    carrying.place("command", "command", line_of(service_keys.get("command") or service_keys.get("args")))
    return (*command, *args)


def _image_name(service_keys: dict[str, Tree], carrying: Carrying) -> str:
    carrying.place("image", "image", line_of(service_keys.get("image")))
    return text_at(service_keys.get("image"), "image")


def _service_variables(tree: Tree, carrying: Carrying) -> dict[str, str]:
    variables: dict[str, str] = {}
    for name, value in pairs_at(tree, "env"):
        if value is None:
            carrying.leave(f"env {name}", "the file has no value for it. Pass --env NAME=VALUE", variable=name)
        else:
            variables[name] = value
    carrying.place("env", "env", line_of(tree))
    return carrying.variables(variables, "env", {name: line_of(name) for name in variables})


def _exposed_ports(tree: Tree, carrying: Carrying) -> tuple[str, ...]:
    ports: list[str] = []
    for item in tree if isinstance(tree, list) else [] if tree is None else [tree]:
        exposed = table_at(item, "expose")
        port = text_at(exposed.get("port"), "expose.port")
        if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65_535):
            carrying.leave(f"port {port}", "it is not a TCP port")
            continue
        protocol = text_at(exposed.get("proto"), "expose.proto").lower()
        if protocol not in TUNNELLED:
            carrying.leave(f"port {port} of {protocol}", "the tunnel carries TCP only")
            continue
        ports.append(port)
        _note_readers(exposed.get("to"), port, carrying)
        for key in sorted(exposed.keys() - {"port", "proto", "to", "as"}):
            carrying.leave(f"port {port} {key}", "`ogpu port-forward` connects directly to the port")
    carrying.place("ports", "expose", line_of(tree))
    return tuple(dict.fromkeys(ports))


def _note_readers(tree: Tree, port: str, carrying: Carrying) -> None:
    """Note the readers of a port on Akash: the world, or other services."""
    for item in tree if isinstance(tree, list) else [tree]:
        reader = table_at(item, "expose.to")
        service = text_at(reader.get("service"), "expose.to.service")
        if text_at(reader.get("global"), "expose.to.global").lower() in YES:
            carrying.leave(f"port {port} to the world", "only you can reach the port, with `ogpu port-forward`")
        if service:
            carrying.leave(f"port {port} to service {service}", "tasks have no network between them")
        for key in sorted(reader.keys() - {"global", "service"}):
            carrying.leave(f"port {port}, expose.to.{key}", "only you can reach the port, with `ogpu port-forward`")


def _service_resources(tree: dict[str, Tree], service: str, carrying: Carrying) -> dict[str, Tree]:
    """Return the resources of a service, from the profile that its deployment names."""
    profiles = table_at(tree.get("profiles"), "profiles")
    compute = table_at(profiles.get("compute"), "profiles.compute")
    placements = table_at(table_at(tree.get("deployment"), "deployment").get(service), f"deployment.{service}")
    profile = service
    if len(placements) > 1:
        carrying.leave(f"deployment.{service} in {len(placements)} placements", "a task is one container")
    for placement, placement_table in placements.items():
        chosen = table_at(placement_table, f"deployment.{service}.{placement}")
        profile = text_at(chosen.get("profile"), "profile") or service
        if text_at(chosen.get("count"), "count") not in {"", "1"}:
            carrying.leave(f"deployment.{service}.{placement}.count", "a task is one container")
        _note_placement(table_at(profiles.get("placement"), "profiles.placement").get(placement), placement, carrying)
    resources = table_at(table_at(compute.get(profile), f"profiles.compute.{profile}").get("resources"), "resources")
    for key in sorted(resources.keys() - {"cpu", "memory", "storage", "gpu", "id"}):
        carrying.leave(f"resources {key}", "tasks have no such resource")
    for key, known in (("cpu", "units"), ("memory", "size")):
        for more in sorted(table_at(resources.get(key), key).keys() - {known}):
            carrying.leave(
                f"{key}.{more}", "a task chooses devices by class. Use --class consumer or --class datacenter"
            )
    return resources


def _note_placement(tree: Tree, name: str, carrying: Carrying) -> None:
    placement = table_at(tree, f"profiles.placement.{name}")
    carrying.leave(f"placement {name}", "any suitable provider may bid, up to --max-price", matters=False)
    for key in sorted(placement.keys() - {"pricing"}):
        carrying.leave(f"placement {name} {key}", "it selects providers of another chain")


def _gpu_count(resources: dict[str, Tree], carrying: Carrying) -> str:
    gpu = table_at(resources.get("gpu"), "gpu")
    units = text_at(gpu.get("units"), "gpu.units")
    if units in {"", "0"}:
        return ""
    if units != "1":
        carrying.leave(f"{units} GPUs", "a device is one GPU, so the task gets one")
    if gpu.get("attributes") is not None:
        carrying.leave("gpu.attributes", "a task chooses devices by class. Use --class consumer or --class datacenter")
    carrying.place("gpus", "gpu.units", line_of(gpu.get("units")))
    return "1"


def _cpu_cores(resources: dict[str, Tree], carrying: Carrying) -> str:
    units = table_at(resources.get("cpu"), "cpu").get("units")
    carrying.place("cpu", "cpu.units", line_of(units))
    return cores_of(text_at(units, "cpu.units"), "cpu.units") if units else ""


def _memory_size(resources: dict[str, Tree], volumes: Sequence[_Volume], carrying: Carrying) -> str:
    """Return the memory, with the volumes in memory: they count as memory here."""
    memory = table_at(resources.get("memory"), "memory")
    carrying.place("memory", "memory.size", line_of(memory.get("size")))
    own, added = _mebibytes(memory, "memory.size"), sum(volume.mebibytes for volume in volumes if volume.is_memory)
    return f"{own + added}Mi" if own + added else ""


def _mebibytes(tree: dict[str, Tree], where: str) -> int:
    size = text_at(tree.get("size"), where)
    return int(size_of(size, where, is_decimal=True).removesuffix("Mi") or 0) if size else 0


def _listed_volumes(resources: dict[str, Tree], carrying: Carrying) -> list[_Volume]:
    storage, volumes = resources.get("storage"), list[_Volume]()
    carrying.place("disk", "storage", line_of(storage))
    for item in storage if isinstance(storage, list) else [] if storage is None else [storage]:
        volume = table_at(item, "storage")
        attributes = table_at(volume.get("attributes"), "storage.attributes")
        name = text_at(volume.get("name"), "storage.name") or "default"
        kind = text_at(attributes.get("class"), "storage.class").lower()
        is_memory = kind == "ram"
        volumes.append(_Volume(name, _mebibytes(volume, "storage.size"), is_memory))
        if not is_memory and kind not in {"", "default"}:
            carrying.leave(f"storage {name} of class {kind}", "providers offer no choice of disks", matters=False)
        if is_memory:
            carrying.leave(f"storage {name} of class ram", SMALL_SHM)
        elif text_at(attributes.get("persistent"), "persistent").lower() in YES:
            carrying.leave(
                "storage that persists",
                "a workspace ends with its task. Copy its files out before, or write them to /out",
            )
    return volumes


def _total_disk(volumes: Sequence[_Volume]) -> str:
    """Return the total storage: a task has one workspace."""
    total = sum(volume.mebibytes for volume in volumes)
    return f"{total}Mi" if total else ""


def _note_mounts(params: dict[str, Tree], volumes: Sequence[_Volume], carrying: Carrying) -> None:
    """Note the mounts of volumes, except memory as /dev/shm, which every container has."""
    in_memory = {volume.name for volume in volumes if volume.is_memory}
    for name, placement_table in table_at(params.get("storage"), "params.storage").items():
        mount = text_at(table_at(placement_table, "params.storage").get("mount"), "params.storage.mount")
        if mount and not (name in in_memory and mount == SHM):
            carrying.leave(f"storage {name} in {mount}", "programs write to /workspace, /out and /tmp")
    for key in sorted(params.keys() - {"storage"}):
        carrying.leave(f"params.{key}", "tasks have no equivalent")
