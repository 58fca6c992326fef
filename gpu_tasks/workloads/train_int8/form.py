"""`train-int8` as programs see it: a text to learn. The cost unit is a step, and a large step costs several.

Invariant: no request costs more than `cost_max` or breaks the limits of `request.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpu_tasks.traces.trace import SEGMENTS_MAX, trace_root
from gpu_tasks.workloads.form import ModelTensor, Option, RequestError, WorkloadForm, settings
from gpu_tasks.workloads.train_int8.request import (
    BATCH_MAX,
    CONTEXT_MAX,
    DIGEST_BYTES,
    FRAME_BYTES,
    HIDDEN_MAX,
    LAYERS_MAX,
    MODEL_ID,
    OUTPUT,
    RATE_ONE,
    REQUEST,
    WEIGHT_BYTES,
    WIDTH_MAX,
    WORKLOAD_ID,
    TrainingRequest,
    cost_of,
    decode_request,
    limits_broken,
    parameters,
    segments,
    step_cost,
)
from gpu_tasks.workloads.train_int8.tensors import model_tensors
from gpu_tasks.workloads.workload import Workload
from runtime.encoding.codec import DecodeError

OPTIONS = (
    Option("context", "8", f"bytes of text before each predicted byte, 1 to {CONTEXT_MAX}"),
    Option("width", "16", f"numbers that represent a byte, 1 to {WIDTH_MAX}"),
    Option("hidden", "128", f"values of a hidden layer, 1 to {HIDDEN_MAX}"),
    Option("layers", "1", f"hidden layers, 1 to {LAYERS_MAX}"),
    Option("batch", "64", f"windows of a step, a power of two up to {BATCH_MAX}"),
    Option("rate", "16384", f"learning rate at the first step in {RATE_ONE}ths, 1 to {RATE_ONE}"),
    Option("segment", "20", f"steps between two states of the trace, at most {SEGMENTS_MAX} segments in all"),
)
_SHOWN_MAX = 80
_DIGITS_MAX = 9


class TrainingForm(WorkloadForm):
    """`train-int8` for programs. See `WorkloadForm` for the methods."""

    name = "train-int8"
    workload_id = WORKLOAD_ID
    model_id = MODEL_ID
    cost_unit = "step"
    is_stepwise = True
    backends = ("numpy", "reference", "torch")
    options = OPTIONS

    def encode(self, text: str, cost_max: int, options: Mapping[str, str], seed: bytes) -> bytes:
        """Encode the request to learn `input_text` in as many steps as `cost_max` pays for."""
        given = {name: _option_number(name, number) for name, number in settings(self.options, options).items()}
        segment = given.pop("segment")
        request = TrainingRequest(**given, steps=1, segment=1, seed=seed, text=text.encode())
        _require_limits(request)
        steps = cost_max // step_cost(request)
        if steps < 1:
            raise RequestError(f"a step of these sizes costs {step_cost(request)}, more than {cost_max}; allow more")
        request = replace(request, steps=steps, segment=min(segment, steps))
        _require_limits(request)
        return REQUEST.encode(request)

    def show_request(self, encoded_request: bytes) -> str:
        """Return the beginning of the text, its length, and the steps."""
        request = REQUEST.decode(encoded_request)
        start = request.text[:_SHOWN_MAX].decode("utf-8", errors="replace")
        return f"{start} ({len(request.text)} bytes, {request.steps} steps)"

    def show_output(self, encoded_output: bytes) -> str:
        """Return the bits per byte of held-out text and the trace's root, or all the bytes if they are no output."""
        try:
            output = OUTPUT.decode(encoded_output)
        except DecodeError:
            return "0x" + encoded_output.hex()
        if not output.digests:
            return "0x" + encoded_output.hex()
        whole_bits, thousandths = divmod(output.milli_bits, 1000)
        return f"{whole_bits}.{thousandths:03} bits a byte, trace 0x{trace_root(output.digests).hex()}"

    def cost_asked(self, encoded_request: bytes) -> int:
        """Return the cost of all steps, each by its size."""
        return cost_of(decode_request(encoded_request))

    def output_bytes(self, encoded_request: bytes) -> int:
        """Return the bytes of a digest for each state, and of the model."""
        request = decode_request(encoded_request)
        return FRAME_BYTES + DIGEST_BYTES * (segments(request) + 1) + WEIGHT_BYTES * parameters(request)

    def segments(self, encoded_request: bytes) -> int:
        """Return the number of segments. All but the last have the length that the request names."""
        return segments(decode_request(encoded_request))

    def model_tensors(self, encoded_request: bytes, state: bytes) -> tuple[ModelTensor, ...]:
        """Return embedding, hidden layers and output layer."""
        return model_tensors(encoded_request, state)

    def sample(self, tensors: Sequence[ModelTensor], prompt: bytes, length: int, seed: bytes) -> bytes | None:
        """Return the bytes after the prompt."""
        from gpu_tasks.workloads.train_int8.service import continued  # noqa: PLC0415  # NumPy, for samplers only

        return continued(tensors, prompt, length, seed)

    def cost(self, encoded_output: bytes) -> int:
        """Return the cost in the output, or 0 if the bytes are no output."""
        try:
            return OUTPUT.decode(encoded_output).cost
        except DecodeError:
            return 0

    def open(self, backend_name: str) -> Workload:
        """Open the workload on `numpy`, `reference` or `torch-<device>`."""
        from gpu_tasks.workloads.train_int8.service import open_published  # noqa: PLC0415  # NumPy, for executors only

        return open_published(backend_name)


def _require_limits(request: TrainingRequest) -> None:
    """Raise RequestError if the request breaks a limit."""
    problem = limits_broken(request)
    if problem is not None:
        raise RequestError(problem)


def _option_number(name: str, number: str) -> int:
    """Return a whole number in decimal digits."""
    if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS_MAX):
        raise RequestError(f"{name} must be a whole number, not {number!r}")
    return int(number)
