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

CUSTOMER_NAME = "Bob"
# Neither of the two bids for the training task or buys units.
PROVIDER_NAME = "Charlie"
LEAST_PRICE = "0.2 oGPU/h"
DEFAULT_ENGINE = "unix:///var/run/docker.sock"
INPUT_TEXT = "some words that\nnobody has counted yet\n"
EXPECTED_OUTPUTS = {"count": b"7\n"}
PATIENCE_SECONDS = 120.0
ENGINE_SECONDS = 20
TASK_TEMPLATE = """apiVersion: ogpu/v1
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
    missing_reason: str = ""


@contextlib.contextmanager
def engine_for(*, stays_running: bool) -> Iterator[DemoEngine]:
    """Yield a running engine, or the demo's own during the block. Daemons find it as operators' daemons do.

    Call it before any thread exists. With `stays_running`, the engine must outlive the demo, so the demo starts none.
    """
    with contextlib.ExitStack() as stack:
        address = os.environ.get("DOCKER_HOST", DEFAULT_ENGINE)
        # An engine of the machine comes first: the demo's own would end with it.
        if _is_usable(address):
            yield DemoEngine(address)
            return
        reason = why_no_engine() or why_no_program()
        reason += f"; a Docker that runs at {address}, and that this user may use, is as good" if reason else ""
        if not reason and stays_running:
            reason = "an engine of the demo's own would end with it (start Docker before)"
        if reason:
            yield DemoEngine("", reason)
            return
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ogpu-")))
        try:
            own_address = stack.enter_context(own_engine(folder / "d"))
        except DevnetError as error:
            yield DemoEngine("", str(error))
            return
        yield DemoEngine(own_address)


def why_no_program() -> str:
    """Return the reason why there is no program for an image, or an empty text."""
    try:
        busybox_files()
    except DevnetError as error:
        return str(error)
    return ""


def offer_containers(devnet: Devnet, engine: DemoEngine, narrator: Narrator) -> None:
    """Make a provider offer containers.

    Its daemon reads the policy and the environment at its start, so call this before.
    """
    if engine.missing_reason:
        return
    os.environ["DOCKER_HOST"] = engine.address
    home = devnet.home(devnet.member(PROVIDER_NAME)) / "provider"
    arguments = [
        "--base-path",
        str(home),
        "policy",
        "--kind",
        "container",
        "--any-archive",
        "--least-price",
        LEAST_PRICE,
    ]
    programs.run("ogpu-provider", *arguments, keyring=devnet.keyring, show=narrator.command)


class DemoProgram:
    """A job that is sold, run and fetched beside other steps."""

    def __init__(self, stage: Stage, engine: DemoEngine) -> None:
        """Submit the job if there is an engine, and follow it in a thread."""
        self._stage = stage
        self._engine = engine
        self._sale: TaskSale | None = None
        self._problem = ""
        self._thread = threading.Thread(target=self._sell_program, daemon=True)
        if engine.missing_reason:
            stage.narrator.line(f"left out: {engine.missing_reason}")
        else:
            self._thread.start()

    def _sell_program(self) -> None:
        try:
            self._sale = task_sale.sell_task(
                self._stage, write_task(self._stage.devnet.purchases / "job"), f"//{CUSTOMER_NAME}"
            )
        except Exception as error:  # noqa: BLE001  # it is told as a failure of the demo, in the thread that shows it
            self._problem = str(error) or repr(error)

    def wait_for_end(self) -> dict[str, Any]:
        """Wait for the job's end, fetch its outputs, show the payment, and return the report."""
        if self._engine.missing_reason:
            return {"left_out": self._engine.missing_reason, "failures": []}
        self._thread.join(PATIENCE_SECONDS)
        if self._thread.is_alive() or self._sale is None:
            return {"failures": [f"the container has not ended as it should: {self._problem or 'it goes on'}"]}
        record = task_sale.record(self._stage, self._sale.task_id)
        (slot,) = record.slots
        outputs = self._fetch_outputs(self._sale)
        failures = [] if outputs == EXPECTED_OUTPUTS else [f"the container left {outputs}, not {EXPECTED_OUTPUTS}"]
        if record.outcome is not TaskOutcome.TIME_OVER or slot.result is None or slot.result.metric != 0:
            failures.append(f"the container ended as {record.outcome}, with {slot.result}")
        paid_grains, provider = self._paid_grains(self._sale), name_of_account(slot.provider)
        if not paid_grains:
            failures.append("the provider of the container was not paid")
        shown = ", ".join(f"{name}: {content!r}" for name, content in outputs.items())
        self._stage.narrator.line(
            f"{provider} ran it, and was paid {format_amount(paid_grains)} oGPU; its outputs: {shown}"
        )
        return {"task": self._sale.name, "provider": provider, "earned_grains": str(paid_grains), "failures": failures}

    def _paid_grains(self, sale: TaskSale) -> int:
        """Return the provider's payment for the task, by `ogpu task show`."""
        rows = json.loads(task_sale.ask_about_task(self._stage, sale, "task show"))["payments"]
        return sum(int(row["paid"]["grains"]) for row in rows if row["party"] == "provider" and row["paid"])

    def _fetch_outputs(self, sale: TaskSale) -> dict[str, bytes]:
        archive = self._stage.devnet.purchases / "job" / "out.tar"
        arguments = ("--key", f"//{CUSTOMER_NAME}", "--out", str(archive))
        task_sale.ask_about_task(self._stage, sale, "task result", *arguments, is_shown=True)
        return task_sale.files_of(archive)


def write_task(folder: Path) -> Path:
    """Write the task file, its input and its image, and return the file's path."""
    folder.mkdir(parents=True)
    busybox = MadeImage(busybox_files()).archive()
    assert isinstance(busybox.content, bytes), "made in memory"
    (folder / "tool.tar").write_bytes(busybox.content)
    (folder / "words.txt").write_text(INPUT_TEXT)
    file = folder / "job.yaml"
    file.write_text(TASK_TEMPLATE.format(sha256=busybox.sha256))
    return file


def _is_usable(address: str) -> bool:
    """Return whether this user may use an engine at this address."""
    if not address.startswith("unix:///") or not os.access(address.removeprefix("unix://"), os.R_OK | os.W_OK):
        return False
    try:
        engine = docker.APIClient(address, version="auto", timeout=ENGINE_SECONDS)
    except (DockerException, requests.RequestException):
        return False
    engine.close()
    return True
