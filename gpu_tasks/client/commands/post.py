"""Post units: show the request, its cost and the eligible providers before anything is sent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, cast

import click

from cli.session import CallFailedError, WalletSession, note
from gpu_tasks.batches.requests import REQUESTS_MAX
from gpu_tasks.client.buyer import Buyer, buyer_for
from gpu_tasks.client.commands.calls import (
    other_command,
    this_command,
    told_nothing_was_sent,
    told_when_interrupted,
)
from gpu_tasks.client.commands.purchase import (
    Manner,
    PricedUnits,
    answer_file,
    post_once,
    priced,
    require_takers,
    show_and_ask,
)
from gpu_tasks.client.commands.units import STAYS, show_until_ended
from gpu_tasks.client.offers.listing import form_of, open_service
from gpu_tasks.client.units.file_plan import SEED_BYTES, FileWish
from gpu_tasks.client.units.line_reader import LineTerms
from gpu_tasks.client.units.lines import FILE_BYTES_MAX, FileForm
from gpu_tasks.client.units.posting import (
    PROMPT_FILE_BYTES_MAX,
    AskedUnit,
    PostError,
    PostingCost,
    Prompt,
    Wish,
    check_terms,
    read_prompts,
    units_of,
)
from gpu_tasks.client.units.posting_once import ENDED, SUBMITTED, Posted, PostedPart, PostingRecord, is_told_of
from gpu_tasks.client.units.run_record import window_seconds
from gpu_tasks.data import market_reads
from gpu_tasks.data.unit_input import INPUT_BYTES_MAX
from wallet.amounts import counted, format_amount
from wallet.client import ChainClient
from wallet.keypair import Keypair

PIECE_BYTES = 1024 * 1024
UNITS_NAMED_MAX = 3
"""The most earlier units of the same command that a message names."""


def post(
    session: WalletSession, file: BinaryIO, key_text: str, service: int, max_tokens: int, batch: int | None,
    options: tuple[tuple[str, str], ...], racers: int, device_class: str, price: int, anyway: bool,
    out: Path | None, errors: Path | None, form: str | None, window: str | None, is_watched: bool, postings: Path,
    again: bool, tip: int, yes: bool, dry_run: bool, budget_text: str | None,
) -> None:  # fmt: skip
    """Carry out `ogpu unit post`."""
    manner = Manner(tip, anyway, yes, dry_run, budget_text)
    most = batch or (REQUESTS_MAX if out else 1)
    wish = Wish(service, max_tokens, dict(options), racers, price, most, device_class)
    if out is not None:
        if is_watched or again:
            raise click.UsageError("--out follows the units anyway. To ask again, name another RESULTS")
        if window is not None and budget_text is not None:
            raise click.UsageError("--completion-window cancels units, and a budget's units cannot be cancelled")
        if window is not None:
            window_seconds(window)  # Refuse another text before a node is asked.
        with _seekable(file) as stream:
            beside = errors or out.with_name(f"{out.name}.errors")
            as_form = None if form is None else FileForm(form)
            file_wish = FileWish(stream, as_form, out, beside, postings, _path_of(file), window)
            answer_file(session, key_text, wish, file_wish, manner)
        return
    if errors is not None or form not in {None, FileForm.LINES.value} or window is not None:
        raise click.UsageError(
            "--errors, --form jsonl or openai, and --completion-window need a file of results. Add --out RESULTS"
        )
    _post_lines(
        session, file, key_text, wish, manner, postings, again=again, is_watched=is_watched, is_told=form is not None
    )


def _post_lines(
    session: WalletSession, file: BinaryIO, key_text: str, wish: Wish, manner: Manner, postings: Path, *, again: bool,
    is_watched: bool, is_told: bool,
) -> None:  # fmt: skip
    """Post the lines of a file, and show the units, or follow them."""
    prompt_bytes = file.read(PROMPT_FILE_BYTES_MAX + 1)
    prompts: list[Prompt] = []
    plans: list[_PostPlan] = []
    records: list[PostingRecord] = []
    followed: list[Posted] = []

    async def look(client: ChainClient) -> None:
        payer = session.payer(key_text)
        buyer = await buyer_for(client, payer.account, manner.budget)
        service = await open_service(client, wish.service)
        workload_form = form_of(wish.service, service)
        check_terms(service, workload_form, wish)
        seed, most = os.urandom(SEED_BYTES), wish.cost_max
        terms = LineTerms(workload_form, (), most, most, wish.options, seed, bytes_max=INPUT_BYTES_MAX)
        found, requests = read_prompts(prompt_bytes, terms, is_told=is_told)
        prompts.extend(found)
        units, named = units_of(prompts, requests, workload_form, wish, service.terms)
        known = set() if again else _to_go_on_with(postings, _post_identity(client, buyer, wish, prompts), key_text)
        missing = [unit for place, unit in enumerate(units) if place not in known]
        if missing:
            await require_takers(client, buyer.principal, wish, manner)
        priced_units = await priced(client, payer, buyer, wish, missing, workload_form.cost_unit, manner)
        plans.append(_PostPlan(units, named, priced_units))

    async def send(client: ChainClient) -> None:
        keypair, (plan,) = session.key(key_text), plans
        buyer = plan.found.buyer
        identity = _post_identity(client, buyer, wish, prompts)
        with PostingRecord.open(postings, *identity) as record:
            records.append(record)
            if again or is_told_of(record.parts):
                record.forget()
            posted = await post_once(session, client, record, keypair, buyer, wish, manner.tip, plan.units, plan.named)
            followed.extend(posted)
            if not is_watched:
                _show_posted(session, posted, plan.found.cost)
                # A kill before the note shows the units again. The other order would buy them again, unseen.
                record.note_told(SUBMITTED)
        if is_watched:
            note_ended = partial(_note_ended, postings, identity)
            await _watch_posted(session, client, keypair, posted, note_ended, is_new=bool(plan.found.cost.units))

    with told_nothing_was_sent():
        session.run(look)
    found, output = plans[0].found, session.output
    estimate = None if found.estimate is None else found.estimate.facts(is_for_programs=output.as_json)
    show_and_ask(output, found, manner, estimate)
    if not manner.dry_run:
        # Reconnect: while a person answers, the node would close the first connection as dead.
        with told_when_interrupted(lambda: _progress_of_post(len(plans[0].units), records, followed, key_text)):
            session.run(send)


def _note_ended(postings: Path, identity: tuple[bytes, ...]) -> None:
    """Note the end of the purchase, so that the same command posts new units."""
    with PostingRecord.open(postings, *identity) as record:
        record.note_told(ENDED)


def _to_go_on_with(postings: Path, identity: tuple[bytes, ...], key_text: str) -> set[int]:
    """Return the prompts that an earlier command sent or may have sent. Note a finished purchase."""
    parts = PostingRecord.look(postings, *identity)
    if is_told_of(parts):
        note(_bought_before(parts, key_text))
        return set()
    return {place for part in parts for place in part.places}


def _bought_before(parts: list[PostedPart], key_text: str) -> str:
    """Return a sentence about the units that the same command posted earlier, and how to follow them."""
    ids = [f"0x{unit}" for part in parts for unit in part.units]
    more = f" and {len(ids) - UNITS_NAMED_MAX} more" if len(ids) > UNITS_NAMED_MAX else ""
    watching = other_command("unit", "watch", *ids[:UNITS_NAMED_MAX], "--key", key_text)
    return (
        f"the same command posted {counted(len(ids))} before, from block {parts[0].block} on. This command posts "
        f"the same again. To follow the earlier ones{more and f' ({UNITS_NAMED_MAX}{more})'}, run `{watching}`"
    )


async def _watch_posted(
    session: WalletSession, client: ChainClient, keypair: Keypair, posted: list[Posted],
    note_ended: Callable[[], None], *, is_new: bool,
) -> None:  # fmt: skip
    """Follow units that this or an earlier command posted, and note that their end was shown.

    Raise PostError if the chain has forgotten some.
    """
    if not is_new:
        note("an earlier command posted all of it. This command follows its units. --again posts the same again")
    if None in await market_reads.units(client, [unit.unit for unit in posted]):  # a forgotten unit would never end
        raise PostError(
            "an earlier command posted this, and the chain has forgotten its units. --again posts it again",
            code="units_forgotten",
        )
    try:
        await show_until_ended(session, client, keypair, {unit.unit: unit.prompt for unit in posted})
    except CallFailedError:  # They have ended, some without a result.
        note_ended()
        raise
    note_ended()


@contextmanager
def _seekable(file: BinaryIO) -> Iterator[BinaryIO]:
    """Yield the file, or a nameless copy of a pipe on the disk: it is read several times."""
    if file.seekable():
        yield file
        return
    # Prompts may be private, and a file without a name is gone even after a kill.
    with TemporaryFile() as spooled_copy:
        bytes_left = FILE_BYTES_MAX + 1  # One byte more, which is refused.
        while bytes_left and (piece := file.read(min(bytes_left, PIECE_BYTES))):
            spooled_copy.write(piece)
            bytes_left -= len(piece)
        yield cast("BinaryIO", spooled_copy)


def _path_of(file: BinaryIO) -> str:
    """Return the path of a file; empty for a pipe."""
    return str(Path(file.name).absolute()) if file.seekable() and isinstance(file.name, str) else ""


@dataclass(frozen=True, slots=True)
class _PostPlan:
    """The units of a post, a prompt for each, and the cost of the missing ones."""

    units: list[AskedUnit]
    named: list[Prompt]
    found: PricedUnits


def _progress_of_post(units: int, records: list[PostingRecord], followed: list[Posted], key_text: str) -> str:
    """Return how many units are posted after an interrupt, and how to continue."""
    if followed:
        watching = other_command("unit", "watch", "--key", key_text)
        return f"all of {counted(len(followed))} are posted. {STAYS}. Follow them with `{watching}`"
    parts = [part for record in records for part in record.parts]
    posted = sum(len(part.units) for part in parts if part.block is not None)
    sent = sum(len(part.units) for part in parts) - posted
    return (
        f"{posted} of {counted(units)} are posted, and {sent} more may be. Nothing is lost. Repeat the same "
        f"command, which posts nothing twice: `{this_command()}`"
    )


def _show_posted(session: WalletSession, posted: list[Posted], cost: PostingCost) -> None:
    rows = [{"unit": unit.unit, "block": unit.block, "prompt": unit.prompt} for unit in posted]
    session.output.rows(_posted_title(len(posted), cost), ("unit", "block", "prompt"), rows)


def _posted_title(posted: int, cost: PostingCost) -> str:
    now = "" if posted == cost.units else f", {cost.units} of them now"
    return f"{counted(posted)} posted{now}, for at most {format_amount(cost.most)} oGPU"


def _post_identity(client: ChainClient, buyer: Buyer, wish: Wish, prompts: list[Prompt]) -> tuple[bytes, ...]:
    """Return the identity of a post: chain, buyer, terms and every prompt."""
    return client.genesis_hash, buyer.name, repr(wish).encode(), *(prompt.text.encode() for prompt in prompts)
