"""Who sat when: the terms of each member, from the sets of all epochs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tenure:
    """How often somebody entered office (at the genesis counts), and how often it left."""

    entered: int
    left: int


def terms_of(member: bytes, sets: Mapping[int, Collection[bytes]]) -> Tenure:
    """Those of a member in the sets of epochs 0 and so on."""
    entered = left = 0
    sat = False
    for epoch in sorted(sets):
        sits = member in sets[epoch]
        entered += sits and not sat
        left += sat and not sits
        sat = sits
    return Tenure(entered, left)
