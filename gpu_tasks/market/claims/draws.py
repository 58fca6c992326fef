"""The draws of a claim: its points, the chance of a second check, and its checkers. Pure rules over beacons and stakes.

    block of the claim   16 g      ...  16 g + 15
    its beacons          16 (g + 1) + 1  ...  16 (g + 1) + 16

Claims of 16 blocks share 16 beacons, so a provider cannot wait for a run of own blocks. The first beacon that draws a
point also names the checker of all points.

Invariants: nobody knows a beacon of a claim when the claim opens. A draw of checkers depends on no order of validators,
and a validator that drops out only makes room.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gpu_tasks.batches.item_draws import BEACONS, PPM, part_length, points_by_beacon
from gpu_tasks.batches.requests import TOKEN
from gpu_tasks.market.claims.claims import SECOND_PPM
from runtime.cryptography.draw import lottery
from runtime.cryptography.hashing import blake2_256

ITEM_WEIGHT = TOKEN
"""The weight of each item, if all items of a claim weigh the same. A point then names its item by a division."""
SECOND_PARTS = PPM // SECOND_PPM
"""A second draw has a line of this length, and its claim covers one part of it."""
_SECOND, _CHECKER = b"ogpu/second-check", b"checker"


@dataclass(frozen=True, slots=True)
class DrawnPoints:
    """The drawn points of a claim in ascending order, and the beacon that names its checker."""

    points: tuple[int, ...]
    beacon: bytes


def beacon_heights(recorded_at: int) -> range:
    """Return the heights of the beacons that draw for a claim of this block."""
    first = (recorded_at // BEACONS + 1) * BEACONS + 1
    return range(first, first + BEACONS)


def most_points(items: int, weight: int, rate_ppm: int) -> int:
    """Return the most points of a draw. Raise ValueError if a claim of this rate expects too many."""
    return -(-weight // part_length(weight, items, rate_ppm)) if rate_ppm else 0


def draw_items(beacons: Sequence[bytes], claim: bytes, *, items: int, weight: int, rate_ppm: int) -> DrawnPoints | None:
    """Return the points that the 16 beacons draw in a claim, or None without a point."""
    if not rate_ppm:
        return None
    return _drawn(beacons, claim, weight, part_length(weight, items, rate_ppm))


def draw_second(beacons: Sequence[bytes], claim: bytes) -> DrawnPoints | None:
    """Return the draw of a second check, or None in three of four cases. Its only point stands for the whole claim."""
    return _drawn(beacons, blake2_256(_SECOND + claim), 1, SECOND_PARTS)


def item_at(point: int) -> int:
    """Return the item that contains a drawn point, if all items weigh the same."""
    return point // ITEM_WEIGHT


def name_checker(
    beacon: bytes, claim: bytes, entrants: Sequence[tuple[bytes, int]], may_check: Callable[[bytes], bool]
) -> bytes | None:
    """Return the first eligible validator of a lottery by stake, or None if nobody is eligible."""
    order: Iterable[int] = lottery(beacon, _CHECKER + claim, entrants, len(entrants))
    return next((entrants[place][0] for place in order if may_check(entrants[place][0])), None)


def _drawn(beacons: Sequence[bytes], claim: bytes, weight: int, length: int) -> DrawnPoints | None:
    assert len(beacons) == BEACONS, "a claim has 16 beacons"
    drawn = points_by_beacon(beacons, claim, weight, length)
    if not drawn:
        return None
    return DrawnPoints(tuple(point for _, point in drawn), beacons[min(place for place, _ in drawn)])
