"""The command that says what would become of a task, before anything is submitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gpu_tasks.client import planning
from gpu_tasks.client.commands.tasks import facts_of, file_argument
from gpu_tasks.client.costs.clearing import TaskEstimate, estimate_of
from gpu_tasks.client.funds import spendable
from gpu_tasks.client.task_files import LoadedTask, load_any
from gpu_tasks.client.willingness import Willingness, willingness_of
from gpu_tasks.tasks.plan import BiddingDevice, Hindrance, PlannedDevice, TaskPlan, plan_of
from runtime.cryptography import ss58
from wallet.amounts import format_amount
from wallet.client import ChainClient
from wallet.output import Account, Grains
from wallet.session import CallFailedError, WalletSession, explained, note

DEVICE_COLUMNS = ("device", "provider", "class", "could_bid", "why_not", "policy")


@click.command()
@file_argument
@click.option("--key", "key_text", metavar="KEY", help="Who would submit it: own devices do not count, funds do.")
@click.pass_obj
def plan(session: WalletSession, file: Path, key_text: str | None) -> None:
    """Say what would become of the task of FILE: who could serve it, why the others cannot, cost and start.

    Nothing is sent to the chain. The command asks eligible providers whether they run the task. Exit code 1: nobody
    could serve it now, or too few say that they run it.
    """
    found: list[LoadedTask] = []
    explained(lambda: found.append(load_any(file)))  # before any node is asked

    async def body(client: ChainClient) -> None:
        slot_ms = planning.slot_ms(client)
        asked = found[0].asked(bytes(32), slot_ms)
        final = await client.finalized()
        numbers = await planning.auction_numbers(client, final, asked.checked_by)
        terms, intervals = asked.terms(numbers.rules, slot_ms), asked.intervals(slot_ms)
        planning.require_interval(terms, intervals, numbers, slot_ms)
        account = None if key_text is None else session.account(key_text)
        own = frozenset[bytes]() if account is None else await planning.own(client, account, final)
        devices = await planning.bidding_devices(client, final)
        answer = plan_of(terms, asked.classes, numbers, devices, own, intervals, asked.checked_by)
        funds = None if account is None else await spendable(client, account)
        estimate = await estimate_of(client, asked, numbers.rules, answer, slot_ms, final)
        says = await willingness_of(client, asked, numbers.rules, answer, slot_ms, final)
        _show(session, {**facts_of(asked, slot_ms), **_facts(answer, estimate, funds, slot_ms)}, answer, says)
        if not planning.sells_tasks(client):
            note("this chain sells no tasks yet: cost and start are by the numbers that the auction begins with")
        elif answer.is_served:
            note("these devices could bid. Their owners decide whether they do; their answers are not binding")
        if not answer.is_served:
            raise CallFailedError(f"nobody could serve the task now: {answer.why_not}. See `why not` of each device")
        if why := says.why_too_few(answer.terms.slots):
            raise CallFailedError(why)
        if funds is not None and funds < answer.locked + answer.prepaid:
            needed = format_amount(answer.locked + answer.prepaid)
            raise CallFailedError(f"{ss58.encode(account or b'')} can spend {format_amount(funds)} oGPU of {needed}")

    session.run(body)


def _show(session: WalletSession, facts: dict[str, Any], answer: TaskPlan, says: Willingness) -> None:
    rows = [_device(planned, answer, says) for planned in answer.devices]
    if session.output.as_json:
        session.output.facts({**facts, **says.facts(), "devices_known": rows})
        return
    del facts["served"]
    facts["could_bid"] = says.sentence
    session.output.facts(facts)
    session.output.rows("Devices", DEVICE_COLUMNS, rows)


def _facts(answer: TaskPlan, estimate: TaskEstimate, funds: int | None, slot_ms: int) -> dict[str, Any]:
    return {
        "served": answer.is_served,
        "could_bid": answer.able,
        "price_is_set_by": "the best loser" if answer.has_rival else "nobody: the greatest price is paid",
        "standby": planning.standby_of(answer),
        "collateral_of_a_bid": Grains(answer.terms.collateral_min),
        "locked": Grains(answer.locked),
        "prepaid": Grains(answer.prepaid),
        "most": Grains(answer.most),
        **estimate.facts(),
        "spendable": None if funds is None else Grains(funds),
        "starts_after": _blocks(answer.starts_from, slot_ms),
        "starts_by": _blocks(answer.starts_by, slot_ms),
        "ends_by": _blocks(answer.ends_by, slot_ms),
    }


def _blocks(count: int, slot_ms: int) -> str:
    return f"{count} blocks, {-(-count * slot_ms // 1_000)} s or more"


def _device(planned: PlannedDevice, answer: TaskPlan, says: Willingness) -> dict[str, Any]:
    device = planned.device
    return {
        "device": device.device,
        "provider": Account(device.owner),
        "class": device.kind.name.lower(),
        "could_bid": planned.hindrance is None,
        "why_not": None if planned.hindrance is None else _why(planned.hindrance, device, answer),
        "policy": None if planned.hindrance is not None else says.answers[device.owner],
    }


def _why(hindrance: Hindrance, device: BiddingDevice, answer: TaskPlan) -> str:
    """Why a device could not bid, with the numbers that decide it."""
    says: str = hindrance.value
    match hindrance:
        case Hindrance.BOND:
            return f"{says}: {format_amount(device.bond)} oGPU of {format_amount(device.bond_min)}"
        case Hindrance.FUNDS:
            needed = format_amount(answer.terms.collateral_min)
            return f"{says}: {needed} oGPU for each bid, and it has {format_amount(device.spendable)}"
        case _:
            return says
