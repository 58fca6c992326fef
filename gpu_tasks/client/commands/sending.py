"""How a command sends a call: what it costs and moves is shown, people are asked, and what became of it is shown.

Always: under `--dry-run` nothing is sent; without `--yes` nothing is sent before somebody agreed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from gpu_tasks.client.funds import require, spendable
from runtime.frame.call import Call
from wallet.asking import require_agreement
from wallet.client import ChainClient, Outcome
from wallet.keypair import Keypair
from wallet.output import Grains
from wallet.session import CallFailedError, WalletSession

key_option = click.option("--key", "key_text", required=True, metavar="KEY", help="A stored key, or one like //Bob.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what it costs and send nothing.")
yes_option = click.option("--yes", "is_agreed", is_flag=True, help="Do not ask before sending.")


async def send(
    session: WalletSession,
    client: ChainClient,
    call: Call,
    key: Keypair,
    terms: Mapping[str, Any],
    *,
    locks: int = 0,
    is_agreed: bool,
    dry_run: bool,
    result: Callable[[Outcome], Mapping[str, Any]] = lambda _: {},
) -> None:
    """Show `terms` and the fee, ask, send, wait for finality, show `result`; CallFailedError if the chain refused.

    `locks` is what the account must have beside the fee.
    """
    fee = await client.fee(call, key)
    facts = {**terms, "fee": Grains(fee)}
    if dry_run:
        session.output.facts({**facts, "sent": False})
        return
    require(await spendable(client, key.account), locks + fee, "this")
    is_shown = not is_agreed and not session.output.as_json
    if is_shown:
        session.output.facts(facts)
    if not is_agreed:
        require_agreement("Send it?", "a program that sends adds --yes, or looks first with --dry-run")
    with session.output.console.status("waiting for finality"):
        outcome = await client.submit(call, key)
    if not outcome.is_success:
        raise CallFailedError(f"{call.name} failed in block {outcome.block_number}: {outcome.error}")
    sent = {"block": outcome.block_number, "extrinsic": outcome.extrinsic_hash, "fee": Grains(outcome.fee)}
    session.output.facts({**({} if is_shown else terms), **result(outcome), **sent, "sent": True})
