"""A service of an Akash deployment as a lease, or as a job.

The keys are those of Akash's Stack Definition Language, version 2 (https://akash.network/docs). Always: prices are not
carried over: another chain's money is no measure here.
"""

from __future__ import annotations

from gpu_tasks.client.habits.amounts import cores_of, size_of
from gpu_tasks.client.habits.drafts import ProgramDraft
from gpu_tasks.client.habits.foreign import Carrying, Foreign, ForeignFileError, image_for
from gpu_tasks.client.habits.trees import Tree, only_key, pairs_at, table_at, text_at, texts_at, tree_of

VERSIONS = ("2.0", "2.1", "2")
TUNNELLED = {"", "tcp", "http", "https"}
SERVICE_KEYS = {"image", "command", "args", "env", "expose"}


def from_sdl(
    data: bytes,
    file: str,
    service: str | None,
    image: str | None,
    max_price: str,
    *,
    is_job: bool = False,
    network: str = "",
) -> Foreign:
    """One service of the file; TaskFileError, ForeignFileError."""
    tree = tree_of(data, file)
    if text_at(tree.get("version"), "version") not in VERSIONS:
        raise ForeignFileError(f"this is no SDL of version {VERSIONS[0]}: `version` says so in the first line")
    services = table_at(tree.get("services"), "services")
    name = only_key(services, service, "services", "--service")
    asked, carrying = table_at(services[name], f"services.{name}"), Carrying()
    if not network:
        carrying.leave("the network", "none is open: --network outbound asks for public addresses", matters=False)
    for key in sorted(asked.keys() - SERVICE_KEYS):
        carrying.leave(f"services.{name}.{key}", "a task has nothing like it")
    resources = _resources(tree, name, carrying)
    for key in sorted(services.keys() - {name}):
        carrying.leave(f"service {key}", "it is a task of its own: --service names it", matters=False)
    for key in sorted(tree.keys() - {"version", "services", "profiles", "deployment"}):
        carrying.leave(key, "a task has nothing like it")
    draft = ProgramDraft(
        name=name,
        image=image_for(image, text_at(asked.get("image"), "image")),
        max_price=max_price,
        is_lease=not is_job,
        command=_command(asked, carrying),
        env=_env(asked.get("env"), carrying),
        ports=() if is_job else _ports(asked.get("expose"), carrying),
        network=network,
        gpus=_gpus(resources, carrying),
        cpu=_cpu(resources),
        memory=_size(resources, "memory"),
        disk=_disk(resources, carrying),
    )
    return Foreign(draft, carrying)


def _command(asked: dict[str, Tree], carrying: Carrying) -> tuple[str, ...]:
    command, args = texts_at(asked.get("command"), "command"), texts_at(asked.get("args"), "args")
    if command:
        carrying.leave("command", "it goes to the image's entry point, which runs: use an image that has none")
    return (*command, *args)


def _env(tree: Tree, carrying: Carrying) -> dict[str, str]:
    env: dict[str, str] = {}
    for name, value in pairs_at(tree, "env"):
        if value is None:
            carrying.leave(f"env {name}", "it has no value here: give it with --env NAME=VALUE")
        else:
            env[name] = value
    return env


def _ports(tree: Tree, carrying: Carrying) -> tuple[str, ...]:
    ports: list[str] = []
    for item in tree if isinstance(tree, list) else [] if tree is None else [tree]:
        exposed = table_at(item, "expose")
        port = text_at(exposed.get("port"), "expose.port")
        if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65_535):
            carrying.leave(f"port {port}", "is no port of TCP")
            continue
        protocol = text_at(exposed.get("proto"), "expose.proto").lower()
        if protocol not in TUNNELLED:
            carrying.leave(f"port {port} of {protocol}", "the tunnel carries TCP alone")
            continue
        ports.append(port)
        if exposed.get("to") is not None:
            carrying.leave(f"port {port} to the world", "it is reached by `ogpu port-forward`, by you alone")
        for key in sorted(exposed.keys() - {"port", "proto", "to", "as"}):
            carrying.leave(f"port {port} {key}", "nobody stands between you and the port")
    return tuple(dict.fromkeys(ports))


def _resources(tree: dict[str, Tree], service: str, carrying: Carrying) -> dict[str, Tree]:
    """What the deployment gives a service: the profile that it names there."""
    profiles = table_at(tree.get("profiles"), "profiles")
    compute = table_at(profiles.get("compute"), "profiles.compute")
    placements = table_at(table_at(tree.get("deployment"), "deployment").get(service), f"deployment.{service}")
    profile = service
    for placement, given in placements.items():
        chosen = table_at(given, f"deployment.{service}.{placement}")
        profile = text_at(chosen.get("profile"), "profile") or service
        if text_at(chosen.get("count"), "count") not in {"", "1"}:
            carrying.leave(f"deployment.{service}.{placement}.count", "a task is one container")
        _placement(table_at(profiles.get("placement"), "profiles.placement").get(placement), placement, carrying)
    resources = table_at(table_at(compute.get(profile), f"profiles.compute.{profile}").get("resources"), "resources")
    for key in sorted(resources.keys() - {"cpu", "memory", "storage", "gpu", "id"}):
        carrying.leave(f"resources {key}", "no task has such a resource")
    return resources


def _placement(tree: Tree, name: str, carrying: Carrying) -> None:
    placement = table_at(tree, f"profiles.placement.{name}")
    carrying.leave(f"placement {name}", "whoever bids and fits may run it; the price is --max-price", matters=False)
    for key in sorted(placement.keys() - {"pricing"}):
        carrying.leave(f"placement {name} {key}", "it chooses among another chain's providers")


def _gpus(resources: dict[str, Tree], carrying: Carrying) -> str:
    gpu = table_at(resources.get("gpu"), "gpu")
    units = text_at(gpu.get("units"), "gpu.units")
    if units in {"", "0"}:
        return ""
    if units != "1":
        carrying.leave(f"{units} GPUs", "a device is one GPU: one goes in")
    if gpu.get("attributes") is not None:
        carrying.leave("gpu.attributes", "devices are chosen by class: --class consumer or datacenter")
    return "1"


def _cpu(resources: dict[str, Tree]) -> str:
    units = text_at(table_at(resources.get("cpu"), "cpu").get("units"), "cpu.units")
    return cores_of(units, "cpu.units") if units else ""


def _size(resources: dict[str, Tree], key: str) -> str:
    size = text_at(table_at(resources.get(key), key).get("size"), f"{key}.size")
    return size_of(size, f"{key}.size", is_decimal=True) if size else ""


def _disk(resources: dict[str, Tree], carrying: Carrying) -> str:
    """All of it together: a task has one workspace."""
    storage, total = resources.get("storage"), 0
    for item in storage if isinstance(storage, list) else [] if storage is None else [storage]:
        volume = table_at(item, "storage")
        total += int(_size({"storage": volume}, "storage").removesuffix("Mi") or 0)
        attributes = table_at(volume.get("attributes"), "storage.attributes")
        if text_at(attributes.get("persistent"), "persistent").lower() in {"true", "yes", "on"}:
            carrying.leave("storage that persists", "a workspace ends with its task: take along what you need")
    return f"{total}Mi" if total else ""
