"""Answers that were written down, and whose result was found wrong since: told, and marked in the file of errors.

A result is paid, and its answers are fetched, before its leaves are looked at. Always: the file of results stays as it
is; each of its lines that does not count any more has a line in the file of errors, once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from gpu_tasks.client.batches.record import BatchRecord
from gpu_tasks.client.batches.result_files import ResultFiles
from gpu_tasks.client.batches.writing import LineWriter, UnitPlace
from gpu_tasks.client.costs.spent import paid_and_returned
from gpu_tasks.client.file_runs.plan import FilePlan
from gpu_tasks.data import market_reads
from wallet.client import ChainClient


@dataclass(frozen=True, slots=True)
class LookedBack:
    """What became of written answers: requests whose answers were found wrong since the last look; units in doubt."""

    found_wrong: int = 0
    still_checked: int = 0
    """Units that may yet be found wrong."""


async def look_back(
    client: ChainClient, plan: FilePlan, record: BatchRecord, files: ResultFiles, writer: LineWriter
) -> LookedBack:
    """Look at every unit whose answers are written, in the final chain; mark those of a result that was refuted."""
    places = [place for place, (answered, _) in record.written.items() if answered and place in record.posted]
    places = [place for place in places if place not in record.refuted]
    if not places:
        return LookedBack()
    ids = [bytes.fromhex(record.posted[place]) for place in places]
    units = await market_reads.units(client, ids, await client.finalized())
    known = [(place, unit) for place, unit in zip(places, units, strict=True) if unit is not None]
    refuted = [(place, unit) for place, unit in known if unit.is_refuted]
    found_wrong = 0
    there = _names_of(files) if refuted else set[str]()
    for place, unit in refuted:
        unit_id = bytes.fromhex(record.posted[place])
        lines = [(line, UnitPlace(unit_id, index)) for index, line in enumerate(plan.lines_of(place))]
        # a line that is no request has its error already
        errors = [writer.refuted(line, where) for line, where in lines if writer.name_of(line, where) in there]
        found_wrong += len(errors)
        record.note_refuted(place, files.add([], errors), paid_and_returned(unit))
    return LookedBack(found_wrong, sum(unit.is_watched for _, unit in known))


def _names_of(files: ResultFiles) -> set[str]:
    """By what the lines of the file of results are told apart."""
    found = set()
    for line in files.results():
        try:
            found.add(LineWriter.name_in(json.loads(line)))
        except (ValueError, TypeError, KeyError):
            continue  # not ours: somebody wrote into the file
    return found
