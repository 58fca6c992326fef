"""`ogpu post FILE --out RESULTS`: a file of requests is posted, followed, and answered in the form in which it asks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import click
from rich.progress import Progress as ProgressBar

from gpu_tasks.client.batches.batch_object import BatchState, RequestCounts, status_of
from gpu_tasks.client.batches.lines import FileForm
from gpu_tasks.client.batches.progress import BatchProgress
from gpu_tasks.client.batches.record import BatchRecord
from gpu_tasks.client.batches.result_files import ResultFiles
from gpu_tasks.client.batches.writing import LineWriter
from gpu_tasks.client.commands.posting.once import Manner, Selling, post_once, show_and_ask
from gpu_tasks.client.commands.units import counted
from gpu_tasks.client.file_runs.answers import AnswersSoFar, FileAnswers
from gpu_tasks.client.file_runs.plan import FilePlan, FileWish, plan_file
from gpu_tasks.client.funds import require, spendable
from gpu_tasks.client.offers import form_of, open_service, require_judges, require_owners, usual_price
from gpu_tasks.client.posting import PostingCost, UnitWish, Wish, check_terms, cost_of
from gpu_tasks.client.posting_record import PostingRecord
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.output import Grains
from wallet.session import CallFailedError, WalletSession


@dataclass(frozen=True, slots=True)
class _Planned:
    """A file as it will be posted: its units, the cost of those that are missing, and what the account can spend."""

    file: FilePlan
    units: list[UnitWish]
    cost: PostingCost
    available: int


def answer_file(session: WalletSession, key_text: str, wish: Wish, wanted: FileWish, manner: Manner) -> None:
    """Post what is not posted of a file, and write answers until all of its units have ended."""
    planned: list[_Planned] = []

    async def look(client: ChainClient) -> None:
        planned.append(await _plan(client, session.payer(key_text).account, session, key_text, wish, wanted, manner))

    async def send(client: ChainClient) -> None:
        await _run(session, client, session.key(key_text), planned[0], wish, wanted, manner)

    session.run(look)
    plan = planned[0]
    show_and_ask(session.output, plan.cost, plan.available, is_asked=manner.asks, is_shown=manner.dry_run)
    if not manner.dry_run:
        # A second connection: the first would be closed as dead while a person takes time to answer.
        session.run(send)


async def _plan(
    client: ChainClient, account: bytes, session: WalletSession, key_text: str, wish: Wish, wanted: FileWish,
    manner: Manner,
) -> _Planned:  # fmt: skip
    service = await open_service(client, wish.service)
    form = form_of(wish.service, service)
    check_terms(service, form, wish)
    price_max = partial(usual_price, client, wish.service, account)
    file = await plan_file(client.genesis_hash, account, wish, wanted, form, service.terms, price_max)
    units = file.wishes(wish, service.terms)
    with BatchRecord.open(wanted.records, *file.record_of) as record:
        known = set(record.posted) | PostingRecord.peek(wanted.records, *file.postings_of)
    missing = [unit for place, unit in enumerate(units) if place not in known]
    if missing:
        await require_judges(client, wish.service, account, max(unit.price_max for unit in missing))
        if not manner.anyway:
            await require_owners(client, wish.service, account, racers=wish.racers, rate_max=wish.rate_max)
    cost = await cost_of(client, session.payer(key_text), wish.service, wish.racers, missing, manner.tip)
    available = await spendable(client, account)
    if not manner.dry_run:
        require(available, cost.needed, f"posting {counted(cost.units)}")
    return _Planned(file, units, cost, available)


async def _run(
    session: WalletSession, client: ChainClient, key: Keypair, planned: _Planned, wish: Wish, wanted: FileWish,
    manner: Manner,
) -> None:  # fmt: skip
    file = planned.file
    with BatchRecord.open(wanted.records, *file.record_of) as record, _files(record, wanted) as files:
        if record.plan is None:
            record.begin(file.plan)
        writer = LineWriter(FileForm(file.plan.form), file.plan.endpoint, file.terms.form.name, file.plan.created_at)
        if not record.written:
            files.add([], [writer.refused(error) for error in file.read.refused])
        if record.to_post():
            await _post(session, client, key, record, planned, wish, wanted, manner)
        with ProgressBar(console=session.output.console, disable=session.output.as_json, transient=True) as bar:
            total, before, began_at = len(file.read.lines), _done(record), int(time.time())
            task = bar.add_task("answers", total=total, completed=before)

            def tell(found: AnswersSoFar) -> None:
                progress = BatchProgress(
                    requests=total,
                    answered=before + found.answered,
                    failed=found.failed,
                    tokens=found.tokens,
                    units_ended=found.units,
                    began_at=began_at,
                    done_before=before,
                    now=int(time.time()),
                )
                bar.update(task, completed=progress.done, description=progress.sentence(file.terms.form.cost_unit))

            answers = FileAnswers(client, key, file, record, files, writer, tell)
            left = await answers.follow()
        _show(session, record, file, wanted, answers.found, left)


def _batch_object(file: FilePlan, wanted: FileWish, counts: RequestCounts, left: Sequence[int]) -> BatchState:
    digest = file.read.digest.hex()
    return BatchState(
        batch_id=f"batch_{digest[:24]}",
        endpoint=file.plan.endpoint or "",
        status=status_of(counts, None, is_running=False, are_files_whole=not left),
        created_at=file.plan.created_at,
        input_file=digest,
        output_file=str(wanted.output),
        error_file=str(wanted.errors),
        counts=counts,
        completion_window="",
        refused=file.read.refused,
    )


def _files(record: BatchRecord, wanted: FileWish) -> ResultFiles:
    if record.plan is None:
        return ResultFiles.create(wanted.output, wanted.errors)
    return ResultFiles.take_up(wanted.output, wanted.errors, record.ends)


async def _post(
    session: WalletSession, client: ChainClient, key: Keypair, record: BatchRecord, planned: _Planned, wish: Wish,
    wanted: FileWish, manner: Manner,
) -> None:  # fmt: skip
    """All units are in final blocks, and the record knows each, before what was sent is forgotten."""
    file, selling = planned.file, Selling(wish.service, wish.racers, manner.tip)
    with PostingRecord.open(wanted.records, *file.postings_of) as postings:
        posted = await post_once(session.output, client, postings, key, selling, planned.units, file.names())
        for place, unit in enumerate(posted):
            if place not in record.posted:
                record.note_posted(place, unit.unit.hex())
        postings.forget()


def _done(record: BatchRecord) -> int:
    return sum(answered + failed for answered, failed in record.written.values())


def _show(
    session: WalletSession,
    record: BatchRecord,
    file: FilePlan,
    wanted: FileWish,
    found: AnswersSoFar,
    left: Sequence[int],
) -> None:
    """What came of the file, to programs in OpenAI's words where it asks in these; CallFailedError for what is left."""
    answered = sum(answered for answered, _ in record.written.values())
    failed = sum(failed for _, failed in record.written.values())
    refused = len(file.read.refused)
    facts = {
        "requests": len(file.read.lines) + refused,
        "units": len(file.plan.units),
        "answered": answered,
        "failed": failed,
        "refused": refused,
        "tokens_now": found.tokens,
        "paid_now": Grains(found.paid),
        "results": str(wanted.output),
        "errors": str(wanted.errors),
    }
    if session.output.as_json and file.read.form is FileForm.OPENAI:
        counts = RequestCounts(len(file.read.lines) + refused, answered, failed + refused)
        click.echo(_batch_object(file, wanted, counts, left).json())
    else:
        session.output.facts(facts)
    if left:
        raise CallFailedError(
            f"the answers of {counted(len(left))} are paid for, and no store serves them now: repeat the same command "
            "later, which asks for these alone"
        )
    if failed or refused:
        raise CallFailedError(f"{failed + refused:,} requests have no answer: {wanted.errors} says why")
