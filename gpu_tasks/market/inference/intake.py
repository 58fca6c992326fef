"""How a unit begins: what its customer asks is checked, and all that it can ever cost is locked.

Always: every grain that an outcome can pay is held from here on, so no end can fail for want of money; a block takes in
no more units than half of what one block may spend on draws is enough for, so those that are in are drawn in time.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gpu_tasks.batches.requests import REQUESTS_MAX, price_of, work_of
from gpu_tasks.market.devices.judges import in_office
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.events import (
    MarketBusy,
    StaleSealing,
    TooFewJudges,
    TooManyOpen,
    UnitPosted,
    UnsoundTerms,
)
from gpu_tasks.market.inference.judges_left import LOOK_WEIGHT, SMALL_SET, find_judges
from gpu_tasks.market.inference.queue import Queueing
from gpu_tasks.market.inference.rules import UnitRules
from gpu_tasks.market.inference.services import PRICE_MAX, UNIT_LEASE_MAX, ServiceTerms, lease_of
from gpu_tasks.market.inference.slots import draw_weight, reading_weight
from gpu_tasks.market.inference.state import MarketState
from gpu_tasks.market.inference.units import (
    RACERS_MAX,
    UNIT_DEPOSIT,
    UNIT_MONEY,
    UNITS_OPEN_MAX,
    OpenUnit,
    Unit,
    UnitTerms,
    unit_id_of,
)
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.codec import U32, struct
from runtime.encoding.types import AccountId, BlockNumber, Weight
from runtime.frame.measured import times
from runtime.frame.pallet import Hold, StorageMap, StorageValue, ensure
from runtime.frame.weights import work
from runtime.pallets.balances import Balances, Withdraw
from runtime.pallets.staking.trust_lock import TrustLock

ADMITTED_MAX = work(microseconds=80_000)
"""What the draws of all units that one block takes in may come to: half of `DRAW_BUDGET`."""


def post_weight(units: tuple[UnitTerms, ...], looks: int) -> Weight:
    """Of a post that looks at so many in office, with the draws that its units will cause.

    Without looking for slots: that is bounded by `ADMITTED_MAX`.
    """
    weight = WEIGHTS["InferenceMarket.post"] + times(len(units), WEIGHTS["InferenceMarket.post unit"])
    weight += times(looks, LOOK_WEIGHT)
    for terms in units:
        weight += draw_weight(0, terms.racers)
    return weight


@struct
class AdmittedDraws:
    """What the draws of the units that a block took in come to at most."""

    height: BlockNumber
    weight: Weight


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """What a unit goes by from its post on, and what that costs its customer at most."""

    rules: UnitRules
    leaf_audit_ppm: int
    escrow: int
    prepaid: int
    """For its duty calls; burned."""


@dataclass(frozen=True, slots=True)
class Posting:
    """Takes units in."""

    state: MarketState
    queueing: Queueing
    lock: TrustLock
    balances: Balances
    posted: StorageMap[AccountId, U32]
    admitted: StorageValue[AdmittedDraws]
    rules: UnitRules
    is_checked: Callable[[int], bool]
    """Whether a batch of so many requests is checked by its leaves, where there are judges enough."""
    unit_deposit: int
    customer_bond: int
    """In millionths of the highest price."""
    duty_fee: int
    sealed_age_max: int

    def post(self, customer: bytes, service: int, units: tuple[UnitTerms, ...]) -> int:
        """Put units of a service into the queue, each with its money; how many in office it looked at for that."""
        catalogue = self.state.catalogue
        # a post of nothing would still be charged to the block's draws, and pay for nothing
        ensure(bool(units), UnsoundTerms)
        sold = catalogue.open_service(service).terms
        ensure(catalogue.open_units.get() + len(units) <= UNITS_OPEN_MAX, TooManyOpen)
        for terms in units:
            self._check(sold, terms)
        oldest = min(terms.sealed_at for terms in units)  # who can judge this input can judge all
        dearest = max(terms.price_max for terms in units)
        seat = money.judge_seat(self.rules, dearest) + self.balances.existential_deposit
        judges = find_judges(self.state.devices, customer, oldest, seat)
        ensure(judges.is_enough, TooFewJudges)
        self._admit(service, units)
        for terms in units:
            self._post(customer, service, terms)
        catalogue.count_units(service, len(units))
        return judges.looks

    def costs(self, price_max: int, racers: int, requests: int) -> UnitCosts:
        """What a unit that is posted now goes by, and what its customer locks and prepays for it."""
        rules, rate, calls = self.rules, 0, money.duty_calls(racers)
        escrow = money.escrow(rules, price_max, racers)
        if self._is_leaf_checked(requests):
            rules, rate, calls = money.batch_rules(rules), rules.audit_rate_ppm, calls + money.CHECK_CALLS
            escrow = money.batch_escrow(rules, rate, price_max, racers, requests)
        return UnitCosts(rules, rate, escrow, self.duty_fee * calls)

    def _admit(self, service: int, units: tuple[UnitTerms, ...]) -> None:
        """MarketBusy unless what drawing the units may take has room among what this block took in before."""
        catalogue, height = self.state.catalogue, self.state.system.number.get()
        offers, before = catalogue.offer_count[service], self.admitted.get()
        total = before.weight if before.height == height else Weight(0, 0)
        if catalogue.service(service).last_post != height:
            catalogue.note_post(service, height)
            total += reading_weight(offers)
        for terms in units:
            total += draw_weight(offers, terms.racers)
        # bounded where they come in: a queue of draws that grew by more than a block can do would stop everybody's
        ensure(total.fits(ADMITTED_MAX), MarketBusy)
        self.admitted.set(AdmittedDraws(height, total))

    def _check(self, sold: ServiceTerms, terms: UnitTerms) -> None:
        """UnsoundTerms or StaleSealing unless the service sells such units now."""
        ensure(1 <= terms.racers <= RACERS_MAX and 1 <= terms.requests <= REQUESTS_MAX, UnsoundTerms)
        # a token for each at least: what is drawn of a batch to be looked at goes by what it allows
        ensure(terms.requests <= terms.tokens_max <= terms.requests * sold.tokens_max, UnsoundTerms)
        work = work_of(sold.input_share, terms.tokens_in, terms.tokens_max)
        least, most = price_of(sold.price_min, work), min(price_of(sold.price_max, work), PRICE_MAX)
        ensure(least <= terms.price_max <= most and lease_of(sold, work) <= UNIT_LEASE_MAX, UnsoundTerms)
        final = self.state.beacon.final_height()
        ensure(final - self.sealed_age_max <= terms.sealed_at <= final, StaleSealing)

    def _post(self, customer: bytes, service: int, terms: UnitTerms) -> None:
        system, number = self.state.system, self.posted[customer]
        height = system.number.get()
        asked = self.costs(terms.price_max, terms.racers, terms.requests)
        record = Unit(
            service=service,
            customer=customer,
            terms=terms,
            escrow=asked.escrow,
            bond=money.customer_bond(terms.price_max, self.customer_bond),
            deposit=self.unit_deposit,
            posted_at=height,
            recorded_at=height,
            input_share=self.state.catalogue.service(service).terms.input_share,
            rules=asked.rules,
            leaf_audit_ppm=asked.leaf_audit_ppm,
        )
        unit = OpenUnit(unit_id_of(system.block_hash[0], customer, number), record)
        self._prepay(customer, asked.prepaid)
        self.lock.lock(customer, Hold(UNIT_MONEY, unit.id), record.escrow + record.bond)
        self.lock.lock(customer, Hold(UNIT_DEPOSIT, unit.id), record.deposit)
        self.posted[customer] = number + 1
        self.queueing.enqueue(unit)
        self.state.emit(UnitPosted(unit.id, service, customer, terms.input_root, terms.price_max, terms.racers))

    def _is_leaf_checked(self, requests: int) -> bool:
        """Whether a batch of so many is checked by its leaves.

        In a small set none is: an auditor there leaves nobody to judge between it and who answered.
        """
        return self.is_checked(requests) and len(in_office(self.state.devices)) >= SMALL_SET

    def _prepay(self, customer: bytes, amount: int) -> None:
        """Burn what the unit's duty calls would have cost; those who do the duties pay nothing."""
        self.balances.debit(customer, amount)
        self.balances.retire(amount)
        self.state.emit(Withdraw(customer, amount))
