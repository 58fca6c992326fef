"""The two stages of admission to the pool: checks without a signature, and checks after the workers' verdict.

Invariant: extrinsics of one source enter in the order of their arrival. A stage works for `TURN_SECONDS`, or for one
extrinsic, then the other tasks of this process get a turn. While workers check a batch the first stage examines the
next ones, at most `CHECKING_MAX` batches ahead. Every arrival gets its result.
"""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple, Protocol

import trio

from node.p2p.meter import Seconds
from node.pool.arrivals import Arrival, Arrivals, Submission
from node.pool.manners import Blame, Manners
from node.pool.refusal import INVALID, UNDECODABLE, PoolRefusalError, Refusal
from node.pool.verifier import BATCH_MAX, Claim, Verdicts, Verifier
from runtime.cryptography.hashing import blake2_256
from runtime.execution.pool_validation import Vouched

TURN_SECONDS = 0.004  # a slot is at least a second, and votes wait no longer than this
CHECKING_MAX = 16
BAD_SIGNATURE_SECONDS = 150e-6  # a worker's time for one check on a slow machine
BYTE_SECONDS = 6e-9  # the time to hash one byte of an extrinsic and pass it to a worker
BAD_PROOF = Refusal(INVALID, "Invalid Transaction", "bad_proof")


class Vetted(NamedTuple):
    """An arrival that passed the first stage, and the signature to check."""

    arrival: Arrival
    vouched: Vouched
    claim: Claim
    tip: bytes


class Examiner(Protocol):
    """The rules of admission. Both methods raise `PoolRefusalError`."""

    def check_outside(self, arrival: Arrival) -> Vetted:
        """Check everything that needs neither the signature nor the call."""

    def enter(self, checked: Vetted, *, is_signed: bool) -> None:
        """Check the rest, and add the extrinsic to the pool."""


class Entrance:
    """The path of arrivals to the examiner, and of its results to the waiting callers."""

    def __init__(
        self, examiner: Examiner, verifier: Verifier, blame: Blame, clock_seconds: Seconds = perf_counter
    ) -> None:
        self.arrivals = Arrivals()
        self._examiner = examiner
        self._verifier = verifier
        self._blame_peer = blame
        self._clock_seconds = clock_seconds
        self._manners = Manners(clock_seconds())
        self._batch_sender, self._batch_receiver = trio.open_memory_channel[tuple[list[Vetted], Verdicts]](CHECKING_MAX)

    async def submit(self, raws: list[bytes]) -> list[bytes | Refusal]:
        """Judge extrinsics of this node's users, in order; return for each its hash or its refusal."""
        if not raws:
            return []
        submission = Submission(len(raws))
        arrivals = [Arrival(raw, None, blake2_256(raw), submission) for raw in raws]
        await self.arrivals.put(arrivals)
        await submission.done.wait()
        return [arrival.refusal or arrival.extrinsic_hash for arrival in arrivals]

    def offer(self, raw: bytes, peer: str, extrinsic_hash: bytes) -> bool:
        """Take a peer's extrinsic; False if it is dropped."""
        return self._manners.is_heard(peer, self._clock_seconds()) and self.arrivals.offer(
            Arrival(raw, peer, extrinsic_hash)
        )

    async def run(self) -> None:
        """Run both stages until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._serve_door)
            nursery.start_soon(self._serve_entry)

    async def _serve_door(self) -> None:
        while True:
            await self.arrivals.wait()
            batch = self._one_turn()
            if batch:
                verdicts = self._verifier.begin([vetted.claim for vetted in batch])
                await self._batch_sender.send((batch, verdicts))
            await trio.lowlevel.checkpoint()

    def _one_turn(self) -> list[Vetted]:
        batch: list[Vetted] = []
        now = started_at = self._clock_seconds()
        while len(batch) < BATCH_MAX and now - started_at < TURN_SECONDS:
            arrival = self.arrivals.take()
            if arrival is None:
                break
            try:
                batch.append(self._examiner.check_outside(arrival))
            except PoolRefusalError as error:
                self._refuse_arrival(arrival, error.refusal, self._clock_seconds() - now)
            now = self._clock_seconds()
        return batch

    async def _serve_entry(self) -> None:
        async for batch, verdicts in self._batch_receiver:
            valid = await verdicts.wait()
            started_at = now = self._clock_seconds()
            for vetted, is_signed in zip(batch, valid, strict=True):
                self._enter_pool(vetted, now, is_signed=is_signed)
                now = self._clock_seconds()
                if now - started_at >= TURN_SECONDS:
                    await trio.lowlevel.checkpoint()
                    started_at = now = self._clock_seconds()

    def _enter_pool(self, vetted: Vetted, started_at: float, *, is_signed: bool) -> None:
        arrival = vetted.arrival
        try:
            self._examiner.enter(vetted, is_signed=is_signed)
        except PoolRefusalError as error:
            # The worker's time is not measured here, so a bad signature is charged a fixed estimate.
            spent_seconds = self._clock_seconds() - started_at if is_signed else BAD_SIGNATURE_SECONDS
            self._refuse_arrival(arrival, error.refusal, spent_seconds + len(arrival.raw) * BYTE_SECONDS)
            return
        if arrival.source is not None:
            self._manners.on_admitted(arrival.source, self._clock_seconds())
        self.arrivals.judged(arrival)

    def _refuse_arrival(self, arrival: Arrival, refusal: Refusal, spent_seconds: float) -> None:
        arrival.refusal = refusal
        if arrival.source is not None:
            is_forged = refusal.code == UNDECODABLE or refusal == BAD_PROOF
            if self._manners.on_refused(arrival.source, spent_seconds, self._clock_seconds(), is_forged=is_forged):
                self._blame_peer(arrival.source, f"extrinsics that no honest node relays: {refusal.text}")
        self.arrivals.judged(arrival)
