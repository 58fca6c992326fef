"""A request to its completion, and the check of a completion: prefill, then one token at a time from integer logits.

Invariant: the draw at a position depends only on the task's seed and the position. A provider therefore has no choice,
and a checker can repeat any position alone. `verify_output` recomputes every token of a completion with one prefill
instead of one pass for each.
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from gpu_tasks.workloads.textgen_int8.integer_ops import EXP_ENTRIES, Ints, exp_table
from gpu_tasks.workloads.textgen_int8.model import BOUNDARY
from gpu_tasks.workloads.textgen_int8.request import CompletionRequest
from gpu_tasks.workloads.textgen_int8.transformer import Loaded, empty_cache, forward
from gpu_tasks.workloads.workload import OutputCheck

TEMPERATURE_ONE = 1000
_DOMAIN = b"ogpu/textgen/1"
_EXPS = exp_table()


def generate(model: Loaded, request: CompletionRequest) -> bytes:
    """Return the completion: up to `max_tokens` bytes, fewer only if the model ended the text."""
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


def verify_output(model: Loaded, request: CompletionRequest, encoded_output: bytes) -> OutputCheck:
    """Check that `encoded_output` equals the result of `generate`, bit for bit.

    The check is complete: a completion shorter than `max_tokens` must be one that the model ended. `recomputed` counts
    the compared tokens, and `first_wrong` is the first that differs.
    """
    if len(encoded_output) > request.max_tokens:
        return OutputCheck(valid=False, recomputed=0, first_wrong=request.max_tokens)
    tokens = list(encoded_output)
    if len(encoded_output) < request.max_tokens:
        # A shorter completion claims that the model drew the boundary here.
        tokens.append(BOUNDARY)
    prompt_and_output = request.prompt + encoded_output
    read = prompt_and_output if len(encoded_output) < request.max_tokens else prompt_and_output[:-1]
    # One prefill in place of a pass for each token: a position depends on its prefix alone, so the bits are the same.
    logits = forward(model, input_tokens(read), empty_cache(model))[0]
    start = len(request.prompt)
    for index, claimed in enumerate(tokens):
        expected = next_token(logits[start + index], request.temperature_milli, request.seed, index)
        if claimed != expected:
            return OutputCheck(valid=False, recomputed=index + 1, first_wrong=index)
    return OutputCheck(valid=True, recomputed=len(tokens), first_wrong=None)


def trace_of(model: Loaded, request: CompletionRequest, encoded_output: bytes, drawn_place: bytes) -> bytes:
    """Return the hash of the logits at one position of prompt and completion, int64, little-endian."""
    logits = forward(
        model, input_tokens((request.prompt + encoded_output)[: model.shape.context - 1]), empty_cache(model)
    )[0]
    position = int.from_bytes(drawn_place, "little") % len(logits)
    position_label = _DOMAIN + position.to_bytes(4, "little")
    return blake2b(position_label + logits[position].astype("<i8").tobytes(), digest_size=32).digest()


def input_tokens(text: bytes) -> Ints:
    """Return int64[1, 1 + len(text)]: the boundary, then the bytes."""
    return np.array([[BOUNDARY, *text]], dtype=np.int64)


def next_token(logits: Ints, temperature_milli: int, seed: bytes, position: int) -> int:
    """Return a token from int64[257] logits in 1/1024 nat.

    Temperature 0 takes the largest logit, the lowest token among equals. Any other uses inverse transform sampling over
    e**(logit / temperature). Tokens more than 15.98 nats below the best (at temperature 1) have weight 0. `position`
    counts completed tokens from 0.
    """
    (token,) = next_tokens(logits[None, :], [temperature_milli], [seed], [position])
    return token


def next_tokens(
    logits: Ints, temperatures: Sequence[int], seeds: Sequence[bytes], positions: Sequence[int]
) -> list[int]:
    """Return the tokens of `next_token` for each row of int64[batch, 257]."""
    temperatures_or_one = np.array([max(1, temperature) for temperature in temperatures], dtype=np.int64)
    peaks = logits.max(axis=1, keepdims=True)
    scaled_distances = (peaks - logits) * TEMPERATURE_ONE // temperatures_or_one[:, None]
    sums = _EXPS[np.minimum((scaled_distances + 8) >> 4, EXP_ENTRIES - 1)].cumsum(axis=1)
    likeliest = logits.argmax(axis=1)
    tokens = []
    for row, (temperature, seed, position) in enumerate(zip(temperatures, seeds, positions, strict=True)):
        if temperature == 0:
            tokens.append(int(likeliest[row]))
            continue
        # The seed is the request's, so a provider cannot try seeds until it likes the completion.
        drawn_point = uniform(seed, position) * int(sums[row, -1]) >> 64
        tokens.append(int(np.searchsorted(sums[row], drawn_point, side="right")))
    return tokens


def uniform(seed: bytes, position: int) -> int:
    """Return 64 bits drawn by blake2b from a 32-byte seed and a position."""
    digest = blake2b(position.to_bytes(4, "little"), digest_size=8, key=seed, person=_DOMAIN)
    return int.from_bytes(digest.digest(), "little")
