"""The answers of a file's units as they end, and the end of a run that is stopped early.

Invariants:

* A unit's results are on the disk before the record mentions them. No crash loses a result or writes it twice.
* A unit's answers are written as soon as they are claimed. Its payment may still wait for a check then.
* A unit whose answers no store serves is left for the next run. It never counts as failed.
* The record notes a stop before any unit is cancelled. Units that wait for their draw are cancelled. The run waits for
  racing units, because they are paid. A unit drawn in the meantime fails alone in its batch.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from gpu_tasks.batches.outcomes import BatchOutcome, Completed
from gpu_tasks.client.units.costs import paid_and_returned
from gpu_tasks.client.units.file_plan import FilePlan, ReadAnswer, WrongAnswerError
from gpu_tasks.client.units.lines import BatchLine
from gpu_tasks.client.units.result_lines import CANCELLED, EXPIRED, LineAnswer, LineWriter, ResultFiles, UnitPlace
from gpu_tasks.client.units.results import (
    ResultError,
    has_answer,
    is_at_work,
    outcomes_served,
    salt_of,
    why_refunded,
)
from gpu_tasks.client.units.run_record import BatchRecord, expires_at
from gpu_tasks.client.units.wait_reasons import AWAITS_DRAW, look, reason_queued
from gpu_tasks.client.units.watch import moments
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.side_by_side import all_side_by_side
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Refund, Unit, UnitState, is_open
from runtime.frame.call import Call
from runtime.pallets.utility import Utility
from wallet.client import ChainClient
from wallet.keypair import Keypair

CANCELS_PER_CALL = 256
"""The most units of one call: a quarter of a block's weight."""
TRIES_MAX = 3
"""The most attempts to cancel a unit, so that a unit that the chain keeps refusing cannot cost fees without end."""
CODES = {"cancelled": CANCELLED, "expired": EXPIRED}
"""The error code of an unanswered line, by the reason why its run was stopped."""

SendCall = Callable[[Call], Awaitable[int]]
"""A function that sends a call once and returns its fee in grains when it is final."""


def cancel_call(units: Sequence[bytes]) -> Call:
    """Return a call that cancels units, each on its own: one that was drawn in the meantime fails alone."""
    return Utility.force_batch(calls=tuple(InferenceMarket.cancel(unit=unit) for unit in units))


@dataclass(slots=True)
class RunStop:
    """The stop of a run: its reason, and the cancellation of its waiting units."""

    record: BatchRecord
    send: SendCall
    _tries: dict[bytes, int] = field(default_factory=dict)

    def is_due(self) -> bool:
        """Return True if no more units may be posted. The record keeps the first reason for good."""
        if self.record.stopped is None and (why := self._why()) is not None:
            self.record.note_stopped(why)
        return self.record.stopped is not None

    async def take_back(self, units: Sequence[tuple[bytes, Unit | None]]) -> None:
        """Cancel the units that wait for their draw."""
        queued = [
            unit_id
            for unit_id, unit in units
            if unit is not None and unit.state is UnitState.QUEUED and self._tries.get(unit_id, 0) < TRIES_MAX
        ]
        for unit_id in queued:
            # Counted before the call: one that was sent without an answer may have cost its fee too.
            self._tries[unit_id] = self._tries.get(unit_id, 0) + 1
        for first in range(0, len(queued), CANCELS_PER_CALL):
            self.record.note_fee(await self.send(cancel_call(queued[first : first + CANCELS_PER_CALL])))

    def code_of(self, unit: Unit | None) -> str | None:
        """Return the error code for the lines of a unit without a result, or None if the stop is not the reason."""
        if self.record.stopped is None or unit is None:
            return None
        return CODES[self.record.stopped] if unit.refund in {Refund.CANCELLED, Refund.EXPIRED} else None

    def _why(self) -> str | None:
        assert self.record.plan is not None, "a run that was begun"
        # A request to cancel that comes after the last answer stops nothing.
        if self.record.is_whole:
            return None
        if self.record.is_cancel_asked:
            return "cancelled"
        expiry = expires_at(self.record.plan)
        return "expired" if expiry is not None and time.time() >= expiry else None


FORGOTTEN = "the chain has forgotten this unit: its answers were not fetched in time"


FETCHED_AT_ONCE = 8
"""The most units at once: one slow store does not delay the other units."""
INPUTS_AT_ONCE = 2
"""The most of these that read an input: an input of 16 MiB takes 64 MiB of memory while it is read."""
TRIES = 6
"""The attempts to fetch an output before it is left for the next run. They spread over 31 final blocks."""


async def standing_of(client: ChainClient, units: Sequence[Unit], not_posted: int, final_hash: bytes) -> str:
    """Return a sentence about the file's open units, all as of one final block, and the number still to post."""
    clauses = [*_work_clauses(units)]
    if not_posted:
        clauses.append(f"{not_posted:,} not posted yet")
    queued = [unit for unit in units if unit.state is UnitState.QUEUED]
    market_view = await look(
        client, queued[:1], final_hash
    )  # One is enough: all units of a file ask the same of the same market.
    if market_view is not None:
        reason = reason_queued(queued[0], market_view)
        clauses.append(f"{len(queued):,} waiting for a draw{'' if reason == AWAITS_DRAW else f' ({reason})'}")
    return f"units: {', '.join(clauses)}" if clauses else ""


def stopped_standing(standing: str) -> str:
    """Return the sentence of `standing_of` for a stopped run, with the reason why it has not ended yet."""
    return (
        f"waiting units are cancelled; racing units cannot be cancelled, are paid, and must end first; {standing}"
        if standing
        else ""
    )


def _work_clauses(units: Sequence[Unit]) -> list[str]:
    racing = [unit for unit in units if unit.state is UnitState.RACING]
    opening = [unit for unit in racing if unit.round is not None and unit.round.closed_at]
    computed = [unit for unit in racing if unit not in opening]
    disputed = sum(unit.state is UnitState.DISPUTED for unit in units)
    clauses = []
    if computed:
        devices = len({racer.device for unit in computed for racer in unit.racers})
        clauses.append(f"{len(computed):,} racing on {devices:,} {'device' if devices == 1 else 'devices'}")
    if opening:
        clauses.append(f"{len(opening):,} being opened and claimed")
    if disputed:
        clauses.append(f"{disputed:,} in a dispute")
    return clauses


@dataclass(slots=True)
class _FetchAttempts:
    """The attempts for one unit: the number of failures, and the look at the chain from which to try again."""

    failed: int = 0
    next_look: int = 0
    salt: bytes | None = None


class PaidOutcomes:
    """Fetches the outcomes of one file's units, by their places.

    A unit that no provider serves is tried less and less often, independently of the others, and is left for the next
    run after `TRIES`. Only the salt of its input is kept, which a try needs to check an output.
    """

    def __init__(self, client: ChainClient, keypair: Keypair) -> None:
        self._client, self._key = client, keypair
        self._trying: dict[int, _FetchAttempts] = {}
        self._inputs = asyncio.Semaphore(INPUTS_AT_ONCE)
        self._look = 0

    @property
    def given_up(self) -> set[int]:
        """The units that reached the limit of attempts in this run."""
        return {place for place, attempts in self._trying.items() if attempts.failed >= TRIES}

    def begin_look(self) -> None:
        """Count one more look at the chain, one per final block. Waiting times are counted in looks."""
        self._look += 1

    def is_due(self, place: int) -> bool:
        """Return True if the unit should be fetched now."""
        attempts = self._trying.get(place, _FetchAttempts())
        return attempts.failed < TRIES and self._look >= attempts.next_look

    async def of(
        self, blob_client: BlobClient, place: int, unit_id: bytes, unit: Unit, providers: dict[bytes, Provider]
    ) -> tuple[BatchOutcome, ...] | None:
        """Return the paid outcomes of a unit.

        Return None if no provider serves them or the unit's input. The next try comes after twice the wait.
        """
        attempts = self._trying.setdefault(place, _FetchAttempts())
        try:
            if attempts.salt is None:
                async with self._inputs:
                    attempts.salt = await salt_of(blob_client, self._key, unit, providers)
            outcomes = await outcomes_served(
                self._client, blob_client, self._key, unit_id, unit, attempts.salt, providers
            )
        except ResultError:
            attempts.next_look = self._look + 2**attempts.failed
            attempts.failed += 1
            return None
        del self._trying[place]
        return outcomes


@dataclass(slots=True)
class AnswersSoFar:
    """The progress with a file in this run."""

    answered: int = 0
    failed: int = 0
    given_up: int = 0
    """The failed ones that a stopped run did not answer."""
    tokens: int = 0
    units: int = 0


class FileAnswers:
    """Follows the posted units of one file until all have an answer or an end."""

    def __init__(
        self, client: ChainClient, keypair: Keypair, plan: FilePlan, record: BatchRecord, files: ResultFiles,
        writer: LineWriter, stop: RunStop, tell: Callable[[AnswersSoFar, str], None], read: ReadAnswer | None = None,
    ) -> None:  # fmt: skip
        """Call `tell` after each look at the chain with the progress and a sentence. `read` is as in `FileWish`."""
        self._client, self._plan, self._stop, self._read = client, plan, stop, read
        self._record, self._files, self._writer, self._tell = record, files, writer, tell
        self._outcomes = PaidOutcomes(client, keypair)
        self.found = AnswersSoFar()

    @property
    def unserved(self) -> set[int]:
        """The units that are paid, but whose answers no provider serves now."""
        return self._outcomes.given_up - self._record.written.keys()

    async def follow(self, enough: int = 0) -> list[int]:
        """Write the answers of each unit until at most `enough` have none. Return these."""
        waiting = self._record.to_write()
        async with BlobClient(private=market_reads.is_development(self._client)) as blob_client:
            # Without an open unit, a run that only gives up its rest must not wait for a block.
            async for _ in moments(self._client) if waiting else _no_moments():
                waiting = await self._look(blob_client, waiting)
                if len(set(waiting) - self.unserved) <= enough:
                    break
        for place in self._record.to_give_up():
            self._write_stopped(place)
        return waiting

    async def _look(self, blob_client: BlobClient, waiting: Sequence[int]) -> list[int]:
        """Write the units with an answer or an end in the final chain. Return the others."""
        is_stopped = self._stop.is_due()
        final_hash = await self._client.finalized()
        unit_ids = [bytes.fromhex(self._record.posted[place]) for place in waiting]
        units = await market_reads.units(self._client, unit_ids, final_hash)
        if is_stopped:
            await self._stop.take_back(list(zip(unit_ids, units, strict=True)))
        if not self._record.to_post() and not any(unit is not None and is_at_work(unit) for unit in units):
            self._record.note_ended()
        self._outcomes.begin_look()
        paid = []
        for place, unit_id, unit in zip(waiting, unit_ids, units, strict=True):
            if unit is None or unit.state is UnitState.REFUNDED:
                self._write_failed(place, unit_id, unit)
            elif has_answer(unit) and self._outcomes.is_due(place):
                paid.append((place, unit_id, unit))
        if paid:
            providers = await market_reads.providers(self._client, final_hash)
            writes = [partial(self._write_paid, blob_client, *paid_unit, providers) for paid_unit in paid]
            await all_side_by_side(writes, at_once=FETCHED_AT_ONCE)
        open_units = [unit for unit in units if unit is not None and is_at_work(unit)]
        sentence = await standing_of(self._client, open_units, len(self._record.to_post()), final_hash)
        self._tell(self.found, stopped_standing(sentence) if is_stopped else sentence)
        return [place for place in waiting if place not in self._record.written]

    async def _write_paid(
        self, blob_client: BlobClient, place: int, unit_id: bytes, unit: Unit, providers: dict[bytes, Provider]
    ) -> None:
        """Fetch and write the answers of a unit, unless no provider serves them now."""
        outcomes = await self._outcomes.of(blob_client, place, unit_id, unit, providers)
        if outcomes is None:
            return
        lines = self._plan.lines_of(place)
        answers, errors = [], []
        for index, (line, outcome) in enumerate(zip(lines, outcomes, strict=True)):
            where = UnitPlace(unit_id, index)
            if not isinstance(outcome, Completed):
                errors.append(self._writer.rejected(line, where))
                continue
            self.found.tokens += outcome.tokens_out
            try:
                text = await self._text_of(line, outcome.output)
            except WrongAnswerError as error:
                errors.append(self._writer.failed(line, where, str(error)))
            else:
                answers.append(
                    self._writer.answered(line, LineAnswer(text, outcome.tokens_in, outcome.tokens_out), where)
                )
        self._write(place, answers, errors, unit)

    async def _text_of(self, line: BatchLine, output: bytes) -> str:
        return self._plan.terms.form.show_output(output) if self._read is None else await self._read(line, output)

    def _write_failed(self, place: int, unit_id: bytes, unit: Unit | None) -> None:
        code, lines = self._stop.code_of(unit), self._plan.lines_of(place)
        if code is not None:
            self._write(place, [], [self._writer.stopped(line, code) for line in lines], unit, is_given_up=True)
            return
        reason = FORGOTTEN if unit is None else why_refunded(unit)
        errors = [self._writer.failed(line, UnitPlace(unit_id, index), reason) for index, line in enumerate(lines)]
        self._write(place, [], errors, unit)

    def _write_stopped(self, place: int) -> None:
        """Write the error lines of a unit that was never posted because the run was stopped."""
        assert self._record.stopped is not None, "of a run that was stopped"
        code = CODES[self._record.stopped]
        errors = [self._writer.stopped(line, code) for line in self._plan.lines_of(place)]
        self._write(place, [], errors, None, is_given_up=True)

    def _write(
        self, place: int, answers: Sequence[bytes], errors: Sequence[bytes], unit: Unit | None, *,
        is_given_up: bool = False,
    ) -> None:  # fmt: skip
        """Write the lines of a unit.

        A unit that was never posted, or that the chain has forgotten, adds no known money.
        """
        # Results reach the disk before the record. After a kill in between, the next run cuts them off and writes them
        # again.
        ends, money = self._files.add(answers, errors), (0, 0) if unit is None else paid_and_returned(unit)
        is_claimed = unit is not None and unit.state is UnitState.CLAIMED
        self._record.note_written(
            place, len(answers), len(errors), ends, money, is_given_up=is_given_up, is_claimed=is_claimed
        )
        self.found.given_up += len(errors) if is_given_up else 0
        self.found.answered += len(answers)
        self.found.failed += len(errors)
        self.found.units += 1


async def _no_moments() -> AsyncIterator[None]:
    """Yield nothing."""
    for _ in ():
        yield


# Answers are written before the check of their claim. The results file stays unchanged. The errors file gets one line
# for each answer whose claim did not pass.
@dataclass(frozen=True, slots=True)
class LookedBack:
    """The result of a later look: answers that did not pass their check, and units whose claim is still open."""

    found_wrong: int = 0
    still_checked: int = 0
    """The units that a check may still refute."""


async def look_back(
    client: ChainClient, plan: FilePlan, record: BatchRecord, files: ResultFiles, writer: LineWriter
) -> LookedBack:
    """Look in the final chain at units that were claimed when their answers were written. Note their ends."""
    places = sorted(record.claimed)
    if not places:
        return LookedBack()
    unit_ids = [bytes.fromhex(record.posted[place]) for place in places]
    units = await market_reads.units(client, unit_ids, await client.finalized())
    known = [(place, unit) for place, unit in zip(places, units, strict=True) if unit is not None]
    refunded = [(place, unit) for place, unit in known if unit.refund is not None]
    found_wrong = 0
    written_names = _written_names(files) if refunded else set[str]()
    for place, unit in refunded:
        unit_id = bytes.fromhex(record.posted[place])
        lines = [(line, UnitPlace(unit_id, index)) for index, line in enumerate(plan.lines_of(place))]
        # A line that is no valid request already has an error line.
        answered = [(line, where) for line, where in lines if writer.name_of(line, where) in written_names]
        errors = [writer.refuted(line, where, is_wrong=unit.refund is Refund.REFUTED) for line, where in answered]
        found_wrong += len(errors)
        record.note_refuted(place, files.add([], errors), paid_and_returned(unit))
    for place, unit in known:
        if unit.state is UnitState.SETTLED:
            record.note_passed(place, paid_and_returned(unit))
    return LookedBack(found_wrong, sum(is_open(unit) for _, unit in known))


def _written_names(files: ResultFiles) -> set[str]:
    """Return the names of the lines in the results file."""
    line_names = set()
    for line in files.results():
        try:
            line_names.add(LineWriter.name_in(json.loads(line)))
        except (ValueError, TypeError, KeyError):
            continue  # Another program wrote this line.
    return line_names
