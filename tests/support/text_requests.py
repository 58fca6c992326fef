"""Requests to the built-in language model, for tests of programs that run it."""

from gpu_tasks.models.text import END_TOKEN
from gpu_tasks.workloads.decoder_int8.request import REQUEST, TOP_P_ONE, GenerationRequest

TEXTS = "decoder-int8:ogpu-bytes"


def text_request(prompt: bytes, max_tokens: int, temperature_milli: int = 700, seed: bytes = bytes(32)) -> bytes:
    """Return the request to continue some bytes."""
    request = GenerationRequest(
        tuple(prompt), max_tokens, temperature_milli, TOP_P_ONE, seed, ((END_TOKEN,),), has_logprobs=False
    )
    return REQUEST.encode(request)
