"""Requests to `textgen-int8`, drawn from a seed: every length of prompt and completion, every temperature, any bytes.

Always: each fits the model's context, and the same seed draws the same requests on every machine.
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
    """The edges of all lengths, then `count` random ones."""
    return [encode_request(request) for request in (*_edges(), *_random(random.Random(seed), count))]


def greedy(tokens: int) -> bytes:
    """Continue `PROMPT`; at temperature 0 no text ends early by chance."""
    return encode_request(CompletionRequest(PROMPT, tokens, 0, bytes(32)))


def _edges() -> Iterator[CompletionRequest]:
    """No prompt, the longest prompt, the longest completion, the highest temperature."""
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
