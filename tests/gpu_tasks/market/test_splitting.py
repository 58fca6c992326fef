"""The gain of an owner that splits its bond over several accounts: measured, and equal to the documents."""

from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

from gpu_tasks.market.draws import DrawOrder, FreeSlot, Given, Wanted

WANTED = Wanted(rate=100, collateral=1, sealed_at=50, recorded_at=60, excluded=())
PAGE = Path(__file__).parents[3] / "docs" / "market.md"
RACERS = (1, 2, 3)
OWNERS = (3, 5, 10)
PARTS = 8
BOND = 800
DRAWS = 4_000
TOLERANCE = 0.03
"""Three times the error of a mean of these draws, at most."""


def places_expected(owners: int, parts: int, racers: int) -> Fraction:
    """Return the mean number of a race's places for one of `owners` equal owners with `parts` accounts.

    Place by place, each is drawn by weight among the remaining accounts. The owner's accounts each weigh 1 / parts of
    another's.
    """

    @cache
    def from_here(mine: int, others: int, left: int) -> Fraction:
        weight = Fraction(mine, parts) + others
        if not left or not weight:
            return Fraction(0)
        expected = Fraction(0)
        if mine:
            expected += Fraction(mine, parts) / weight * (1 + from_here(mine - 1, others, left - 1))
        if others:
            expected += others / weight * from_here(mine, others - 1, left - 1)
        return expected

    return from_here(parts, owners - 1, racers)


def all_places_expected(owners: int, parts: int, racers: int) -> Fraction:
    """Return the probability that all racers of a unit belong to the owner."""
    chance = Fraction(1)
    for drawn in range(racers):
        mine = Fraction(parts - drawn, parts)
        chance *= mine / (mine + owners - 1) if parts > drawn else 0
    return chance


def slots_of(owners: int, parts: int) -> list[FreeSlot]:
    """Return the owner's slots first, in `parts` accounts, then one of each other owner."""
    bonds = [BOND // parts] * parts + [BOND] * (owners - 1)
    return [
        FreeSlot(bytes([place]) * 32, bytes([place]) * 32, bond, bond, ask=10, key_since=1, changed_at=1)
        for place, bond in enumerate(bonds)
    ]


@pytest.mark.parametrize("owners", OWNERS)
@pytest.mark.parametrize("parts", [1, PARTS])
def test_places_of_an_owner_who_splits_its_bond(owners: int, parts: int) -> None:
    slots = slots_of(owners, parts)
    mine = {slot.owner for slot in slots[:parts]}
    places, races_of_mine_alone = dict.fromkeys(RACERS, 0), dict.fromkeys(RACERS, 0)
    for number in range(DRAWS):
        order = DrawOrder(slots, seed=number.to_bytes(4, "big"), label=b"s", recorded_at=1, given_units=Given())
        for racers in RACERS:
            drawn = sum(slot.owner in mine for slot in order.draw(WANTED, racers))
            places[racers] += drawn
            races_of_mine_alone[racers] += drawn == racers
    for racers in RACERS:
        assert abs(places[racers] / DRAWS - places_expected(owners, parts, racers)) < TOLERANCE
        assert abs(races_of_mine_alone[racers] / DRAWS - all_places_expected(owners, parts, racers)) < TOLERANCE


def test_a_race_of_one_gives_nothing_to_who_splits_and_others_do() -> None:
    for owners in OWNERS:
        assert places_expected(owners, PARTS, 1) == places_expected(owners, 1, 1) == Fraction(1, owners)
        assert places_expected(owners, PARTS, 3) > places_expected(owners, PARTS, 2) > places_expected(owners, 1, 2)


def row(owners: int) -> str:
    """Return a row of the table in docs/market.md."""
    cells = []
    for racers in RACERS:
        whole, split = (float(places_expected(owners, parts, racers)) for parts in (1, PARTS))
        gain = f" (+{100 * (split / whole - 1):.0f} %)" if racers > 1 else ""
        alone = float(all_places_expected(owners, PARTS, racers))
        cells.append(f"{whole:.3f} / {split:.3f}{gain}" + (f", {100 * alone:.1f} %" if racers > 1 else ""))
    return f"| {owners} | {' | '.join(cells)} |"


@pytest.mark.parametrize("owners", OWNERS)
def test_the_table_of_the_documents_is_right(owners: int) -> None:
    assert row(owners) in PAGE.read_text(), row(owners)
