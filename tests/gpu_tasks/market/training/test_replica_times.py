"""Replicas to the block: how long each window is, what is paid by it, and who is free again when."""

import pytest

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass, device_id
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from replica_chain import PAY, accepted, bind, compute, offer, open_all, ordered, outcomes, replicated
from runtime.frame.runtime import Bound
from runtime.pallets.beacon import Beacon
from simulation.chains.market_chain import OGPU, signed
from task_chain import RIGHT, forfeit, net


def test_all_are_awaited_for_twice_what_was_promised() -> None:
    chain, _, whose = replicated()
    task = chain.now()
    assert task.deadline == task.started_at + 2 * task.slots[0].promised + task.windows.grace
    for place, keys in enumerate(whose):
        bind(chain, keys, place)
    assert (chain.state(), chain.now().deadline) == (TaskState.OPENING, chain.height + task.windows.reveal)


def test_the_customer_has_as_long_as_of_any_result() -> None:
    chain, _, whose = replicated()
    compute(chain, whose, RIGHT, RIGHT, RIGHT)
    assert chain.now().deadline == chain.now().finished_at + chain.now().windows.accept


@pytest.mark.parametrize("late", [0, 1])
def test_who_is_bound_in_the_last_block_that_it_promised_is_in_time(late: int) -> None:
    chain, _, whose = replicated(time_value=OGPU // 100)
    for place, keys in enumerate(whose[:2]):
        bind(chain, keys, place)
    while chain.height + 1 < chain.now().started_at + chain.now().slots[2].promised + late:
        chain.block()
    bind(chain, whose[2], 2)
    open_all(chain, *enumerate(whose))
    accepted(chain)
    assert outcomes(chain)[2] is (TaskOutcome.LATE if late else TaskOutcome.ON_TIME)


def test_who_is_bound_is_paid_for_no_block_behind_that_where_the_customer_stops_it() -> None:
    chain, books, whose = replicated()
    chain.blocks(3)
    bind(chain, whose[0], 0)
    chain.blocks(5)
    chain.stop()
    task = chain.now()
    bound, stopped = (at - task.started_at for at in (task.slots[0].finished_at, chain.height))
    assert (bound, stopped) == (4, 10)
    paid = [net(PAY * blocks // task.slots[0].promised) + forfeit(PAY) // 2 for blocks in (bound, stopped, stopped)]
    assert books.changes(*whose) == paid


# -------------------------------------------------------------------------------------------------------- the draw


def test_two_devices_of_one_owner_are_one_offer() -> None:
    chain, _ = ordered()
    bob = chain.bob
    second = device_id(bob.stash, b"u" * 32)
    register = Devices.register_device(kind=DeviceClass.CPU, uuid_hash=b"u" * 32, bond=1_000 * OGPU)
    calls = [TrainingMarket.volunteer(task=chain.task, device=device) for device in (bob.device, second)]
    chain.block(signed(bob.stash, register), *(signed(bob.provider, call) for call in calls))
    assert chain.now().volunteers == 2
    chain.until(TaskState.STARTING, TaskState.ENDED)
    assert chain.now().outcome is TaskOutcome.NO_AWARD
    chain.blocks(2)
    assert chain.is_idle(bob)


def test_a_draw_whose_beacon_is_forgotten_is_made_by_another() -> None:
    chain, _ = ordered()
    offer(chain, *chain.keys[1:4])
    while chain.now().deadline:
        chain.block()
    awaited = chain.now().beacon_at
    chain.blocks(awaited - chain.height - 1)

    def forget(bound: Bound) -> None:
        del bound[Beacon].values[awaited]

    chain.block(forget)
    chain.block()
    assert (chain.state(), chain.now().volunteers) == (TaskState.VOLUNTEERING, 3)
    assert chain.now().beacon_at > awaited
    chain.until(TaskState.STARTING)
    assert len(chain.now().slots) == 3


def test_who_was_offered_to_a_draw_with_too_few_is_free_while_the_task_is_sold_again() -> None:
    chain, books = ordered(auctions=2)
    bob = chain.bob
    offer(chain, bob)
    chain.until(TaskState.COMMITTING)
    assert not chain.is_idle(bob)
    chain.blocks(1)
    assert chain.state() is TaskState.COMMITTING
    assert chain.is_idle(bob)
    assert books.change(bob) == 0
