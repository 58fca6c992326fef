"""Disputes: a customer recomputes a run or answers on this machine, and disputes what differs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from cli.calls import NothingToSend, PlannedCall, SendingOptions, make, require_somebody_to_ask
from cli.chain_time import read_time
from cli.session import WalletSession, note
from gpu_tasks.client.commands.calls import planned, time_left
from gpu_tasks.client.commands.cancel import RecordedRun, opened_source, reads_no_line
from gpu_tasks.client.commands.id_prefixes import TaskError, is_id, known_task, named_task, named_unit, require_customer
from gpu_tasks.client.commands.task_decisions import facts, require_result
from gpu_tasks.client.commands.units import NOT_KNOWN
from gpu_tasks.client.tasks.results import RunBlobError, fetch_input, stated_digests
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
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.inference.units import Unit, UnitState, is_open
from gpu_tasks.market.training import money
from gpu_tasks.market.training.orders import is_replicated
from gpu_tasks.market.training.showing import own_segments
from gpu_tasks.market.training.tasks import Task, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.traces.trace import state_hash
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.stepwise import states, stepwise
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
    if claim.stage is ClaimStage.DISPUTED:
        raise ResultError(
            "a dispute about this answer is open already. If it goes on after that, repeat the command",
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
            f"this answer was disputed {DISPUTES_MAX} times, which is the limit", code="too_many_disputes"
        )
    return claim


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


NO_RESULT_YET = {
    TaskState.COMMITTING,
    TaskState.REVEALING,
    TaskState.AWARDING,
    TaskState.STARTING,
    TaskState.RUNNING,
    TaskState.ASKING,
    TaskState.VOLUNTEERING,
    TaskState.OPENING,
}
"""States before a result. A run can be recomputed as soon as its task is submitted."""


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
            file = await plan_file(client.genesis_hash, run.account, run.wish, wanted, reads_no_line, reads_no_line)
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


def dispute_task(
    session: WalletSession, task: str, key_text: str, segment: int | None, is_computed: bool, backend: str,
    sending: SendingOptions,
) -> None:  # fmt: skip
    """Carry out `ogpu task dispute`."""
    if segment is not None and is_computed:
        raise click.UsageError("give --segment or --compute, not both. --compute finds the segment")

    async def plan(client: ChainClient, payer: Payer) -> PlannedCall | NothingToSend:
        named = await named_task(session, client, task, key_text)
        return await draft(client, payer, named, await known_task(client, named, await client.finalized()))

    async def draft(client: ChainClient, payer: Payer, task_id: bytes, chain_task: Task) -> PlannedCall | NothingToSend:
        require_customer(chain_task, payer.account)
        _require_judged(chain_task)
        named = segment
        if is_computed:
            await _require_not_late(client, chain_task)
            # Refuse before hours of computing.
            require_somebody_to_ask(is_asked=not (sending.dry_run or sending.is_agreed))
            chain_task, named = await _recomputed_segment(
                session, client, session.key(key_text), task_id, chain_task, backend
            )
            if named is None:
                return all_right(facts(task_id, chain_task), chain_task.order.segments, "segment")
        require_result(chain_task)
        last_block = await _require_in_time(client, chain_task)
        bonds = bonds_of(chain_task)
        covered = sum(min(slot.collateral // 2, chain_task.terms.price_max) for slot in chain_task.slots)
        _require_own_segment(chain_task, named)
        terms = {
            **facts(task_id, chain_task),
            "disputable_up_to_block": last_block,
            "time_left": time_left(await read_time(client, await client.finalized()), last_block),
            "segment": named,
            "bond": Grains(sum(bonds)),
            "gone_if_lost": Grains(sum(bonds)),
            "brings_if_won": Grains(covered),
        }
        call = TrainingMarket.dispute(task=task_id, segment=named)
        return planned(session.output, call, terms, locks=sum(bonds))

    make(session, key_text, sending, plan)


def _require_judged(task: Task) -> None:
    """Raise TaskError for replicas."""
    if is_replicated(task.order):
        raise TaskError(
            "the majority of its replicas decides about the result, and nobody can dispute it. Read another replica's "
            "output with `ogpu task result --place N`",
            code="not_disputable",
        )


async def _require_not_late(client: ChainClient, task: Task) -> None:
    """Raise TaskError for a result that can no longer be disputed. A task without a result yet passes."""
    if task.state not in NO_RESULT_YET:
        require_result(task)
        await _require_in_time(client, task)


async def _require_in_time(client: ChainClient, task: Task) -> int:
    """Return the last block of the dispute window. Raise TaskError if it has passed."""
    last_block = task.finished_at + task.windows.dispute
    if await client.height(await client.finalized()) >= last_block:
        raise TaskError(
            f"the dispute window ended after block {last_block}. The result is paid, unless an audit refutes it",
            code="too_late",
        )
    return last_block


def bonds_of(task: Task) -> list[int]:
    """Return the bonds of a dispute: the judges of each slot."""
    return [money.dispute_bond(task.rules, task.terms.price_max, slot.price) for slot in task.slots]


def _require_own_segment(task: Task, segment: int | None) -> None:
    own = own_segments(task)
    if segment is not None:
        _require_trace(task)
    if segment is None or segment in own:
        return
    raise TaskError(
        f"the provider of the result computed segments {own.start} to {own.stop - 1}. Name one of these",
        code="segment_unknown",
    )


def _require_trace(task: Task) -> None:
    if not task.order.segments:
        raise TaskError("the run has no trace, so no segment can be named. Judges compute all of it", code="no_trace")


async def _recomputed_segment(
    session: WalletSession, client: ChainClient, keypair: Keypair, task_id: bytes, task: Task, backend: str
) -> tuple[Task, int | None]:
    """Return a task with its result, and the first segment that differs from the run computed here, or None."""
    _require_trace(task)
    if task.state not in NO_RESULT_YET:
        require_result(task)
    async with BlobClient(private=market_reads.is_development(client)) as blob_client:
        providers = await market_reads.providers(client, await client.finalized())
        with session.doing(
            f"this machine recomputes the run on {backend}. If you interrupt it, the computed part is lost"
        ):
            own_digests = await right_digests(
                blob_client, keypair, task, providers, backend, Tenths(task.order.segments, "segments")
            )
        with session.doing("the run is computed here. Waiting for the task's result, then its trace is fetched"):
            task = await _with_result(client, task_id, task)
            # Endpoints may have changed during hours of computing.
            providers = await market_reads.providers(client, await client.finalized())
            return task, first_wrong_segment(
                task, own_digests, await stated_digests(blob_client, keypair, task, providers)
            )


async def _with_result(client: ChainClient, task_id: bytes, task: Task) -> Task:
    """Return the task once it has a result. Raise TaskError if it ends without one."""
    if task.state in NO_RESULT_YET:
        note("the run is computed here. Waiting for the task's result")
        async for _ in await client.finalized_heads():
            task = await known_task(client, task_id, await client.finalized())
            if task.state not in NO_RESULT_YET:
                break
    require_result(task)
    return task


# Judges check a fifth of a run, and all of a named segment. Computing needs no result, so it can start early. It runs
# beside the event loop, and only hashes are compared.
OnComputed = Callable[[int], None]
"""Receives the number of computed segments."""


async def right_digests(
    blob_client: BlobClient,
    keypair: Keypair,
    task: Task,
    providers: dict[bytes, Provider],
    backend: str,
    tell: OnComputed,
) -> Sequence[bytes]:
    """Compute a task's run here, and return the hashes of all its states.

    Raise RunBlobError if the input is unavailable, or this machine cannot compute the workload.
    """
    request = await fetch_input(blob_client, keypair, task, providers)
    return await asyncio.to_thread(_computed_digests, task, request, backend, tell)


def first_wrong_segment(task: Task, own_digests: Sequence[bytes], stated: Sequence[bytes]) -> int | None:
    """Return the first segment of the newest leg that is wrong in the stated trace; None if the trace is right.

    Raise RunBlobError if an earlier segment is wrong: the last provider did not compute it.
    """
    differs = next((number for number, digest in enumerate(own_digests) if stated[number] != digest), None)
    if differs is None:
        return None
    # A segment ends with the state after it, so the first wrong state belongs to the segment before.
    segment, own = max(0, differs - 1), own_segments(task)
    if segment not in own:
        raise RunBlobError(
            f"state {differs} of the trace differs from the run, but the provider of the result only answers for "
            f"segments from {own.start} on. Dispute without --segment: judges compare its start with the newest "
            "valid checkpoint",
            code="differs_earlier",
        )
    return segment


def _computed_digests(task: Task, request: bytes, backend: str, tell: OnComputed) -> Sequence[bytes]:
    workload_form = registry.form_of(task.order.workload)
    if workload_form is None or not workload_form.is_stepwise:
        raise RunBlobError(
            "this program does not know the task's workload. Use a newer version", code="workload_unknown"
        )
    try:
        workload = workload_form.open(backend)
    except (LookupError, ImportError) as error:
        raise RunBlobError(
            f"this machine cannot compute it: {error}. Name another --backend", code="backend_unusable"
        ) from error
    digests, run = [], stepwise(workload).begin(request)
    if run.segments != task.order.segments:
        raise RunBlobError(
            f"the input asks for {run.segments} segments, and the task for {task.order.segments}",
            code="segments_differ",
        )
    for number, state in enumerate(states(run)):
        digests.append(state_hash(state))
        tell(number)
    return digests
