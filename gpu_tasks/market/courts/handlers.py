"""The registry of handlers: the interface of pallets whose cases the courts judge.

A handler is a pallet of the runtime with the three methods below. Its cases carry its index, so membership in the
chain's list is its registration. The courts come earlier in that list and name no handler. A handler opens a case with
`Courts.open` or `Courts.watch`. The case's id is 32 bytes of its own (a unit, a task, one leaf of a batch). Fee and
audit rate are those that it promised when it took the work (`Courts.promise`). It receives the ruling once, at the end.
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
    """The end of a case, after its payments."""

    outcome: CaseOutcome
    verdict: Answered | Unanswerable | None
    faults: tuple[tuple[bytes, PartyFault], ...] = ()
    """The parties at fault, each with its fault."""
    expelled: tuple[bytes, ...] = ()
    """Parties whose third recent lie a court of five or more found. Their registration ends."""
    expelled_until: BlockNumber = 0
    """The block until which these lies count. An earlier new registration would make the expulsion worthless."""


@runtime_checkable
class CaseHandler(Protocol):
    """A pallet whose cases the courts judge."""

    index: ClassVar[int]

    def charge_party(self, case: bytes, party: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of a party's hold for the case, at most the amount in its claim."""

    def charge_customer(self, case: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of the customer's bond and price, as the terms name them."""

    def carry_out(self, case: bytes, ruling: CaseRuling) -> None:
        """Release the rest of the case's holds, and act on the ruling."""


def handler_at(index: int, pallets: Iterable[Pallet]) -> CaseHandler:
    """Return the handler with this index among the pallets of an execution."""
    found = next((pallet for pallet in pallets if pallet.index == index), None)
    assert isinstance(found, CaseHandler), "a pallet that opens cases is a case handler"
    return found
