"""The bids of an auction as `ogpu bids` shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpu_tasks.tasks.bid_explanation import ExplainedBid
from wallet.output import Account, Grains

BID_COLUMNS = (
    "place", "fate", "score", "price", "time", "risk", "promised", "collateral", "pay", "class", "device", "provider",
)  # fmt: skip
EXPLAINED_COLUMNS = (*BID_COLUMNS, "why")
WHY_COLUMNS = ("place", "device", "fate", "why")


def bid_rows(bids: Sequence[ExplainedBid]) -> list[dict[str, Any]]:
    """A row for each bid, with every column."""
    return [_row(bid) for bid in bids]


def _row(bid: ExplainedBid) -> dict[str, Any]:
    score = bid.score
    return {
        "place": bid.place,
        "fate": "not opened" if bid.fate is None else bid.fate.name.lower().replace("_", " "),
        "score": None if score is None else Grains(score.total),
        "price": None if score is None else Grains(score.price),
        "time": None if score is None else Grains(score.time),
        "risk": None if score is None else Grains(score.risk),
        "promised": bid.promised,
        "collateral": None if bid.collateral is None else Grains(bid.collateral),
        "pay": Grains(bid.pay) if bid.pay else None,
        "class": bid.kind.name.lower(),
        "device": bid.device,
        "provider": Account(bid.provider),
        "why": bid.why,
    }
