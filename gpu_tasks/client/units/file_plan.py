"""A file of requests before any post: read, split into units, and matched with the record of an earlier run.

Invariant: a resumed file becomes the same units with the same requests, or none. It needs no chain state for that,
because its service may be closed by then.
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
from gpu_tasks.client.buyer import Buyer
from gpu_tasks.client.offers.listing import USUAL, form_named
from gpu_tasks.client.units.line_reader import BatchReader, LineTerms, RawPlace, digest_of, read_again
from gpu_tasks.client.units.lines import BatchLine, FileForm, LineError, LineLoad, UnitRoom, load_of, split
from gpu_tasks.client.units.posting import AskedUnit, PostError, Prompt, Wish
from gpu_tasks.client.units.run_record import INPUT, WINDOW, BatchRecord, RunPlan
from gpu_tasks.data.unit_input import INPUT_BYTES_MAX
from gpu_tasks.market.claims.collateral import CLAIM_POINTS, PPM, RATES_PPM
from gpu_tasks.market.inference.services import COMMIT_WINDOW_SLACK, UNIT_COMMIT_WINDOW_MAX, ServiceTerms
from gpu_tasks.workloads.form import WorkloadForm
from wallet.errors import CodedError

SEED_BYTES = 32
UNITS_MAX = 4_096
"""The most units of one file."""
ACCOUNT, WISH, FORM = "account", "wish", "form"
BUDGET, SIGNER, OWNER = "budget", "signer", "owner"
WORKLOAD, MODEL, MODEL_ID = "workload", "model", "model_id"
TOKENS_MAX, INPUT_SHARE = "tokens_max", "input_share"
"""Names of a plan's settings: the account, the budget and its key, the wish, and the service as it was when
the run began."""

CHEAP_BATCH = CLAIM_POINTS * PPM // RATES_PPM[0]
"""A unit of so many requests is always checked, so its racers need less collateral."""
CHANGED = "the file changed while it was read: leave it as it is until its answers are written"
Sold = tuple[WorkloadForm, ServiceTerms]


class WrongAnswerError(CodedError):
    """A paid answer is wrong. The text gives the reason."""


ReadAnswer = Callable[[BatchLine, bytes], Awaitable[str]]
"""A function that returns the text of a line's output, or raises WrongAnswerError for a wrong one."""


@dataclass(frozen=True, slots=True)
class FileRequests:
    """All lines of a file: the place and load of each. Contents are read when needed.

    Invariant: memory grows by a few hundred bytes for each line, of any length. A second reading returns the same
    bytes, or the file is refused as changed.
    """

    stream: BinaryIO
    form: FileForm
    endpoint: str | None
    digest: bytes
    loads: tuple[LineLoad, ...]
    """The loads of the valid lines, in order."""
    refused: tuple[LineError, ...]
    _places: tuple[RawPlace, ...]

    @classmethod
    def read(cls, stream: BinaryIO, terms: LineTerms, file_form: FileForm | None) -> Self:
        """Read the whole file from its beginning. Raise BatchFileError if it is no file of requests."""
        stream.seek(0)
        reader = BatchReader(stream, terms, file_form)
        loads, places, refused = [], [], []
        for line in reader:
            if isinstance(line, BatchLine):
                loads.append(load_of(line.number, terms.request(line), terms.form))
                places.append(reader.place)
            else:
                refused.append(line)
        return cls(stream, reader.form, reader.endpoint, reader.digest, tuple(loads), tuple(refused), tuple(places))

    def lines(self, first: int, count: int, terms: LineTerms) -> list[BatchLine]:
        """Return `count` valid lines from a place on. Raise BatchFileError if the file was changed."""
        batch_lines: list[BatchLine] = []
        for place in self._places[first : first + count]:
            match read_again(self.stream, place, self.form, self.endpoint, terms):
                case BatchLine() as line:
                    batch_lines.append(line)
                case _:
                    raise AssertionError("the same bytes ask the same")
        return batch_lines


@dataclass(frozen=True, slots=True)
class FileWish:
    """The file, its form, and the paths of its answers and records."""

    stream: BinaryIO
    form: FileForm | None
    """None: the form of the first line."""
    output: Path
    errors: Path
    records: Path
    """The folder of run records."""
    source: str = ""
    """The file's path. Empty for a pipe."""
    window: str | None = None
    """The time that the run may take. None: the recorded one, else unlimited."""
    makes_folder: bool = False
    """True if the command makes the folder of the answers itself, before it posts. A dry run makes none."""
    read: ReadAnswer | None = None
    """A function that checks an answer and returns its text. None: the workload's own text."""


def terms_of(settings: Mapping[str, str], run_seed: bytes) -> LineTerms:
    """Return the terms for reading lines. A line may name the model by the service's name or its workload's.

    Raise ServiceError if this machine no longer has the model.
    """
    wish, models = wish_of(settings), (settings[WORKLOAD], settings[MODEL])
    workload, _, model = settings[WORKLOAD].partition(":")
    # By its id: several models of this machine can have one name.
    workload_form = form_named(f"{workload}:{settings[MODEL_ID]}" if model else workload)
    return LineTerms(workload_form, models, wish.cost_max, int(settings[TOKENS_MAX]), wish.options, run_seed)


def wish_of(settings: Mapping[str, str]) -> Wish:
    """Return the customer's wish for all lines."""
    return Wish(**json.loads(settings[WISH]))


def settings_of(
    buyer: Buyer, wish: Wish, file_wish: FileWish, workload_form: WorkloadForm, service_terms: ServiceTerms
) -> dict[str, str]:
    """Return the settings that let a run resume without the service or the command line."""
    return {
        **settings_of_buyer(buyer),
        WISH: json.dumps(asdict(wish)),
        FORM: "" if file_wish.form is None else file_wish.form.value,
        INPUT: file_wish.source,
        WINDOW: file_wish.window or "",
        WORKLOAD: workload_form.name,
        MODEL_ID: workload_form.model_id.hex(),
        # The owner of a service chooses its name, which may be no UTF-8.
        MODEL: service_terms.name.decode("utf-8", "replace"),
        TOKENS_MAX: str(service_terms.tokens_max),
        INPUT_SHARE: str(service_terms.input_share),
    }


def settings_of_buyer(buyer: Buyer) -> dict[str, str]:
    """Return the settings of a buyer. Those of a key alone name its account."""
    budget = (
        {}
        if buyer.budget is None
        else {BUDGET: buyer.budget.hex(), SIGNER: buyer.signer.hex(), OWNER: buyer.principal.hex()}
    )
    return {ACCOUNT: buyer.customer.hex(), **budget}


def buyer_of(settings: Mapping[str, str]) -> Buyer:
    """Return the buyer of a run."""
    customer = bytes.fromhex(settings[ACCOUNT])
    if BUDGET not in settings:
        return Buyer.alone(customer)
    signer, budget, owner = (bytes.fromhex(settings[name]) for name in (SIGNER, BUDGET, OWNER))
    return Buyer(signer, customer, budget, owner)


def room_of(wish: Wish, service_terms: ServiceTerms, price_max: int) -> UnitRoom:
    """Return the limits of a unit. `price_max`, in grains, is the collateral that devices usually can lock."""
    if service_terms.pace:
        # A commit window grows with the unit's work and has a limit, so a slow pace limits the work too.
        longest = (
            (UNIT_COMMIT_WINDOW_MAX - service_terms.commit_window) * service_terms.pace * TOKEN // COMMIT_WINDOW_SLACK
        )
        price_max = min(price_max, wish.rate_max * longest // PRICED)
    return UnitRoom(
        wish.rate_max, service_terms.input_share, price_max, requests_max=wish.batch, bytes_max=INPUT_BYTES_MAX
    )


def identity(
    genesis: bytes, buyer: Buyer, wish: Wish, file_form: FileForm | None, digest: bytes, results: Sequence[Path]
) -> tuple[bytes, ...]:
    """Return the identity of a run: chain, buyer, wish, file, and the paths of its answers."""
    result_paths = (str(path.absolute()).encode() for path in results)
    return genesis, buyer.name, repr(wish).encode(), repr(file_form).encode(), digest, *result_paths


def new_plan(
    file_requests: FileRequests, file_wish: FileWish, settings: Mapping[str, str], run_seed: bytes, room: UnitRoom
) -> RunPlan:
    """Return the plan of a file without an earlier run.

    Raise PostError if no request is left or there are too many units.
    """
    if not file_requests.loads:
        first = file_requests.refused[0]
        raise PostError(f"no line of the file is a request. Line {first.number}: {first.message}", code="no_requests")
    units = split(file_requests.loads, room)
    if len(units) > UNITS_MAX:
        raise PostError(
            f"the file comes to {len(units):,} units, and at most {UNITS_MAX:,} are posted. Split it",
            code="too_many_units",
        )
    return RunPlan(
        file=file_requests.digest.hex(),
        form=file_requests.form.value,
        endpoint=file_requests.endpoint,
        run_seed=run_seed.hex(),
        settings=settings,
        created_at=int(time.time()),
        output=str(file_wish.output.absolute()),
        errors=str(file_wish.errors.absolute()),
        lines_refused=len(file_requests.refused),
        units=[(unit.first, unit.count) for unit in units],
    )


@dataclass(frozen=True, slots=True)
class FilePlan:
    """A file with its units, as they are or will be on the chain."""

    read: FileRequests
    terms: LineTerms
    plan: RunPlan
    record_of: tuple[bytes, ...]
    """The identity that names the record of the run."""
    buyer: Buyer

    @property
    def postings_of(self) -> tuple[bytes, ...]:
        """The identity that names the record of its postings."""
        return postings_of(self.record_of)

    def lines_of(self, unit: int) -> list[BatchLine]:
        """Return the requests of a unit, in order."""
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
        """Return the label of each unit."""
        return [self._name_of(first, count) for first, count in self.plan.units]

    def _name_of(self, first: int, count: int) -> Prompt:
        number, last = self.read.loads[first].number, self.read.loads[first + count - 1].number
        return Prompt(number, f"line {number}" if count == 1 else f"{count} requests, lines {number} to {last}")


def postings_of(record_of: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the identity of a run's postings. It differs from the run's, because both records have locks."""
    return b"units of a file", *record_of


async def plan_file(
    genesis: bytes, buyer: Buyer, wish: Wish, file_wish: FileWish, sold_terms: Callable[[], Awaitable[Sold]],
    price_max: Callable[[ServiceTerms, int], Awaitable[int]],
) -> FilePlan:  # fmt: skip
    """Read a file and split it as its record says, or else by the limits of the service and of devices.

    `price_max` returns the price of a unit with so many requests or more that devices usually can secure. The chain is
    asked about these limits only without a record.
    """
    file_wish.stream.seek(0)
    # The digest names the record, and the record tells how to split the file. So the file is read twice.
    digest = digest_of(file_wish.stream)
    run_identity = identity(genesis, buyer, wish, file_wish.form, digest, (file_wish.output, file_wish.errors))
    plan = _recorded_plan(wish, file_wish, run_identity)
    if plan is None:
        form, service = await sold_terms()
        settings, seed = settings_of(buyer, wish, file_wish, form, service), os.urandom(SEED_BYTES)
        terms = terms_of(settings, seed)
        file_requests = FileRequests.read(file_wish.stream, terms, file_wish.form)
        plan = new_plan(
            file_requests, file_wish, settings, seed, room_of(wish, service, await price_max(service, CHEAP_BATCH))
        )
        if any(count < CHEAP_BATCH for _, count in plan.units):
            plan = new_plan(
                file_requests, file_wish, settings, seed, room_of(wish, service, await price_max(service, 1))
            )
    else:
        terms = terms_of(plan.settings, bytes.fromhex(plan.run_seed))
        file_requests = FileRequests.read(file_wish.stream, terms, file_wish.form)
        if len(file_requests.loads) != sum(count for _, count in plan.units):
            raise PostError(
                "this version of ogpu reads the file differently from the version that posted it. Use that version",
                code="other_version",
            )
    # An editor may have saved the file between both readings.
    if file_requests.digest != digest:
        raise PostError(CHANGED, code="file_changed")
    return FilePlan(file_requests, terms, plan, run_identity, buyer)


def _recorded_plan(wish: Wish, file_wish: FileWish, run_identity: tuple[bytes, ...]) -> RunPlan | None:
    """Return the plan of an earlier run. Raise PostError if the wish names another completion window or class."""
    record = BatchRecord.look(file_wish.records, *run_identity)
    plan = None if record is None else record.plan
    if plan is not None:
        window, recorded_class = plan.settings.get(WINDOW, ""), wish_of(plan.settings).device_class
        # Units that are on the chain keep their settings, so a resumed run cannot have others.
        if file_wish.window not in (None, window):
            raise _begun_otherwise(f"--completion-window {window}" if window else "no --completion-window")
        if wish.device_class not in (USUAL, recorded_class):
            raise _begun_otherwise(f"--class {recorded_class}")
    return plan


def _begun_otherwise(how: str) -> PostError:
    return PostError(
        f"this run was begun with {how}, which stays: repeat the command so, or name another file of results for "
        "another run",
        code="other_settings",
    )
