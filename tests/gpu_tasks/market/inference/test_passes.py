"""Racers that pass a unit: the miss fee, the place that is drawn again, and no step towards a dispute."""

import pytest

from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import collateral_of
from gpu_tasks.market.inference.units import DECLINES_MAX, Refund, UnitState, declines_of
from runtime.pallets.balances import Balances
from simulation.chains.market_chain import DEVICE_BOND, OGPU, MarketChain, named_keys, refused, terms
from unit_cases import (
    TO_THE_DRAW,
    ahead,
    began,
    commits,
    declines,
    is_awaited,
    one_device,
    passes,
    racers_of,
    racing,
    revealed,
)


def test_a_pass_burns_the_miss_fee_at_once_and_frees_the_device() -> None:
    chain = MarketChain(named_keys(9))
    unit_id, (passing, other) = racing(chain)
    burned, fee = chain.now()[Balances].burned.get(), collateral_of(chain.unit(unit_id)) // 100
    chain.block(passes(passing, unit_id))
    assert chain.happened(ev.RacePassed) == [ev.RacePassed(unit_id, 1, passing.stash, fee)]
    assert chain.now()[Balances].burned.get() - burned == fee
    device = chain.device(passing)
    assert (device.is_paused, device.assignment, device.secured, device.bond) == (False, None, 0, DEVICE_BOND - fee)
    unit = chain.unit(unit_id)
    assert [racer.owner for racer in unit.racers] == [other.stash]
    assert (unit.declined_by, declines_of(unit), unit.decliners) == ((passing.stash,), 0, ())
    assert not chain.now()[InferenceMarket].duties[passing.stash, unit_id]
    assert not chain.happened(ev.RaceMissed)


def test_its_place_is_drawn_again_like_that_of_a_decline() -> None:
    chain = MarketChain(named_keys(9))
    unit_id, (passing, other) = racing(chain)
    chain.block(passes(passing, unit_id))
    assert is_awaited(chain, unit_id)
    chain.blocks(TO_THE_DRAW)
    first, substitute = racers_of(chain, unit_id)
    assert (first, substitute != passing) == (other, True)
    assert chain.happened(ev.PlaceRefilled) == [ev.PlaceRefilled(unit_id, 1, substitute.stash, None)]
    chain.block(commits(chain, other, unit_id), commits(chain, substitute, unit_id))
    revealed(chain, unit_id, (other, substitute))
    (claimed,) = chain.happened(ev.ResultClaimed)
    assert {claimed.winner, claimed.witness} == {other.stash, substitute.stash}
    assert passing.stash in chain.now()[ResultClaims].open_claim(unit_id).terms.excluded


def test_passes_lead_to_no_dispute() -> None:
    """Two declines without a result would."""
    chain = MarketChain(named_keys(20))
    unit_id, racers = racing(chain, racers=3)
    chain.block(*(passes(racer, unit_id) for racer in racers))
    chain.block()
    assert not chain.happened(ev.UnitDisputed)
    assert chain.unit(unit_id).state is UnitState.QUEUED


def test_after_a_commit_nobody_is_drawn_for_a_pass_and_the_race_closes() -> None:
    chain = MarketChain(named_keys(9))
    unit_id, (committing, passing) = racing(chain)
    chain.block(commits(chain, committing, unit_id))
    chain.block(passes(passing, unit_id))
    unit = chain.unit(unit_id)
    assert unit.round is not None
    assert (unit.round.closed_at, is_awaited(chain, unit_id)) == (chain.height, False)
    chain.block()
    revealed(chain, unit_id, [committing])
    assert chain.unit(unit_id).state is UnitState.CLAIMED
    assert not chain.happened(ev.PlaceRefilled)


def test_who_may_not_pass() -> None:
    chain = MarketChain(named_keys(9))
    unit_id, (one, two) = racing(chain)
    idle = next(who for who in chain.validators if who not in (one, two))
    call, early = (InferenceMarket.pass_unit(unit=unit_id, attempt=attempt) for attempt in (1, 2))
    chain.block(
        refused(idle.provider, call, ev.NotAssigned),
        refused(one.provider, early, ev.NotAssigned),
        commits(chain, one, unit_id),
        refused(one.provider, call, ev.AlreadyDone),
        declines(two, unit_id),
        refused(two.provider, call, ev.AlreadyDone),
    )


def test_a_device_that_passes_begins_its_next_unit() -> None:
    chain, only = one_device()
    first, second, _ = ahead(chain)
    chain.block(passes(only, first))
    assert chain.device(only).assignment == second
    assert began(chain, second) == chain.height


@pytest.mark.parametrize("racers", [1, 3])
def test_a_unit_that_too_many_pass_is_refunded(racers: int) -> None:
    """The list of owners has a limit, and the hook writes it."""
    chain = MarketChain(named_keys(100))  # a third of the stake is more than all that may pass
    chain.blocks(3)
    (unit_id,) = chain.post(terms(OGPU, racers))
    for _ in range(400):
        unit = chain.unit(unit_id)
        assert len(unit.declined_by) <= DECLINES_MAX
        if unit.state is UnitState.REFUNDED:
            break
        passing = [] if unit.is_refilling else racers_of(chain, unit_id)[-1:]
        chain.block(*(passes(racer, unit_id, unit.attempt) for racer in passing))
    else:
        pytest.fail("a unit that is passed for ever")
    assert [one.refund for one in chain.happened(ev.UnitRefunded)] == [Refund.EXPIRED]
    assert len(chain.unit(unit_id).declined_by) > DECLINES_MAX - 9
