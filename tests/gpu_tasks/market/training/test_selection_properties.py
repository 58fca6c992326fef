"""What holds of every auction: `make properties` tries each ten thousand times."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from auction_bids import MAX, PRICES, SEED, bids, rounds, tasks
from gpu_tasks.market.training.selection import BidFate, Placed, Selection, refusal, score, select
from gpu_tasks.market.training.terms import Bid, TaskTerms

SEEDS = st.binary(min_size=32, max_size=32)
WON = BidFate.WON


def place_of(selection: Selection, offered: Bid) -> Placed:
    return next(placed for placed in selection.places if placed.bid.device == offered.device)


def gain(terms: TaskTerms, offered: list[Bid], place: int, cost: int) -> int:
    """What the bidder at a place has of an auction, if the task costs it so much."""
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
    """Of whoever has one slot; the price of an offered bid is what the task costs its bidder."""
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
    """By price, time and risk together, unless that were more than the greatest price; so equal bids earn the same."""
    selection = select(terms, offered, seed)
    for placed in selection.winners:
        burden = placed.score.time + placed.score.risk
        if selection.clearing is None:
            assert placed.pay == terms.price_max
        else:
            assert placed.pay == min(terms.price_max, selection.clearing - burden)


@given(tasks(), rounds(owners=4), SEEDS)
def test_a_gang_is_of_whom_it_may_be(terms: TaskTerms, offered: list[Bid], seed: bytes) -> None:
    """Filled whenever that is possible, from all or from one class, with the lowest scores of these."""
    selection = select(terms, offered, seed)
    able = [each for each in offered if refusal(terms, each) is None]
    by_class = terms.is_homogeneous and terms.slots > 1
    fields = [[each for each in able if each.device_class == kind or not by_class] for kind in range(3)]
    scores = [sorted(score(terms, each).total for each in field) for field in fields]
    reached = [totals[terms.slots - 1] for totals in scores if len(totals) >= terms.slots]
    assert bool(selection.winners) == bool(reached)
    if reached:
        won = [placed.score.total for placed in selection.winners]
        assert max(won) == min(reached)
        kind = selection.winners[0].bid.device_class
        assert won == scores[kind][: terms.slots]
        assert not by_class or {placed.bid.device_class for placed in selection.winners} == {kind}


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


@given(tasks(has_classes=False), rounds())
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
