"""Requests and answers of `embed-int8` as canonical SCALE bytes: token ids in, a vector out. It needs no NumPy."""

from hashlib import blake2b
from typing import Annotated

from gpu_tasks.workloads.embed_int8.config import POSITIONS_MAX, WIDTH_MAX, EncoderShape
from runtime.encoding.codec import U16, U32, Bounded, DecodeError, codec, struct

WORKLOAD_NAME = "embed-int8"
WORKLOAD_ID = blake2b(b"ogpu/workload/embed-int8/1", digest_size=32).digest()

VALUE_ONE = 1 << 15
"""The values of a vector are in units of 2**-15."""
VALUE_BYTES = 2


@struct
class EmbeddingRequest:
    """A request: the tokens of one text, with the model's first and last tokens."""

    tokens: Annotated[tuple[U32, ...], Bounded(POSITIONS_MAX)]


@struct
class EmbeddingOutput:
    """An answer."""

    tokens: U16
    """The number of tokens in the text."""
    values: Annotated[bytes, Bounded(VALUE_BYTES * WIDTH_MAX)]
    """The vector, of length 1: signed integers of 16 bits, little-endian, in units of 2**-15."""


REQUEST = codec(EmbeddingRequest)
OUTPUT = codec(EmbeddingOutput)


def decode_request(encoded: bytes, shape: EncoderShape) -> EmbeddingRequest:
    """Return the request in `encoded`. Raise DecodeError unless a model of this shape can serve it."""
    request = REQUEST.decode(encoded)
    if not 1 <= len(request.tokens) <= shape.positions:
        raise DecodeError(f"a text of {len(request.tokens)} tokens, for a model of 1 to {shape.positions}")
    if max(request.tokens) >= shape.vocabulary:
        raise DecodeError(f"a token id {max(request.tokens)}, for a model of {shape.vocabulary} tokens")
    return request


def decode_output(encoded: bytes) -> tuple[int, tuple[float, ...]]:
    """Return the number of tokens and the vector of an answer. Raise DecodeError for bytes that are none."""
    output = OUTPUT.decode(encoded)
    if not output.tokens or not output.values or len(output.values) % VALUE_BYTES:
        raise DecodeError("an answer without tokens or with half a value")
    parts = (output.values[at : at + VALUE_BYTES] for at in range(0, len(output.values), VALUE_BYTES))
    return output.tokens, tuple(int.from_bytes(part, "little", signed=True) / VALUE_ONE for part in parts)


def output_bytes(shape: EncoderShape) -> int:
    """Return the length of an answer in bytes: the tokens, the vector's length and the vector."""
    return len(OUTPUT.encode(EmbeddingOutput(1, bytes(VALUE_BYTES * shape.width))))
