"""The published service, its ids and its model file, and what a customer may ask of it, as canonical SCALE bytes.

Always: needs no NumPy, so that customers can name the service and write requests. The ids and `COMPLETIONS` are
replaced together when a better model is published: its id is another, and so is the service.
"""

from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Annotated

from runtime.encoding.codec import U16, Bounded, DecodeError, Fixed, codec, struct

WORKLOAD_ID = blake2b(b"ogpu/workload/textgen-int8/1", digest_size=32).digest()
MODEL_ID = "9a4aa3ca24c16979964acf53d58c2f80d8f6e8b3c42fdd0a29023af2d0a8b6e1"
COMPLETIONS = "ed19aa04eedf384f20fbbf06cdce97170db4c2e4cc06bc38cd0fe14b82dbd567"
"""What the published model answers to the conformance requests, as one hash."""

PROMPT_MAX = 1024
TEMPERATURE_MAX = 10_000
_CONTEXT_AT = 16  # after the magic and four of the five sizes: see model.py
_MODEL_FILE = files("gpu_tasks.workloads.textgen_int8").joinpath("model.bin")


@struct
class CompletionRequest:
    """Continue `prompt` by at most `max_tokens` bytes."""

    prompt: Annotated[bytes, Bounded(PROMPT_MAX)]
    max_tokens: U16
    temperature_milli: U16  # 1000 is temperature 1, 0 is greedy
    seed: Annotated[bytes, Fixed(32)]


REQUEST = codec(CompletionRequest)


def encode_request(request: CompletionRequest) -> bytes:
    """The bytes that a task commits to."""
    return REQUEST.encode(request)


def decode_request(data: bytes, context: int) -> CompletionRequest:
    """The request in `data`; DecodeError unless a model with `context` positions can serve it."""
    request = REQUEST.decode(data)
    if not request.max_tokens >= 1 or len(request.prompt) + request.max_tokens > context:
        raise DecodeError("prompt and completion exceed the context")
    if request.temperature_milli > TEMPERATURE_MAX:
        raise DecodeError("temperature above the limit")
    return request


def model_file() -> bytes:
    """The published model, as it lies in the package."""
    return _MODEL_FILE.read_bytes()


@cache
def context_length() -> int:
    """Positions of the published model, read from its file's header: prompt and completion have no more bytes."""
    with _MODEL_FILE.open("rb") as file:
        header = file.read(_CONTEXT_AT + 2)
    return int.from_bytes(header[_CONTEXT_AT:], "little")
