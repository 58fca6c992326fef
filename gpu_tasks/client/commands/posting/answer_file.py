"""`ogpu post FILE --out RESULTS`: what a file costs and who could take it is known, then it is posted and answered.

Always: what was posted is answered whatever became of its service; only what is missing needs one that is open.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from cli.session import CallFailedError, WalletSession, note
from gpu_tasks.client.batches.record import BatchRecord, journal_of
from gpu_tasks.client.commands.calls import other_command, this_command, told_nothing_was_sent, told_when_interrupted
from gpu_tasks.client.commands.posting.follow import FollowedFile, follow_file, require_answers, show_end
from gpu_tasks.client.commands.posting.once import Manner, PricedUnits, priced, require_takers, show_and_ask
from gpu_tasks.client.commands.units import counted
from gpu_tasks.client.costs.estimates import refused_facts
from gpu_tasks.client.file_runs.plan import FilePlan, FileWish, Sold, plan_file
from gpu_tasks.client.offers import ServiceError, form_of, open_service, usual_price
from gpu_tasks.client.posting import Wish, check_terms
from gpu_tasks.client.posting_record import PostingRecord
from wallet.client import ChainClient, Payer


@dataclass(frozen=True, slots=True)
class _Planned:
    """A file as it will be posted: the cost of the units that are missing, and what the account can spend."""

    file: FilePlan
    units: PricedUnits
    unsold: str | None
    """Why nothing more can be posted."""

    def facts(self, *, is_for_programs: bool) -> dict[str, Any] | None:
        """The estimate as it is shown: what is bought, and which lines are not."""
        if self.units.estimate is None:
            return None
        facts = self.units.estimate.facts(is_for_programs=is_for_programs)
        refused = refused_facts(self.file.read.refused, is_for_programs=is_for_programs)
        return {"requests": facts.pop("requests"), **refused, **facts}


EndShown = Callable[[ChainClient], Awaitable[None]]
"""Shows the end of a file; CallFailedError for missing answers."""


def answer_file(
    session: WalletSession, key_text: str, wish: Wish, wanted: FileWish, manner: Manner, show: EndShown | None = None
) -> None:
    """Post what is not posted of a file, and write answers until all of its units have ended; then `show` the end."""
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
        # A second connection: the first would be closed as dead while a person takes time to answer.
        with told_when_interrupted(lambda: _so_far(plan.file, wanted, key_text)):
            session.run(send, tells=True)


async def _plan(client: ChainClient, payer: Payer, wish: Wish, wanted: FileWish, manner: Manner) -> _Planned:
    sold, price_max = partial(_sold, client, wish), partial(usual_price, client, wish.service, payer.account)
    file = await plan_file(client.genesis_hash, payer.account, wish, wanted, sold, price_max)
    known, unsold = _known(file, wanted), None
    missing = [unit for place, unit in enumerate(file.units()) if place not in known]
    if missing:
        try:
            await _sold(client, wish)
            await require_takers(client, payer.account, wish, missing, manner)
        except ServiceError as error:
            if not known:
                raise
            unsold, missing = str(error), []
            note(f"{error}; nothing more is posted, and what was posted before is followed")
    return _Planned(file, await priced(client, payer, wish, missing, file.terms.form.cost_unit, manner), unsold)


async def _sold(client: ChainClient, wish: Wish) -> Sold:
    """What the service sells; ServiceError or PostError where it does not sell what is wished."""
    service = await open_service(client, wish.service)
    form = form_of(wish.service, service)
    check_terms(service, form, wish)
    return form, service.terms


def _known(file: FilePlan, wanted: FileWish) -> set[int]:
    """The units that are posted, may be, or will not be any more."""
    path = journal_of(wanted.records, *file.record_of)
    posted = PostingRecord.peek(wanted.records, *file.postings_of)
    if not path.exists():
        return posted
    record = BatchRecord.look(path)
    if record.stopped is not None or record.is_cancel_asked:
        return set(range(len(file.plan.units)))
    return posted | set(record.posted)


def _so_far(file: FilePlan, wanted: FileWish, key_text: str) -> str:
    """How far a run came that is interrupted, by its record, and how to go on."""
    path, sent = journal_of(wanted.records, *file.record_of), PostingRecord.peek(wanted.records, *file.postings_of)
    record = BatchRecord.look(path) if path.exists() else None
    posted, written = (set(record.posted), len(record.written)) if record is not None else (set(), 0)
    cancelling = other_command("cancel", str(wanted.output), "--key", key_text, "--postings", str(wanted.records))
    return (
        f"of {counted(len(file.plan.units))} {len(posted):,} are posted, {len(sent - posted):,} more may be, and the "
        f"answers of {written:,} are written. Nothing is lost: what is posted is worked on and paid for. Go on with "
        f"the same command, which posts nothing twice: `{this_command()}`; or end the run with `{cancelling}`"
    )


def _require_all(end: FollowedFile, plan: _Planned, wanted: FileWish) -> None:
    """CallFailedError for what has no answer."""
    require_answers(end)
    if end.not_posted:
        raise CallFailedError(
            f"{counted(end.not_posted)} of the file could not be posted: {plan.unsold}. The answers of the others are "
            f"written. Repeat the same command when that has changed, or end the run with `ogpu cancel {wanted.output}`"
        )
    missing = _missing(end.record, plan.file.plan.lines_refused)
    if missing:
        raise CallFailedError(f"{missing}: {wanted.errors} says why")


def _missing(record: BatchRecord, refused: int) -> str:
    """What of a file was not answered: lines that were never asked apart from requests that were."""
    given_up = record.given_up
    failed = sum(failed for _, failed in record.written.values()) - given_up
    said = []
    if failed:
        found_wrong = sum(record.refuted.values())
        besides = f", or one that was found wrong later ({found_wrong:,})" if found_wrong else ""
        said.append(f"{failed:,} request{' has' if failed == 1 else 's have'} no answer{besides}")
    if given_up:
        said.append(f"{given_up:,} request{' was' if given_up == 1 else 's were'} given up when the run was stopped")
    if refused:
        rest = "" if failed or given_up else "; every request has its answer"
        said.append(f"{refused:,} line{' was' if refused == 1 else 's were'} refused, and never asked{rest}")
    return "; ".join(said)
