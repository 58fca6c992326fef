"""One scene after the other on one devnet: a program is sold time, somebody leaves, and what came of it is judged.

Always: everything is done by the programs that people run; who was killed is started again within the scene.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import docker

from devnet.demo import stage, task_sale
from devnet.demo.purchase import name_of
from devnet.demo.task_sale import SaleRow, TaskSale
from devnet.demo.telling import Narrator
from devnet.launcher import lifecycle as network
from devnet.launcher import processes, programs
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet
from devnet.launcher.lifecycle import provider_process
from devnet.measuring import ledger
from devnet.measuring.ledger import final_height
from devnet.proofs.containers.errands import Errand, Place
from devnet.proofs.containers.judging import ContainerFinding, ContainerScene, judge
from devnet.proofs.containers.registry import VERSION, Shipyard, shipyard
from devnet.proofs.containers.visiting import PORT, SERVE, visit
from genesis import dev_accounts
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Task
from runtime.cryptography.ss58 import encode as ss58
from wallet.client import ChainClient

CUSTOMER_KEY = f"//{stage.CUSTOMER}"
ASKS = dict.fromkeys(("Alice", "Bob", "Charlie"), "0.2 oGPU/h")
"""Alike, so that each takes the price of an award as a replica."""
WORDS = "to be counted by a job\n"
GONE_SECONDS = 30.0
"""In so many a container must be gone after its task has ended."""
SCENES = (
    ContainerScene(
        "job", "A job: from a file to its outputs, paid until its program ends", "Job",
        "cat /in/words.txt > /out/copy; echo done; sleep 14", TaskOutcome.TIME_OVER, 60, 10,
        outputs={"copy": WORDS.encode()},
    ),
    ContainerScene(
        "lease", "A lease: lasts until its time is up", "Lease",
        "echo here > /out/state", TaskOutcome.TIME_OVER, 30, 10, outputs={"state": b"here\n"},
    ),
    ContainerScene(
        "stopped", "A lease that its customer leaves", "Lease", "sleep 600", TaskOutcome.TIME_STOPPED, 90, 10,
        is_stopped=True,
    ),
    ContainerScene(
        "killed", "A lease whose provider's daemon is killed with -9: it leaves, and the runner-up goes on", "Lease",
        "echo here > /out/state; sleep 600", TaskOutcome.TIME_OVER, 50, 10, kills=True, outputs={"state": b"here\n"},
    ),
    ContainerScene(
        "entered", "A lease that its customer enters: a shell, files, a service on a port; then it leaves", "Lease",
        SERVE, TaskOutcome.TIME_STOPPED, 120, 10, is_stopped=True, ports=(PORT,),
    ),
    ContainerScene(
        "copies", "A job that three compute, of whom one gives something else than its program left", "Job",
        "wc -w < /in/words.txt > /out/count; sleep 4", TaskOutcome.ON_TIME, 20, 10, outputs={"count": b"6\n"}, copies=3,
        liar="Charlie",
    ),
)  # fmt: skip


@dataclass(slots=True)
class Harbour:
    """A devnet whose first providers run containers."""

    net: Devnet
    yard: Shipyard
    tell: Narrator
    struck: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    """What was not as it must be while a program ran."""


@contextmanager
def open_harbour(folder: Path, validators: int, tell: Narrator) -> Iterator[Harbour]:
    """Engine, registry and devnet; DevnetError with what is missing."""
    yard_folder = folder / "yard"
    with shipyard(yard_folder) as yard:
        os.environ["DOCKER_HOST"] = yard.engine  # the daemons find it there, as an operator's would
        net = stage.fresh_network(folder / "net", validators, any_ports=True, detach=False, tell=tell)
        try:
            for name, asked in ASKS.items():
                _let_run(net, name, asked, yard, tell)
            yield Harbour(net, yard, tell)
        finally:
            network.down(net)


def run_errand(harbour: Harbour, errand: Errand) -> list[str]:
    """Have a customer run an errand; what was not as it must be."""
    harbour.tell.step(errand.title)
    place = Place(harbour.net, harbour.yard.image, CUSTOMER_KEY, harbour.tell)
    try:
        failures = [*errand.do(place), *(f"a container is left: {name}" for name in _until_gone(harbour))]
    except DevnetError as error:
        failures = [str(error)]
    harbour.tell.line(f"{errand.name}: {'; '.join(failures) or 'held'}")
    return failures


def play(harbour: Harbour, scene: ContainerScene) -> ContainerFinding:
    """Sell the time of a scene, do what it says, and judge."""
    harbour.tell.step(scene.title)
    harbour.struck.clear()
    harbour.missed.clear()
    net, stashes = harbour.net, {ss58(dev_accounts.stash(name)): dev_accounts.stash(name) for name in ASKS}
    with _lying(harbour, scene):
        before, began = _wealth(net, stashes), time.monotonic()
        sale = _sold(harbour, scene)
    record = task_sale.record(net, sale)
    seconds = round(time.monotonic() - began, 1)
    left = _until_gone(harbour)
    told: dict[str, Any] = json.loads(task_sale.ask(net, sale, "describe"))
    moved = {account: now - before[account] for account, now in _wealth(net, stashes).items()}
    paid = sum(int(row["paid"]["grains"]) for row in told["payments"] if row["paid"] and row["account"] in moved)
    outcome = "none" if record.outcome is None else record.outcome.name.lower()
    finding = ContainerFinding(scene, outcome, record.behind + record.owed, seconds, paid)
    judge(finding, told, moved, _outputs(harbour, sale, record), left)
    finding.failures += _unverified(net, sale) + harbour.missed
    for failure in finding.failures:
        harbour.tell.line(f"FAILED: {failure}")
    harbour.tell.line(f"{scene.name}: {outcome}, {finding.intervals} intervals paid, {paid} grains, {seconds} s")
    return finding


def _sold(harbour: Harbour, scene: ContainerScene) -> TaskSale:
    """Submit a scene's task and follow it to its end."""
    found: list[TaskSale] = []

    def on_row(row: SaleRow) -> None:
        found.append(TaskSale(bytes.fromhex(row["task"][2:])))
        if "running" in row["state"] and "interval 0" not in row["state"] and not harbour.struck:
            _strike(harbour, scene, found[0])

    try:
        return task_sale.sell(harbour.net, _file(harbour, scene), CUSTOMER_KEY, harbour.tell, on_row)
    except DevnetError as error:
        if found and "ended without a result" in str(error):
            return found[0]
        raise


@contextmanager
def _lying(harbour: Harbour, scene: ContainerScene) -> Iterator[None]:
    """Meanwhile the provider of somebody cheats."""
    if not scene.liar:
        yield
        return
    net, member = harbour.net, harbour.net.member(scene.liar)
    honest = provider_process(net, member)
    cheating = replace(
        honest, module=stage.CHEAT_PROGRAM, arguments=(*stage.cheat_options("bent-outputs"), *honest.arguments)
    )
    for process in (cheating, honest):
        processes.stop(honest)
        processes.start(process)
        network.wait_for_provider(net, member)
        if process is cheating:
            yield


def _strike(harbour: Harbour, scene: ContainerScene, sale: TaskSale) -> None:
    """What a scene does once an interval is paid."""
    if not (scene.is_stopped or scene.kills):
        return
    harbour.struck.append(scene.name)
    net, tell = harbour.net, harbour.tell
    if scene.ports:
        harbour.missed += visit(net, sale, CUSTOMER_KEY, tell)
    if scene.is_stopped:
        task_sale.ask(net, sale, "amend", "--stop", "--key", CUSTOMER_KEY, "--yes", tell=tell)
        return
    member = net.member(name_of(ss58(task_sale.record(net, sale).slots[0].provider)))
    pid = processes.kill(provider_process(net, member))
    tell.line(f"killed the provider of {member.name} (process {pid}), and started it again")
    processes.start(provider_process(net, member))


def _let_run(net: Devnet, name: str, asked: str, yard: Shipyard, tell: Narrator) -> None:
    """Have a provider offer containers, which it does from its next start on."""
    member = net.member(name)
    words = ["--base-path", str(net.home(member) / "provider"), "policy", "--kind", "container"]
    words += ["--image", yard.repository, "--least-price", asked]
    programs.run("ogpu-provider", *words, keyring=net.keyring, show=tell.command)
    process = provider_process(net, member)
    processes.stop(process)
    processes.start(process)
    network.wait_for_provider(net, member)


def _file(harbour: Harbour, scene: ContainerScene) -> Path:
    """The scene's task file, with its input beside it."""
    folder = harbour.net.folder / "files"
    folder.mkdir(exist_ok=True)
    (folder / "words.txt").write_text(WORDS)
    path = folder / f"{scene.name}.yaml"
    path.write_text(
        f"apiVersion: ogpu/v1\nkind: {scene.kind}\nmetadata: {{name: {scene.name}}}\nspec:\n  run:\n"
        f"    image: {harbour.yard.image}\n    inputs: [words.txt]\n"
        + (f"    ports: {list(scene.ports)}\n" if scene.ports else "")
        + f"    command: [sh, -c, {json.dumps(scene.command)}]\n"
        f"  resources: {{cpu: 0.2, memory: 32Mi, disk: 8Mi}}\n  market: {{maxPrice: 0.2 oGPU}}\n"
        + (
            f"  limits: {{time: {scene.seconds}s, interval: {scene.interval}s}}\n"
            if scene.copies == 1
            else f"  limits: {{time: {scene.seconds}s}}\n  verify: {{copies: {scene.copies}}}\n"
        )
    )
    return path


def _until_gone(harbour: Harbour) -> list[str]:
    """The containers that are left after a while."""
    client = docker.APIClient(harbour.yard.engine, VERSION, 20)
    try:
        end, left = time.monotonic() + GONE_SECONDS, ["?"]
        while left and time.monotonic() < end:
            left = [found["Names"][0] for found in client.containers(all=True)]
            time.sleep(0.5)
        return left
    finally:
        client.close()


def _outputs(harbour: Harbour, sale: TaskSale, record: Task) -> dict[str, bytes] | None:
    """What the customer has of /out; None where there is nothing."""
    if not any(slot.result is not None for slot in record.slots):
        return None
    out = harbour.net.folder / f"{sale.name[:10]}.tar"
    task_sale.ask(harbour.net, sale, "result", "--key", CUSTOMER_KEY, "--out", str(out), tell=harbour.tell)
    with tarfile.open(fileobj=io.BytesIO(out.read_bytes())) as archive:
        files = [(entry.name, archive.extractfile(entry)) for entry in archive if entry.isfile()]
        return {name: content.read() for name, content in files if content is not None}


def _unverified(net: Devnet, sale: TaskSale) -> list[str]:
    rows = json.loads(task_sale.ask(net, sale, "verify"))
    return [f"verify: {row['what']}: {row['says']}" for row in rows if row["is_right"] is False]


def _wealth(net: Devnet, stashes: dict[str, bytes]) -> dict[str, int]:
    return asyncio.run(_wealth_of(net.members[0].rpc_url, stashes))


async def _wealth_of(url: str, stashes: dict[str, bytes]) -> dict[str, int]:
    async with await ChainClient.connect(url) as chain:
        height = await final_height(chain)
        return {name: await ledger.wealth(chain, stash, height) for name, stash in stashes.items()}
