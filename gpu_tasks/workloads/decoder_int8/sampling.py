"""Logits to tokens, in integers: temperature, top-p, a draw from a stated seed, and log-probabilities.

Invariant: the draw at a position depends only on the request and the position. A provider has no choice, and a checker
can repeat any position alone.
"""

from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from gpu_tasks.workloads.decoder_int8.config import VOCABULARY_MAX
from gpu_tasks.workloads.decoder_int8.request import TOP_P_ONE, GenerationRequest
from gpu_tasks.workloads.integer_arrays import Integers
from gpu_tasks.workloads.integer_transformer.arithmetic import EXP_BITS, EXP_ENTRIES, EXP_STEP_BITS, LOGIT_BITS

TEMPERATURE_ONE = 1000
TOKEN_BITS = (VOCABULARY_MAX - 1).bit_length()
_DOMAIN = b"ogpu/decoder/1"
_STEP_SHIFT = LOGIT_BITS - EXP_STEP_BITS
_LN_2 = 2977044472
"""ln 2 in units of 2**-32."""


class Drawn(NamedTuple):
    """A token, and `-ln(probability)` in units of 2**-16."""

    token: int
    negative_logprob: int


def next_token(logits: Integers, exponentials: Integers, request: GenerationRequest, position: int) -> Drawn:
    """Return the token for int64[vocabulary] logits, base-2 logarithms in units of 2**-16.

    `exponentials` is the model's table, `position` counts the answer's tokens from 0. Temperature 0 takes the largest
    logit, the lowest id among equals.
    """
    distances = logits.max() - logits
    token = int(logits.argmax())
    if request.temperature_milli:
        scaled = distances * TEMPERATURE_ONE // request.temperature_milli
        token = _draw(_weights(scaled, exponentials), request, position)
    if not request.has_logprobs:
        return Drawn(token, 0)
    total = int(_weights(distances, exponentials).sum())
    logarithm = int(distances[token]) + binary_logarithm(total) - (EXP_BITS << LOGIT_BITS)
    return Drawn(token, logarithm * _LN_2 >> 32)


def binary_logarithm(number: int) -> int:
    """Return the floor of the base-2 logarithm of an integer of at least 1, in units of 2**-16."""
    whole = number.bit_length() - 1
    result, mantissa = whole, number << 62 >> whole  # From 1 to 2, in units of 2**-62
    for _ in range(LOGIT_BITS):
        mantissa = mantissa * mantissa >> 62
        carry = mantissa >> 63
        mantissa >>= carry
        result = result << 1 | carry
    return result


def _weights(distances: Integers, exponentials: Integers) -> Integers:
    """Return 2**-distance of each token, in units of 2**-24."""
    weights: Integers = exponentials[np.minimum((distances + (1 << (_STEP_SHIFT - 1))) >> _STEP_SHIFT, EXP_ENTRIES - 1)]
    return weights


def _draw(weights: Integers, request: GenerationRequest, position: int) -> int:
    """Return a token, each with a chance by its weight, from the likeliest that together have `top_p`."""
    tokens = np.flatnonzero(weights)
    if request.top_p_milli < TOP_P_ONE:
        # Of equal weights the lower id comes first. One integer for both sorts faster than a stable order.
        tokens = np.sort((1 << EXP_BITS) - weights[tokens] << TOKEN_BITS | tokens) & ((1 << TOKEN_BITS) - 1)
    sums = weights[tokens].cumsum()
    if request.top_p_milli < TOP_P_ONE:
        enough = int(sums[-1]) * request.top_p_milli
        sums = sums[: 1 + int(np.searchsorted(sums * TOP_P_ONE, enough, side="left"))]
    # The seed is the request's, so a provider cannot try seeds until it likes the answer.
    point = uniform(request.seed, position) * int(sums[-1]) >> 64
    return int(tokens[np.searchsorted(sums, point, side="right")])


def uniform(seed: bytes, position: int) -> int:
    """Return 64 bits drawn by blake2b from a 32-byte seed and a position."""
    digest = blake2b(position.to_bytes(4, "little"), digest_size=8, key=seed, person=_DOMAIN)
    return int.from_bytes(digest.digest(), "little")
