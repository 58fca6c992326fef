"""The registry of handlers: what a pallet must do to have its cases judged, and how the courts find it.

A handler is a pallet of the runtime that has these three methods; its cases carry its index, so a new one registers by
being in the chain's list, and the courts, which stand before it there, name none. It opens a case with `Courts.open` or
`Courts.watch`, whose id is 32 bytes of its own (a unit, a task, one leaf of a batch), with the fee and the chance of an
audit that it promised when it took the work in (`Courts.promise`), and hears of it once, at the end.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from gpu_tasks.market.courts.cases import PartyFault
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from runtime.encoding.types import BlockNumber
from runtime.frame.pallet import Pallet
from runtime.pallets.staking.slashing import Share


@dataclass(frozen=True, slots=True)
class CaseRuling:
    """How a case ended. Its money has moved by then."""

    outcome: CaseOutcome
    verdict: Answered | Unanswerable | None
    faults: tuple[tuple[bytes, PartyFault], ...] = ()
    """Which parties did wrong."""
    expelled: tuple[bytes, ...] = ()
    """Parties whose third lie within the window a court of five or more has found: their registration ends."""
    expelled_until: BlockNumber = 0
    """For as long as these lies count: who registered anew in the next block would have lost nothing."""


@runtime_checkable
class CaseHandler(Protocol):
    """A pallet whose cases the courts judge."""

    index: ClassVar[int]

    def charge_party(self, case: bytes, party: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of what a party holds for the case: as much as its claim says, at most."""

    def charge_customer(self, case: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of the customer's bond and price, which the terms named."""

    def carry_out(self, case: bytes, ruling: CaseRuling) -> None:
        """The case is over: free what is left of it, and do what follows."""


def handler_at(index: int, pallets: Iterable[Pallet]) -> CaseHandler:
    """The handler with this index among the pallets of an execution."""
    found = next((pallet for pallet in pallets if pallet.index == index), None)
    assert isinstance(found, CaseHandler), "cases are opened by pallets that can carry out what comes of them"
    return found
