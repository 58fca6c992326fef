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
from gpu_tasks.provider.execution.live_worker import serve_live
from gpu_tasks.workloads.stepwise import StepwiseWorkload
from gpu_tasks.workloads.streamed import streamed
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
    parser.add_argument("--live", type=int, metavar="PLACES", help="stream up to PLACES answers side by side")
    arguments = parser.parse_args()
    worker_limits = Limits(**json.loads(arguments.limits))
    limits.apply(worker_limits)
    question_source, sink = pipes()
    try:
        from gpu_tasks.workloads.model_forms import open_workload  # noqa: PLC0415 # NumPy loads under the limits

        workload = open_workload(arguments.workload, arguments.backend)
        use_room(workload, worker_limits)
        lanes = None if arguments.live is None else streamed(workload).live(arguments.live)
    except Exception as error:  # noqa: BLE001 # the daemon reports any problem of this machine
        answer(sink, wire.Failed(wire.shortened(f"{type(error).__name__}: {error}")))
        return
    if lanes is not None:
        answer(sink, wire.Ready(workload.workload_id, workload.model_id))
        serve_live(lanes, arguments.live, worker_limits, question_source.fileno(), sink)
    else:
        serve(workload, worker_limits, question_source, sink)


def pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return standard input and the former standard output. Later prints go to standard error."""
    # Libraries print to descriptor 1, which would break the answers' framing.
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return os.fdopen(0, "rb"), sink


def use_room(workload: Workload, worker_limits: Limits) -> None:
    """Keep requests side by side within the worker's memory for them."""
    if worker_limits.room_mib:
        workload.use_room(worker_limits.room_mib * MIB)


def serve(workload: Workload, worker_limits: Limits, source: BinaryIO, sink: BinaryIO) -> None:
    """Answer questions until the input ends."""
    use_room(workload, worker_limits)
    answer(sink, wire.Ready(workload.workload_id, workload.model_id))
    while question_body := wire.read_message(source, wire.MESSAGE_BYTES_MAX):
        asked: wire.Asked = wire.ASKED.decode(question_body)
        question = asked.question
        limits.allow_cpu_from_now(asked.cpu_seconds, int(time.process_time()))
        if isinstance(question, wire.RunMany):
            for worker_answer in _answers_to(workload, question):
                answer(sink, worker_answer)
                limits.allow_cpu_from_now(asked.cpu_seconds, int(time.process_time()))
        else:
            answer(sink, _answer_one(workload, question))


def answer(sink: BinaryIO, worker_answer: wire.WorkerAnswer) -> None:
    """Send an answer."""
    wire.write_message(sink, wire.ANSWER.encode(worker_answer))


def _answers_to(workload: Workload, question: wire.RunMany) -> Iterator[wire.WorkerAnswer]:
    """Yield finished requests at intervals, and at last the cost of all."""
    cpu_start, last_report = time.process_time_ns(), time.monotonic()
    finished: list[wire.FinishedRequest] = []
    result_bytes = 0
    try:
        for request_place, request_output in workload.run_many(question.requests):
            finished.append(wire.FinishedRequest(request_place, request_output))
            result_bytes += len(request_output or b"")
            if result_bytes >= wire.PART_BYTES or time.monotonic() - last_report >= PART_SECONDS:
                yield wire.RanSome(tuple(finished))
                finished, result_bytes, last_report = [], 0, time.monotonic()
        if finished:
            yield wire.RanSome(tuple(finished))
        yield wire.Ran(b"", *_cost_since(cpu_start))
    except (MemoryError, OSError, RuntimeError) as error:
        yield wire.Failed(wire.shortened(f"{type(error).__name__}: {error}"))


def _answer_one(workload: Workload, question: wire.OneRequest | wire.InSteps) -> wire.WorkerAnswer:
    cpu_start = time.process_time_ns()
    try:
        if isinstance(question, wire.OneRequest):
            return _answer_whole(workload, question, cpu_start)
        return _answer_in_steps(cast(StepwiseWorkload, workload), question, cpu_start)
    # A decoding error is the customer's fault on every machine. The other errors are this machine's, and only they may
    # be retried.
    except DecodeError as error:
        return wire.BadRequest(wire.shortened(error))
    except (MemoryError, OSError, RuntimeError) as error:
        return wire.Failed(wire.shortened(f"{type(error).__name__}: {error}"))


def _answer_whole(workload: Workload, question: wire.OneRequest, cpu_start: int) -> wire.WorkerAnswer:
    """Return the answer about a whole run. Raise DecodeError if the request is invalid."""
    match question:
        case wire.RunRequest(request):
            return wire.Ran(workload.run(request), *_cost_since(cpu_start))
        case wire.FingerprintAt(request, output, seed):
            return wire.Fingerprinted(is_right=True, fingerprint=workload.fingerprint(request, output, seed))
        case wire.CheckOutput(request, output, seed):
            found = workload.check(request, output, seed)
            return wire.Fingerprinted(found.output_check.valid, found.fingerprint)


def _answer_in_steps(workload: StepwiseWorkload, question: wire.InSteps, cpu_start: int) -> wire.WorkerAnswer:
    """Return the answer about a run in steps. `cpu_start` is the process clock at its start, in nanoseconds.

    Raise DecodeError if the request is invalid.
    """
    if not hasattr(workload, "begin"):
        return wire.Failed("this workload does not run in steps")
    segmented_run = workload.begin(question.request)
    if isinstance(question, wire.BeginRun):
        return wire.Begun(
            segmented_run.initial_state(),
            tuple(segmented_run.boundary(boundary_index) for boundary_index in range(segmented_run.segments + 1)),
        )
    try:
        if isinstance(question, wire.AdvanceRun):
            if question.trail is None:
                later_state, later_trail = segmented_run.advance(question.state, question.steps), None
            else:
                later_state, later_trail = segmented_run.trailed(question.state, question.steps, question.trail)
            steps_done = segmented_run.steps_done(later_state)
            return wire.Advanced(later_state, steps_done, later_trail, *_cost_since(cpu_start))
        return wire.Weighed(segmented_run.metric(question.state))
    except (DecodeError, ValueError) as error:
        return wire.BadState(wire.shortened(error))


def _cost_since(cpu_start: int) -> tuple[int, int]:
    """Return the CPU milliseconds since `cpu_start` (in nanoseconds) and the peak memory in bytes."""
    cpu_ms = (time.process_time_ns() - cpu_start) // 1_000_000
    return cpu_ms, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (MIB // 1024)


if __name__ == "__main__":
    main()
