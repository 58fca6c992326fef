"""Providers that cheat in sessions: other tokens, another model, tokens beyond the end, silence, and false vouchers.

Invariant: everything outside sessions is honest. A bent worker changes the tokens alone, and claims follow the
vouchers that its customer signs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from devnet.stage.cheating.executors import FEWER_LAYERS
from devnet.stage.cheating.races import Attempts
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.vouchers import Voucher
from gpu_tasks.provider.daemon import Daemon
from gpu_tasks.provider.duties.sent_steps import StepBook, StepMessage
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.live import LivePiece
from gpu_tasks.provider.sessions import session_duty
from gpu_tasks.provider.sessions.live_hosts import Host
from gpu_tasks.provider.sessions.served_session import AnswerTokens, ServedSession
from gpu_tasks.provider.sessions.session_duty import SessionDuty, SessionStep
from gpu_tasks.sessions.provider_end import KeepVoucher, ProviderEnd
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.streamed import StreamedWorkload, streamed
from runtime.blocks.extrinsic import MULTI_SIGNATURE
from runtime.frame.call import Call

FORGING_MODE = "forged-vouchers"
STOPS_AFTER = 8
"""The tokens that a stopping provider sends of each answer."""
PADDING = 3
GREATEST_BYTE = 255
OVERFLOW = 2**64 - 1


class BentHost:
    """An honest live worker, as the base of workers that change its answers."""

    def __init__(self, honest: Host) -> None:
        """Wrap an honest worker."""
        self.honest = honest

    async def start(self) -> None:
        """See `Host`."""
        await self.honest.start()

    async def close(self) -> None:
        """See `Host`."""
        await self.honest.close()

    async def generate(self, request: bytes) -> AsyncGenerator[AnswerTokens, None]:
        """Yield the bent answer."""
        async with aclosing(self.honest.generate(request)) as pieces:
            async for piece in pieces:
                for bent in self.bent(piece):
                    yield bent

    def bent(self, piece: AnswerTokens) -> list[AnswerTokens]:
        """Return other pieces in the place of one."""
        return [piece]


class WrongTokens(BentHost):
    """A worker that changes each token."""

    def bent(self, piece: AnswerTokens) -> list[AnswerTokens]:
        """See `BentHost`."""
        tokens = tuple(token ^ 1 if token <= GREATEST_BYTE else token for token in piece.tokens)
        return [LivePiece(tokens, piece.finish)]


class PaddedTokens(BentHost):
    """A worker that goes on after the end of an answer."""

    def bent(self, piece: AnswerTokens) -> list[AnswerTokens]:
        """See `BentHost`."""
        if piece.finish is None:
            return [piece]
        return [LivePiece(piece.tokens, None), LivePiece((0,) * PADDING, piece.finish)]


class StoppingHost(BentHost):
    """A worker that falls silent amid each answer."""

    async def generate(self, request: bytes) -> AsyncGenerator[AnswerTokens, None]:
        """Yield the first tokens, and wait for ever."""
        sent = 0
        async with aclosing(self.honest.generate(request)) as pieces:
            async for piece in pieces:
                part = piece.tokens[: STOPS_AFTER - sent]
                sent += len(part)
                yield LivePiece(part, None)
                if sent == STOPS_AFTER:
                    await asyncio.Event().wait()


class OtherModel(BentHost):
    """A worker that computes the model without its last layers, in the daemon's own process."""

    def __init__(self, honest: Host, form: WorkloadForm) -> None:
        """Wrap an honest worker of the model."""
        super().__init__(honest)
        self._model = form.name.partition(":")[2]
        self._workload: StreamedWorkload | None = None

    async def generate(self, request: bytes) -> AsyncGenerator[AnswerTokens, None]:
        """Yield the tokens of the other model."""
        from devnet.stage.cheating.wrong_models import open_wrong_decoder  # noqa: PLC0415  # NumPy, for this mode alone

        if self._workload is None:
            self._workload = streamed(open_wrong_decoder(FEWER_LAYERS, self._model, "numpy"))
        lanes = self._workload.live(1)
        lanes.begin(request)
        while True:
            for _, tokens, finish in await asyncio.to_thread(lanes.step):
                if tokens:
                    yield LivePiece(tokens, finish)
                if finish is not None:
                    return


def with_hosts(bend: Callable[[Host, WorkloadForm], Host]) -> Callable[[Daemon], None]:
    """Return a change: the daemon's live workers are bent ones."""

    def cheat(daemon: Daemon) -> None:
        hosts = daemon.duty(SessionDuty).hosts
        make_honest = hosts.make

        def make(hardware: Hardware, form: WorkloadForm, places: int) -> Host:
            return bend(make_honest(hardware, form, places), form)

        hosts.make = make

    return cheat


wrong_tokens = with_hosts(lambda honest, _: WrongTokens(honest))
padded_tokens = with_hosts(lambda honest, _: PaddedTokens(honest))
stopping = with_hosts(lambda honest, _: StoppingHost(honest))
other_model = with_hosts(OtherModel)


KEPT: dict[tuple[bytes, int], list[KeepVoucher]] = {}
"""All vouchers of this process, by session and period."""


class RememberingSession(ServedSession):
    """A served session that keeps the older vouchers too."""

    def keep(self, end: ProviderEnd, kept: KeepVoucher) -> None:
        """See `ServedSession`."""
        super().keep(end, kept)
        KEPT.setdefault((kept.voucher.session, kept.voucher.period), []).append(kept)


class ForgingBook(StepBook[SessionStep]):
    """A book that tries false vouchers before a claim, claims by the oldest one, and then tries the others."""

    def __init__(self, parts: Any) -> None:
        """Begin without an attempt."""
        super().__init__(parts)
        self._attempts = Attempts(parts, FORGING_MODE)
        self._tried: set[bytes] = set()

    async def send(self, message: StepMessage) -> None:
        """See `StepBook`."""
        call = message.content
        if not isinstance(call, Call) or call.name != "Sessions.claim":
            await super().send(message)
            return
        session_id, newest = call.named_arguments["session"], call.named_arguments["voucher"]
        older = KEPT[session_id, newest.period]
        is_first = session_id not in self._tried
        self._tried.add(session_id)
        if is_first:
            for voucher in _forgeries(newest):
                await self._attempts.call(session_id, _claim(session_id, voucher, call))
        oldest = KeepVoucher(older[0].voucher, older[0].signature)
        is_last = call.named_arguments["is_last"]
        await super().send(replace(message, content=_presented(session_id, oldest, is_last=is_last)))
        if is_first:
            # The same period again, by the newest voucher and by the one that it was claimed with.
            for kept in (older[-1], oldest):
                await self._attempts.call(session_id, _presented(session_id, kept, is_last=False))


def _forgeries(newest: Voucher) -> list[Voucher]:
    """Return vouchers that the customer did not sign."""
    totals = newest.totals
    return [
        replace(newest, totals=replace(totals, tokens_out=totals.tokens_out + 64)),
        replace(newest, totals=replace(totals, tokens_out=OVERFLOW)),
        replace(newest, session=bytes(32)),
        replace(newest, period=newest.period + 1),
    ]


def _claim(session_id: bytes, voucher: Voucher, right: Call) -> Call:
    """Return a claim by another voucher, with the signature of the right one."""
    return Sessions.claim(
        session=session_id, voucher=voucher, signature=right.named_arguments["signature"], is_last=False
    )


def _presented(session_id: bytes, kept: KeepVoucher, *, is_last: bool) -> Call:
    signature = MULTI_SIGNATURE.decode(kept.signature)
    return Sessions.claim(session=session_id, voucher=kept.voucher, signature=signature, is_last=is_last)


def forge_vouchers(daemon: Daemon) -> None:
    """Try false vouchers, and claim by old ones."""
    # The duty makes served sessions by this name.
    session_duty.ServedSession = RememberingSession  # type: ignore[attr-defined]
    duty = daemon.duty(SessionDuty)
    duty.book = ForgingBook(daemon.parts)
    duty.running = (duty.book.tasks,)
