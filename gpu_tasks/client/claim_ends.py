"""The end of a claim: the pay of its checks, from the claim in the state before that block and the block's events.

Both are proved, and available while the node keeps them. Units and tasks share this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cli.output import Account
from gpu_tasks.market.claims.claim_closing import FORFEITING, fee_of_samples, vote_fee
from gpu_tasks.market.claims.claim_events import CheckEnded
from gpu_tasks.market.claims.claims import Check, CheckEnd, ResultClaim
from gpu_tasks.market.claims.money import EventMoney, MoneyEvent, Payee, Purse, settle
from wallet.amounts import Grains


@dataclass(frozen=True, slots=True)
class CheckPayment:
    """Grains that a checker earned, or that burned if `payee` is None."""

    payee: bytes | None
    grains: int
    payer: bytes
    is_of_customer: bool
    """False if a replaced checker paid."""


def claim_at_end(claim_id: bytes, claim: ResultClaim, events: Sequence[object]) -> ResultClaim:
    """Return a claim with the check that ended in the block of its end. `claim` is of the state before that block."""
    ended = {event.check: event.end for event in events if isinstance(event, CheckEnded) and event.claim == claim_id}
    checks = tuple(_ended(claim, check, ended.get(place, check.end)) for place, check in enumerate(claim.checks))
    return replace(claim, checks=checks)


def check_facts(claim: ResultClaim | None) -> list[dict[str, Any]]:
    """Return the checks of a claim for programs."""
    return [
        {
            "checker": Account(check.checker),
            "is_second": check.is_second,
            "end": check.end.name.lower(),
            "fee": Grains(check.fee),
        }
        for check in (() if claim is None else claim.checks)
    ]


def paid_checks(claim: ResultClaim) -> list[CheckPayment]:
    """Return the pay of the checks that passed, as `claim_closing.conclude` pays it at the end of a passed claim."""
    terms = claim.terms
    forfeited = {check.checker: check.held for check in claim.checks if check.end in FORFEITING}
    of_customer = terms.fees_held - claim.fees_paid
    payments = []
    for check in (each for each in claim.checks if each.end is CheckEnd.PASSED):
        payers = {Purse.FORFEITED: tuple(forfeited.items()), Purse.CUSTOMER: ((terms.customer, of_customer),)}
        event = EventMoney(check.fee, vote_fee(terms), terms.collateral, payers, {Payee.CHECKER: (check.checker,)})
        for flow in settle(MoneyEvent.PASSED, event):
            is_of_customer = flow.purse is Purse.CUSTOMER
            if is_of_customer:
                of_customer -= flow.amount
            else:
                forfeited[flow.source] -= flow.amount
            payments.append(CheckPayment(flow.payee, flow.amount, flow.source, is_of_customer))
    burned = [(checker, grains) for checker, grains in forfeited.items() if grains]
    return payments + [CheckPayment(None, grains, checker, is_of_customer=False) for checker, grains in burned]


def _ended(claim: ResultClaim, check: Check, end: CheckEnd) -> Check:
    if check.end is end:
        return check
    is_passed = end is CheckEnd.PASSED and check.shown is not None
    fee = fee_of_samples(claim.terms, check.shown) if is_passed and check.shown is not None else 0
    return replace(check, end=end, fee=fee)
