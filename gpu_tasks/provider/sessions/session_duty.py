"""The sessions of this provider: found on the chain, served behind the tunnel, claimed period by period.

    drawn -> serve -> a period of 300 blocks, or half of its greatest worth -> close the period -> claim -> paid
                    -> the session closes, or the leg leaves -> close the period -> claim the rest, `is_last`
                                                             -> without a rest: `leave`

A spare loads the model too, and proves it (`spare_proofs`).

Invariants:

* A period is closed on the disk before its claim is sent, so no voucher arrives for a claimed period.
* Periods are claimed in order, each by its newest voucher.
* A period is forgotten once its claim has ended in the final chain, and its pay is noted in the same commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from functools import partial

from gpu_tasks.batches.requests import TOKEN, price_of
from gpu_tasks.market.sessions.money import RUN_BLOCKS_MAX, collateral_of, fees_of, place_pay
from gpu_tasks.market.sessions.records import (
    CLAIMS_OPEN_MAX,
    SPARE_LEG,
    SPARE_PERIOD,
    Leg,
    SessionRecord,
    SessionState,
    all_legs,
    leg_at,
    leg_of,
    period_of,
    spare_of,
    waits_for_former,
    with_leg,
)
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.sessions_api import LegClock, SessionStatus
from gpu_tasks.market.sessions.spares import proof_amount, proof_until
from gpu_tasks.market.sessions.vouchers import amount_of, session_claim_id
from gpu_tasks.provider.chain.port import SessionPort, View
from gpu_tasks.provider.duties.duty import ENDINGS_EVERY_BLOCKS, Duty, telling_refusals
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sent_steps import StepBook, StepMessage
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.execution.workloads import UnknownWorkloadError
from gpu_tasks.provider.sessions.live_hosts import Host, HostName, LiveHosts
from gpu_tasks.provider.sessions.served_session import ConverseStream, ServedSession, verifier
from gpu_tasks.provider.sessions.session_store import KeptPeriod, PeriodState, SessionNote, SessionStore
from gpu_tasks.provider.sessions.spare_proofs import SpareProofs
from gpu_tasks.provider.telemetry import failure
from gpu_tasks.provider.tunnel.access import TunnelTarget
from gpu_tasks.sessions.provider_end import SessionTerms
from gpu_tasks.tunnel.frames import Converse, TunnelAsk
from gpu_tasks.workloads.form import WorkloadForm
from runtime.blocks.extrinsic import MULTI_SIGNATURE
from runtime.pallets.staking.slashing import part

PERIOD_BLOCKS = 300
"""The blocks after which a period with vouchers ends, about twenty minutes."""
URGENT_BLOCKS = 2 * PERIOD_BLOCKS
"""The age of a period that ends also amid an answer."""
CLAIMED_PART = 2
"""A period ends once it is worth this part of the most that it may be worth, so that each next request has room."""
PAID, PLACE_PAID, SPARE_PAID = "session", "session place", "session spare"
PROOF_PAY, STANDING_PAY = 0, 1
"""The parts of a spare's pay: its proof, and the rest for the blocks in which it stood by."""


class SessionStep(Enum):
    """A publicly visible step."""

    CLAIM = auto()
    LEAVE = auto()


@dataclass(slots=True)
class _Held:
    """A session at this provider, as the newest view shows it."""

    status: SessionStatus
    number: int
    """The number of this provider's leg."""
    served: ServedSession | None = None
    target: TunnelTarget | None = None
    began_at: int = 0
    """The block in which the present period had its first voucher here, or 0."""
    waits: bool = False
    """True once a claim waits for the end of others."""

    @property
    def leg(self) -> Leg:
        """This provider's leg."""
        return self.status.session.legs[self.number]

    @property
    def clock(self) -> LegClock:
        """The rights of the leg."""
        return self.status.legs[self.number]

    def has_claimed(self, period: int) -> bool:
        """Return True if the chain has, or had, the claim of a period. The leg is not released yet."""
        # A former leg claims one period and is over then. Its clock stays at that period.
        is_former = self.number < len(self.status.legs) - 1
        return period < self.clock.period + (is_former and self.leg.is_over)


class SessionDuty(Duty):
    """The steps of all sessions. It is also the tunnel's list of sessions (`TunnelTargets`)."""

    def __init__(self, parts: Parts[SessionPort], store: SessionStore, hosts: LiveHosts) -> None:
        """Nothing is served before the first step."""
        self._parts = parts
        self._store = store
        self.hosts = hosts
        self._held: dict[bytes, _Held] = {}
        self._seen: set[bytes] = set()
        """The sessions of the newest view."""
        self._in_use: set[bytes] = set()
        self._last: dict[bytes, dict[int, SessionRecord]] = {}
        """The newest final state of each session before the release of each leg of this provider."""
        self._spares = SpareProofs(parts, store)
        self.book: StepBook[SessionStep] = StepBook(parts)
        self.running = (self.book.tasks, self._spares.book.tasks)

    def find(self, target_id: bytes) -> TunnelTarget | None:
        """Return the session with an id, if its customer can enter it now."""
        held = self._held.get(target_id)
        return None if held is None else held.target

    def devices_in_use(self) -> set[bytes]:
        """Return the devices of this machine that serve an open session, or stand by for one."""
        return self._in_use

    async def close(self) -> None:
        """See `Duty`. The customers' streams end with their tunnels."""
        await super().close()
        await self.hosts.close()

    async def step(self, view: View) -> None:
        """Serve new sessions, end periods, claim, and forget sessions that are over."""
        self.book.look(view)
        statuses = await self._statuses()
        self._seen = set(statuses)
        devices = (self._device_of(status.session, view.height) for status in statuses.values())
        self._in_use = {device for device in devices if device is not None}
        for session_id in self._held.keys() - self._seen:
            self._leave(self._held.pop(session_id))
        used: set[HostName] = set()
        for session_id, status in statuses.items():
            number = leg_of(status.session, self._parts.identity.stash)
            with telling_refusals(self._parts.telemetry, session_id):
                if number is not None and not status.session.legs[number].is_released:
                    await self._step_session(self._taken(session_id, status, number), view.height)
                used |= await self._warm(status, view)
        await self.hosts.end_idle(view.height, used)
        for note in self._store.noted():
            # A leg that has left may be released, and its session over, within three blocks.
            if view.height % ENDINGS_EVERY_BLOCKS == 0 or self._is_leaving(statuses.get(note.session)):
                with telling_refusals(self._parts.telemetry, note.session):
                    await self._settle(note)

    async def _statuses(self) -> dict[bytes, SessionStatus]:
        """Return the sessions on this machine's devices, and the noted ones, by id."""
        chain, found = self._parts.chain, dict[bytes, SessionStatus]()
        for device in self._parts.workers.devices:
            found |= {status.id: status for status in await chain.sessions_of_device(device)}
        for note in self._store.noted():
            if note.session not in found and (status := await chain.session(note.session)) is not None:
                found[note.session] = status
        return found

    def _is_leaving(self, status: SessionStatus | None) -> bool:
        """Return True if a leg of this provider has left a session, and waits for its release."""
        return status is not None and any(
            leg.left_at and not leg.is_released for leg in self._own_legs(status.session).values()
        )

    def _own_legs(self, session: SessionRecord) -> dict[int, Leg]:
        """Return the legs of this provider by their numbers, that of a spare too."""
        return {number: leg for number, leg in all_legs(session) if leg.owner == self._parts.identity.stash}

    def _taken(self, session_id: bytes, status: SessionStatus, number: int) -> _Held:
        """Take the newest state of a session."""
        held = self._held.setdefault(session_id, _Held(status, number))
        held.status, held.number = status, number
        self._note(status, held.leg, "session_opened")
        return held

    def _note(self, status: SessionStatus, leg: Leg, event: str) -> None:
        """Note a session on the disk, and tell the first time."""
        session = status.session
        note = SessionNote(
            status.id, leg.device, session.service, session.rate, session.input_share,
            session.rules.settlement_fee, leg.since,
        )  # fmt: skip
        if self._store.note(note):
            self._parts.telemetry.tell(
                event, session=status.id, device=leg.device, service=session.service, grains=session.deposit,
                height=leg.since,
            )  # fmt: skip

    # --------------------------------------------------------------------------------------------------------- serving

    async def _warm(self, status: SessionStatus, view: View) -> set[HostName]:
        """Load the model of a session that this machine serves or spares. Return its worker's name."""
        height, session = view.height, status.session
        device = self._device_of(session, height)
        if device is None:
            return set()
        try:
            form = self._form_of(session)
            offered = (await self._parts.chain.places(device, session.service)).places
            here = [held for held in self._held.values() if held.leg.device == device and not held.leg.left_at]
            is_busy = any(held.served is not None and held.served.is_streaming for held in here)
            hardware, places = self._parts.workers.devices[device], max(offered, len(here), 1)
            host = await self.hosts.host(device, hardware, form, places, height, is_busy=is_busy)
        except ExecutionError as error:
            self._parts.telemetry.tell("session_not_served", session=status.id, **failure(error))
            return set()
        name = device, form.workload_id, form.model_id
        self.book.tasks.start(name, self._start(status.id, host))
        spare = spare_of(session)
        if spare is not None and (spare.owner, spare.device) == (self._parts.identity.stash, device):
            self._note(status, spare, "session_spared")
            await self._spares.step(status, spare, form, host, view)
        return {name}

    def _device_of(self, session: SessionRecord, height: int) -> bytes | None:
        """Return the device of this machine that serves a session or stands by for it, or None."""
        if session.state is not SessionState.OPEN or height >= session.expires_at:
            return None
        newest = session.legs[-1]
        sides = [(newest.owner, newest.device)]
        spare = spare_of(session)
        if spare is not None:
            sides.append((spare.owner, spare.device))
        stash, devices = self._parts.identity.stash, self._parts.workers.devices
        return next((device for owner, device in sides if owner == stash and device in devices), None)

    async def _start(self, session_id: bytes, host: Host) -> None:
        """Load a model. A customer that comes earlier waits for it."""
        try:
            await host.start()
        except ExecutionError as error:
            self._parts.telemetry.tell("session_hindered", session=session_id, **failure(error))

    def _form_of(self, session: SessionRecord) -> WorkloadForm:
        try:
            return self._parts.workers.workloads.of(session)
        except UnknownWorkloadError as error:
            raise ExecutionError(f"service {session.service}: {error}", code=error.code) from None

    def _serve(self, held: _Held) -> ServedSession:
        """Let the customer in. Raise ExecutionError without the session's workload."""
        session, session_id = held.status.session, held.status.id
        form, genesis = self._form_of(session), self._parts.identity.genesis
        name = held.leg.device, form.workload_id, form.model_id
        served = ServedSession(
            SessionTerms(genesis, session_id, session.rate, session.input_share),
            form,
            verifier(genesis, session.signer),
            self._store,
            partial(self.hosts.generate, name),
            partial(self._room, held),
            held.clock.period,
        )

        async def serve_stream(stream: ConverseStream, ask: TunnelAsk) -> None:
            if isinstance(ask, Converse):
                await served.serve(stream)
            else:
                await stream.finish(1, "not_a_container: a session carries a conversation alone")

        held.served, held.target = served, TunnelTarget(session.customer_key, serve_stream)
        return served

    def _room(self, held: _Held, used: int) -> int:
        """Return the most grains of a new period, beside a claim of `used` that the chain does not have yet."""
        session = held.status.session
        closed = [
            _amount(session, kept)
            for kept in self._store.periods(held.status.id)
            if kept.is_closed and kept.voucher.period >= held.clock.period
        ]
        spare = spare_of(session)
        # A spare's proof may take its grains before the vouchers of these blocks are claimed.
        is_proving = spare is not None and not spare.is_over and self.book.height <= proof_until(spare)
        proof = proof_amount(session) if is_proving else 0
        promised = (*closed, used, proof)
        left = held.status.left - sum(amount + fees_of(session.rules, amount) for amount in promised if amount)
        return amount_max(session, held.leg.collateral, left)

    # ---------------------------------------------------------------------------------------------------------- claims

    async def _step_session(self, held: _Held, height: int) -> None:
        session, leg, session_id = held.status.session, held.leg, held.status.id
        is_open = session.state is SessionState.OPEN and not leg.left_at and height < session.expires_at
        if is_open and leg.device in self._parts.workers.devices:
            try:
                self._end_period(held, held.served or self._serve(held), height)
            except ExecutionError as error:
                self._parts.telemetry.tell("session_not_served", session=session_id, **failure(error))
        elif not is_open:
            self._leave(held)
        for kept in self._store.periods(session_id):
            if kept.state is not PeriodState.CLAIMED and held.has_claimed(kept.voucher.period):
                self._store.note_claimed(session_id, kept.voucher.period)
        if held.clock.claims_until >= height:
            await self._claim(held, height, is_last=not is_open)

    def _end_period(self, held: _Held, served: ServedSession, height: int) -> None:
        """End the present period if it is old, or worth much."""
        kept = served.kept
        amount = 0 if kept is None else _amount(held.status.session, kept)
        # The chain refuses a claim of nothing, and no later period could be claimed before it.
        if not amount:
            held.began_at = 0
            return
        held.began_at = held.began_at or height
        age = height - held.began_at
        is_rich = amount * CLAIMED_PART >= self._room(held, 0)
        if (age >= PERIOD_BLOCKS or is_rich) and served.end_period(is_urgent=age >= URGENT_BLOCKS):
            held.began_at = 0

    def _leave(self, held: _Held) -> None:
        """Take no more vouchers."""
        if held.served is not None:
            held.served.leave()
        held.served = held.target = None
        for kept in self._store.periods(held.status.id):
            if not kept.is_closed:
                self._store.close_period(held.status.id, kept.voucher.period)

    async def _claim(self, held: _Held, height: int, *, is_last: bool) -> None:
        """Claim the next period, if it is closed and the collateral covers it beside the open claims."""
        session_id, session = held.status.id, held.status.session
        periods = {kept.voucher.period: kept for kept in self._store.periods(session_id)}
        kept = periods.get(held.clock.period)
        if kept is None and is_last:
            await self._leave_at_once(held)
        if kept is None or not kept.is_closed:
            return
        amount, totals = _amount(session, kept), kept.voucher.totals
        # Without an amount: a session that closed after a prompt that costs nothing.
        if not amount or waits_for_former(session, held.number, height + 1):
            return
        collateral = collateral_of(session.rules, amount, totals.requests)
        if held.leg.claims >= CLAIMS_OPEN_MAX or collateral > held.clock.collateral_left:
            if not held.waits:
                self._parts.telemetry.tell("session_claim_waits", session=session_id, period=kept.voucher.period)
            held.waits = True
            return
        held.waits = False
        claim_id = session_claim_id(session_id, kept.voucher.period)
        if not self.book.is_due((claim_id, 0), SessionStep.CLAIM):
            return
        call = Sessions.claim(
            session=session_id,
            voucher=kept.voucher,
            signature=MULTI_SIGNATURE.decode(kept.signature),
            is_last=is_last and kept.voucher.period == max(periods),
        )
        await self.book.send(
            StepMessage(
                call, "session_claimed",
                {
                    "session": session_id, "period": kept.voucher.period, "claim": claim_id, "grains": amount,
                    "requests": totals.requests, "tokens": totals.tokens_out,
                },
            )
        )  # fmt: skip

    async def _leave_at_once(self, held: _Held) -> None:
        """Claim nothing more in a session that has left, by the final chain, and that no voucher pays any more."""
        session_id = held.status.id
        final = self._last.get(session_id, {}).get(held.number)
        if final is None or not final.legs[held.number].left_at:
            return
        if self.book.is_due((session_id, held.number), SessionStep.LEAVE):
            await self.book.send(
                StepMessage(Sessions.leave(session=session_id), "session_left", {"session": session_id})
            )

    # ----------------------------------------------------------------------------------------------------------- money

    async def _settle(self, note: SessionNote) -> None:
        """Note the pay of ended claims and of the place, by the final chain, and forget sessions that are over."""
        status = await self._parts.chain.session(note.session, final=True)
        legs = {} if status is None else self._own_legs(status.session)
        # A session of the newest block may not be final yet.
        if not legs and note.session in self._seen:
            return
        last, is_over = self._last.setdefault(note.session, {}), all(leg.is_released for leg in legs.values())
        for number, leg in legs.items():
            if status is not None and not (leg.is_released and number in last):
                last[number] = status.session
            # The pay of a place follows from the state before its release, and from the block in which the leg left.
            last[number] = with_leg(last[number], number, leg)
        proof = self._store.period(note.session, SPARE_PERIOD)
        for kept in (*self._store.periods(note.session), *(() if proof is None else (proof,))):
            await self._settle_period(note, kept, is_over=is_over)
        if is_over:
            self._end(note)

    async def _settle_period(self, note: SessionNote, kept: KeptPeriod, *, is_over: bool) -> None:
        """Note the pay of a period or a proof whose claim has ended, and forget its chat."""
        session_id, period, is_proof = note.session, kept.voucher.period, kept.voucher.period == SPARE_PERIOD
        final = {
            number: session
            for number, session in self._last.get(session_id, {}).items()
            if (number == SPARE_LEG) == is_proof
        }
        # A claim of the newest block may not be final yet, and checkers will ask for its items.
        has_claim = any(_has_claimed(session, number, period) for number, session in final.items())
        if not has_claim and not is_over:
            return
        claim_id = session_claim_id(session_id, period)
        if await self._parts.chain.period_claim(claim_id, final=True) is not None:
            return
        legs = [leg_at(session, number) for number, session in final.items()]
        # One refuted claim costs more than the others pay, so none of them counts as pay any more.
        is_paid = (has_claim or kept.state is PeriodState.CLAIMED) and not any(leg.is_refuted for leg in legs)
        # An undecided proof leaves nothing claimed.
        is_paid = is_paid and not (is_proof and any(not leg.claimed for leg in legs))
        grains = _net(note, _amount(note, kept)) if is_paid else 0
        kind, number = (SPARE_PAID, PROOF_PAY) if is_proof else (PAID, period)
        with self._parts.journal.step():
            self._parts.earnings.note(
                kind, session_id, number, device=note.device, service=_service(note), grains=grains,
                tokens=kept.voucher.totals.tokens_out,
            )  # fmt: skip
            self._store.forget_period(session_id, period)
        self.book.forget((claim_id, 0))
        self._parts.telemetry.tell("session_paid", session=session_id, period=period, grains=grains)

    def _end(self, note: SessionNote) -> None:
        """Note the pay of the places, and forget the session."""
        place, claimed = 0, 0
        with self._parts.journal.step():
            for number, session in self._last.pop(note.session, {}).items():
                leg = leg_at(session, number)
                grains = _net(note, place_pay(session, number)) if leg.left_at else 0
                place, claimed = place + grains, claimed + leg.claimed
                kind, part_number = (SPARE_PAID, STANDING_PAY) if number == SPARE_LEG else (PLACE_PAID, 0)
                self._parts.earnings.note(
                    kind, note.session, part_number, device=note.device, service=_service(note), grains=grains
                )
                self.book.forget((note.session, number))
            self._store.forget_session(note.session)
        self._held.pop(note.session, None)
        self._spares.forget(note.session)
        self._parts.telemetry.tell("session_ended", session=note.session, claimed=claimed, place=place)


def amount_max(session: SessionRecord, collateral: int, left: int) -> int:
    """Return the most grains of a period that its claim may have, with `left` of the deposit and this collateral."""
    rules = session.rules
    # An amount below this price is less work than the greatest of a claim.
    least, most = 0, max(0, min(left, price_of(session.rate, RUN_BLOCKS_MAX * session.pace * TOKEN) - 1))
    while least < most:
        amount = (least + most + 1) // 2
        if amount + fees_of(rules, amount) <= left and collateral_of(rules, amount) <= collateral:
            least = amount
        else:
            most = amount - 1
    return least


def _has_claimed(session: SessionRecord, number: int, period: int) -> bool:
    """Return True if a leg has claimed a period, or the spare its proof."""
    return leg_at(session, number).is_over if number == SPARE_LEG else period_of(session, number) > period


def _amount(terms: SessionRecord | SessionNote, kept: KeptPeriod) -> int:
    """Return the grains of a period."""
    return amount_of(terms.rate, terms.input_share, kept.voucher.totals)


def _net(note: SessionNote, grains: int) -> int:
    """Return a payment without the settlement fee."""
    return grains - part(grains, note.settlement_fee)


def _service(note: SessionNote) -> str:
    return f"service {note.service}"
