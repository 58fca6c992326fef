"""The post of a unit: checks of its terms, and a lock of its greatest cost.

Invariants: every grain that an outcome can pay is held from here on, so no end can fail for lack of money. The draws of
all units that a block admits fit into half of one block's draw budget, so admitted units are drawn in time.
"""

from dataclasses import dataclass

from gpu_tasks.batches.requests import REQUESTS_MAX, price_of, work_of
from gpu_tasks.market.devices.checkers import in_office
from gpu_tasks.market.inference import catalogue, money, queue
from gpu_tasks.market.inference.checkers_left import LOOK_WEIGHT, find_checkers, is_checked_set
from gpu_tasks.market.inference.events import (
    MarketBusy,
    StaleSealing,
    TooFewCheckers,
    TooManyOpen,
    UnitPosted,
    UnsoundTerms,
)
from gpu_tasks.market.inference.rules import UnitRules
from gpu_tasks.market.inference.services import PRICE_MAX, UNIT_COMMIT_WINDOW_MAX, ServiceTerms, commit_window_of
from gpu_tasks.market.inference.slots import draw_weight, reading_weight
from gpu_tasks.market.inference.storage import AdmittedDraws, InferenceStorage
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
from runtime.encoding.types import Weight
from runtime.frame.measured import times
from runtime.frame.pallet import Hold, ensure
from runtime.frame.weights import work
from runtime.pallets.balances import Withdraw

ADMITTED_MAX = work(microseconds=80_000)
"""The most weight of the draws of all units that one block admits: half of `DRAW_BUDGET`."""


def post_weight(units: tuple[UnitTerms, ...], look_count: int) -> Weight:
    """Return the weight of a post that reads `look_count` validators, with the draws that its units will cause.

    It excludes the search for slots, which `ADMITTED_MAX` bounds.
    """
    weight = WEIGHTS["InferenceMarket.post"] + times(len(units), WEIGHTS["InferenceMarket.post unit"])
    weight += times(look_count, LOOK_WEIGHT)
    for terms in units:
        weight += draw_weight(0, terms.racers)
    return weight


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """The rules of a unit from its post on, and its greatest cost to the customer, in grains."""

    rules: UnitRules
    escrow: int
    prepaid: int
    """The burned prepayment of the unit's duty calls."""


def post(market: InferenceStorage, customer: bytes, service: int, units: tuple[UnitTerms, ...]) -> int:
    """Queue units of a service, each with its money. Return the validators read in the search for voters."""
    # An empty post would be charged to the block's draws and pay nothing for it.
    ensure(bool(units), UnsoundTerms)
    service_terms = market.open_service(service).terms
    ensure(market.open_unit_count.get() + len(units) <= UNITS_OPEN_MAX, TooManyOpen)
    for terms in units:
        _check(market, service_terms, terms)
    # A validator that can read the earliest sealed input can read all of them: its key is old enough for each.
    sealed_at = min(terms.sealed_at for terms in units)
    checkers_found = find_checkers(market.devices, customer, sealed_at)
    ensure(checkers_found.is_enough, TooFewCheckers)
    _admit(market, service, units)
    for terms in units:
        _post(market, customer, service, terms)
    catalogue.count_units(market, service, len(units))
    return checkers_found.looks


def costs(market: InferenceStorage, service_terms: ServiceTerms, price_max: int, racer_count: int) -> UnitCosts:
    """Return the rules of a unit that is posted now, with the amounts that its customer locks and prepays."""
    is_checked = is_checked_set(len(in_office(market.devices)))
    rules = market.rules(service_terms.check_ppm, is_checked=is_checked)
    escrow_grains = money.escrow(rules, price_max, racer_count)
    return UnitCosts(rules, escrow_grains, market.duty_fee * money.duty_calls(racer_count))


def _admit(market: InferenceStorage, service_number: int, units: tuple[UnitTerms, ...]) -> None:
    """Raise MarketBusy unless the most weight of these draws fits beside the earlier posts of this block."""
    current_height, offer_count, admitted_before = (
        market.height,
        market.offer_count[service_number],
        market.admitted_draws.get(),
    )
    admitted_weight = admitted_before.weight if admitted_before.height == current_height else Weight(0, 0)
    # The draws read a service's slots once for all posts of a block, so only the first one pays for that.
    if market.service(service_number).last_post != current_height:
        catalogue.note_post(market, service_number, current_height)
        admitted_weight += reading_weight(offer_count)
    for terms in units:
        admitted_weight += draw_weight(offer_count, terms.racers)
    # The limit applies at admission: a backlog of draws that outgrows the blocks would stop all draws.
    ensure(admitted_weight.fits(ADMITTED_MAX), MarketBusy)
    market.admitted_draws.set(AdmittedDraws(current_height, admitted_weight))


def _check(market: InferenceStorage, terms: ServiceTerms, unit_terms: UnitTerms) -> None:
    """Raise UnsoundTerms or StaleSealing unless the service sells such units now."""
    ensure(1 <= unit_terms.racers <= RACERS_MAX and 1 <= unit_terms.requests <= REQUESTS_MAX, UnsoundTerms)
    # At least one token a request: the floor of leaf weights depends on it, and without it lies would pay
    # (docs/batches.md).
    ensure(unit_terms.requests <= unit_terms.tokens_max <= unit_terms.requests * terms.tokens_max, UnsoundTerms)
    unit_work = work_of(terms.input_share, unit_terms.tokens_in, unit_terms.tokens_max)
    least_price = price_of(terms.price_min, unit_work)
    greatest_price = min(price_of(terms.price_max, unit_work), PRICE_MAX)
    ensure(least_price <= unit_terms.price_max <= greatest_price, UnsoundTerms)
    ensure(commit_window_of(terms, unit_work) <= UNIT_COMMIT_WINDOW_MAX, UnsoundTerms)
    # With an old height, few current validators could read the input: a checker's key must not be younger.
    final_height = market.beacon.final_height()
    ensure(final_height - market.sealed_age_max <= unit_terms.sealed_at <= final_height, StaleSealing)


def _post(market: InferenceStorage, customer: bytes, service_number: int, terms: UnitTerms) -> None:
    current_height, post_number = market.height, market.post_counts[customer]
    service_terms = market.service(service_number).terms
    unit_costs = costs(market, service_terms, terms.price_max, terms.racers)
    record = Unit(
        service=service_number,
        customer=customer,
        terms=terms,
        escrow=unit_costs.escrow,
        bond=money.customer_bond(terms.price_max, market.customer_bond),
        deposit=market.unit_deposit,
        posted_at=current_height,
        recorded_at=current_height,
        input_share=service_terms.input_share,
        rules=unit_costs.rules,
    )
    unit = OpenUnit(unit_id_of(market.system.block_hash[0], customer, post_number), record)
    _prepay(market, customer, unit_costs.prepaid)
    market.lock.lock(customer, Hold(UNIT_MONEY, unit.id), record.escrow + record.bond)
    market.lock.lock(customer, Hold(UNIT_DEPOSIT, unit.id), record.deposit)
    # Ids count all posts of a customer and never repeat, so no hold or claim is named twice.
    market.post_counts[customer] = post_number + 1
    queue.enqueue(market, unit)
    market.emit(UnitPosted(unit.id, service_number, customer, terms.input_root, terms.price_max, terms.racers))


def _prepay(market: InferenceStorage, customer: bytes, prepaid_grains: int) -> None:
    """Burn the cost of the unit's duty calls in advance, so that providers and checkers pay nothing for duties."""
    market.balances.debit(customer, prepaid_grains)
    market.balances.retire(prepaid_grains)
    market.emit(Withdraw(customer, prepaid_grains))
