"""`textgen-int8` as a `Workload`: a model file, a backend that conforms, requests in, bytes out."""

from collections.abc import Iterator, Sequence

import numpy as np

from gpu_tasks.workloads.fingerprints import fingerprint, sampled_places
from gpu_tasks.workloads.textgen_int8.backends import arithmetic
from gpu_tasks.workloads.textgen_int8.batching import generated
from gpu_tasks.workloads.textgen_int8.conformance import check_completions, check_operations, completions
from gpu_tasks.workloads.textgen_int8.decoding import generate, input_tokens, trace_of, verify_output
from gpu_tasks.workloads.textgen_int8.integer_ops import Arithmetic
from gpu_tasks.workloads.textgen_int8.model import decode_model, model_id
from gpu_tasks.workloads.textgen_int8.request import (
    MODEL_ID,
    WORKLOAD_ID,
    CompletionRequest,
    decode_request,
    model_file,
)
from gpu_tasks.workloads.textgen_int8.transformer import empty_cache, forward, load
from gpu_tasks.workloads.workload import OutputCheck, Workload, none_for_none


class TextGeneration(Workload):
    """`textgen-int8` ready to run. See `Workload` for the methods."""

    workload_id = WORKLOAD_ID

    def __init__(self, backend: Arithmetic, model_file: bytes) -> None:
        """Raise DecodeError for a bad file, and NonConformingBackendError for wrong results of an operation."""
        # Before the model is read: a wrong backend is named by its operation, not by a wrong completion.
        check_operations(backend)
        self.model_id = model_id(model_file)
        self._model = load(backend, decode_model(model_file))

    def run(self, encoded_request: bytes) -> bytes:
        """Return the completion's bytes."""
        return generate(self._model, self._read(encoded_request))

    def run_many(self, requests: Sequence[bytes]) -> Iterator[tuple[int, bytes | None]]:
        """Yield completions, computed side by side."""
        read = {place: none_for_none(self._read, request) for place, request in enumerate(requests)}
        yield from ((place, None) for place, request in read.items() if request is None)
        good = {place: request for place, request in read.items() if request is not None}
        places = list(good)
        yield from ((places[place], output) for place, output in generated(self._model, list(good.values())))

    def verify(self, encoded_request: bytes, encoded_output: bytes) -> OutputCheck:
        """Check all tokens by one prefill."""
        return verify_output(self._model, decode_request(encoded_request, self._model.shape.context), encoded_output)

    def fingerprint(self, encoded_request: bytes, encoded_output: bytes, seed: bytes) -> bytes:
        """Sample one logit of each position."""
        request = self._read(encoded_request)
        text = (request.prompt + encoded_output)[: self._model.shape.context - 1]
        logits = forward(self._model, input_tokens(text), empty_cache(self._model))[0]
        places = sampled_places(seed, 0, len(logits), logits.shape[1])
        return fingerprint(seed, [logits[np.arange(len(logits)), places]])

    def trace(self, encoded_request: bytes, encoded_output: bytes, drawn_place: bytes) -> bytes:
        """Return the hash of the logits at one position."""
        return trace_of(
            self._model, decode_request(encoded_request, self._model.shape.context), encoded_output, drawn_place
        )

    def _read(self, encoded_request: bytes) -> CompletionRequest:
        return decode_request(encoded_request, self._model.shape.context)

    def conformance(self) -> bytes:
        """Return the hash of the completions, which for the published model must be the published one."""
        check_operations(self._model.backend)
        if self.model_id.hex() != MODEL_ID:
            return completions(self._model)
        return check_completions(self._model)


def open_published(backend_name: str) -> TextGeneration:
    """Return the published model on a backend, after its conformance vectors passed.

    Raise errors as `WorkloadForm.open`.
    """
    workload = TextGeneration(arithmetic(backend_name), model_file())
    workload.conformance()
    return workload
