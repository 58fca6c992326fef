"""Who audits a batch: by stake among those who have nothing to do with it, can read its input and pay for a seat."""

from collections import Counter
from dataclasses import replace

import pytest

from gpu_tasks.market.inference.events import UnitSettled
from gpu_tasks.market.leaf_checks.checks import ANSWERERS_MAX, LeafStage
from gpu_tasks.market.leaf_checks.events import AuditorDrawn
from gpu_tasks.market.leaf_checks.ground import seat_of
from gpu_tasks.market.leaf_checks.leaf_checks import AUDITOR_LOOK_WEIGHT, END_WEIGHT, STEP_WEIGHT, LeafChecks
from runtime.encoding.types import Weight
from runtime.frame.agenda import TAKE_WEIGHT
from runtime.pallets.balances import Balances
from scripts.chains.leaf_chain import LeafChain
from scripts.chains.market_chain import signed


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
    """Whoever has spent what a seat takes is passed over."""
    stage = LeafChain(size=6)
    unit = stage.settled()
    stage.until(unit, LeafStage.SHOWING)
    room = stage.chain.now()[LeafChecks]
    check = room.open_check(unit)
    first, _ = room.next_auditor(unit, check)
    assert first is not None
    balances = stage.chain.now()[Balances]
    left = seat_of(check.terms) + balances.existential_deposit - 1
    spent = balances.free_balance(first) - left
    pays = Balances.transfer_keep_alive(dest=stage.chain.validators[0].provider, value=spent)
    stage.chain.block(signed(first, pays))
    second, looks = stage.chain.now()[LeafChecks].next_auditor(unit, check)
    assert second not in (None, first)
    assert looks > 1


def test_nobody_whose_key_is_younger_than_the_input_audits() -> None:
    stage = LeafChain(size=6)
    unit = stage.settled()
    stage.until(unit, LeafStage.SHOWING)
    bound = stage.chain.now()
    room, check = bound[LeafChecks], bound[LeafChecks].open_check(unit)
    first, _ = room.next_auditor(unit, check)
    assert first is not None
    known = room.devices.providers[first]
    assert known is not None
    room.devices.providers[first] = replace(known, key_since=check.terms.sealed_at + 1)
    assert room.next_auditor(unit, check)[0] not in (None, first)


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
    """Whichever of its keys it posted with: whose fee it is that its auditor earns."""
    stage = LeafChain(size=6)
    unit = stage.settled()
    stage.until(unit, LeafStage.SHOWING)
    room = stage.chain.now()[LeafChecks]
    check = room.open_check(unit)
    first, _ = room.next_auditor(unit, check)
    assert first is not None
    for account in (first, stage.chain.keys_of(first).provider):
        bought = replace(check, terms=replace(check.terms, customer=account))
        assert room.next_auditor(unit, bought)[0] not in (None, first)


def test_batches_that_one_beacon_draws_have_auditors_of_their_own() -> None:
    """Else whoever comes first looks at all batches of a block, and is waited for in each if it is away."""
    stage = LeafChain(size=6)
    unit = stage.settled()
    stage.until(unit, LeafStage.SHOWING)
    room = stage.chain.now()[LeafChecks]
    check = room.open_check(unit)
    first = Counter(room.next_auditor(bytes([number]) * 32, check)[0] for number in range(40))
    assert len(first) == 4, "all in office but the two that raced"


def test_an_auditor_has_half_as_long_again_as_who_answered_had() -> None:
    room = LeafChain(numbers={"LeafChecks.check_blocks": 40}).chain.now()[LeafChecks]
    assert [room.windows_for(run).check for run in (1, 27, 28, 101)] == [40, 40, 42, 151]
    assert room.windows_for(100).show == room.show_blocks


def weighed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the hook of each block from now on says that it weighed."""
    spent: list[int] = []
    hook = LeafChecks.on_initialize

    def noted(room: LeafChecks) -> Weight:
        weight = hook(room)
        spent.append(weight.ref_time)
        return weight

    monkeypatch.setattr(LeafChecks, "on_initialize", noted)
    return spent


def test_what_the_hook_does_for_a_check_is_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing its leaves, and drawing its auditor with each in office who was looked at."""
    spent = weighed(monkeypatch)
    step = (STEP_WEIGHT + TAKE_WEIGHT).ref_time
    stage = LeafChain()
    unit = stage.settled()
    assert not any(spent)
    stage.until(unit, LeafStage.SHOWING)
    assert spent[-1] == step
    who = stage.answerers(unit)[0].provider
    stage.chain.block(signed(who, stage.show_call(unit)))
    assert spent[-1] == 0
    _, looks = stage.chain.now()[LeafChecks].next_auditor(unit, stage.check(unit))
    stage.chain.block()
    assert stage.check(unit).auditor is not None
    assert spent[-1] == step + looks * AUDITOR_LOOK_WEIGHT.ref_time


@pytest.mark.parametrize("racers", [1, 2])
def test_an_end_weighs_by_how_many_answered(monkeypatch: pytest.MonkeyPatch, racers: int) -> None:
    """A market whose checks all weighed the worst end would have three of them a block."""
    spent = weighed(monkeypatch)
    stage = LeafChain(racers=racers)
    unit = stage.settled()
    stage.until(unit, LeafStage.SHOWING)
    answered = len(stage.check(unit).terms.answerers)
    assert answered == racers
    stage.until(unit)  # nobody shows anything
    end = END_WEIGHT.ref_time * (1 + answered) // (1 + ANSWERERS_MAX)
    assert spent[-1] == (STEP_WEIGHT + TAKE_WEIGHT).ref_time + end
