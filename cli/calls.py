"""Make a call: show its target and cost, refuse a call that must fail, ask for confirmation, and send it.

Invariants: `--dry-run` unlocks no key, signs nothing and sends nothing. Without `--yes` nothing is signed before a
person at a terminal has confirmed the call as the chain will read it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from cli.options import SendingOptions as SendingOptions  # noqa: PLC0414  # part of what commands share
from cli.output import Account, Output, as_text
from cli.session import CallFailedError, WalletSession, note
from runtime.frame.call import Call
from runtime.pallets.pots import STAKES
from wallet.amounts import Grains
from wallet.client import ChainClient, Outcome, Payer
from wallet.errors import WalletError
from wallet.trial import MONEY_CODES, HeldChange, Trial, TrialError, attempt

DUST_GRAINS = 1_000
"""Smaller changes of the delegation pool come from rounding alone. No account gains or loses them."""


@dataclass(frozen=True, slots=True)
class Planning:
    """A command's means to plan its call: session, node, payer, options."""

    session: WalletSession
    client: ChainClient
    payer: Payer
    sending: SendingOptions
    key_text: str
    """The signer, as typed."""


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call, its facts for the user, and the grains that it moves beside the fee."""

    call: Call
    facts: Mapping[str, Any] = field(default_factory=dict)
    moves: int = 0
    result: Callable[[Outcome], Mapping[str, Any]] = lambda _: {}
    """Further facts of a call that succeeded."""
    question: str = "Send it?"
    """The question to a user at a terminal, after all the facts."""


@dataclass(frozen=True, slots=True)
class NothingToSend:
    """Facts that make a call unnecessary. They are shown, and the command succeeds."""

    facts: Mapping[str, Any]


Plan = Callable[[ChainClient, Payer], Awaitable[PlannedCall | NothingToSend]]


def sends(plan: Callable[..., Awaitable[PlannedCall | NothingToSend]]) -> Callable[..., None]:
    """Make a command's body of the plan of a call, which the key of `--key` signs.

    The body takes the session and the parameters of a command with `sending_options`. The plan gets a `Planning` and
    the other parameters.
    """

    @functools.wraps(plan)
    def sent(session: WalletSession, *given: Any, key_text: str, sending: SendingOptions, **named: Any) -> None:
        def planned(client: ChainClient, payer: Payer) -> Awaitable[PlannedCall | NothingToSend]:
            return plan(Planning(session, client, payer, sending, key_text), *given, **named)

        make(session, key_text, sending, planned)

    return sent


def make(session: WalletSession, sender: str, sending: SendingOptions, plan: Plan) -> None:
    """Plan a call at the node, show it, ask, and send it."""
    planned_calls: list[PlannedCall] = []
    call_facts: dict[str, Any] = {}

    async def look(client: ChainClient) -> None:
        payer = session.payer(sender)
        planned_call = await plan(client, payer)
        if isinstance(planned_call, NothingToSend):
            call_facts.update(planned_call.facts)
            return
        require_somebody_to_ask(is_asked=not (sending.dry_run or sending.is_agreed))
        planned_calls.append(planned_call)
        call_facts.update(await _call_facts(client, planned_call, payer, sending.tip, as_json=session.output.as_json))

    async def send(client: ChainClient) -> None:
        (planned_call,) = planned_calls
        # The key is unlocked only here: a refused or declined call asks for no password.
        await session.make(client, planned_call.call, session.key(sender), tip=sending.tip, result=planned_call.result)

    session.run(look)
    if not planned_calls:
        session.output.facts({**call_facts, "sent": False})
        return
    is_refused = call_facts["refused"] is not None
    if sending.dry_run or (is_refused and not sending.is_anyway):
        session.output.facts({**call_facts, "sent": False})
        if is_refused:
            _raise_refusal(call_facts["refused"], call_facts["refused_code"])
        return
    _confirm_sending(session.output, call_facts, sending, planned_calls[0].question)
    # A second connection: the first would be closed as dead while a person takes time to answer.
    session.run(send)


async def _call_facts(
    client: ChainClient, planned_call: PlannedCall, payer: Payer, tip_grains: int, *, as_json: bool
) -> dict[str, Any]:
    fee_grains = await client.fee(planned_call.call, payer, tip_grains)
    trial = await _try_call(client, planned_call.call, payer, fee_grains, tip_grains)
    fee_grains -= trial.returned
    holds = _shown_changes(trial.held, payer.account, as_json=as_json)
    return {
        "call": planned_call.call.name,
        "from": Account(payer.account),
        **planned_call.facts,
        **({"holds": holds} if holds else {}),
        "fee": Grains(fee_grains),
        **({"tip": Grains(tip_grains)} if tip_grains else {}),
        "total": Grains(max(planned_call.moves, trial.amount) + fee_grains + tip_grains),
        "refused": trial.refusal,
        **({"refused_code": trial.code} if trial.refusal is not None else {}),
    }


async def _try_call(client: ChainClient, call: Call, payer: Payer, fee_grains: int, tip_grains: int) -> Trial:
    """Return the dry run of the call. If it fails, print a note and return an empty trial."""
    try:
        return await attempt(client, [call], payer.account, fee_grains, tip_grains)
    except TrialError as error:
        note(f"the dry run failed: {error}. The fee shown is the most that it can be")
        return Trial()


def _shown_changes(changes: Sequence[HeldChange], signer: bytes, *, as_json: bool) -> Any:
    """Return the locks and releases of a call by reason: rows for programs, lines for people."""
    if as_json:
        return [
            {
                "reason": str(change.reason),
                "change": Grains(change.grains),
                "account": Account(change.account),
                "what": change.reason.doc,
            }
            for change in changes
        ]
    lines = []
    for change in changes:
        if change.account == STAKES and -DUST_GRAINS < change.grains < 0:
            continue
        sign = "+" if change.grains > 0 else ""
        owner = "" if change.account == signer else f" of {as_text(Account(change.account))}"
        if change.account == STAKES:
            owner += " (where all delegations lie)"
        lines.append(f"{sign}{as_text(Grains(change.grains))}{owner} for {change.reason}: {change.reason.doc}")
    return "\n".join(lines)


def _raise_refusal(refusal: str, code: str) -> None:
    reason = refusal.removesuffix(".")
    # A payment without money fails in its block too, and costs the fee.
    advice = (
        "Ask for less, or send the account more oGPU" if code in MONEY_CODES else "Add --anyway to send it nevertheless"
    )
    raise CallFailedError(f"the chain would refuse this: {reason}. Nothing was sent. {advice}", code=code or "refused")


def require_somebody_to_ask(*, is_asked: bool) -> None:
    """Raise WalletError if there is a question, and no terminal to ask it."""
    if is_asked and not is_attended():
        raise WalletError(
            "there is no terminal to ask for confirmation. Add --yes to send, or --dry-run to look", code="no_terminal"
        )


def is_attended() -> bool:
    """Return True if a person can answer questions at the terminal."""
    return sys.stdin.isatty()


def _confirm_sending(output: Output, call_facts: Mapping[str, Any], sending: SendingOptions, question: str) -> None:
    shown_facts = {name: value for name, value in call_facts.items() if value is not None}
    if not output.as_json:
        output.facts(shown_facts)
    if not sending.is_agreed:
        # Under --json standard output holds the result and nothing else, so the question says it all.
        facts_text = ", ".join(f"{name} {as_text(value)}" for name, value in shown_facts.items() if name != "call")
        click.confirm(
            f"Send {call_facts['call']} ({facts_text})?" if output.as_json else question, abort=True, err=True
        )
