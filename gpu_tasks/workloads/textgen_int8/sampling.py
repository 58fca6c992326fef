"""The next token from integer logits: greedy, or drawn with a seed; the same on every machine.

The draw of a position depends on the task's seed and the position only, so a provider can
choose nothing and a checker can redo any position alone.
"""

from hashlib import blake2b

import numpy as np

from gpu_tasks.workloads.textgen_int8.integer_ops import EXP_ENTRIES, Ints, exp_table

TEMPERATURE_ONE = 1000
_DOMAIN = b"ogpu/textgen/1"
_EXPS = exp_table()


def next_token(logits: Ints, temperature_milli: int, seed: bytes, position: int) -> int:
    """A token from int64[257] logits in 1/1024 nat.

    Temperature 0 takes the largest logit, the lowest token among equals. Otherwise inverse
    transform sampling over e**(logit / temperature): tokens over 15.98 nats (at temperature 1)
    below the best have weight 0, and `position` counts completed tokens from 0.
    """
    if temperature_milli == 0:
        return int(logits.argmax())
    below = (logits.max() - logits) * TEMPERATURE_ONE // temperature_milli
    weights = _EXPS[np.minimum((below + 8) >> 4, EXP_ENTRIES - 1)]
    sums = weights.cumsum()
    point = uniform(seed, position) * int(sums[-1]) >> 64
    return int(np.searchsorted(sums, point, side="right"))


def uniform(seed: bytes, position: int) -> int:
    """64 bits drawn by blake2b from a 32-byte seed and a position."""
    digest = blake2b(position.to_bytes(4, "little"), digest_size=8, key=seed, person=_DOMAIN)
    return int.from_bytes(digest.digest(), "little")
