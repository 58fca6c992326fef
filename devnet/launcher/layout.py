"""The members of a devnet, their files and their ports.

Invariant: one file, `devnet.json`, describes a `Devnet`. All its files are in its folder. Each member has its own
folder, log and node key, and no two members share a port.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from consensus.parameters import SAMPLE_UNITS_MIN
from devnet.launcher.broker import broker_program
from devnet.launcher.folder import DevnetError, named_command
from devnet.launcher.free_ports import free_ports, one_free_port
from durable.folders import make_folder
from genesis import dev_accounts
from genesis.chain import genesis_block_header, genesis_state
from genesis.preset_names import DEV_NAMES, VALIDATORS_MAX
from genesis.presets import BLOB_PORT_FIRST, RATE_MAX, all_names, load_spec, preset, validator_names
from genesis.spec import ChainSpec, to_json
from gpu_tasks.provider.programs.means import CONTAINER_KIND, ProgramMeans
from gpu_tasks.provider.tasks.policy import BidPolicy, price_of
from gpu_tasks.provider.tasks.policy_file import write_policy
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.registry import FORMS, SALE_TERMS, USUAL_TERMS, SaleTerms
from node.config import Paths
from node.duty.keystore import SESSION, VRF, Keystore
from node.p2p.identity import load_or_create
from node.ports import DEFAULT_PORT, DEFAULT_PROMETHEUS_PORT, DEFAULT_RPC_PORT
from runtime.blocks.block import block_id
from runtime.cryptography import ss58
from wallet import private_file
from wallet.errors import KeyFileError
from wallet.private_file import read_plain

DESCRIPTION = "devnet.json"
DESCRIPTION_BYTES_MAX = 1 << 20
"""The file that describes a devnet."""
CHAIN_ID = "devnet"
FAST = "devnet-fast"
PORT_TRIES = 200


# The services and policies of a devnet: a service of every workload, and bids for every kind of task. Invariant: every
# form of the package has a service. Service 0 is the preset's, unchanged.
SELLERS = 3
"""Providers of each further service. Each starts a worker for it: two race, and the others check and vote."""
RAMP_BLOCKS, COMMIT_WINDOW_BLOCKS = 10, 60
LEAST_PRICE = "0.1 oGPU/h"
IMAGES = tuple(
    f"docker.io/{name}"
    for name in ("library/alpine", "library/busybox", "library/debian", "library/python", "library/ubuntu",
                 "pytorch/pytorch")
)  # fmt: skip
"""Repositories with permitted images. Every image that a customer sends as an archive is permitted too."""


def add_services(patch: dict[str, Any], owner: str) -> None:
    """Add a service of each other workload to a preset, offered by its first devices."""
    market = patch["inferenceMarket"]
    devices = [offer["device"] for offer in market["offers"]][:SELLERS]
    for form in _others():
        service, terms = len(market["services"]), SALE_TERMS.get(form.name, USUAL_TERMS)
        market["services"].append(_service(form, owner, terms))
        market["offers"] += [{"service": service, "device": device, "ask": terms.ask} for device in devices]


def write_policies(homes: Sequence[Path]) -> None:
    """Make the providers with these base paths bid for every kind of task that their machine can run."""
    kinds = (*(form.name for form in FORMS if form.is_stepwise), CONTAINER_KIND)
    containers = ProgramMeans(images=IMAGES, any_archive=True)
    policy = BidPolicy(kinds=kinds, least_price=price_of(LEAST_PRICE), gangs=True, containers=containers)
    for home in homes:
        make_folder(home)
        write_policy(home, policy)


def _others() -> tuple[WorkloadForm, ...]:
    """Return the workloads without a service in the presets."""
    return FORMS


def _service(form: WorkloadForm, owner: str, terms: SaleTerms) -> dict[str, Any]:
    return {
        "owner": ss58.encode(dev_accounts.stash(owner)),
        "name": form.name,
        "workload": "0x" + form.workload_id.hex(),
        "model": "0x" + form.model_id.hex(),
        "price_min": terms.ask,
        "price_max": RATE_MAX,
        "ramp": RAMP_BLOCKS,
        "commit_window": COMMIT_WINDOW_BLOCKS,
        "tokens_max": terms.cost_max,
    }


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one member, all on loopback."""

    peers: int
    rpc: int
    metrics: int
    blobs: int


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """A node, and the provider beside it if there is one."""

    name: str
    is_validator: bool
    ports: Ports
    address: str  # its address for peers: /ip4/../tcp/../p2p/..

    @property
    def rpc_url(self) -> str:
        """The URL of its JSON-RPC."""
        return f"ws://127.0.0.1:{self.ports.rpc}"

    @property
    def blob_url(self) -> str:
        """The URL of its provider's blob store."""
        return f"http://127.0.0.1:{self.ports.blobs}"


@dataclass(frozen=True, slots=True)
class Guest:
    """A provider without a node of its own that joins the running devnet."""

    name: str
    rpc_url: str  # of the node that it queries
    blob_port: int
    program: str  # its Python module
    options: tuple[str, ...]  # its own, before those that every provider has

    @property
    def blob_url(self) -> str:
        """The URL of its blob store."""
        return f"http://127.0.0.1:{self.blob_port}"


@dataclass(frozen=True, slots=True)
class Devnet:
    """The members of one devnet, in the order of their creation."""

    folder: Path
    members: tuple[NodeLayout, ...]
    has_providers: bool = False  # true if each validator has a provider
    guests: tuple[Guest, ...] = ()
    broker_port: int | None = None  # the MQTT broker's, if there is one
    relay_port: int | None = None  # the port of a relay before the broker, if clients connect there instead
    sample: int | None = None  # units of stake in each poll of its nodes; None: they poll all validators

    @property
    def chain_spec(self) -> Path:
        """The chain specification's path."""
        return self.folder / "chain.json"

    @property
    def broker_url(self) -> str | None:
        """The broker's URL, on which providers publish the progress of their tasks."""
        return None if self.broker_port is None else f"mqtt://127.0.0.1:{self.relay_port or self.broker_port}"

    @property
    def purchases(self) -> Path:
        """The folder of task files, requests, answers and records of the customers in the demo and the proofs."""
        return self.folder / "purchases"

    @property
    def broker_home(self) -> Path:
        """The folder of the MQTT broker."""
        return self.folder / "broker"

    @property
    def keyring(self) -> Path:
        """The folder of keys and cached chain data for the programs of this devnet's users."""
        return self.folder / "keyring"

    def member(self, name: str) -> NodeLayout:
        """Return the member with this name, in any case. Raise DevnetError if there is none."""
        for member in self.members:
            if member.name.lower() == name.lower():
                return member
        known_names = ", ".join(member.name for member in self.members)
        raise DevnetError(f"{self.folder} has no node {name!r}. There are: {known_names}", code="unknown_node")

    def home(self, member: NodeLayout | Guest) -> Path:
        """Return the folder of a member, which is its node's base path."""
        return self.folder / member.name.lower()

    def paths(self, member: NodeLayout) -> Paths:
        """Return the files of a member's node."""
        return Paths(self.home(member), CHAIN_ID)

    def node_command(self, member: NodeLayout) -> list[str]:
        """Return the arguments of `ogpu-node` for a member."""
        arguments = [
            "--chain",
            str(self.chain_spec),
            "--base-path",
            str(self.home(member)),
            "--listen-host",
            "127.0.0.1",
        ]
        arguments += ["--port", str(member.ports.peers), "--rpc-port", str(member.ports.rpc)]
        arguments += ["--prometheus-port", str(member.ports.metrics)]
        if member.is_validator and member.name in DEV_NAMES:
            arguments.append(f"--{member.name.lower()}")
        else:
            arguments += ["--name", member.name] + ["--validator"] * member.is_validator
        arguments += [] if self.sample is None else ["--sample", str(self.sample)]
        for other in self.members:
            arguments += ["--bootnodes", other.address] if other != member else []
        return arguments


def create(
    folder: Path,
    validators: int,
    *,
    providers: bool = False,
    any_ports: bool = False,
    apart: tuple[str, ...] = (),
    numbers: Mapping[str, int] | None = None,
    seats: int | None = None,
    is_fast: bool = False,
    sample: int | None = None,
    sells_all: bool = False,
) -> Devnet:
    """Create a devnet of `validators` validators in an empty folder. Raise DevnetError if the folder holds one already.

    With `any_ports` it uses any free ports, else the well-known ones where they are free. The names in `apart` become
    no validators. With fewer `seats` than validators, the first ones are in the active set and the others wait.
    `is_fast` selects short epochs. With `sample`, each node polls that many units of stake. With `sells_all`, the
    providers sell every workload and bid for tasks from the beginning.
    """
    if (folder / DESCRIPTION).exists():
        raise DevnetError(
            f"{folder} holds a devnet. Continue it with `{named_command(folder)} up`, or remove it with "
            f"`{named_command(folder)} down --purge`",
            code="devnet_exists",
        )
    if not 1 <= validators <= VALIDATORS_MAX:
        raise DevnetError(
            f"a devnet has 1 to {VALIDATORS_MAX} validators, not {validators}. Run `{named_command(folder)} up -n 4`",
            code="too_many_validators",
        )
    if seats is not None and not 1 <= seats <= validators:
        raise DevnetError(
            f"{validators} validators have 1 to {validators} seats, not {seats}. Add validators with -n, or lower "
            "--seats",
            code="too_many_seats",
        )
    if sample is not None and not SAMPLE_UNITS_MIN <= sample <= (seats or validators):
        raise DevnetError(
            f"a sample of {seats or validators} seats has {SAMPLE_UNITS_MIN} to {seats or validators} units of stake, "
            f"not {sample}. Leave out --sample to poll every validator, or add validators with -n",
            code="sample_out_of_bounds",
        )
    member_names = validator_names(validators, apart)
    _make_folder(folder)
    broker_port = one_free_port() if providers and broker_program() is not None else None
    devnet = Devnet(folder.resolve(), (), providers, broker_port=broker_port, sample=sample)
    # The description comes first and the chain spec last: `up` notices an interrupted start, and `down --purge` works.
    save(devnet)
    ports = _ports(any_ports=any_ports)
    for name in member_names:
        devnet = _with(devnet, name, next(ports), is_validator=True)
    save(devnet)
    spec = _spec(devnet, numbers or {}, seats, is_fast=is_fast)
    if sells_all:
        assert spec.patch is not None  # presets have the patch form, not the raw one
        add_services(spec.patch, member_names[0])
        write_policies([devnet.home(member) / "provider" for member in devnet.members])
    devnet.chain_spec.write_text(to_json(spec), encoding="utf-8")
    return devnet


def _make_folder(folder: Path) -> None:
    """Make the devnet's folder. Raise DevnetError if that fails, or if it holds other files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # `down --purge` removes files by their names, so a file with such a name must be the devnet's.
        is_empty = not any(folder.iterdir())
    except OSError as error:
        raise DevnetError(
            f"{folder} cannot be the devnet's folder: {error.strerror}. Name another one with --folder",
            code="folder_unusable",
        ) from error
    if not is_empty:
        raise DevnetError(f"{folder} holds other files. Name an empty folder with --folder", code="folder_not_empty")


def _spec(devnet: Devnet, numbers: Mapping[str, int], seats: int | None, *, is_fast: bool) -> ChainSpec:
    """Return the preset of these validators, with the devnet's ports of their blob stores."""
    parameters = FAST if is_fast else "devnet"
    member_names = tuple(member.name for member in devnet.members)
    spec = preset("Devnet", CHAIN_ID, "Local", member_names, seat_count=seats, parameters=parameters)
    assert spec.patch is not None  # presets have the patch form, not the raw one
    by_stash = {ss58.encode(dev_accounts.stash(member.name)): member.blob_url for member in devnet.members}
    for provider in spec.patch["devices"]["providers"]:
        provider["endpoint"] = by_stash[provider["stash"]]
    if numbers:
        spec.patch.setdefault("chainParameters", {}).update(numbers)
    return spec


def add_full_node(devnet: Devnet, name: str, *, any_ports: bool = False) -> tuple[Devnet, NodeLayout]:
    """Add a node that follows the chain and does not vote. Return the new devnet and the node."""
    if not name.isidentifier() or any(member.name.lower() == name.lower() for member in devnet.members):
        raise DevnetError(f"{name!r} is no free name for a node: use letters and digits, and a name that is not taken")
    # The ports of a stopped member look free to a probe, but they are its own.
    taken_ports = {port for member in devnet.members for port in asdict(member.ports).values()}
    ports = next(ports for ports in _ports(any_ports=any_ports) if taken_ports.isdisjoint(asdict(ports).values()))
    devnet = _with(devnet, name, ports, is_validator=False)
    save(devnet)
    return devnet, devnet.members[-1]


def add_guest(devnet: Devnet, name: str, program: str, options: tuple[str, ...] = ()) -> tuple[Devnet, Guest]:
    """Add a provider that queries the first node. Return the new devnet and the provider."""
    guest = Guest(name, devnet.members[0].rpc_url, one_free_port(), program, options)
    devnet = replace(devnet, guests=(*devnet.guests, guest))
    save(devnet)
    return devnet, guest


def before_broker(devnet: Devnet, relay_port: int) -> Devnet:
    """Return the devnet with a relay's port in front of its broker."""
    devnet = replace(devnet, relay_port=relay_port)
    save(devnet)
    return devnet


def replace_guest(devnet: Devnet, guest: Guest) -> Devnet:
    """Return the devnet with this guest in the place of the guest with its name."""
    devnet = replace(
        devnet, guests=tuple(guest if present.name == guest.name else present for present in devnet.guests)
    )
    save(devnet)
    return devnet


def genesis_hash(devnet: Devnet) -> bytes:
    """Return the id of block 0 of the devnet's chain."""
    return block_id(genesis_block_header(genesis_state(load_spec(devnet.chain_spec.read_bytes()))))


def save(devnet: Devnet) -> None:
    """Write `devnet.json`."""
    description = {
        "has_providers": devnet.has_providers,
        "members": [asdict(member) for member in devnet.members],
        "guests": [asdict(guest) for guest in devnet.guests],
        "broker_port": devnet.broker_port,
        "relay_port": devnet.relay_port,
        "sample": devnet.sample,
    }
    private_file.replace(devnet.folder / DESCRIPTION, json.dumps(description, indent=2).encode() + b"\n")


def remove(devnet: Devnet) -> list[str]:
    """Remove the devnet's files, and its folder if nothing else is in it. Return the names of the other files.

    The description goes last, so that a repeat finishes an interrupted removal.
    """
    homes = {*map(devnet.home, devnet.members), *map(devnet.home, devnet.guests)}
    # An interrupted first start has made folders that the description does not name yet.
    unfinished = {devnet.folder / name.lower() for name in all_names()}
    draft = devnet.folder / f".{DESCRIPTION}.new"
    for path in homes | unfinished | {devnet.chain_spec, devnet.broker_home, devnet.keyring, devnet.purchases, draft}:
        _remove(path)
    _remove(devnet.folder / DESCRIPTION)
    other_names = sorted(path.name for path in devnet.folder.iterdir())
    if not other_names:
        devnet.folder.rmdir()
    return other_names


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def load(folder: Path) -> Devnet:
    """Return the devnet in a folder. Raise DevnetError if there is none or its file is damaged."""
    path = folder / DESCRIPTION
    if not os.path.lexists(path):
        raise DevnetError(
            f"there is no devnet in {folder}. Make one with `ogpu-devnet up`, or name another --folder",
            code="no_devnet",
        )
    try:
        description = json.loads(read_plain(path, DESCRIPTION_BYTES_MAX))
        has_providers = bool(description["has_providers"])
        guests = tuple(Guest(**{**guest, "options": tuple(guest["options"])}) for guest in description["guests"])
        numbers = (description["broker_port"], description["relay_port"], description["sample"])
        broker_port, relay_port, sample = (None if number is None else int(number) for number in numbers)
        members = tuple(
            NodeLayout(**{**member, "ports": Ports(**member["ports"])}) for member in description["members"]
        )
        _require_plain_names((*members, *guests))
    except (ArithmeticError, KeyError, KeyFileError, RecursionError, TypeError, ValueError) as error:
        raise DevnetError(
            f"{path} is damaged ({error}). Name another --folder, or remove the devnet's files by hand",
            code="devnet_damaged",
        ) from error
    return Devnet(folder.resolve(), members, has_providers, guests, broker_port, relay_port, sample)


def _require_plain_names(members: Sequence[NodeLayout | Guest]) -> None:
    """Raise ValueError for a name that would lead out of the devnet's folder."""
    for member in members:
        if not member.name.isidentifier():
            raise ValueError(f"{member.name!r} is not a node's name")


def _with(devnet: Devnet, name: str, ports: Ports, *, is_validator: bool) -> Devnet:
    member = NodeLayout(name, is_validator, ports, address="")
    paths = devnet.paths(member)
    paths.node_key.parent.mkdir(parents=True, exist_ok=True)
    identity = load_or_create(paths.node_key)
    if is_validator and name not in DEV_NAMES:
        keystore = Keystore(paths.keystore)
        keystore.insert(SESSION, dev_accounts.key_seed(name, dev_accounts.SESSION))
        keystore.insert(VRF, dev_accounts.key_seed(name, dev_accounts.VRF))
    member = replace(member, address=f"/ip4/127.0.0.1/tcp/{ports.peers}/p2p/{identity.peer_id}")
    return replace(devnet, members=(*devnet.members, member))


def _ports(*, any_ports: bool) -> Iterator[Ports]:
    """Yield sets of free ports, each port once."""
    first_ports = (DEFAULT_PORT, DEFAULT_RPC_PORT, DEFAULT_PROMETHEUS_PORT, BLOB_PORT_FIRST)
    choices = [free_ports(() if any_ports else range(first, first + PORT_TRIES)) for first in first_ports]
    while True:
        yield Ports(*(next(choice) for choice in choices))
