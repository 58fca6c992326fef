"""The auditor of a batch: drawn by stake among unrelated validators that can read its input and pay for a seat."""

from collections import Counter
from dataclasses import replace

import pytest

from gpu_tasks.market.courts.cases import CourtCase, judges_of
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.inference.events import UnitSettled
from gpu_tasks.market.leaf_checks.checks import ANSWERERS_MAX, AUDITORS_MAX, CALLED_MAX, LeafStage
from gpu_tasks.market.leaf_checks.events import AuditorDrawn, AuditorSilent
from gpu_tasks.market.leaf_checks.leaf_checks import (
    AUDITOR_LOOK_WEIGHT,
    BEGIN_WEIGHT,
    END_WEIGHT,
    STEP_WEIGHT,
    LeafChecks,
)
from gpu_tasks.market.leaf_checks.storage import seat_of
from runtime.encoding.types import Weight
from runtime.frame.schedule import TAKE_WEIGHT
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.batch_chain import LeafChain
from simulation.chains.market_chain import OGPU, signed


def test_no_racer_ever_audits_its_own_batch() -> None:
    stage = LeafChain(size=6)
    drawn: Counter[bytes] = Counter()
    for _ in range(8):
        unit = stage.settled()
        auditor = stage.shown(unit)
        racers = {racer.owner for racer in stage.unit(unit).racers}
        assert auditor.stash not in racers
        drawn[auditor.stash] += 1
        stage.chain.block(stage.passes(unit, auditor))
        stage.until(unit)
    assert len(drawn) > 2
    assert len(stage.chain.happened(UnitSettled)) == 8


def test_an_auditor_can_pay_for_its_seat() -> None:
    """A validator without the money of a seat is skipped."""
    stage = LeafChain(size=6)
    unit = stage.settled()
    stage.until(unit, LeafStage.SHOWING)
    room = stage.chain.now()[LeafChecks]
    check = room.open_check(unit)
    first = room.next_auditor(check)
    assert first == check.called[0]
    balances = stage.chain.now()[Balances]
    left = seat_of(check.terms) + balances.existential_deposit - 1
    spent = balances.free_balance(first) - left
    pays = Balances.transfer_keep_alive(dest=stage.chain.validators[0].provider, value=spent)
    stage.chain.block(signed(first, pays))
    assert stage.chain.now()[LeafChecks].next_auditor(check) == check.called[1]


def test_nobody_whose_key_is_younger_than_the_input_audits() -> None:
    stage = LeafChain(size=6)
    unit = stage.settled()
    stage.until(unit, LeafStage.SHOWING)
    bound = stage.chain.now()
    room, check = bound[LeafChecks], bound[LeafChecks].open_check(unit)
    first, second = check.called[:2]
    assert room.next_auditor(check) == first
    known = room.devices.providers[first]
    assert known is not None
    room.devices.providers[first] = replace(known, key_since=check.terms.sealed_at + 1)
    assert room.next_auditor(check) == second
    assert check.seed is not None
    called, looks = room.call_auditors(unit, check.terms, check.seed)
    assert called == check.called[1:]
    assert looks == 6


def test_who_is_asked_does_not_change_with_who_sits() -> None:
    """The racer has hundreds of blocks to show its leaves, and could wait until its friend comes first."""
    stage = LeafChain(size=8)
    unit = stage.settled()
    stage.until(unit, LeafStage.SHOWING)
    called = stage.check(unit).called
    assert len(called) == 6
    stake = stage.chain.now()[TrustStake]
    (start,) = stake.validator_set_starts.get()
    stage.chain.block(
        lambda bound: bound[TrustStake].validator_sets.__setitem__(start, bound[TrustStake].validator_sets[start][:1])
    )
    who = stage.answerers(unit)[0].provider
    stage.chain.block(signed(who, stage.show_call(unit)))
    stage.chain.block()
    assert stage.check(unit).auditor == called[0]
    assert stage.check(unit).called == called


def test_no_more_are_called_than_a_check_has_room_for() -> None:
    stage = LeafChain(size=14)
    unit = stage.settled()
    stage.until(unit, LeafStage.SHOWING)
    called = stage.check(unit).called
    assert len(called) == len(set(called)) == CALLED_MAX


def test_the_seat_is_held_for_the_batch_and_returns_whole() -> None:
    stage = LeafChain()
    unit = stage.settled()
    auditor = stage.shown(unit)
    (drawn,) = stage.chain.happened(AuditorDrawn)
    assert drawn.held == seat_of(stage.check(unit).terms)
    before = stage.owned(auditor.stash)
    stage.chain.block(stage.passes(unit, auditor))
    fee = stage.check(unit).terms.fee
    stage.until(unit)
    balances = stage.chain.now()[Balances]
    assert stage.owned(auditor.stash) == before + fee
    assert not [hold for (who, hold), _ in balances.held_cases.items() if who == auditor.stash and hold.case == unit]


def test_a_customer_that_is_in_office_does_not_audit_what_it_bought() -> None:
    """For any of its posting keys, because the fee is its own."""
    stage = LeafChain(size=6)
    unit = stage.settled()
    stage.until(unit, LeafStage.SHOWING)
    room = stage.chain.now()[LeafChecks]
    check = room.open_check(unit)
    seed = check.seed
    assert seed is not None
    first = check.called[0]
    for account in (first, stage.chain.keys_of(first).provider):
        bought = replace(check, terms=replace(check.terms, customer=account))
        assert room.call_auditors(unit, bought.terms, seed)[0] == check.called[1:]


def test_batches_that_one_beacon_draws_have_auditors_of_their_own() -> None:
    """Otherwise the first auditor would have all batches of a block, and each would wait if it is absent."""
    stage = LeafChain(size=6)
    unit = stage.settled()
    stage.until(unit, LeafStage.SHOWING)
    room = stage.chain.now()[LeafChecks]
    check = room.open_check(unit)
    seed = check.seed
    assert seed is not None
    first = Counter(room.call_auditors(bytes([number]) * 32, check.terms, seed)[0][0] for number in range(40))
    assert len(first) == 4, "all in office but the two that raced"


def test_an_auditor_has_half_as_long_again_as_who_answered_had() -> None:
    room = LeafChain(numbers={"LeafChecks.check_blocks": 40}).chain.now()[LeafChecks]
    assert [room.windows_for(run).check for run in (1, 27, 28, 101)] == [40, 40, 42, 151]
    assert room.windows_for(100).show == room.show_blocks


def weighed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the declared weight of the hook in each later block."""
    spent: list[int] = []
    hook = LeafChecks.on_initialize

    def noted(room: LeafChecks) -> Weight:
        weight = hook(room)
        spent.append(weight.ref_time)
        return weight

    monkeypatch.setattr(LeafChecks, "on_initialize", noted)
    return spent


def test_what_the_hook_does_for_a_check_is_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The draw of its leaves and of its auditor, with each validator that the draw read."""
    spent = weighed(monkeypatch)
    step = (STEP_WEIGHT + TAKE_WEIGHT).ref_time
    stage = LeafChain()
    unit = stage.settled()
    assert not any(spent)
    stage.until(unit, LeafStage.SHOWING)
    check = stage.check(unit)
    assert check.seed is not None
    _, looks = stage.chain.now()[LeafChecks].call_auditors(unit, check.terms, check.seed)
    assert spent[-1] == step + looks * AUDITOR_LOOK_WEIGHT.ref_time
    who = stage.answerers(unit)[0].provider
    stage.chain.block(signed(who, stage.show_call(unit)))
    assert spent[-1] == (BEGIN_WEIGHT + TAKE_WEIGHT).ref_time, "its window begins"
    stage.chain.block()
    assert stage.check(unit).auditor == check.called[0]
    assert spent[-1] == step


@pytest.mark.parametrize("racers", [1, 2])
def test_an_end_weighs_by_how_many_answered(monkeypatch: pytest.MonkeyPatch, racers: int) -> None:
    """If all checks weighed the worst end, a market could end three in a block."""
    spent = weighed(monkeypatch)
    stage = LeafChain(racers=racers)
    unit = stage.settled()
    stage.until(unit, LeafStage.SHOWING)
    answered = len(stage.check(unit).terms.answerers)
    assert answered == racers
    stage.until(unit)  # no racer shows anything
    assert spent[-1] == end_of(racers)


def test_an_end_weighs_those_too_who_raced_and_did_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are released with the others: two of eight took 1.5 ms, and were charged 0.9."""
    spent = weighed(monkeypatch)
    stage = LeafChain(size=24, racers=5, answering=2, price=OGPU // 10)
    unit = stage.settled()
    stage.shown(unit)
    check = stage.until(unit, LeafStage.OPEN)
    assert check is not None
    assert (len(check.terms.answerers), len(stage.unit(unit).racers)) == (2, 5)
    stage.until(unit)
    assert spent[-1] == end_of(5)


def end_of(racers: int) -> int:
    """Return the weight of the end of a check with `racers` racers."""
    end = END_WEIGHT.ref_time * (1 + racers) // (1 + ANSWERERS_MAX)
    return int((STEP_WEIGHT + TAKE_WEIGHT).ref_time + end)


def judged(stage: LeafChain, unit: bytes) -> CourtCase:
    """Return the case of a check, once it has a bench."""
    while True:
        case = stage.chain.now()[Courts].cases[stage.check(unit).case or b""]
        assert case is not None
        if case.benches:
            return case
        stage.chain.block()


@pytest.mark.parametrize("is_silent", [False, True])
def test_no_earlier_auditor_judges_a_later_case_of_its_check(*, is_silent: bool) -> None:
    """Its opinion was overruled, or it was silent, which costs a fee if a later one is right."""
    stage = LeafChain(size=9)
    unit = stage.settled()
    auditors = [stage.shown(unit)]
    index = stage.check(unit).shown[0].index
    for number in range(1, AUDITORS_MAX + 1):
        if number == 1 and is_silent:
            while not stage.chain.happened(AuditorSilent):
                stage.chain.block()
        else:
            stage.chain.block(stage.doubts(unit, auditors[-1], index, stage.claim(unit, index, is_right=False)))
            case = judged(stage, unit)
            racers = [racer.owner for racer in stage.unit(unit).racers]
            assert case.terms.excluded == (*racers, *(each.stash for each in auditors))
            assert not set(case.terms.excluded) & set(judges_of(case))
        if number < AUDITORS_MAX:
            stage.until(unit, LeafStage.CHECKING)
            auditors.append(stage.auditor(unit))
    assert len({each.stash for each in auditors}) == AUDITORS_MAX
