"""The worker process: loads a workload once, then answers requests from its standard input until that closes.

    python -m gpu_tasks.provider.execution.worker --workload NAME --backend numpy --limits '{...}'

Always: limits are set before anything is loaded; standard output carries answers only (what libraries print goes to
standard error); the process ends when the daemon does, because its input closes then.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Iterator
from typing import BinaryIO, cast

from gpu_tasks.provider.execution import limits
from gpu_tasks.provider.execution import worker_wire as wire
from gpu_tasks.provider.execution.limits import MIB, Limits
from gpu_tasks.workloads.stepwise import StepwiseWorkload
from gpu_tasks.workloads.workload import Workload
from runtime.encoding.codec import DecodeError

PART_SECONDS = 1.0
"""Whatever is done of many requests is told after so long: what a crash loses."""


def main() -> None:
    """Limit this process, load, serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--backend", required=True)
    parser.add_argument("--limits", required=True, help="fields of Limits as JSON")
    options = parser.parse_args()
    allowed = Limits(**json.loads(options.limits))
    limits.apply(allowed)
    source, sink = pipes()
    try:
        from gpu_tasks.workloads.registry import open_workload  # noqa: PLC0415  # NumPy loads under the limits

        workload = open_workload(options.workload, options.backend)
    except Exception as error:  # noqa: BLE001  # whatever is wrong with this machine, the daemon shall say it
        answer(sink, wire.Failed(wire.shortened(f"{type(error).__name__}: {error}")))
        return
    serve(workload, allowed, source, sink)


def pipes() -> tuple[BinaryIO, BinaryIO]:
    """Standard input, and what was standard output: what is printed goes to standard error from now on."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return os.fdopen(0, "rb"), sink


def serve(workload: Workload, allowed: Limits, source: BinaryIO, sink: BinaryIO) -> None:
    """Answer questions until there are no more."""
    answer(sink, wire.Ready(workload.workload_id, workload.model_id))
    while body := wire.read_message(source, wire.MESSAGE_BYTES_MAX):
        limits.allow_cpu_from_now(allowed, int(time.process_time()))
        question = wire.QUESTION.decode(body)
        if isinstance(question, wire.RunMany):
            for said in _answers(workload, question):
                answer(sink, said)
                limits.allow_cpu_from_now(allowed, int(time.process_time()))
        else:
            answer(sink, _answered(workload, question))


def answer(sink: BinaryIO, value: wire.WorkerAnswer) -> None:
    """Send an answer."""
    wire.write_message(sink, wire.ANSWER.encode(value))


def _answers(workload: Workload, question: wire.RunMany) -> Iterator[wire.WorkerAnswer]:
    """What is done of many requests, every while, and what all of them took."""
    began, told_at = time.process_time_ns(), time.monotonic()
    done: list[wire.FinishedRequest] = []
    size = 0
    try:
        for place, output in workload.run_many(question.requests):
            done.append(wire.FinishedRequest(place, output))
            size += len(output or b"")
            if size >= wire.PART_BYTES or time.monotonic() - told_at >= PART_SECONDS:
                yield wire.RanSome(tuple(done))
                done, size, told_at = [], 0, time.monotonic()
        if done:
            yield wire.RanSome(tuple(done))
        yield wire.Ran(b"", *_taken_since(began))
    except (MemoryError, OSError, RuntimeError) as error:
        yield wire.Failed(wire.shortened(f"{type(error).__name__}: {error}"))


def _answered(
    workload: Workload,
    question: wire.RunRequest | wire.VerifyOutput | wire.TraceAt | wire.BeginRun | wire.AdvanceRun | wire.MetricAt,
) -> wire.WorkerAnswer:
    began = time.process_time_ns()
    try:
        if isinstance(question, wire.RunRequest):
            output = workload.run(question.request)
            return wire.Ran(output, *_taken_since(began))
        if isinstance(question, wire.TraceAt):
            return wire.Traced(workload.trace(question.request, question.output, question.place))
        if isinstance(question, wire.VerifyOutput):
            verdict = workload.verify(question.request, question.output)
            return wire.Checked(verdict.valid, verdict.recomputed)
        return _in_steps(cast(StepwiseWorkload, workload), question, began)
    except DecodeError as error:
        return wire.BadRequest(wire.shortened(error))
    except (MemoryError, OSError, RuntimeError) as error:
        return wire.Failed(wire.shortened(f"{type(error).__name__}: {error}"))


def _in_steps(
    workload: StepwiseWorkload, question: wire.BeginRun | wire.AdvanceRun | wire.MetricAt, began: int
) -> wire.WorkerAnswer:
    """The answer about a run in steps that this process began at `began`; DecodeError for no request."""
    if not hasattr(workload, "begin"):
        return wire.Failed("this workload does not run in steps")
    run = workload.begin(question.request)
    if isinstance(question, wire.BeginRun):
        return wire.Begun(run.initial_state(), tuple(run.boundary(index) for index in range(run.segments + 1)))
    try:
        if isinstance(question, wire.AdvanceRun):
            later = run.advance(question.state, question.steps)
            return wire.Advanced(later, run.steps_done(later), *_taken_since(began))
        return wire.Weighed(run.metric(question.state))
    except (DecodeError, ValueError) as error:
        return wire.BadState(wire.shortened(error))


def _taken_since(began: int) -> tuple[int, int]:
    """CPU milliseconds since a reading of the process's clock in nanoseconds, and the peak of its memory in bytes."""
    cpu_ms = (time.process_time_ns() - began) // 1_000_000
    return cpu_ms, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (MIB // 1024)


if __name__ == "__main__":
    main()
