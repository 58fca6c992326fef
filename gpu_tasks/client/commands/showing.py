"""`show`: what the chain says of a unit, whosever it is: how it stands, who raced, why it ended, who was paid what.

Of a check of its leaves, and of racers who differed, also once that is over.
"""

from __future__ import annotations

from typing import Any

import click

from gpu_tasks.client.batches.leaf_looks import why_checked
from gpu_tasks.client.commands.naming import named_unit
from gpu_tasks.client.commands.units import known_unit
from gpu_tasks.client.costs.spent import SpentMoney
from gpu_tasks.client.events.leaf_ends import CheckEnd, dispute_ended, leaves_ended, lost_by
from gpu_tasks.client.hearings import why_heard
from gpu_tasks.client.payments import UnitPayment, payments_of
from gpu_tasks.client.refunds import why_refunded
from gpu_tasks.client.results import progress
from gpu_tasks.client.waiting import look, why_queued
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.units import Racer, Unit, UnitState, is_open
from wallet.client import ChainClient
from wallet.output import Account, Grains
from wallet.session import WalletSession

RACERS = ("racer", "device", "answer", "collateral", "lost")
PAYMENTS = ("to", "account", "amount", "out_of")
NOT_ALL = "what judges were paid, and by whom, is proved for the last 64 final blocks only"


@click.command()
@click.argument("unit")
@click.pass_obj
def show(session: WalletSession, unit: str) -> None:
    """Show how UNIT (0x..) stands on the chain, who races for it, why it ended, and who was paid and who lost what."""

    async def body(client: ChainClient) -> None:
        unit_id = await named_unit(session, client, unit)
        final = await client.finalized()
        found = await known_unit(client, unit_id, final)
        leaves, end = await _leaves(client, unit_id, found, final)
        facts = await _facts(client, unit_id, found, final, leaves)
        racers = [_racer_row(found, racer) for racer in found.racers]
        moved = [] if end is None else [_payment_row(payment) for payment in end.payments(found)]
        paid: list[UnitPayment] = []
        if not is_open(found):
            paid, is_all = await payments_of(client, unit_id, found)
            facts["payments_not_shown"] = None if is_all else NOT_ALL
        rows = [_payment_row(payment) for payment in paid]
        output = session.output
        if output.as_json:
            check = None if end is None else end.facts() | {"payments": moved}
            output.facts(facts | {"race": racers, "payments": rows, "check": check})
            return
        output.facts({name: value for name, value in facts.items() if value is not None})
        if racers:
            output.rows("Racers", RACERS, racers)
        if rows:
            output.rows("Who was paid", PAYMENTS, rows)
        if moved:
            output.rows("What the end of its check moved", PAYMENTS, moved)

    session.run(body)


async def _facts(client: ChainClient, unit_id: bytes, unit: Unit, final: bytes, leaves: str | None) -> dict[str, Any]:
    return {
        "unit": unit_id,
        "state": progress(unit),
        "why": await _why(client, unit_id, unit, final),
        "dispute": await dispute_ended(client, unit_id, unit),
        "leaves": leaves,
        "refund": None if unit.refund is None else unit.refund.name.lower(),
        "customer": Account(unit.customer),
        "service": unit.service,
        "racers": unit.terms.racers,
        "class": None if unit.terms.device_class is None else unit.terms.device_class.name.lower(),
        "attempt": unit.attempt,
        "posted_in_block": unit.posted_at,
        "ended_in_block": unit.ended_at or None,
        "price": Grains(unit.price or unit.terms.price_max),
        **(await SpentMoney(client).of(unit_id, unit)).facts(),
        "may_be_audited": unit.is_watched if unit.state is UnitState.SETTLED else None,
    }


async def _why(client: ChainClient, unit_id: bytes, unit: Unit, final: bytes) -> str | None:
    """Why it waits, is judged, or ended without a result."""
    if unit.state is UnitState.REFUNDED:
        return why_refunded(unit)
    if unit.state is UnitState.JUDGING:
        return await why_heard(client, unit_id, unit, final)
    view = await look(client, [unit], final)
    return None if view is None else why_queued(unit, view)


async def _leaves(client: ChainClient, unit_id: bytes, unit: Unit, final: bytes) -> tuple[str | None, CheckEnd | None]:
    """How far the check of a settled batch is, or what became of it."""
    if unit.state is not UnitState.SETTLED or not unit.leaf_audit_ppm:
        return None, None
    if not unit.is_watched:
        return await leaves_ended(client, unit_id, unit, final)
    check = await market_reads.check(client, unit_id, final)
    return None if check is None else why_checked(check), None


def _racer_row(unit: Unit, racer: Racer) -> dict[str, Any]:
    said = "committed" if racer.commitment is not None else "nothing yet"
    said = "declined" if racer.has_declined else said
    answer = said if racer.reveal is None else "0x" + racer.reveal.output_root.hex()
    return {
        "racer": Account(racer.owner),
        "device": racer.device,
        "answer": answer,
        "collateral": Grains(racer.collateral),
        "lost": Grains(lost_by(unit, racer)),
    }


def _payment_row(payment: UnitPayment) -> dict[str, Any]:
    return {
        "to": payment.role,
        "account": None if payment.account is None else Account(payment.account),
        "amount": Grains(payment.grains),
        "out_of": payment.source,
        "payer": Account(payment.payer),
    }
