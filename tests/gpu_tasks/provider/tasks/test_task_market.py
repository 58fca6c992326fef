"""Tasks beside other work: units, gangs, skipped tasks with reasons, and draining."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.market.inference.events import UnitSettled
from gpu_tasks.market.training.bids import TaskBid
from gpu_tasks.market.training.events import BidCommitted, MilestoneCounted
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Task, TaskState
from gpu_tasks.provider.chain.port import BidName
from gpu_tasks.provider.duties.devices import DeviceDuty
from gpu_tasks.provider.tasks.places import LAST_BLOCKS
from gpu_tasks.provider.tasks.policy_file import POLICY_FILE, set_draining
from task_village import ASKED, TaskVillage, in_task_village, undisturbed_root

PRICES = ("0.001 oGPU/block", "0.002 oGPU/block", "0.003 oGPU/block")


@in_task_village(6)
async def test_units_are_raced_for_by_those_who_bid_for_nothing(village: TaskVillage) -> None:
    task = await village.bought(PRICES[0])
    while not village.task(task).bids:
        await village.block()
    unit = await village.post(racers=2)
    await village.until(task, TaskState.CLAIMED)
    (settled,) = [each for each in village.happened(UnitSettled) if each.unit == unit]
    bidder = village.slot_miner(task)
    assert bidder.keys.stash not in (settled.winner, settled.witness)
    assert not bidder.daemon.parts.journal.races
    await village.until(task, TaskState.ENDED, blocks=400)
    while not bidder.daemon.parts.journal.races:
        await village.run(await village.post(racers=2))


@in_task_village(5)
async def test_a_gang_of_two_is_run_by_two(village: TaskVillage) -> None:
    task = await village.bought(*PRICES, slots=2, time_value=0)
    ended = await village.until(task, TaskState.CLAIMED)
    roots = {slot.result.root for slot in ended.slots if slot.result is not None}
    assert roots == {undisturbed_root()}
    assert len({slot.provider for slot in ended.slots}) == 2


@pytest.mark.parametrize(
    ("order", "code"),
    [
        ({"segments": 5}, "segments_differ"),
        ({"task_hash": b"x" * 32}, "other_hash"),
        ({"input_root": b"x" * 32}, "other_commitment"),
        ({"workload": b"x" * 32}, "workload_not_stepwise"),
        ({"slots": 2}, "gang_refused"),
        ({"blocks_max": 10, "time_value": 0}, "too_slow"),
        ({"price_max": 2_000}, "price_too_low"),
        ({"milestones": 7}, "too_many_milestones"),
    ],
)
@in_task_village(3)
async def test_what_is_let_pass_has_its_reason_in_the_log_once(
    village: TaskVillage, order: dict[str, Any], code: str
) -> None:
    await village.bought(PRICES[0], until=TaskState.ENDED, **order)
    assert village.miners[0].heard.codes("not_bid") == [code]
    assert not village.happened(BidCommitted)
    assert not list((village.miners[0].daemon.settings.base_path / "tasks").glob("*"))


@in_task_village(3)
async def test_an_input_that_no_store_has_is_not_bid_for(village: TaskVillage) -> None:
    await village.bought(PRICES[0], until=TaskState.ENDED, is_stored=False)
    said = village.miners[0].heard.reasons("not_bid")
    assert len(said) >= 2
    assert "tried again" in said[0]
    assert "tried 3 times" in said[-1]


@in_task_village(3)
async def test_what_a_node_says_of_an_order_is_bid_for_only_as_the_final_chain_has_it(village: TaskVillage) -> None:
    village.bid_for(PRICES[0])
    bidder = village.miners[0]
    known = bidder.chain.auctions

    async def told() -> dict[bytes, Task]:
        return {name: replace(task, order=replace(task.order, loss=7)) for name, task in (await known()).items()}

    bidder.chain.auctions = told  # type: ignore[method-assign]
    task = await village.submit()
    assert (await village.until(task, TaskState.ENDED)).bids == 0
    assert "its auction is over" in bidder.heard.reasons("not_bid")[-1]


@in_task_village(3)
async def test_a_collateral_is_promised_once_and_counted_once(village: TaskVillage) -> None:
    village.bid_for(PRICES[0])
    bidder = village.miners[0]
    most = await bidder.chain.spendable() * 3 // 4
    task = await village.submit(collateral_min=most)
    while not village.task(task).bids:
        await village.block()
    await village.submit(collateral_min=most)
    await village.block()
    assert "lock the collateral" in bidder.heard.reasons("not_bid")[-1]
    while not village.task(task).revealed:
        await village.block()
    await village.block()
    await village.submit(collateral_min=await bidder.chain.spendable() // 2)
    await village.block()
    assert "device is at work" in bidder.heard.reasons("not_bid")[-1]


@in_task_village(3)
async def test_a_file_that_is_no_policy_is_told_once_and_bids_for_nothing(village: TaskVillage) -> None:
    village.bid_for(PRICES[0])
    (village.miners[0].daemon.settings.base_path / POLICY_FILE).write_text("{")
    task = await village.submit()
    await village.until(task, TaskState.ENDED)
    assert len(village.miners[0].heard.problems("policy")) == 1
    assert not village.happened(BidCommitted)


@in_task_village(5)
async def test_who_drains_ends_what_it_has_and_takes_nothing_new(village: TaskVillage) -> None:
    task = await village.bought(PRICES[0], until=TaskState.STARTING)
    (draining,) = [miner for miner in village.miners if miner is village.slot_miner(task)]
    base = draining.daemon.settings.base_path
    set_draining(base, drains=True)
    await village.block()
    second = await village.submit()
    await village.until(task, TaskState.CLAIMED)
    assert village.task(second).state is TaskState.ENDED
    assert village.task(second).bids == 0
    assert "drained" not in draining.heard.names()
    await village.until(task, TaskState.ENDED, blocks=400)
    await village.blocks(4)
    assert village.task(task).outcome is TaskOutcome.ON_TIME
    assert draining.heard.names().count("drained") == 1
    (device,) = await draining.chain.own_devices()
    assert device.device.is_paused
    draining = await village.restart(draining)
    await draining.daemon.duty(DeviceDuty).begin()
    village.node.block()
    assert (await draining.chain.own_devices())[0].device.is_paused, "over a restart too"
    set_draining(base, drains=False)
    await draining.step()
    village.node.block()
    assert not (await draining.chain.own_devices())[0].device.is_paused


@in_task_village(3)
async def test_a_larger_run_is_of_chunks(village: TaskVillage) -> None:
    village.bid_for(PRICES[0])
    asked = replace(ASKED, steps=24, segment=8)
    task = await village.submit(asked=asked)
    await village.until(task, TaskState.CLAIMED)
    result = village.task(task).slots[0].result
    assert result is not None
    assert result.root == undisturbed_root(asked)


@in_task_village(3)
async def test_a_bid_is_opened_only_once_the_final_chain_holds_it(village: TaskVillage) -> None:
    task = await village.bought(PRICES[0])
    bidder = village.miners[0].chain
    known = bidder.bids

    async def swallowed(bids: Sequence[BidName], *, final: bool = False) -> dict[BidName, TaskBid]:
        return {} if final else await known(bids)

    bidder.bids = swallowed  # type: ignore[method-assign]
    state = await village.until(task, TaskState.REVEALING)
    await village.blocks(2)
    assert village.task(task).revealed == 0
    assert [str(problem).split()[-1] for problem in village.miners[0].heard.problems("not_final")] == ["bid"]
    bidder.bids = known  # type: ignore[method-assign]
    await village.block()
    await village.block()
    assert village.task(task).revealed == 1
    assert state.bids == 1


@in_task_village(3)
async def test_while_finality_stands_still_a_bid_is_opened_in_the_last_blocks(village: TaskVillage) -> None:
    task = await village.bought(PRICES[0])
    bidder = village.miners[0].chain
    known = bidder.tasks

    async def as_it_was(ids: Sequence[bytes], *, final: bool = False) -> dict[bytes, Task]:
        found = await known(ids, final=final)
        return {name: replace(each, state=TaskState.COMMITTING) for name, each in found.items()} if final else found

    bidder.tasks = as_it_was  # type: ignore[method-assign]
    state = await village.until(task, TaskState.REVEALING)
    while village.node.chain.height < state.deadline - LAST_BLOCKS - 1:
        await village.block()
        assert village.task(task).revealed == 0
    found = await village.until(task, TaskState.AWARDING)
    assert found.revealed == 1


@in_task_village(4)
async def test_a_checkpoint_that_nobody_can_go_on_from_is_not_held(village: TaskVillage) -> None:
    village.bid_for(*PRICES)
    winner = village.hands[village.miners[0].keys.stash].training
    winner.is_breaking = True
    task = await village.submit()
    await village.until(task, TaskState.CLAIMED)
    assert not village.happened(MilestoneCounted)
    standby = next(miner for miner in village.miners if "not_held" in miner.heard.names())
    assert "not a state of" in str(standby.heard.problems("not_held")[0])
