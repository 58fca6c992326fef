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
    plans: list[PlannedCall] = []
    facts: dict[str, Any] = {}

    async def look(client: ChainClient) -> None:
        payer = session.payer(sender)
        planned = await plan(client, payer)
        if isinstance(planned, NothingToSend):
            facts.update(planned.facts)
            return
        require_somebody_to_ask(is_asked=not (sending.dry_run or sending.is_agreed))
        plans.append(planned)
        facts.update(await _facts(client, planned, payer, sending.tip, as_json=session.output.as_json))

    async def send(client: ChainClient) -> None:
        (planned,) = plans
        await session.make(client, planned.call, session.key(sender), tip=sending.tip, result=planned.result)

    session.run(look)
    if not plans:
        session.output.facts({**facts, "sent": False})
        return
    is_refused = facts["refused"] is not None
    if sending.dry_run or (is_refused and not sending.is_anyway):
        session.output.facts({**facts, "sent": False})
        if is_refused:
            _refuse(facts["refused"], facts["refused_code"])
        return
    _ask(session.output, facts, sending, plans[0].question)
    # A second connection: the first would be closed as dead while a person takes time to answer.
    session.run(send)


async def _facts(client: ChainClient, planned: PlannedCall, payer: Payer, tip: int, *, as_json: bool) -> dict[str, Any]:
    fee = await client.fee(planned.call, payer, tip)
    tried = await _tried(client, planned.call, payer, fee, tip)
    fee -= tried.returned
    held = _held(tried.held, payer.account, as_json=as_json)
    return {
        "call": planned.call.name,
        "from": Account(payer.account),
        **planned.facts,
        **({"holds": held} if held else {}),
        "fee": Grains(fee),
        **({"tip": Grains(tip)} if tip else {}),
        "total": Grains(max(planned.moves, tried.amount) + fee + tip),
        "refused": tried.refusal,
        **({"refused_code": tried.code} if tried.refusal is not None else {}),
    }


async def _tried(client: ChainClient, call: Call, payer: Payer, fee: int, tip: int) -> Trial:
    """Return the dry run of the call. If it fails, print a note and return an empty trial."""
    try:
        return await attempt(client, [call], payer.account, fee, tip)
    except TrialError as error:
        note(f"the dry run failed: {error}. The fee shown is the most that it can be")
        return Trial()


def _held(changes: Sequence[HeldChange], signer: bytes, *, as_json: bool) -> Any:
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
        whose = "" if change.account == signer else f" of {as_text(Account(change.account))}"
        if change.account == STAKES:
            whose += " (where all delegations lie)"
        lines.append(f"{sign}{as_text(Grains(change.grains))}{whose} for {change.reason}: {change.reason.doc}")
    return "\n".join(lines)


def _refuse(why: str, code: str) -> None:
    told = why.removesuffix(".")
    # A payment without money fails in its block too, and costs the fee.
    advice = (
        "Ask for less, or send the account more oGPU" if code in MONEY_CODES else "Add --anyway to send it nevertheless"
    )
    raise CallFailedError(f"the chain would refuse this: {told}. Nothing was sent. {advice}", code=code or "refused")


def require_somebody_to_ask(*, is_asked: bool) -> None:
    """Raise WalletError if there is a question, and no terminal to ask it."""
    if is_asked and not is_attended():
        raise WalletError(
            "there is no terminal to ask for confirmation. Add --yes to send, or --dry-run to look", code="no_terminal"
        )


def is_attended() -> bool:
    """Return True if a person can answer questions at the terminal."""
    return sys.stdin.isatty()


def _ask(output: Output, facts: Mapping[str, Any], sending: SendingOptions, question: str) -> None:
    shown = {name: value for name, value in facts.items() if value is not None}
    if not output.as_json:
        output.facts(shown)
    if not sending.is_agreed:
        # Under --json standard output holds the result and nothing else, so the question says it all.
        what = ", ".join(f"{name} {as_text(value)}" for name, value in shown.items() if name != "call")
        click.confirm(f"Send {facts['call']} ({what})?" if output.as_json else question, abort=True, err=True)
