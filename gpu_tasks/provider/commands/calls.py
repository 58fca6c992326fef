"""Calls of a stash or a provider key: tried under `--dry-run`, else made. Calls that lock money are confirmed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import click

from cli import calls as making
from cli.output import Account, as_text
from cli.session import CallFailedError, WalletSession, note
from gpu_tasks.provider.commands.options import told
from gpu_tasks.provider.registration import Planned
from runtime.frame.call import Call
from runtime.pallets.utility import Utility
from wallet import trial
from wallet.amounts import Grains
from wallet.client import ChainClient
from wallet.keypair import Keypair

PlanCalls = Callable[[ChainClient, Keypair], Awaitable[Sequence[Planned]]]
"""Plan the calls of a key. An empty plan prints its own explanation."""


def make(
    session: WalletSession, key: Callable[[], Keypair], plan: PlanCalls, *,
    dry_run: bool, is_agreed: bool = False, before: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Plan calls at the node, try them, show their cost, ask if they lock money, and make them in one extrinsic.

    `before` is called after the confirmation, before the calls leave. Raise CallFailedError if the chain refuses them,
    and WalletError if there is no terminal to ask.
    """
    planned: list[Planned] = []
    facts: dict[str, Any] = {}
    signers: list[Keypair] = []

    async def look(client: ChainClient) -> None:
        signers.append(key())
        planned.extend(await plan(client, signers[0]))
        if planned:
            making.require_somebody_to_ask(is_asked=is_asked())
            facts.update(await _tried(client, planned, signers[0]))

    async def send(client: ChainClient) -> None:
        note("waiting until a final block holds the calls")
        await session.make(client, _one_call(planned), signers[0])

    def is_asked() -> bool:
        return any(step.grains or step.alters for step in planned) and not (dry_run or is_agreed)

    session.run(lambda client: told(lambda: look(client)))
    if not planned:
        return
    if dry_run or facts["refused"] is not None:
        session.output.facts(facts)
        if facts["refused"] is not None:
            _refuse(facts["refused"], facts["refused_code"])
        return
    if not session.output.as_json:  # the result alone then
        session.output.facts({name: value for name, value in facts.items() if name not in ("refused", "sent")})
    if is_asked():
        click.confirm(_question(facts), abort=True, err=True)
    before()
    # A second connection: the first would be closed as dead while a person takes time to answer.
    session.run(lambda client: told(lambda: send(client)))


def _question(facts: Mapping[str, Any]) -> str:
    total = as_text(facts["total"])
    return f"Lock and send {total} in all?" if facts["amount"] else f"Send this, for a fee of {total}?"


def _refuse(why: str, code: str) -> None:
    raise CallFailedError(f"the chain would refuse this: {why}", code=code or "refused")


def _one_call(planned: Sequence[Planned]) -> Call:
    calls = [step.call for step in planned]
    return calls[0] if len(calls) == 1 else Utility.batch_all(calls=tuple(calls))


async def _tried(client: ChainClient, planned: Sequence[Planned], key: Keypair) -> dict[str, Any]:
    """Return the cost of the calls, and the chain's refusal."""
    fee = await client.fee(_one_call(planned), key)
    stash = next((step.stash for step in planned if step.stash is not None), None)
    try:
        if stash is None:
            tried = await trial.attempt(client, [step.call for step in planned], key.account, fee)
        else:  # the key pays the fee, and the stash all else: what it binds shows when it calls itself
            tried = await trial.attempt(client, [step.call for step in planned], stash)
    except trial.TrialError as error:
        note(f"the dry run failed: {error}")
        tried = trial.Trial(sum(step.grains for step in planned))
    return _cost(planned, key, fee, tried)


def only(*calls: Call) -> list[Planned]:
    """Return a plan of calls that lock and send no money."""
    return [Planned(call) for call in calls]


def _cost(planned: Sequence[Planned], key: Keypair, fee: int, tried: trial.Trial) -> dict[str, Any]:
    """Return what leaves the free balance, by purpose. Bonds stay the signer's, and are locked."""
    # Where the chain would refuse, the trial stopped half way: then the plan is the better reckoning.
    amount = tried.amount if tried.refusal is None else sum(step.grains for step in planned)
    facts = {
        "calls": ", ".join(step.call.name for step in planned),
        "from": Account(key.account),
        **{name: value for step in planned for name, value in step.facts.items()},
        **{step.purpose: Grains(step.grains) for step in planned if step.grains},
        "amount": Grains(max(0, amount)),
    }
    if amount < 0:
        facts["comes_back"] = Grains(-amount)
    return facts | {
        "fee": Grains(fee),
        "total": Grains(max(0, amount) + fee),
        "refused": tried.refusal,
        **({"refused_code": tried.code} if tried.refusal is not None else {}),
        "sent": False,
    }
