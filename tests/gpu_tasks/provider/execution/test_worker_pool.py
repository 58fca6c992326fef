"""Devices and their workers: started when needed, bounded, ended when idle. Executors and workloads are fakes."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from decoder_models import drawn_source
from error_codes import raises_code
from fake_work import FakeExecutor, FakeForm
from gpu_tasks.market.inference.services import ServiceTerms
from gpu_tasks.models.model_store import ModelStore
from gpu_tasks.provider.execution.bench import IDLE_SECONDS, WORKERS_PER_DEVICE_MAX, Bench
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.execution.gpu import CPU_NAME, Hardware, NoMeter
from gpu_tasks.provider.execution.worker_pool import WorkerPool
from gpu_tasks.provider.execution.worker_start import backend_for, is_possible
from gpu_tasks.provider.execution.workloads import UnknownWorkloadError, Workloads
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.importing import import_model
from provider_chain import fake_processor
from runtime.encoding.types import GRAINS_PER_OGPU
from simulation.chains.market_chain import MODEL, WORKLOAD

GPU = Hardware("GPU", "GPU-1", fake_processor("x").kind, 24_000, 3)
REQUEST = b"complete this"


class Recorder:
    """Makes fake executors, and remembers which are open."""

    def __init__(self) -> None:
        self.made: list[FakeExecutor] = []
        self.open = 0
        self.now = 0.0

    def make(self, hardware: Hardware, form: WorkloadForm) -> FakeExecutor:
        recorder = self

        class Counted(FakeExecutor):
            workload_id, model_id = form.workload_id, form.model_id

            async def start(self) -> None:
                recorder.open += 1

            async def close(self) -> None:
                recorder.open -= 1

        self.made.append(Counted())
        return self.made[-1]


def form(number: int) -> FakeForm:
    made = FakeForm()
    made.workload_id = bytes([number]) * 32
    return made


@contextlib.asynccontextmanager
async def recorded() -> AsyncIterator[tuple[Recorder, Bench]]:
    """Yield a pool whose workers are all closed at the end."""
    recorder = Recorder()
    bench = Bench(fake_processor("here"), recorder.make, NoMeter(), lambda: recorder.now)
    yield recorder, bench
    await bench.close()
    assert recorder.open == 0


async def test_a_worker_starts_when_it_is_needed_and_is_used_again() -> None:
    async with recorded() as (recorder, bench):
        assert recorder.made == []
        for _ in range(3):
            execution, _ = await bench.measured((await bench.worker(form(1))).run(REQUEST))
            assert execution.output == REQUEST[::-1]
        assert len(recorder.made) == 1


async def test_the_workers_of_a_device_are_bounded_and_the_longest_unused_goes() -> None:
    async with recorded() as (recorder, bench):
        for number in (*range(WORKERS_PER_DEVICE_MAX), 0, 99):
            await bench.worker(form(number))
            recorder.now += 1
        assert recorder.open == WORKERS_PER_DEVICE_MAX
        assert bench.has_worker(form(0))
        assert not bench.has_worker(form(1))


async def test_an_idle_worker_ends_and_starts_again() -> None:
    async with recorded() as (recorder, bench):
        await bench.worker(form(1))
        for recorder.now, left in ((IDLE_SECONDS - 1, 1), (IDLE_SECONDS, 0)):
            await bench.end_idle()
            assert recorder.open == left
        await bench.worker(form(1))
        assert recorder.open == 1


async def test_a_worker_that_is_something_else_computes_nothing() -> None:
    async with recorded() as (recorder, bench):
        recorder.open += 1  # `close` is counted, the plain fake's start is not
        bench._make_executor = lambda _hardware, _form: recorder.make(_hardware, form(2))
        with pytest.raises(ExecutionError, match="compute reversed"):
            await bench.worker(form(1))
        recorder.open -= 1


async def test_a_provider_without_a_device_here_checks_and_races_nothing() -> None:
    recorder = Recorder()
    worker_pool = WorkerPool([fake_processor("here")], Workloads([FakeForm()]), recorder.make)
    worker_pool.serve({})
    assert worker_pool.devices == {}
    assert await worker_pool.recompute_many(FakeForm(), [REQUEST]) == [REQUEST[::-1]]
    assert (await worker_pool.check(FakeForm(), REQUEST, REQUEST[::-1], bytes(32))).is_right
    with pytest.raises(ExecutionError, match="on this machine"):
        await worker_pool.race(b"d" * 32, FakeForm(), REQUEST)
    await worker_pool.end_idle()
    await worker_pool.close()


@pytest.mark.parametrize(("live", "is_taken"), [(0, True), (1, True), (2, False)])
async def test_a_race_needs_longer_beside_live_workers(live: int, is_taken: bool) -> None:
    """Each live worker that answers takes an equal share of the device."""
    device, executor = bytes([1]) * 32, FakeExecutor(FakeForm())
    executor.expected_seconds = 10.0
    pool = WorkerPool([fake_processor("x")], Workloads([]), lambda *_: executor)
    pool.serve({device: pool.hardware[0]})
    pool.live_workers = lambda asked: live if asked == device else 9
    try:
        if is_taken:
            await pool.race(device, FakeForm(), REQUEST, seconds_max=20.0)
            return
        with raises_code(ExecutionError, "too_long_here"):
            await pool.race(device, FakeForm(), REQUEST, seconds_max=20.0)
    finally:
        await pool.close()


def test_a_backend_is_computed_with_where_the_hardware_for_it_is() -> None:
    processor = Hardware(CPU_NAME, "CPU-1", GPU.kind, 0, None)
    form = FakeForm()
    form.backends = ("numpy", "torch")
    assert backend_for("numpy", GPU, form) == "numpy"
    assert backend_for("torch-cuda", GPU, form) == "torch-cuda:0"  # the worker sees this GPU alone
    assert backend_for("torch-cuda", processor, form) == "numpy"
    assert backend_for("torch-cpu", processor, form) == "torch-cpu"
    assert is_possible("torch-cuda", [processor, GPU])
    assert not is_possible("torch-cuda:0", [processor])


def test_a_workload_without_the_operators_backend_is_computed_in_numpy() -> None:
    """Otherwise a provider with a GPU could neither race for it nor check it."""
    assert backend_for("torch-cuda", GPU, FakeForm()) == "numpy"
    assert backend_for("torch-cpu", GPU, FakeForm()) == "numpy"


def test_workloads_are_found_by_what_a_service_promises() -> None:
    grain = GRAINS_PER_OGPU
    terms = ServiceTerms(b"any name", WORKLOAD, MODEL, grain, grain, 1, 30, 64)
    fake = FakeForm()
    assert Workloads([fake]).of(terms) is fake
    with pytest.raises(UnknownWorkloadError, match=r"workload 0x77777777\.\."):
        Workloads().of(terms)
    with pytest.raises(LookupError, match="no workload 'nonsense'"):
        Workloads.named(["nonsense"])
    assert [known.name for known in Workloads.named([])._forms.values()]


def test_a_model_that_comes_after_the_start_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OGPU_MODELS", str(tmp_path))
    workloads, chosen_workloads = Workloads(), Workloads.named(["matmul-hash"])
    imported = import_model(drawn_source())
    model_id = ModelStore(tmp_path / "elsewhere").create(imported.fields, imported.sections).model_id
    terms = ServiceTerms(b"tiny", registry.MODEL_WORKLOADS["decoder-int8"], model_id, 1, 1, 1, 30, 64)
    with raises_code(UnknownWorkloadError, "unknown_model"):
        workloads.of(terms)
    ModelStore(tmp_path).add(ModelStore(tmp_path / "elsewhere").path(model_id))
    assert workloads.of(terms) is workloads.of(terms)
    assert workloads.of(terms).model_id == model_id
    with raises_code(UnknownWorkloadError, "unknown_model"):
        workloads.of(replace(terms, model=bytes(32)))
    with raises_code(UnknownWorkloadError, "unknown_model"):
        chosen_workloads.of(terms)
