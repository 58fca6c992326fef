"""A handler of units as the market pays them: two racers, a price, a witness, a premium for audits.

Always: what a customer locks is paid out or returned when its unit ends; agreeing results are paid at once, and their
collateral waits until the audit is over.
"""

from collections.abc import Sequence
from typing import Annotated

from gpu_tasks.market.courts.cases import AUDIT_POT, CaseTerms, ClaimKind, PartyClaim
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.handlers import CaseRuling
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Answered
from runtime.encoding.codec import Bounded, struct
from runtime.encoding.types import AccountId, Balance, Hash
from runtime.frame.holds import Hold, HoldReason
from runtime.frame.pallet import Pallet, StorageMap
from runtime.pallets.staking.slashing import Share
from runtime.pallets.staking.trust_lock import TrustLock

SIMULATED_MONEY = HoldReason("SimulatedMoney", "A unit's price, witness pay, bond and premium.")
SIMULATED_STAKE = HoldReason("SimulatedStake", "A racer's collateral for a unit.")
WITNESS_PERCENT, FEE_PERCENT, BOND_PERCENT = 30, 2, 5
COMMITTEE_FEES = 3


@struct
class SimulatedUnit:
    """One unit before the courts."""

    customer: AccountId
    price: Balance
    claims: Annotated[tuple[PartyClaim, ...], Bounded(4)]
    is_paid: bool


class SimulatedUnits(Pallet, index=204):
    """Brings units, pays for them, and carries out rulings."""

    lock: TrustLock
    courts: Courts

    units: StorageMap[Hash, SimulatedUnit | None] = StorageMap()

    hold_reasons = (SIMULATED_MONEY, SIMULATED_STAKE)

    def race(
        self, unit: bytes, customer: bytes, price: int, said: Sequence[tuple[bytes, ClaimKind, bytes | None]]
    ) -> None:
        """A race is over: pay what agrees, and bring what does not before the courts."""
        collateral = self.courts.collateral_of(price)
        claims = tuple(PartyClaim(who, kind, root, collateral) for who, kind, root in said)
        premium, bond = self.courts.premium_of(price), price * BOND_PERCENT // 100
        self.lock.lock(customer, Hold(SIMULATED_MONEY, unit), price + _witness(price) + bond + premium)
        for claim in claims:
            self.lock.lock(claim.account, Hold(SIMULATED_STAKE, unit), collateral)
        roots = [claim.root for claim in claims]
        settled = roots[0]
        is_agreed = settled is not None and all(root == settled for root in roots)
        self.units[unit] = SimulatedUnit(customer, price, claims, is_agreed)
        terms = CaseTerms(
            customer=customer,
            price=price,
            customer_bond=0 if is_agreed else bond,
            customer_price=0 if is_agreed else price,
            customer_spare=0,
            collateral=collateral,
            pot_max=100 * price if is_agreed else COMMITTEE_FEES * self.courts.fee_of(price),
            sealed_at=0,
            run_blocks=0,
            excluded=(),
            claims=claims,
        )
        if is_agreed and settled is not None:
            self._pay(unit, claims[0].account, claims[1].account)
            self.courts.watch(self.index, unit, terms, self.courts.promise(price), settled)
        else:
            self.courts.open(self.index, unit, terms, self.courts.promise(price))

    def charge_party(self, case: bytes, party: bytes, shares: Sequence[Share]) -> None:
        """Pay from a racer's collateral."""
        self.lock.pay_out(party, Hold(SIMULATED_STAKE, case), shares)

    def charge_customer(self, case: bytes, shares: Sequence[Share]) -> None:
        """Pay from what the customer locked."""
        self.lock.pay_out(self._unit(case).customer, Hold(SIMULATED_MONEY, case), shares)

    def carry_out(self, case: bytes, ruling: CaseRuling) -> None:
        """Pay who was right, return the rest, free the racers."""
        unit = self._unit(case)
        if not unit.is_paid and isinstance(ruling.verdict, Answered) and ruling.outcome is not CaseOutcome.INPUT_BAD:
            right = [
                claim.account
                for claim in unit.claims
                if claim.kind is ClaimKind.ANSWERED and claim.root == ruling.verdict.root
            ]
            if right:
                self._pay(case, right[0], right[1] if len(right) > 1 else None)
        for claim in unit.claims:
            hold = Hold(SIMULATED_STAKE, case)
            self.lock.unlock(claim.account, hold, self.lock.locked(claim.account, hold))
        hold = Hold(SIMULATED_MONEY, case)
        self.lock.unlock(unit.customer, hold, self.lock.locked(unit.customer, hold))
        self.lock.end(hold)
        self.lock.end(Hold(SIMULATED_STAKE, case))
        del self.units[case]

    def _pay(self, unit_id: bytes, winner: bytes, witness: bytes | None) -> None:
        unit = self._unit(unit_id)
        shares = [*_earned(unit.price, winner), Share(AUDIT_POT, self.courts.premium_of(unit.price))]
        if witness is not None:
            shares += _earned(_witness(unit.price), witness)
        hold = Hold(SIMULATED_MONEY, unit_id)
        self.lock.pay_out(unit.customer, hold, shares)
        self.lock.unlock(unit.customer, hold, self.lock.locked(unit.customer, hold) if witness else 0)

    def _unit(self, unit_id: bytes) -> SimulatedUnit:
        found = self.units[unit_id]
        assert found is not None, "a unit is there until its case is over"
        return found


def _witness(price: int) -> int:
    return price * WITNESS_PERCENT // 100


def _earned(gross: int, payee: bytes) -> list[Share]:
    taken = gross * FEE_PERCENT // 100
    return [Share(payee, gross - taken), Share(None, taken)]
