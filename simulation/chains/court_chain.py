"""A chain with courts and a toy handler of cases, judges that follow a policy, and books of every seat and bond."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_tasks.market.courts.cases import AUDIT_POT, CaseStage, CaseTerms, ClaimKind, CourtCase, PartyClaim
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.handlers import CaseRuling
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Answered, Statement, Unanswerable
from gpu_tasks.market.devices.devices import Devices
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U8
from runtime.encoding.types import AccountId, BlockNumber, Hash
from runtime.frame.holds import Hold, HoldReason
from runtime.frame.pallet import Pallet, StorageDoubleMap, StorageMap
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.session import Session
from runtime.pallets.staking.slashing import Share
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from simulation.chains.market_chain import CUSTOMER, OGPU, Keys, MarketChain, due_of, named_keys, root_of

TOY_STAKE = HoldReason("ToyStake", "Stakes of parties and customers in a case.")


class Toys(Pallet, index=202):
    """Brings cases, and carries out their rulings."""

    system: System
    lock: TrustLock
    courts: Courts

    customers: StorageMap[Hash, AccountId | None] = StorageMap()
    endings: StorageMap[Hash, U8 | None] = StorageMap()
    faults: StorageDoubleMap[Hash, AccountId, U8 | None] = StorageDoubleMap()
    expelled_until: StorageMap[AccountId, BlockNumber] = StorageMap(default=0)

    hold_reasons = (TOY_STAKE,)

    def terms(self, customer: bytes, price: int, claims: Sequence[tuple[bytes, ClaimKind, bytes | None]]) -> CaseTerms:
        """Return the terms of a case whose parties hold the required collateral."""
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

    def bring(self, case: bytes, terms: CaseTerms, settled: bytes | None = None, *, is_confirmed: bool = False) -> None:
        """Lock the holds of the terms, and open a dispute. With `settled`, wait for an audit, or have it confirmed."""
        self.customers[case] = terms.customer
        self.lock.lock(terms.customer, Hold(TOY_STAKE, case), terms.customer_bond + terms.customer_price)
        for claim in terms.claims:
            self.lock.lock(claim.account, Hold(TOY_STAKE, case), claim.held)
        if settled is None:
            self.courts.open(self.index, case, terms, self.courts.promise(terms.price))
        elif is_confirmed:
            self.courts.confirm(self.index, case, terms, self.courts.promise(terms.price), settled)
        else:
            self.courts.watch(self.index, case, terms, self.courts.promise(terms.price), settled)

    def charge_party(self, case: bytes, party: bytes, shares: Sequence[Share]) -> None:
        """Pay shares from a party's hold."""
        self.lock.pay_out(party, Hold(TOY_STAKE, case), shares)

    def charge_customer(self, case: bytes, shares: Sequence[Share]) -> None:
        """Pay shares from the customer's hold."""
        customer = self.customers[case]
        assert customer is not None
        self.lock.pay_out(customer, Hold(TOY_STAKE, case), shares)

    def carry_out(self, case: bytes, ruling: CaseRuling) -> None:
        """Unlock everything, and record the outcome."""
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


PALLETS = (System, Balances, Beacon, TrustStake, Session, TrustLock, Devices, Courts, Toys)
RIGHT, WRONG = root_of(b"r" * 32), root_of(b"w" * 32)
PRICE = OGPU
Verdict = Answered | Unanswerable
Claims = Sequence[tuple[bytes, ClaimKind, bytes | None]]
Step = Callable[[Bound], None]


@dataclass(frozen=True)
class Says:
    """A judge's behaviour: its opinion or None, whether it opens it, and the earlier probes that it doubts."""

    opinion: Verdict | None
    is_opened: bool = True
    doubted: int = 0


Policy = Callable[[Keys, CourtCase, int], Says]


def honest(_keys: Keys, _case: CourtCase, _bench: int) -> Says:
    """Return the opinion of a judge that computes."""
    return Says(Answered(RIGHT))


@dataclass
class CourtChain:
    """Cases one after another on a chain of `size` validators, with two racers and a customer."""

    size: int = 7
    constants: dict[str, Any] = field(default_factory=dict)
    bonds: tuple[int, ...] = (1_000 * OGPU, 2_000 * OGPU, 1_500 * OGPU)
    policy: Policy = honest
    pallets: tuple[type[Pallet], ...] = PALLETS
    check: Callable[[Bound, int], None] | None = None
    seed: int = 1
    number: int = 0

    def __post_init__(self) -> None:
        """Make block 0, and fill the pot."""
        self.racers = [Keys("racer"), Keys("rival")]
        self.chain = MarketChain(
            named_keys(self.size),
            [*self.racers, Keys("stranger")],
            {"TrustStake.validator_count": 64, **self.constants},
            pallets=self.pallets,
            bonds=self.bonds,
            check=self.check,
        )
        self.chain.chance.seed(self.seed)
        self.chain.block(lambda bound: bound[Courts].pay_premium(CUSTOMER.stash, 1_000 * OGPU))

    def bring(
        self,
        claims: Claims,
        /,
        *,
        settled: bytes | None = None,
        is_confirmed: bool = False,
        price: int = PRICE,
        **changed: Any,
    ) -> bytes:
        """Make a block that opens a case, and return its id."""
        self.number += 1
        case_id = blake2_256(b"case" + self.number.to_bytes(4, "little") + self.seed.to_bytes(4, "little"))

        def step(bound: Bound) -> None:
            toys = bound[Toys]
            terms = toys.terms(CUSTOMER.stash, price, claims)
            toys.bring(case_id, type(terms)(**{**_fields(terms), **changed}), settled, is_confirmed=is_confirmed)

        self.chain.block(step)
        return case_id

    def dispute(self, first: bytes = RIGHT, second: bytes = WRONG, **changed: Any) -> bytes:
        """Open a case of the two racers with these roots."""
        roots = zip(self.racers, (first, second), strict=True)
        return self.bring([(keys.stash, ClaimKind.ANSWERED, root) for keys, root in roots], **changed)

    def appealable(self) -> bytes:
        """Return a dispute that the committee has decided and that waits for an appeal."""
        case_id = self.dispute()
        self.run(case_id, until=CaseStage.APPEALABLE)
        return case_id

    def audit(self, settled: bytes = RIGHT, **changed: Any) -> bytes:
        """Watch the paid answer of the first racer."""
        claims: Claims = [(self.racers[0].stash, ClaimKind.ANSWERED, settled)]
        return self.bring(claims, settled=settled, **changed)

    def case(self, case_id: bytes) -> CourtCase | None:
        """Return the open case, or None."""
        return self.chain.now()[Courts].cases[case_id]

    def run(self, case_id: bytes, *, until: CaseStage | None = None, blocks: int = 400) -> CaseOutcome | None:
        """Make blocks in which the judges act, until the case ends or reaches a stage. Return its outcome."""
        for _ in range(blocks):
            case = self.case(case_id)
            if case is None:
                ending = self.chain.now()[Toys].endings[case_id]
                assert ending is not None
                return CaseOutcome(ending)
            if case.stage is until:
                return None
            self.chain.block(*self.steps())
        raise AssertionError("a case without end")

    def steps(self) -> Iterator[Step]:
        """Yield the steps of all judges in the next block."""
        courts, height = self.chain.now()[Courts], self.chain.height + 1
        for case_id, case in courts.cases.items():
            if case is None or case.round is None:
                continue
            for judge in case.benches[-1].members:
                yield from self._act(courts, case_id, case, self.chain.keys_of(judge), height)

    def _act(self, courts: Courts, case_id: bytes, case: CourtCase, keys: Keys, height: int) -> Iterator[Step]:
        says = self.policy(keys, case, case.benches[-1].kind)
        assert courts.seats[keys.stash, case_id] is not None
        if says.opinion is not None:
            said, is_opened = statement_of(keys, says), says.is_opened
            yield from due_of(courts, case_id, keys, said, height=height, final=height - 1, is_opened=is_opened)

    def free(self, who: bytes) -> int:
        """Return the free grains of an account."""
        return self.chain.now()[Balances].free_balance(who)

    @property
    def pot(self) -> int:
        """The grains in the audit pot."""
        return self.free(AUDIT_POT)


def _fields(terms: Any) -> dict[str, Any]:
    return {name: getattr(terms, name) for name in type(terms).__annotations__}


def statement_of(keys: Keys, says: Says) -> Statement:
    """Return the statement that a test judge opens."""
    assert says.opinion is not None
    return Statement(says.opinion, blake2_256(b"probe" + keys.stash), says.doubted)
