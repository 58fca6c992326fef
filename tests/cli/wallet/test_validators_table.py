"""Tables of validators: their rows, and the form of an expected return."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cli.chain_time import ChainTime
from cli.wallet import validators_table as table
from cli.wallet.validators_table import EraWork
from runtime.interface.staking_api import ValidatorSummary
from runtime.pallets.staking.elections import Chance
from runtime.pallets.staking.eras import BLOCK_POINTS
from runtime.pallets.staking.returns import ExpectedReturn
from runtime.pallets.staking.stakers import CommissionChange, Why

WHO = b"w" * 32
TIME = ChainTime(601, 1_700_000_040_000, 60_000, 60, 60, 1)  # era 10
SUMMARY = ValidatorSummary(
    stash=WHO, session_key=b"s" * 32, provider_key=b"p" * 32, commission_ppm=50_000, commission_change=None,
    name=b"Bob", web=b"", own=10, total=110, delegators=3, in_office=True, elected=True, tombstoned=False,
    slashes_held=0, points=7 * BLOCK_POINTS,
)  # fmt: skip
CHANGE = CommissionChange(60_000, 11)
WORK = EraWork({WHO: 60 * BLOCK_POINTS}, {WHO: 0})


def row(summary: ValidatorSummary = SUMMARY, work: EraWork = WORK, paid: int = 11, **more: bool) -> dict[str, Any]:
    expected = {WHO: ExpectedReturn(WHO, 110, paid)}
    return table._validator_row(summary, work, expected, **{"has_ended": True, **more})


def test_a_row_counts_blocks_and_says_what_is_earned() -> None:
    found = row()
    assert (found["blocks"], found["blocks_last_era"]) == (7, 60)
    assert (found["return_a_year"], found["return_a_year_ppm"]) == ("10.00 %", 100_000)
    assert (found["name"], found["web"], found["commission_then"]) == ("Bob", None, None)


@pytest.mark.parametrize(
    ("web", "is_shown"),
    [
        (b"https://bob.example/a?b=c", True), (b"HTTP://bob.example", True), (b"http://[::1]:8000", True), (b"", False),
        (b"javascript:alert(1)", False), (b"data:text/html,x", False), (b"bob.example", False), (b"https:", False),
        (b" javascript://bob.example", False), (b"https://[", False), (b"//bob.example", False), (b"\xff", False),
        (b"https://bob.example/ x", False), (b"file:///etc/passwd", False), (b"java\nscript:alert(1)", False),
    ],
)  # fmt: skip
def test_only_addresses_of_the_web_are_shown_as_such(web: bytes, is_shown: bool) -> None:
    """A page with a link to a `javascript:` address would run the validator's script."""
    told = replace(SUMMARY, web=web)
    for shown in (row(told), table._offer_row(told, None, Chance(WHO, 109, 7, Why.ELECTED))):
        assert shown["web"] == (web.decode() if is_shown else None)


@pytest.mark.parametrize(("paid", "text"), [(0, "0.00 %"), (1, "0.90 %"), (109, "99.09 %"), (110_000, "100,000.00 %")])
def test_a_return_is_rounded_down(paid: int, text: str) -> None:
    assert row(paid=paid)["return_a_year"] == text


def test_nothing_is_expected_before_an_era_ended_and_zero_of_who_is_not_elected() -> None:
    assert row(has_ended=False)["return_a_year"] is None
    assert table._validator_row(SUMMARY, WORK, {}, has_ended=True)["return_a_year"] == "0.00 %"
    nothing = {WHO: ExpectedReturn(WHO, 0, 5)}
    assert table._validator_row(SUMMARY, WORK, nothing, has_ended=True)["return_a_year_ppm"] == 0


def test_nothing_is_expected_of_an_offender_that_is_still_elected_for_the_era() -> None:
    offender = row(replace(SUMMARY, tombstoned=True, slashes_held=1))
    assert (offender["elected"], offender["return_a_year"], offender["return_a_year_ppm"]) == (True, "0.00 %", 0)
    assert row(replace(SUMMARY, tombstoned=True), has_ended=False)["return_a_year"] is None


def test_an_announced_commission_is_shown_until_it_holds() -> None:
    ahead = row(replace(SUMMARY, commission_change=CHANGE))
    assert (ahead["commission_then"], ahead["commission_from_era"]) == ("6 %", 11)
    shown = table._for_people(ahead, TIME)
    assert shown["commission"] == "5 %; 6 % from era 11 (epoch 11, about 2023-11-14 22:15 UTC)"
    holds = row(replace(SUMMARY, commission_change=replace(CHANGE, era=10)))
    assert table._for_people(holds, TIME)["commission"] == "5 %"


@pytest.mark.parametrize(
    ("held", "taken", "tombstoned", "text"),
    [(0, 0, False, "none"), (1, 0, True, "1 waiting, may not return"), (0, 2, False, "2 taken")],
)
def test_slashes_in_words(held: int, taken: int, tombstoned: bool, text: str) -> None:
    summary = replace(SUMMARY, slashes_held=held, tombstoned=tombstoned)
    shown = table._for_people(row(summary, EraWork({}, {WHO: taken})), TIME)
    assert (shown["slashes"], shown["blocks"]) == (text, "7, 0 in the last era")


@pytest.mark.parametrize(
    ("is_elected", "last_seat", "why", "lacks"),
    [
        (True, 500, Why.WAITS, None),
        (False, 500, Why.WAITS, 391),
        (False, 500, Why.OUT_RANKED, 391),
        (False, 100, Why.OUT_RANKED, 0),
        (False, None, Why.ELECTED, 0),
        *((False, 500, why, None) for why in (Why.OFF_LINE, Why.JAILED, Why.TOMBSTONED, Why.TOO_SMALL)),
    ],
)
def test_what_a_candidate_lacks_to_be_elected_where_stake_is_what_it_lacks(
    is_elected: bool, last_seat: int | None, why: Why, lacks: int | None
) -> None:
    row = table._offer_row(replace(SUMMARY, elected=is_elected), last_seat, Chance(WHO, 109, 7, why))
    assert row["to_be_elected"] == lacks
    stays = "" if why is Why.ELECTED else ", must stay for now"
    assert (row["outlook"], row["weight"]) == (table.OUTLOOKS[why] + stays, 7)
    gone = table._offer_row(SUMMARY, last_seat, Chance(WHO, 109, 0, why))
    assert gone["outlook"] == table.OUTLOOKS[why]
