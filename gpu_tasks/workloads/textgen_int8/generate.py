"""Request to completion: prefill the prompt, then decode one byte after the other."""

import numpy as np

from gpu_tasks.workloads.textgen_int8.integer_ops import Ints
from gpu_tasks.workloads.textgen_int8.model import BOUNDARY
from gpu_tasks.workloads.textgen_int8.request import CompletionRequest
from gpu_tasks.workloads.textgen_int8.sampling import next_token
from gpu_tasks.workloads.textgen_int8.transformer import Loaded, empty_cache, forward


def generate(model: Loaded, request: CompletionRequest) -> bytes:
    """The completion: up to `max_tokens` bytes, fewer only if the model ended the text."""
    cache = empty_cache(model)
    logits = forward(model, input_tokens(request.prompt), cache)[0, -1]
    output = bytearray()
    while len(output) < request.max_tokens:
        token = next_token(logits, request.temperature_milli, request.seed, len(output))
        if token == BOUNDARY:
            break
        output.append(token)
        if len(output) < request.max_tokens:
            logits = forward(model, np.array([[token]], dtype=np.int64), cache)[0, 0]
    return bytes(output)


def input_tokens(text: bytes) -> Ints:
    """int64[1, 1 + len(text)]: the boundary, then the bytes."""
    return np.array([[BOUNDARY, *text]], dtype=np.int64)
