"""`embed-int8` as a `Workload`: a model file, a backend that conforms, token ids in, a vector out."""

from collections.abc import Iterator, Sequence
from pathlib import Path  # deterministic: a file whose bytes the model's id covers

import numpy as np

from gpu_tasks.models import model_file
from gpu_tasks.workloads.embed_int8.batching import embedded
from gpu_tasks.workloads.embed_int8.config import decode_shape
from gpu_tasks.workloads.embed_int8.conformance import answers_hash
from gpu_tasks.workloads.embed_int8.model import decode_model
from gpu_tasks.workloads.embed_int8.request import (
    OUTPUT,
    VALUE_BYTES,
    WORKLOAD_ID,
    EmbeddingRequest,
    decode_request,
)
from gpu_tasks.workloads.embed_int8.transformer import LoadedEncoder, load, streams
from gpu_tasks.workloads.integer_transformer.backends import arithmetic
from gpu_tasks.workloads.sampling import fingerprint, sampled_places
from gpu_tasks.workloads.workload import OutputCheck, Workload, none_for_none
from runtime.encoding.codec import DecodeError


class TextEmbedding(Workload):
    """`embed-int8` ready to run. See `Workload` for the methods."""

    workload_id = WORKLOAD_ID

    def __init__(self, model: LoadedEncoder, model_id: bytes) -> None:
        self.model_id = model_id
        self._model = model

    def run(self, encoded_request: bytes) -> bytes:
        """Return the text's vector."""
        ((_, output),) = embedded(self._model, [self._read(encoded_request)])
        return output

    def run_many(self, requests: Sequence[bytes]) -> Iterator[tuple[int, bytes | None]]:
        """Yield vectors, computed side by side."""
        read = {place: none_for_none(self._read, request) for place, request in enumerate(requests)}
        yield from ((place, None) for place, request in read.items() if request is None)
        good = {place: request for place, request in read.items() if request is not None}
        places = list(good)
        yield from ((places[place], output) for place, output in embedded(self._model, list(good.values())))

    def verify(self, encoded_request: bytes, encoded_output: bytes) -> OutputCheck:
        """Compute again, since a vector has no shorter check. The first wrong place is a value of the vector."""
        request, right = self._read(encoded_request), self.run(encoded_request)
        wrong = None if encoded_output == right else _first_difference(right, encoded_output)
        return OutputCheck(valid=wrong is None, recomputed=len(request.tokens), first_wrong=wrong)

    def fingerprint(self, encoded_request: bytes, encoded_output: bytes, seed: bytes) -> bytes:
        """Sample one channel of the stream of each token behind each layer. Layer 0 embeds."""
        tokens = np.array([self._read(encoded_request).tokens], dtype=np.int64)
        length, backend = tokens.shape[1], self._model.backend
        samples = []
        for layer, stream in enumerate(streams(self._model, tokens, np.array([length], dtype=np.int64))):
            channels = sampled_places(seed, layer, length, self._model.shape.width)
            samples.append(backend.take(stream[0][backend.indices(np.arange(length)), backend.indices(channels)]))
        return fingerprint(seed, samples)

    def conformance(self) -> bytes:
        """Return the hash of the answers of a small fixed model."""
        return answers_hash(self._model.backend)

    def _read(self, encoded_request: bytes) -> EmbeddingRequest:
        return decode_request(encoded_request, self._model.shape)


def open_model(backend_name: str, path: Path) -> TextEmbedding:
    """Return the model of a file on a backend, after the file's hashes and the conformance vectors passed.

    Raise ModelFileError or DecodeError for a bad file, and errors as `WorkloadForm.open`.
    """
    backend = arithmetic(backend_name)
    # Before the model: a worker with a wrong backend must not load it. A damaged file would lose the provider's bond.
    answers_hash(backend)
    header = model_file.verify(path)
    shape = decode_shape(model_file.read_section(path, model_file.CONFIG))
    place = header.range_of(model_file.TENSORS)
    if not place.length:
        raise DecodeError("a model without tensors")
    tensors = np.memmap(path, dtype=np.uint8, mode="r", offset=place.offset, shape=(place.length,))
    return TextEmbedding(load(backend, decode_model(shape, tensors)), header.model_id)


def _first_difference(right: bytes, encoded_output: bytes) -> int:
    """Return the first value in which an answer differs, or 0 for bytes of another form."""
    if len(encoded_output) != len(right):
        return 0
    try:
        values = OUTPUT.decode(encoded_output).values
    except DecodeError:
        return 0
    expected = OUTPUT.decode(right).values
    differing = (place for place, byte in enumerate(values) if byte != expected[place])
    return next(differing, 0) // VALUE_BYTES
