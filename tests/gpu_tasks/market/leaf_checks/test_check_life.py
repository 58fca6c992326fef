"""A check of a batch from its settlement to each of its ends: statements and payments."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.market.courts.cases import PartyFault
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.handlers import CaseRuling
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Answered
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.draws import BEACON_DELAY
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.events import ProviderSlashed, ResultRefuted
from gpu_tasks.market.inference.gpu_tasks_api import GpuTasksApi
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.numbers import DUTY_FEE
from gpu_tasks.market.leaf_checks.checks import CheckOutcome, LeafStage
from gpu_tasks.market.leaf_checks.events import AuditorDrawn, AuditorSilent, LeafCheckEnded, LeavesDrawn
from gpu_tasks.market.leaf_checks.fees import dispute_bond
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_checks.storage import seat_of
from runtime.cryptography.signatures import verify
from runtime.frame.api import Apis
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from simulation.chains.batch_chain import TOKENS_EACH, LeafChain
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, signed, terms

ALL_PPM = 1_000_000


def outcome(stage: LeafChain) -> CheckOutcome:
    (ended,) = stage.chain.happened(LeafCheckEnded)
    return CheckOutcome(ended.outcome)


def test_leaves_that_are_right_pass_and_their_auditor_is_paid() -> None:
    stage = LeafChain()
    unit = stage.settled()
    auditor = stage.shown(unit)
    fee, before = stage.check(unit).terms.fee, stage.owned(auditor.stash)
    stage.chain.block(stage.passes(unit, auditor))
    stage.until(unit)
    assert outcome(stage) is CheckOutcome.PASSED
    assert stage.owned(auditor.stash) == before + fee
    assert not stage.unit(unit).is_watched
    assert not stage.unit(unit).is_refuted
    assert not stage.chain.happened(ProviderSlashed)


def test_a_batch_costs_its_auditor_and_a_part_of_what_looks_at_that() -> None:
    stage = LeafChain()
    before = stage.owned(CUSTOMER.stash)
    unit = stage.settled()
    record = stage.unit(unit)
    fee = money.check_fee(record.rules, record.price, stage.requests)
    assert fee == max(record.price * 2 // 40, record.rules.judge_fee_min)
    due = stage.check(unit).terms.price
    witness = money.witness_pay(record.rules, due)
    premium = money.premium_of(record)
    assert premium == -(-2 * fee * 50_000 // ALL_PPM)
    assert record.paid == due + witness + premium + fee
    auditor = stage.shown(unit)
    stage.chain.block(stage.passes(unit, auditor))
    stage.until(unit)
    calls = money.duty_calls(2) + money.CHECK_CALLS
    assert before - stage.owned(CUSTOMER.stash) == record.paid + calls * DUTY_FEE


def test_the_quote_of_a_batch_is_what_is_locked() -> None:
    stage = LeafChain()
    before = stage.chain.now()[Balances].free_balance(CUSTOMER.stash)
    apis = Apis(stage.chain.runtime, (GpuTasksApi,))
    quote = GpuTasksApi(apis, stage.chain.state, GENESIS_HASH, verify).quote(0, stage.price, 2, stage.requests)
    assert quote is not None
    asked = replace(terms(stage.price, 2, 0, stage.requests * TOKENS_EACH), requests=stage.requests)
    stage.chain.post(asked)
    balances = stage.chain.now()[Balances]
    assert balances.reserved_balance(CUSTOMER.stash) == quote.locked
    assert before - balances.free_balance(CUSTOMER.stash) == quote.locked + quote.prepaid


def test_who_answers_stands_for_no_more_than_it_costs_to_judge_it() -> None:
    stage = LeafChain()
    unit = stage.settled()
    record = stage.unit(unit)
    fee = money.fee_of_judge(record.rules, record.price)
    assert record.racers[0].collateral == record.price + 5 * fee


@pytest.mark.parametrize("numbers", [{"LeafChecks.check_from": 0}, {"LeafChecks.check_from": 41}])
def test_other_batches_are_audited_as_single_units_are(numbers: dict[str, Any]) -> None:
    stage = LeafChain(numbers=numbers)
    unit = stage.settled()
    record = stage.unit(unit)
    assert record.leaf_audit_ppm == 0
    assert record.racers[0].collateral == money.collateral(record.rules, record.price) > 20 * record.price
    assert unit in stage.chain.now()[Courts].cases
    assert stage.is_over(unit)


def test_a_batch_of_as_many_requests_as_the_least_is_checked_by_leaves() -> None:
    stage = LeafChain(numbers={"LeafChecks.check_from": 40})
    assert stage.unit(stage.settled()).leaf_audit_ppm > 0


def test_a_small_set_has_nobody_to_spare_for_an_auditor() -> None:
    stage = LeafChain(size=5)
    unit = stage.settled()
    assert stage.unit(unit).leaf_audit_ppm == 0


def test_a_wrong_leaf_that_is_drawn_costs_who_answered_its_collateral() -> None:
    stage = LeafChain()
    unit = stage.settled(wrong=range(40))
    auditor = stage.shown(unit)
    index = stage.check(unit).shown[0].index
    liars = [keys.stash for keys in stage.answerers(unit)]
    held = [each.held for each in stage.check(unit).terms.answerers]
    terms, owned = stage.check(unit).terms, [stage.owned(who) for who in liars]
    customer, auditors = stage.owned(CUSTOMER.stash), stage.owned(auditor.stash)
    stage.chain.block(stage.doubts(unit, auditor, index, stage.claim(unit, index)))
    stage.until(unit)
    assert outcome(stage) is CheckOutcome.REFUTED
    lost = [before - stage.owned(who) for who, before in zip(liars, owned, strict=True)]
    assert lost == held, "two liars who stand for all of it: nobody but a coalition of a third could be robbed"
    # the customer's fee for the check was counted as the customer's until now
    assert stage.owned(CUSTOMER.stash) == customer + terms.price - terms.fee
    assert stage.owned(auditor.stash) == auditors + terms.fee
    assert stage.unit(unit).is_refuted
    assert [event.output_root for event in stage.chain.happened(ResultRefuted)] == [terms.output_root]
    assert len(stage.chain.happened(ProviderSlashed)) == 2


def test_who_doubts_a_right_leaf_pays_its_judges_and_is_followed_by_another_auditor() -> None:
    stage = LeafChain()
    unit = stage.settled()
    auditor = stage.shown(unit)
    index, before = stage.check(unit).shown[0].index, stage.owned(auditor.stash)
    stage.chain.block(stage.doubts(unit, auditor, index, stage.claim(unit, index, is_right=False)))
    stage.until(unit, LeafStage.CHECKING)
    assert stage.owned(auditor.stash) < before - stage.check(unit).terms.price
    second = stage.auditor(unit)
    assert second != auditor
    stage.chain.block(stage.passes(unit, second))
    stage.until(unit)
    assert outcome(stage) is CheckOutcome.PASSED
    assert not stage.chain.happened(ProviderSlashed)


def test_who_shows_nothing_loses_as_who_lies() -> None:
    stage = LeafChain()
    unit = stage.settled()
    check = stage.until(unit, LeafStage.SHOWING)
    assert check is not None
    owners = [(each.account, each.held, stage.owned(each.account)) for each in check.terms.answerers]
    customer, pot = stage.owned(CUSTOMER.stash), stage.pot
    stage.until(unit)
    assert outcome(stage) is CheckOutcome.WITHHELD
    assert [before - stage.owned(who) for who, _, before in owners] == [held for _, held, _ in owners]
    assert stage.owned(CUSTOMER.stash) == customer + check.terms.price - check.terms.fee
    assert stage.pot == pot + check.terms.fee
    assert stage.unit(unit).is_refuted


def test_any_of_those_who_answered_may_show_them() -> None:
    stage = LeafChain()
    unit = stage.settled()
    stage.until(unit, LeafStage.SHOWING)
    stage.chain.block(signed(stage.answerers(unit)[1].provider, stage.show_call(unit)))
    stage.auditor(unit)


def test_of_silent_auditors_each_pays_a_fee_if_a_later_one_could_look() -> None:
    stage = LeafChain()
    unit = stage.settled()
    first = stage.shown(unit)
    before = stage.owned(first.stash)
    fee = stage.check(unit).terms.fee
    while not stage.chain.happened(AuditorSilent):
        stage.chain.block()
    second = stage.auditor(unit)
    assert second != first
    stage.chain.block(stage.passes(unit, second))
    stage.until(unit)
    assert outcome(stage) is CheckOutcome.PASSED
    assert stage.owned(first.stash) == before - fee


def test_where_nobody_says_anything_nobody_pays_and_the_settlement_stands() -> None:
    stage = LeafChain()
    unit = stage.settled()
    stage.shown(unit)
    drawn = [event.auditor for event in stage.chain.happened(AuditorDrawn)]
    before, pot, fee = stage.owned(*drawn), stage.pot, stage.check(unit).terms.fee
    stage.until(unit)
    assert outcome(stage) is CheckOutcome.UNLOOKED
    assert len({event.auditor for event in stage.chain.happened(AuditorDrawn)}) == 3
    assert stage.owned(*drawn) == before
    assert stage.pot == pot + fee
    assert not stage.unit(unit).is_refuted


@pytest.fixture
def strict() -> LeafChain:
    """Return a chain with certain or almost certain audits."""
    return LeafChain(numbers={"Courts.audit_rate_ppm": ALL_PPM}, price=10**8)


def test_who_passes_without_having_computed_loses_its_seat_where_that_is_looked_at(strict: LeafChain) -> None:
    for _ in range(12):
        unit = strict.settled()
        lazy = strict.shown(unit)
        before, check = strict.owned(lazy.stash), strict.check(unit)
        strict.chain.block(strict.passes(unit, lazy, b"x" * 32))
        found = strict.until(unit, LeafStage.CHECKING, LeafStage.OPEN)
        assert found is not None
        if found.stage is LeafStage.OPEN:
            strict.until(unit)
            continue
        assert strict.owned(lazy.stash) == before - max(40 * check.terms.fee, check.terms.collateral)
        second = strict.auditor(unit)
        strict.chain.block(strict.passes(unit, second))
        strict.until(unit)
        return
    raise AssertionError("never looked at")


def test_who_passes_a_wrong_leaf_has_made_no_right_proof_and_the_next_auditor_finds_it(strict: LeafChain) -> None:
    for _ in range(12):
        unit = strict.settled(wrong=range(40))
        friend = strict.shown(unit)
        strict.chain.block(strict.passes(unit, friend, b"x" * 32))
        found = strict.until(unit, LeafStage.CHECKING, LeafStage.OPEN)
        assert found is not None
        if found.stage is LeafStage.OPEN:
            strict.until(unit)
            continue
        second, index = strict.auditor(unit), strict.check(unit).shown[0].index
        strict.chain.block(strict.doubts(unit, second, index, strict.claim(unit, index)))
        strict.until(unit)
        assert strict.chain.happened(LeafCheckEnded)[-1].outcome is CheckOutcome.REFUTED
        return
    raise AssertionError("never looked at")


def test_a_customer_may_dispute_any_leaf_once_the_auditor_is_through() -> None:
    """Also a drawn one: an auditor that passed it loses its seat together with the racer."""
    stage = LeafChain()
    for is_drawn in (False, True):
        unit = stage.settled(wrong=range(40))
        auditor = stage.shown(unit)
        drawn = [leaf.index for leaf in stage.check(unit).shown]
        index = drawn[0] if is_drawn else next(place for place in range(40) if place not in drawn)
        stage.chain.block(stage.passes(unit, auditor, b"x" * 32))
        stage.until(unit, LeafStage.OPEN)
        customer, auditors, terms = stage.owned(CUSTOMER.stash), stage.owned(auditor.stash), stage.check(unit).terms
        stage.chain.block(signed(CUSTOMER.stash, stage.dispute_call(unit, index, stage.claim(unit, index))))
        stage.until(unit)
        assert stage.chain.happened(LeafCheckEnded)[-1].outcome is CheckOutcome.REFUTED
        assert stage.owned(CUSTOMER.stash) == customer + terms.price - terms.fee
        if is_drawn:
            assert stage.owned(auditor.stash) == auditors - seat_of(terms)
        else:
            assert stage.owned(auditor.stash) == auditors + terms.fee


def test_a_customer_that_disputes_a_right_leaf_pays_the_judges() -> None:
    stage = LeafChain()
    unit = stage.settled()
    auditor = stage.shown(unit)
    stage.chain.block(stage.passes(unit, auditor))
    check = stage.until(unit, LeafStage.OPEN)
    assert check is not None
    customer, fee = stage.owned(CUSTOMER.stash), check.terms.fee
    stage.chain.block(signed(CUSTOMER.stash, stage.dispute_call(unit, 3, stage.claim(unit, 3, is_right=False))))
    stage.until(unit)
    assert outcome(stage) is CheckOutcome.PASSED
    # its bond pays three judges, and itself the price, like any convicted liar's. The rest burns
    assert stage.owned(CUSTOMER.stash) == customer - fee - dispute_bond(check.terms.judge_fee) + check.terms.price
    assert not stage.chain.happened(ProviderSlashed)


def test_an_undecided_doubt_takes_nothing_and_the_next_auditor_looks() -> None:
    names = [keys.name for keys in LeafChain().chain.validators]
    stage = LeafChain(silent=names)
    unit = stage.settled()
    auditor = stage.shown(unit)
    index, before = stage.check(unit).shown[0].index, stage.owned(auditor.stash)
    stage.chain.block(stage.doubts(unit, auditor, index, stage.claim(unit, index, is_right=False)))
    stage.until(unit, LeafStage.CHECKING)
    assert stage.owned(auditor.stash) == before
    assert stage.auditor(unit) != auditor


def test_the_beacon_that_draws_is_one_that_nobody_knew_at_the_settlement() -> None:
    stage = LeafChain()
    unit = stage.settled()
    settled_at = stage.unit(unit).ended_at
    stage.until(unit, LeafStage.SHOWING)
    (drawn,) = stage.chain.happened(LeavesDrawn)
    assert stage.check(unit).recorded_at == settled_at
    assert drawn.leaves == 2
    assert drawn.seed == stage.check(unit).seed == stage.chain.now()[Beacon].value_at(settled_at + BEACON_DELAY)


def test_who_is_expelled_for_its_third_lie_about_a_leaf_is_a_provider_no_more() -> None:
    stage = LeafChain()
    unit = stage.settled(wrong=range(40))
    auditor, index = stage.shown(unit), stage.check(unit).shown[0].index
    stage.chain.block(stage.doubts(unit, auditor, index, stage.claim(unit, index)))
    case, (first, second) = stage.check(unit).case, stage.answerers(unit)
    assert case is not None
    faults = tuple((who.stash, PartyFault.LIED) for who in (first, second))
    verdict, until = Answered(stage.claim(unit, index)), stage.chain.height + 100
    bound = stage.chain.now()
    bound[LeafChecks].carry_out(
        case, CaseRuling(CaseOutcome.COURT_DECIDED, verdict, faults, expelled=(first.stash,), expelled_until=until)
    )
    devices = bound[Devices]
    assert (first.stash in devices.providers, devices.expelled_until[first.stash]) == (False, until)
    assert (second.stash in devices.providers, devices.expelled_until[second.stash]) == (True, 0)


def test_who_passed_a_batch_judges_no_leaf_of_it() -> None:
    stage = LeafChain(size=8)
    unit = stage.settled()
    auditor = stage.shown(unit)
    stage.chain.block(stage.passes(unit, auditor))
    check = stage.until(unit, LeafStage.OPEN)
    assert check is not None
    other = next(place for place in range(40) if place not in [leaf.index for leaf in check.shown])
    stage.chain.block(signed(CUSTOMER.stash, stage.dispute_call(unit, other, b"n" * 32)))
    case = stage.chain.now()[Courts].cases[stage.check(unit).case or b""]
    assert case is not None
    assert auditor.stash not in [claim.account for claim in case.terms.claims]
    assert auditor.stash in case.terms.excluded


def test_a_check_goes_by_what_was_promised_when_its_batch_was_posted() -> None:
    stage = LeafChain()
    unit = stage.settled()
    record, opened = stage.unit(unit), stage.check(unit)
    terms, rules = opened.terms, record.rules
    assert terms.judge_fee == money.fee_of_judge(rules, record.price) != terms.fee
    assert terms.collateral == money.collateral(rules, record.price) == record.racers[0].collateral
    assert (terms.rate_ppm, terms.sealed_at) == (record.leaf_audit_ppm, record.terms.sealed_at)
    room = stage.chain.now()[LeafChecks]
    assert terms.run_blocks == stage.chain.now()[InferenceMarket].longest_commit_window(record)
    assert opened.windows == room.windows_for(terms.run_blocks)


def test_who_was_silent_has_nothing_to_do_for_the_check_any_more() -> None:
    stage = LeafChain()
    unit = stage.settled()
    first = stage.shown(unit)
    assert stage.chain.now()[LeafChecks].duties[first.stash, unit]
    while not stage.chain.happened(AuditorSilent):
        stage.chain.block()
    duties = stage.chain.now()[LeafChecks].duties
    assert [who for (who, _), _ in duties.items()] == [stage.check(unit).auditor]
    stage.until(unit)
    assert not list(stage.chain.now()[LeafChecks].duties.items())


def test_a_beacon_that_was_forgotten_is_followed_by_one_that_nobody_knew_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finality stopped for longer than the beacon's memory."""
    stage = LeafChain()
    unit = stage.settled()
    settled_at = stage.check(unit).recorded_at
    with monkeypatch.context() as forgotten:
        forgotten.setattr(Beacon, "value_at", lambda *_: None)
        while stage.check(unit).recorded_at == settled_at:
            assert stage.chain.height < settled_at + 10
            stage.chain.block()
    again = stage.chain.height
    assert (stage.check(unit).stage, stage.check(unit).recorded_at) == (LeafStage.AWAITED, again)
    stage.until(unit, LeafStage.SHOWING)
    assert stage.check(unit).seed == stage.chain.now()[Beacon].value_at(again + BEACON_DELAY)
