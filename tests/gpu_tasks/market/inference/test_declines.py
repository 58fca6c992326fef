"""Who says that an input cannot be used stands for that, and takes nobody else out of the race (D4)."""

import pytest

from gpu_tasks.market.courts.cases import CLAIMS_MAX, EXCLUDED_MAX
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference import queue
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import collateral
from gpu_tasks.market.inference.units import DECLINES_MAX, DECLINES_TO_JUDGE, RACERS_MAX, UnitState
from gpu_tasks.market.leaf_checks.checks import AUDITORS_MAX
from simulation.chains.market_chain import MarketChain, attach, attestation, commit, named_keys, signed
from unit_cases import RIGHT, matched, wait_for_race


def test_one_decline_of_a_lone_racer_draws_again_without_it_and_it_stands_for_that() -> None:
    chain = MarketChain(named_keys(4))
    unit_id, unit, (racer,) = matched(chain, racers=1)
    chain.block(signed(racer.provider, InferenceMarket.decline(unit=unit_id, attempt=1)))
    device = chain.now()[Devices].devices[racer.device]
    assert device is not None
    assert (device.assignment, device.secured) == (None, collateral(unit.rules, unit.price)), "free for other work"
    chain.block()
    assert chain.unit(unit_id).state is UnitState.QUEUED
    again, (other,) = wait_for_race(chain, unit_id, 1)
    assert other != racer
    assert again.attempt == 2
    assert not chain.happened(ev.RaceMissed)
    chain.block(commit(other, unit_id, again, RIGHT))
    chain.block(attach(attestation(other, unit_id, again, RIGHT)))
    assert chain.unit(unit_id).state is UnitState.SETTLED
    chain.blocks(7)
    device = chain.now()[Devices].devices[racer.device]
    assert device is not None
    assert device.secured == 0


def test_d4_a_decline_takes_nobody_else_out_of_the_race() -> None:
    chain = MarketChain(named_keys(5))
    unit_id, unit, racers = matched(chain, racers=3)
    chain.block(signed(racers[0].provider, InferenceMarket.decline(unit=unit_id, attempt=1)))
    chain.block(*(commit(one, unit_id, unit, RIGHT) for one in racers[1:]))
    chain.block(attach(*(attestation(one, unit_id, unit, RIGHT) for one in racers[1:])))
    (settled,) = chain.happened(ev.UnitSettled)
    assert (settled.winner, settled.witness) == (racers[1].stash, racers[2].stash)


def test_who_has_declined_too_often_for_one_unit_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "DECLINES_MAX", 9)
    chain = MarketChain(named_keys(4))
    unit_id, _, (racer,) = matched(chain, racers=1)
    chain.block(signed(racer.provider, InferenceMarket.decline(unit=unit_id, attempt=1)))
    chain.block()
    assert chain.unit(unit_id).state is UnitState.REFUNDED


def test_who_declined_raced_and_audited_fit_into_a_case() -> None:
    """A hook opens the case: a list that did not fit would stop the chain."""
    assert DECLINES_MAX + RACERS_MAX + AUDITORS_MAX <= EXCLUDED_MAX
    assert RACERS_MAX + DECLINES_TO_JUDGE - 1 <= CLAIMS_MAX
