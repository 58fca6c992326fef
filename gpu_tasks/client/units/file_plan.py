"""A file of requests before anything is posted: read, split into units, and what its record already says of it.

Always: a file that is taken up again becomes the same units with the same requests, or none at all, and needs nothing
of the chain for that: its service may be gone by then.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Self

from gpu_tasks.batches.requests import PRICED, TOKEN, encode_requests, price_of, work_of
from gpu_tasks.client.offers.listing import USUAL
from gpu_tasks.client.units.line_reader import BatchReader, LineTerms, RawPlace, digest_of, read_again
from gpu_tasks.client.units.lines import BatchLine, FileForm, LineError, LineLoad, UnitRoom, load_of, split
from gpu_tasks.client.units.posting import AskedUnit, PostError, Prompt, Wish
from gpu_tasks.client.units.run_record import INPUT, WINDOW, BatchRecord, RunPlan, journal_of
from gpu_tasks.data.unit_input import INPUT_BYTES_MAX
from gpu_tasks.market.inference.services import COMMIT_WINDOW_SLACK, UNIT_COMMIT_WINDOW_MAX, ServiceTerms
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.registry import form_named

SEED_BYTES = 32
UNITS_MAX = 4_096
"""Of one file."""
ACCOUNT, WISH, FORM = "account", "wish", "form"
WORKLOAD, MODEL, TOKENS_MAX, INPUT_SHARE = "workload", "model", "tokens_max", "input_share"
"""Names of a plan's settings: who asks what, and what the service was when the run began."""

CHANGED = "the file changed while it was read: leave it as it is until its answers are written"
Sold = tuple[WorkloadForm, ServiceTerms]


class WrongAnswerError(Exception):
    """An answer that was paid for and is wrong; the text says why."""


ReadAnswer = Callable[[BatchLine, bytes], Awaitable[str]]
"""Returns the text of a line's output; WrongAnswerError where it does not count."""


# The requests of a file: where each stands and what it weighs is kept, what it says is read when it is needed.
#
# Always: memory grows with the number of lines, by a few hundred bytes each, and not with what is in them; what is read
# once more is what was read at first, or the file is refused as changed.
@dataclass(frozen=True, slots=True)
class FileRequests:
    """All lines of a file."""

    stream: BinaryIO
    form: FileForm
    endpoint: str | None
    digest: bytes
    loads: tuple[LineLoad, ...]
    """Of the lines that ask something, in their order."""
    refused: tuple[LineError, ...]
    _places: tuple[RawPlace, ...]

    @classmethod
    def read(cls, stream: BinaryIO, terms: LineTerms, form: FileForm | None) -> Self:
        """The whole file, from its beginning; BatchFileError."""
        stream.seek(0)
        reader = BatchReader(stream, terms, form)
        loads, places, refused = [], [], []
        for line in reader:
            if isinstance(line, BatchLine):
                loads.append(load_of(line.number, terms.request(line), terms.form))
                places.append(reader.place)
            else:
                refused.append(line)
        return cls(stream, reader.form, reader.endpoint, reader.digest, tuple(loads), tuple(refused), tuple(places))

    def lines(self, first: int, count: int, terms: LineTerms) -> list[BatchLine]:
        """So many lines from a place on, refused ones not counted; BatchFileError where the file was changed."""
        found: list[BatchLine] = []
        for place in self._places[first : first + count]:
            match read_again(self.stream, place, self.form, self.endpoint, terms):
                case BatchLine() as line:
                    found.append(line)
                case _:
                    raise AssertionError("the same bytes ask the same")
        return found


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
    source: str = ""
    """Where the file lies; nothing for what came through a pipe."""
    window: str | None = None
    """How long the run may take; None: as its record says, else as long as it takes."""
    read: ReadAnswer | None = None
    """How an answer is written, and whether it counts; None: as the workload shows it."""


def terms_of(settings: Mapping[str, str], run_seed: bytes) -> LineTerms:
    """With what lines are read: the service is called by its name, or by that of its workload."""
    wish, models = wish_of(settings), (settings[WORKLOAD], settings[MODEL])
    form = form_named(settings[WORKLOAD])
    return LineTerms(form, models, wish.cost_max, int(settings[TOKENS_MAX]), wish.options, run_seed)


def wish_of(settings: Mapping[str, str]) -> Wish:
    """What was asked of all lines."""
    return Wish(**json.loads(settings[WISH]))


def settings_of(account: bytes, wish: Wish, wanted: FileWish, form: WorkloadForm, sold: ServiceTerms) -> dict[str, str]:
    """What a run keeps, so that it can be taken up whatever became of the service and of the command line."""
    return {
        ACCOUNT: account.hex(),
        WISH: json.dumps(asdict(wish)),
        FORM: "" if wanted.form is None else wanted.form.value,
        INPUT: wanted.source,
        WINDOW: wanted.window or "",
        WORKLOAD: form.name,
        MODEL: sold.name.decode("utf-8", "replace"),
        TOKENS_MAX: str(sold.tokens_max),
        INPUT_SHARE: str(sold.input_share),
    }


def room_of(wish: Wish, sold: ServiceTerms, price_max: int) -> UnitRoom:
    """What a unit of the service may hold, if `price_max` grains are the most that devices usually can answer for."""
    if sold.pace:
        longest = (UNIT_COMMIT_WINDOW_MAX - sold.commit_window) * sold.pace * TOKEN // COMMIT_WINDOW_SLACK
        price_max = min(price_max, wish.rate_max * longest // PRICED)
    return UnitRoom(wish.rate_max, sold.input_share, price_max, requests_max=wish.batch, bytes_max=INPUT_BYTES_MAX)


def identity(
    genesis: bytes, account: bytes, wish: Wish, form: FileForm | None, digest: bytes, results: Sequence[Path]
) -> tuple[bytes, ...]:
    """What makes two runs the same: chain, account, what is wished for, the file, and where its answers go."""
    places = (str(path.absolute()).encode() for path in results)
    return genesis, account, repr(wish).encode(), repr(form).encode(), digest, *places


def new_plan(
    read: FileRequests, wanted: FileWish, settings: Mapping[str, str], run_seed: bytes, room: UnitRoom
) -> RunPlan:
    """How a file that nobody began yet is split; PostError where nothing is left of it."""
    if not read.loads:
        first = read.refused[0]
        raise PostError(f"no line of the file is a request; line {first.number}: {first.message}")
    units = split(read.loads, room)
    if len(units) > UNITS_MAX:
        raise PostError(f"the file comes to {len(units):,} units, and at most {UNITS_MAX:,} are posted: split it")
    return RunPlan(
        file=read.digest.hex(),
        form=read.form.value,
        endpoint=read.endpoint,
        run_seed=run_seed.hex(),
        settings=settings,
        created_at=int(time.time()),
        output=str(wanted.output.absolute()),
        errors=str(wanted.errors.absolute()),
        lines_refused=len(read.refused),
        units=[(unit.first, unit.count) for unit in units],
    )


@dataclass(frozen=True, slots=True)
class FilePlan:
    """A file with its units, as they are or will be on the chain."""

    read: FileRequests
    terms: LineTerms
    plan: RunPlan
    record_of: tuple[bytes, ...]
    """What the record of the run is named by."""

    @property
    def postings_of(self) -> tuple[bytes, ...]:
        """What the record of its postings is named by."""
        return postings_of(self.record_of)

    def lines_of(self, unit: int) -> list[BatchLine]:
        """What a unit asks, in order."""
        first, count = self.plan.units[unit]
        return self.read.lines(first, count, self.terms)

    def units(self) -> list[AskedUnit]:
        """Return every unit as it is posted."""
        return [self._unit(place) for place in range(len(self.plan.units))]

    def _unit(self, place: int) -> AskedUnit:
        first, count = self.plan.units[place]
        loads, wish = self.read.loads[first : first + count], wish_of(self.plan.settings)
        tokens_in, tokens_max = sum(load.tokens_in for load in loads), sum(load.tokens_out for load in loads)
        price = price_of(wish.rate_max, work_of(int(self.plan.settings[INPUT_SHARE]), tokens_in, tokens_max))
        size = sum(load.request_bytes for load in loads)
        return AskedUnit(partial(self._requests_of, place), size, count, tokens_in, tokens_max, price)

    def _requests_of(self, place: int) -> bytes:
        requests = [self.terms.request(line) for line in self.lines_of(place)]
        return requests[0] if len(requests) == 1 else encode_requests(requests)

    def names(self) -> list[Prompt]:
        """What stands for each unit."""
        return [self._name_of(first, count) for first, count in self.plan.units]

    def _name_of(self, first: int, count: int) -> Prompt:
        number, last = self.read.loads[first].number, self.read.loads[first + count - 1].number
        return Prompt(number, f"line {number}" if count == 1 else f"{count} requests, lines {number} to {last}")


def postings_of(record_of: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """What the record of a run's postings is named by: it has a lock of its own."""
    return b"units of a file", *record_of


async def plan_file(
    genesis: bytes, account: bytes, wish: Wish, wanted: FileWish, sold: Callable[[], Awaitable[Sold]],
    price_max: Callable[[], Awaitable[int]],
) -> FilePlan:  # fmt: skip
    """Read a file; it is split as its record says, or anew by what the service takes and devices can answer for.

    The chain is asked about these only then.
    """
    wanted.stream.seek(0)
    digest = digest_of(wanted.stream)
    named = identity(genesis, account, wish, wanted.form, digest, (wanted.output, wanted.errors))
    plan = _recorded(wish, wanted, named)
    if plan is None:
        form, service = await sold()
        settings, seed = settings_of(account, wish, wanted, form, service), os.urandom(SEED_BYTES)
        terms = terms_of(settings, seed)
        read = FileRequests.read(wanted.stream, terms, wanted.form)
        plan = new_plan(read, wanted, settings, seed, room_of(wish, service, await price_max()))
    else:
        terms = terms_of(plan.settings, bytes.fromhex(plan.run_seed))
        read = FileRequests.read(wanted.stream, terms, wanted.form)
        if len(read.loads) != sum(count for _, count in plan.units):
            raise PostError("this version reads the file otherwise than the one that posted it: use that one")
    if read.digest != digest:
        raise PostError(CHANGED)
    return FilePlan(read, terms, plan, named)


def _recorded(wish: Wish, wanted: FileWish, named: tuple[bytes, ...]) -> RunPlan | None:
    """The plan of a run that was begun; PostError where another completion window or class of devices is named."""
    path = journal_of(wanted.records, *named)
    plan = BatchRecord.look(path).plan if path.exists() else None
    if plan is not None:
        window, kind = plan.settings.get(WINDOW, ""), wish_of(plan.settings).device_class
        if wanted.window not in (None, window):
            raise _begun_otherwise(f"--completion-window {window}" if window else "no --completion-window")
        if wish.device_class not in (USUAL, kind):
            raise _begun_otherwise(f"--class {kind}")
    return plan


def _begun_otherwise(how: str) -> PostError:
    return PostError(
        f"this run was begun with {how}, which stays: repeat the command so, or name another file of results for "
        "another run"
    )
