"""Devices that are drawn for units while they work on another: turns, time, misses, recalls."""

import pytest

from counted_reads import watched_hook
from gpu_tasks.market.devices import events as dev
from gpu_tasks.market.devices.device_work import RECALL_WEIGHT
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import QUEUE_MAX
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.gpu_tasks_api import GpuTasksApi
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.schedules import STEP_WEIGHT
from gpu_tasks.market.inference.turns import BEGIN_WEIGHT
from gpu_tasks.market.inference.units import UnitState, racer_of
from runtime.frame.api import Apis
from runtime.frame.pallet import Signed
from runtime.frame.schedule import TAKE_WEIGHT, WeightMeter
from simulation.chains.market_chain import (
    CUSTOMER,
    GENESIS_HASH,
    OGPU,
    Keys,
    MarketChain,
    attach,
    attestation,
    commit,
    named_keys,
    refused,
    signed,
    terms,
)
from unit_cases import DRAW_BLOCKS, LEASE, RIGHT, ahead, began, one_device, wait_for_race


def test_a_device_takes_as_many_units_as_its_owner_said_and_the_rest_sleeps() -> None:
    chain, only = one_device()
    posted = chain.post(*(terms(OGPU, 1) for _ in range(5)))
    chain.blocks(DRAW_BLOCKS)
    states = [chain.unit(unit_id).state for unit_id in posted]
    assert (states.count(UnitState.RACING), states.count(UnitState.QUEUED)) == (3, 2)
    held = chain.device(only)
    assert held.secured == sum(racer.collateral for unit_id in posted for racer in chain.unit(unit_id).racers), (
        "each holds its part of the bond from the draw on"
    )


def test_a_lease_counts_from_the_commit_before() -> None:
    chain, only = one_device()
    first, second, third = ahead(chain)
    assert began(chain, first)
    assert (began(chain, second), began(chain, third)) == (0, 0)
    chain.blocks(LEASE - 5)
    chain.block(commit(only, first, chain.unit(first), RIGHT))
    assert began(chain, second) == chain.height
    assert began(chain, third) == 0
    last = chain.height + LEASE
    chain.block()
    chain.block(attach(attestation(only, first, chain.unit(first), RIGHT)))
    chain.blocks(LEASE - 3)
    assert [racer.is_out for racer in chain.unit(second).racers] == [False]
    chain.block(commit(only, second, chain.unit(second), RIGHT))
    assert chain.height == last
    assert not chain.happened(ev.RaceMissed)


def test_what_is_behind_may_be_done_first_and_gives_nobody_more_time() -> None:
    chain, only = one_device()
    first, second, third = ahead(chain)
    before = began(chain, first)
    chain.block(commit(only, second, chain.unit(second), RIGHT))
    held = chain.device(only)
    assert (held.assignment, held.behind) == (first, (third,))
    assert (began(chain, first), began(chain, third)) == (before, 0)
    chain.block()
    chain.block(attach(attestation(only, second, chain.unit(second), RIGHT)))
    assert chain.unit(second).state is UnitState.CLAIMED
    assert chain.unit(first).state is UnitState.RACING


def test_a_miss_sends_everything_behind_it_back_with_its_age() -> None:
    chain, only = one_device()
    posted_at = chain.height + 1
    first, second, third = ahead(chain)
    attempts = {unit_id: chain.unit(unit_id).attempt for unit_id in (second, third)}
    while not chain.happened(ev.RaceMissed):
        chain.block()
    (missed,) = chain.happened(ev.RaceMissed)
    assert missed.unit == first
    chain.block()
    assert {recalled.unit for recalled in chain.happened(ev.RacerRecalled)} == {second, third}
    chain.block()
    for unit_id in (second, third):
        unit = chain.unit(unit_id)
        assert (unit.state, unit.posted_at, unit.racers) == (UnitState.QUEUED, posted_at, ())
    held = chain.device(only)
    assert (held.assignment, held.behind, held.secured, held.is_paused) == (None, (), 0, True)
    assert not list(chain.now()[InferenceMarket].duties.items())
    others = [signed(one.stash, Devices.resume(device=one.device)) for one in chain.validators[1:]]
    chain.block(*others)
    for unit_id in (second, third):
        unit, (racer,) = wait_for_race(chain, unit_id, after=attempts[unit_id])
        assert racer != only
        assert unit.posted_at == posted_at


def test_a_device_whose_queue_is_closed_counts_as_changed_in_that_block() -> None:
    """It is available for more units than before, and after a known beacon that must not bring it into the draw."""
    chain, only = one_device()
    ahead(chain)
    before = chain.device(only).changed_at
    chain.block(lambda bound: bound[Devices].close_queue(only.device))
    held = chain.device(only)
    assert before < chain.height
    assert (held.queue, held.changed_at) == (0, chain.height)


def test_who_has_units_to_be_recalled_is_not_resumed_before() -> None:
    chain, only = one_device()
    ahead(chain)
    while not chain.happened(ev.RaceMissed):
        chain.block()
    assert len(chain.now()[Devices].requeued_units[only.device]) == 2
    with pytest.raises(dev.DeviceBusy):  # the next block's hook runs before any of its calls
        chain.now().dispatch(Devices.resume(device=only.device), Signed(only.stash))
    chain.block(signed(only.stash, Devices.resume(device=only.device)))


def test_nobody_comes_into_a_draw_by_a_commit_once_its_beacon_is_known() -> None:
    """A full device that commits after the recording is no candidate, as if it had not ended."""
    chain, only = one_device(queue=1)
    first, second = ahead(chain, 2)
    (third,) = chain.post(terms(OGPU, 1))
    recorded = chain.unit(third).recorded_at
    chain.block(commit(only, first, chain.unit(first), RIGHT))
    assert chain.device(only).freed_at == (recorded + 1,)
    chain.blocks(2)
    assert chain.unit(third).state is UnitState.QUEUED
    unit, _ = wait_for_race(chain, third)
    assert unit.recorded_at > recorded, "it was recorded anew first"
    assert second in (chain.device(only).assignment, *chain.device(only).behind)


def test_who_may_say_how_many_units_a_device_takes() -> None:
    chain = MarketChain(named_keys(3))
    one, other = chain.validators[:2]
    chain.block(
        refused(other.stash, Devices.set_queue(device=one.device, queue=1), dev.NotOwner),
        refused(other.provider, Devices.set_queue(device=one.device, queue=1), dev.NotOwner),
        refused(CUSTOMER.stash, Devices.set_queue(device=one.device, queue=1), dev.NotOwner),
        refused(one.stash, Devices.set_queue(device=bytes(32), queue=1), dev.UnknownDevice),
        refused(one.stash, Devices.set_queue(device=one.device, queue=QUEUE_MAX + 1), dev.QueueTooLong),
    )
    chain.block(signed(one.provider, Devices.set_queue(device=one.device, queue=QUEUE_MAX)))
    assert chain.device(one).queue == QUEUE_MAX
    assert chain.device(one).changed_at == chain.height
    chain.block(signed(one.stash, Devices.set_queue(device=one.device, queue=0)))
    assert chain.device(one).queue == 0
    assert [said.queue for said in chain.happened(dev.DeviceQueueSet)] == [QUEUE_MAX, 0]


def test_more_places_bring_nobody_into_a_draw_whose_beacon_is_known() -> None:
    chain, only = one_device(queue=0)
    (first,) = chain.post(terms(OGPU, 1))
    wait_for_race(chain, first)
    (second,) = chain.post(terms(OGPU, 1))
    recorded = chain.unit(second).recorded_at
    chain.block(signed(only.stash, Devices.set_queue(device=only.device, queue=1)))
    chain.blocks(2)
    assert chain.unit(second).state is UnitState.QUEUED
    assert wait_for_race(chain, second)[0].recorded_at > recorded


def test_a_provider_is_told_its_turn_and_its_own_time() -> None:
    chain, only = one_device()
    order = ahead(chain)
    apis = Apis(chain.runtime, (GpuTasksApi,))
    raw = apis.call(chain.state, GENESIS_HASH, "GpuTasksApi_duties", only.stash)
    duties = {duty.id: duty for duty in apis.methods["GpuTasksApi_duties"].output.decode(raw)}
    assert [duties[unit_id].before for unit_id in order] == [0, 1, 2]
    assert duties[order[0]].commits_until == began(chain, order[0]) + LEASE + 1
    assert [duties[unit_id].commits_until for unit_id in order[1:]] == [0, 0]


def test_more_places_wake_who_sleeps() -> None:
    chain, only = one_device(queue=0)
    first, second = chain.post(terms(OGPU, 1), terms(OGPU, 1))
    chain.blocks(DRAW_BLOCKS)
    (asleep,) = (unit_id for unit_id in (first, second) if chain.unit(unit_id).state is UnitState.QUEUED)
    assert chain.unit(asleep).asleep_since
    chain.block(signed(only.provider, Devices.set_queue(device=only.device, queue=1)))
    chain.blocks(DRAW_BLOCKS)
    assert [chain.unit(unit_id).state for unit_id in (first, second)] == [UnitState.RACING] * 2


def test_nobody_waits_longer_than_two_leases_and_who_let_him_takes_none_ahead_any_more() -> None:
    chain, only = one_device(queue=3)
    order = ahead(chain, 4)
    for unit_id in order[:2]:
        began_at = began(chain, unit_id)
        chain.blocks(began_at + LEASE - 1 - chain.height)
        chain.block(commit(only, unit_id, chain.unit(unit_id), RIGHT))
        chain.blocks(2)
        chain.block(attach(attestation(only, unit_id, chain.unit(unit_id), RIGHT)))
    waited_since = chain.unit(order[3]).round
    assert waited_since is not None
    chain.blocks(waited_since.commits_from + 2 * LEASE + 1 - chain.height)
    assert chain.device(only).queue == 0
    chain.block()
    held = chain.device(only)
    assert (held.assignment, held.behind, held.is_paused) == (order[2], (), False), "what it works on stays"
    assert [recalled.unit for recalled in chain.happened(ev.RacerRecalled)] == [order[3]]
    chain.block()
    assert (chain.unit(order[3]).state, chain.unit(order[3]).racers) == (UnitState.QUEUED, ())
    assert not chain.happened(ev.RaceMissed)
    chain.block(signed(only.provider, Devices.set_queue(device=only.device, queue=3)))
    assert chain.device(only).queue == 3


def test_a_device_that_has_room_for_a_unit_is_free_for_no_task() -> None:
    chain, only = one_device()
    chain.post(terms(OGPU, 1))
    devices = chain.now()[Devices]
    assert (devices.can_work(chain.device(only)), devices.is_free(chain.device(only))) == (True, True)
    chain.blocks(DRAW_BLOCKS)
    devices = chain.now()[Devices]
    assert (devices.can_work(chain.device(only)), devices.is_free(chain.device(only))) == (True, False)


# -------------------------------------------------------------------------------------------------------------- recalls


def test_a_fault_in_what_a_device_is_done_with_sends_back_what_is_behind_too() -> None:
    """A case about an earlier result ends while the device works on another unit, which it may complete."""
    chain, only = one_device()
    first, second, third = ahead(chain)
    chain.block(lambda bound: bound[Devices].halt(only.device, b"e" * 32))
    chain.block()
    assert {recalled.unit for recalled in chain.happened(ev.RacerRecalled)} == {second, third}
    held = chain.device(only)
    assert (held.assignment, held.behind, held.is_paused) == (first, (), True)
    assert chain.unit(first).state is UnitState.RACING


def test_each_unit_that_is_recalled_is_work_of_its_own() -> None:
    chain, only = one_device(queue=3)
    ahead(chain, 4)
    chain.block(lambda bound: bound[Devices].halt(only.device, b"e" * 32))
    budget = WeightMeter(RECALL_WEIGHT)
    assert len(list(chain.now()[Devices].recalled_units(budget))) == 3
    assert budget.spent.ref_time == 3 * RECALL_WEIGHT.ref_time


def test_what_was_committed_in_the_block_of_a_fault_is_recalled_no_more() -> None:
    chain, only = one_device()
    _, second, third = ahead(chain)
    chain.block(
        lambda bound: bound[Devices].halt(only.device, b"e" * 32), commit(only, second, chain.unit(second), RIGHT)
    )
    chain.block()
    assert [recalled.unit for recalled in chain.happened(ev.RacerRecalled)] == [third]
    chain.block(attach(attestation(only, second, chain.unit(second), RIGHT)))
    assert chain.unit(second).state is UnitState.CLAIMED


def three_behind() -> tuple[MarketChain, bytes, list[Keys]]:
    """Return a unit whose three racers work on others, beside three idle devices, and its racers."""
    chain = MarketChain(named_keys(12), queue=1)
    busy, idle = chain.validators[:3], chain.validators[3:]
    chain.block(*(signed(one.stash, Devices.pause(device=one.device)) for one in idle))
    chain.blocks(3)
    chain.post(*(terms(OGPU, 1) for _ in busy))
    chain.blocks(DRAW_BLOCKS)
    (unit_id,) = chain.post(terms(OGPU, 3))
    chain.blocks(DRAW_BLOCKS)
    chain.block(*(signed(one.stash, Devices.resume(device=one.device)) for one in idle))
    chain.blocks(2)
    assert [racer.started_at for racer in chain.unit(unit_id).racers] == [0, 0, 0]
    return chain, unit_id, busy


def test_places_that_come_free_one_after_the_other_are_drawn_one_after_the_other() -> None:
    chain, unit_id, (one, other, last) = three_behind()
    chain.block(lambda bound: bound[Devices].halt(one.device, b"e" * 32))
    chain.block()
    chain.block(lambda bound: bound[Devices].halt(other.device, b"e" * 32))
    asked = chain.height
    assert (chain.unit(unit_id).is_refilling, chain.unit(unit_id).recorded_at) == (True, asked)
    chain.blocks(2)
    assert (len(chain.unit(unit_id).racers), chain.unit(unit_id).recorded_at) == (1, asked), "it is not put off"
    chain.block()
    unit = chain.unit(unit_id)
    assert (len(chain.happened(ev.PlaceRefilled)), len(unit.racers)) == (1, 2)
    assert (unit.is_refilling, unit.recorded_at) == (True, chain.height), "the second one is asked for at once"
    chain.blocks(3)
    unit = chain.unit(unit_id)
    assert (len(chain.happened(ev.PlaceRefilled)), len(unit.racers), unit.is_refilling) == (2, 3, False)
    assert racer_of(unit, last.stash) is not None


def test_what_begins_in_the_hook_is_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A close releases the late racers, and their devices begin the next unit."""
    spent = watched_hook(monkeypatch, InferenceMarket)
    chain = MarketChain(named_keys(6), queue=1)
    chain.block(*(signed(one.stash, Devices.pause(device=one.device)) for one in chain.validators[2:]))
    chain.blocks(3)
    units = []
    for _ in range(2):
        units += chain.post(terms(OGPU, 2))
        chain.blocks(DRAW_BLOCKS)
    first, second = units
    fast, slow = chain.validators[:2]
    chain.block(commit(fast, first, chain.unit(first), RIGHT))
    chain.blocks(2)
    begun = racer_of(chain.unit(second), slow.stash)
    while begun is not None and not begun.started_at:
        assert not chain.happened(ev.RaceMissed)
        chain.block()
        begun = racer_of(chain.unit(second), slow.stash)
    assert spent[-1].ref_time == (STEP_WEIGHT + TAKE_WEIGHT + BEGIN_WEIGHT).ref_time
