"""Requests to `textgen-int8`, drawn from a seed: all lengths of prompt and completion, all temperatures, any bytes.

Invariant: each request fits the model's context, and a seed draws the same requests on every machine.
"""

import random
from collections.abc import Iterator

from gpu_tasks.workloads.textgen_int8.request import (
    TEMPERATURE_MAX,
    CompletionRequest,
    context_length,
    encode_request,
)

PROMPT = b"import os\n\n\ndef main(argv):\n    "
_EDGE_TEMPERATURES = (0, 1, 500, 800, 1000, TEMPERATURE_MAX)


def drawn_requests(seed: int, count: int) -> list[bytes]:
    """Return requests at the edges of all lengths, then `count` random ones."""
    return [encode_request(request) for request in (*_edges(), *_random(random.Random(seed), count))]


def greedy(tokens: int) -> bytes:
    """Return a request to continue `PROMPT`. At temperature 0 no text ends early by chance."""
    return encode_request(CompletionRequest(PROMPT, tokens, 0, bytes(32)))


def _edges() -> Iterator[CompletionRequest]:
    """Yield no prompt, the longest prompt, the longest completion and the highest temperature."""
    context = context_length()
    yield CompletionRequest(b"", 1, 0, bytes(32))
    yield CompletionRequest(b"", context, TEMPERATURE_MAX, b"\xff" * 32)
    yield CompletionRequest(b"\xff" * (context - 1), 1, 1, bytes(32))
    yield CompletionRequest(b"(" * (context // 2), context // 2, 1000, b"\x07" * 32)


def _random(chance: random.Random, count: int) -> Iterator[CompletionRequest]:
    context = context_length()
    for number in range(count):
        length = chance.randrange(context)
        prompt = chance.randbytes(length) if number % 2 else (PROMPT * context)[:length]
        temperature = chance.choice((*_EDGE_TEMPERATURES, chance.randrange(TEMPERATURE_MAX + 1)))
        yield CompletionRequest(prompt, chance.randint(1, context - length), temperature, chance.randbytes(32))
