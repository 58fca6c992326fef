"""`embed-int8` as programs see it: a text, whose vector is a list of numbers; a token is a unit of cost.

Invariant: a request has at most the model's positions, and only token ids of the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path  # deterministic: a file whose bytes the model's id covers
from typing import TYPE_CHECKING

from gpu_tasks.models.model_file import CONFIG, TENSORS, TOKENIZER, ModelHeader, decoded_section, read_section
from gpu_tasks.workloads.embed_int8.config import EncoderShape, decode_shape, effort, pass_bytes
from gpu_tasks.workloads.embed_int8.request import (
    OUTPUT,
    REQUEST,
    WORKLOAD_ID,
    WORKLOAD_NAME,
    EmbeddingRequest,
    decode_output,
    decode_request,
    output_bytes,
)
from gpu_tasks.workloads.form import Effort, RequestError, WorkloadForm, settings
from gpu_tasks.workloads.workload import Workload, none_for_none
from runtime.encoding.codec import DecodeError

if TYPE_CHECKING:
    from gpu_tasks.models.text import Tokenizer

FLOAT32_BYTES = 4
_SHOWN_DECIMALS = 6
"""More than the 15 bits of a value."""


class EmbeddingForm(WorkloadForm):
    """`embed-int8` with one model, for programs. See `WorkloadForm` for the methods."""

    workload_id = WORKLOAD_ID
    cost_unit = "token"
    backends = ("numpy", "reference", "torch")

    def __init__(self, header: ModelHeader, path: Path) -> None:
        """`path`: the model file with this header. Its sections are read when they are needed."""
        self.name = f"{WORKLOAD_NAME}:{header.name}"
        self.model_id = header.model_id
        self._tensor_bytes = sum(section.length for section in header.sections if section.name == TENSORS)
        self._path = path

    def encode(self, text: str, cost_max: int, options: Mapping[str, str], seed: bytes) -> bytes:
        """Encode the request for the vector of `text`. It costs the text's tokens, at most `cost_max`."""
        settings(self.options, options)
        tokens = self._tokens(text)
        positions = self.shape.positions
        if not 1 <= len(tokens) <= positions:
            raise RequestError(f"the text has {len(tokens)} tokens, and the model reads 1 to {positions}; shorten it")
        if len(tokens) > cost_max:
            raise RequestError(f"the text has {len(tokens)} tokens, more than {cost_max}; shorten it or allow more")
        if max(tokens) >= self.shape.vocabulary:
            raise RequestError(
                f"the text has the token id {max(tokens)}, and the model has {self.shape.vocabulary} tokens; "
                "its tokenizer is another model's"
            )
        return REQUEST.encode(EmbeddingRequest(tokens))

    def show_request(self, encoded_request: bytes) -> str:
        """Return the text, or the token ids where the model's tokenizer cannot be used."""
        tokens = REQUEST.decode(encoded_request).tokens
        try:
            return self._tokenizer.decode(tokens)
        except (ImportError, ValueError):  # TextError is a ValueError, and its module loads the library
            return " ".join(map(str, tokens))

    def show_output(self, encoded_output: bytes) -> str:
        """Return the vector as a line of JSON, or all the bytes if they are no answer."""
        try:
            _, values = decode_output(encoded_output)
        except DecodeError:
            return "0x" + encoded_output.hex()
        shown = [round(value, _SHOWN_DECIMALS) for value in values]  # deterministic: for people
        return json.dumps(shown, separators=(",", ":"))

    def cost_asked(self, encoded_request: bytes) -> int:
        """Return the number of tokens."""
        return len(decode_request(encoded_request, self.shape).tokens)

    def output_bytes(self, encoded_request: bytes) -> int:
        """Return the fixed length of the model's answers."""
        decode_request(encoded_request, self.shape)
        return output_bytes(self.shape)

    def cost(self, encoded_output: bytes) -> int:
        """Return the tokens that the answer names, or 0 if the bytes are no answer."""
        try:
            return OUTPUT.decode(encoded_output).tokens
        except DecodeError:
            return 0

    def model_facts(self) -> Mapping[str, int | str]:
        """Return the sizes of the model."""
        shape = self.shape
        return {
            "layers": shape.layers,
            "width": shape.width,
            "heads": shape.heads,
            "vocabulary": shape.vocabulary,
            "context_tokens": shape.positions,
        }

    def memory_bytes(self) -> int:
        """Return the memory of a worker: each weight as a float32 beside the mapped file, and one pass."""
        return self._tensor_bytes * (1 + FLOAT32_BYTES) + pass_bytes(self.shape)

    def effort(self, requests: Sequence[bytes], room_bytes: int) -> Effort:
        """Return the work of these texts, in multiplications."""
        costs = (none_for_none(self.cost_asked, request) for request in requests)
        return effort(self.shape, [cost for cost in costs if cost])

    def probe(self, reading: int, steps: int) -> bytes | None:
        """Return a text of `reading` tokens. It has one step."""
        return REQUEST.encode(EmbeddingRequest((0,) * reading)) if reading <= self.shape.positions else None

    def open(self, backend_name: str) -> Workload:
        """Open the model on `numpy`, `reference` or `torch-<device>`."""
        from gpu_tasks.workloads.embed_int8.service import open_model  # noqa: PLC0415  # NumPy, for executors only

        return open_model(backend_name, self._path)

    @cached_property
    def shape(self) -> EncoderShape:
        """The model's sizes. Raise ModelFileError for a malformed file."""
        return decoded_section(self._path, CONFIG, decode_shape)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from gpu_tasks.models.text import Tokenizer  # noqa: PLC0415  # loads the library `tokenizers`

        return Tokenizer(read_section(self._path, TOKENIZER))

    def _tokens(self, text: str) -> tuple[int, ...]:
        try:
            return self._tokenizer.encode(text)
        except ImportError as error:
            raise RequestError(f"this machine lacks a library: {error}. Run `pip install '.[models]'`") from None
        except ValueError as error:  # TextError
            raise RequestError(str(error)) from None
