"""The winners, their prices, and the reasons of the losers: single cases by hand, then properties of every auction."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from auction_bids import MAX, PRICES, SEED, bid, bids, rounds, tasks, terms
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.reputation import TrackRecord
from gpu_tasks.market.training.selection import BIDS_MAX, BidFate, Placed, Score, Selection, refusal, score, select, tie
from gpu_tasks.market.training.terms import Bid, TaskTerms, covered, default_loss, default_time_value
from runtime.encoding.codec import codec

WON, STANDBY, OUTBID = BidFate.WON, BidFate.STANDBY, BidFate.OUTBID


def fates(selection: Selection) -> dict[int, BidFate]:
    """Return the fates by the number of the provider."""
    return {placed.bid.device[0]: placed.fate for placed in selection.places}


def pays(selection: Selection) -> dict[int, int]:
    return {placed.bid.device[0]: placed.pay for placed in selection.places if placed.fate in (WON, STANDBY)}


@pytest.mark.parametrize(
    ("price", "blocks", "collateral", "record", "loss", "expected"),
    [
        (100, 1, MAX, TrackRecord(), 0, Score(100, 10, 0)),
        (100, 7, MAX, TrackRecord(), 0, Score(100, 70, 0)),
        (100, 1, MAX, TrackRecord(), 500, Score(100, 10, 0)),
        (100, 1, MAX, TrackRecord(), 1_500, Score(100, 10, 200)),
        (100, 1, MAX, TrackRecord(), 1_501, Score(100, 10, 201)),
        (100, 1, MAX + 1, TrackRecord(), 1_500, Score(100, 10, 200)),
        (100, 1, 2 * MAX, TrackRecord(), 1_500, Score(100, 10, 100)),
        (100, 1, 9 * MAX, TrackRecord(), 1_500, Score(100, 10, 100)),
        (100, 1, MAX, TrackRecord(settled=7_500), 1_500, Score(100, 10, 100)),
        (100, 1, MAX, TrackRecord(failed=1_500), 1_500, Score(100, 10, 334)),
    ],
)
def test_a_score_is_price_time_and_risk(
    price: int, blocks: int, collateral: int, record: TrackRecord, loss: int, expected: Score
) -> None:
    """Half of the collateral covers a loss, up to the greatest price. The rest counts by the record."""
    offered = bid(1, price, blocks=blocks, collateral=collateral, record=record)
    assert score(terms(loss=loss), offered) == expected
    assert expected.total == expected.price + expected.time + expected.risk


def test_the_lowest_score_wins_and_is_paid_what_ties_with_the_next() -> None:
    selection = select(terms(), [bid(1, 300), bid(2, 200, blocks=5), bid(3, 250), bid(4, 900)], SEED)
    assert fates(selection) == {2: WON, 3: STANDBY, 1: OUTBID, 4: OUTBID}
    assert selection.clearing == 260
    assert pays(selection) == {2: 260 - 50, 3: 310 - 10}
    assert [placed.behind for placed in selection.places] == [0, 10, 60, 660]
    assert selection.standby is not None
    assert selection.standby.bid.price == 250


def test_the_last_of_two_stands_by_for_the_greatest_price() -> None:
    assert pays(select(terms(), [bid(1, 5), bid(2, 900)], SEED)) == {1: 900, 2: MAX}


def test_no_bid_no_award() -> None:
    assert select(terms(), [], SEED) == Selection((), None)


@pytest.mark.parametrize(
    ("changes", "fate"),
    [
        ({"price": 0}, BidFate.PRICE),
        ({"price": 1}, None),
        ({"price": MAX}, None),
        ({"price": MAX + 1}, BidFate.PRICE),
        ({"blocks": 0}, BidFate.TIME),
        ({"blocks": 20}, None),
        ({"blocks": 21}, BidFate.TIME),
        ({"collateral": MAX - 1}, BidFate.COLLATERAL),
        ({"collateral": MAX}, None),
        ({"price": MAX + 1, "blocks": 0, "collateral": 0}, BidFate.PRICE),
    ],
)
def test_who_may_win(changes: dict[str, Any], fate: BidFate | None) -> None:
    selection = select(terms(), [replace(bid(1, 500), **changes)], SEED)
    assert fates(selection) == {1: fate or WON}
    assert len(selection.winners) == (fate is None)


def test_the_beacon_decides_among_equal_scores() -> None:
    bids = [bid(number, 100) for number in range(1, 9)]
    winners = set()
    for number in range(64):
        seed = bytes([number]) * 32
        winner = select(terms(), bids, seed).winners[0].bid
        assert tie(seed, winner.provider) == min(tie(seed, each.provider) for each in bids)
        winners.add(winner.provider)
    assert len(winners) == 8


def test_a_gang_pays_every_slot_by_the_score_after_its_last() -> None:
    bids = [bid(1, 100), bid(2, 300, blocks=3), bid(3, 200), bid(4, 400), bid(5, 500)]
    selection = select(terms(slots=3), bids, SEED)
    assert fates(selection) == {1: WON, 3: WON, 2: WON, 4: STANDBY, 5: OUTBID}
    assert selection.clearing == 410
    assert pays(selection) == {1: 400, 3: 400, 2: 380, 4: 500}
    assert [placed.behind for placed in selection.places] == [0, 0, 0, 80, 180]


def test_a_gang_is_filled_or_nobody_wins() -> None:
    bids = [bid(1, 100), bid(2, 300), bid(3, MAX + 1)]
    selection = select(terms(slots=3), bids, SEED)
    assert fates(selection) == {1: BidFate.TOO_FEW, 2: BidFate.TOO_FEW, 3: BidFate.PRICE}
    assert (selection.winners, selection.clearing) == ((), None)
    assert len(select(terms(slots=2), bids, SEED).winners) == 2


def test_nobody_stands_by_for_itself() -> None:
    bids = [bid(1, 100), bid(2, 110, provider=bid(1, 0).provider), bid(3, 300), bid(4, 400)]
    selection = select(terms(), bids, SEED)
    assert fates(selection) == {1: WON, 2: OUTBID, 3: STANDBY, 4: OUTBID}
    assert pays(selection) == {1: 110, 3: 400}


def test_among_equal_devices_of_a_provider_the_lowest_comes_first() -> None:
    owner = bid(1, 0).provider
    bids = [bid(number, 100, provider=owner) for number in (3, 1, 2)]
    assert [placed.bid.device[0] for placed in select(terms(slots=2), bids, SEED).places] == [1, 2, 3]


def test_more_bids_than_a_task_takes_are_a_fault() -> None:
    many = [bid(number, 100) for number in range(BIDS_MAX)]
    assert len(select(terms(), many, SEED).places) == BIDS_MAX
    with pytest.raises(AssertionError):
        select(terms(), [*many, bid(BIDS_MAX, 100)], SEED)
    with pytest.raises(AssertionError):
        select(terms(), [bid(1, 100), bid(1, 200)], SEED)


@pytest.mark.parametrize(("collateral", "cover"), [(0, 0), (1, 0), (999, 499), (2_000, 1_000), (9_000, 1_000)])
def test_half_of_a_collateral_covers_at_most_the_greatest_price(collateral: int, cover: int) -> None:
    assert covered(MAX, collateral) == cover


def test_what_a_customer_who_names_nothing_asks_for() -> None:
    assert default_time_value(25 * 10**8, 1_000) == 625_000
    assert default_loss(25 * 10**8) == 625_000_000


def test_terms_and_bids_come_back_from_the_state_as_they_were() -> None:
    offered = bid(1, 5, record=TrackRecord(1, 2, 3), device_class=DeviceClass.DATACENTER)
    assert codec(Bid).decode(codec(Bid).encode(offered)) == offered
    asked = terms(slots=4)
    assert codec(TaskTerms).decode(codec(TaskTerms).encode(asked)) == asked


# -------------------------------------------------------------------------------------------------------- every auction


SEEDS = st.binary(min_size=32, max_size=32)


def place_of(selection: Selection, offered: Bid) -> Placed:
    return next(placed for placed in selection.places if placed.bid.device == offered.device)


def gain(terms: TaskTerms, offered: list[Bid], place: int, cost: int) -> int:
    """Return the bidder's gain from an auction, if the task costs it `cost`."""
    placed = place_of(select(terms, offered, SEED), offered[place])
    return placed.pay - cost if placed.fate is WON else 0


def at_price(offered: list[Bid], place: int, price: int) -> list[Bid]:
    return [*offered[:place], replace(offered[place], price=price), *offered[place + 1 :]]


@given(tasks(), rounds(owners=4), SEEDS, st.randoms(use_true_random=False))
def test_the_order_of_bids_changes_nothing(terms: TaskTerms, offered: list[Bid], seed: bytes, chance: object) -> None:
    shuffled = list(offered)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert select(terms, shuffled, seed) == select(terms, offered, seed)


@given(tasks(), rounds(), PRICES)
def test_who_bids_less_never_loses_by_it_and_is_paid_no_more(terms: TaskTerms, offered: list[Bid], price: int) -> None:
    winners = select(terms, offered, SEED).winners
    assume(winners)
    for before in winners:
        cheaper = at_price(offered, offered.index(before.bid), min(price, before.bid.price))
        after = place_of(select(terms, cheaper, SEED), before.bid)
        assert after.fate is WON
        assert after.pay <= before.pay


@given(tasks(), rounds(), st.integers(0, 8), st.integers(0, 15) | st.integers(0, MAX + 5))
def test_no_bid_is_better_than_the_true_cost(terms: TaskTerms, offered: list[Bid], place: int, price: int) -> None:
    """For a bidder with one slot. The price of an offered bid is its bidder's cost."""
    place %= len(offered)
    cost = offered[place].price
    assert gain(terms, at_price(offered, place, price), place, cost) <= gain(terms, offered, place, cost)


@given(tasks(), rounds())
def test_a_winner_is_paid_the_most_that_it_could_have_asked(terms: TaskTerms, offered: list[Bid]) -> None:
    winners = select(terms, offered, SEED).winners
    assume(winners)
    for won in winners:
        place = offered.index(won.bid)
        more = select(terms, at_price(offered, place, won.pay + 1), SEED)
        assert place_of(more, won.bid).fate is not WON
        if won.pay > 1:
            less = select(terms, at_price(offered, place, won.pay - 1), SEED)
            assert place_of(less, won.bid).fate is WON


@given(tasks(), rounds(), st.integers(0, 8), bids(100))
def test_a_losing_bid_under_a_second_name_never_helps(
    terms: TaskTerms, offered: list[Bid], place: int, second: Bid
) -> None:
    place %= len(offered)
    assume(place_of(select(terms, [*offered, second], SEED), second).fate is not WON)
    alone = gain(terms, offered, place, offered[place].price)
    assert gain(terms, [*offered, second], place, offered[place].price) <= alone


@given(tasks(), rounds(owners=4), SEEDS)
def test_winners_are_paid_between_their_bid_and_the_greatest_price(
    terms: TaskTerms, offered: list[Bid], seed: bytes
) -> None:
    selection = select(terms, offered, seed)
    assert len(selection.winners) in (0, terms.slots)
    for placed in (*selection.winners, *filter(None, [selection.standby])):
        assert placed.bid.price <= placed.pay <= terms.price_max
        assert refusal(terms, placed.bid) is None


@given(tasks(), rounds(owners=4), SEEDS)
def test_every_slot_of_a_gang_costs_the_same(terms: TaskTerms, offered: list[Bid], seed: bytes) -> None:
    """By price, time and risk together, capped by the greatest price. So equal bids earn the same."""
    selection = select(terms, offered, seed)
    for placed in selection.winners:
        burden = placed.score.time + placed.score.risk
        if selection.clearing is None:
            assert placed.pay == terms.price_max
        else:
            assert placed.pay == min(terms.price_max, selection.clearing - burden)


@given(tasks(), rounds(owners=4), SEEDS)
def test_a_gang_is_of_whom_it_may_be(terms: TaskTerms, offered: list[Bid], seed: bytes) -> None:
    """It is filled whenever possible, with the lowest scores."""
    selection = select(terms, offered, seed)
    scores = sorted(score(terms, each).total for each in offered if refusal(terms, each) is None)
    won = [placed.score.total for placed in selection.winners]
    assert won == (scores[: terms.slots] if len(scores) >= terms.slots else [])


@given(tasks(), rounds(owners=4), SEEDS)
def test_every_bid_is_told_its_fate_once(terms: TaskTerms, offered: list[Bid], seed: bytes) -> None:
    selection = select(terms, offered, seed)
    assert sorted(placed.bid.device for placed in selection.places) == [each.device for each in offered]
    standbys = [placed for placed in selection.places if placed.fate is BidFate.STANDBY]
    assert len(standbys) <= bool(selection.winners)
    owners = {placed.bid.provider for placed in selection.winners}
    assert all(placed.bid.provider not in owners for placed in standbys)
    for placed in selection.places:
        assert placed.score == score(terms, placed.bid)
        assert (placed.pay > 0) == (placed.fate in (WON, BidFate.STANDBY))
        assert (refusal(terms, placed.bid) is not None) == (placed.fate >= BidFate.PRICE)


@given(tasks(), rounds())
def test_who_lost_is_told_by_how_much(terms: TaskTerms, offered: list[Bid]) -> None:
    places = select(terms, offered, SEED).places
    lost = [placed for placed in places if placed.fate in (BidFate.OUTBID, BidFate.STANDBY)]
    assume(lost)
    for placed in lost:
        place, enough = offered.index(placed.bid), placed.bid.price - placed.behind - 1
        if enough > 0:
            assert place_of(select(terms, at_price(offered, place, enough), SEED), placed.bid).fate is WON
        if placed.behind > 1:
            short = at_price(offered, place, placed.bid.price - placed.behind + 1)
            assert place_of(select(terms, short, SEED), placed.bid).fate is not WON
