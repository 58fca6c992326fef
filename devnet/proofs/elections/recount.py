"""The next set, reckoned anew: from plain values of a state to the seats, by the rules and not by the pallet.

The rules are those of docs/staking.md: who stands for election, the cut of an eighth, jail. Pure.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

SEATS_LEAST = 4
JAIL_EPOCHS = 2


@dataclass(frozen=True, slots=True)
class Footing:
    """What the state says of a candidate, or of somebody who sits."""

    stake: int
    is_candidate: bool
    """Whether it offers itself with a bond that is large enough."""
    heard: int
    """The epoch after the newest one in which it was on line."""
    seated_since: int
    is_jailed: bool
    is_tombstoned: bool
    leaving_since: int = 0
    """The first epoch in which it sat only because it must; 0 if it does not."""
    waiting_since: int = 0
    """The first epoch for which it was elected and had no room, at every election since; 0 if it does not wait."""


def following(
    old: dict[bytes, int], standings: dict[bytes, Footing], seats: int, ended: int
) -> tuple[dict[bytes, int], set[bytes]]:
    """The set after `old` by stash and weight, and who goes to jail, when epoch `ended` has just ended."""
    jailed = absent(old, standings, ended)
    able = [
        stash
        for stash, standing in standings.items()
        if standing.is_candidate
        and standing.heard > ended
        and not (standing.is_tombstoned or standing.is_jailed or stash in jailed)
    ]
    ranked = sorted(able, key=lambda stash: (-standings[stash].stake, stash))
    left = {stash: weight for stash, weight in old.items() if not standings[stash].is_tombstoned}
    waited = {stash: standings[stash].leaving_since for stash in left}
    waited |= {stash: standings[stash].waiting_since for stash in ranked if stash not in left}
    stakes = {stash: standings[stash].stake for stash in ranked}
    result = _cut(left, ranked, stakes, seats, waited) if left else dict(old)
    return result, jailed


def absent(old: dict[bytes, int], standings: dict[bytes, Footing], ended: int) -> set[bytes]:
    """Who of the set goes to jail: silent for two whole epochs, longest first, while less than a third is there."""
    inside = {stash for stash in old if standings[stash].is_jailed}
    found: set[bytes] = set()
    signs = {stash: max(standings[stash].heard, standings[stash].seated_since) for stash in old}
    for stash in sorted(old, key=lambda each: (signs[each], each)):
        silent = ended + 1 - signs[stash]
        locked = sum(old[each] for each in inside | found | {stash})
        if silent >= JAIL_EPOCHS and stash not in inside and 3 * locked < sum(old.values()):
            found.add(stash)
    return found


def _cut(
    left: dict[bytes, int], ranked: Sequence[bytes], stakes: dict[bytes, int], seats: int, waited: dict[bytes, int]
) -> dict[bytes, int]:
    wanted, eighth = ranked[:seats], sum(left.values()) // 8
    absentees = sorted((stash for stash in left if stash not in ranked), key=lambda stash: (-left[stash], stash))
    gone = sorted(absentees, key=lambda stash: waited[stash] or sys.maxsize)
    out = [stash for stash in ranked[seats:] if stash in left][::-1]
    leavers = gone + out
    for count in range(len(leavers), -1, -1):
        going = leavers[:count]
        if count > 1 and sum(left[stash] for stash in going) > eighth:
            continue
        result = {}
        for stash, weight in left.items():
            if stash in going:
                continue
            result[stash] = min(stakes[stash], weight * 9 // 8) if stash in wanted else weight
        coming = sorted(
            (stash for stash in wanted if stash not in left), key=lambda stash: waited[stash] or sys.maxsize
        )
        result |= _comers(coming, stakes, result, eighth, seats)
        if count == 0 or len(result) >= min(SEATS_LEAST, len(left)):
            return result
    raise AssertionError("nobody may always go")


def _comers(
    comers: Sequence[bytes], stakes: dict[bytes, int], staying: dict[bytes, int], eighth: int, seats: int
) -> dict[bytes, int]:
    third = sum(staying.values()) // 3
    entering: list[bytes] = []
    for stash in comers[: max(0, seats - len(staying))]:
        weight = sum(stakes[each] for each in [*entering, stash])
        if entering and weight > min(eighth, third):
            break
        entering.append(stash)
    return {stash: min(stakes[stash], third) for stash in entering if min(stakes[stash], third) > 0}
