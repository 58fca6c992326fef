"""Calls of a stash or a provider key: tried first under `--dry-run`, else made and waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpu_tasks.provider.registering import Planned
from runtime.frame.call import Call
from runtime.pallets.utility import Utility
from wallet import trial
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.output import Account, Grains
from wallet.session import CallFailedError, WalletSession


async def make(
    session: WalletSession, client: ChainClient, planned: Sequence[Planned], key: Keypair, *, dry_run: bool
) -> None:
    """Make the calls in one extrinsic; with `dry_run` only say what they would cost, and whether the chain takes them.

    CallFailedError if the chain refuses, or would.
    """
    calls = [step.call for step in planned]
    call = calls[0] if len(calls) == 1 else Utility.batch_all(calls=tuple(calls))
    if not dry_run:
        await session.make(client, call, key)
        return
    fee = await client.fee(call, key)
    tried = await trial.attempt(client, calls, key.account, fee)
    session.output.facts(_cost(planned, key, fee, tried))
    if tried.refusal is not None:
        raise CallFailedError(f"the chain would refuse this: {tried.refusal}")


def only(*calls: Call) -> list[Planned]:
    """Calls that bind and send no money."""
    return [Planned(call) for call in calls]


def _cost(planned: Sequence[Planned], key: Keypair, fee: int, tried: trial.Trial) -> dict[str, Any]:
    """What would leave the free balance, each purpose by itself: bonds stay the signer's, and are locked."""
    # Where the chain would refuse, the trial stopped half way: then the plan is the better reckoning.
    amount = tried.amount if tried.refusal is None else sum(step.grains for step in planned)
    facts = {
        "calls": ", ".join(step.call.name for step in planned),
        "from": Account(key.account),
        **{step.purpose: Grains(step.grains) for step in planned if step.grains},
        "amount": Grains(max(0, amount)),
    }
    if amount < 0:
        facts["comes_back"] = Grains(-amount)
    return facts | {
        "fee": Grains(fee),
        "total": Grains(max(0, amount) + fee),
        "refused": tried.refusal,
        "sent": False,
    }
