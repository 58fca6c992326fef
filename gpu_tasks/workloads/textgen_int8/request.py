"""The published service with its ids and model file, and requests as canonical SCALE bytes.

Invariant: this module needs no NumPy, so that customers can name the service and write requests. A better model
replaces the ids and `COMPLETIONS` together: its id differs, and so does the service.
"""

from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Annotated

from runtime.encoding.codec import U16, Bounded, DecodeError, Fixed, codec, struct

WORKLOAD_ID = blake2b(b"ogpu/workload/textgen-int8/1", digest_size=32).digest()
MODEL_ID = "9a4aa3ca24c16979964acf53d58c2f80d8f6e8b3c42fdd0a29023af2d0a8b6e1"
COMPLETIONS = "ed19aa04eedf384f20fbbf06cdce97170db4c2e4cc06bc38cd0fe14b82dbd567"
"""The hash of the published model's answers to the conformance requests."""

PROMPT_MAX = 1024
TEMPERATURE_MAX = 10_000
_CONTEXT_AT = 16  # After the magic and four of the five sizes: see model.py
_MODEL_FILE = files("gpu_tasks.workloads.textgen_int8").joinpath("model.bin")


@struct
class CompletionRequest:
    """A request: continue `prompt` by at most `max_tokens` bytes."""

    prompt: Annotated[bytes, Bounded(PROMPT_MAX)]
    max_tokens: U16
    temperature_milli: U16  # 1000 is temperature 1, 0 is greedy
    seed: Annotated[bytes, Fixed(32)]


REQUEST = codec(CompletionRequest)


def encode_request(request: CompletionRequest) -> bytes:
    """Return the bytes that a task commits to."""
    return REQUEST.encode(request)


def decode_request(encoded: bytes, context_max: int) -> CompletionRequest:
    """Return the request in `encoded_bytes`.

    Raise DecodeError unless a model with `context_max` positions can serve it.
    """
    request = REQUEST.decode(encoded)
    if not request.max_tokens >= 1 or len(request.prompt) + request.max_tokens > context_max:
        raise DecodeError("a prompt and completion beyond the context")
    if request.temperature_milli > TEMPERATURE_MAX:
        raise DecodeError("a temperature above the limit")
    return request


def model_file() -> bytes:
    """Return the published model file of the package."""
    return _MODEL_FILE.read_bytes()


@cache
def context_length() -> int:
    """Return the published model's number of positions, read from its file's header.

    Prompt and completion together have at most this many bytes.
    """
    # Reading the header alone keeps a customer's program from loading the whole model.
    with _MODEL_FILE.open("rb") as model_file:
        header = model_file.read(_CONTEXT_AT + 2)
    return int.from_bytes(header[_CONTEXT_AT:], "little")
