"""The demo's container: a customer sends a program with its image, and a provider runs it beside the other steps.

Invariant: if no engine is usable, the demo says why and continues. An error in the thread is a failure of the demo. An
engine that the demo starts ends with it, and an existing engine keeps none of the demo's objects.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import requests
from docker.errors import DockerException

from devnet.launcher import programs
from devnet.launcher.dockerd import own_engine, why_no_engine
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet
from devnet.launcher.made_images import MadeImage, busybox_files
from devnet.stage.actors import task_sale
from devnet.stage.actors.purchase import name_of_account
from devnet.stage.actors.task_sale import TaskSale
from devnet.stage.network import Stage
from devnet.stage.report import Narrator
from gpu_tasks.market.training.money import TaskOutcome
from wallet.amounts import format_amount

CUSTOMER = "Bob"
PROVIDER = "Charlie"
"""Neither of the two bids for the training task or buys units."""
ASKS = "0.2 oGPU/h"
DEFAULT_ENGINE = "unix:///var/run/docker.sock"
WORDS = "some words that\nnobody has counted yet\n"
LEAVES = {"count": b"7\n"}
PATIENCE_SECONDS = 120.0
ENGINE_SECONDS = 20
TASK = """apiVersion: ogpu/v1
kind: Job
metadata: {{name: counting}}
spec:
  run:
    image: "sha256:{sha256}"
    archive: tool.tar
    inputs: [words.txt]
    command: [sh, -c, "wc -w < /in/words.txt > /out/count; echo counted; sleep 3"]
  resources: {{cpu: 0.2, memory: 32Mi, disk: 8Mi}}
  market: {{maxPrice: 0.05 oGPU}}
  limits: {{time: 1m, interval: 10s}}
"""


@dataclass(frozen=True, slots=True)
class DemoEngine:
    """The address of a container engine, or the reason why there is none."""

    address: str
    why_not: str = ""


@contextlib.contextmanager
def engine_for(*, stay: bool) -> Iterator[DemoEngine]:
    """Yield a running engine, or the demo's own during the block. Daemons find it as operators' daemons do.

    Call it before any thread exists. With `stay` the engine must outlive the demo, so the demo starts none of its own.
    """
    with contextlib.ExitStack() as exits:
        there = os.environ.get("DOCKER_HOST", DEFAULT_ENGINE)
        if _answers(there):
            yield DemoEngine(there)
            return
        why = why_no_engine() or why_no_program()
        why += f"; a Docker that runs at {there}, and that this user may use, is as good" if why else ""
        if not why and stay:
            why = "an engine of the demo's own would end with it (start Docker before)"
        if why:
            yield DemoEngine("", why)
            return
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="ogpu-")))
        try:
            address = exits.enter_context(own_engine(folder / "d"))
        except DevnetError as error:
            yield DemoEngine("", str(error))
            return
        yield DemoEngine(address)


def why_no_program() -> str:
    """Return the reason why there is no program for an image, or an empty text."""
    try:
        busybox_files()
    except DevnetError as error:
        return str(error)
    return ""


def offer(devnet: Devnet, engine: DemoEngine, narrator: Narrator) -> None:
    """Make a provider offer containers.

    Its daemon reads the policy and the environment at its start, so call this before.
    """
    if engine.why_not:
        return
    os.environ["DOCKER_HOST"] = engine.address
    words = ["--base-path", str(devnet.home(devnet.member(PROVIDER)) / "provider"), "policy", "--kind", "container"]
    words += ["--any-archive", "--least-price", ASKS]
    programs.run("ogpu-provider", *words, keyring=devnet.keyring, show=narrator.command)


class DemoProgram:
    """A job that is sold, run and fetched beside other steps."""

    def __init__(self, stage: Stage, engine: DemoEngine) -> None:
        """Submit the job if there is an engine, and follow it in a thread."""
        self._stage = stage
        self._engine = engine
        self._sale: TaskSale | None = None
        self._problem = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        if engine.why_not:
            stage.narrator.line(f"left out: {engine.why_not}")
        else:
            self._thread.start()

    def _run(self) -> None:
        try:
            self._sale = task_sale.sell_task(
                self._stage, write_task(self._stage.devnet.folder / "job"), f"//{CUSTOMER}"
            )
        except Exception as error:  # noqa: BLE001  # it is told as a failure of the demo, in the thread that shows it
            self._problem = str(error) or repr(error)

    def end(self) -> dict[str, Any]:
        """Wait for the job's end, fetch its outputs, show the payment, and return the report."""
        if self._engine.why_not:
            return {"left_out": self._engine.why_not, "failures": []}
        self._thread.join(PATIENCE_SECONDS)
        if self._thread.is_alive() or self._sale is None:
            return {"failures": [f"the container has not ended as it should: {self._problem or 'it goes on'}"]}
        record = task_sale.record(self._stage, self._sale.task_id)
        (slot,) = record.slots
        found = self._outputs(self._sale)
        failures = [] if found == LEAVES else [f"the container left {found}, not {LEAVES}"]
        if record.outcome is not TaskOutcome.TIME_OVER or slot.result is None or slot.result.metric != 0:
            failures.append(f"the container ended as {record.outcome}, with {slot.result}")
        paid, who = self._paid(self._sale), name_of_account(slot.provider)
        if not paid:
            failures.append("who ran the container was paid nothing")
        held = ", ".join(f"{name}: {content!r}" for name, content in found.items())
        self._stage.narrator.line(f"{who} ran it, and was paid {format_amount(paid)} oGPU; its outputs: {held}")
        return {"task": self._sale.name, "provider": who, "earned_grains": str(paid), "failures": failures}

    def _paid(self, sale: TaskSale) -> int:
        """Return the provider's payment for the task, by `ogpu task show`."""
        rows = json.loads(task_sale.ask_about_task(self._stage, sale, "task show"))["payments"]
        return sum(int(row["paid"]["grains"]) for row in rows if row["party"] == "provider" and row["paid"])

    def _outputs(self, sale: TaskSale) -> dict[str, bytes]:
        out = self._stage.devnet.folder / "job" / "out.tar"
        words = ("--key", f"//{CUSTOMER}", "--out", str(out))
        task_sale.ask_about_task(self._stage, sale, "task result", *words, is_shown=True)
        return task_sale.files_of(out)


def write_task(folder: Path) -> Path:
    """Write the task file, its input and its image, and return the file's path."""
    folder.mkdir()
    image = MadeImage(busybox_files()).archive()
    assert isinstance(image.content, bytes), "made in memory"
    (folder / "tool.tar").write_bytes(image.content)
    (folder / "words.txt").write_text(WORDS)
    path = folder / "job.yaml"
    path.write_text(TASK.format(sha256=image.sha256))
    return path


def _answers(address: str) -> bool:
    """Return whether this user may use an engine at this address."""
    if not address.startswith("unix:///") or not os.access(address.removeprefix("unix://"), os.R_OK | os.W_OK):
        return False
    try:
        client = docker.APIClient(address, version="auto", timeout=ENGINE_SECONDS)
    except (DockerException, requests.RequestException):
        return False
    client.close()
    return True
