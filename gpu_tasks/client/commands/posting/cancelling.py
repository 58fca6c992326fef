"""The command that takes back what was posted: a unit, a task, or what of a run of a file still waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gpu_tasks.client.commands.deciding import cancelled
from gpu_tasks.client.commands.naming import task_if_known
from gpu_tasks.client.commands.posting.once import postings_option
from gpu_tasks.client.commands.posting.run_cancelling import cancel_run
from gpu_tasks.client.commands.sending import key_option, planned
from gpu_tasks.client.commands.units import known_unit, unit_id_of_text
from gpu_tasks.client.results import ResultError, progress
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState, is_open
from runtime.cryptography import ss58
from wallet.client import ChainClient, Payer
from wallet.commands.making import PlannedCall, SendingOptions, make, sending_options
from wallet.output import Grains
from wallet.session import WalletSession
from wallet.trust import hash_typed


@click.command()
@click.argument("unit", metavar="UNIT|TASK|RUN")
@key_option
@postings_option
@sending_options
@click.pass_obj
def cancel(session: WalletSession, unit: str, key_text: str, postings: Path, sending: SendingOptions) -> None:
    """Take back a UNIT (0x..) that is queued, a TASK (0x..) that does not run yet, or what of a RUN still waits.

    What it costs is shown. Of a unit, and of a task before its award, a tenth of the bond burns; of a task that was
    awarded all of it goes. A RUN is named by its file of results, or its id: see `ogpu batch`. What is worked on is
    waited for, and written; every other line goes into its file of errors as cancelled.
    """
    if hash_typed(unit) is None:
        cancel_run(session, unit, key_text, sending, postings)
        return

    async def plan(client: ChainClient, payer: Payer) -> PlannedCall:
        unit_id = unit_id_of_text(unit)
        final = await client.finalized()
        task = await task_if_known(client, unit_id, final)
        if task is not None:
            return await cancelled(session, client, payer, unit_id, task)
        found = await known_unit(client, unit_id, final)
        _check_cancellable(found, payer.account)
        return planned(session.output, InferenceMarket.cancel(unit=unit_id), _cancel_facts(unit_id, found))

    make(session, key_text, sending, plan)


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
