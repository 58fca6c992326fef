"""A handler of cases that is no market: it holds a stake of each party and of the customer, and notes how cases end."""

from collections.abc import Sequence

from gpu_tasks.market.courts.cases import CaseTerms, ClaimKind, PartyClaim
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.handlers import CaseRuling
from runtime.encoding.codec import U8
from runtime.encoding.types import AccountId, BlockNumber, Hash
from runtime.frame.holds import Hold, HoldReason
from runtime.frame.pallet import Pallet, StorageDoubleMap, StorageMap
from runtime.pallets.staking.slashing import Share
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.system import System

TOY_STAKE = HoldReason("ToyStake", "What parties and customers hold for a case.")


class Toys(Pallet, index=202):
    """Brings cases, and carries out what comes of them."""

    system: System
    lock: TrustLock
    courts: Courts

    customers: StorageMap[Hash, AccountId | None] = StorageMap()
    endings: StorageMap[Hash, U8 | None] = StorageMap()
    faults: StorageDoubleMap[Hash, AccountId, U8 | None] = StorageDoubleMap()
    expelled_until: StorageMap[AccountId, BlockNumber] = StorageMap(default=0)

    hold_reasons = (TOY_STAKE,)

    def terms(self, customer: bytes, price: int, claims: Sequence[tuple[bytes, ClaimKind, bytes | None]]) -> CaseTerms:
        """The terms of a case whose parties hold what the courts ask for."""
        held = self.courts.collateral_of(price)
        return CaseTerms(
            customer=customer,
            price=price,
            customer_bond=price // 20,
            customer_price=price,
            customer_spare=0,
            collateral=held,
            pot_max=100 * price,
            sealed_at=0,
            run_blocks=0,
            excluded=(),
            claims=tuple(PartyClaim(who, kind, root, held) for who, kind, root in claims),
        )

    def bring(self, case: bytes, terms: CaseTerms, settled: bytes | None = None) -> None:
        """Lock what the terms name, and open a dispute; or a watch for an audit, with what was settled."""
        self.customers[case] = terms.customer
        self.lock.lock(terms.customer, Hold(TOY_STAKE, case), terms.customer_bond + terms.customer_price)
        for claim in terms.claims:
            self.lock.lock(claim.account, Hold(TOY_STAKE, case), claim.held)
        if settled is None:
            self.courts.open(self.index, case, terms, self.courts.promise(terms.price))
        else:
            self.courts.watch(self.index, case, terms, self.courts.promise(terms.price), settled)

    def charge_party(self, case: bytes, party: bytes, shares: Sequence[Share]) -> None:
        """Pay from a party's stake."""
        self.lock.pay_out(party, Hold(TOY_STAKE, case), shares)

    def charge_customer(self, case: bytes, shares: Sequence[Share]) -> None:
        """Pay from the customer's stake."""
        customer = self.customers[case]
        assert customer is not None
        self.lock.pay_out(customer, Hold(TOY_STAKE, case), shares)

    def carry_out(self, case: bytes, ruling: CaseRuling) -> None:
        """Free everything, and note how it ended."""
        assert case not in self.endings, "a case ends once"
        self.endings[case] = ruling.outcome
        hold = Hold(TOY_STAKE, case)
        for who in [key for key, _ in self.system.account.items()]:
            self.lock.unlock(who, hold, self.lock.locked(who, hold))
        self.lock.end(hold)
        for who, fault in ruling.faults:
            self.faults[case, who] = fault
        for who in ruling.expelled:
            self.expelled_until[who] = ruling.expelled_until
