"""Races in which a declined place was filled: a whole lease for all, and who stands for what."""

from dataclasses import replace

import pytest

from gpu_tasks.market.courts.cases import PartyFault
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Answered
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.draws import BEACON_DELAY
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import DECLINES_MAX, RACE_DECLINES_MAX, Refund, Unit, UnitState
from simulation.chains.market_chain import (
    MarketChain,
    attach,
    attestation,
    named_keys,
    refused,
    terms,
)
from unit_cases import (
    LEASE,
    RIGHT,
    TO_THE_DRAW,
    WRONG,
    closes_at,
    commits,
    declines,
    ended,
    is_awaited,
    judged,
    racers_of,
    racing,
    refilled,
    secured,
)

# ----------------------------------------------------------------------------------------------------------- the lease


def test_whoever_fills_a_place_has_a_whole_lease_from_the_finality_of_its_draw() -> None:
    chain = MarketChain(named_keys(9), final_lag=2)
    unit_id, (declined, other) = racing(chain)
    chain.blocks(20)
    old = closes_at(chain, unit_id)
    chain.block(declines(declined, unit_id))
    chain.blocks(BEACON_DELAY + 2)
    drawn_at = chain.height
    assert chain.happened(ev.PlaceRefilled)
    assert closes_at(chain, unit_id) == 0, "the draw is not final: no clock runs"
    chain.blocks(2)
    assert closes_at(chain, unit_id) == drawn_at + 2 + LEASE > old
    while chain.height < drawn_at + 2 + LEASE:
        chain.block()
        assert not chain.happened(ev.RaceMissed)
    substitute = racers_of(chain, unit_id)[0]
    chain.block()
    assert [missed.provider for missed in chain.happened(ev.RaceMissed)] == [substitute.stash, other.stash]
    assert chain.unit(unit_id).state is UnitState.QUEUED


def test_no_clock_runs_while_the_draw_of_the_place_is_not_final() -> None:
    chain = MarketChain(named_keys(9), epoch_blocks=1_000)
    unit_id, _, substitute, racers = refilled(chain)
    chain.final_lag = 10**6
    chain.blocks(3 * LEASE)
    chain.block(*(commits(chain, who, unit_id) for who in racers))
    chain.final_lag = 1
    chain.block()
    chain.block(attach(*(attestation(who, unit_id, chain.unit(unit_id), RIGHT) for who in racers)))
    (settled,) = chain.happened(ev.UnitSettled)
    assert substitute.stash in (settled.winner, settled.witness)


@pytest.mark.parametrize("blocks", range(8))
def test_who_was_drawn_before_may_commit_in_every_block_meanwhile(blocks: int) -> None:
    chain = MarketChain(named_keys(9))
    unit_id, (declined, other) = racing(chain)
    chain.block(declines(declined, unit_id))
    for _ in range(blocks):
        chain.block()
    chain.block(commits(chain, other, unit_id))
    committed_at = chain.height
    is_filled = blocks + 1 >= TO_THE_DRAW
    assert bool(chain.happened(ev.PlaceRefilled)) is is_filled
    unit = chain.unit(unit_id)
    assert unit.round is not None
    assert (unit.round.first_commit, bool(unit.round.closed_at)) == (committed_at, not is_filled)
    assert not is_awaited(chain, unit_id)


def test_commits_close_some_time_after_the_first_and_who_is_shut_out_has_not_missed() -> None:
    chain = MarketChain(named_keys(9))
    unit_id, declined, substitute, (_, other) = refilled(chain)
    chain.block(commits(chain, other, unit_id))
    began = {racer.owner: racer.started_at for racer in chain.unit(unit_id).racers}
    current = chain.unit(unit_id).round
    assert current is not None
    took = chain.height - current.drawn_at
    close = began[substitute.stash] + 2 * took + chain.unit(unit_id).rules.race_close
    assert began[substitute.stash] > began[other.stash]
    assert closes_at(chain, unit_id) == close, "who came later has twice as long as who was first, and the close"
    chain.blocks(close - chain.height)
    late = InferenceMarket.commit_result(unit=unit_id, attempt=1, commitment=RIGHT)
    chain.block(refused(substitute.provider, late, ev.WindowClosed))
    assert not chain.happened(ev.RaceMissed)
    device = chain.now()[Devices].devices[substitute.device]
    assert device is not None
    assert (device.assignment, device.is_paused) == (None, False)
    assert secured(chain, declined), "who declined stands for that"


# ------------------------------------------------------------------------------------------------ what is at stake then


def test_who_declined_a_good_input_pays_although_its_place_was_filled() -> None:
    chain = MarketChain(named_keys(9))
    unit_id, declined, _, (first, second) = refilled(chain)
    chain.block(commits(chain, first, unit_id, RIGHT), commits(chain, second, unit_id, WRONG))
    unit = chain.unit(unit_id)
    chain.block(attach(attestation(first, unit_id, unit, RIGHT), attestation(second, unit_id, unit, WRONG)))
    assert chain.unit(unit_id).state is UnitState.JUDGING
    judges = judged(chain, unit_id, [Answered(RIGHT)] * 3)
    assert not {declined, first, second} & set(judges)
    assert ended(chain, unit_id).state is UnitState.SETTLED
    assert {(slash.provider, slash.fault) for slash in chain.happened(ev.ProviderSlashed)} == {
        (second.stash, PartyFault.LIED),
        (declined.stash, PartyFault.DECLINED),
    }
    assert not list(chain.now()[Courts].cases.keys())
    assert not any(secured(chain, who) for who in (declined, first, second))


def test_who_declined_and_was_replaced_is_out_of_the_race() -> None:
    chain = MarketChain(named_keys(9))
    unit_id, declined, _, _ = refilled(chain)
    late = InferenceMarket.commit_result(unit=unit_id, attempt=1, commitment=RIGHT)
    again = InferenceMarket.decline(unit=unit_id, attempt=1)
    chain.block(refused(declined.provider, late, ev.NotAssigned), refused(declined.provider, again, ev.NotAssigned))


@pytest.mark.parametrize("too_many", [0, 1])
def test_so_many_may_decline_that_a_filled_place_still_has_room(too_many: int) -> None:
    """A list that did not fit would make the hook fail, and stop the chain."""
    chain = MarketChain(named_keys(27))
    chain.blocks(3)
    (unit_id,) = chain.post(terms(racers=8))
    bound, strangers = chain.now(), DECLINES_MAX - RACE_DECLINES_MAX + too_many
    unit = bound[InferenceMarket].units[unit_id]
    assert unit is not None
    bound[InferenceMarket].units[unit_id] = with_decliners(unit, strangers)
    chain.state = chain.state.updated(bound.overlay.changes())
    chain.blocks(3)
    if too_many:
        assert [refund.refund for refund in chain.happened(ev.UnitRefunded)] == [Refund.EXPIRED]
        return
    first, *others = racers_of(chain, unit_id)
    chain.block(declines(first, unit_id))
    chain.blocks(TO_THE_DRAW)
    assert chain.happened(ev.PlaceRefilled)
    chain.block(*(declines(who, unit_id) for who in racers_of(chain, unit_id)))
    assert len(chain.unit(unit_id).declined_by) == DECLINES_MAX
    chain.block()
    assert chain.unit(unit_id).state is UnitState.JUDGING
    assert len(chain.case(unit_id).terms.claims) == 1 + len(others) + 1


def with_decliners(unit: Unit, count: int) -> Unit:
    """As if so many had declined it in earlier races."""
    return replace(unit, declined_by=tuple(bytes([number]) * 32 for number in range(count)))
