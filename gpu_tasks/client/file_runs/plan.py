"""A file of requests before anything is posted: read, split into units, and what its record already says of it.

Always: a file that is taken up again becomes the same units with the same requests, or none at all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from gpu_tasks.batches.requests import encode_requests
from gpu_tasks.batches.work import PRICED, TOKEN, price_of, work_of
from gpu_tasks.client.batches.line_forms import LineTerms
from gpu_tasks.client.batches.lines import BatchLine, FileForm, LineError
from gpu_tasks.client.batches.reading import BatchReader
from gpu_tasks.client.batches.record import BatchRecord, RunPlan
from gpu_tasks.client.batches.splitting import UnitRoom, load_of, split
from gpu_tasks.client.posting import PostError, Prompt, UnitWish, Wish
from gpu_tasks.data.unit_input import INPUT_BYTES_MAX
from gpu_tasks.market.inference.services import LEASE_SLACK, UNIT_LEASE_MAX, ServiceTerms
from gpu_tasks.workloads.form import WorkloadForm

SEED_BYTES = 32
UNITS_MAX = 4_096
"""Of one file."""
TOKEN_BYTES = 8
"""What a token of an answer is reckoned with, so that the answers of a unit fit one blob."""


@dataclass(frozen=True, slots=True)
class FileWish:
    """What a file is, and where its answers go."""

    stream: BinaryIO
    form: FileForm | None
    """None: as its first line has it."""
    output: Path
    errors: Path
    records: Path
    """The folder of the records of runs."""


@dataclass(frozen=True, slots=True)
class ReadRequests:
    """All lines of a file."""

    form: FileForm
    endpoint: str | None
    digest: bytes
    lines: tuple[BatchLine, ...]
    refused: tuple[LineError, ...]


def read_file(wanted: FileWish, terms: LineTerms) -> ReadRequests:
    """The whole file, from its beginning; BatchFileError."""
    wanted.stream.seek(0)
    reader = BatchReader(wanted.stream, terms, wanted.form)
    found = list(reader)
    lines = tuple(line for line in found if isinstance(line, BatchLine))
    refused = tuple(line for line in found if isinstance(line, LineError))
    return ReadRequests(reader.form, reader.endpoint, reader.digest, lines, refused)


def line_terms(form: WorkloadForm, wish: Wish, sold: ServiceTerms, run_seed: bytes) -> LineTerms:
    """With what lines are read: the service is called by its name, or by that of its workload."""
    models = (form.name, sold.name.decode("utf-8", "replace"))
    return LineTerms(form, models, wish.cost_max, sold.tokens_max, wish.options, run_seed)


def room_of(wish: Wish, sold: ServiceTerms, price_max: int) -> UnitRoom:
    """What a unit of the service may hold, if `price_max` grains are the most that devices usually can answer for."""
    if sold.pace:
        longest = (UNIT_LEASE_MAX - sold.lease) * sold.pace * TOKEN // LEASE_SLACK
        price_max = min(price_max, wish.rate_max * longest // PRICED)
    return UnitRoom(
        wish.rate_max,
        sold.input_share,
        price_max,
        requests_max=wish.batch,
        bytes_max=INPUT_BYTES_MAX,
        tokens_out_max=INPUT_BYTES_MAX // TOKEN_BYTES,
    )


def identity(genesis: bytes, account: bytes, wish: Wish, wanted: FileWish, digest: bytes) -> tuple[bytes, ...]:
    """What makes two runs the same: chain, account, what is wished for, the file, and where its answers go."""
    places = (str(path.absolute()).encode() for path in (wanted.output, wanted.errors))
    return genesis, account, repr(wish).encode(), repr(wanted.form).encode(), digest, *places


def new_plan(read: ReadRequests, wish: Wish, wanted: FileWish, terms: LineTerms, room: UnitRoom) -> RunPlan:
    """How a file that nobody began yet is split; PostError where nothing is left of it."""
    if not read.lines:
        first = read.refused[0]
        raise PostError(f"no line of the file is a request; line {first.number}: {first.message}")
    units = split([load_of(line.number, terms.request(line), terms.form) for line in read.lines], room)
    if len(units) > UNITS_MAX:
        raise PostError(f"the file comes to {len(units):,} units, and at most {UNITS_MAX:,} are posted: split it")
    return RunPlan(
        file=read.digest.hex(),
        form=read.form.value,
        endpoint=read.endpoint,
        run_seed=terms.run_seed.hex(),
        settings={"wish": repr(wish)},
        created_at=int(time.time()),
        output=str(wanted.output),
        errors=str(wanted.errors),
        lines_refused=len(read.refused),
        units=[(unit.first, unit.count) for unit in units],
    )


@dataclass(frozen=True, slots=True)
class FilePlan:
    """A file with its units, as they are or will be on the chain."""

    read: ReadRequests
    terms: LineTerms
    plan: RunPlan
    record_of: tuple[bytes, ...]
    """What the record of the run is named by."""

    @property
    def postings_of(self) -> tuple[bytes, ...]:
        """What the record of its postings is named by."""
        return b"units of a file", *self.record_of

    def lines_of(self, unit: int) -> Sequence[BatchLine]:
        """What a unit asks, in order."""
        first, count = self.plan.units[unit]
        return self.read.lines[first : first + count]

    def wishes(self, wish: Wish, sold: ServiceTerms) -> list[UnitWish]:
        """Every unit as it is posted."""
        return [_wish_of([self.terms.request(line) for line in self.lines_of(unit)], self.terms.form, wish, sold)
                for unit in range(len(self.plan.units))]  # fmt: skip

    def names(self) -> list[Prompt]:
        """What stands for each unit."""
        return [_name_of(self.lines_of(unit)) for unit in range(len(self.plan.units))]


async def plan_file(
    genesis: bytes, account: bytes, wish: Wish, wanted: FileWish, form: WorkloadForm, sold: ServiceTerms,
    price_max: Callable[[], Awaitable[int]],
) -> FilePlan:  # fmt: skip
    """Read a file; it is split as its record says, or anew by what devices can answer for, asked for only then."""
    terms = line_terms(form, wish, sold, os.urandom(SEED_BYTES))
    read = read_file(wanted, terms)
    named = identity(genesis, account, wish, wanted, read.digest)
    with BatchRecord.open(wanted.records, *named) as record:
        plan = record.plan
    if plan is None:
        room = room_of(wish, sold, await price_max())
        return FilePlan(read, terms, new_plan(read, wish, wanted, terms, room), named)
    terms = replace(terms, run_seed=bytes.fromhex(plan.run_seed))
    again = read_file(wanted, terms)
    if again.digest != read.digest:
        raise PostError("the file changed while it was read: leave it as it is until its answers are written")
    return FilePlan(again, terms, plan, named)


def _wish_of(requests: Sequence[bytes], form: WorkloadForm, wish: Wish, sold: ServiceTerms) -> UnitWish:
    request = requests[0] if len(requests) == 1 else encode_requests(requests)
    tokens_in = sum(form.cost_in(each) for each in requests)
    tokens_max = sum(form.cost_asked(each) for each in requests)
    price = price_of(wish.rate_max, work_of(sold.input_share, tokens_in, tokens_max))
    return UnitWish(request, len(requests), tokens_in, tokens_max, price)


def _name_of(lines: Sequence[BatchLine]) -> Prompt:
    first, last = lines[0], lines[-1]
    text = (
        f"line {first.number}" if len(lines) == 1 else f"{len(lines)} requests, lines {first.number} to {last.number}"
    )
    return Prompt(first.number, text)
