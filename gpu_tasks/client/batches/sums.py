"""What was locked for units, what of it is gone and what came back: the same few words wherever money is told.

Always: what was locked is paid, returned, or locked still.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpu_tasks.client.funds import grains_of
from wallet.amounts import Grains


@dataclass(frozen=True, slots=True)
class UnitSums:
    """Of one unit, or of several together, in grains."""

    locked: int = 0
    """When they were posted: price, witness or judges, audits, bond and deposit."""
    prepaid: int = 0
    """Gone at once, for duty calls."""
    fees: int | None = 0
    """Of transactions; None where the chain does not show them any more."""
    paid: int = 0
    """To providers and judges, for audits, or burned, of units that ended; less the price that a liar gave back."""
    returned: int = 0
    """When they ended."""

    @property
    def still_locked(self) -> int:
        """Of open units all, of ended ones the deposit, until their records are dropped."""
        return self.locked - self.paid - self.returned

    @property
    def cost(self) -> int | None:
        """All that is gone so far."""
        return None if self.fees is None else self.prepaid + self.fees + self.paid

    def __add__(self, other: UnitSums) -> UnitSums:
        """Of both together."""
        return UnitSums(
            self.locked + other.locked,
            self.prepaid + other.prepaid,
            None if self.fees is None or other.fees is None else self.fees + other.fees,
            self.paid + other.paid,
            self.returned + other.returned,
        )

    def facts(self) -> dict[str, Grains | None]:
        """As every command shows them."""
        return {
            "locked": Grains(self.locked),
            "prepaid": Grains(self.prepaid),
            "fees": grains_of(self.fees),
            "paid": Grains(self.paid),
            "returned": Grains(self.returned),
            "still_locked": Grains(self.still_locked),
            "cost": grains_of(self.cost),
        }


NOTHING = UnitSums()
