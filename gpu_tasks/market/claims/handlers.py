"""The interfaces between the pallets: a market whose results are claims, and a pallet that receives rulings.

Both are pallets of the runtime. A claim or a dispute stores its handler's index, so membership in the chain's list is
the registration.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.claims.findings import ItemVote
from gpu_tasks.market.claims.money import EventMoney, MoneyEvent, Payee, Purse, settle
from runtime.frame.pallet import Pallet
from runtime.pallets.staking.slashing import Share


@runtime_checkable
class ClaimHandler(Protocol):
    """A market: it holds the customer's money and the provider's collateral until a claim is over."""

    index: ClassVar[int]

    def charge_provider(self, claim: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of the provider's collateral, at most the amount in the terms."""

    def charge_customer(self, claim: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of the customer's money for checks, at most `fees_held` in the terms."""

    def conclude(self, claim: bytes, outcome: ClaimOutcome) -> None:
        """End the claim, after its other payments: pay or return the price, and release the rest."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """The end of a dispute, after the charges of its voters."""

    vote: ItemVote | None
    """The decision, or None if nobody may be convicted."""
    is_appealed: bool
    voters: tuple[bytes, ...]
    """The drawn voters that agreed with it. The convicted parties owe each of them a fee."""
    appeal_voters: tuple[bytes, ...] = ()
    """The voters of an appeal that agreed. They get a fee each of the rest, as far as it lasts."""


@runtime_checkable
class DisputeHandler(Protocol):
    """A pallet that opens disputes."""

    index: ClassVar[int]

    def rule(self, dispute: bytes, ruling: Ruling) -> None:
        """Carry out a ruling: charge the convicted parties, and pay the voters."""


def payments_to_voters(
    event: MoneyEvent, charged: Mapping[Purse, tuple[tuple[bytes, int], ...]], ruling: Ruling, *, fee: int
) -> dict[bytes, list[Share]]:
    """Return the payments of a dispute that a market has opened, by the names of the charged holds.

    `charged` names the holds of each purse, with their amounts. `fee` is due to each voter.
    """
    payees = {Payee.VOTERS: ruling.voters, Payee.APPEAL_VOTERS: ruling.appeal_voters}
    money = EventMoney(fee=0, vote_fee=fee, collateral=0, payers=dict(charged), payees=payees)
    payments: dict[bytes, list[Share]] = {}
    for flow in settle(event, money):
        payments.setdefault(flow.source, []).append(Share(flow.payee, flow.amount))
    return payments


def claim_handler_at(index: int, pallets: Iterable[Pallet]) -> ClaimHandler:
    """Return the market with this index among the pallets of an execution."""
    found = next((pallet for pallet in pallets if pallet.index == index), None)
    assert isinstance(found, ClaimHandler), "a pallet that opens claims is a claim handler"
    return found


def dispute_handler_at(index: int, pallets: Iterable[Pallet]) -> DisputeHandler:
    """Return the pallet with this index that opens disputes."""
    found = next((pallet for pallet in pallets if pallet.index == index), None)
    assert isinstance(found, DisputeHandler), "a pallet that opens disputes is a dispute handler"
    return found
