"""`train-int8` as a `Workload`, the whole run as one unit, and as a `StepwiseWorkload`, a run in steps."""

from collections.abc import Sequence
from hashlib import blake2b

from gpu_tasks.traces.trace import state_hash
from gpu_tasks.workloads.form import ModelTensor
from gpu_tasks.workloads.stepwise import StepwiseWorkload, states
from gpu_tasks.workloads.train_int8.arithmetic import ExactArithmetic
from gpu_tasks.workloads.train_int8.backends import arithmetic
from gpu_tasks.workloads.train_int8.conformance import check
from gpu_tasks.workloads.train_int8.request import (
    MODEL_ID,
    OUTPUT,
    WORKLOAD_ID,
    TrainingOutput,
    TrainingRequest,
    cost_of,
    decode_request,
    step_cost,
)
from gpu_tasks.workloads.train_int8.run import TrainingRun
from gpu_tasks.workloads.train_int8.sampling import continuation
from gpu_tasks.workloads.workload import OutputCheck
from runtime.encoding.codec import DecodeError

_PROBE_DOMAIN = b"ogpu/train-int8/1/probe"


class IntegerTraining(StepwiseWorkload):
    """`train-int8` ready to run. See `Workload` and `StepwiseWorkload` for the methods."""

    workload_id = WORKLOAD_ID
    model_id = MODEL_ID

    def __init__(self, use: ExactArithmetic) -> None:
        """Take a backend. The caller checks its conformance."""
        self._use = use

    def begin(self, request: bytes) -> TrainingRun:
        """Return the run of a request within the limits."""
        return TrainingRun(self._use, decode_request(request))

    def run(self, request: bytes) -> bytes:
        """Return the encoded `TrainingOutput`."""
        asked = decode_request(request)
        run, digests, last = TrainingRun(self._use, asked), [], b""
        for last in states(run):
            digests.append(state_hash(last))
        return _encoded(asked, run, tuple(digests), last)

    def verify(self, request: bytes, output: bytes) -> OutputCheck:
        """Train again, up to the first state with another hash.

        `recomputed` counts in cost units. `first_wrong` is the first wrong state, or the number of states if the error
        comes after them.
        """
        asked = decode_request(request)
        try:
            claimed = OUTPUT.decode(output).digests
        except DecodeError:
            return OutputCheck(valid=False, recomputed=0, first_wrong=0)
        run, digests, last = TrainingRun(self._use, asked), [], b""
        for index, last in enumerate(states(run)):
            digests.append(state_hash(last))
            if claimed[index : index + 1] != (digests[index],):
                return OutputCheck(valid=False, recomputed=run.boundary(index) * step_cost(asked), first_wrong=index)
        is_right = output == _encoded(asked, run, tuple(digests), last)
        return OutputCheck(is_right, cost_of(asked), None if is_right else run.segments + 1)

    def trace(self, request: bytes, output: bytes, place: bytes) -> bytes:
        """Return the hash of one step's logits before that step, which no output contains."""
        asked = decode_request(request)
        run, step = TrainingRun(self._use, asked), int.from_bytes(place, "little") % asked.steps
        guesses = run.guesses(run.advance(run.initial_state(), step))
        return blake2b(_PROBE_DOMAIN + step.to_bytes(4, "little") + guesses, digest_size=32).digest()

    def conformance(self) -> bytes:
        """Return the hash of all vectors, which are published."""
        return check(self._use)


def open_published(backend: str) -> IntegerTraining:
    """Return the workload on a backend after its vectors passed. Raise errors as `WorkloadForm.open`."""
    workload = IntegerTraining(arithmetic(backend))
    workload.conformance()
    return workload


def continued(tensors: Sequence[ModelTensor], prompt: bytes, length: int, seed: bytes) -> bytes:
    """Return the bytes with which a trained model continues a prompt, on NumPy."""
    return continuation(arithmetic("numpy"), tensors, prompt, length, seed)


def _encoded(asked: TrainingRequest, run: TrainingRun, digests: tuple[bytes, ...], last: bytes) -> bytes:
    """Return the output of a run that ended in the state `last`."""
    return OUTPUT.encode(TrainingOutput(cost_of(asked), run.metric(last), digests, run.model(last)))
