"""Weighted draws that every node repeats exactly: integers only, all randomness from a seed that the chain agreed on.

Use `roulette` for lists that nobody can change once the seed is known. Use `lottery` for lists that entrants can still
leave: each entrant has a random key of its own, so leaving does not redraw the others.
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from itertools import accumulate

from runtime.cryptography.hashing import blake2_256

_TICKET_BITS = 256
_LOG_BITS = 48
_TABLE_BITS = 10
_MANTISSA_BITS = 64


def roulette(seed: bytes, label: bytes, weights: Sequence[int], count: int) -> list[int]:
    """Return up to `count` different positions of `weights`, drawn by weight among the remaining ones.

    They are in the order drawn. Positions of weight 0 are never drawn, so fewer than `count` may be returned.
    `label` keeps draws of different purpose from the same seed independent. The bias of one draw is below (sum of
    weights) / 2^256. Raise ValueError for a negative weight or count.
    """
    if count < 0 or any(weight < 0 for weight in weights):
        raise ValueError("weights and counts are not negative")
    remaining = list(weights)
    drawn: list[int] = []
    while len(drawn) < count:
        cumulative = list(accumulate(remaining))
        if not cumulative or cumulative[-1] == 0:
            break
        mark = _ticket(seed, label, len(drawn)) * cumulative[-1] >> _TICKET_BITS
        position = bisect_right(cumulative, mark)
        drawn.append(position)
        remaining[position] = 0
    return drawn


def lottery(seed: bytes, label: bytes, entrants: Sequence[tuple[bytes, int]], count: int) -> list[int]:
    """Return up to `count` different positions of `entrants` (name, weight), as likely as by `roulette`.

    They are in the order drawn. Every entrant has the key -log2(u) / weight with a u of its own, and the smallest keys
    are drawn (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006). An entrant that leaves does
    not change the order of the others, so an owner that sees the seed before the list is closed cannot redraw by
    withdrawing some of its names. The order of `entrants` does not matter. Names are distinct. Those of weight 0 are
    never drawn. Raise ValueError for a negative weight or count.
    """
    if count < 0 or any(weight < 0 for _, weight in entrants):
        raise ValueError("weights and counts are not negative")
    keyed = []
    for position, (name, weight) in enumerate(entrants):
        if weight:
            chance = _uniform((b"ogpu/lottery", seed, label), name)
            # Scaled up before the division, so that large weights do not round different keys to ties.
            key = (_minus_log2(chance) << 2 * _MANTISSA_BITS) // weight
            # The name breaks ties, so that the order of `entrants` never matters.
            keyed.append((key, name, position))
    return [position for _, _, position in sorted(keyed)[:count]]


def _ticket(seed: bytes, label: bytes, number: int) -> int:
    return _uniform((b"ogpu/draw", seed, label), number.to_bytes(4, "little"))


def _uniform(parts: tuple[bytes, ...], last_part: bytes) -> int:
    """Return a uniform integer below 2^256. Each part has a length prefix, so that no two inputs collide."""
    prefixed = b"".join(len(part).to_bytes(4, "little") + part for part in parts)
    return int.from_bytes(blake2_256(prefixed + last_part), "big")


def _minus_log2(ticket: int) -> int:
    """Return -log2(ticket / 2^256) with 48 fractional bits: a table with linear interpolation."""
    ticket = max(ticket, 1)  # zero has no logarithm
    bit_length = ticket.bit_length()
    mantissa = ticket << _TICKET_BITS - bit_length >> _TICKET_BITS - _MANTISSA_BITS  # its highest bit is set
    line_bits = _MANTISSA_BITS - 1 - _TABLE_BITS
    index = (mantissa >> line_bits) - (1 << _TABLE_BITS)
    lower, upper = _log2_table()[index : index + 2]
    fraction = lower + ((upper - lower) * (mantissa % (1 << line_bits)) >> line_bits)
    return (_TICKET_BITS - bit_length + 1 << _LOG_BITS) - fraction


@cache
def _log2_table() -> tuple[int, ...]:
    """Return log2(1 + n / 2^10) for n from 0 to 2^10, with 48 fractional bits."""
    return (*(_log2(index) for index in range(1 << _TABLE_BITS)), 1 << _LOG_BITS)


def _log2(index: int) -> int:
    """Return log2(1 + entry / 2^10) by repeated squaring: each step doubles the logarithm and yields its next bit."""
    binary_point = 2 * _MANTISSA_BITS
    squared = (1 << _TABLE_BITS) + index << binary_point - _TABLE_BITS
    logarithm = 0
    for _ in range(_LOG_BITS):
        squared = squared * squared >> binary_point
        bit = squared >> binary_point + 1
        squared >>= bit
        logarithm = logarithm << 1 | bit
    return logarithm
