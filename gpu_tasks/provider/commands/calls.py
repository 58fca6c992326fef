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
from wallet.client import ChainClient, NotIncludedError
from wallet.keypair import Keypair

SENDS_MAX = 3
"""The attempts to send calls. A daemon signs with the same key, and its message may take the same nonce.

`send_once` first settles the fate of an earlier attempt, so nothing is executed twice.
"""
PlanCalls = Callable[[ChainClient, Keypair], Awaitable[Sequence[Planned]]]
"""Plan the calls of a key. An empty plan prints its own explanation."""


def make(
    session: WalletSession, key: Callable[[], Keypair], plan_calls: PlanCalls, *,
    dry_run: bool, is_agreed: bool = False, before: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Plan calls at the node, try them, show their cost, ask if they lock money, and make them in one extrinsic.

    `before` is called after the confirmation, before the calls leave. Raise CallFailedError if the chain refuses them,
    and WalletError if there is no terminal to ask.
    """
    planned_calls: list[Planned] = []
    call_facts: dict[str, Any] = {}
    signing_keys: list[Keypair] = []

    async def look(client: ChainClient) -> None:
        signing_keys.append(key())
        planned_calls.extend(await plan_calls(client, signing_keys[0]))
        if planned_calls:
            # Before the trial reads the chain, so that a script without --yes fails at once.
            making.require_somebody_to_ask(is_asked=is_asked())
            call_facts.update(await _tried_cost(client, planned_calls, signing_keys[0]))

    async def send(client: ChainClient) -> None:
        note("waiting until a final block holds the calls")
        await _send_until_included(session, client, _one_call(planned_calls), signing_keys[0])

    def is_asked() -> bool:
        return any(planned_call.grains or planned_call.alters for planned_call in planned_calls) and not (
            dry_run or is_agreed
        )

    session.run(lambda client: told(lambda: look(client)))
    if not planned_calls:
        return
    if dry_run or call_facts["refused"] is not None:
        session.output.facts(call_facts)
        if call_facts["refused"] is not None:
            _raise_refusal(call_facts["refused"], call_facts["refused_code"])
        return
    if not session.output.as_json:  # the result alone then
        session.output.facts({name: fact for name, fact in call_facts.items() if name not in ("refused", "sent")})
    if is_asked():
        click.confirm(_question(call_facts), abort=True, err=True)
    before()
    # A second connection: the first would be closed as dead while a person takes time to answer.
    session.run(lambda client: told(lambda: send(client)))


async def _send_until_included(session: WalletSession, client: ChainClient, call: Call, key: Keypair) -> None:
    for _ in range(SENDS_MAX - 1):
        try:
            await session.make(client, call, key)
        except NotIncludedError as error:
            note(f"{error}; the call is sent again")
        else:
            return
    await session.make(client, call, key)


def _question(call_facts: Mapping[str, Any]) -> str:
    total_text = as_text(call_facts["total"])
    return f"Lock and send {total_text} in all?" if call_facts["amount"] else f"Send this, for a fee of {total_text}?"


def _raise_refusal(text: str, code: str) -> None:
    raise CallFailedError(f"the chain would refuse this: {text}", code=code or "refused")


# batch_all makes all calls or none, so a refused one leaves no half of a registration behind.
def _one_call(planned_calls: Sequence[Planned]) -> Call:
    calls = [planned_call.call for planned_call in planned_calls]
    return calls[0] if len(calls) == 1 else Utility.batch_all(calls=tuple(calls))


async def _tried_cost(client: ChainClient, planned_calls: Sequence[Planned], signing_key: Keypair) -> dict[str, Any]:
    """Return the cost of the calls, and the chain's refusal."""
    fee_grains = await client.fee(_one_call(planned_calls), signing_key)
    paying_stash = next((planned_call.stash for planned_call in planned_calls if planned_call.stash is not None), None)
    try:
        if paying_stash is None:
            call_trial = await trial.attempt(
                client, [planned_call.call for planned_call in planned_calls], signing_key.account, fee_grains
            )
        else:  # the key pays the fee, and the stash all else: what it binds shows when it calls itself
            call_trial = await trial.attempt(
                client, [planned_call.call for planned_call in planned_calls], paying_stash
            )
    except trial.TrialError as error:
        # A trial that fails proves nothing about the calls, so the plan's amounts are shown, and the chain decides.
        note(f"the dry run failed: {error}")
        call_trial = trial.Trial(sum(planned_call.grains for planned_call in planned_calls))
    return _cost_facts(planned_calls, signing_key, fee_grains, call_trial)


def only(*calls: Call) -> list[Planned]:
    """Return a plan of calls that lock and send no money."""
    return [Planned(call) for call in calls]


def _cost_facts(
    planned_calls: Sequence[Planned], signing_key: Keypair, fee_grains: int, call_trial: trial.Trial
) -> dict[str, Any]:
    """Return what leaves the free balance, by purpose. Bonds stay the signer's, and are locked."""
    # Where the chain would refuse, the trial stopped half way: then the plan is the better reckoning.
    amount_grains = (
        call_trial.amount if call_trial.refusal is None else sum(planned_call.grains for planned_call in planned_calls)
    )
    cost_facts = {
        "calls": ", ".join(planned_call.call.name for planned_call in planned_calls),
        "from": Account(signing_key.account),
        **{name: fact for planned_call in planned_calls for name, fact in planned_call.facts.items()},
        **{planned_call.purpose: Grains(planned_call.grains) for planned_call in planned_calls if planned_call.grains},
        "amount": Grains(max(0, amount_grains)),
    }
    if amount_grains < 0:
        cost_facts["comes_back"] = Grains(-amount_grains)
    return cost_facts | {
        "fee": Grains(fee_grains),
        "total": Grains(max(0, amount_grains) + fee_grains),
        "refused": call_trial.refusal,
        **({"refused_code": call_trial.code} if call_trial.refusal is not None else {}),
        "sent": False,
    }
