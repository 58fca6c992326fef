"""Purchases of units: priced, confirmed and posted once; and files of requests, followed until each has an answer.

Invariant: posted units are followed whatever happens to their service. Only missing units need an open service.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import click
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as ProgressBar
from rich.table import Column

from cli import calls
from cli.output import Output
from cli.session import SENT_FOLDER, CallFailedError, WalletSession, note
from gpu_tasks.client.buyer import Buyer, Outlay, buyer_for, require_caps
from gpu_tasks.client.commands.calls import other_command, this_command, told_nothing_was_sent, told_when_interrupted
from gpu_tasks.client.offers.listing import (
    ServiceError,
    form_of,
    open_service,
    require_checkers,
    require_owners,
    usual_price,
)
from gpu_tasks.client.offers.outlook import require, spendable
from gpu_tasks.client.spending import note_units
from gpu_tasks.client.units.answers import AnswersSoFar, FileAnswers, LookedBack, RunStop, SendCall, look_back
from gpu_tasks.client.units.costs import Estimate, SpentMoney, UnitSums, estimate_of, refused_facts
from gpu_tasks.client.units.file_plan import FilePlan, FileWish, Sold, plan_file, wish_of
from gpu_tasks.client.units.lines import FileForm
from gpu_tasks.client.units.posting import AskedUnit, PostingCost, Prompt, Sealer, Wish, check_terms, cost_of, parts_of
from gpu_tasks.client.units.posting_once import Posted, PostingRecord, PostingRun, Progress
from gpu_tasks.client.units.result_lines import LineWriter, ResultFiles, require_files
from gpu_tasks.client.units.run_progress import BatchProgress
from gpu_tasks.client.units.run_record import BatchRecord, counts_of, run_id, state_of
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from runtime.frame.call import Call
from wallet.amounts import Grains, counted, format_amount
from wallet.client import ChainClient, Payer
from wallet.keypair import Keypair
from wallet.outbox import SentNotes
from wallet.submission import send_once


@dataclass(frozen=True, slots=True)
class Manner:
    """The options of a purchase: its tip in grains, the steps to skip, and the budget that pays."""

    tip: int
    anyway: bool
    yes: bool
    dry_run: bool
    budget: str | None = None
    """The budget as typed."""


async def post_once(
    session: WalletSession, client: ChainClient, record: PostingRecord, key: Keypair, buyer: Buyer, wish: Wish,
    tip: int, units: Sequence[AskedUnit], prompts: list[Prompt], *, is_over: Callable[[], bool] = lambda: False,
    places: Sequence[int] | None = None, sends: bool = True,
) -> list[Posted]:  # fmt: skip
    """Seal, store and post the units that the record lacks, and return all of them once they are final.

    With `places` post only these. Once `is_over`, or without `sends`, return the units posted until then.
    """
    missing = set(range(len(units)) if places is None else places) - record.recorded
    with ProgressBar(console=session.output.console, disable=session.output.as_json, transient=True) as bar:
        sealing = bar.add_task("sealing and storing inputs", total=len(missing))
        posting = bar.add_task(
            "posting, waiting for finality", total=len(record.parts) + len(parts_of(range(len(missing))))
        )
        progress = Progress(lambda: bar.advance(sealing), lambda: bar.advance(posting), note)
        async with BlobClient(private=market_reads.is_development(client)) as blobs:
            sealer = Sealer(client, blobs, key, wish.service, wish.racers, wish.classes, buyer)
            run = PostingRun(sealer, record, prompts, units, progress, tip)
            posted = await (run.run(is_over, places) if sends else run.settle_alone())
    await note_units(session, client, buyer, wish.service, [each.unit for each in posted])
    return posted


@dataclass(frozen=True, slots=True)
class PricedUnits:
    """The cost of posting units and the account's balance, in grains."""

    buyer: Buyer
    cost: PostingCost
    available: int
    for_fees: int
    """The balance of the key. It is `available` without a budget."""
    estimate: Estimate | None

    def require_money(self) -> None:
        """Raise FundsError if an account has less than the units take."""
        cost, subject = self.cost, f"posting {counted(self.cost.units)}"
        if self.buyer.budget is None:
            require(self.available, cost.needed, subject)
            return
        require(self.available, cost.needed - cost.fees, f"{subject} from the budget")
        require(self.for_fees, cost.fees, f"the transaction fee of {subject}")


async def require_takers(client: ChainClient, account: bytes, wish: Wish, manner: Manner) -> None:
    """Raise ServiceError if too few validators or racers are eligible. `anyway` skips the check of racers."""
    # Not even --anyway posts such units: the chain would refuse them, and the fee would be lost.
    await require_checkers(client, wish.service, account)
    if not manner.anyway:
        await require_owners(
            client, wish.service, account, racers=wish.racers, rate_max=wish.rate_max, device_class=wish.named_class
        )


async def priced(
    client: ChainClient, payer: Payer, buyer: Buyer, wish: Wish, missing: Sequence[AskedUnit], cost_unit: str,
    manner: Manner,
) -> PricedUnits:  # fmt: skip
    """Return the cost of these units.

    Raise BudgetError for units beyond a cap, and FundsError if an account has less and they are to be sent.

    Units that an earlier command sent are not counted: their money is locked already, or the chain will decide.
    """
    cost = await cost_of(client, payer, buyer, wish.service, wish.racers, missing, manner.tip)
    prices = [unit.price_max for unit in missing]
    await require_caps(client, buyer, Outlay(wish.service, prices, cost.of_budget))
    available = await spendable(client, buyer.customer)
    estimate = await estimate_of(client, buyer.principal, wish, missing, cost, cost_unit)
    for_fees = available if buyer.budget is None else await spendable(client, payer.account)
    found = PricedUnits(buyer, cost, available, for_fees, estimate)
    if not manner.dry_run:
        found.require_money()
    return found


def show_and_ask(output: Output, units: PricedUnits, manner: Manner, estimate: Mapping[str, Any] | None = None) -> None:
    """Show the cost and ask a person to confirm. Without a terminal `--yes` is needed.

    `estimate` has the cost with more facts.
    """
    cost, available = units.cost, units.available
    amounts = cost.facts(is_for_programs=output.as_json)
    budget = {} if units.buyer.budget is None else {"budget": units.buyer.budget}
    facts = {
        **budget, **({"units": cost.units, **amounts} if estimate is None else estimate), "spendable": Grains(available)
    }  # fmt: skip
    if manner.dry_run:
        output.facts({**facts, "sent": False})
        units.require_money()
    elif cost.units and not manner.yes:
        calls.require_somebody_to_ask(is_asked=True)
        if not output.as_json:
            output.facts(facts)
        click.confirm(f"Post {counted(cost.units)} for at most {format_amount(cost.most)} oGPU?", abort=True, err=True)


UNITS_PER_DEVICE, UNITS_OPEN_LEAST = 8, 32
"""Units of one file that are open at once. An unmatched unit is refunded in time, so a long file is posted in parts."""
TELL_SECONDS = 60
"""Seconds between two notes of the progress where no bar is visible."""
BAR_WIDTH = 20


@dataclass(frozen=True, slots=True)
class PostedRun:
    """The units of a run, and the name of their posting."""

    named_by: tuple[bytes, ...]
    buyer: Buyer
    wish: Wish
    tip: int
    units: Sequence[AskedUnit]
    names: list[Prompt]


@dataclass(frozen=True, slots=True)
class FollowedFile:
    """The end of following a file: its record, the answers of this command, and answers that no store serves."""

    record: BatchRecord
    found: AnswersSoFar
    left: Sequence[int]
    not_posted: int
    """Units neither posted nor given up, because their service is closed."""
    looked_back: LookedBack
    """Later verdicts on written answers."""


async def follow_file(
    session: WalletSession, client: ChainClient, key: Keypair, file: FilePlan, wanted: FileWish, tip: int, *,
    posts: bool = True, foretold: int | None = None,
) -> FollowedFile:  # fmt: skip
    """Post the missing units, unless `posts` is False, and write answers until all posted units have ended.

    `foretold` is the expected time in seconds.
    """
    with BatchRecord.open(wanted.records, *file.record_of) as record, _files(record, wanted) as files:
        if record.plan is None:
            record.begin(file.plan)
        stop = RunStop(record, sender(session, client, key, tip))
        writer = LineWriter(FileForm(file.plan.form), file.plan.endpoint, file.terms.form.name, file.plan.created_at)
        if not record.written:
            # Until a unit is written, the recorded ends are 0, and each start cuts these lines off.
            files.add([], [writer.refused(error) for error in file.read.refused])
        wish = wish_of(file.plan.settings)
        run = PostedRun(file.postings_of, file.buyer, wish, tip, file.units(), file.names())
        shown = _FollowedBar(session, file, _done(record), foretold)
        answers = FileAnswers(client, key, file, record, files, writer, stop, shown.tell, wanted.read)
        while True:
            at_once = await _units_at_once(client, wish.service)
            room = at_once - len(set(record.to_write()) - answers.unserved)
            await post_units(session, client, key, record, stop, run, room if posts else None)
            wants_more = posts and bool(record.to_post())
            with shown.bar:
                # Half of the units: after all of them the devices would stand idle, and one by one each post would have
                # a fee.
                left = await answers.follow(at_once // 2 if wants_more else 0)
            if not wants_more:
                break
        looked_back = await look_back(client, file, record, files, writer)
        return FollowedFile(record, answers.found, left, len(record.to_post()), looked_back)


async def post_units(
    session: WalletSession, client: ChainClient, key: Keypair, record: BatchRecord, stop: RunStop, run: PostedRun,
    room: int | None = None,
) -> None:  # fmt: skip
    """Post up to `room` more units. The run takes them over from the posting.

    Without `room`, or for a cancelled run, only look for units that earlier commands sent.
    """
    is_stopped = stop.is_due()
    missing = record.to_give_up() if is_stopped else record.to_post()
    sends = room is not None and not is_stopped
    places = missing[: max(0, room or 0)] if sends else []
    if not missing or not (places or PostingRecord.peek(record.outbox, *run.named_by)):
        return
    with PostingRecord.open(record.outbox, *run.named_by) as postings:
        await post_once(
            session, client, postings, key, run.buyer, run.wish, run.tip, run.units, run.names,
            is_over=stop.is_due, places=places, sends=sends,
        )  # fmt: skip
        posted = [
            (place, unit)
            for part in postings.parts
            for place, unit in zip(part.places, part.units, strict=True)
            if place not in record.posted
        ]
        locked = await _sums_of(client, [unit for _, unit in posted])
        # One commit: after a kill either the posting has the units or the run.
        with record.outbox.transaction():
            for (place, unit), sums in zip(posted, locked, strict=True):
                record.note_posted(place, unit, sums)
            postings.forget()


async def _sums_of(client: ChainClient, units: Sequence[str]) -> list[UnitSums]:
    """Return the sums that just posted units lock; unknown for a unit that the chain has already forgotten."""
    ids, spent = [bytes.fromhex(unit) for unit in units], SpentMoney(client)
    found = await market_reads.units(client, ids, await client.finalized())
    return [
        UnitSums(fees=None) if unit is None else replace(await spent.of(unit_id, unit), paid=0, returned=0)
        for unit_id, unit in zip(ids, found, strict=True)
    ]


def sender(session: WalletSession, client: ChainClient, key: Keypair, tip: int) -> SendCall:
    """Return a function that sends cancellations, each once and noted first."""
    notes = SentNotes(session.keyring.folder / SENT_FOLDER, client.genesis_hash)

    async def send(call: Call) -> int:
        outcome = await send_once(client, call, key, notes, note, tip=tip)
        if outcome.error is not None:
            raise CallFailedError(
                f"cancelling units failed in block {outcome.block_number}: {outcome.error}. Repeat the same "
                "command: it posts nothing more, and cancels the waiting units",
                code="cancel_failed",
            )
        return outcome.fee

    return send


def show_end(session: WalletSession, end: FollowedFile, file: FilePlan) -> None:
    """Print the outcome of a file; for programs with OpenAI's form as a batch object."""
    record, looked_back = end.record, end.looked_back
    if looked_back.found_wrong:
        note(
            f"{looked_back.found_wrong:,} answers in {file.plan.output} did not pass their check, and their price was "
            f"refunded. {file.plan.errors} lists them"
        )
    if looked_back.still_checked:
        note(
            f"the payment of {counted(looked_back.still_checked)} waits for a check, which may still refute the "
            "answers. Repeat the same command later to see the end and the cost"
        )
    state, counts, refused = state_of(record, file.read.refused), counts_of(record), len(file.read.refused)
    if session.output.as_json and file.read.form is FileForm.OPENAI:
        click.echo(state.json())
        return
    session.output.facts(
        {
            "run": run_id(record),
            "status": state.status.value,
            "requests": counts.total,
            "units": len(file.plan.units),
            "answered": counts.completed,
            "failed": counts.failed - refused - record.given_up,
            **({record.stopped: record.given_up} if record.stopped else {}),
            "refused": refused,
            "found_wrong": sum(record.refuted.values()),
            "still_checked": looked_back.still_checked,
            "tokens_now": end.found.tokens,
            **record.total.facts(),
            "results": file.plan.output,
            "errors": file.plan.errors,
        }
    )


def require_answers(end: FollowedFile) -> None:
    """Raise CallFailedError for paid answers that no store serves now."""
    if end.left:
        raise CallFailedError(
            f"the answers of {counted(len(end.left))} are paid for, but no store serves them now. Repeat the same "
            "command later: it fetches only these",
            code="answers_unavailable",
        )


async def _units_at_once(client: ChainClient, service: int) -> int:
    """Return how many units of a file are open at a time: enough for all devices, few enough to be taken in time."""
    devices = await market_reads.devices_for(client, service, await client.finalized())
    return max(UNITS_OPEN_LEAST, UNITS_PER_DEVICE * sum(not status.device.is_paused for status in devices))


class _FollowedBar:
    """The progress of a file: a bar, or notes where no bar is visible."""

    def __init__(self, session: WalletSession, file: FilePlan, done_before: int, foretold: int | None) -> None:
        """Start without progress. `with self.bar` shows it."""
        self._output, self._unit = session.output, file.terms.form.cost_unit
        self._total, self._before, self._began_at = len(file.read.loads), done_before, int(time.time())
        self._foretold, self._told_at = foretold, 0
        text = TextColumn("{task.description}", table_column=Column(overflow="fold"))  # wrap the text
        self.bar = ProgressBar(
            BarColumn(BAR_WIDTH), text, console=session.output.console, disable=session.output.as_json, transient=True
        )
        self._task = self.bar.add_task("answers", total=self._total, completed=done_before)

    def tell(self, found: AnswersSoFar, standing: str) -> None:
        """Show the answers so far, and the reason of the wait."""
        progress = BatchProgress(
            requests=self._total,
            answered=self._before + found.answered,
            failed=found.failed,
            given_up=found.given_up,
            tokens=found.tokens,
            units_ended=found.units,
            began_at=self._began_at,
            done_before=self._before,
            now=int(time.time()),
            foretold=self._foretold,
            standing=standing,
        )
        said = progress.sentence(self._unit)
        self.bar.update(self._task, completed=progress.done, description=said)
        if not self._output.console.is_terminal and progress.now >= self._told_at + TELL_SECONDS:
            self._told_at = progress.now
            note(said)


def _files(record: BatchRecord, wanted: FileWish) -> ResultFiles:
    if record.plan is None:
        return ResultFiles.create(wanted.output, wanted.errors)
    return ResultFiles.take_up(wanted.output, wanted.errors, record.ends)


def _done(record: BatchRecord) -> int:
    return sum(answered + failed for answered, failed in record.written.values())


@dataclass(frozen=True, slots=True)
class _Planned:
    """A file before it is posted: the cost of its missing units, and the account's balance."""

    file: FilePlan
    units: PricedUnits
    unsold: str | None
    """The reason why no more can be posted."""

    def facts(self, *, is_for_programs: bool) -> dict[str, Any] | None:
        """Return the estimate: the purchase, and the refused lines."""
        if self.units.estimate is None:
            return None
        facts = self.units.estimate.facts(is_for_programs=is_for_programs)
        refused = refused_facts(self.file.read.refused, is_for_programs=is_for_programs)
        return {"requests": facts.pop("requests"), **refused, **facts}


EndShown = Callable[[ChainClient], Awaitable[None]]
"""Shows the end of a file. Raises CallFailedError for missing answers."""


def answer_file(
    session: WalletSession, key_text: str, wish: Wish, wanted: FileWish, manner: Manner, show: EndShown | None = None
) -> None:
    """Post the missing units of a file, write answers until all units have ended, then `show` the end."""
    planned: list[_Planned] = []

    async def look(client: ChainClient) -> None:
        planned.append(await _plan(client, session.payer(key_text), wish, wanted, manner))

    async def send(client: ChainClient) -> None:
        plan, key = planned[0], session.key(key_text)
        estimate = plan.units.estimate
        foretold = None if estimate is None else estimate.seconds
        end = await follow_file(
            session, client, key, plan.file, wanted, manner.tip, posts=plan.unsold is None, foretold=foretold
        )
        if show is not None:
            require_answers(end)
            await show(client)
            return
        show_end(session, end, plan.file)
        _require_all(end, plan, wanted)

    with told_nothing_was_sent():
        session.run(look)
    plan = planned[0]
    show_and_ask(session.output, plan.units, manner, plan.facts(is_for_programs=session.output.as_json))
    if not manner.dry_run:
        # Reconnect: while a person answers, the node would close the first connection as dead.
        with told_when_interrupted(lambda: _so_far(plan.file, wanted, key_text)):
            session.run(send, reports_progress=True)


async def _plan(client: ChainClient, payer: Payer, wish: Wish, wanted: FileWish, manner: Manner) -> _Planned:
    sold = partial(_sold, client, wish)
    buyer = await buyer_for(client, payer.account, manner.budget)
    price_max = partial(usual_price, client, wish.service, buyer.principal, wish.racers)
    file = await plan_file(client.genesis_hash, buyer, wish, wanted, sold, price_max)
    _require_files(file, wanted)
    known, unsold = _known(file, wanted), None
    missing = [unit for place, unit in enumerate(file.units()) if place not in known]
    if missing:
        try:
            await _sold(client, wish)
            await require_takers(client, buyer.principal, wish, manner)
        except ServiceError as error:
            if not known:
                raise
            unsold, missing = str(error), []
            note(f"{error}. No more units are posted; the posted ones are followed")
    return _Planned(file, await priced(client, payer, buyer, wish, missing, file.terms.form.cost_unit, manner), unsold)


async def _sold(client: ChainClient, wish: Wish) -> Sold:
    """Return the terms of the service. Raise ServiceError or PostError if it does not sell the request."""
    service = await open_service(client, wish.service)
    form = form_of(wish.service, service)
    check_terms(service, form, wish)
    return form, service.terms


def _require_files(file: FilePlan, wanted: FileWish) -> None:
    """Refuse unusable files of results before anybody is asked. Raise ResultFilesError."""
    if wanted.makes_folder and not wanted.output.parent.exists():
        return
    record = BatchRecord.look(wanted.records, *file.record_of)
    require_files(wanted.output, wanted.errors, None if record is None else record.ends)


def _known(file: FilePlan, wanted: FileWish) -> set[int]:
    """Return the places of units that are posted, may be posted, or will never be."""
    posted = PostingRecord.peek(wanted.records, *file.postings_of)
    record = BatchRecord.look(wanted.records, *file.record_of)
    if record is None:
        return posted
    if record.stopped is not None or record.is_cancel_asked:
        return set(range(len(file.plan.units)))
    return posted | set(record.posted)


def _so_far(file: FilePlan, wanted: FileWish, key_text: str) -> str:
    """Return the progress of an interrupted run, and how to continue."""
    sent = PostingRecord.peek(wanted.records, *file.postings_of)
    record = BatchRecord.look(wanted.records, *file.record_of)
    posted, written = (set(record.posted), len(record.written)) if record is not None else (set(), 0)
    cancelling = other_command(
        "unit", "cancel", str(wanted.output), "--key", key_text, "--postings", str(wanted.records)
    )
    return (
        f"{len(posted):,} of {counted(len(file.plan.units))} are posted, {len(sent - posted):,} more may be, and "
        f"the answers of {written:,} are written. Nothing is lost. Repeat the same command, which posts nothing "
        f"twice: `{this_command()}`. Or end the run with `{cancelling}`"
    )


def _require_all(end: FollowedFile, plan: _Planned, wanted: FileWish) -> None:
    """Raise CallFailedError for requests without an answer."""
    require_answers(end)
    if end.not_posted:
        raise CallFailedError(
            f"{counted(end.not_posted)} of the file could not be posted: {plan.unsold}. The answers of the others "
            f"are written. Repeat the same command later, or end the run with `ogpu unit cancel {wanted.output}`",
            code="not_posted",
        )
    missing = _missing(end.record, plan.file.plan.lines_refused)
    if missing:
        raise CallFailedError(f"{missing}. {wanted.errors} has the reasons", code="answers_missing")


def _missing(record: BatchRecord, refused: int) -> str:
    """Return a sentence about requests without an answer and lines that were never asked."""
    given_up = record.given_up
    failed = sum(failed for _, failed in record.written.values()) - given_up
    said = []
    if failed:
        found_wrong = sum(record.refuted.values())
        besides = f", or a refuted one ({found_wrong:,})" if found_wrong else ""
        said.append(f"{failed:,} request{' has' if failed == 1 else 's have'} no answer{besides}")
    if given_up:
        said.append(f"{given_up:,} request{' was' if given_up == 1 else 's were'} given up when the run was cancelled")
    if refused:
        rest = "" if failed or given_up else "; every request has its answer"
        said.append(f"{refused:,} line{' was' if refused == 1 else 's were'} refused and never asked{rest}")
    return "; ".join(said)
