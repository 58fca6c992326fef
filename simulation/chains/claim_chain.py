"""A chain with claims and a toy market: a provider and checkers that follow policies, and books of every hold."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_tasks.market.claims.claims import Check, ClaimOutcome, ClaimStage, ClaimTerms, ResultClaim
from gpu_tasks.market.claims.collateral import check_share, fees_max, least_collateral
from gpu_tasks.market.claims.convictions import open_check
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import (
    FINGERPRINT_BYTES,
    Finding,
    ItemSample,
    Samples,
    Verdict,
    finding_commitment,
)
from gpu_tasks.market.claims.handlers import Ruling
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U8
from runtime.encoding.types import Balance, Hash
from runtime.frame.holds import Hold, HoldReason
from runtime.frame.pallet import Pallet, StorageMap
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.session import Session
from runtime.pallets.staking.slashing import Share
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU, Keys, MarketChain, named_keys, salt_of, signed

TOY_PRICE = HoldReason("ToyPrice", "The price of a toy claim, and the fees of its checks.")
TOY_COLLATERAL = HoldReason("ToyCollateral", "The collateral of a toy claim's provider.")
PRICE = OGPU
CHECK_PPM = check_share(50_000)
FEE_MIN = OGPU // 1_000
WEIGHT = 1_000_000
"""The weight of each item of a toy claim."""


class ToyMarket(Pallet, index=204):
    """Opens claims, and carries out their outcomes."""

    lock: TrustLock
    result_claims: ResultClaims

    terms: StorageMap[Hash, ClaimTerms | None] = StorageMap()
    outcomes: StorageMap[Hash, U8 | None] = StorageMap()
    paid: StorageMap[Hash, Balance] = StorageMap(default=0)

    hold_reasons = (TOY_PRICE, TOY_COLLATERAL)

    def bring(self, claim: bytes, terms: ClaimTerms) -> None:
        """Lock the money of the terms, and open the claim."""
        self.terms[claim] = terms
        self.lock.lock(terms.customer, Hold(TOY_PRICE, claim), terms.price + terms.fees_held)
        self.lock.lock(terms.provider, Hold(TOY_COLLATERAL, claim), terms.collateral)
        self.result_claims.open(claim, terms)

    def charge_provider(self, claim: bytes, shares: Sequence[Share]) -> None:
        """Pay shares from the collateral."""
        self.lock.pay_out(self._terms(claim).provider, Hold(TOY_COLLATERAL, claim), shares)

    def charge_customer(self, claim: bytes, shares: Sequence[Share]) -> None:
        """Pay shares from the money for checks."""
        self.paid[claim] += sum(share.amount for share in shares)
        assert self.paid[claim] <= self._terms(claim).fees_held
        self.lock.pay_out(self._terms(claim).customer, Hold(TOY_PRICE, claim), shares)

    def conclude(self, claim: bytes, outcome: ClaimOutcome) -> None:
        """Pay or return the price, and release the rest."""
        assert claim not in self.outcomes, "a claim ends once"
        self.outcomes[claim] = outcome
        terms, price, bond = self._terms(claim), Hold(TOY_PRICE, claim), Hold(TOY_COLLATERAL, claim)
        if outcome is ClaimOutcome.PASSED:
            self.lock.pay_out(terms.customer, price, (Share(terms.provider, terms.price),))
        for who, hold in ((terms.customer, price), (terms.provider, bond)):
            self.lock.unlock(who, hold, self.lock.locked(who, hold))
            self.lock.end(hold)

    def _terms(self, claim: bytes) -> ClaimTerms:
        terms = self.terms[claim]
        assert terms is not None, "the toy market opened this claim"
        return terms


PALLETS = (System, Balances, Beacon, TrustStake, Session, TrustLock, Devices, Disputes, ResultClaims, ToyMarket)
Step = Callable[[Bound], None]


@dataclass(frozen=True)
class Checks:
    """A checker's behaviour: its verdict, or None if it is silent, its further steps, and a label for other samples."""

    verdict: Verdict | None = Verdict.RIGHT
    place: int = 0
    label: bytes = b""
    is_opened: bool = True
    is_conceded: bool = False


Checker = Callable[[Keys, Check, int], Checks]
"""Takes the checker, its check and the number of the check."""
Provider = Callable[[Check, int], bytes | None]
"""Returns the label of the shown samples, or None for silence."""


def honest_checker(_keys: Keys, _check: Check, _number: int) -> Checks:
    """Return the behaviour of a checker that computes a right item."""
    return Checks()


def honest_provider(_check: Check, _number: int) -> bytes | None:
    """Return the label of right samples."""
    return b""


def samples_of(claim: ResultClaim, seed: bytes, label: bytes = b"") -> Samples:
    """Return the samples of a claim's points at a seed. All right ones are equal. A label makes others."""
    return tuple(sample_at(point, seed, label) for point in claim.points)


def sample_at(point: int, seed: bytes, label: bytes = b"") -> ItemSample:
    """Return the sample of the item at a point. All items have the same weight."""
    index = point // WEIGHT
    print_of = blake2_256(b"item" + index.to_bytes(4, "little") + seed + label)[:FINGERPRINT_BYTES]
    return ItemSample(index, WEIGHT, print_of)


@dataclass
class ClaimChain:
    """Claims one after another on a chain of `size` validators, with a provider outside of them and a customer."""

    size: int = 12
    checker: Checker = honest_checker
    provider: Provider = honest_provider
    constants: dict[str, Any] = field(default_factory=dict)
    bonds: tuple[int, ...] = (1_000 * OGPU, 2_000 * OGPU, 1_500 * OGPU)
    final_lag: int = 1
    epoch_blocks: int = 60
    seed: int = 1
    number: int = 0

    def __post_init__(self) -> None:
        """Make block 0."""
        self.owner, self.stranger = Keys("provider"), Keys("stranger")
        self.chain = MarketChain(
            named_keys(self.size),
            [self.owner, self.stranger],
            {"TrustStake.validator_count": 128, **self.constants},
            final_lag=self.final_lag,
            epoch_blocks=self.epoch_blocks,
            pallets=PALLETS,
            bonds=self.bonds,
        )
        self.chain.chance.seed(self.seed)

    def terms(self, *, items: int = 1, rate_ppm: int = 1_000_000, price: int = PRICE, **changed: Any) -> ClaimTerms:
        """Return terms of a claim of `items` equal items, with the money that its rate needs."""
        fees_held = fees_max(price, CHECK_PPM, FEE_MIN)
        game_rate = 1_000_000 if rate_ppm == 0 or items > 1 else rate_ppm
        terms: dict[str, Any] = {
            "handler": ToyMarket.index,
            "provider": self.owner.stash,
            "customer": CUSTOMER.stash,
            "root": b"r" * 32,
            "items": items,
            "weight": items * WEIGHT,
            "item_weight_max": items * WEIGHT,
            "price": price,
            "collateral": least_collateral(price, items=items, rate_ppm=game_rate, vote_fee=fees_held // 2),
            "rate_ppm": rate_ppm,
            "check_ppm": CHECK_PPM,
            "fee_min": FEE_MIN,
            "fees_held": fees_held,
            "sealed_at": 0,
            "run_blocks": 0,
            "excluded": (),
        }
        return ClaimTerms(**{**terms, **changed})

    def open(self, **changed: Any) -> bytes:
        """Make a block that opens a claim, and return its id."""
        self.number += 1
        claim_id = blake2_256(b"claim" + self.number.to_bytes(4, "little") + self.seed.to_bytes(4, "little"))
        terms = self.terms(**changed)
        self.chain.block(lambda bound: bound[ToyMarket].bring(claim_id, terms))
        return claim_id

    def claim(self, claim_id: bytes) -> ResultClaim:
        """Return an open claim."""
        found = self.chain.now()[ResultClaims].claims[claim_id]
        assert found is not None
        return found

    def outcome(self, claim_id: bytes) -> ClaimOutcome | None:
        """Return the outcome of a claim, or None while it is open."""
        found = self.chain.now()[ToyMarket].outcomes[claim_id]
        return None if found is None else ClaimOutcome(found)

    def run(self, claim_id: bytes, *, until: ClaimStage | None = None, blocks: int = 600) -> ClaimOutcome | None:
        """Make blocks in which all act, until the claim ends or reaches a stage. Return its outcome."""
        for _ in range(blocks):
            claim = self.chain.now()[ResultClaims].claims[claim_id]
            if claim is None:
                return self.outcome(claim_id)
            if claim.stage is until:
                return None
            self.chain.block(*self.steps())
        raise AssertionError("a claim without end")

    def steps(self) -> Iterator[Step]:
        """Yield the steps of the provider and all checkers in the next block."""
        for claim_id, claim in self.chain.now()[ResultClaims].claims.items():
            if claim is not None:
                yield from self.acts(claim_id, claim)

    def acts(self, claim_id: bytes, claim: ResultClaim) -> Iterator[Step]:
        """Yield the next step in a claim, if somebody acts by its policy."""
        check, number = open_check(claim), len(claim.checks) - 1
        if check is None:
            return
        keys = self.chain.keys_of(check.checker)
        does = self.checker(keys, check, number)
        if claim.stage is ClaimStage.COMMITTING and does.verdict is not None:
            yield signed(keys.provider, commit_call(claim_id, claim, keys, does))
        elif claim.stage is ClaimStage.SHOWING:
            label = self.provider(check, number)
            if label is not None:
                yield signed(self.owner.stash, show_call(claim_id, claim, label))
        elif claim.stage is ClaimStage.OPENING and does.is_opened and check.finding is None:
            yield signed(keys.provider, open_call(claim_id, claim, keys, does))
        elif claim.stage is ClaimStage.CONCEDING and does.is_conceded:
            yield signed(keys.provider, ResultClaims.concede(claim=claim_id))

    def free(self, who: bytes) -> int:
        """Return the free grains of an account."""
        return self.chain.now()[Balances].free_balance(who)

    def decide(self, claim_id: bytes, ruling: Ruling) -> None:
        """Make a block that ends the open dispute of a claim with this ruling, without a vote."""

        def step(bound: Bound) -> None:
            room, claims = bound[Disputes], bound[ResultClaims]
            dispute_id = next(each for each, claim in claims.claim_of_dispute.items() if claim == claim_id)
            room.agenda.drop(dispute_id)
            room.final_agenda.drop(dispute_id)
            del room.disputes[dispute_id]
            claims.rule(dispute_id, ruling)

        self.chain.block(step)


def finding_of(claim: ResultClaim, does: Checks) -> Finding:
    """Return the finding of a checker with this behaviour."""
    assert does.verdict is not None
    is_right = does.verdict is Verdict.RIGHT
    samples = samples_of(claim, claim.checks[-1].seed, does.label) if is_right else ()
    return Finding(does.verdict, does.place, samples)


def commit_call(claim_id: bytes, claim: ResultClaim, keys: Keys, does: Checks) -> Any:
    """Return the call by which a checker commits."""
    finding, number = finding_of(claim, does), len(claim.checks) - 1
    commitment = finding_commitment(GENESIS_HASH, claim_id, number, keys.stash, finding, salt_of(keys, claim_id))
    return ResultClaims.commit_finding(claim=claim_id, commitment=commitment)


def show_call(claim_id: bytes, claim: ResultClaim, label: bytes = b"") -> Any:
    """Return the call by which the provider shows its samples."""
    return ResultClaims.show_samples(claim=claim_id, samples=samples_of(claim, claim.checks[-1].seed, label))


def open_call(claim_id: bytes, claim: ResultClaim, keys: Keys, does: Checks) -> Any:
    """Return the call by which a checker opens its finding."""
    return ResultClaims.open_finding(claim=claim_id, finding=finding_of(claim, does), salt=salt_of(keys, claim_id))
