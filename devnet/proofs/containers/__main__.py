"""`python -m devnet.proofs.containers`: jobs and leases in real containers on a devnet; exit 1 on a failure.

They are run, watched, left by either side, and paid to the grain. Invariant: all actions use the production programs. A
killed daemon is restarted within the scene. Engine, registry and image belong to this proof, and end with it.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from devnet.launcher.dockerd import own_engine
from devnet.launcher.folder import DevnetError
from devnet.launcher.free_ports import one_free_port
from devnet.launcher.made_images import MadeImage, busybox_files
from devnet.launcher.programs import ProgramFailedError
from devnet.proofs.containers.errands import ERRANDS, PORT, SERVE, Place, visit
from devnet.stage.actors import task_sale
from devnet.stage.actors.purchase import name_of
from devnet.stage.actors.task_sale import SaleRow, TaskSale
from devnet.stage.network import CUSTOMER_KEY, FreshDevnet, Stage
from devnet.stage.registry import client_of, pushed, registry
from devnet.stage.scenario import LiveProof, ProofRun, Scenario, run
from genesis import dev_accounts
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Task
from runtime.cryptography.ss58 import encode as ss58

VALIDATORS = 4


@dataclass(frozen=True, slots=True)
class Shipyard:
    """The engine's address, and the registry's image."""

    engine: str
    repository: str
    image: str
    """The repository with the digest."""


@contextmanager
def shipyard(folder: Path) -> Iterator[Shipyard]:
    """Yield an engine and a registry with an image of busybox. Raise DevnetError if a program is not installed."""
    if shutil.which("docker-registry") is None:
        raise DevnetError("there is no registry: apt-get install docker-registry")
    port = one_free_port()
    with own_engine(folder / "d") as engine, registry(folder, port):
        repository = f"localhost:{port}/tool"
        digest = pushed(engine, MadeImage(busybox_files()).archive(), repository)
        yield Shipyard(engine, repository, f"{repository}@sha256:{digest}")


@dataclass(frozen=True, slots=True)
class ContainerScene:
    """A task, the action on it, and its required outcome."""

    name: str
    title: str
    kind: str
    command: str
    ends: TaskOutcome
    seconds: int
    """The bought time, in intervals of `interval`."""
    interval: int
    is_stopped: bool = False
    """True if its customer stops it after a paid interval."""
    kills: bool = False
    """True if its provider's daemon is killed after a paid interval, and restarted at once."""
    outputs: Mapping[str, bytes] = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    """The ports on which its program listens. Its customer enters the container after a paid interval."""
    copies: int = 1
    """The number of devices that compute it, for comparison."""
    liar: str = ""
    """The provider among them with falsified outputs."""


@dataclass(slots=True)
class RanContainer:
    """The outcome of a scene."""

    outcome: str
    intervals: int
    seconds: float
    """From submission to the end."""
    paid_grains: int
    """To providers, by `ogpu task show`."""
    failures: list[str] = field(default_factory=list)


def judge(
    scene: ContainerScene,
    finding: RanContainer,
    told: Mapping[str, Any],
    moved: Mapping[str, int],
    outputs: Mapping[str, bytes] | None,
    left: list[str],
) -> None:
    """Note what is not as it must be: `told` is what `ogpu task show` says, `moved` what each stash has won."""
    failures = finding.failures
    if finding.outcome != scene.ends.name.lower():
        failures.append(f"it ended as {finding.outcome}, not {scene.ends.name.lower()}")
    if (outputs or {}) != scene.outputs:
        failures.append(f"its outputs are {sorted(outputs or {})}, not {sorted(scene.outputs)}, or others within")
    if left:
        failures.append(f"containers are left: {', '.join(left)}")
    failures += _wrong_copies(scene, told)
    won = dict.fromkeys(moved, 0)
    for row in told["payments"]:
        if row["account"] in won and row["party"] != "customer":
            if row["paid"] is None or row["lost"] is None:
                failures.append(f"what {row['party']} was paid is not told: {row['for']}")
                continue
            won[row["account"]] += int(row["paid"]["grains"]) - int(row["lost"]["grains"])
    for account, grains in moved.items():
        if won[account] != grains:
            failures.append(f"{account} has won {grains} grains, and {won[account]} are told")


def _wrong_copies(scene: ContainerScene, told: Mapping[str, Any]) -> Iterator[str]:
    """Yield failures about replicas: the liar alone is outvoted, and loses money."""
    if scene.copies == 1:
        return
    rows = [row for row in told["payments"] if row["party"] == "provider"]
    if len(rows) != scene.copies:
        yield f"the payments of the task name {len(rows)} providers, not {scene.copies}"
    outvoted = sum(row["for"] == "outvoted" and int(row["lost"]["grains"]) > 0 for row in rows)
    if outvoted != bool(scene.liar):
        yield f"{outvoted} of its replicas are outvoted"


ASKS = dict.fromkeys(("Alice", "Bob", "Charlie"), "0.2 oGPU/h")
"""Equal prices, so that each gets its own price as a replica."""
WORDS = "to be counted by a job\n"
GONE_SECONDS = 30.0
"""The seconds after a task's end in which its container must be removed."""
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
class ContainerStage(Stage):
    """A devnet whose first providers run containers."""

    yard: Shipyard = field(kw_only=True)


@contextmanager
def with_engine(run: ProofRun) -> Iterator[ContainerStage]:
    """Open engine, registry and devnet. Raise DevnetError if a program is missing."""
    shutil.rmtree(run.folder, ignore_errors=True)
    (run.folder / "yard").mkdir(parents=True)
    with shipyard(run.folder / "yard") as yard:
        os.environ["DOCKER_HOST"] = yard.engine  # the daemons find it there, as an operator's would
        with NETWORK.open(run) as stage:
            for name, asked in ASKS.items():
                words = ("--kind", "container", "--image", yard.repository, "--least-price", asked)
                stage.provider(name, "policy", *words)
            stage.restart(dict.fromkeys(ASKS))
            yield ContainerStage(stage.net, stage.tell, stage.options, yard=yard)


def errand_run(do: Callable[[Place], Iterator[str]], stage: ContainerStage) -> dict[str, list[str]]:
    """Run a customer's errand, and return its failures."""
    try:
        failures = [
            *do(Place(stage, stage.yard.image)),
            *(f"a container is left: {name}" for name in _until_gone(stage)),
        ]
    except DevnetError as error:
        failures = [str(error)]
    return {"failures": failures}


def ran(scene: ContainerScene, stage: ContainerStage) -> RanContainer:
    """Sell the time of a scene, act as it says, and judge."""
    addresses = {ss58(dev_accounts.stash(name)): (dev_accounts.stash(name),) for name in ASKS}
    if scene.liar:
        stage.restart({scene.liar: "bent-outputs"})
    before, began, missed = stage.wealth(addresses), time.monotonic(), list[str]()
    sale = _sold(stage, scene, missed)
    if scene.liar:
        stage.restart({scene.liar: None})
    record = task_sale.record(stage, sale.task_id)
    seconds = round(time.monotonic() - began, 1)
    left = _until_gone(stage)
    told: dict[str, Any] = json.loads(task_sale.ask(stage, sale, "task show"))
    moved = {address: now - before[address] for address, now in stage.wealth(addresses).items()}
    paid = sum(int(row["paid"]["grains"]) for row in told["payments"] if row["paid"] and row["account"] in moved)
    outcome = "none" if record.outcome is None else record.outcome.name.lower()
    finding = RanContainer(outcome, record.behind + record.owed, seconds, paid)
    judge(scene, finding, told, moved, _outputs(stage, sale, record), left)
    rows = task_sale.verified(stage, sale)
    finding.failures += [f"verify: {row['what']}: {row['says']}" for row in rows if row["is_right"] is False]
    finding.failures += missed
    return finding


def _sold(stage: ContainerStage, scene: ContainerScene, missed: list[str]) -> TaskSale:
    """Submit a scene's task, follow it to its end, and act after a paid interval."""
    found, struck = list[TaskSale](), list[str]()

    def on_row(row: SaleRow) -> None:
        found.append(TaskSale(bytes.fromhex(row["task"][2:])))
        is_due = "running" in row["state"] and "interval 0" not in row["state"]
        if is_due and not struck and (scene.is_stopped or scene.kills):
            struck.append(scene.name)
            missed.extend(_strike(stage, scene, found[0]))

    try:
        return task_sale.sell(stage, _file(stage, scene), on_row=on_row)
    except ProgramFailedError as error:
        if found and error.code == "no_result":
            return found[0]
        raise


def _strike(stage: ContainerStage, scene: ContainerScene, sale: TaskSale) -> list[str]:
    """Act as the scene says, and return failures."""
    missed = visit(stage, sale.name) if scene.ports else []
    if scene.is_stopped:
        task_sale.ask(stage, sale, "task amend", "--stop", "--key", CUSTOMER_KEY, "--yes", is_shown=True)
    else:
        stage.kill_and_restart(name_of(task_sale.record(stage, sale.task_id).slots[0].provider), "amid its lease")
    return missed


def _file(stage: ContainerStage, scene: ContainerScene) -> Path:
    """Write the scene's task file with its input beside it, and return its path."""
    folder = stage.net.folder / "files"
    folder.mkdir(exist_ok=True)
    (folder / "words.txt").write_text(WORDS)
    path = folder / f"{scene.name}.yaml"
    path.write_text(
        f"apiVersion: ogpu/v1\nkind: {scene.kind}\nmetadata: {{name: {scene.name}}}\nspec:\n  run:\n"
        f"    image: {stage.yard.image}\n    inputs: [words.txt]\n"
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


def _until_gone(stage: ContainerStage) -> list[str]:
    """Return the containers that remain after GONE_SECONDS."""
    with closing(client_of(stage.yard.engine)) as client:
        end, left = time.monotonic() + GONE_SECONDS, ["?"]
        while left and time.monotonic() < end:
            left = [found["Names"][0] for found in client.containers(all=True)]
            time.sleep(0.5)
        return left


def _outputs(stage: ContainerStage, sale: TaskSale, record: Task) -> dict[str, bytes] | None:
    """Return the files of /out that the customer fetched, or None without a result."""
    if not any(slot.result is not None for slot in record.slots):
        return None
    out = stage.net.folder / f"{sale.name[:10]}.tar"
    task_sale.ask(stage, sale, "task result", "--key", CUSTOMER_KEY, "--out", str(out), is_shown=True)
    return task_sale.files_of(out)


def figures(facts: Mapping[str, Any]) -> str:
    """Return the line of figures."""
    found = [each for each in facts.values() if isinstance(each, RanContainer)]
    return (
        f"{len(found)} programs, {sum(each.intervals for each in found)} intervals paid, "
        f"{len(facts) - len(found)} errands"
    )


NETWORK = FreshDevnet(VALIDATORS, "net")
PROOF = LiveProof(
    "containers",
    "Programs run in containers.",
    (
        *(Scenario(scene.name, scene.title, with_engine, partial(ran, scene)) for scene in SCENES),
        *(
            Scenario(name, title, with_engine, partial(errand_run, do), lambda facts: facts["failures"])
            for name, title, do in ERRANDS
        ),
    ),
    figures,
    folder=Path("/tmp/ogpu-containers"),  # noqa: S108  # a short path
)

if __name__ == "__main__":
    run(PROOF)
