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
from devnet.proofs.containers.errands import ERRANDS, SERVE_COMMAND, SERVICE_PORT, ErrandPlace, visit_container
from devnet.stage.actors import task_sale
from devnet.stage.actors.purchase import name_of_account
from devnet.stage.actors.task_sale import SaleRow, TaskSale
from devnet.stage.network import CUSTOMER_KEY, FreshDevnet, Stage
from devnet.stage.registry import client_of, push_image, running_registry
from devnet.stage.scenario import LiveProof, ProofRun, Scenario, run
from genesis import dev_accounts
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Task
from runtime.cryptography.ss58 import encode as ss58

VALIDATORS = 4


@dataclass(frozen=True, slots=True)
class EngineAndRegistry:
    """The engine's address, and the registry's image."""

    engine: str
    repository: str
    image: str
    """The repository with the digest."""


@contextmanager
def engine_and_registry(yard_folder: Path) -> Iterator[EngineAndRegistry]:
    """Yield an engine and a registry with an image of busybox. Raise DevnetError if a program is not installed."""
    if shutil.which("docker-registry") is None:
        raise DevnetError("there is no registry: apt-get install docker-registry")
    registry_port = one_free_port()
    with own_engine(yard_folder / "d") as address, running_registry(yard_folder, registry_port):
        repository = f"localhost:{registry_port}/tool"
        digest = push_image(address, MadeImage(busybox_files()).archive(), repository)
        yield EngineAndRegistry(address, repository, f"{repository}@sha256:{digest}")


@dataclass(frozen=True, slots=True)
class ContainerScene:
    """A task, the action on it, and its required outcome."""

    name: str
    title: str
    kind: str
    command: str
    required_outcome: TaskOutcome
    seconds: int
    """The bought time, in intervals of `interval`."""
    interval: int
    is_stopped: bool = False
    """True if its customer stops it after a paid interval."""
    kills_daemon: bool = False
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


def judge_scene(
    scene: ContainerScene,
    outcome: RanContainer,
    task_view: Mapping[str, Any],
    grains_moved: Mapping[str, int],
    outputs: Mapping[str, bytes] | None,
    remaining_containers: list[str],
) -> None:
    """Note each failed requirement. `task_view` is the output of `ogpu task show`, `grains_moved` each stash's gain."""
    failures = outcome.failures
    if outcome.outcome != scene.required_outcome.name.lower():
        failures.append(f"it ended as {outcome.outcome}, not {scene.required_outcome.name.lower()}")
    if (outputs or {}) != scene.outputs:
        failures.append(f"its outputs are {sorted(outputs or {})}, not {sorted(scene.outputs)}, or others within")
    # A container that stays uses a provider's memory and disk that nobody pays for.
    if remaining_containers:
        failures.append(f"containers are left: {', '.join(remaining_containers)}")
    failures += _wrong_copies(scene, task_view)
    grains_told = dict.fromkeys(grains_moved, 0)
    for row in task_view["payments"]:
        if row["account"] in grains_told and row["party"] != "customer":
            if row["paid"] is None or row["lost"] is None:
                failures.append(f"the payment of {row['party']} is not shown: {row['for']}")
                continue
            grains_told[row["account"]] += int(row["paid"]["grains"]) - int(row["lost"]["grains"])
    for account, grains_won in grains_moved.items():
        if grains_told[account] != grains_won:
            failures.append(f"{account} has won {grains_won} grains, and {grains_told[account]} are told")


def _wrong_copies(scene: ContainerScene, task_view: Mapping[str, Any]) -> Iterator[str]:
    """Yield failures about replicas: the liar alone is outvoted, and loses its collateral."""
    if scene.copies == 1:
        return
    rows = [row for row in task_view["payments"] if row["party"] == "provider"]
    if len(rows) != scene.copies:
        yield f"the payments of the task name {len(rows)} providers, not {scene.copies}"
    outvoted_count = sum(row["for"] == "outvoted" and int(row["lost"]["grains"]) > 0 for row in rows)
    if outvoted_count != bool(scene.liar):
        yield f"{outvoted_count} of its replicas were outvoted"


# Equal prices, so that each gets its own price as a replica.
ASKED_PRICES = dict.fromkeys(("Alice", "Bob", "Charlie"), "0.2 oGPU/h")
INPUT_TEXT = "to be counted by a job\n"
GONE_SECONDS = 30.0
"""The seconds after a task's end in which its container must be removed."""
CONTAINER_SCENES = (
    ContainerScene(
        "job", "A job: from a file to its outputs, paid until its program ends", "Job",
        "cat /in/words.txt > /out/copy; echo done; sleep 14", TaskOutcome.TIME_OVER, 60, 10,
        outputs={"copy": INPUT_TEXT.encode()},
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
        "echo here > /out/state; sleep 600", TaskOutcome.TIME_OVER, 50, 10, kills_daemon=True,
        outputs={"state": b"here\n"},
    ),
    ContainerScene(
        "entered", "A lease that its customer enters: a shell, files, a service on a port; then it leaves", "Lease",
        SERVE_COMMAND, TaskOutcome.TIME_STOPPED, 120, 10, is_stopped=True, ports=(SERVICE_PORT,),
    ),
    ContainerScene(
        "copies", "Three providers compute a job, and one returns another output than its program's", "Job",
        "wc -w < /in/words.txt > /out/count; sleep 4", TaskOutcome.ON_TIME, 20, 10, outputs={"count": b"6\n"}, copies=3,
        liar="Charlie",
    ),
)  # fmt: skip


@dataclass(slots=True)
class ContainerStage(Stage):
    """A devnet whose first providers run containers."""

    engine_and_registry: EngineAndRegistry = field(kw_only=True)


@contextmanager
def with_engine(proof_run: ProofRun) -> Iterator[ContainerStage]:
    """Open engine, registry and devnet. Raise DevnetError if a program is missing."""
    shutil.rmtree(proof_run.folder, ignore_errors=True)
    (proof_run.folder / "yard").mkdir(parents=True)
    with engine_and_registry(proof_run.folder / "yard") as private_engine:
        os.environ["DOCKER_HOST"] = private_engine.engine  # the daemons find it there, as an operator's would
        with CONTAINER_NETWORK.open(proof_run) as stage:
            for name, asked_price in ASKED_PRICES.items():
                arguments = ("--kind", "container", "--image", private_engine.repository, "--least-price", asked_price)
                stage.provider(name, "policy", *arguments)
            stage.restart(dict.fromkeys(ASKED_PRICES))
            yield ContainerStage(stage.devnet, stage.narrator, stage.options, engine_and_registry=private_engine)


def run_errand(errand: Callable[[ErrandPlace], Iterator[str]], stage: ContainerStage) -> dict[str, list[str]]:
    """Run a customer's errand, and return its failures."""
    try:
        failures = [
            *errand(ErrandPlace(stage, stage.engine_and_registry.image)),
            *(f"a container is left: {container}" for container in _remaining_containers(stage)),
        ]
    except DevnetError as error:
        failures = [str(error)]
    return {"failures": failures}


def run_scene(scene: ContainerScene, stage: ContainerStage) -> RanContainer:
    """Sell the time of a scene, act as it says, and judge."""
    stashes_by_address = {ss58(dev_accounts.stash(name)): (dev_accounts.stash(name),) for name in ASKED_PRICES}
    if scene.liar:
        # One liar among three: the two equal results must count.
        stage.restart({scene.liar: "bent-outputs"})
    wealth_before, started, misses = stage.wealth(stashes_by_address), time.monotonic(), list[str]()
    sale = _sell_scene(stage, scene, misses)
    if scene.liar:
        stage.restart({scene.liar: None})
    record = task_sale.record(stage, sale.task_id)
    seconds = round(time.monotonic() - started, 1)
    remaining_containers = _remaining_containers(stage)
    task_view: dict[str, Any] = json.loads(task_sale.ask_about_task(stage, sale, "task show"))
    grains_moved = {
        stash: wealth_now - wealth_before[stash] for stash, wealth_now in stage.wealth(stashes_by_address).items()
    }
    paid_grains = sum(
        int(row["paid"]["grains"]) for row in task_view["payments"] if row["paid"] and row["account"] in grains_moved
    )
    outcome_name = "none" if record.outcome is None else record.outcome.name.lower()
    outcome = RanContainer(outcome_name, record.behind + record.owed, seconds, paid_grains)
    judge_scene(scene, outcome, task_view, grains_moved, _fetched_outputs(stage, sale, record), remaining_containers)
    rows = task_sale.verification_rows(stage, sale)
    outcome.failures += [f"verify: {row['what']}: {row['says']}" for row in rows if row["is_right"] is False]
    outcome.failures += misses
    return outcome


def _sell_scene(stage: ContainerStage, scene: ContainerScene, misses: list[str]) -> TaskSale:
    """Submit a scene's task, follow it to its end, and act after a paid interval."""
    sales_seen, actions_done = list[TaskSale](), list[str]()

    def on_row(sale_row: SaleRow) -> None:
        sales_seen.append(TaskSale(bytes.fromhex(sale_row["task"][2:])))
        is_due = "running" in sale_row["state"] and "interval 0" not in sale_row["state"]
        if is_due and not actions_done and (scene.is_stopped or scene.kills_daemon):
            actions_done.append(scene.name)
            misses.extend(_act_on_container(stage, scene, sales_seen[0]))

    try:
        return task_sale.sell_task(stage, _write_scene_file(stage, scene), on_row=on_row)
    # `ogpu` fails for a task without a result, such as a lease that its customer leaves early.
    except ProgramFailedError as error:
        if sales_seen and error.code == "no_result":
            return sales_seen[0]
        raise


def _act_on_container(stage: ContainerStage, scene: ContainerScene, sale: TaskSale) -> list[str]:
    """Act as the scene says, and return failures."""
    misses = visit_container(stage, sale.name) if scene.ports else []
    if scene.is_stopped:
        task_sale.ask_about_task(stage, sale, "task stop", "--key", CUSTOMER_KEY, "--yes", is_shown=True)
    else:
        stage.kill_and_restart(
            name_of_account(task_sale.record(stage, sale.task_id).slots[0].provider), "amid its lease"
        )
    return misses


def _write_scene_file(stage: ContainerStage, scene: ContainerScene) -> Path:
    """Write the scene's task file with its input beside it, and return its path."""
    files_folder = stage.devnet.folder / "files"
    files_folder.mkdir(exist_ok=True)
    (files_folder / "words.txt").write_text(INPUT_TEXT)
    file = files_folder / f"{scene.name}.yaml"
    file.write_text(
        f"apiVersion: ogpu/v1\nkind: {scene.kind}\nmetadata: {{name: {scene.name}}}\nspec:\n  run:\n"
        f"    image: {stage.engine_and_registry.image}\n    inputs: [words.txt]\n"
        + (f"    ports: {list(scene.ports)}\n" if scene.ports else "")
        + f"    command: [sh, -c, {json.dumps(scene.command)}]\n"
        f"  resources: {{cpu: 0.2, memory: 32Mi, disk: 8Mi}}\n  market: {{maxPrice: 0.2 oGPU}}\n"
        + (
            f"  limits: {{time: {scene.seconds}s, interval: {scene.interval}s}}\n"
            if scene.copies == 1
            else f"  limits: {{time: {scene.seconds}s}}\n  verify: {{copies: {scene.copies}}}\n"
        )
    )
    return file


def _remaining_containers(stage: ContainerStage) -> list[str]:
    """Return the containers that remain after GONE_SECONDS."""
    with closing(client_of(stage.engine_and_registry.engine)) as engine:
        deadline, remaining_containers = time.monotonic() + GONE_SECONDS, ["?"]
        while remaining_containers and time.monotonic() < deadline:
            remaining_containers = [container["Names"][0] for container in engine.containers(all=True)]
            time.sleep(0.5)
        return remaining_containers


def _fetched_outputs(stage: ContainerStage, sale: TaskSale, record: Task) -> dict[str, bytes] | None:
    """Return the files of /out that the customer fetched, or None without a result."""
    if not any(slot.result is not None for slot in record.slots):
        return None
    outputs = stage.devnet.folder / f"{sale.name[:10]}.tar"
    task_sale.ask_about_task(stage, sale, "task result", "--key", CUSTOMER_KEY, "--out", str(outputs), is_shown=True)
    return task_sale.files_of(outputs)


def figures(facts_by_scenario: Mapping[str, Any]) -> str:
    """Return the line of figures."""
    container_outcomes = [outcome for outcome in facts_by_scenario.values() if isinstance(outcome, RanContainer)]
    return (
        f"{len(container_outcomes)} programs, {sum(outcome.intervals for outcome in container_outcomes)} intervals "
        f"paid, {len(facts_by_scenario) - len(container_outcomes)} errands"
    )


CONTAINER_NETWORK = FreshDevnet(VALIDATORS, "net")
PROOF = LiveProof(
    "containers",
    "Programs run in containers.",
    (
        *(Scenario(scene.name, scene.title, with_engine, partial(run_scene, scene)) for scene in CONTAINER_SCENES),
        *(
            Scenario(name, title, with_engine, partial(run_errand, do), lambda facts: facts["failures"])
            for name, title, do in ERRANDS
        ),
    ),
    figures,
    folder=Path("/tmp/ogpu-containers"),  # noqa: S108  # a short path
)

if __name__ == "__main__":
    run(PROOF)
