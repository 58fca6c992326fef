"""The reason why each bid of an auction won or lost: its score by price, time and risk, and a sentence.

Invariant: all of it follows from the selection, which anyone can recompute from the chain's records. "A price lower by
N" is the price at which the bid would have tied with the last winner, with all else equal.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.selection import BidFate, Placed, Score, Selection
from gpu_tasks.market.training.terms import TaskTerms
from wallet.amounts import SYMBOL, format_amount


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
    last = selection.winners[-1].score if selection.winners else None
    kinds = Counter(placed.bid.device_class for placed in selection.places if placed.fate is BidFate.TOO_FEW)
    rows = []
    for place, placed in enumerate(selection.places, 1):
        bid = placed.bid
        why = _why(terms, selection, placed, last, kinds)
        opened = (placed.score, bid.blocks, bid.collateral, placed.fate, placed.pay)
        rows.append(ExplainedBid(place, bid.provider, bid.device, bid.device_class, *opened, why))
    # Sealed bids have no score, so their ids give a reproducible order.
    for place, closed in enumerate(sorted(sealed, key=lambda bid: (bid.provider, bid.device)), len(rows) + 1):
        why = f"not opened: its bond of {_money(closed.bond)} burns"
        rows.append(ExplainedBid(place, closed.provider, closed.device, closed.kind, None, None, None, None, 0, why))
    return rows


def _why(
    terms: TaskTerms, selection: Selection, placed: Placed, last: Score | None, too_few: Counter[DeviceClass]
) -> str:
    bid = placed.bid
    match placed.fate:
        case BidFate.WON:
            return _why_paid(terms, selection.clearing, placed)
        case BidFate.STANDBY:
            return f"standby: {_behind(placed, last)}"
        case BidFate.OUTBID:
            return f"{_behind(placed, last)}; {_what_would_have_helped(placed)}"
        case BidFate.OTHER_CLASS:
            return f"another class fills the {terms.slots} slots at a lower score: {_behind(placed, last)}"
        case BidFate.TOO_FEW:
            # A single slot is of one class anyway.
            is_of_class = terms.is_homogeneous and terms.slots > 1
            count = too_few[bid.device_class] if is_of_class else too_few.total()
            bids = "1 bid" if count == 1 else f"{count} bids"
            return f"{bids}{' of its class' * is_of_class} for {terms.slots} slots, which only fill together"
        case BidFate.PRICE:
            return f"its price of {_money(bid.price)} is outside 1 grain to {_money(terms.price_max)}"
        case BidFate.TIME:
            return f"its promise of {bid.blocks} blocks is outside 1 to {terms.blocks_max}"
        case BidFate.COLLATERAL:
            return f"its collateral of {_money(bid.collateral)} is below {_money(terms.collateral_min)}"


def _why_paid(terms: TaskTerms, clearing: int | None, placed: Placed) -> str:
    """Explain a winner's pay."""
    if clearing is None:
        return f"won: paid {_money(placed.pay)}, the greatest price, because no losing bid sets one"
    # The greatest price caps the pay, even if the best loser's score would allow more.
    if placed.pay == terms.price_max:
        return f"won: paid {_money(placed.pay)}, the greatest price, because the best losing score allows more"
    rest = f"{_money(placed.score.time)} for its time and {_money(placed.score.risk)} for its risk"
    return f"won: paid {_money(placed.pay)}, the best losing score of {_money(clearing)} minus {rest}"


def _behind(placed: Placed, last: Score | None) -> str:
    """Return the difference of a bid to the last winner, in total and by parts of the score."""
    assert last is not None, "a losing bid has a last winner before it"
    score = placed.score
    if score.total == last.total:
        return "tied with the last winner; the beacon decided"
    parts = {"price": score.price - last.price, "time": score.time - last.time, "risk": score.risk - last.risk}
    named = ", ".join(f"{name} {'+' * (part > 0)}{format_amount(part)}" for name, part in parts.items() if part)
    return f"{_money(abs(score.total - last.total))} {_side(score, last)} the last winner ({named})"


def _side(score: Score, last: Score) -> str:
    """Return the side of the last winner. A bid of a class that was not chosen may have a lower score than a winner."""
    return "behind" if score.total > last.total else "before"


def _what_would_have_helped(placed: Placed) -> str:
    if placed.behind == 0:
        return "any lower price would have won"
    # No price is below zero, so a lower price makes up only for a smaller gap.
    if placed.behind < placed.score.price:
        return f"a price lower by {_money(placed.behind)} would have tied"
    return "only less time or more collateral could have won"


def _money(grains: int) -> str:
    return f"{format_amount(grains)} {SYMBOL}"
