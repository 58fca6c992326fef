"""The migration of the market: services, offers and units as the program before stored them, and how they go on."""

from dataclasses import replace

import pytest

from gpu_tasks.batches.work import price_of
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.migrations.from_flat_prices import (
    FlatRacer,
    FlatReveal,
    FlatService,
    FlatServiceTerms,
    FlatUnit,
    FlatUnitTerms,
)
from gpu_tasks.market.inference.money import due, work_allowed
from gpu_tasks.market.inference.rules import DEFAULT_RULES
from gpu_tasks.market.inference.services import Offer
from gpu_tasks.market.inference.units import Refund, Unit, UnitState
from gpu_tasks.market.rounds import Round
from runtime.encoding.codec import codec
from runtime.frame.storage import storage_prefix
from runtime.frame.storage_version import migrate, version_key, version_value
from scripts.chains.market_chain import CUSTOMER, MODEL, WORKLOAD, MarketChain, named_keys
from scripts.chains.market_chain import terms as terms_now

TERMS = FlatServiceTerms(b"x", WORKLOAD, MODEL, 1_000_000, 50_000_000, 10, 30, 256)
ASKED = FlatUnitTerms(40_000_000, 2, b"i" * 32, b"c" * 32, 3, 64)
ANSWER = FlatRacer(
    b"o" * 32, b"d" * 32, 9, b"h" * 32, 7, FlatReveal(b"r" * 32, b"b" * 32, 5, 9), has_declined=False, is_late=False
)
UNIT = FlatUnit(
    0, CUSTOMER.stash, ASKED, 60, 5, 7, 1, 2, UnitState.RACING, 1, 40_000_000, Round(4), (ANSWER,), (),
    (b"z" * 32,), None, 0, 0, is_watched=False, is_refuted=False, asleep_since=0,
    rules=DEFAULT_RULES, is_refilling=False, refund=None,
)  # fmt: skip


def migrated(unit: FlatUnit = UNIT, terms: FlatServiceTerms = TERMS, ask: int = 2_000_000) -> InferenceMarket:
    chain = MarketChain(named_keys(2))
    bound = chain.now()
    market, overlay = bound[InferenceMarket], bound.overlay
    device = chain.validators[0].device
    market.units[b"u" * 32] = Unit(0, CUSTOMER.stash, terms_now(), 0, 0, 0, 0, 0)
    keys = {name: next(iter(overlay.keys(storage_prefix("InferenceMarket", name)))) for name in ("Services", "Units")}
    overlay.store_raw(keys["Services"], codec(FlatService).encode(FlatService(b"w" * 32, terms, 5, 1, True, 0)))
    overlay.store_raw(keys["Units"], codec(FlatUnit).encode(unit))
    market.offers[0, device] = Offer(ask, 3, 4)
    overlay.store_raw(version_key("InferenceMarket"), version_value(0))
    migrate(bound.pallets)
    after = MarketChain(named_keys(2))
    after.state = chain.state.updated(overlay.changes())
    found = after.now()[InferenceMarket]
    offer = found.offers[0, device]
    assert offer is not None
    assert (offer.since, offer.deposit) == (3, 4)
    return found


def test_an_offer_and_its_service_meet_where_they_met() -> None:
    market = migrated()
    sold = market.catalogue.service(0).terms
    whole = 256 * 1_000_000
    assert (price_of(sold.price_min, whole), price_of(sold.price_max, whole)) == (1_000_000, 50_000_000)
    assert (sold.input_share, sold.pace, sold.tokens_max, sold.lease) == (0, 0, 256, 30)
    (offer,) = (each for _, each in market.offers.under(0) if each is not None and each.since == 3)
    assert price_of(offer.ask, whole) == 2_000_000


def test_no_price_becomes_nothing() -> None:
    cheap = migrated(terms=FlatServiceTerms(b"x", WORKLOAD, MODEL, 1, 1, 10, 30, 2**32 - 1), ask=1)
    sold = cheap.catalogue.service(0).terms
    assert (sold.price_min, sold.price_max) == (1, 1)
    assert {each.ask for _, each in cheap.offers.under(0) if each is not None} >= {1}


def test_a_unit_that_was_posted_before_is_paid_whole_and_keeps_everything_else() -> None:
    unit = migrated().units[b"u" * 32]
    assert unit is not None
    (racer,) = unit.racers
    assert (unit.terms.requests, unit.terms.tokens_in, unit.terms.tokens_max, unit.input_share) == (1, 0, 64, 0)
    assert racer.reveal is not None
    assert (racer.reveal.output_root, racer.reveal.revealed_at) == (b"r" * 32, 9)
    assert due(unit, racer) == unit.price == 40_000_000
    assert work_allowed(unit) == 64 * 1_000_000
    assert (unit.state, unit.attempt, unit.round, unit.declined_by) == (UnitState.RACING, 1, Round(4), (b"z" * 32,))
    assert (unit.escrow, unit.bond, unit.deposit, unit.rules) == (60, 5, 7, DEFAULT_RULES)


@pytest.mark.parametrize("state", UnitState)
def test_every_state_is_kept(state: UnitState) -> None:
    before = replace(UNIT, state=state, racers=(), decliners=(ANSWER,), output_root=b"r" * 32, refund=Refund.EXPIRED)
    unit = migrated(before).units[b"u" * 32]
    assert unit is not None
    assert (unit.state, unit.refund, unit.output_root, len(unit.decliners)) == (state, Refund.EXPIRED, b"r" * 32, 1)
