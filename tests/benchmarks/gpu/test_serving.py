"""The steps of `make gpu` with real workers on NumPy: a differing worker is named, a killed one is replaced."""

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.built_in import WORKLOAD, greedy
from benchmarks.gpu import serving, troubles
from benchmarks.gpu.drawn_requests import drawn_requests
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider.execution.bench import Bench
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.limits import limits_for
from gpu_tasks.workloads import model_forms
from gpu_tasks.workloads.decoder_int8.request import OUTPUT

pytestmark = pytest.mark.nightly

CPU = Hardware("CPU", "CPU-1", DeviceClass.CPU, 0, None)


def test_without_a_gpu_it_says_so_and_proves_nothing() -> None:
    environment = {**os.environ, "LD_LIBRARY_PATH": "/nonexistent"}
    command = [sys.executable, "-m", "benchmarks.gpu"]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=root)
    assert done.returncode == 2
    assert done.stdout == "gpu: no GPU here: NVML Shared Library Not Found\n"


def compared(bench: Bench, requests: list[bytes]) -> tuple[list[str], int]:
    async def body() -> tuple[list[str], int]:
        try:
            return await serving.wrong_completions(bench, requests)
        finally:
            await bench.close()

    return asyncio.run(body())


def test_an_equal_worker_is_found_equal() -> None:
    requests = [drawn_requests(1, 0)[0], greedy(9)]
    assert compared(serving.bench_of(CPU, "numpy"), requests) == ([], 10)


def test_a_worker_that_differs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparing program is the spoiled one here; the worker's process has the right one."""
    real = model_forms.open_workload(WORKLOAD)

    class Spoiled:
        def run(self, request: bytes) -> bytes:
            right = OUTPUT.decode(real.run(request))
            return OUTPUT.encode(replace(right, tokens=(*right.tokens[:-1], right.tokens[-1] ^ 1)))

    monkeypatch.setattr(serving, "open_workload", lambda *_: Spoiled())
    wrong, _ = compared(serving.bench_of(CPU, "numpy"), [greedy(9)])
    assert wrong == ["request 0: another completion than NumPy's", "request 0: refuses NumPy's completion"]


def test_a_worker_that_is_killed_at_work_is_replaced() -> None:
    assert asyncio.run(troubles.killed(CPU, "numpy")) == ("the worker ended with status -9: it left no message", [])


def test_a_start_that_fails_without_a_word_about_the_device_is_wrong() -> None:
    said, wrong = asyncio.run(troubles.refused("abacus", {}))
    assert "no backend 'abacus'" in said
    assert len(wrong) == 1
    assert asyncio.run(troubles.refused("numpy", {})) == ("", ["no failure where there must be one"])


def test_speed_limits_and_consumption_are_read_of_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "ROUNDS", 1)
    served = asyncio.run(serving.speed(CPU, "numpy", 0.1, 0.0))
    assert served.figures["tokens_per_second"] > 0
    assert served.figures["energy_mj_per_token"] == 0
    assert served.limits["Max file size"] == "0"
    form = serving.form()
    worker_limits = limits_for("numpy", form.memory_bytes(), form.room_bytes())
    assert served.limits["Max address space"] == str(worker_limits.address_mib << 20)
