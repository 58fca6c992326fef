"""The proofs of sessions that this provider stands by for: computed, kept on the disk, sent, and sent again.

    drawn as the spare -> the model is loaded -> the standard request is answered -> the answer is kept -> prove_spare

Invariant: an answer is on the disk, closed, before its proof is sent. Checkers may ask for it from then on.
"""

from __future__ import annotations

from contextlib import aclosing
from enum import Enum, auto

from gpu_tasks.market.sessions.records import SPARE_PERIOD, Leg
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.sessions_api import SessionStatus
from gpu_tasks.market.sessions.spares import PROOF_TOKENS_OUT, proof_until
from gpu_tasks.market.sessions.vouchers import Voucher, session_claim_id
from gpu_tasks.provider.chain.port import SessionPort, View
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sent_steps import StepBook, StepMessage
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.sessions.live_hosts import Host
from gpu_tasks.provider.sessions.session_items import standard_request
from gpu_tasks.provider.sessions.session_store import PeriodState, SessionStore
from gpu_tasks.provider.telemetry import failure
from gpu_tasks.sessions.provider_end import KeepVoucher
from gpu_tasks.sessions.transcript import Exchange, SessionName, Transcript
from gpu_tasks.workloads.form import WorkloadForm
from runtime.encoding.codec import DecodeError


class SpareStep(Enum):
    """A publicly visible step."""

    PROVE = auto()


class SpareProofs:
    """The proofs of this provider's spares."""

    def __init__(self, parts: Parts[SessionPort], store: SessionStore) -> None:
        """Nothing is computed yet."""
        self._parts = parts
        self._store = store
        self.book: StepBook[SpareStep] = StepBook(parts)

    async def step(self, status: SessionStatus, spare: Leg, form: WorkloadForm, host: Host, view: View) -> None:
        """Compute or send the proof of a spare, until the chain has it or its blocks are over."""
        self.book.look(view)
        proof, claim_id = self._store.period(status.id, SPARE_PERIOD), session_claim_id(status.id, SPARE_PERIOD)
        if spare.is_over:
            if proof is not None and proof.state is not PeriodState.CLAIMED:
                self._store.note_claimed(status.id, SPARE_PERIOD)
            return
        if view.height >= proof_until(spare):
            return
        if proof is None:
            self.book.tasks.start(claim_id, self._compute(status, form, host))
            return
        if not proof.is_closed:
            self._store.close_period(status.id, SPARE_PERIOD)
        if self.book.is_due((claim_id, 0), SpareStep.PROVE):
            call = Sessions.prove_spare(session=status.id, top=proof.voucher.totals.top)
            details = {"session": status.id, "device": spare.device, "claim": claim_id}
            await self.book.send(StepMessage(call, "spare_proven", details))

    def forget(self, session_id: bytes) -> None:
        """Forget a session that is over."""
        self.book.forget((session_claim_id(session_id, SPARE_PERIOD), 0))

    async def _compute(self, status: SessionStatus, form: WorkloadForm, host: Host) -> None:
        """Answer the standard request, and keep the answer."""
        seed, claim_id = status.session.spare_seed, session_claim_id(status.id, SPARE_PERIOD)
        try:
            exchange = await _answered(standard_request(form, seed), host)
            transcript = Transcript(SessionName(self._parts.identity.genesis, claim_id, seed), form, [exchange])
            totals = transcript.totals()
        except (ExecutionError, DecodeError) as error:
            self._parts.telemetry.tell("spare_not_proven", session=status.id, **failure(error))
            return
        self._store.keep(transcript, KeepVoucher(Voucher(status.id, SPARE_PERIOD, totals), b""))


async def _answered(request: bytes, host: Host) -> Exchange:
    """Return a standard request with its answer. Raise ExecutionError if the worker does not give all tokens."""
    exchange = Exchange(request)
    await host.start()
    async with aclosing(host.generate(request)) as pieces:
        async for piece in pieces:
            exchange.tokens += piece.tokens
    if len(exchange.tokens) != PROOF_TOKENS_OUT:
        raise ExecutionError(f"the answer has {len(exchange.tokens)} tokens", code="other_answer")
    exchange.is_over = True
    return exchange
