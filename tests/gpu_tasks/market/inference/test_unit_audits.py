"""Agreed and lone results are paid at once, and looked at again if the beacon says so."""

import pytest

from gpu_tasks.market.attestations.attestations import Attestations, NotAdmissible
from gpu_tasks.market.courts import hearing
from gpu_tasks.market.courts.cases import CaseStage
from gpu_tasks.market.courts.events import BenchDrawn
from gpu_tasks.market.courts.opinions import Answered
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.money import collateral
from gpu_tasks.market.inference.units import UnitState
from simulation.chains.market_chain import CUSTOMER, MarketChain, attach, attestation, commit, named_keys, refused
from unit_cases import RIGHT, WRONG, all_owned, ended, judged, matched, raced


@pytest.fixture
def _audits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The beacon says that everything is audited."""
    monkeypatch.setattr(hearing, "is_audited", lambda *_: True)


@pytest.mark.usefixtures("_audits")
@pytest.mark.parametrize("racers", [1, 2])
def test_a_settled_result_that_an_audit_finds_wrong_costs_its_racers_the_collateral(racers: int) -> None:
    chain = MarketChain(named_keys(10))
    unit_id, unit, liars = raced(chain, dict.fromkeys(range(racers), WRONG), racers=racers)
    paid = chain.unit(unit_id)
    assert (paid.state, paid.is_watched) == (UnitState.SETTLED, True)
    before = all_owned(chain)
    while chain.case(unit_id).stage is CaseStage.CHANCE:
        chain.block()
    judged(chain, unit_id, [Answered(RIGHT)] * 2)
    judges = judged(chain, unit_id, [Answered(RIGHT)] * 3)
    refuted = ended(chain, unit_id)
    gained = {who: chain.owned(who) - had for who, had in before.items()}
    secured = collateral(unit.rules, unit.price)
    assert [gained[liar.stash] for liar in liars] == [-secured] * racers
    assert gained[CUSTOMER.stash] == unit.price, "once, however many lied"
    assert [gained[judge.stash] for judge in judges] == [unit.price // 2] * 3
    assert (refuted.is_refuted, refuted.is_watched) == (True, False)
    assert [one.output_root for one in chain.happened(ev.ResultRefuted)] == [WRONG]
    assert all(chain.now()[Devices].devices[liar.device].secured == 0 for liar in liars)  # type: ignore[union-attr]


@pytest.mark.usefixtures("_audits")
def test_a_right_result_that_is_audited_costs_its_racers_nothing_and_frees_their_collateral() -> None:
    chain = MarketChain(named_keys(9))
    unit_id, _, racers = raced(chain, {0: RIGHT, 1: RIGHT})
    before = all_owned(chain)
    while chain.case(unit_id).stage is CaseStage.CHANCE:
        chain.block()
    judged(chain, unit_id, [Answered(RIGHT)] * 2)
    settled = ended(chain, unit_id)
    assert not settled.is_refuted
    assert [chain.owned(racer.stash) - before[racer.stash] for racer in racers] == [0, 0]
    assert [chain.now()[Devices].devices[racer.device].secured for racer in racers] == [0, 0]  # type: ignore[union-attr]
    assert not chain.happened(ev.ProviderSlashed)


def test_without_an_audit_the_collateral_is_free_after_a_few_blocks() -> None:
    chain = MarketChain(named_keys(6), constants={"Courts.audit_rate_ppm": 1_000})
    unit_id, unit, racers = raced(chain, {0: RIGHT, 1: RIGHT})
    device = chain.now()[Devices].devices[racers[0].device]
    assert device is not None
    assert device.secured == collateral(unit.rules, unit.price)
    chain.blocks(5 + 1)
    assert not chain.unit(unit_id).is_watched
    assert chain.now()[Devices].devices[racers[0].device].secured == 0  # type: ignore[union-attr]


@pytest.mark.usefixtures("_audits")
def test_a_network_of_two_judges_nobody() -> None:
    chain = MarketChain(named_keys(2))
    unit_id, _, _ = raced(chain, {0: RIGHT, 1: RIGHT})
    settled = ended(chain, unit_id)
    assert (settled.state, settled.is_refuted) == (UnitState.SETTLED, False)
    assert not chain.happened(BenchDrawn)


@pytest.mark.usefixtures("_audits")
def test_who_withheld_beside_answers_that_agreed_has_paid_for_that_and_is_no_party_to_an_audit() -> None:
    """It lost all that it held where an audit found the others right, and could not open what it had."""
    chain = MarketChain(named_keys(10))
    unit_id, unit, (first, second, silent) = matched(chain, racers=3)
    chain.block(*(commit(one, unit_id, unit, RIGHT) for one in (first, second, silent)))
    chain.blocks(1)
    chain.block(attach(*(attestation(one, unit_id, unit, RIGHT) for one in (first, second))))
    while chain.unit(unit_id).state is UnitState.RACING:
        chain.block()
    (missed,) = chain.happened(ev.RaceMissed)
    assert (missed.provider, missed.amount) == (silent.stash, -(-unit.price // 4))
    before = chain.owned(silent.stash)
    while chain.case(unit_id).stage is CaseStage.CHANCE:
        chain.block()
    late = Attestations.reveal(attestation=attestation(silent, unit_id, unit, RIGHT))
    chain.block(refused(silent.provider, late, NotAdmissible))
    judged(chain, unit_id, [Answered(RIGHT)] * 2)
    assert not ended(chain, unit_id).is_refuted
    assert not chain.happened(ev.ProviderSlashed)
    assert chain.owned(silent.stash) == before
