"""What posting comes to: the price that rises, when it may be over, and lines that ask for nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_tasks.client.units.costs import (
    DRAWN_AFTER,
    SETTLED_AFTER,
    Estimate,
    RisingPrice,
    blocks_of,
    refused_facts,
    rising_price,
)
from gpu_tasks.client.units.lines import LineError
from gpu_tasks.client.units.posting import PostingCost, Wish
from gpu_tasks.market.inference.services import ServiceTerms
from wallet.amounts import Grains, format_amount

OGPU = 100_000_000
TERMS = ServiceTerms(
    b"writer", bytes(32), bytes(32), OGPU // 100, 20 * OGPU, ramp=10, lease=30, tokens_max=256, pace=64
)
WISH = Wish(0, 64, {}, 2, OGPU // 20)
COST = PostingCost(3, locked=46_500_000, prepaid=480_000, fees=94_110, most=16_324_110)
RISING = RisingPrice(3, OGPU * 22 // 1000, OGPU // 20, 10)


def estimate(**changed: object) -> Estimate:
    found = Estimate(7, 100, 192, 192_000_000, COST, RISING, 5_000_000, 2, 13, 1_000, "token")
    return replace(found, **changed)  # type: ignore[arg-type]  # of the table below


@pytest.mark.parametrize(
    ("asks", "rising"),
    [
        ([1, 1], (3, OGPU * 22 // 1000)),
        ([1, OGPU * 22 // 1000], (3, OGPU * 22 // 1000)),
        ([1, OGPU * 22 // 1000 + 1], (4, OGPU * 26 // 1000)),
        ([1, OGPU // 20], (10, OGPU // 20)),
        ([1, OGPU // 20 + 1], None),
        ([1], None),
        ([], None),
        ([OGPU, 1, 1], (3, OGPU * 22 // 1000)),
    ],
)
def test_a_price_is_what_it_has_risen_to_when_enough_owners_take_it(
    asks: list[int], rising: tuple[int, int] | None
) -> None:
    found = rising_price(TERMS, WISH, asks)
    assert found == (None if rising is None else RisingPrice(*rising, OGPU // 20, 10))
    if found is not None:
        assert found.drawn_after >= DRAWN_AFTER


def test_a_price_that_does_not_rise_is_the_most() -> None:
    found = rising_price(replace(TERMS, ramp=0), WISH, [1, 1])
    assert found == RisingPrice(3, OGPU // 20, OGPU // 20, 0)
    assert found.sentence("token") == "drawn after 3 blocks you pay 0.05 oGPU per thousand tokens, the most"
    assert RISING.sentence("step") == (
        "drawn after 3 blocks you pay 0.022 oGPU per thousand steps; that rises to 0.05 after 10 blocks without a draw"
    )


def test_when_it_may_be_over_goes_by_the_devices_and_the_pace() -> None:
    base, thousand = 3 + SETTLED_AFTER, 1_000 * 1_000_000
    assert blocks_of(TERMS.pace, [thousand], 1, 1, RISING) == base + 16
    assert blocks_of(TERMS.pace, [thousand] * 8, 1, 4, RISING) == base + 32
    assert blocks_of(TERMS.pace, [thousand] * 8, 2, 4, RISING) == base + 63, "each of two racers computes all of it"
    assert blocks_of(TERMS.pace, [thousand, 1], 1, 9, RISING) == base + 16, "a unit is one device's"
    assert blocks_of(0, [thousand], 1, 1, RISING) is None
    assert blocks_of(TERMS.pace, [thousand], 1, 1, None) is None


def test_people_read_sentences_and_programs_numbers() -> None:
    people, programs = (estimate().facts(is_for_programs=each) for each in (False, True))
    assert people["price"] == RISING.sentence("token")
    assert people["expected_end"] == "within about 13 blocks (13 s), if the 2 devices that offer it are free"
    unpaced = estimate(blocks=None).facts(is_for_programs=False)
    assert unpaced["expected_end"] == "not known: nobody says how fast this is computed"
    unmatched = estimate(price=None, expected=None, blocks=None).facts(is_for_programs=False)
    assert unmatched["expected_end"] == "not known: too few owners could race for it at this price now"
    assert estimate(price=None, expected=None).facts(is_for_programs=False)["price"].startswith("too few owners")
    shared = set(people) & set(programs)
    assert {name: people[name] for name in shared} == {name: programs[name] for name in shared}
    assert set(people) - shared == {"price", "expected_end"}
    assert (programs["price_at_draw"], programs["drawn_after_blocks"]) == (Grains(2_200_000), 3)
    assert (programs["price_at_last"], programs["price_at_last_after_blocks"]) == (Grains(5_000_000), 10)
    assert (programs["ends_after_blocks"], programs["ends_after_seconds"]) == (13, 13)
    assert programs["expected_per_thousand"] == -(-5_000_000 * 1000 // 192)
    assert format_amount(programs["most_per_thousand"]) == "0.85021407", "all that is gone, rounded up"
    assert estimate(work=0).facts(is_for_programs=True)["most_per_thousand"] is None


def test_the_first_refused_lines_are_named_and_the_others_counted() -> None:
    lines = [LineError(number, None, "unsupported_parameter", f"no {number}", None) for number in range(1, 6)]
    assert refused_facts([], is_for_programs=False) == {"refused": "0"}
    assert refused_facts(lines[:1], is_for_programs=False) == {"refused": "1: line 1: no 1"}
    assert refused_facts(lines, is_for_programs=False)["refused"] == (
        "5: line 1: no 1; line 2: no 2; line 3: no 3; and 2 more"
    )
    programs = refused_facts(lines, is_for_programs=True)
    assert (programs["refused"], [each["line"] for each in programs["refused_first"]]) == (5, [1, 2, 3])
    assert programs["refused_first"][0] == {"line": 1, "code": "unsupported_parameter", "message": "no 1"}
