"""The life of a session: opened, drawn, claimed, handed over, closed, settled, each with its money."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from gpu_tasks.batches.requests import TOKEN, price_of
from gpu_tasks.market.claims.claim_events import ClaimEnded
from gpu_tasks.market.claims.claims import ClaimOutcome, ClaimStage
from gpu_tasks.market.claims.collateral import least_collateral
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.events import NotOwner, UnsafeSealKey
from gpu_tasks.market.inference.events import UnknownService
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.sessions import events as ev
from gpu_tasks.market.sessions import records
from gpu_tasks.market.sessions.records import FORMER_FIRST_BLOCKS, SessionEnd, SessionState, left_of, session_id_of
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.vouchers import session_claim_id
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.pots import TREASURY
from runtime.pallets.staking.slashing import part
from session_chain import (
    ALWAYS,
    DEPOSIT,
    INPUT_SHARE,
    PACE,
    RATE,
    SIGNER,
    TERM,
    claims,
    offers,
    opening,
    secured,
    session_chain,
)
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, MODEL, OGPU, WORKLOAD, Keys, refused, signed

FEE_PPM = InferenceMarket.settlement_fee.default
SETTLE = Sessions.session_settle_blocks.default
PLACE_RATE = RATE * PACE // 4_000


def no_check(*_: Any) -> None:
    """Replace the books, which know no case of a test."""


def free(chain: Any, who: bytes) -> int:
    return int(chain.now()[Balances].free_balance(who))


def net(amount: int) -> int:
    return amount - part(amount, FEE_PPM)


# ------------------------------------------------------------------------------------------------------------- opening


def test_an_opening_holds_the_money_and_freezes_the_terms() -> None:
    chain = session_chain()
    before = free(chain, CUSTOMER.stash)
    session_id = chain.open()
    session = chain.session(session_id)
    assert before - free(chain, CUSTOMER.stash) == DEPOSIT + Sessions.session_deposit.default
    assert session_id == session_id_of(GENESIS_HASH, CUSTOMER.stash, 0)
    assert (session.state, session.expires_at) == (SessionState.WAITING, chain.height + TERM)
    assert (session.workload, session.model, session.pace) == (WORKLOAD, MODEL, PACE)
    assert (session.rate, session.input_share, session.place_rate) == (RATE, INPUT_SHARE, PLACE_RATE)
    assert session.exposure == min(DEPOSIT, price_of(RATE, 900 * PACE * TOKEN))
    assert session.rules.check_rate_ppm == 0, "three validators check nothing"


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"service": 7}, UnknownService),
        ({"rate": RATE - 1}, ev.RateOutOfBounds),
        ({"rate": 1_000 * RATE + 1}, ev.RateOutOfBounds),
        ({"term": records.TERM_MIN - 1}, ev.TermOutOfBounds),
        ({"term": records.TERM_MAX + 1}, ev.TermOutOfBounds),
        ({"deposit": 0}, ev.SessionDepositTooSmall),
        ({"customer_key": bytes(32)}, UnsafeSealKey),
    ],
)
def test_a_bad_opening_is_refused(changed: dict[str, Any], error: Any) -> None:
    chain = session_chain()
    chain.block(refused(CUSTOMER.stash, opening(**changed), error))
    assert chain.room.session_count.get() == 0


def test_an_opening_pays_for_a_token_and_its_checks() -> None:
    chain = session_chain(5)
    fee_min = ResultClaims.check_fee_min.default
    chain.block(refused(CUSTOMER.stash, opening(deposit=2 * fee_min), ev.SessionDepositTooSmall))
    chain.block(signed(CUSTOMER.stash, opening(deposit=2 * fee_min + 1)))


def test_a_service_without_a_pace_has_no_sessions() -> None:
    chain = session_chain()
    chain.block(
        lambda bound: bound[InferenceMarket].services.__setitem__(0, _without_pace(bound[InferenceMarket].service(0)))
    )
    chain.block(refused(CUSTOMER.stash, opening(), ev.NoSessions))


def _without_pace(service: Any) -> Any:
    return replace(service, terms=replace(service.terms, pace=0))


def test_sessions_are_limited_for_a_customer_and_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = session_chain()
    monkeypatch.setattr("gpu_tasks.market.sessions.life.SESSIONS_PER_CUSTOMER_MAX", 2)
    chain.block(*(signed(CUSTOMER.stash, opening()) for _ in range(2)))
    chain.block(refused(CUSTOMER.stash, opening(), ev.TooManySessions))
    monkeypatch.setattr("gpu_tasks.market.sessions.life.SESSIONS_MAX", 3)
    alice = chain.validators[0].stash
    chain.block(signed(alice, opening()), refused(alice, opening(), ev.TooManySessions))


# --------------------------------------------------------------------------------------------------------------- draws


def test_a_beacon_draws_a_device_and_a_spare_of_another_owner() -> None:
    chain = session_chain()
    session_id = chain.seated()
    session = chain.session(session_id)
    (leg,) = session.legs
    assert session.state is SessionState.OPEN
    assert session.spare is not None
    assert session.spare.owner != leg.owner
    assert leg.since == session.spare.since == chain.height
    collateral = least_collateral(session.exposure, items=1, rate_ppm=1_000_000, vote_fee=10**5)
    assert leg.collateral == secured(chain, chain.keys_of(leg.owner)) >= collateral
    assert secured(chain, chain.keys_of(session.spare.owner)) == 0
    assert {chain.room.occupied[each].sessions for each in (leg.device, session.spare.device)} == {1}
    record = chain.now()[Devices].devices[leg.device]
    assert record is not None
    assert chain.now()[Devices].can_work(record), "the device takes other work"


def test_without_a_place_all_money_returns() -> None:
    chain = session_chain(places=0)
    before = free(chain, CUSTOMER.stash)
    session_id = chain.open()
    chain.blocks(4)
    assert chain.happened(ev.SessionEnded) == [ev.SessionEnded(session_id, SessionEnd.NO_PLACE, 0)]
    assert free(chain, CUSTOMER.stash) == before


def test_one_owner_alone_serves_without_a_spare() -> None:
    chain = session_chain(places=0)
    chain.block(signed(chain.validators[0].stash, offers(chain.validators[0], 1)))
    session = chain.session(chain.seated())
    assert session.spare is None
    chain.open()
    chain.blocks(4)
    assert chain.happened(ev.SessionEnded)[-1].end is SessionEnd.NO_PLACE, "its only place is taken"


def test_a_customer_is_not_drawn_for_its_own_session() -> None:
    chain = session_chain(2)
    alice, bob = chain.validators
    for changed in ({}, {"signer": alice.provider}):
        session_id = chain.open(alice if not changed else CUSTOMER, **changed)
        chain.blocks(4)
        session = chain.session(session_id)
        assert (session.legs[0].owner, session.spare) == (bob.stash, None)


@pytest.mark.parametrize("late", ["offer", "places", "bond", "place that became free"])
def test_a_change_after_the_recording_brings_no_device_into_the_draw(late: str) -> None:
    """Its owner may know the beacon."""
    chain = session_chain(1, places=1)
    (alice,) = chain.validators
    earlier = chain.seated() if late == "place that became free" else None
    session_id = chain.open()
    calls: dict[str, Any] = {
        "offer": InferenceMarket.offer(device=alice.device, service=0, ask=1),
        "places": offers(alice, 2),
        "bond": Devices.bond_device_extra(device=alice.device, value=1),
    }
    if earlier is None:
        chain.block(signed(alice.stash, calls[late]))
    else:
        chain.block(chain.claim(earlier, is_last=True))
    chain.blocks(4)
    assert chain.is_over(session_id)
    assert chain.seated(), "a later session finds the place"


def test_a_device_of_a_task_and_a_paused_device_are_not_drawn() -> None:
    chain = session_chain(2, check=no_check)
    alice, bob = chain.validators
    chain.block(
        signed(alice.stash, Devices.pause(device=alice.device)),
        lambda bound: bound[Devices].assign(bob.device, b"t" * 32),
    )
    session_id = chain.open()
    chain.blocks(4)
    assert chain.is_over(session_id)


def test_a_session_whose_beacon_was_dropped_is_recorded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finality halted for longer than the beacon remembers."""
    chain = session_chain()
    session_id = chain.open()
    with monkeypatch.context() as dropped:
        dropped.setattr(Beacon, "value_at", lambda *_: None)
        chain.blocks(3)
    assert chain.session(session_id).recorded_at == chain.height
    chain.blocks(3)
    assert chain.session(session_id).state is SessionState.OPEN


# --------------------------------------------------------------------------------------------------------------- money


def test_a_claim_that_passes_pays_its_amount_less_the_fee() -> None:
    chain = session_chain()
    session_id = chain.seated(term=2_000)
    provider = chain.leg(session_id).owner
    before, treasury = free(chain, provider), free(chain, TREASURY)
    chain.block(chain.claim(session_id, 1_000))
    session = chain.session(session_id)
    assert (session.period, session.reserved, session.paid) == (1, RATE, 0)
    chain.blocks(3)
    session = chain.session(session_id)
    assert (session.reserved, session.paid, left_of(session)) == (0, RATE, DEPOSIT - RATE)
    assert session.legs[0].engaged == 0
    assert free(chain, provider) - before == net(RATE)
    assert free(chain, TREASURY) - treasury == part(RATE, FEE_PPM) // 2


def test_a_place_earns_its_least_pay_and_the_rest_returns() -> None:
    chain = session_chain()
    before = free(chain, CUSTOMER.stash)
    session_id = chain.seated(term=200)
    leg = chain.leg(session_id)
    provider = free(chain, leg.owner)
    chain.block(chain.claim(session_id, 64))
    amount, expires_at = 64 * RATE // 1_000, chain.session(session_id).expires_at
    chain.blocks_to(expires_at)
    assert chain.session(session_id).state is SessionState.CLOSING
    chain.blocks_to(expires_at + SETTLE + 1)
    owed = PLACE_RATE * (expires_at - leg.since)
    assert amount < owed
    assert chain.happened(ev.PlacePaid) == [ev.PlacePaid(session_id, 0, leg.owner, leg.device, owed - amount)]
    chain.block()
    assert chain.happened(ev.SessionEnded) == [ev.SessionEnded(session_id, SessionEnd.SETTLED, owed)]
    assert free(chain, leg.owner) - provider == net(amount) + net(owed - amount)
    assert before - free(chain, CUSTOMER.stash) == owed
    assert secured(chain, chain.keys_of(leg.owner)) == 0
    assert not list(chain.room.device_sessions.items())


def test_a_small_deposit_bounds_the_pay_of_the_place() -> None:
    chain = session_chain()
    session_id = chain.seated(deposit=PLACE_RATE * 3)
    chain.play_out(session_id)
    assert chain.happened(ev.SessionEnded)[-1].paid == PLACE_RATE * 3


def test_a_last_claim_frees_the_device_early_and_a_close_ends_the_session() -> None:
    chain = session_chain()
    session_id = chain.seated()
    leg, since = chain.leg(session_id), chain.leg(session_id).since
    chain.block(chain.claim(session_id, 1_000, is_last=True))
    left_at = chain.height
    chain.blocks(4)
    session = chain.session(session_id)
    assert session.state is SessionState.OPEN
    assert session.legs[0].is_released
    assert session.paid == max(RATE, PLACE_RATE * (left_at - since))
    assert secured(chain, chain.keys_of(leg.owner)) == 0
    chain.block(signed(SIGNER, Sessions.close(session=session_id)))
    chain.block()
    assert chain.is_over(session_id)


@pytest.mark.parametrize("who", ["customer", "signer", "provider"])
def test_each_party_closes_and_the_provider_claims_for_a_while(who: str) -> None:
    chain = session_chain()
    session_id = chain.seated()
    leg = chain.leg(session_id)
    closers = {"customer": CUSTOMER.stash, "signer": SIGNER, "provider": chain.provider(session_id).provider}
    chain.block(signed(closers[who], Sessions.close(session=session_id)))
    session, closed_at = chain.session(session_id), chain.height
    assert (session.state, session.legs[0].left_at) == (SessionState.CLOSING, closed_at)
    assert session.spare is not None
    assert (session.spare.left_at, session.spare.is_over) == (closed_at, True)
    chain.block(refused(closers[who], Sessions.close(session=session_id), ev.SessionNotOpen))
    chain.blocks_to(closed_at + SETTLE - 1)
    chain.block(chain.claim(session_id, 1_000))
    chain.block(refused(leg.owner, claims(session_id, 1), ev.ClaimsOver))
    chain.play_out(session_id)


def test_a_waiting_session_is_withdrawn_at_once() -> None:
    chain = session_chain()
    before = free(chain, CUSTOMER.stash)
    session_id = chain.open()
    chain.block(refused(chain.validators[0].stash, Sessions.close(session=session_id), ev.NotSessionParty))
    chain.block(signed(CUSTOMER.stash, Sessions.close(session=session_id)))
    assert chain.events[-1] == ev.SessionEnded(session_id, SessionEnd.WITHDRAWN, 0)
    assert free(chain, CUSTOMER.stash) == before
    chain.block(refused(CUSTOMER.stash, Sessions.close(session=session_id), ev.UnknownSession))


# ----------------------------------------------------------------------------------------------------------- hand-over


def test_the_spare_goes_on_and_the_former_provider_claims_one_period() -> None:
    chain = session_chain()
    session_id = chain.seated()
    former, spare = chain.leg(session_id), chain.session(session_id).spare
    assert spare is not None
    chain.block(chain.claim(session_id))
    chain.block(signed(SIGNER, Sessions.hand_over(session=session_id)))
    first, second = chain.session(session_id).legs
    assert (first.left_at, second.owner, second.device) == (chain.height, spare.owner, spare.device)
    assert (second.first_period, chain.session(session_id).period) == (2, 2)
    chain.block(
        refused(former.owner, claims(session_id, 2), ev.WrongVoucher),
        refused(second.owner, claims(session_id, 1), ev.FormerClaimsFirst),
        refused(second.owner, claims(session_id, 2), ev.FormerClaimsFirst),
        signed(former.owner, claims(session_id, 1)),
        signed(second.owner, claims(session_id, 2)),
        refused(former.owner, claims(session_id, 1), ev.ClaimsOver),
        refused(SIGNER, Sessions.hand_over(session=session_id), ev.SpareUnable),
        refused(former.owner, Sessions.close(session=session_id), ev.NotSessionParty),
    )
    chain.blocks(4)
    assert [leg.is_released for leg in chain.session(session_id).legs] == [True, False]
    chain.block(signed(second.owner, Sessions.close(session=session_id)))
    chain.block(chain.claim(session_id, is_last=True))
    chain.play_out(session_id)
    assert len(chain.happened(ev.PlacePaid)) == 2


def test_a_new_provider_takes_nothing_that_the_former_one_was_promised() -> None:
    """The customer and the spare are one party. It is refused for ten blocks, and the former provider claims."""
    chain = session_chain()
    session_id = chain.seated(deposit=OGPU // 2, term=2_000)
    half = left_of(chain.session(session_id)) * 600 // RATE
    former = chain.claim(session_id, half)
    chain.block(signed(CUSTOMER.stash, Sessions.hand_over(session=session_id)))
    mate = chain.leg(session_id).owner
    chain.blocks(FORMER_FIRST_BLOCKS - 1)
    chain.block(refused(mate, claims(session_id, 1, half), ev.FormerClaimsFirst))
    chain.block(former, refused(mate, claims(session_id, 1, half), ev.VoucherUnfunded))


def test_a_silent_former_provider_delays_the_new_one_by_ten_blocks() -> None:
    chain = session_chain()
    session_id = chain.seated(term=2_000)
    chain.block(signed(CUSTOMER.stash, Sessions.hand_over(session=session_id)))
    chain.blocks(FORMER_FIRST_BLOCKS)
    chain.block(chain.claim(session_id))


def test_a_former_provider_that_claims_nothing_is_free_after_its_window() -> None:
    chain = session_chain()
    session_id = chain.seated(term=2_000)
    former = chain.leg(session_id)
    chain.block(signed(CUSTOMER.stash, Sessions.hand_over(session=session_id)))
    chain.blocks(SETTLE)
    chain.block(refused(former.owner, claims(session_id, 0), ev.ClaimsOver))
    assert chain.session(session_id).legs[0].is_released
    assert secured(chain, chain.keys_of(former.owner)) == 0


def _secure_all(keys: Keys, bound: Bound) -> None:
    record = bound[Devices].devices[keys.device]
    assert record is not None
    bound[Devices].secure(keys.device, b"o" * 32, record.bond)


@pytest.mark.parametrize("reason", ["paused", "no free bond", "gone"])
def test_an_unable_spare_does_not_go_on(reason: str) -> None:
    chain = session_chain(check=no_check if reason == "no free bond" else None)
    session_id = chain.seated()
    spare = chain.session(session_id).spare
    assert spare is not None
    keys = chain.keys_of(spare.owner)
    if reason == "paused":
        chain.block(signed(keys.stash, Devices.pause(device=keys.device)))
    elif reason == "no free bond":
        chain.block(partial(_secure_all, keys))
    else:
        calls = (
            offers(keys, 0),
            InferenceMarket.withdraw_offer(device=keys.device, service=0),
            Devices.unregister_device(device=keys.device),
        )
        chain.block(*(signed(keys.stash, each) for each in calls))
    chain.block(refused(CUSTOMER.stash, Sessions.hand_over(session=session_id), ev.SpareUnable))
    chain.block(signed(CUSTOMER.stash, Sessions.close(session=session_id)))
    chain.block(chain.claim(session_id, is_last=True))
    chain.play_out(session_id)
    assert not list(chain.room.device_sessions.items())
    assert spare.device not in chain.room.occupied or reason != "gone"


# ----------------------------------------------------------------------------------------------- outcomes of claims


def test_a_checked_claim_pays_its_checkers_from_the_deposit() -> None:
    chain = session_chain(7, constants=ALWAYS)
    session_id = chain.seated(term=2_000)
    chain.block(chain.claim(session_id, 1_000, requests=3))
    session = chain.session(session_id)
    assert session.reserved > RATE
    while chain.session(session_id).legs[0].claims:
        chain.play()
    session = chain.session(session_id)
    assert session.reserved == 0
    assert session.paid > RATE, "the checks are paid beside the amount"
    assert [each.outcome for each in chain.happened(ClaimEnded)] == [ClaimOutcome.PASSED]


def test_a_refuted_provider_loses_its_collateral_its_pay_and_the_pay_of_its_place() -> None:
    chain = session_chain(7, constants=ALWAYS)
    session_id = chain.seated(term=2_000)
    leg = chain.leg(session_id)
    chain.mute = frozenset((leg.owner,))
    chain.block(chain.claim(session_id, 1_000))
    at_stake = chain.leg(session_id).engaged
    while chain.leg(session_id).claims:
        chain.play()
    after = chain.leg(session_id)
    assert after.is_refuted
    assert after.collateral == leg.collateral - at_stake
    assert chain.session(session_id).paid == 0
    assert chain.device(chain.keys_of(leg.owner)).is_paused
    chain.block(signed(CUSTOMER.stash, Sessions.hand_over(session=session_id)))
    chain.blocks(SETTLE + 2)
    assert chain.happened(ev.PlacePaid)[-1].amount == 0
    chain.block(signed(CUSTOMER.stash, Sessions.close(session=session_id)))
    chain.play_out(session_id)


def test_an_undecided_claim_returns_its_amount() -> None:
    chain = session_chain(7, constants=ALWAYS, verdict=Verdict.WRONG)
    session_id = chain.seated(term=2_000)
    chain.block(chain.claim(session_id, 1_000))
    claim_id = session_claim_id(session_id, 0)
    while chain.now()[ResultClaims].open_claim(claim_id).stage is not ClaimStage.DISPUTED:
        chain.play()
    chain.decide_nothing(claim_id)
    session = chain.session(session_id)
    assert [each.outcome for each in chain.happened(ClaimEnded)] == [ClaimOutcome.RETURNED]
    assert (session.reserved, session.paid) == (0, 0)
    assert session.legs[0].collateral == secured(chain, chain.provider(session_id))


# -------------------------------------------------------------------------------------------------------------- places


def test_places_stand_beside_a_standing_offer(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = session_chain(2, places=0)
    alice, bob = chain.validators
    with_one = Sessions.offer_places(device=alice.device, service=1, places=1)
    chain.block(
        refused(bob.stash, offers(alice, 1), NotOwner),
        refused(alice.stash, offers(alice, records.PLACES_MAX + 1), ev.TooManyPlaces),
        refused(alice.stash, offers(alice, 0), UnknownService),
        refused(alice.stash, with_one, UnknownService),
        signed(alice.provider, offers(alice, records.PLACES_MAX)),
    )
    assert chain.device(alice).offers == 2
    with monkeypatch.context() as full:
        full.setattr("gpu_tasks.market.sessions.places.PLACE_OFFERS_PER_SERVICE_MAX", 1)
        chain.block(refused(bob.stash, offers(bob, 1), ev.TooManyPlaces), signed(alice.stash, offers(alice, 1)))
    chain.block(
        signed(alice.stash, offers(alice, 0)),
        signed(alice.stash, InferenceMarket.withdraw_offer(device=alice.device, service=0)),
        signed(alice.stash, Devices.unregister_device(device=alice.device)),
    )
    assert not list(chain.room.occupied.items())
    assert not list(chain.room.place_offer_count.items())


def test_a_device_offers_places_for_a_bounded_number_of_services(monkeypatch: pytest.MonkeyPatch) -> None:
    """A place offer outlives its offer, so the offers alone do not bound it."""
    monkeypatch.setattr("gpu_tasks.market.sessions.places.OFFERS_PER_DEVICE_MAX", 1)
    chain = session_chain(1)
    (alice,) = chain.validators
    market = chain.now()[InferenceMarket]
    chain.block(signed(CUSTOMER.stash, InferenceMarket.create_service(terms=market.service(0).terms)))
    chain.block(
        signed(alice.stash, InferenceMarket.withdraw_offer(device=alice.device, service=0)),
        signed(alice.stash, InferenceMarket.offer(device=alice.device, service=1, ask=1)),
        refused(alice.stash, Sessions.offer_places(device=alice.device, service=1, places=1), ev.TooManyPlaces),
    )
    session_id = chain.open()
    chain.blocks(4)
    assert chain.is_over(session_id), "places without an offer serve nobody"


def test_a_service_that_closes_leaves_its_sessions() -> None:
    chain = session_chain()
    session_id = chain.seated()
    chain.block(signed(CUSTOMER.stash, InferenceMarket.close_service(service=0)))
    chain.block(refused(CUSTOMER.stash, opening(), UnknownService))
    chain.block(chain.claim(session_id, 1_000))
    chain.block(signed(CUSTOMER.stash, Sessions.hand_over(session=session_id)))
    chain.play_out(session_id)


def test_collateral_covers_the_unchecked_part_alone() -> None:
    chain = session_chain()
    session_id = chain.seated(deposit=20 * OGPU)
    exposure = chain.session(session_id).exposure
    tokens = exposure * 1_000 // RATE
    more = refused(chain.leg(session_id).owner, claims(session_id, 1, 64), ev.TooManyUnchecked)
    chain.block(chain.claim(session_id, tokens), more)
    chain.blocks(3)
    chain.block(chain.claim(session_id, 64))
