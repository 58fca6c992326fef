"""The end of a unit: its state in words, its cost, its checked completion, and its payments.

Racers, fees and premium follow from the unit's record. The payments of a case and the winner's rebate come from the
block of the end: the chain's own rules over the state before that block, and the block's events. Both are proved, and
available while the node keeps them.

Invariants:

* A completion is shown only if the chain paid for it: its hash, with unit and salt, is the settled `output_root`.
* The payments from the customer's money add up to the recorded cost of a settled unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from gpu_tasks.batches.outcomes import BatchOutcome, Completed
from gpu_tasks.data import market_reads
from gpu_tasks.data.appeals import flows_at_end
from gpu_tasks.data.blob_client import FETCH_SECONDS, PATIENCE_SECONDS, BlobClient, BlobError, stores_for
from gpu_tasks.data.market_reads import endpoint_of, endpoints_of
from gpu_tasks.data.pieces import PiecesError, gathered
from gpu_tasks.data.sealing import SealError, SealKey
from gpu_tasks.data.side_by_side import side_by_side
from gpu_tasks.data.unit_input import UnitInput, commitment_of, content_max, decode_input
from gpu_tasks.data.unit_output import UnitOutput, read_output, requests_of
from gpu_tasks.market.courts.cases import AUDIT_POT, CourtCase
from gpu_tasks.market.courts.events import CaseEnded
from gpu_tasks.market.courts.money import Flow, Purse
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.inference import money, race_results
from gpu_tasks.market.inference.events import ProviderRebated, UnitRefunded, UnitSettled
from gpu_tasks.market.inference.money import due
from gpu_tasks.market.inference.race_results import result
from gpu_tasks.market.inference.units import Racer, Refund, Unit, UnitState
from gpu_tasks.workloads import model_forms
from gpu_tasks.workloads.form import WorkloadForm
from runtime.cryptography import ss58
from runtime.encoding.codec import DecodeError
from runtime.pallets.pots import PROVIDER_REWARDS, TREASURY
from wallet.client import ChainClient
from wallet.errors import WalletError
from wallet.keypair import Keypair
from wallet.rpc import OddAnswerError, RpcError
from wallet.trial import TrialError, over_state

NO_REQUEST = "the request is invalid for this workload: it was not computed, and it costs nothing"


class ResultError(WalletError):
    """The completion cannot be shown. The text gives the reason and the next step."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A prompt and its output, as the form shows them. The output is None for an invalid request."""

    prompt: str
    output: str | None


def answer_rows(completions: Sequence[Completion]) -> list[dict[str, Any]]:
    """Return the answers of a batch for programs, in the order of its requests."""
    return [{"index": index, **asdict(completion)} for index, completion in enumerate(completions)]


@dataclass(frozen=True, slots=True)
class PaidOutput:
    """The requests and the paid outcomes, as bytes. `form` is None if this program does not know the workload."""

    requests: tuple[bytes, ...]
    outcomes: tuple[BatchOutcome, ...]
    form: WorkloadForm | None
    salt: bytes
    """The salt of the sealed input, which the hashes of leaves include."""

    @property
    def outputs(self) -> tuple[bytes | None, ...]:
        """The output of each request. None for an invalid request."""
        return tuple(outcome.output if isinstance(outcome, Completed) else None for outcome in self.outcomes)

    def shown(self) -> tuple[Completion, ...]:
        """Return the completions as the form shows them, or in hexadecimal digits without a form."""
        return tuple(
            Completion(_shown_request(self.form, request), _shown_output(self.form, output))
            for request, output in zip(self.requests, self.outputs, strict=True)
        )


def winner_of(unit: Unit) -> Racer | None:
    """Return the racer that was paid the price, or None before the end or without a result."""
    if unit.state is not UnitState.SETTLED or unit.output_root is None:
        return None
    outcome = result(unit.racers, unit.output_root)
    return outcome.winner if outcome else None


def cost_of(unit: Unit) -> int:
    """Return the cost of a settled unit without fees: price, premium, and a witness or the judges of a lone answer.

    The price came back if an audit refuted the result, or if a case found a liar before the settlement.
    """
    if _has_liar(unit):
        return unit.paid - unit.price
    winner = winner_of(unit)
    return unit.paid - due(unit, winner) if unit.is_refuted and winner is not None else unit.paid


def _has_liar(unit: Unit) -> bool:
    """Return True if a case settled the unit and refuted a racer, by its answer or by an unrevealed commitment."""
    if unit.output_root is None:
        return False
    reveals = [racer.reveal.output_root for racer in unit.racers if racer.reveal is not None]
    if any(root != unit.output_root for root in reveals):
        return True
    # A lone answer goes to a case. A racer that committed to another answer and never revealed it counts as a liar.
    withheld = any(racer.commitment is not None and racer.reveal is None for racer in unit.racers)
    return len(reveals) == 1 and withheld


def attested_at(unit: Unit) -> int | None:
    """Return the block with the winner's attestation."""
    winner = winner_of(unit)
    return winner.reveal.revealed_at if winner and winner.reveal else None


def progress(unit: Unit) -> str:
    """Return a unit's state with its progress."""
    if unit.is_refuted:
        return "settled, and refuted by an audit"
    if unit.state is not UnitState.RACING:
        return unit.state.name.lower()
    committed = sum(racer.commitment is not None for racer in unit.racers)
    revealed = sum(racer.reveal is not None for racer in unit.racers)
    refilling = ", a declined place is redrawn" if unit.is_refilling else ""
    return f"racing, {committed} committed, {revealed} revealed{refilling}"


async def completions_of(
    client: ChainClient,
    blob_client: BlobClient,
    keypair: Keypair,
    unit_id: bytes,
    unit: Unit,
    block_hash: bytes | None = None,
) -> tuple[Completion, ...]:
    """Return the completions of a settled unit. `block_hash` is the block whose stores are asked.

    Raise ResultError, with the next step, if they cannot be shown.
    """
    return (await paid_output(client, blob_client, keypair, unit_id, unit, block_hash)).shown()


async def paid_output(
    client: ChainClient,
    blob_client: BlobClient,
    keypair: Keypair,
    unit_id: bytes,
    unit: Unit,
    block_hash: bytes | None = None,
) -> PaidOutput:
    """Fetch, open and check the bytes that a settled unit was paid for.

    Raise ResultError, with the next step, if that fails.
    """
    _require_result(unit, keypair)
    providers = await market_reads.providers(client, block_hash)
    asked = await _opened_input(blob_client, keypair, unit, endpoints_of(providers))
    form = await _form_of_unit(client, unit, block_hash)
    outcomes = await outcomes_served(client, blob_client, keypair, unit_id, unit, asked.salt, providers)
    return PaidOutput(_input_requests(asked, unit), outcomes, form, asked.salt)


async def salt_of(blob_client: BlobClient, keypair: Keypair, unit: Unit, providers: dict[bytes, Provider]) -> bytes:
    """Return the salt of a settled unit's input, for checking outputs, so the input is fetched once.

    Raise ResultError.
    """
    _require_result(unit, keypair)
    return (await _opened_input(blob_client, keypair, unit, endpoints_of(providers))).salt


async def outcomes_served(
    client: ChainClient, blob_client: BlobClient, keypair: Keypair, unit_id: bytes, unit: Unit, salt: bytes,
    providers: dict[bytes, Provider],
) -> tuple[BatchOutcome, ...]:  # fmt: skip
    """Return the paid outcomes from any racer that serves them. Raise ResultError if none does."""

    async def served(blob: bytes, endpoint: str) -> UnitOutput | None:
        content = await _fetched_output(blob_client, SealKey.of(keypair), blob, endpoint)
        if content is None:
            return None
        output = read_output(client.genesis_hash, unit_id, salt, content, unit.terms.requests)
        # A racer may serve other bytes than it was paid for, so only an output with the settled root counts.
        return output if output is not None and output.root == unit.output_root else None

    attempts = [partial(served, blob, endpoint) for blob, endpoint in _served_outputs(unit, providers)]
    # One correct output is enough, so a slow or lying racer delays nothing.
    outputs = await side_by_side(attempts, wanted=1, patience_seconds=PATIENCE_SECONDS, deadline_seconds=FETCH_SECONDS)
    if not outputs:
        raise ResultError("no provider serves the paid output at the moment. Try again later", code="no_output")
    return outputs[0].outcomes


def _require_result(unit: Unit, keypair: Keypair) -> None:
    """Raise ResultError if the unit has no result, or none that the key opens."""
    if unit.state is not UnitState.SETTLED or unit.output_root is None:
        raise ResultError(
            f"the unit has no result: it is {progress(unit)}. Follow it with `ogpu unit watch`", code="no_result"
        )
    if unit.is_refuted:
        raise ResultError(
            "an audit refuted the result, and the price was returned. Post the unit again", code="refuted"
        )
    if unit.customer != keypair.account:
        reason = f"the unit belongs to {ss58.encode(unit.customer)}. Only the key that posted it can open its result"
        raise ResultError(reason, code="not_customer")


def _served_outputs(unit: Unit, providers: dict[bytes, Provider]) -> Iterator[tuple[bytes, str]]:
    """Yield the blobs of the racers with the settled result, and their endpoints."""
    for racer in unit.racers:
        endpoint = endpoint_of(providers[racer.owner]) if racer.owner in providers else None
        if endpoint is not None and racer.reveal is not None and racer.reveal.output_root == unit.output_root:
            yield racer.reveal.output_blob, endpoint


async def _opened_input(blob_client: BlobClient, keypair: Keypair, unit: Unit, endpoints: list[str]) -> UnitInput:
    """Return the input that was sealed for the racers, checked against the chain's hash."""
    try:

        async def fetched(address: bytes) -> bytes:
            return await blob_client.get(address, stores_for(address, endpoints))

        stored = await gathered(await fetched(unit.terms.input_root), fetched, content_max(unit.terms.requests))
        content = SealKey.of(keypair).open(stored)
        if commitment_of(content) != unit.terms.input_commitment:
            raise ResultError("the stored input is not the posted one. Try another node", code="wrong_input")
        return decode_input(content)
    except SealError as error:
        reason = f"this key cannot open the input: {error}. Is --key the customer's?"
        raise ResultError(reason, code="sealed_input") from error
    except (BlobError, DecodeError, PiecesError) as error:
        raise ResultError(f"no store serves the input: {error}", code="no_input") from error


async def _form_of_unit(client: ChainClient, unit: Unit, block_hash: bytes | None) -> WorkloadForm | None:
    """Return the form of the unit's workload.

    Return None if this program does not know it, or if the chain has forgotten a closed service.
    """
    service = await market_reads.service(client, unit.service, block_hash)
    return None if service is None else model_forms.form_of(service.terms.workload, service.terms.model)


def _shown_request(workload_form: WorkloadForm | None, request: bytes) -> str:
    if workload_form is None:
        return _hex_text(request)
    try:
        return workload_form.show_request(request)
    # Another program posted an invalid request, and its readers declined it.
    except DecodeError:
        return _hex_text(request)


def _input_requests(asked: UnitInput, unit: Unit) -> tuple[bytes, ...]:
    try:
        return requests_of(asked, unit.terms.requests)
    except DecodeError as error:
        raise ResultError(f"the input does not match the unit: {error}", code="wrong_input") from error


def _shown_output(workload_form: WorkloadForm | None, output: bytes | None) -> str | None:
    if output is None:
        return None
    return _hex_text(output) if workload_form is None else workload_form.show_output(output)


def _hex_text(data: bytes) -> str:
    return "0x" + data.hex()


async def _fetched_output(blob_client: BlobClient, own: SealKey, address: bytes, endpoint: str) -> bytes | None:
    try:
        return own.open(await blob_client.get(address, [endpoint]))
    except (BlobError, SealError):
        return None


REASONS = {
    Refund.CANCELLED: "cancelled by the key that posted it",
    Refund.EXPIRED: "no result within the time limit of a unit",
    Refund.INPUT_BAD: "a committee found its input unusable",
    Refund.INCONCLUSIVE: "no committee could decide; its bond is lost if too few judges could get its input",
}


def why_refunded(unit: Unit) -> str:
    """Return a sentence with the block and the reason of a refund."""
    assert unit.refund is not None, "a refunded unit says why"
    return f"refunded in block {unit.ended_at}: {REASONS[unit.refund]}"


OF_CUSTOMER = "the customer"
CUSTOMER_PURSES = (Purse.CUSTOMER_BOND, Purse.CUSTOMER_PRICE, Purse.CUSTOMER_SPARE)


@dataclass(frozen=True, slots=True)
class UnitPayment:
    """Grains that an account received, or that burned, with their payer as an account and in words."""

    role: str
    account: bytes | None
    grains: int
    payer: bytes
    source: str = OF_CUSTOMER


@dataclass(frozen=True, slots=True)
class UnitEnd:
    """The facts that the block of the end adds to the record: its events, and the money that a case moved."""

    events: tuple[object, ...]
    case: CourtCase | None = None
    flows: tuple[Flow, ...] = ()


async def payments_of(client: ChainClient, unit_id: bytes, unit: Unit) -> tuple[list[UnitPayment], bool]:
    """Return all payments of an ended unit, and True if they are complete."""
    payments = _by_record(unit) if unit.state is UnitState.SETTLED else []
    ending = await _end_facts(client, unit_id, unit)
    if ending is None:
        unnamed_grains = unit.paid - sum(payment.grains for payment in payments)
        if unnamed_grains:
            payments.append(UnitPayment(_unnamed_payees(unit), None, unnamed_grains, unit.customer))
        return payments, unit.refund in (Refund.CANCELLED, Refund.EXPIRED)
    auditor_payments = _for_the_auditor(unit) if payments and ending.case is None else []
    return [
        *payments,
        *auditor_payments,
        *case_payments(unit, ending.case, ending.flows),
        *_of_events(unit_id, unit, ending),
    ], True


def _by_record(unit: Unit) -> list[UnitPayment]:
    winner = winner_of(unit)
    assert winner is not None, "a settled unit has a winner"
    assert unit.output_root is not None, "a settled unit has a result"
    outcome = race_results.result(unit.racers, unit.output_root)
    witness = outcome.witness if outcome is not None else None
    shares = money.settlement(unit, unit.escrow + unit.bond, winner=winner, witness=witness, treasury=TREASURY)
    roles: dict[bytes | None, str] = {None: "burned", TREASURY: "fee", AUDIT_POT: "audit premium"}
    roles[winner.owner] = "winner"
    if witness is not None:
        roles[witness.owner] = "witness"
    sums: dict[bytes | None, int] = {}
    for share in shares:
        if share.payee != unit.customer:
            sums[share.payee] = sums.get(share.payee, 0) + share.amount
    return [UnitPayment(roles[payee], payee, grains, unit.customer) for payee, grains in sums.items()]


def _for_the_auditor(unit: Unit) -> list[UnitPayment]:
    """Return the payment that waits for the end of a batch's check.

    Its auditor or the audit pot then receives it.
    """
    if not unit.leaf_audit_ppm:
        return []
    fee = money.check_fee(unit.rules, unit.price, unit.terms.requests)
    return [UnitPayment("auditor of its leaves, or audit pot", None, fee, unit.customer)]


def _unnamed_payees(unit: Unit) -> str:
    """Return the payees of the customer's money that the record does not name."""
    if unit.state is UnitState.SETTLED:
        return "judges, or the auditor of its leaves" if unit.leaf_audit_ppm else "judges"
    return "burned" if unit.refund is Refund.CANCELLED else "judges, or burned"


def case_payments(unit: Unit, case: CourtCase | None, flows: Sequence[Flow]) -> list[UnitPayment]:
    """Return the payments of a case about a unit or its leaves."""
    roles = {unit.customer: "customer, price returned"}
    if case is not None and case.appeal is not None:
        roles[case.appeal.appellant] = "appellant"
    payments = []
    for flow in flows:
        role = "burned" if flow.payee is None else roles.get(flow.payee, "judge")
        source = OF_CUSTOMER if flow.purse in CUSTOMER_PURSES else flow.purse.value
        payments.append(UnitPayment(role, flow.payee, flow.amount, flow.source, source))
    return payments


def _of_events(unit_id: bytes, unit: Unit, ending: UnitEnd) -> list[UnitPayment]:
    """Return the end's own payments, which no record has.

    A rebate comes right before the event of its settlement.
    """
    payments, event_before = [], None
    for event in ending.events:
        if isinstance(event, UnitSettled) and event.unit == unit_id and isinstance(event_before, ProviderRebated):
            payments.append(
                UnitPayment(
                    "winner, fee rebate", event_before.provider, event_before.amount, PROVIDER_REWARDS, "the emission"
                )
            )
        if isinstance(event, UnitRefunded) and event.unit == unit_id:
            burned = unit.paid - sum(flow.amount for flow in ending.flows if flow.purse in CUSTOMER_PURSES)
            payments += [UnitPayment("burned", None, burned, unit.customer)] if burned else []
        event_before = event
    return payments


async def _end_facts(client: ChainClient, unit_id: bytes, unit: Unit) -> UnitEnd | None:
    """Return the facts of the end's block and of the state before it, or None if the node lacks one."""
    try:
        block = await client.block_id(unit.ended_at)
        events = tuple(record.event for record in await client.events(block))
        case_end = next((event for event in events if isinstance(event, CaseEnded) and event.case == unit_id), None)
        if not any(isinstance(event, UnitSettled | UnitRefunded) and event.unit == unit_id for event in events):
            return None  # The events are of another block than the record names.
        if case_end is None:
            return UnitEnd(events)
    except (RpcError, OddAnswerError):
        return None
    moved = await moved_by(client, unit.ended_at, case_end)
    return None if moved is None else UnitEnd(events, *moved)


async def moved_by(client: ChainClient, height: int, case_end: CaseEnded) -> tuple[CourtCase, tuple[Flow, ...]] | None:
    """Return a case that ended in a block with its payments, or None if the node lacks the state before."""
    try:
        before = await client.block_id(height - 1)
        return await over_state(client, before, lambda bound: flows_at_end(bound, case_end.case, case_end))
    except (RpcError, OddAnswerError, TrialError):
        return None
