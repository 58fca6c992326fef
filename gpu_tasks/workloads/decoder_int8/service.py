"""`decoder-int8` as a `Workload`: a model file, a backend that conforms, requests in, answers out."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from mmap import ACCESS_READ, MADV_DONTNEED, mmap
from pathlib import Path  # deterministic: a file whose bytes the model's id covers

import numpy as np

from gpu_tasks.models.model_file import CONFIG, TENSORS, read_section, section_range, verify
from gpu_tasks.workloads.decoder_int8.config import decode_shape
from gpu_tasks.workloads.decoder_int8.conformance import check_backend
from gpu_tasks.workloads.decoder_int8.decoding import fingerprint_of, generated, verify_output
from gpu_tasks.workloads.decoder_int8.effort import room_bytes_max
from gpu_tasks.workloads.decoder_int8.live_lanes import LiveLanes
from gpu_tasks.workloads.decoder_int8.model import DecoderModel, decode_model
from gpu_tasks.workloads.decoder_int8.request import (
    OUTPUT,
    TOP_P_ONE,
    WORKLOAD_ID,
    GenerationOutput,
    GenerationRequest,
    decode_request,
)
from gpu_tasks.workloads.decoder_int8.transformer import LoadedDecoder, StreamSamples, load
from gpu_tasks.workloads.integer_transformer.backends import arithmetic
from gpu_tasks.workloads.sampling import fingerprint
from gpu_tasks.workloads.streamed import StreamedWorkload
from gpu_tasks.workloads.workload import FingerprintedCheck, NonConformingBackendError, OutputCheck, none_for_none


class DecoderWorkload(StreamedWorkload):
    """`decoder-int8` ready to run. See `StreamedWorkload` for the methods."""

    workload_id = WORKLOAD_ID

    def __init__(self, model: LoadedDecoder, model_id: bytes) -> None:
        self.model_id = model_id
        self._model = model
        self._room_bytes = room_bytes_max(model.shape)

    def use_room(self, room_bytes: int) -> None:
        """Compute as many texts side by side as fit into this memory."""
        self._room_bytes = room_bytes

    def run(self, encoded_request: bytes) -> bytes:
        """Return the encoded answer."""
        ((_, output),) = generated(self._model, [self._read(encoded_request)])
        return OUTPUT.encode(output)

    def run_many(self, requests: Sequence[bytes]) -> Iterator[tuple[int, bytes | None]]:
        """Yield answers, computed side by side."""
        read = {place: none_for_none(self._read, request) for place, request in enumerate(requests)}
        yield from ((place, None) for place, request in read.items() if request is None)
        good = {place: request for place, request in read.items() if request is not None}
        places = list(good)
        for number, output in generated(self._model, list(good.values()), room_bytes=self._room_bytes):
            yield places[number], OUTPUT.encode(output)

    def live(self, places: int) -> LiveLanes:
        """Return lanes with room for the whole context each."""
        return LiveLanes(self._model, places, self._room_bytes)

    def verify(self, encoded_request: bytes, encoded_output: bytes) -> OutputCheck:
        """Check all tokens by one prefill."""
        request, claimed = self._read(encoded_request), none_for_none(_decode_output, encoded_output)
        if claimed is None:
            return OutputCheck(valid=False, recomputed=0, first_wrong=0)
        return verify_output(self._model, request, claimed)

    def fingerprint(self, encoded_request: bytes, encoded_output: bytes, seed: bytes) -> bytes:
        """Sample one channel of the stream of each position behind each layer."""
        return fingerprint_of(self._model, self._read(encoded_request), OUTPUT.decode(encoded_output), seed)

    def check(self, encoded_request: bytes, encoded_output: bytes, seed: bytes) -> FingerprintedCheck:
        """Check all tokens and sample the stream, by one prefill."""
        request, claimed = self._read(encoded_request), none_for_none(_decode_output, encoded_output)
        if claimed is None:
            return FingerprintedCheck(OutputCheck(valid=False, recomputed=0, first_wrong=0), None)
        samples = StreamSamples(self._model, seed, len(request.prompt) + max(1, len(claimed.tokens)) - 1)
        output_check = verify_output(self._model, request, claimed, samples)
        return FingerprintedCheck(output_check, fingerprint(seed, samples.layers) if output_check.valid else None)

    def conformance(self) -> bytes:
        """Return the hash of a fixed answer. Raise NonConformingBackendError for a wrong one."""
        check_backend(self._model.backend)
        request = GenerationRequest((0,) * 4, 4, 1000, TOP_P_ONE, bytes(32), (), has_logprobs=True)
        ((_, output),) = generated(self._model, [request])
        if not verify_output(self._model, request, output).valid:
            raise NonConformingBackendError(f"{self._model.backend.name}: prefill differs from decoding")
        return blake2b(OUTPUT.encode(output), digest_size=32).digest()

    def _read(self, encoded_request: bytes) -> GenerationRequest:
        return decode_request(encoded_request, self._model.shape.context, self._model.shape.vocabulary)


def _decode_output(encoded: bytes) -> GenerationOutput:
    return OUTPUT.decode(encoded)


def open_model(backend_name: str, path: Path) -> DecoderWorkload:
    """Return the model of a file on a conforming backend. Raise errors as `WorkloadForm.open`, and ModelFileError."""
    # Wrong weights give wrong answers, which cost the provider its stake.
    header = verify(path)
    mapping = _mapping(path)
    decoder = DecoderWorkload(load(arithmetic(backend_name), _model_in(path, mapping)), header.model_id)
    # The backend has copies. Only rows of the embeddings are read from the file again.
    mapping.madvise(MADV_DONTNEED)
    decoder.conformance()
    return decoder


def mapped_model(path: Path) -> DecoderModel:
    """Return the model of a file, without a check of its hashes. Raise DecodeError and ModelFileError."""
    return _model_in(path, _mapping(path))


def _mapping(path: Path) -> mmap:
    with path.open("rb") as file:
        return mmap(file.fileno(), 0, access=ACCESS_READ)


def _model_in(path: Path, mapping: mmap) -> DecoderModel:
    place = section_range(path, TENSORS)
    tensors = np.frombuffer(mapping, np.uint8, place.length, place.offset)
    return decode_model(decode_shape(read_section(path, CONFIG)), tensors)
