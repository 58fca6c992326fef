"""`auctions`, `policy` and `drain`: the tasks at auction, the bidding policy, the end of new work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from cli.session import note
from gpu_tasks.data.proven_rates import why_no_work
from gpu_tasks.market.capacity.standing import ProvenRates
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.market.training.orders import runs_program
from gpu_tasks.market.training.tasks import Task, TaskState
from gpu_tasks.provider.chain.live import LiveChain
from gpu_tasks.provider.commands.containers import bidding_kinds
from gpu_tasks.provider.commands.options import ProviderOptions, made_base_path, told
from gpu_tasks.provider.commands.run import connect
from gpu_tasks.provider.execution.workloads import UnknownWorkloadError, Workloads
from gpu_tasks.provider.programs.means import CONTAINER_KIND
from gpu_tasks.provider.tasks.bid_terms import Means, UnfitError, check_program, check_task
from gpu_tasks.provider.tasks.policy import (
    BidPolicy,
    hours_of,
    hours_text,
    image_named,
    kind_named,
    price_of,
    price_text,
)
from gpu_tasks.provider.tasks.policy_file import HostMachine, is_draining, read_policy, set_draining, write_policy
from wallet.amounts import Grains

AUCTIONS = (
    "task",
    "kind",
    "state",
    "until",
    "price_max",
    "blocks_max",
    "milestones",
    "devices",
    "bids",
    "own_bid",
    "not_bid",
)
ONLY_TRIED = "no reason on the chain. The daemon tries the task first: see the log of `run`"
FOR_NOTHING = "without --least-price the daemon bids one grain, and may be paid no more"
BIDS_OPENED = "the auction takes no more bids: bids are being opened"
NO_IMAGE = "the policy allows no image, so the daemon bids for no container. Add --image REPOSITORY"
NO_CONTAINERS = "the policy has images, but no containers. Add --kind container"
NEXT_START = "container settings apply from the daemon's next start. Restart a running daemon"


def auctions(options: ProviderOptions, watch: bool) -> None:
    """Print the tasks at auction."""

    async def show() -> None:
        chain, _ = await connect(options, tell=note)
        if watch:
            note("watching final blocks. Stop with Ctrl-C")
        try:
            shown_rows = None
            async for view in chain.views():
                task_rows = await auction_rows(chain, read_policy(options.base_path, bidding_kinds()), view.newest)
                # Most blocks change nothing, and a table for each of them would hide the changes.
                if task_rows != shown_rows:
                    options.output.rows(f"Auctions at block {view.height}", AUCTIONS, task_rows)
                if task_rows != shown_rows and not task_rows:
                    note("no task is at auction")
                shown_rows = task_rows
                if not watch:
                    return
        finally:
            await chain.close()

    asyncio.run(told(show))


async def auction_rows(chain: LiveChain, bid_policy: BidPolicy, newest_height: int) -> list[dict[str, Any]]:
    """Return the tasks at auction as rows. Raise ChainError if the chain cannot be read."""
    auctioned_tasks: Mapping[bytes, Task] = await chain.auctions()
    bid_means = Means(chain.stash, await chain.spendable(), 0)
    statuses = await chain.own_devices()
    tasks_bid_for = {status.device.assignment for status in statuses}
    unproven_reason = unproven_text(statuses, (await chain.roll_call([status.id for status in statuses])).rates)
    return [
        {
            "task": task_id,
            "kind": kind_of(task),
            "state": task.state.name.lower(),
            "until": task.deadline,
            "price_max": Grains(task.terms.price_max),
            "blocks_max": task.terms.blocks_max,
            "milestones": task.milestones,
            "devices": task.terms.slots,
            "bids": task.bids,
            "own_bid": task_id in tasks_bid_for,
            "not_bid": None
            if task_id in tasks_bid_for
            else why_not(task, bid_policy, bid_means, newest_height) or unproven_reason or ONLY_TRIED,
        }
        for task_id, task in auctioned_tasks.items()
    ]


def unproven_text(statuses: Sequence[DeviceStatus], proven_rates: ProvenRates) -> str:
    """Return why the chain takes no bid with any of these devices; empty if it takes one."""
    reason_by_device = {status.id: why_no_work(proven_rates, status.id, status.device.kind) for status in statuses}
    if not reason_by_device or not all(reason_by_device.values()):
        return ""
    return "; ".join(
        f"device 0x{device_id.hex()[:8]}..: {no_work_reason}" for device_id, no_work_reason in reason_by_device.items()
    )


def kind_of(task: Task) -> str:
    """Return the name of a task's workload, or the beginning of its id."""
    if runs_program(task.order):
        return CONTAINER_KIND
    try:
        return Workloads().in_steps(task.order.workload).name
    except UnknownWorkloadError:
        return f"0x{task.order.workload.hex()[:8]}.."


def why_not(task: Task, bid_policy: BidPolicy, bid_means: Means, newest_height: int) -> str:
    """Return why the daemon does not bid, as far as the chain shows it; empty if it may bid."""
    if task.state is not TaskState.COMMITTING:
        return BIDS_OPENED
    host_machine = HostMachine()
    policy_reason = bid_policy.forbids(kind_of(task), *host_machine.time_of_week(), is_idle=host_machine.is_idle())
    if policy_reason:
        return policy_reason
    try:
        if runs_program(task.order):
            check_program(task, bid_means, newest_height)
        else:
            check_task(task, bid_means, bid_policy, newest_height)
    except UnfitError as error:
        return str(error)
    return ""


def policy(
    options: ProviderOptions, kinds: tuple[str, ...], is_none: bool, least_price: str | None,
    spans: tuple[str, ...], only_when_idle: bool | None, gangs: bool | None, images: tuple[str, ...],
    any_archive: bool | None, outbound: bool | None,
) -> None:  # fmt: skip
    """Print or change the bidding policy."""
    if is_none and kinds:
        raise click.UsageError("--none and --kind exclude each other. Leave one of them out")
    kind_names = bidding_kinds()
    present_policy = read_policy(options.base_path, kind_names)
    changed_policy = (
        present_policy
        if not kinds
        else replace(present_policy, kinds=tuple(kind_named(kind, kind_names) for kind in kinds))
    )
    if least_price is not None:
        changed_policy = replace(changed_policy, least_price=price_of(least_price))
    if spans:
        bid_hours = () if spans == ("always",) else tuple(hours_of(span) for span in spans)
        changed_policy = replace(changed_policy, schedule=bid_hours)
    if images:
        named_images = tuple(image_named(image) for image in images)
        changed_policy = replace(changed_policy, containers=replace(changed_policy.containers, images=named_images))
    if any_archive is not None:
        changed_policy = replace(changed_policy, containers=replace(changed_policy.containers, any_archive=any_archive))
    changed_policy = replace(
        changed_policy,
        kinds=() if is_none else changed_policy.kinds,
        only_when_idle=changed_policy.only_when_idle if only_when_idle is None else only_when_idle,
        gangs=changed_policy.gangs if gangs is None else gangs,
        containers=changed_policy.containers
        if outbound is None
        else replace(changed_policy.containers, outbound=outbound),
    )
    if changed_policy != present_policy:
        write_policy(made_base_path(options.base_path), changed_policy)
    options.output.facts(policy_facts(changed_policy) | {"changed": changed_policy != present_policy})
    for advice in _policy_advice(present_policy, changed_policy):
        note(advice)


def _policy_advice(present_policy: BidPolicy, changed_policy: BidPolicy) -> Iterator[str]:
    """Yield warnings about a new policy."""
    if changed_policy.kinds and not changed_policy.least_price.grains:
        yield FOR_NOTHING
    has_containers = CONTAINER_KIND in changed_policy.kinds
    if has_containers and not changed_policy.containers.has_images:
        yield NO_IMAGE
    if changed_policy.containers.has_images and not has_containers and not present_policy.containers.has_images:
        yield NO_CONTAINERS
    if changed_policy.containers != present_policy.containers or has_containers != (
        CONTAINER_KIND in present_policy.kinds
    ):
        yield NEXT_START


def policy_facts(bid_policy: BidPolicy) -> dict[str, Any]:
    """Return a policy as it is shown."""
    return {
        "kinds": ", ".join(bid_policy.kinds) or "none",
        "least_price": price_text(bid_policy.least_price),
        "schedule": ", ".join(hours_text(bid_hours) for bid_hours in bid_policy.schedule) or "always",
        "only_when_idle": bid_policy.only_when_idle,
        "gangs": bid_policy.gangs,
        "images": ", ".join(bid_policy.containers.images) or "none",
        "any_archive": bid_policy.containers.any_archive,
        "outbound": bid_policy.containers.outbound,
    }


def drain(options: ProviderOptions, is_off: bool) -> None:
    """Begin or end the drain of the daemon of this base path."""
    base_path = made_base_path(options.base_path)
    was_draining = is_draining(base_path)
    set_draining(base_path, drains=not is_off)
    options.output.facts({"draining": not is_off, "changed": was_draining is is_off})
