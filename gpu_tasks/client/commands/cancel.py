"""Commands that cancel: units, tasks, or the rest of a file's run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import click

from cli.calls import PlannedCall, SendingOptions, make, require_somebody_to_ask
from cli.session import CallFailedError, WalletSession
from gpu_tasks.client.buyer import Buyer
from gpu_tasks.client.commands.calls import planned, this_command, told_when_interrupted
from gpu_tasks.client.commands.id_prefixes import TaskError, is_id, known_task, named_task, named_unit
from gpu_tasks.client.commands.purchase import PostedRun, follow_file, post_units, require_answers, sender, show_end
from gpu_tasks.client.commands.task_decisions import cancelled
from gpu_tasks.client.commands.units import known_unit
from gpu_tasks.client.units.answers import CANCELS_PER_CALL, RunStop, cancel_call
from gpu_tasks.client.units.file_plan import FORM, FileWish, buyer_of, identity, plan_file, postings_of, wish_of
from gpu_tasks.client.units.lines import FileForm
from gpu_tasks.client.units.posting import PostError, Prompt, Wish
from gpu_tasks.client.units.results import ResultError, progress
from gpu_tasks.client.units.run_record import INPUT, BatchRecord, RunPlan, run_id, run_named, state_of
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState, is_open
from runtime.cryptography import ss58
from runtime.pallets.utility import Utility
from wallet.amounts import Grains, counted
from wallet.client import ChainClient, Payer
from wallet.errors import WalletError
from wallet.keypair import Keypair
from wallet.outbox import RecordBusyError, RecordError


def cancel_units(
    session: WalletSession, named: tuple[str, ...], key_text: str, postings: Path, sending: SendingOptions
) -> None:
    """Carry out `ogpu unit cancel`."""
    runs = [text for text in named if not is_id(text)]
    if runs and len(named) > 1:
        raise click.UsageError(f"{runs[0]!r} is the file of a run, or unknown. Cancel a run by itself")
    if runs:
        cancel_run(session, runs[0], key_text, sending, postings)
        return

    async def plan_one(client: ChainClient, payer: Payer, text: str) -> tuple[bytes, PlannedCall]:
        unit_id = await named_unit(session, client, text, key_text)
        with _named_in_errors(unit_id):
            found = await known_unit(client, unit_id, await client.finalized())
            _check_cancellable(found, payer.account)
        call = InferenceMarket.cancel(unit=unit_id)
        return unit_id, planned(session.output, call, _cancel_facts(unit_id, found))

    _cancel_all(session, named, key_text, sending, plan_one)


def cancel_tasks(session: WalletSession, tasks: tuple[str, ...], key_text: str, sending: SendingOptions) -> None:
    """Carry out `ogpu task cancel`."""

    async def plan_one(client: ChainClient, payer: Payer, text: str) -> tuple[bytes, PlannedCall]:
        task_id = await named_task(session, client, text, key_text)
        with _named_in_errors(task_id):
            found = await known_task(client, task_id, await client.finalized())
            return task_id, await cancelled(session, client, payer, task_id, found)

    _cancel_all(session, tasks, key_text, sending, plan_one)


PlanOne = Callable[[ChainClient, Payer, str], Awaitable[tuple[bytes, PlannedCall]]]
"""Find what a user named, and plan the call that cancels it."""


def _cancel_all(
    session: WalletSession, texts: Sequence[str], key_text: str, sending: SendingOptions, plan_one: PlanOne
) -> None:
    """Cancel units or tasks by one call."""
    if len(texts) > CANCELS_PER_CALL:
        raise click.UsageError(f"give at most {CANCELS_PER_CALL} ids at once")

    async def plan(client: ChainClient, payer: Payer) -> PlannedCall:
        plans = list(dict([await plan_one(client, payer, text) for text in texts]).values())
        if len(plans) == 1:
            return plans[0]
        facts = {name: _sum(plans, name) for name in ("comes_back", "comes_back_later")}
        facts |= {"gone": _sum(plans, "gone", "burned")}  # of tasks, of units
        call = Utility.batch_all(calls=tuple(each.call for each in plans))
        return planned(session.output, call, {"taken_back": len(plans), **facts})

    make(session, key_text, sending, plan)


@contextmanager
def _named_in_errors(thing_id: bytes) -> Iterator[None]:
    """Begin errors with the id, because a command may cancel several."""
    try:
        yield
    except (ResultError, TaskError) as error:
        named = f"0x{thing_id.hex()}"
        text = str(error) if str(error).startswith(named) else f"{named}: {error}"
        raise type(error)(text, code=error.code) from None


def _sum(plans: Sequence[PlannedCall], *names: str) -> Grains:
    """Sum the amounts of these names over all plans."""
    return Grains(sum(plan.facts.get(name, 0) for plan in plans for name in names))


def _check_cancellable(unit: Unit, account: bytes) -> None:
    """Raise ResultError if the account cannot cancel the unit."""
    if unit.customer != account:
        raise ResultError(
            f"the unit belongs to {ss58.encode(unit.customer)}. Only the key of this account can cancel it, "
            "and a budget has none",
            code="not_owner",
        )
    if not is_open(unit):
        raise ResultError(
            f"the unit was {progress(unit)} in block {unit.ended_at}, so there is nothing to cancel", code="unit_ended"
        )
    if unit.state is not UnitState.QUEUED:
        raise ResultError(
            f"the unit is {progress(unit)}. Providers work on it, and only a queued unit can be cancelled",
            code="unit_in_progress",
        )


def _cancel_facts(unit_id: bytes, unit: Unit) -> dict[str, Any]:
    burned = money.cancel_burn(unit)
    back = unit.escrow + unit.bond - burned
    later = Grains(unit.deposit)  # The deposit returns with the unit's record.
    return {"unit": unit_id, "burned": Grains(burned), "comes_back": Grains(back), "comes_back_later": later}


# Cancelling a run cancels waiting units and awaits racing ones. Each line of the file gets an end. A process that
# already follows the run is told, and does the same.
STOPPED = (
    "the run stays cancelled. No more units are posted, and cancelled units stay cancelled. Units in "
    "progress are answered and paid; only their answers are not written yet"
)
AT_WORK = "providers work on these units, or have answered. They cannot be cancelled, and you pay for them"


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A begun run and its record."""

    record: BatchRecord
    plan: RunPlan
    folder: Path

    @property
    def buyer(self) -> Buyer:
        """The customer, and the key that posts."""
        return buyer_of(self.plan.settings)

    @property
    def source(self) -> str:
        """The path of its file; empty for a pipe."""
        return self.plan.settings[INPUT]

    @property
    def form(self) -> FileForm | None:
        """The form of the file that its command named."""
        form = self.plan.settings[FORM]
        return FileForm(form) if form else None

    @property
    def results(self) -> tuple[Path, Path]:
        """The files of answers and of errors."""
        return Path(self.plan.output), Path(self.plan.errors)

    @property
    def wish(self) -> Wish:
        """The request of all lines."""
        return wish_of(self.plan.settings)


def cancel_run(session: WalletSession, text: str, key_text: str, sending: SendingOptions, folder: Path) -> None:
    """Show the cost of cancelling a run, ask, and cancel it."""
    if sending.is_anyway:
        raise click.UsageError("--anyway is for units. Of a run only waiting units are cancelled")
    folder = folder.expanduser()
    facts: dict[str, Any] = {}
    runs: list[RecordedRun] = []

    async def look(client: ChainClient) -> None:
        record = run_named(folder, text)
        assert record.plan is not None, "only runs that were begun are named"
        run = RecordedRun(record, record.plan, folder)
        payer = session.payer(key_text)
        _require_cancellable(run, payer.account)
        require_somebody_to_ask(is_asked=not (sending.dry_run or sending.is_agreed))
        runs.append(run)
        facts.update(await _facts(client, run, payer, sending.tip))

    async def send(client: ChainClient) -> None:
        await _cancel(session, client, session.key(key_text), runs[0], sending.tip)

    session.run(look)
    if sending.dry_run:
        session.output.facts({**facts, "sent": False})
        return
    if not session.output.as_json:
        session.output.facts(facts)
    if not sending.is_agreed:
        click.confirm(f"Cancel {facts['run']}?", abort=True, err=True)
    # Reconnect: while a person answers, the node would close the first connection as dead.
    with told_when_interrupted(lambda: f"{STOPPED}. Go on with the same command: `{this_command()}`"):
        session.run(send, reports_progress=True)


def _require_cancellable(run: RecordedRun, account: bytes) -> None:
    if run.buyer.budget is not None:
        raise RecordError(
            "the run spends a budget, whose account has no key, so its queued units cannot be cancelled. Their money "
            "returns if nobody takes them. Stop the `ogpu unit post` command to post no more",
            code="budget_run",
        )
    if run.buyer.customer != account:
        raise RecordError(
            f"the run belongs to {ss58.encode(run.buyer.customer)}. Only the key that posts it can cancel it",
            code="not_owner",
        )
    if run.record.is_whole:
        status = state_of(run.record).status.value
        raise RecordError(
            f"the run is {status}, so there is nothing to cancel. Its answers are in {run.plan.output}",
            code="run_ended",
        )


async def _facts(client: ChainClient, run: RecordedRun, payer: Payer, tip: int) -> dict[str, Any]:
    """Return the units that cancelling affects, and the cost."""
    ids = [bytes.fromhex(run.record.posted[place]) for place in run.record.to_write()]
    found = [unit for unit in await market_reads.units(client, ids, await client.finalized()) if unit is not None]
    queued = [unit for unit in found if unit.state is UnitState.QUEUED]
    at_work = sum(is_open(unit) for unit in found) - len(queued)
    burned = sum(money.cancel_burn(unit) for unit in queued)
    sizes = [min(CANCELS_PER_CALL, len(queued) - first) for first in range(0, len(queued), CANCELS_PER_CALL)]
    fees = {size: await client.fee(cancel_call([bytes(32)] * size), payer, tip) for size in set(sizes)}
    return {
        "run": run_id(run.record),
        "status": state_of(run.record).status.value,
        "answered": sum(answered for answered, _ in run.record.written.values()),
        "taken_back": len(queued),
        "waited_for": at_work,
        **({"waited_for_because": AT_WORK} if at_work else {}),
        "not_posted": len(run.record.to_post()),
        "burned": Grains(burned),
        "comes_back": Grains(sum(unit.escrow + unit.bond for unit in queued) - burned),
        "comes_back_later": Grains(sum(unit.deposit for unit in queued)),
        "fees": Grains(sum(fees[size] + tip for size in sizes)),
    }


async def _cancel(session: WalletSession, client: ChainClient, key: Keypair, run: RecordedRun, tip: int) -> None:
    # The request comes first: after a kill in the next steps, the run must not go on posting.
    run.record.ask_to_cancel()
    try:
        with ExitStack() as opened:
            try:
                source = opened.enter_context(opened_source(run.source))
                wanted = FileWish(source, run.form, *run.results, run.folder)
                file = await plan_file(client.genesis_hash, run.buyer, run.wish, wanted, reads_no_line, reads_no_line)
            except (OSError, WalletError) as error:
                await _take_back(session, client, key, run, tip)
                raise CallFailedError(_without_file(run, error), code="run_file_missing") from None
            end = await follow_file(session, client, key, file, wanted, tip)
            show_end(session, end, file)
            require_answers(end)
    except RecordBusyError:
        who = "the running `ogpu unit post` cancels the waiting units and writes the answers"
        session.output.facts({"run": run_id(run.record), "status": "cancelling", "who": who})


def opened_source(source: str) -> BinaryIO:
    """Open the file of a run."""
    return Path(source).open("rb")


async def reads_no_line(*_: object) -> NoReturn:
    """Read no line: no record has this file, so it is another one."""
    raise PostError("it differs from the posted one", code="file_changed")


def _without_file(run: RecordedRun, error: Exception) -> str:
    why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return (
        "the waiting units were cancelled, and no more are posted. The answers cannot be written, because "
        f"{run.source or 'the piped input'} is not usable: {why}. Repeat the `ogpu unit post` command with the "
        "original file"
    )


async def _take_back(session: WalletSession, client: ChainClient, key: Keypair, run: RecordedRun, tip: int) -> None:
    """Cancel the waiting units of a run without its file. Post nothing."""
    wish, digest = run.wish, bytes.fromhex(run.plan.file)
    named_by = postings_of(identity(client.genesis_hash, run.buyer, wish, run.form, digest, run.results))
    names = [Prompt(first + 1, counted(count, "request")) for first, count in run.plan.units]
    posted = PostedRun(named_by, run.buyer, wish, tip, [], names)
    with BatchRecord.open_named(run.folder, run.record.name) as record:
        stop = RunStop(record, sender(session, client, key, tip))
        await post_units(session, client, key, record, stop, posted)
        ids = [bytes.fromhex(record.posted[place]) for place in record.to_write()]
        units = await market_reads.units(client, ids, await client.finalized())
        await stop.take_back(list(zip(ids, units, strict=True)))
