"""The answers of a file's units, as they end: fetched, checked against what was paid, and written down at once.

Always: the results of a unit are on the disk before the record says so, so whatever breaks off, none is lost and none
stands twice; a unit whose answers no store serves now is left for the next run, never counted as failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpu_tasks.batches.outcomes import Completed
from gpu_tasks.client.batches.record import BatchRecord
from gpu_tasks.client.batches.result_files import ResultFiles
from gpu_tasks.client.batches.writing import LineAnswer, LineWriter, UnitPlace
from gpu_tasks.client.file_runs.plan import FilePlan
from gpu_tasks.client.refunds import why_refunded
from gpu_tasks.client.results import ResultError, cost_of, paid_output
from gpu_tasks.client.watching import moments
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.inference.units import Unit, UnitState, is_open
from wallet.client import ChainClient
from wallet.keypair import Keypair

TRIES = 20
"""How many final blocks an output is asked for, before it is left for the next run."""
FORGOTTEN = "the chain has forgotten this unit: its answers were not fetched in time"
REFUTED = "an audit found its result wrong, and the price came back"


@dataclass(slots=True)
class AnswersSoFar:
    """What came of a file so far, in this run."""

    answered: int = 0
    failed: int = 0
    tokens: int = 0
    units: int = 0
    paid: int = 0
    """Grains, for the units that ended in this run."""


class FileAnswers:
    """Follows the posted units of one file until all have ended."""

    def __init__(
        self, client: ChainClient, key: Keypair, plan: FilePlan, record: BatchRecord, files: ResultFiles,
        writer: LineWriter, tell: Callable[[AnswersSoFar], None],
    ) -> None:  # fmt: skip
        """`tell` hears of each unit whose answers are written."""
        self._client, self._key, self._plan = client, key, plan
        self._record, self._files, self._writer, self._tell = record, files, writer, tell
        self._tries: dict[int, int] = {}
        self.found = AnswersSoFar()

    async def follow(self) -> list[int]:
        """Write the answers of each unit when it has ended; the units whose answers nobody serves now."""
        waiting = self._record.to_write()
        if not waiting:
            return []
        async with BlobClient(private=market_reads.is_development(self._client)) as blobs:
            async for _ in moments(self._client):
                waiting = await self._look(blobs, waiting)
                if all(self._tries.get(place, 0) >= TRIES for place in waiting):
                    break
        return waiting

    async def _look(self, blobs: BlobClient, waiting: Sequence[int]) -> list[int]:
        """Write what has ended in the final chain; what is left."""
        final = await self._client.finalized()
        ids = [bytes.fromhex(self._record.posted[place]) for place in waiting]
        left = []
        for place, unit_id, unit in zip(waiting, ids, await market_reads.units(self._client, ids, final), strict=True):
            if unit is not None and is_open(unit):
                left.append(place)
            elif unit is None or unit.state is not UnitState.SETTLED or unit.is_refuted:
                self._write_failed(place, unit_id, unit)
            elif not await self._write_paid(blobs, place, unit_id, unit, final):
                left.append(place)
        return left

    async def _write_paid(self, blobs: BlobClient, place: int, unit_id: bytes, unit: Unit, final: bytes) -> bool:
        if self._tries.get(place, 0) >= TRIES:
            return False
        try:
            paid = await paid_output(self._client, blobs, self._key, unit_id, unit, final)
        except ResultError:
            self._tries[place] = self._tries.get(place, 0) + 1
            return False
        lines = self._plan.lines_of(place)
        answers, errors = [], []
        for index, (line, outcome) in enumerate(zip(lines, paid.outcomes, strict=True)):
            where = UnitPlace(unit_id, index)
            if isinstance(outcome, Completed):
                answers.append(self._writer.answered(line, _answer(outcome, self._plan), where))
                self.found.tokens += outcome.tokens_out
            else:
                errors.append(self._writer.rejected(line, where))
        self.found.paid += cost_of(unit)
        self._write(place, answers, errors)
        return True

    def _write_failed(self, place: int, unit_id: bytes, unit: Unit | None) -> None:
        why = FORGOTTEN if unit is None else REFUTED if unit.is_refuted else why_refunded(unit)
        lines = self._plan.lines_of(place)
        self._write(
            place, [], [self._writer.failed(line, UnitPlace(unit_id, index), why) for index, line in enumerate(lines)]
        )

    def _write(self, place: int, answers: Sequence[bytes], errors: Sequence[bytes]) -> None:
        ends = self._files.add(answers, errors)
        self._record.note_written(place, len(answers), len(errors), ends)
        self.found.answered += len(answers)
        self.found.failed += len(errors)
        self.found.units += 1
        self._tell(self.found)


def _answer(outcome: Completed, plan: FilePlan) -> LineAnswer:
    return LineAnswer(plan.terms.form.show_output(outcome.output), outcome.tokens_in, outcome.tokens_out)
