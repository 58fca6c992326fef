"""Requests to the built-in language model: all lengths of prompt and answer, all temperatures, any bytes.

Invariant: each request fits `CONTEXT`, and a seed draws the same requests on every machine.
"""

import random
from collections.abc import Iterator

from benchmarks.built_in import PROMPT, text_request
from gpu_tasks.workloads.decoder_int8.request import TEMPERATURE_MAX

CONTEXT = 256
"""A quarter of the model's, because the int64 reference is slow."""
_EDGE_TEMPERATURES = (0, 1, 500, 800, 1000, TEMPERATURE_MAX)


def drawn_requests(seed: int, count: int) -> list[bytes]:
    """Return requests at the edges of all lengths, then `count` random ones."""
    return [*_edges(), *_random(random.Random(seed), count)]


def _edges() -> Iterator[bytes]:
    """Yield the shortest and the longest prompt, the longest answer and the highest temperature."""
    yield text_request(b"\0", 1, 0, bytes(32))
    yield text_request(b"\0", CONTEXT - 1, TEMPERATURE_MAX, b"\xff" * 32)
    yield text_request(b"\xff" * (CONTEXT - 1), 1, 1, bytes(32))
    yield text_request(b"(" * (CONTEXT // 2), CONTEXT // 2, 1000, b"\x07" * 32)


def _random(chance: random.Random, count: int) -> Iterator[bytes]:
    for number in range(count):
        length = chance.randrange(1, CONTEXT)
        prompt = chance.randbytes(length) if number % 2 else (PROMPT * CONTEXT)[:length]
        temperature = chance.choice((*_EDGE_TEMPERATURES, chance.randrange(TEMPERATURE_MAX + 1)))
        yield text_request(prompt, chance.randint(1, CONTEXT - length), temperature, chance.randbytes(32))
