"""The grains of its signer that a call sends, locks or burns, if the call itself names them.

Uncertain amounts are left out: those of `transfer_all`, and of a call as another account, depend on the state. The
amount that a post locks follows from rules of the market, about which the node is asked (`GpuTasksApi_quote`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from runtime.frame.call import Call

BATCHES = ("Utility.batch", "Utility.batch_all", "Utility.force_batch")
POST = "InferenceMarket.post"

SENT = {
    "Balances.transfer_allow_death": "value",
    "Balances.transfer_keep_alive": "value",
    "Budgets.create": "deposit",
}
LOCKED = {
    "TrustStake.bond": "value",
    "TrustStake.bond_extra": "value",
    "TrustStake.delegate": "value",
    "Devices.register_device": "bond",
    "Devices.bond_device_extra": "value",
    "Sessions.open": "deposit",
}
BURNED = {"Balances.burn": "value"}
DEPOSITS = {
    "Budgets.create": "Budgets.budget_deposit",
    "InferenceMarket.create_service": "InferenceMarket.service_deposit",
    "Sessions.open": "Sessions.session_deposit",
}
"""The calls that lock a deposit, with the chain's parameter that sets its amount."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Grains that leave the signer's free balance, except the fee."""

    sent: int = 0
    locked: int = 0
    prepaid: int = 0
    burned: int = 0

    def __add__(self, other: Self) -> Moved:
        """Return the sum of both calls."""
        return Moved(
            self.sent + other.sent,
            self.locked + other.locked,
            self.prepaid + other.prepaid,
            self.burned + other.burned,
        )

    @property
    def total(self) -> int:
        """All of them."""
        return self.sent + self.locked + self.prepaid + self.burned


def moved_by(call: Call, deposits: Mapping[str, int]) -> Moved:
    """Return the amounts that a call names, with the deposits of `DEPOSITS`; for a batch, the sum of its calls."""
    if call.name in BATCHES:
        return sum((moved_by(inner_call, deposits) for inner_call in call.arguments[0]), Moved())
    arguments = call.named_arguments
    deposit_grains = deposits[DEPOSITS[call.name]] if call.name in DEPOSITS else 0
    return Moved(
        sent=arguments.get(SENT.get(call.name, ""), 0),
        locked=arguments.get(LOCKED.get(call.name, ""), 0) + deposit_grains,
        burned=arguments.get(BURNED.get(call.name, ""), 0),
    )


def posts_in(call: Call) -> list[Call]:
    """Return the calls that post units, in a call or a batch."""
    if call.name in BATCHES:
        return [unit_call for inner_call in call.arguments[0] for unit_call in posts_in(inner_call)]
    return [call] if call.name == POST else []
