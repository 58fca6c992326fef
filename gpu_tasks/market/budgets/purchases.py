"""The calls that a delegate may make, and the parts of them that its caps limit.

Invariant: any call that is not listed here is refused, batches included.
"""

from dataclasses import dataclass

from gpu_tasks.market.budgets.events import NotAllowed
from runtime.frame.call import Call
from runtime.frame.pallet import ensure

POST, OPEN = "InferenceMarket.post", "Sessions.open"


@dataclass(frozen=True, slots=True)
class BudgetPurchase:
    """The units or the session that a call buys."""

    service: int
    prices: tuple[int, ...]
    """The most grains for each: the greatest price of a unit, or the deposit of a session."""
    deposits: int
    """Grains for records, which return whatever happens."""


def purchase_of(call: Call, delegate: bytes, *, unit_deposit: int, session_deposit: int) -> BudgetPurchase:
    """Return the purchase of a call. Raise NotAllowed for any other call, and for a session with another signer."""
    arguments = call.named_arguments
    if call.name == POST:
        prices = tuple(unit.price_max for unit in arguments["units"])
        return BudgetPurchase(arguments["service"], prices, unit_deposit * len(prices))
    # With another signer, a revocation of this delegate would leave the session open.
    ensure(call.name == OPEN and arguments["signer"] == delegate, NotAllowed)
    return BudgetPurchase(arguments["service"], (arguments["deposit"],), session_deposit)
