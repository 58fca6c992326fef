"""A fake chain with sessions, and a fake machine, for the duty of sessions. The records are those of the pallet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from echoing_session import EchoForm
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.sessions.money import collateral_of, exposure_of, fees_of, place_pay
from gpu_tasks.market.sessions.records import (
    SPARE_LEG,
    SPARE_PERIOD,
    Leg,
    PeriodClaim,
    SessionRecord,
    SessionRules,
    SessionState,
    all_legs,
    claimed,
    claims_until,
    closed,
    handed_over,
    left_of,
    leg_at,
    leg_of,
    over,
    period_of,
    spare_of,
    with_leg,
)
from gpu_tasks.market.sessions.sessions_api import DevicePlaces, LegClock, SessionStatus
from gpu_tasks.market.sessions.spares import proof_totals, proof_until
from gpu_tasks.market.sessions.vouchers import Voucher, amount_of, session_claim_id, voucher_payload
from gpu_tasks.provider.chain.port import ChainError, Identity, View
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.earnings import EarningsBook
from gpu_tasks.provider.execution.device_times import DeviceTimes
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.schema import JOURNAL_FILE
from gpu_tasks.provider.sessions.live_hosts import LiveHosts
from gpu_tasks.provider.sessions.session_duty import SessionDuty
from gpu_tasks.provider.sessions.session_store import SessionStore
from gpu_tasks.sessions.provider_end import SessionTerms
from heard import Heard
from runtime.blocks.extrinsic import MULTI_SIGNATURE, MultiSignature
from runtime.cryptography.signatures import Scheme
from runtime.frame.call import Call
from session_streams import EchoGenerator, Piece
from wallet.keypair import Keypair

STASH, OTHER_STASH, DEVICE, OTHER_DEVICE = (bytes([number]) * 32 for number in (11, 12, 13, 14))
GENESIS = bytes([1]) * 32
RATE, INPUT_SHARE, PACE = 1_000_000, 500_000, 1_000
RULES = SessionRules(
    settle_blocks=600, settlement_fee=30_000, check_rate_ppm=333_333, check_ppm=240_000, check_fee_min=10
)
CUSTOMER = Keypair.from_seed(Scheme.ED25519, bytes([5]) * 32)
SEED = bytes(range(32))
CUSTOMER_SEAL = SealKey.of(CUSTOMER)


class StreamedEcho(EchoForm):
    """The echoing workload as a form of this machine."""

    name, workload_id, model_id, is_streamed = "echo", bytes([21]) * 32, bytes([22]) * 32, True


@dataclass
class EchoHost(EchoGenerator):
    """A fake live worker."""

    places: int = 1
    starts: int = 0
    is_closed: bool = False

    async def start(self) -> None:
        """See `Host`."""
        self.starts += 1

    async def close(self) -> None:
        """See `Host`."""
        self.is_closed = True

    def generate(self, request: bytes) -> AsyncGenerator[Piece, None]:
        """See `Host`."""
        if self.is_closed:
            raise ExecutionError("closed", code="worker_ended")
        return super().generate(request)


@dataclass
class FakeSessions:
    """The chain: one state, which is also the final one unless `final` is set."""

    sessions: dict[bytes, SessionRecord] = field(default_factory=dict)
    claims: dict[bytes, PeriodClaim] = field(default_factory=dict)
    offered: int = 2
    height: int = 100
    calls: list[Call] = field(default_factory=list)
    is_refusing: bool = False
    final: FakeSessions | None = None

    def open(self, session_id: bytes, *, spare: bool = False, **changed: Any) -> SessionRecord:
        """SessionNote a session on this provider's device, or on another one with this as its spare."""
        deposit = changed.get("deposit", 10**9)
        exposure = exposure_of(deposit, RATE, PACE)
        mine, others = (STASH, DEVICE), (OTHER_STASH, OTHER_DEVICE)
        seat, second = (others, mine) if spare else (mine, others)
        leg = Leg(*seat, since=self.height, first_period=0, collateral=collateral_of(RULES, exposure))
        record = SessionRecord(
            customer=bytes([9]) * 32, signer=CUSTOMER.public_key, customer_key=CUSTOMER_SEAL.public, service=4,
            workload=StreamedEcho.workload_id, model=StreamedEcho.model_id, rate=RATE, input_share=INPUT_SHARE,
            pace=PACE, rules=RULES, place_rate=7, exposure=exposure, deposit=deposit, record_deposit=1,
            opened_at=self.height, recorded_at=self.height, expires_at=self.height + 5_000,
            state=SessionState.OPEN, legs=(leg,), spare_seed=SEED,
            spare=Leg(*second, since=self.height, first_period=SPARE_PERIOD, collateral=0),
        )  # fmt: skip
        self.sessions[session_id] = replace(record, **changed)
        return self.sessions[session_id]

    def close(self, session_id: bytes) -> None:
        """Close a session."""
        self.sessions[session_id] = closed(self.sessions[session_id], self.height)

    def hand_over(self, session_id: bytes) -> None:
        """Let the spare go on with a session."""
        session = self.sessions[session_id]
        assert session.spare is not None
        leg = Leg(session.spare.owner, session.spare.device, since=self.height, first_period=0, collateral=10**9)
        self.sessions[session_id] = handed_over(session, leg, self.height)

    def release(self, session_id: bytes) -> None:
        """Pay the places that no claim holds any more."""
        session = self.sessions[session_id]
        for number, leg in all_legs(session):
            if leg.is_over and leg.left_at and not leg.claims:
                paid = session.paid + place_pay(session, number)
                session = replace(with_leg(session, number, replace(leg, is_released=True)), paid=paid)
        self.sessions[session_id] = session

    def conclude(self, claim_id: bytes, outcome: ClaimOutcome = ClaimOutcome.PASSED) -> None:
        """End a claim."""
        claim = self.claims.pop(claim_id)
        session = self.sessions[claim.session]
        leg = leg_at(session, claim.leg)
        is_paid = outcome is ClaimOutcome.PASSED
        session = replace(
            session,
            paid=session.paid + (claim.amount if is_paid else 0),
            reserved=session.reserved - claim.amount - claim.fees,
        )
        leg = replace(
            leg, claims=leg.claims - 1, engaged=leg.engaged - claim.collateral,
            is_refuted=outcome is ClaimOutcome.REFUTED,
        )  # fmt: skip
        if claim.leg == SPARE_LEG and outcome is ClaimOutcome.REFUTED:
            leg = over(leg, self.height)
        if claim.leg == SPARE_LEG and outcome is ClaimOutcome.RETURNED:
            leg = replace(leg, claimed=0)
        self.sessions[claim.session] = with_leg(session, claim.leg, leg)

    def end(self, session_id: bytes) -> None:
        """Drop a session."""
        del self.sessions[session_id]

    async def submit(self, call: Call) -> None:
        """Execute a call in the present block."""
        self.calls.append(call)
        if self.is_refusing:
            raise ChainError("refused", code="refused")
        arguments = call.named_arguments
        session_id = arguments["session"]
        session = self.sessions[session_id]
        if "top" in arguments:
            self._prove(session_id, session, arguments["top"])
            return
        number = leg_of(session, STASH)
        assert number is not None, "a party"
        if "voucher" not in arguments:
            assert not session.legs[number].is_over, "it left before"
            self.sessions[session_id] = with_leg(session, number, over(session.legs[number], self.height))
            return
        voucher = arguments["voucher"]
        assert voucher.period == period_of(session, number), "the present period"
        amount = amount_of(session.rate, session.input_share, voucher.totals)
        fees = fees_of(session.rules, amount)
        assert amount + fees <= left_of(session), "a funded voucher"
        collateral = collateral_of(session.rules, amount, voucher.totals.requests)
        leg = session.legs[number]
        assert leg.engaged + collateral <= leg.collateral, "a secured claim"
        claim = PeriodClaim(session_id, number, voucher.period, amount, fees, collateral)
        self.claims[session_claim_id(session_id, voucher.period)] = claim
        self.sessions[session_id] = claimed(session, claim, self.height, is_last=arguments["is_last"])

    def _prove(self, session_id: bytes, session: SessionRecord, top: bytes) -> None:
        """Open the claim of the spare's proof."""
        spare, totals = spare_of(session), proof_totals(top)
        assert spare is not None, "it stands by"
        assert not spare.is_over, "one proof"
        assert self.height <= proof_until(spare), "in time"
        amount = amount_of(session.rate, session.input_share, totals)
        fees = fees_of(session.rules, amount)
        claim = PeriodClaim(session_id, SPARE_LEG, SPARE_PERIOD, amount, fees, 10**6)
        self.claims[session_claim_id(session_id, SPARE_PERIOD)] = claim
        spare = replace(spare, collateral=10**6, engaged=10**6, claims=1, claimed=amount, is_over=True)
        self.sessions[session_id] = replace(session, spare=spare, reserved=session.reserved + amount + fees)

    async def session(self, session: bytes, *, final: bool = False) -> SessionStatus | None:
        """See `SessionPort`."""
        here = self.final if final and self.final is not None else self
        record = here.sessions.get(session)
        return None if record is None else _status(session, record)

    async def sessions_of_device(self, device: bytes, *, final: bool = False) -> tuple[SessionStatus, ...]:
        """See `SessionPort`."""
        return tuple(
            _status(session_id, record)
            for session_id, record in self.sessions.items()
            if device in [leg.device for number, leg in all_legs(record) if number != SPARE_LEG or not leg.left_at]
        )

    async def period_claim(self, claim: bytes, *, final: bool = False) -> PeriodClaim | None:
        """See `SessionPort`."""
        return (self.final if final and self.final is not None else self).claims.get(claim)

    async def places(self, device: bytes, service: int) -> DevicePlaces:
        """See `SessionPort`."""
        return DevicePlaces(self.offered, len(self.sessions))


def signed_by_customer(voucher: Voucher) -> bytes:
    """Return the signer's real signature."""
    signature = CUSTOMER.sign(voucher_payload(GENESIS, voucher))
    return MULTI_SIGNATURE.encode(MultiSignature(Scheme.ED25519, signature))


def terms_of(session_id: bytes) -> SessionTerms:
    """Return the terms of a session of this chain, for its customer's end."""
    return SessionTerms(GENESIS, session_id, RATE, INPUT_SHARE)


def _status(session_id: bytes, session: SessionRecord) -> SessionStatus:
    clocks = tuple(
        LegClock(
            period_of(session, number), 0 if leg.is_over else claims_until(session, leg), leg.collateral - leg.engaged
        )
        for number, leg in enumerate(session.legs)
    )
    return SessionStatus(session_id, session, left_of(session), collateral_of(session.rules, session.exposure), clocks)


class PlayedProvider:
    """A provider with one device, over a fake chain."""

    def __init__(self, folder: Path, chain: FakeSessions | None = None) -> None:
        """Start its daemon's parts."""
        self.chain = FakeSessions() if chain is None else chain
        self.heard = Heard()
        self.journal = Journal(folder / JOURNAL_FILE)
        self.earnings = EarningsBook(self.journal.database)
        self.store = SessionStore(self.journal.database)
        self.made: list[EchoHost] = []
        self.times = DeviceTimes()
        form = StreamedEcho()
        workers = SimpleNamespace(
            devices={DEVICE: SimpleNamespace(index=None)}, workloads=SimpleNamespace(of=lambda _: form)
        )
        key = Keypair.from_seed(Scheme.ED25519, bytes([6]) * 32)
        parts: Any = Parts(
            identity=Identity.of(STASH, key, GENESIS), chain=cast("Any", self.chain), journal=self.journal,
            workers=cast("Any", workers), inputs=cast("Any", None), store=cast("Any", None), blobs=cast("Any", None),
            telemetry=self.heard, earnings=self.earnings, losses=cast("Any", None), pauses=cast("Any", None),
        )  # fmt: skip
        self.parts = parts
        self.hosts = LiveHosts(self._make, self.times)
        self.duty = SessionDuty(parts, self.store, self.hosts)

    def _make(self, _hardware: object, _form: object, places: int) -> EchoHost:
        self.made.append(EchoHost(places=places))
        return self.made[-1]

    async def step(self, blocks: int = 1) -> None:
        """Make blocks, and let the duty see each."""
        for _ in range(blocks):
            self.chain.height += 1
            await self.duty.step(View(self.chain.height, ()))
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Stop as a killed daemon does: nothing but the disk stays."""
        await self.duty.close()
        self.journal.close()
