"""Explanations of bids: a table of every fate, and a check that the suggested price would have tied."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auction_bids import MAX, SEED, bid, rounds, tasks, terms
from cli.output import Account, as_text
from gpu_tasks.client.tasks.records import EXPLAINED_COLUMNS, bid_rows
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.selection import BidFate, select
from gpu_tasks.market.training.terms import Bid, TaskTerms
from gpu_tasks.tasks.bid_explanation import ExplainedBid, SealedBid, explain
from offered import name
from wallet.amounts import Grains

GPU = DeviceClass.DATACENTER


def explained(task: TaskTerms, *bids: Bid) -> dict[int, ExplainedBid]:
    return {row.provider[0]: row for row in explain(task, select(task, bids, SEED))}


def whys(task: TaskTerms, *bids: Bid) -> dict[int, str]:
    return {number: row.why for number, row in explained(task, *bids).items()}


def amounts(why: str) -> list[str]:
    """Return the amounts, differences and counts of an explanation, in their order."""
    return re.findall(r"[+-]?\d[\d.]*\d|\d", why)


def told(task: TaskTerms, *bids: Bid) -> dict[int, tuple[BidFate | None, list[str]]]:
    """Return the fate of each bid, with the amounts of its explanation."""
    return {number: (row.fate, amounts(row.why)) for number, row in explained(task, *bids).items()}


def test_a_single_slot() -> None:
    bids = bid(1, 100), bid(2, 200, blocks=3), bid(3, 300), bid(4, 150, blocks=20)
    found = told(terms(loss=2_000), *bids)
    assert found == {
        # The pay, the best losing score, and the winner's parts for time and risk.
        1: (BidFate.WON, ["0.0000022", "0.0000053", "0.0000001", "0.000003"]),
        # The difference to the last winner, in total and by parts.
        2: (BidFate.STANDBY, ["0.0000012", "+0.000001", "+0.0000002"]),
        3: (BidFate.OUTBID, ["0.000002", "+0.000002", "0.000002"]),
        4: (BidFate.OUTBID, ["0.0000024", "+0.0000005", "+0.0000019"]),
    }
    texts = whys(terms(loss=2_000), *bids)
    assert "would have tied" in texts[3]
    assert "more collateral" in texts[4]


def test_who_has_no_rival_and_who_has_a_dear_one() -> None:
    assert told(terms(), bid(1, 100)) == {1: (BidFate.WON, ["0.00001"])}
    assert "no losing bid" in whys(terms(), bid(1, 100))[1]
    bids = bid(1, 100), bid(2, MAX, blocks=20)
    assert told(terms(), *bids)[1] == (BidFate.WON, ["0.00001"])
    assert "best losing score" in whys(terms(), *bids)[1]


def test_a_tie_is_said_to_be_one() -> None:
    found = explained(terms(), bid(1, 100), bid(2, 100), bid(3, 100))
    by_fate = {row.fate: row.why for row in found.values()}
    assert "tied with" in by_fate[BidFate.STANDBY]
    assert "tied with" in by_fate[BidFate.OUTBID]
    assert "any lower price" in by_fate[BidFate.OUTBID]
    assert amounts(by_fate[BidFate.WON]) == ["0.000001", "0.0000011", "0.0000001", "0"]


@pytest.mark.parametrize(
    ("refused", "fate", "values"),
    [
        (bid(9, MAX + 1), BidFate.PRICE, ["0.00001001", "1", "0.00001"]),
        (bid(9, 0), BidFate.PRICE, ["0", "1", "0.00001"]),
        (bid(9, 5, blocks=21), BidFate.TIME, ["21", "1", "20"]),
        (bid(9, 5, collateral=MAX - 1), BidFate.COLLATERAL, ["0.00000999", "0.00001"]),
    ],
)
def test_who_could_not_win(refused: Bid, fate: BidFate, values: list[str]) -> None:
    assert told(terms(), bid(1, 100), refused)[9] == (fate, values)


def test_gangs() -> None:
    apart = bid(1, 100), bid(2, 100, device_class=GPU)
    assert list(told(terms(slots=3), *apart).values()) == [(BidFate.TOO_FEW, ["2", "3"])] * 2
    assert told(terms(slots=2), bid(1, 100)) == {1: (BidFate.TOO_FEW, ["1", "2"])}


def test_bids_that_were_not_opened_come_last() -> None:
    sealed = [SealedBid(name(8), name(108), GPU, 25), SealedBid(name(7), name(107), GPU, 50)]
    rows = explain(terms(), select(terms(), [bid(1, 100)], SEED), sealed)
    assert [(row.place, row.provider[0]) for row in rows] == [(1, 1), (2, 7), (3, 8)]
    assert amounts(rows[1].why) == ["0.0000005"]
    assert (rows[1].fate, rows[1].score, rows[1].collateral) == (None, None, None)


@given(tasks(), rounds())
def test_scores_are_split_whole_and_places_are_those_of_the_selection(task: TaskTerms, bids: list[Bid]) -> None:
    selection = select(task, bids, SEED)
    rows = explain(task, selection)
    assert [(row.provider, row.device, row.fate) for row in rows] == [
        (placed.bid.provider, placed.bid.device, placed.fate) for placed in selection.places
    ]
    for row, placed in zip(rows, selection.places, strict=True):
        assert row.score == placed.score
        assert (row.pay > 0) == (row.fate in (BidFate.WON, BidFate.STANDBY))


@given(tasks(), rounds(), st.data())
def test_what_is_said_to_help_would_have(task: TaskTerms, bids: list[Bid], data: st.DataObject) -> None:
    lost = [row for row in explain(task, select(task, bids, SEED)) if row.fate is BidFate.OUTBID]
    if not lost:
        return
    row = data.draw(st.sampled_from(lost))
    placed = next(found for found in select(task, bids, SEED).places if found.bid.device == row.device)

    def with_price(price: int) -> BidFate:
        changed = [replace(each, price=price) if each.device == row.device else each for each in bids]
        return next(found.fate for found in select(task, changed, SEED).places if found.bid.device == row.device)

    price = placed.bid.price
    if "would have tied" in row.why and price > placed.behind + 1:
        assert with_price(price - placed.behind - 1) is BidFate.WON
    if "any lower price" in row.why and price > 1:
        assert with_price(price - 1) is BidFate.WON
    if "more collateral" in row.why:
        assert with_price(1) is not BidFate.WON


def test_rows_have_every_column() -> None:
    sealed = [SealedBid(name(8), name(108), GPU, 25)]
    rows = bid_rows(explain(terms(), select(terms(), [bid(1, 100), bid(2, 200)], SEED), sealed))
    assert all(tuple(sorted(row)) == tuple(sorted(EXPLAINED_COLUMNS)) for row in rows)
    assert [row["fate"] for row in rows] == ["won", "standby", "not opened"]
    assert rows[0]["score"] == Grains(110)
    assert (rows[0]["price"], rows[0]["time"], rows[0]["risk"], rows[0]["pay"]) == (100, 10, 0, 200)
    assert rows[0]["provider"] == Account(name(1))
    assert [as_text(rows[2][column]) for column in ("score", "promised", "pay")] == ["-", "-", "-"]
