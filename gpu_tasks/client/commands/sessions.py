"""Commands about sessions: open, list, close; and the parts of opening that a chat shares."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from cli.calls import PlannedCall, SendingOptions, make
from cli.output import Account, Output
from cli.session import WalletSession, note, reads
from gpu_tasks.client.buyer import Buyer, Outlay, buyer_for, require_caps
from gpu_tasks.client.commands.calls import planned
from gpu_tasks.client.commands.session_stream import send_last_voucher
from gpu_tasks.client.offers.listing import form_of, unit_rules
from gpu_tasks.client.offers.outlook import slot_ms
from gpu_tasks.client.sessions.session_money import for_tokens, left_for_tokens
from gpu_tasks.client.sessions.session_reads import (
    KnownSession,
    SessionError,
    session_of,
    sessions_of,
    unclaimed,
    vouchers_here,
)
from gpu_tasks.client.spending import note_closing, note_session
from gpu_tasks.data import market_reads
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.claims.collateral import fees_max
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.services import Service, pace_of
from gpu_tasks.market.sessions.events import SessionOpened
from gpu_tasks.market.sessions.money import place_rate_of
from gpu_tasks.market.sessions.records import TERM_MAX, TERM_MIN, SessionRecord, SessionState, spare_of
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.tasks.quantities import TimeSpan
from gpu_tasks.workloads import model_forms
from gpu_tasks.workloads.form import WorkloadForm
from runtime.frame.call import Call
from wallet.amounts import Grains, format_duration
from wallet.client import ChainClient, Outcome, Payer
from wallet.keypair import Keypair
from wallet.trust import hash_typed

SESSIONS_FOLDER = "sessions"
DEFAULT_TOKENS = 20_000
"""The output tokens that the default deposit pays, beside the place."""
PRICED_TOKENS = 1_000
OWNERS_WISHED = 2
"""A provider and a spare."""
DIGITS_LEAST = 4
HOUR = TimeSpan(milliseconds=3_600_000)
COLUMNS = (
    "session", "service", "model", "state", "provider", "spare", "spare_proven", "spent", "unclaimed", "left",
    "for_tokens", "blocks_left", "waits_for",
)  # fmt: skip
WAITING_FOR_DRAW = "the session waits for its draw. You can stop: `ogpu session ps` shows it, and it stays open"


def sessions_folder(session: WalletSession, client: ChainClient) -> Path:
    """Return the folder of this machine's sessions of a chain."""
    return session.keyring.folder / SESSIONS_FOLDER / client.genesis_hash.hex()


@dataclass(frozen=True, slots=True)
class SessionWish:
    """A session as its customer asks for it. None: a usual value."""

    model: str
    service: int | None = None
    deposit: int | None = None
    term: TimeSpan = HOUR
    rate: int | None = None
    budget: str | None = None


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """The opening of a session, with all its values."""

    service: int
    form: WorkloadForm
    deposit: int
    term: int
    rate: int
    place_rate: int
    slot_ms: int
    buyer: Buyer
    for_tokens: int
    """The grains of the deposit that may pay for tokens: all but the greatest fees of checks."""

    def call(self, signer: bytes, customer_key: bytes) -> Call:
        """Return the call."""
        call = Sessions.open(
            service=self.service, deposit=self.deposit, term=self.term, rate=self.rate, signer=signer,
            customer_key=customer_key,
        )  # fmt: skip
        return self.buyer.call(call)

    @property
    def locks(self) -> int:
        """The part of the deposit that the signer's own account pays."""
        return self.deposit if self.buyer.budget is None else 0

    @property
    def facts(self) -> dict[str, Any]:
        """The terms for people."""
        return {
            **({} if self.buyer.budget is None else {"budget": self.buyer.budget}),
            "service": self.service,
            "model": self.form.name,
            "rate_per_1000_tokens": Grains(self.rate),
            "place_rate_per_block": Grains(self.place_rate),
            "term": f"{self.term} blocks, about {format_duration(self.term * self.slot_ms // 1_000)}",
            "costs_at_least": Grains(min(self.deposit, self.place_rate * self.term)),
            "costs_at_most": Grains(self.deposit),
            "for_tokens": Grains(self.for_tokens),
        }


async def plan_session(client: ChainClient, wish: SessionWish, account: bytes) -> SessionPlan:
    """Return the plan of a session that a key opens.

    Raise SessionError or ServiceError if nobody serves it, and BudgetError beyond a cap.
    """
    buyer = await buyer_for(client, account, wish.budget)
    number, service, form = await sold_model(client, wish.model, wish.service)
    pace, block_ms = pace_of(service.terms, DeviceClass.CPU), slot_ms(client)
    rate = wish.rate if wish.rate is not None else await usual_rate(client, number, service)
    place_rate = place_rate_of(rate, pace)
    term = wish.term.blocks_for(block_ms)
    if not TERM_MIN <= term <= TERM_MAX:
        raise SessionError(f"--term: a session has {TERM_MIN} to {TERM_MAX:,} blocks, not {term:,}", code="term_range")
    deposit = wish.deposit if wish.deposit is not None else rate * DEFAULT_TOKENS // PRICED_TOKENS + place_rate * term
    await require_caps(client, buyer, Outlay(number, [deposit], deposit))
    rules = await unit_rules(client, service.terms.check_ppm)

    def fees(amount: int) -> int:
        return fees_max(amount, rules.check_ppm, rules.check_fee_min) if rules.check_rate_ppm else 0

    spendable = for_tokens(deposit, fees)
    return SessionPlan(number, form, deposit, term, rate, place_rate, block_ms, buyer, spendable)


async def sold_model(client: ChainClient, text: str, wanted: int | None) -> tuple[int, Service, WorkloadForm]:
    """Return the service that sells a model in sessions, with its form. Raise SessionError or ServiceError."""
    services = await market_reads.services(client, await client.finalized())
    streamed = [
        (number, service)
        for number, service in services.items()
        if service.is_open and pace_of(service.terms, DeviceClass.CPU) and wanted in (None, number)
    ]
    matching = [(number, service) for number, service in streamed if _is_named(text, number, service)]
    if not matching:
        _require_pace(text, services, wanted)
        names = ", ".join(sorted({service.terms.name.decode(errors="replace") for _, service in streamed})) or "none"
        raise SessionError(
            f"no open service sells {text!r} in sessions. Services with sessions: {names}. See `ogpu offer services`",
            code="model_unsold",
        )
    number, service = matching[0]
    if len(matching) > 1:
        note(f"services {', '.join(str(each) for each, _ in matching)} sell {text}. This is service {number}")
    form = form_of(number, service)
    if not form.is_streamed:
        raise SessionError(
            f"{form.name} does not stream its answers. Buy single answers with `ogpu unit post`", code="not_streamed"
        )
    return number, service, form


def _require_pace(text: str, services: Mapping[int, Service], wanted: int | None) -> None:
    """Raise SessionError if services sell a model, but all of them without a pace."""
    sold = [
        str(number)
        for number, service in services.items()
        if service.is_open and wanted in (None, number) and _is_named(text, number, service)
    ]
    if sold:
        raise SessionError(
            f"service {', '.join(sold)} sells {text}, but has no pace, and sessions need one. Buy single answers with "
            f"`ogpu unit post --service {sold[0]}`, or create a service with `ogpu offer create-service --pace N`",
            code="no_pace",
        )


def _is_named(text: str, number: int, service: Service) -> bool:
    """Return True if a text is a service's number, its name, or its model."""
    is_service = text in (str(number), service.terms.name.decode(errors="replace"))
    return is_service or names_model(text, service.terms.workload, service.terms.model)


def names_model(text: str, workload: bytes, model: bytes) -> bool:
    """Return True if a text is the name or the first digits of a model."""
    form = model_forms.form_of(workload, model)
    names = set() if form is None else {form.name, form.name.partition(":")[2]} - {""}
    digits = text.removeprefix("0x").lower()
    return text in names or (len(digits) >= DIGITS_LEAST and model.hex().startswith(digits))


async def usual_rate(client: ChainClient, number: int, service: Service) -> int:
    """Return the lowest price at which two owners with places serve, or one if there is only one.

    Raise SessionError if none has places.
    """
    final = await client.finalized()
    offered = await market_reads.devices_for(client, number, final)
    places = await client.read_many(Sessions.place_offers, [(number, each.id) for each in offered], at=final)
    asks: dict[bytes, int] = {}
    for status, place in zip(offered, places, strict=True):
        if place is not None and not status.device.is_paused:
            for _, offer in status.offers:
                asks[status.device.owner] = min(offer.ask, asks.get(status.device.owner, offer.ask))
    if not asks:
        raise SessionError(
            f"no provider offers places for service {number} now. Try again later, or name a --rate to wait for one",
            code="no_places",
        )
    lowest = sorted(asks.values())[:OWNERS_WISHED]
    return min(max(lowest[-1], service.terms.price_min), service.terms.price_max)


def opened_id(outcome: Outcome) -> bytes:
    """Return the id of the session that a call opened."""
    opened = [event for event in outcome.events if isinstance(event, SessionOpened)]
    assert len(opened) == 1, "an opening that succeeded"
    return opened[0].session


async def seated(session: WalletSession, client: ChainClient, session_id: bytes) -> KnownSession:
    """Wait for the draw, and return the session. Raise SessionError if no device could be drawn."""
    with session.doing(WAITING_FOR_DRAW):
        while True:
            try:
                found = await session_of(client, session_id)
            except SessionError:
                raise SessionError(
                    "no device had a free place at this rate. The whole deposit has returned. Try again later, or "
                    "with a higher --rate",
                    code="no_place",
                ) from None
            if found.record.state is not SessionState.WAITING:
                return found
            await asyncio.sleep(slot_ms(client) / 1_000)


def open_session(
    session: WalletSession, model_text: str, service: int | None, deposit: int | None, term: TimeSpan, rate: int | None,
    budget_text: str | None, signer_text: str | None, key_text: str, sending: SendingOptions,
) -> None:  # fmt: skip
    """Carry out `ogpu session open`."""
    if budget_text is not None and signer_text is not None:
        raise click.UsageError("--key signs the vouchers of a budget's session. Leave out --signer")
    wish = SessionWish(model_text, service, deposit, term, rate, budget_text)
    opened: list[bytes] = []

    async def plan(client: ChainClient, payer: Payer) -> PlannedCall:
        found = await plan_session(client, wish, payer.account)
        # The tunnel's key follows from the secret of the key that signs vouchers. A dry run unlocks no key.
        signer, tunnel_key = payer.account, SealKey.from_seed(bytes(32)).public
        if sending.dry_run:
            signer = session.payer(signer_text or key_text).account
        else:
            keypair = session.key(signer_text or key_text)
            signer, tunnel_key = keypair.account, SealKey.of(keypair).public

        def result(outcome: Outcome) -> Mapping[str, Any]:
            opened.append(opened_id(outcome))
            note_session(session, client, found.buyer, opened[0], found.form.name, outcome.fee)
            return {"session": opened[0]}

        call = found.call(signer, tunnel_key)
        return planned(session.output, call, found.facts, locks=found.locks, result=result)

    async def wait(client: ChainClient) -> None:
        found = await seated(session, client, opened[0])
        session.output.facts(await _seat_facts(client, found))

    make(session, key_text, sending, plan)
    if opened:
        session.run(wait)


async def _seat_facts(client: ChainClient, found: KnownSession) -> dict[str, Any]:
    record = found.record
    return {
        "session": found.id,
        "state": record.state.name.lower(),
        "provider": Account(record.legs[-1].owner) if record.legs else None,
        **_spare_facts(record),
        "rate_per_1000_tokens": Grains(record.rate),
        "place_rate_per_block": Grains(record.place_rate),
        "costs_at_most": Grains(record.deposit),
        "for_tokens": Grains(left_for_tokens(record, ())),
        "blocks_left": found.blocks_left,
        "time_left": format_duration(found.blocks_left * slot_ms(client) // 1_000),
    }


def _spare_facts(record: SessionRecord) -> dict[str, Any]:
    """Return the spare that stands by, and whether its proof has passed."""
    spare = spare_of(record)
    return {
        "spare": None if spare is None else Account(spare.owner),
        "spare_proven": None if spare is None else spare.claimed > 0 and not spare.claims,
    }


@reads
async def ps(session: WalletSession, client: ChainClient, key_text: str) -> None:
    """Carry out `ogpu session ps`."""
    folder = sessions_folder(session, client)
    found = await sessions_of(client, session.account(key_text), folder)
    session.output.rows("Sessions", COLUMNS, [_row(each, folder) for each in found])


def _row(found: KnownSession, folder: Path) -> dict[str, Any]:
    record = found.record
    form = model_forms.form_of(record.workload, record.model)
    promised = unclaimed(found, folder)
    return {
        "session": found.id,
        "service": record.service,
        "model": form.name if form is not None else record.model,
        "state": record.state.name.lower(),
        "provider": Account(record.legs[-1].owner) if record.legs else None,
        **_spare_facts(record),
        "spent": Grains(found.spent),
        "unclaimed": None if promised is None else Grains(promised),
        "left": Grains(max(0, record.deposit - found.spent - (promised or 0))),
        "for_tokens": Grains(left_for_tokens(record, vouchers_here(found, folder) or ())),
        "blocks_left": found.blocks_left,
        "waits_for": found.waits_for,
    }


def close(session: WalletSession, sessions: Sequence[str], key_text: str, sending: SendingOptions) -> None:
    """Carry out `ogpu session close`."""
    for text in sessions:

        async def plan(client: ChainClient, payer: Payer, text: str = text) -> PlannedCall:
            found = await named_session(session, client, text, payer.account)
            if not sending.dry_run and found.record.signer == payer.account:
                keypair, folder = session.key(key_text), sessions_folder(session, client)
                await send_last_voucher(session, found, keypair, client.genesis_hash, folder)

            def result(outcome: Outcome) -> Mapping[str, Any]:
                note_closing(session, client, found, outcome.fee, sessions_folder(session, client))
                return {}

            return planned(session.output, Sessions.close(session=found.id), _closing_facts(found), result=result)

        make(session, key_text, sending, plan)


def _closing_facts(found: KnownSession) -> dict[str, Any]:
    if found.record.state is SessionState.CLOSING:
        raise SessionError(
            f"the session is closing already. It waits for {found.waits_for}. The rest of the deposit returns then",
            code="session_closing",
        )
    return {
        "session": found.id, "spent": Grains(found.spent), "returns_at_most": Grains(found.record.deposit - found.spent)
    }  # fmt: skip


async def named_session(session: WalletSession, client: ChainClient, text: str, account: bytes) -> KnownSession:
    """Return the session of an id, or of its first digits. Raise SessionError for none or several."""
    whole = hash_typed(text)
    if whole is not None:
        return await session_of(client, whole)
    digits = text.removeprefix("0x").lower()
    if not text.startswith("0x") or len(digits) < DIGITS_LEAST:
        raise SessionError(
            f"{text!r} is not the id of a session. Type 0x and at least {DIGITS_LEAST} hexadecimal digits. "
            "`ogpu session ps` shows ids",
            code="invalid_id",
        )
    known = await sessions_of(client, account, sessions_folder(session, client))
    matching = [each for each in known if each.id.hex().startswith(digits)]
    if len(matching) != 1:
        raise SessionError(
            f"{len(matching)} of your sessions begin with {text}. `ogpu session ps` shows their ids",
            code="session_ambiguous" if matching else "session_unknown",
        )
    return matching[0]


class _UnseenOutput(Output):
    """An output that shows no facts."""

    def facts(self, facts: Mapping[str, Any]) -> None:
        """Show nothing."""


async def send_unseen(session: WalletSession, client: ChainClient, call: Call, key: Keypair) -> Outcome:
    """Send a call once, wait until it is final, and return its outcome. Raise CallFailedError if it failed.

    Standard output belongs to the chat, so nothing is shown.
    """
    outcomes: list[Outcome] = []

    def result(outcome: Outcome) -> Mapping[str, Any]:
        outcomes.append(outcome)
        return {}

    unseen = replace(session, output=_UnseenOutput(as_json=session.output.as_json))
    await unseen.make(client, call, key, result=result)
    return outcomes[0]
