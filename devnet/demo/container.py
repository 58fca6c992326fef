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

    Call it before any thread exists. With `stay` the engine must outlive the demo, so the demo starts none of its own.
    """
    with contextlib.ExitStack() as stack:
        address = os.environ.get("DOCKER_HOST", DEFAULT_ENGINE)
        # An engine of the machine comes first: the demo's own would end with it.
        if _is_usable(address):
            yield DemoEngine(address)
            return
        missing_reason = why_no_engine() or why_no_program()
        missing_reason += (
            f"; a Docker that runs at {address}, and that this user may use, is as good" if missing_reason else ""
        )
        if not missing_reason and stays_running:
            missing_reason = "an engine of the demo's own would end with it (start Docker before)"
        if missing_reason:
            yield DemoEngine("", missing_reason)
            return
        engine_folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ogpu-")))
        try:
            own_address = stack.enter_context(own_engine(engine_folder / "d"))
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
    policy_arguments = [
        "--base-path",
        str(devnet.home(devnet.member(PROVIDER_NAME)) / "provider"),
        "policy",
        "--kind",
        "container",
    ]
    policy_arguments += ["--any-archive", "--least-price", LEAST_PRICE]
    programs.run("ogpu-provider", *policy_arguments, keyring=devnet.keyring, show=narrator.command)


class DemoProgram:
    """A job that is sold, run and fetched beside other steps."""

    def __init__(self, stage: Stage, engine: DemoEngine) -> None:
        """Submit the job if there is an engine, and follow it in a thread."""
        self._stage = stage
        self._demo_engine = engine
        self._task_sale: TaskSale | None = None
        self._sale_problem = ""
        self._sale_thread = threading.Thread(target=self._sell_program, daemon=True)
        if engine.missing_reason:
            stage.narrator.line(f"left out: {engine.missing_reason}")
        else:
            self._sale_thread.start()

    def _sell_program(self) -> None:
        try:
            self._task_sale = task_sale.sell_task(
                self._stage, write_task(self._stage.devnet.folder / "job"), f"//{CUSTOMER_NAME}"
            )
        except Exception as error:  # noqa: BLE001  # it is told as a failure of the demo, in the thread that shows it
            self._sale_problem = str(error) or repr(error)

    def wait_for_end(self) -> dict[str, Any]:
        """Wait for the job's end, fetch its outputs, show the payment, and return the report."""
        if self._demo_engine.missing_reason:
            return {"left_out": self._demo_engine.missing_reason, "failures": []}
        self._sale_thread.join(PATIENCE_SECONDS)
        if self._sale_thread.is_alive() or self._task_sale is None:
            return {"failures": [f"the container has not ended as it should: {self._sale_problem or 'it goes on'}"]}
        record = task_sale.record(self._stage, self._task_sale.task_id)
        (task_slot,) = record.slots
        output_files = self._fetch_outputs(self._task_sale)
        failures = (
            [] if output_files == EXPECTED_OUTPUTS else [f"the container left {output_files}, not {EXPECTED_OUTPUTS}"]
        )
        if record.outcome is not TaskOutcome.TIME_OVER or task_slot.result is None or task_slot.result.metric != 0:
            failures.append(f"the container ended as {record.outcome}, with {task_slot.result}")
        paid_grains, provider_name = self._paid_grains(self._task_sale), name_of_account(task_slot.provider)
        if not paid_grains:
            failures.append("the provider of the container was not paid")
        outputs_text = ", ".join(f"{name}: {file_content!r}" for name, file_content in output_files.items())
        self._stage.narrator.line(
            f"{provider_name} ran it, and was paid {format_amount(paid_grains)} oGPU; its outputs: {outputs_text}"
        )
        return {
            "task": self._task_sale.name,
            "provider": provider_name,
            "earned_grains": str(paid_grains),
            "failures": failures,
        }

    def _paid_grains(self, sale: TaskSale) -> int:
        """Return the provider's payment for the task, by `ogpu task show`."""
        payment_rows = json.loads(task_sale.ask_about_task(self._stage, sale, "task show"))["payments"]
        return sum(int(row["paid"]["grains"]) for row in payment_rows if row["party"] == "provider" and row["paid"])

    def _fetch_outputs(self, sale: TaskSale) -> dict[str, bytes]:
        outputs = self._stage.devnet.folder / "job" / "out.tar"
        result_arguments = ("--key", f"//{CUSTOMER_NAME}", "--out", str(outputs))
        task_sale.ask_about_task(self._stage, sale, "task result", *result_arguments, is_shown=True)
        return task_sale.files_of(outputs)


def write_task(job_folder: Path) -> Path:
    """Write the task file, its input and its image, and return the file's path."""
    job_folder.mkdir()
    busybox = MadeImage(busybox_files()).archive()
    assert isinstance(busybox.content, bytes), "made in memory"
    (job_folder / "tool.tar").write_bytes(busybox.content)
    (job_folder / "words.txt").write_text(INPUT_TEXT)
    file = job_folder / "job.yaml"
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
