"""The draw of a claim's items to check: beacons name points on a line that the items share by weight.

    length = total weight / (items * rate)

Weights are those of `leaf_draws`, as is the total weight. The items lie one after another on a line from 0 to the total
weight, which the totals give. The line is divided into parts of `length`, and each part has one point. The last part
may reach beyond the line, and a point there names no item. So an item expects rate * weight / mean weight points: a
single request of rate 1/20 is drawn once in 20 claims, and a batch of 4,096 items of rate 1/512 has eight points.

Each of 16 beacons is equally likely to draw the point of a part. An author that withholds its block redraws only the
parts that its beacon would have drawn (docs/adr/0027-claims-and-checks.md).

Invariants: weights and points are integers, in millionths of an output token, so shares need no rounding. An item
expects points by its own weight, for any other items. Each point names one item.
"""

from collections.abc import Sequence

from runtime.cryptography.hashing import blake2_256

PPM = 1_000_000
POINTS_MAX = 16
"""The most points that a claim may expect of all its beacons together."""
BEACONS = 16
"""The beacons that draw the points of a claim."""
_TURN, _POINT = b"ogpu/item-draw/turn", b"ogpu/item-draw/point"
_CHANCE_BITS = 256


def part_length(weight: int, items: int, rate_ppm: int) -> int:
    """Return the length of a part of the line, rounded down, so that rounding only adds to an item's chance.

    `rate_ppm` is the chance of an item of mean weight, in millionths. Raise ValueError for a rate of 0, or one that
    expects more than `POINTS_MAX` points.
    """
    if not 0 < items * rate_ppm <= POINTS_MAX * PPM:
        raise ValueError(f"a rate of {rate_ppm} ppm for {items} items expects no points, or more than {POINTS_MAX}")
    return max(1, weight * PPM // (items * rate_ppm))


def points_by_beacon(seeds: Sequence[bytes], claim: bytes, weight: int, length: int) -> list[tuple[int, int]]:
    """Return the points that these beacons draw, in order, each after the place of its beacon.

    `seeds` are the values of the claim's first beacons, 1 to `BEACONS`. They and `claim` have 32 bytes. The bias of a
    point is below length / 2^256.
    """
    points = []
    for part in range(-(-weight // length)):
        place = _drawing_beacon(seeds, claim, part)
        if place is None:
            continue
        # A product and a shift instead of a remainder, so that the bias stays that small.
        point = part * length + (_uniform_number(_POINT, seeds[place], claim, part) * length >> _CHANCE_BITS)
        if point < weight:
            points.append((place, point))
    return points


def _drawing_beacon(seeds: Sequence[bytes], claim: bytes, part: int) -> int | None:
    """Return the place of the beacon that draws a part's point, or None if a later one does."""
    for place, seed in enumerate(seeds):
        # The chances 1/16, 1/15, ... 1 of what is left: each beacon has 1/16 of all.
        if _uniform_number(_TURN, seed, claim, part) * (BEACONS - place) < 1 << _CHANCE_BITS:
            return place
    return None


def _uniform_number(domain: bytes, seed: bytes, claim: bytes, part: int) -> int:
    """Return a uniform integer below 2^256."""
    return int.from_bytes(blake2_256(domain + seed + claim + part.to_bytes(4, "little")), "big")
