"""The answer of a unit: its state in words, its checked completion, and the reason of a refund.

The customer can read an answer once a racer has claimed its pay for it. A check may still refute it.

Invariant: a completion is shown only if it is the claimed one: its hash, with unit and salt, is the `output_root`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from gpu_tasks.batches.outcomes import BatchOutcome, Completed
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import FETCH_SECONDS, PATIENCE_SECONDS, BlobClient, BlobError, stores_for
from gpu_tasks.data.market_reads import endpoint_of, endpoints_of
from gpu_tasks.data.pieces import PiecesError, gathered
from gpu_tasks.data.sealing import SealError, SealKey
from gpu_tasks.data.side_by_side import side_by_side
from gpu_tasks.data.unit_input import UnitInput, commitment_of, content_max, decode_input
from gpu_tasks.data.unit_output import UnitOutput, read_output, requests_of
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.inference.race_results import result
from gpu_tasks.market.inference.units import Racer, Refund, Unit, UnitState, is_open
from gpu_tasks.workloads import model_forms
from gpu_tasks.workloads.form import WorkloadForm
from runtime.cryptography import ss58
from runtime.encoding.codec import DecodeError
from wallet.client import ChainClient
from wallet.errors import WalletError
from wallet.keypair import Keypair

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


def claimant_of(unit: Unit) -> Racer | None:
    """Return the racer that claimed its pay for the unit's result, or None without a result."""
    outcome = None if unit.output_root is None else result(unit.racers, unit.output_root)
    return None if outcome is None else outcome.winner


def has_answer(unit: Unit) -> bool:
    """Return True if the unit has an answer: accepted, or claimed while its payment waits for a check."""
    return unit.state in (UnitState.CLAIMED, UnitState.SETTLED)


def is_at_work(unit: Unit) -> bool:
    """Return True if the unit has neither an answer nor an end."""
    return is_open(unit) and not has_answer(unit)


def winner_of(unit: Unit) -> Racer | None:
    """Return the racer with the unit's answer, which is paid once its claim has passed, or None without an answer."""
    return claimant_of(unit) if has_answer(unit) else None


def attested_at(unit: Unit) -> int | None:
    """Return the block with the winner's attestation."""
    winner = winner_of(unit)
    return winner.reveal.revealed_at if winner and winner.reveal else None


def progress(unit: Unit) -> str:
    """Return a unit's state with its progress."""
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
    """Return the completions of a unit with an answer. `block_hash` is the block whose stores are asked.

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
    """Fetch, open and check the bytes of a unit's answer.

    Raise ResultError, with the next step, if that fails.
    """
    _require_result(unit)
    providers = await market_reads.providers(client, block_hash)
    asked = await _opened_input(blob_client, keypair, unit, endpoints_of(providers))
    form = await _form_of_unit(client, unit, block_hash)
    outcomes = await outcomes_served(client, blob_client, keypair, unit_id, unit, asked.salt, providers)
    return PaidOutput(_input_requests(asked, unit), outcomes, form, asked.salt)


async def salt_of(blob_client: BlobClient, keypair: Keypair, unit: Unit, providers: dict[bytes, Provider]) -> bytes:
    """Return the salt of an answered unit's input, for checking outputs, so the input is fetched once.

    Raise ResultError.
    """
    _require_result(unit)
    return (await _opened_input(blob_client, keypair, unit, endpoints_of(providers))).salt


async def outcomes_served(
    client: ChainClient, blob_client: BlobClient, keypair: Keypair, unit_id: bytes, unit: Unit, salt: bytes,
    providers: dict[bytes, Provider],
) -> tuple[BatchOutcome, ...]:  # fmt: skip
    """Return the outcomes from any racer that serves them. Raise ResultError if none does."""

    async def served(blob: bytes, endpoint: str) -> UnitOutput | None:
        content = await _fetched_output(blob_client, SealKey.of(keypair), blob, endpoint)
        if content is None:
            return None
        output = read_output(client.genesis_hash, unit_id, salt, content, unit.terms.requests)
        # A racer may serve other bytes than it revealed, so only an output with the claimed root counts.
        return output if output is not None and output.root == unit.output_root else None

    attempts = [partial(served, blob, endpoint) for blob, endpoint in _served_outputs(unit, providers)]
    # One correct output is enough, so a slow or lying racer delays nothing.
    outputs = await side_by_side(attempts, wanted=1, patience_seconds=PATIENCE_SECONDS, deadline_seconds=FETCH_SECONDS)
    if not outputs:
        raise ResultError("no provider serves the output at the moment. Try again later", code="no_output")
    return outputs[0].outcomes


def _require_result(unit: Unit) -> None:
    """Raise ResultError if the unit has no result."""
    if unit.refund is Refund.REFUTED:
        raise ResultError("a check refuted the result, and the price was returned. Post the unit again", code="refuted")
    if not has_answer(unit):
        raise ResultError(
            f"the unit has no result: it is {progress(unit)}. Follow it with `ogpu unit watch`", code="no_result"
        )


def _served_outputs(unit: Unit, providers: dict[bytes, Provider]) -> Iterator[tuple[bytes, str]]:
    """Yield the blobs of the racers with the claimed result, and their endpoints."""
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
        reason = (
            f"this key cannot open the input of the unit, which belongs to {ss58.encode(unit.customer)}: {error}. Only "
            "the key that posted it can. Name it with --key"
        )
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
    Refund.INPUT_BAD: "voters found its input unusable, and its bond paid them",
    Refund.INCONCLUSIVE: "too few validators could vote, so nobody decided; its price and its bond came back",
    Refund.REFUTED: "a check refuted its result; the price came back, and the provider lost its collateral",
}


def why_refunded(unit: Unit) -> str:
    """Return a sentence with the block and the reason of a refund."""
    assert unit.refund is not None, "a refunded unit says why"
    return f"refunded in block {unit.ended_at}: {REASONS[unit.refund]}"
