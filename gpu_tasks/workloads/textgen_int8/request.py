"""What a customer asks for, as canonical SCALE bytes with limits."""

from typing import Annotated

from runtime.encoding.codec import U16, Bounded, DecodeError, Fixed, codec, struct

PROMPT_MAX = 1024
TEMPERATURE_MAX = 10_000


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
