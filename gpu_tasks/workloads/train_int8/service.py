"""`train-int8` as a `Workload`, the whole run as one unit, and as a `StepwiseWorkload`, a run in steps."""

from collections.abc import Sequence
from itertools import chain

from gpu_tasks.traces.trace import state_hash
from gpu_tasks.workloads.fingerprints import trail_fingerprint
from gpu_tasks.workloads.form import ModelTensor
from gpu_tasks.workloads.stepwise import StepwiseWorkload, states, trailed_segments
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
from gpu_tasks.workloads.workload import FingerprintedCheck, OutputCheck
from runtime.encoding.codec import DecodeError


class IntegerTraining(StepwiseWorkload):
    """`train-int8` ready to run. See `Workload` and `StepwiseWorkload` for the methods."""

    workload_id = WORKLOAD_ID
    model_id = MODEL_ID

    def __init__(self, backend: ExactArithmetic) -> None:
        """Take a backend. The caller checks its conformance."""
        self._backend = backend

    def begin(self, encoded_request: bytes) -> TrainingRun:
        """Return the run of a request within the limits."""
        return TrainingRun(self._backend, decode_request(encoded_request))

    def run(self, encoded_request: bytes) -> bytes:
        """Return the encoded `TrainingOutput`."""
        request = decode_request(encoded_request)
        training_run, digests, last_state = TrainingRun(self._backend, request), [], b""
        for last_state in states(training_run):
            digests.append(state_hash(last_state))
        return _encoded(request, training_run, tuple(digests), last_state)

    def verify(self, encoded_request: bytes, encoded_output: bytes) -> OutputCheck:
        """Train again, up to the first state with another hash.

        `recomputed` counts in cost units. `first_wrong` is the first wrong state, or the number of states if the error
        comes after them.
        """
        return self._compared(encoded_request, encoded_output)[0]

    def check(self, encoded_request: bytes, encoded_output: bytes, seed: bytes) -> FingerprintedCheck:
        """Train again once, for both."""
        output_check, trails = self._compared(encoded_request, encoded_output)
        return FingerprintedCheck(output_check, trail_fingerprint(seed, trails) if output_check.valid else None)

    def _compared(self, encoded_request: bytes, encoded_output: bytes) -> tuple[OutputCheck, list[bytes]]:
        """Return the outcome of `verify`, and the trails of the computed segments."""
        request = decode_request(encoded_request)
        try:
            claimed = OUTPUT.decode(encoded_output).digests
        except DecodeError:
            return OutputCheck(valid=False, recomputed=0, first_wrong=0), []
        run, digests, trails = TrainingRun(self._backend, request), list[bytes](), list[bytes]()
        last_state, first = b"", (run.initial_state(), b"")
        for index, (last_state, trail) in enumerate(chain([first], trailed_segments(run))):
            digests.append(state_hash(last_state))
            trails.append(trail)
            # At the first wrong state the rest of the training is saved.
            if claimed[index : index + 1] != (digests[index],):
                recomputed = run.boundary(index) * step_cost(request)
                return OutputCheck(valid=False, recomputed=recomputed, first_wrong=index), []
        is_right = encoded_output == _encoded(request, run, tuple(digests), last_state)
        return OutputCheck(is_right, cost_of(request), None if is_right else run.segments + 1), trails[1:]

    def conformance(self) -> bytes:
        """Return the hash of all vectors, which are published."""
        return check(self._backend)


def open_published(backend_name: str) -> IntegerTraining:
    """Return the workload on a backend after its vectors passed. Raise errors as `WorkloadForm.open`."""
    workload = IntegerTraining(arithmetic(backend_name))
    workload.conformance()
    return workload


def continued(tensors: Sequence[ModelTensor], prompt: bytes, length: int, seed: bytes) -> bytes:
    """Return the bytes with which a trained model continues a prompt, on NumPy."""
    return continuation(arithmetic("numpy"), tensors, prompt, length, seed)


def _encoded(request: TrainingRequest, run: TrainingRun, digests: tuple[bytes, ...], last_state: bytes) -> bytes:
    """Return the output of a run that ended in the state `last_state`."""
    return OUTPUT.encode(TrainingOutput(cost_of(request), run.metric(last_state), digests, run.model(last_state)))
