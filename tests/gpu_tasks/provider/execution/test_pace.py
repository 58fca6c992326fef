"""The pace of a worker, the time and memory that requests get, and requests that are refused before any work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from decoder_models import drawn_source
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.models.model_store import ModelStore
from gpu_tasks.provider.execution import free_memory
from gpu_tasks.provider.execution.executor import ExecutionError, TooLargeError, WorkerExecutor
from gpu_tasks.provider.execution.free_memory import free_bytes
from gpu_tasks.provider.execution.gpu import MIB, Hardware
from gpu_tasks.provider.execution.limits import limits_for
from gpu_tasks.provider.execution.pace import PROBE_SECONDS, PROBE_STEPS, WorkerPace, measured_pace
from gpu_tasks.provider.execution.worker_start import worker_command
from gpu_tasks.workloads import model_forms, registry
from gpu_tasks.workloads.decoder_int8.request import REQUEST, GenerationRequest
from gpu_tasks.workloads.form import Effort, WorkloadForm
from gpu_tasks.workloads.importing import import_model
from provider_chain import fake_processor
from started_workers import hostile, started


class Measured:
    """A machine with a clock of its own, and a workload whose requests are `reading steps`."""

    context = 1 << 20

    def __init__(self, seconds_a_token: float, seconds_a_step: float, threads: int = 1) -> None:
        self.seconds_a_token, self.seconds_a_step, self.threads = seconds_a_token, seconds_a_step, threads
        self.now, self.runs = 0.0, list[tuple[int, int]]()

    def room_bytes(self) -> int:
        return 0

    def probe(self, reading: int, steps: int) -> bytes | None:
        return None if reading + steps > self.context else f"{reading} {steps}".encode()

    def effort(self, requests: Sequence[bytes], room_bytes: int) -> Effort:
        reading, steps = map(int, requests[0].split())
        return Effort(reading * 1_000, steps * 16_000)

    async def run(self, request: bytes) -> float:
        """Return the CPU seconds of all threads. Another program takes half of the machine."""
        reading, steps = map(int, request.split())
        self.runs.append((reading, steps))
        took = reading * self.seconds_a_token + steps * self.seconds_a_step
        self.now += 2 * took
        return took * self.threads


@pytest.mark.parametrize(("token", "step"), [(0.01, 0.15), (0.000_02, 0.02), (1.0, 20.0)])
async def test_a_pace_measured_by_probes_foretells_long_requests(token: float, step: float) -> None:
    """Of a core, a GPU that launches slowly and multiplies fast, and a very slow machine."""
    machine = Measured(token, step)
    pace = await measured_pace(machine, machine.run, lambda: machine.now)  # type: ignore[arg-type]
    assert pace is not None
    assert machine.runs[-1] == (1, PROBE_STEPS)
    of_prompt, of_answer = pace.tokens_per_second(machine)  # type: ignore[arg-type]
    assert of_answer is not None
    assert 0.4 < of_prompt * token < 1.1
    assert 0.7 < of_answer * step < 1.1
    reads = [run for run in machine.runs if run[1] == 1]
    assert reads == [(16 << number, 1) for number in range(len(reads))]
    assert len(reads) == 1 or reads[-1][0] * token + step < 2 * PROBE_SECONDS + step
    for reading, steps in ((8_000, 1), (10, 500), (2_000, 200)):
        exact = reading * token + steps * step
        assert exact * 0.7 < pace.seconds(machine.effort([f"{reading} {steps}".encode()], 0)) < exact * 2.5


async def test_a_worker_of_many_threads_has_the_pace_of_the_clock() -> None:
    """Its CPU seconds are many times those in which it ends: by them, it would decline units that it can compute."""
    paces = set()
    for threads in (2, 64):
        machine = Measured(0.01, 0.15, threads)
        paces.add(await measured_pace(machine, machine.run, lambda at=machine: at.now))  # type: ignore[arg-type,misc]
    assert len(paces) == 1
    assert None not in paces


async def test_an_encoder_has_no_rate_of_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Measured(0.01, 0.15)
    monkeypatch.setattr(machine, "probe", lambda reading, _steps: f"{reading} 1".encode())
    pace = await measured_pace(machine, machine.run, lambda: machine.now)  # type: ignore[arg-type]
    assert pace is not None
    assert pace.tokens_per_second(machine)[1] is None  # type: ignore[arg-type]


async def test_a_workload_without_probes_has_no_pace() -> None:
    machine = Measured(1, 1)
    machine.context = 3
    assert await measured_pace(machine, machine.run, lambda: machine.now) is None  # type: ignore[arg-type]


@pytest.fixture
def form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkloadForm:
    """A small model of 8,192 positions."""
    monkeypatch.setenv("OGPU_MODELS", str(tmp_path))
    imported = import_model(drawn_source(max_position_embeddings=8_192))
    header = ModelStore(tmp_path).create(imported.fields, imported.sections)
    found = model_forms.form_of(registry.MODEL_WORKLOADS["decoder-int8"], header.model_id)
    assert found is not None
    return found


def worker_of(form: WorkloadForm, folder: Path, room_mib: int = 512) -> WorkerExecutor:
    limits = limits_for("numpy", form.memory_bytes(), room_mib * MIB)
    return WorkerExecutor(worker_command(form.name, "numpy", limits), limits, {"OGPU_MODELS": str(folder)}, form)


def asked(prompt: int, answer: int, token: int = 1) -> bytes:
    return REQUEST.encode(GenerationRequest((token,) * prompt, answer, 0, 1000, bytes(32), (), has_logprobs=False))


async def test_a_long_request_gets_the_time_of_its_effort(
    form: WorkloadForm, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The usual time, here a second at most, would end it."""
    caplog.set_level("INFO", "ogpu.provider")
    async with started(worker_of(form, tmp_path)) as executor:
        assert f"workload={form.name}" in caplog.records[-1].getMessage()
        # After the probes, which a busy machine computes in more than a second.
        executor._limits = replace(executor._limits, cpu_seconds=0)
        answer = await executor.run(asked(3_000, 1))
        assert answer.cpu_ms > 1_000
        assert executor._expected_seconds(executor._load) > 0.25 * answer.cpu_ms / 1_000


async def test_requests_beyond_the_time_or_the_memory_are_refused_unread(form: WorkloadForm, tmp_path: Path) -> None:
    longest = asked(8_191, 1)
    async with started(worker_of(form, tmp_path, form.request_bytes(longest) // MIB)) as executor:
        pid = executor._process._process
        # Expected seconds beyond those of a process's life, and beyond an integer of the wire.
        executor._pace = WorkerPace(1e-6, 1e-6)
        assert len((await executor.run(asked(3, 2))).output) > 0
        # Another program used the machine while its pace was measured.
        executor._pace = WorkerPace(1.0, 1.0)
        await executor.admit([asked(3, 2)], 60)
        with pytest.raises(TooLargeError) as refused:
            await executor.admit([longest], 1e9)
        assert refused.value.code == "too_large_here"
        checks = (executor.fingerprint(longest, b"", bytes(32)), executor.check(longest, b"", bytes(32)))
        for checked in (executor.run(longest), *checks, executor.run_many([longest], print)):
            with pytest.raises(ExecutionError) as refused_again:
                await checked
            assert refused_again.value.code == "too_large_here"
        with pytest.raises(TooLargeError) as refused:
            await executor.admit([asked(300, 20)] * 4_096, 60)
        assert refused.value.code == "too_long_here"
        # Invalid requests take no time and no memory, so they do not stop a batch.
        await executor.admit([b"", asked(8_000, 193), asked(1, 1, token=64), asked(1, 9_999)], 1)
        assert len((await executor.run(asked(3, 2))).output) > 0
        assert executor._process._process is pid, "no worker was lost"


async def test_a_batch_of_long_prompts_is_computed_in_passes(form: WorkloadForm, tmp_path: Path) -> None:
    """All of its keys and values at once take 200 times the memory of this worker."""
    request = asked(100, 2)
    room_mib = 2 + form.request_bytes(request) // MIB
    found: dict[int, bytes | None] = {}
    async with started(worker_of(form, tmp_path, room_mib)) as executor:
        await executor.run_many([request] * 300, found.update)
        alone = (await executor.run(request)).output
    assert found == dict.fromkeys(range(300), alone)


def test_the_free_memory_is_that_of_the_machine_or_of_a_smaller_group(tmp_path: Path) -> None:
    files: Mapping[str, str] = {
        "proc/meminfo": "MemTotal: 9000 kB\nMemAvailable:    4000 kB\n",
        "sys/fs/cgroup/memory.max": "max\n",
        "sys/fs/cgroup/memory.stat": "anon 1000\nfile 999999\n",
    }
    assert free_bytes(fake_processor("x"), tmp_path) == 0
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert free_bytes(fake_processor("x"), tmp_path) == 4_000 * 1024
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("3000000\n")
    assert free_bytes(fake_processor("x"), tmp_path) == 2_999_000
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("500\n")
    assert free_bytes(fake_processor("x"), tmp_path) == 1


@pytest.mark.parametrize("index", [0, 1])
def test_the_free_memory_of_a_gpu_is_its_own(index: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(free_memory, "free_gpu_bytes", lambda asked_index: 7_000 + asked_index)
    card = Hardware("FAKE GPU", "GPU-FAKE-7", DeviceClass.CONSUMER, 24_576, index, "1")
    assert free_bytes(card, tmp_path) == 7_000 + index


def test_seconds_add_both_parts_of_an_effort() -> None:
    assert WorkerPace(100.0, 10.0).seconds(Effort(1_000, 50)) == 15.0


async def test_a_worker_without_a_form_admits_all() -> None:
    async with started(hostile()) as executor:
        await executor.admit([b"loop"], 0)
