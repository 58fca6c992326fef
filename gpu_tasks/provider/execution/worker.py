"""The worker process: load a workload once, then answer requests from standard input until it closes.

    python -m gpu_tasks.provider.execution.worker --workload NAME --backend numpy --limits '{...}'

Invariants:

* Limits are set before anything is loaded.
* Standard output carries answers only. Output of libraries goes to standard error.
* The process ends with the daemon, because its input closes then.
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
"""The interval of reports on many requests. A crash loses at most the work since the last report."""


def main() -> None:
    """Limit this process, load the workload and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--backend", required=True)
    parser.add_argument("--limits", required=True, help="fields of Limits as JSON")
    options = parser.parse_args()
    allowed = Limits(**json.loads(options.limits))
    limits.apply(allowed)
    source, sink = pipes()
    try:
        from gpu_tasks.workloads.registry import open_workload  # noqa: PLC0415 # NumPy loads under the limits

        workload = open_workload(options.workload, options.backend)
    except Exception as error:  # noqa: BLE001 # the daemon reports any problem of this machine
        answer(sink, wire.Failed(wire.shortened(f"{type(error).__name__}: {error}")))
        return
    serve(workload, allowed, source, sink)


def pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return standard input and the former standard output. Later prints go to standard error."""
    # Libraries print to descriptor 1, which would break the answers' framing.
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return os.fdopen(0, "rb"), sink


def serve(workload: Workload, allowed: Limits, source: BinaryIO, sink: BinaryIO) -> None:
    """Answer questions until the input ends."""
    answer(sink, wire.Ready(workload.workload_id, workload.model_id))
    while body := wire.read_message(source, wire.MESSAGE_BYTES_MAX):
        limits.allow_cpu_from_now(allowed, int(time.process_time()))
        question = wire.QUESTION.decode(body)
        if isinstance(question, wire.RunMany):
            for said in _answers(workload, question):
                answer(sink, said)
                # Each report renews the CPU allowance, which is meant for one request.
                limits.allow_cpu_from_now(allowed, int(time.process_time()))
        else:
            answer(sink, _answered(workload, question))


def answer(sink: BinaryIO, value: wire.WorkerAnswer) -> None:
    """Send an answer."""
    wire.write_message(sink, wire.ANSWER.encode(value))


def _answers(workload: Workload, question: wire.RunMany) -> Iterator[wire.WorkerAnswer]:
    """Yield finished requests at intervals, and at last the cost of all."""
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
    # A decoding error is the customer's fault on every machine. The other errors are this machine's, and only they may
    # be retried.
    except DecodeError as error:
        return wire.BadRequest(wire.shortened(error))
    except (MemoryError, OSError, RuntimeError) as error:
        return wire.Failed(wire.shortened(f"{type(error).__name__}: {error}"))


def _in_steps(
    workload: StepwiseWorkload, question: wire.BeginRun | wire.AdvanceRun | wire.MetricAt, began: int
) -> wire.WorkerAnswer:
    """Return the answer about a run in steps. `began` is the process clock at its start, in nanoseconds.

    Raise DecodeError if the request is invalid.
    """
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
    """Return the CPU milliseconds since `began` (in nanoseconds) and the peak memory in bytes."""
    cpu_ms = (time.process_time_ns() - began) // 1_000_000
    return cpu_ms, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (MIB // 1024)


if __name__ == "__main__":
    main()
