"""Explanations of bids: a table of every fate, and a check that the suggested price would have tied."""

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


def test_a_single_slot() -> None:
    found = whys(terms(loss=2_000), bid(1, 100), bid(2, 200, blocks=3), bid(3, 300), bid(4, 150, blocks=20))
    assert found == {
        1: "won: paid 0.0000022 oGPU, the best loser's score of 0.0000053 oGPU less 0.0000001 oGPU for its time "
        "and 0.000003 oGPU for its risk",
        2: "stands by: 0.0000012 oGPU behind the last winner (price +0.000001, time +0.0000002)",
        3: "0.000002 oGPU behind the last winner (price +0.000002); a price lower by 0.000002 oGPU would have tied",
        4: "0.0000024 oGPU behind the last winner (price +0.0000005, time +0.0000019); "
        "no price would have: less time or more collateral was wanted",
    }


def test_who_has_no_rival_and_who_has_a_dear_one() -> None:
    assert whys(terms(), bid(1, 100)) == {1: "won, with no loser to set the price: paid the greatest, 0.00001 oGPU"}
    dear = whys(terms(), bid(1, 100), bid(2, MAX, blocks=20))
    assert dear[1] == "won: paid 0.00001 oGPU, the greatest price, for the best loser has a score beyond it"


def test_a_tie_is_said_to_be_one() -> None:
    found = explained(terms(), bid(1, 100), bid(2, 100), bid(3, 100))
    rest = "0.0000001 oGPU for its time and 0 oGPU for its risk"
    assert sorted(row.why for row in found.values()) == [
        "stands by: tied with the last winner, and the beacon decided",
        "tied with the last winner, and the beacon decided; any lower price would have won",
        f"won: paid 0.000001 oGPU, the best loser's score of 0.0000011 oGPU less {rest}",
    ]


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (bid(9, MAX + 1), "its price of 0.00001001 oGPU is not between a grain and 0.00001 oGPU"),
        (bid(9, 0), "its price of 0 oGPU is not between a grain and 0.00001 oGPU"),
        (bid(9, 5, blocks=21), "its promise of 21 blocks is not between 1 and 20"),
        (bid(9, 5, collateral=MAX - 1), "its collateral of 0.00000999 oGPU is less than 0.00001 oGPU"),
    ],
)
def test_who_could_not_win(refused: Bid, why: str) -> None:
    assert whys(terms(), bid(1, 100), refused)[9] == why


def test_gangs() -> None:
    gang = terms(slots=2, is_homogeneous=True)
    assert whys(terms(slots=2), bid(1, 100)) == {1: "1 bid for 2 slots: all or none"}
    apart = whys(gang, bid(1, 100), bid(2, 100, device_class=GPU))
    assert set(apart.values()) == {"1 bid of its class for 2 slots: all or none"}
    both = [bid(1, 100), bid(2, 300), bid(3, 50, device_class=GPU), bid(4, 500, device_class=GPU)]
    found = whys(gang, *both)
    assert found[4] == (
        "another class fills its 2 slots at a lower score: "
        "0.000002 oGPU behind the last winner (price +0.000002)"
    )  # fmt: skip
    assert found[3] == (
        "another class fills its 2 slots at a lower score: "
        "0.0000025 oGPU before the last winner (price -0.0000025)"
    )  # fmt: skip


def test_a_dearer_bid_of_another_class_that_takes_less_time_is_before_the_last_winner() -> None:
    gang = terms(slots=2, is_homogeneous=True)
    gpus = [bid(3, 310, device_class=GPU), bid(4, 500, device_class=GPU)]
    found = whys(gang, bid(1, 100), bid(2, 300, blocks=3), *gpus)
    assert found[3] == (
        "another class fills its 2 slots at a lower score: "
        "0.0000001 oGPU before the last winner (price +0.0000001, time -0.0000002)"
    )  # fmt: skip


def test_bids_that_were_not_opened_come_last() -> None:
    sealed = [SealedBid(name(8), name(108), GPU, 25), SealedBid(name(7), name(107), GPU, 50)]
    rows = explain(terms(), select(terms(), [bid(1, 100)], SEED), sealed)
    assert [(row.place, row.provider[0]) for row in rows] == [(1, 1), (2, 7), (3, 8)]
    assert rows[1].why == "was not opened: its bond of 0.0000005 oGPU burns"
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


@given(tasks(has_classes=False), rounds(), st.data())
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
    if "no price would have" in row.why:
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
