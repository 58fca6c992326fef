"""The reason why each bid of an auction won or lost: its score by price, time and risk, and a sentence.

Invariant: all of it follows from the selection, which anyone can recompute from the chain's records. "A price lower by
N" is the price at which the bid would have tied with the last winner, with all else equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.selection import BidFate, Placed, Score, Selection
from gpu_tasks.market.training.terms import TaskTerms
from wallet.amounts import SYMBOL, counted, format_amount


@dataclass(frozen=True, slots=True)
class SealedBid:
    """A bid that was committed to and never opened."""

    provider: bytes
    device: bytes
    kind: DeviceClass
    bond: int


@dataclass(frozen=True, slots=True)
class ExplainedBid:
    """A bid with the reason for its fate. Amounts are grains; None is unknown, because the bid was never opened."""

    place: int
    """From 1: winners first, then by score, then the bids that could not win, then the unopened ones."""
    provider: bytes
    device: bytes
    kind: DeviceClass
    score: Score | None
    promised: int | None
    collateral: int | None
    fate: BidFate | None
    pay: int
    """The pay of a winner, or of a standby if it takes over the whole task."""
    why: str


def explain(terms: TaskTerms, selection: Selection, sealed: Sequence[SealedBid] = ()) -> list[ExplainedBid]:
    """Return every bid, in the order of places."""
    last_winning_score = selection.winners[-1].score if selection.winners else None
    too_few = sum(placed.fate is BidFate.TOO_FEW for placed in selection.places)
    explained = []
    for bid_place, placed in enumerate(selection.places, 1):
        bid = placed.bid
        explanation = _fate_text(terms, selection, placed, last_winning_score, too_few)
        opened_terms = (placed.score, bid.blocks, bid.collateral, placed.fate, placed.pay)
        explained.append(
            ExplainedBid(bid_place, bid.provider, bid.device, bid.device_class, *opened_terms, explanation)
        )
    # Sealed bids have no score, so their ids give a reproducible order.
    for bid_place, sealed_bid in enumerate(
        sorted(sealed, key=lambda bid: (bid.provider, bid.device)), len(explained) + 1
    ):
        explanation = f"not opened: its bond of {_amount_text(sealed_bid.bond)} burns"
        explained.append(
            ExplainedBid(
                bid_place,
                sealed_bid.provider,
                sealed_bid.device,
                sealed_bid.kind,
                None,
                None,
                None,
                None,
                0,
                explanation,
            )
        )
    return explained


def _fate_text(
    terms: TaskTerms,
    selection: Selection,
    placed: Placed,
    last_winning_score: Score | None,
    too_few: int,
) -> str:
    bid = placed.bid
    match placed.fate:
        case BidFate.WON:
            return _pay_text(terms, selection.clearing, placed)
        case BidFate.STANDBY:
            return f"standby: {_distance_text(placed, last_winning_score)}"
        case BidFate.OUTBID:
            return f"{_distance_text(placed, last_winning_score)}; {_advice_text(placed)}"
        case BidFate.TOO_FEW:
            return f"{counted(too_few, 'bid')} for {terms.slots} slots, which only fill together"
        case BidFate.PRICE:
            highest_price = _amount_text(terms.price_max)
            return f"its price of {_amount_text(bid.price)} is outside 1 grain to {highest_price}"
        case BidFate.TIME:
            return f"its promise of {bid.blocks} blocks is outside 1 to {terms.blocks_max}"
        case BidFate.COLLATERAL:
            least_collateral = _amount_text(terms.collateral_min)
            return f"its collateral of {_amount_text(bid.collateral)} is below {least_collateral}"


def _pay_text(terms: TaskTerms, clearing: int | None, placed: Placed) -> str:
    """Explain a winner's pay."""
    if clearing is None:
        return f"won: paid {_amount_text(placed.pay)}, the greatest price, because no losing bid sets one"
    # The greatest price caps the pay, even if the best loser's score would allow more.
    if placed.pay == terms.price_max:
        return f"won: paid {_amount_text(placed.pay)}, the greatest price, because the best losing score allows more"
    subtracted_text = (
        f"{_amount_text(placed.score.time)} for its time and {_amount_text(placed.score.risk)} for its risk"
    )
    clearing_text = _amount_text(clearing)
    return f"won: paid {_amount_text(placed.pay)}, the best losing score of {clearing_text} minus {subtracted_text}"


def _distance_text(placed: Placed, last_winning_score: Score | None) -> str:
    """Return the difference of a bid to the last winner, in total and by parts of the score."""
    assert last_winning_score is not None, "a losing bid has a last winner before it"
    score = placed.score
    if score.total == last_winning_score.total:
        return "tied with the last winner; the beacon decided"
    differences = {
        "price": score.price - last_winning_score.price,
        "time": score.time - last_winning_score.time,
        "risk": score.risk - last_winning_score.risk,
    }
    text = ", ".join(
        f"{part} {'+' * (difference > 0)}{format_amount(difference)}"
        for part, difference in differences.items()
        if difference
    )
    distance_text = _amount_text(abs(score.total - last_winning_score.total))
    return f"{distance_text} {_side_of_winner(score, last_winning_score)} the last winner ({text})"


def _side_of_winner(score: Score, last_winning_score: Score) -> str:
    """Return the side of the last winner. A bid of a class that was not chosen may have a lower score than a winner."""
    return "behind" if score.total > last_winning_score.total else "before"


def _advice_text(placed: Placed) -> str:
    if placed.behind == 0:
        return "any lower price would have won"
    # No price is below zero, so a lower price makes up only for a smaller gap.
    if placed.behind < placed.score.price:
        return f"a price lower by {_amount_text(placed.behind)} would have tied"
    return "only less time or more collateral could have won"


def _amount_text(grains: int) -> str:
    return f"{format_amount(grains)} {SYMBOL}"
