"""Disputes of answers: a customer recomputes some on this machine, and disputes the first that differs.

`task_dispute` shares the rules of claims, the outcomes, and the notes of progress.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from cli.calls import NothingToSend, PlannedCall, SendingOptions, make, require_somebody_to_ask
from cli.session import WalletSession, note
from gpu_tasks.client.commands.calls import planned
from gpu_tasks.client.commands.cancel import RecordedRun, opened_source, reads_no_line
from gpu_tasks.client.commands.id_prefixes import is_id, named_unit
from gpu_tasks.client.commands.units import NOT_KNOWN
from gpu_tasks.client.units.file_plan import FileWish, plan_file
from gpu_tasks.client.units.recomputed import first_wrong, require_request
from gpu_tasks.client.units.results import PaidOutput, ResultError, paid_output, progress
from gpu_tasks.client.units.run_record import run_named
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.claims.claim_closing import vote_fee
from gpu_tasks.market.claims.claims import DISPUTES_MAX, ClaimStage, ResultClaim
from gpu_tasks.market.claims.collateral import finder_reward
from gpu_tasks.market.claims.convictions import open_check
from gpu_tasks.market.claims.disputes import SEATS
from gpu_tasks.market.claims.draws import beacon_heights
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference.units import Unit, UnitState, is_open
from wallet.amounts import Grains, counted, format_amount
from wallet.client import ChainClient, Payer
from wallet.keypair import Keypair


@dataclass(frozen=True, slots=True)
class _DisputedUnit:
    """A unit of which a customer doubts an answer, and the request that it names: in its unit, and in its file."""

    id: bytes
    request: int | None
    line: int | None = None


def require_disputable(unit: Unit, claim: ResultClaim | None) -> ResultClaim:
    """Return the claim of a unit, an item of which can be disputed in the next block.

    Raise ResultError, with the reason and the next step, if none can.
    """
    if not is_open(unit):
        raise ResultError(
            f"nothing can be disputed any more: the unit was {progress(unit)} in block {unit.ended_at}",
            code="claim_over",
        )
    if unit.state is UnitState.DISPUTED:
        raise ResultError(
            "its racers differ, and a dispute about that is open already. Follow it with `ogpu unit watch`",
            code="dispute_open",
        )
    if unit.state is not UnitState.CLAIMED or claim is None:
        raise ResultError(
            f"there is no answer to dispute yet: the unit is {progress(unit)}. Follow it with `ogpu unit watch`",
            code="not_claimed",
        )
    require_open(claim)
    return claim


def require_open(claim: ResultClaim) -> None:
    """Raise ResultError, with the reason and the next step, if no item of an open claim can be disputed now."""
    if claim.stage is ClaimStage.DISPUTED:
        raise ResultError(
            "a dispute about this result is open already. If it goes on after that, repeat the command",
            code="dispute_open",
        )
    check = open_check(claim)
    if claim.stage is ClaimStage.OPENING and check is not None and check.finding is not None:
        raise ResultError(
            "the next block compares a checker's finding. If the claim goes on after that, repeat the command",
            code="check_ends",
        )
    if claim.disputes >= DISPUTES_MAX:
        raise ResultError(
            f"this result was disputed {DISPUTES_MAX} times, which is the limit", code="too_many_disputes"
        )


def outcomes_of_dispute(claim: ResultClaim, height: int) -> dict[str, Any]:
    """Return the bond of a dispute in the block after `height`, and the money of each of its outcomes."""
    terms, first_beacon = claim.terms, beacon_heights(claim.recorded_at)[0]
    fee, reward = vote_fee(terms), finder_reward(terms.collateral)
    bond = SEATS * fee + reward
    is_early = claim.stage is ClaimStage.DRAWING and not claim.is_second and height + 1 < first_beacon
    return {
        "bond": Grains(bond),
        "bond_is": f"{SEATS} voters' fees of {format_amount(fee)}, and {format_amount(reward)} as the finder's reward",
        "lost_if_right": Grains(bond),
        "price_back_if_wrong": Grains(terms.price),
        "reward_if_wrong": Grains(reward if is_early else 0),
        "reward_only_before_block": first_beacon,
        "if_undecided": "the bond comes back, and the claim goes on",
    }


async def item_dispute(
    session: WalletSession, client: ChainClient, keypair: Keypair, disputed: _DisputedUnit, unit: Unit, backend: str
) -> PlannedCall | NothingToSend:
    """Return the call that disputes the named request, or the first wrong one.

    Raise ResultError if the named one is right, or if the claim ended meanwhile.
    """
    unit_id = disputed.id
    with session.doing("fetching requests and answers from the stores"):
        async with BlobClient(private=market_reads.is_development(client)) as blob_client:
            paid = await paid_output(client, blob_client, keypair, unit_id, unit, await client.finalized())
    wrong = await _recomputed(session, paid, disputed.request, backend)
    if wrong is None:
        return all_right({"unit": unit_id, "state": progress(unit)}, len(paid.requests), "answer")
    final_hash = await client.finalized()
    unit, claim = await _claim_of(client, unit_id, final_hash)
    facts: dict[str, Any] = {
        "unit": unit_id,
        "state": progress(unit),
        "request": wrong,
        **({} if disputed.line is None else {"line": disputed.line}),
        "claim_stage": claim.stage.name.lower(),
        **outcomes_of_dispute(claim, await client.height(final_hash)),
        "then": f"validators compute it and vote. Follow them with `ogpu unit watch 0x{unit_id.hex()}`",
    }
    call = ResultClaims.dispute(claim=unit_id, index=wrong)
    return planned(session.output, call, facts, locks=facts["bond"])


async def _claim_of(client: ChainClient, unit_id: bytes, final_hash: bytes) -> tuple[Unit, ResultClaim]:
    """Return a unit and its claim, if an item of it can be disputed. Raise ResultError if not."""
    status = await market_reads.unit(client, unit_id, final_hash)
    if status is None:
        raise ResultError(NOT_KNOWN, code="unit_unknown")
    return status.unit, require_disputable(status.unit, status.claim)


async def _recomputed(session: WalletSession, paid: PaidOutput, request: int | None, backend: str) -> int | None:
    """Return the first wrong request of all, or the named one. Raise ResultError if the named one is right.

    Computing runs beside the event loop, because nodes close a silent connection.
    """
    indices = range(len(paid.requests)) if request is None else (request,)
    tenths = Tenths(len(indices), "requests")
    with session.doing(
        f"this machine recomputes {counted(len(indices), 'request')} on {backend}. If you interrupt it, the computed "
        "part is lost"
    ):
        try:
            wrong = await asyncio.to_thread(first_wrong, paid, indices, backend, tenths)
        finally:
            tenths.is_over = True
    if wrong is None and request is not None:
        raise ResultError(
            f"the answer to request {request} equals the one that this machine computed. You would lose a dispute",
            code="answer_right",
        )
    return wrong


NOTHING_TO_DISPUTE = "There is nothing to dispute"


def all_right(facts: dict[str, Any], count: int, noun: str) -> NothingToSend:
    """Return the facts of a recomputation without a difference."""
    result = f"every {noun} equals the one that this machine computed. {NOTHING_TO_DISPUTE}"
    return NothingToSend({**facts, "computed": count, "agree": count, "result": result})


class Tenths:
    """Notes of the progress, a tenth at a time."""

    def __init__(self, count: int, noun: str) -> None:
        """`noun` is a plural."""
        self._count, self._noun, self._said = count, noun, -1
        self.is_over = False
        """True once the result is no longer needed: computing ends with the next request."""

    def __call__(self, done: int) -> None:
        """Note the progress. Raise ResultError if the result is no longer needed."""
        if self.is_over:
            raise ResultError("it was interrupted", code="interrupted")
        tenths = 10 * done // self._count
        if tenths != self._said:
            self._said = tenths
            note(f"computed {10 * tenths} % of {self._count} {self._noun}")


def dispute_unit(
    session: WalletSession, named: str, key_text: str, request: int | None, line: int | None, is_computed: bool,
    backend: str, postings: Path, sending: SendingOptions,
) -> None:  # fmt: skip
    """Carry out `ogpu unit dispute`."""
    if sum((request is not None, line is not None, is_computed)) > 1:
        raise click.UsageError("give one of --request, --line and --compute")
    if is_id(named) == (line is not None):
        raise click.UsageError("--line names a request in the RESULTS of a file, --request one in a UNIT")

    folder = postings.expanduser()

    async def plan(client: ChainClient, _: Payer) -> PlannedCall | NothingToSend:
        if line is None:
            disputed = _DisputedUnit(await named_unit(session, client, named, key_text), request)
        else:
            disputed = await _unit_of_line(client, folder, named, line)
        unit, _claim = await _claim_of(client, disputed.id, await client.finalized())
        disputed = _with_request(disputed, unit.terms.requests, is_computed=is_computed)
        # Refuse before anything is computed.
        require_somebody_to_ask(is_asked=not (sending.dry_run or sending.is_agreed))
        return await item_dispute(session, client, session.key(key_text), disputed, unit, backend)

    make(session, key_text, sending, plan)


def _with_request(disputed: _DisputedUnit, count: int, *, is_computed: bool) -> _DisputedUnit:
    """Return what is disputed, with the only request of a single one. Raise ResultError if a batch lacks a number."""
    if is_computed:
        return disputed
    if disputed.request is None and count > 1:
        raise ResultError(
            f"the unit has {count:,} requests. Name one with --request, from 0 to {count - 1}, or recompute all of "
            "them with --compute",
            code="request_not_named",
        )
    chosen = disputed.request or 0
    require_request((chosen,), count)
    return replace(disputed, request=chosen)


async def _unit_of_line(client: ChainClient, folder: Path, text: str, line: int) -> _DisputedUnit:
    """Return the unit and the place of a line of a run's file."""
    record = run_named(folder, text)
    assert record.plan is not None, "only runs that were begun are named"
    run = RecordedRun(record, record.plan, folder)
    try:
        with opened_source(run.source) as source:
            wanted = FileWish(source, run.form, *run.results, run.folder)
            file = await plan_file(client.genesis_hash, run.buyer, run.wish, wanted, reads_no_line, reads_no_line)
    except OSError as error:
        raise ResultError(
            f"{run.source or 'the piped input'} is needed to find the line: {error.strerror}. Name the unit and its "
            "--request instead",
            code="run_file_missing",
        ) from None
    numbers = [load.number for load in file.read.loads]
    if line not in numbers:
        raise ResultError(f"line {line} of {run.source} is no request of this run", code="no_such_line")
    load_place = numbers.index(line)
    places = enumerate(record.plan.units)
    place, first = next((place, first) for place, (first, count) in places if first <= load_place < first + count)
    if place not in record.posted:
        raise ResultError(f"line {line} is not posted yet", code="not_claimed")
    return _DisputedUnit(bytes.fromhex(record.posted[place]), load_place - first, line)
