"""The command that takes back what was posted: a unit, a task, or what of a run of a file still waits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gpu_tasks.client.commands.deciding import cancelled
from gpu_tasks.client.commands.naming import TaskError, is_id, named_id, task_if_known
from gpu_tasks.client.commands.posting.once import postings_option
from gpu_tasks.client.commands.posting.run_cancelling import cancel_run
from gpu_tasks.client.commands.sending import key_option, planned
from gpu_tasks.client.commands.units import known_unit
from gpu_tasks.client.file_runs.stopping import CANCELS_PER_CALL
from gpu_tasks.client.results import ResultError, progress
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState, is_open
from runtime.cryptography import ss58
from runtime.pallets.utility import Utility
from wallet.client import ChainClient, Payer
from wallet.commands.making import PlannedCall, SendingOptions, make, sending_options
from wallet.output import Grains
from wallet.session import WalletSession


@click.command()
@click.argument("named", metavar="UNIT|TASK|RUN...", nargs=-1, required=True)
@key_option
@postings_option
@sending_options
@click.pass_obj
def cancel(
    session: WalletSession, named: tuple[str, ...], key_text: str, postings: Path, sending: SendingOptions
) -> None:
    """Take back a UNIT (0x..) that is queued, a TASK (0x..) that does not run yet, or what of a RUN still waits.

    Several units and tasks are taken back by one call: all of them, or none where one cannot be.

    What it costs is shown. Of a unit, and of a task before its award, a tenth of the bond burns; of a task that was
    awarded all of it goes. A RUN is named by its file of results, or its id: see `ogpu batch`. What is worked on is
    waited for, and written; every other line goes into its file of errors as cancelled.
    """
    runs = [text for text in named if not is_id(text)]
    if runs and len(named) > 1:
        raise click.UsageError(f"{runs[0]!r} is a run, or unknown: cancel a run by itself")
    if len(named) > CANCELS_PER_CALL:
        raise click.UsageError(f"give at most {CANCELS_PER_CALL} units and tasks at once")
    if runs:
        cancel_run(session, runs[0], key_text, sending, postings)
        return

    async def plan(client: ChainClient, payer: Payer) -> PlannedCall:
        typed = [await named_id(session, client, text, key_text) for text in named]
        ids = list(dict.fromkeys(typed))
        plans = [await _plan_of(session, client, payer, each) for each in ids]
        if len(plans) == 1:
            return plans[0]
        facts = {name: _sum(plans, name) for name in ("comes_back", "comes_back_later")}
        facts |= {"gone": _sum(plans, "gone", "burned")}  # of tasks, of units
        call = Utility.batch_all(calls=tuple(each.call for each in plans))
        return planned(session.output, call, {"taken_back": len(ids), **facts})

    make(session, key_text, sending, plan)


async def _plan_of(session: WalletSession, client: ChainClient, payer: Payer, thing_id: bytes) -> PlannedCall:
    """Return the call that takes back a unit or a task; ResultError or TaskError, with its id, if it cannot be."""
    final = await client.finalized()
    task = await task_if_known(client, thing_id, final)
    try:
        if task is not None:
            return await cancelled(session, client, payer, thing_id, task)
        found = await known_unit(client, thing_id, final)
        _check_cancellable(found, payer.account)
    except (ResultError, TaskError) as error:
        raise type(error)(f"0x{thing_id.hex()}: {error}") from None
    return planned(session.output, InferenceMarket.cancel(unit=thing_id), _cancel_facts(thing_id, found))


def _sum(plans: Sequence[PlannedCall], *names: str) -> Grains:
    """Sum the amounts of these names over all plans."""
    return Grains(sum(plan.facts.get(name, 0) for plan in plans for name in names))


def _check_cancellable(unit: Unit, account: bytes) -> None:
    """ResultError that says why the account cannot take the unit back."""
    if unit.customer != account:
        raise ResultError(f"the unit is {ss58.encode(unit.customer)}'s: only the key that posted it can cancel it")
    if not is_open(unit):
        raise ResultError(f"the unit was {progress(unit)} in block {unit.ended_at}: there is nothing to cancel")
    if unit.state is not UnitState.QUEUED:
        raise ResultError(
            f"the unit is {progress(unit)}: providers are at work, and only a queued unit can be cancelled"
        )


def _cancel_facts(unit_id: bytes, unit: Unit) -> dict[str, Any]:
    burned = money.cancel_burn(unit)
    back = unit.escrow + unit.bond - burned
    later = Grains(unit.deposit)  # with the unit's record
    return {"unit": unit_id, "burned": Grains(burned), "comes_back": Grains(back), "comes_back_later": later}
