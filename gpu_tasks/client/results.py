"""What became of a unit: its state in words, what it cost, and its completion, fetched, opened, checked and shown.

Always: a completion is shown only if it is the one that the chain paid for: its hash, with unit and salt, is the
`output_root` that was settled.
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
from gpu_tasks.market.inference.money import due
from gpu_tasks.market.inference.race_results import result
from gpu_tasks.market.inference.units import Racer, Refund, Unit, UnitState
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.form import WorkloadForm
from runtime.cryptography import ss58
from runtime.encoding.codec import DecodeError
from wallet.client import ChainClient
from wallet.errors import WalletError
from wallet.keypair import Keypair

NO_REQUEST = "this is no request of the workload: nothing was computed, and nothing is paid for it"


class ResultError(WalletError):
    """The completion cannot be shown; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A prompt and what the network answered, as the form of the workload shows them; None where it is no request."""

    prompt: str
    output: str | None


def answer_rows(found: Sequence[Completion]) -> list[dict[str, Any]]:
    """The answers of a batch for programs, in the order of its requests."""
    return [{"index": index, **asdict(each)} for index, each in enumerate(found)]


@dataclass(frozen=True, slots=True)
class PaidOutput:
    """What was asked and what was paid for, byte for byte; no form where this program does not know the workload."""

    requests: tuple[bytes, ...]
    outcomes: tuple[BatchOutcome, ...]
    form: WorkloadForm | None
    salt: bytes
    """Of the sealed input: with it leaves are hashed."""

    @property
    def outputs(self) -> tuple[bytes | None, ...]:
        """What each request gave; None for one that is none."""
        return tuple(outcome.output if isinstance(outcome, Completed) else None for outcome in self.outcomes)

    def shown(self) -> tuple[Completion, ...]:
        """As the form shows them, in hexadecimal digits without one."""
        return tuple(
            Completion(_shown_request(self.form, request), _shown_output(self.form, output))
            for request, output in zip(self.requests, self.outputs, strict=True)
        )


def winner_of(unit: Unit) -> Racer | None:
    """Who was paid the price; None before the end, or without a result."""
    if unit.state is not UnitState.SETTLED or unit.output_root is None:
        return None
    outcome = result(unit.racers, unit.output_root)
    return outcome.winner if outcome else None


def cost_of(unit: Unit) -> int:
    """What a settled unit cost beside fees: price and premium, and a witness or the judges of a lone answer.

    Whose result an audit refuted paid the price back, and so did whom a case found to lie before it was settled.
    """
    if _has_liar(unit):
        return unit.paid - unit.price
    winner = winner_of(unit)
    return unit.paid - due(unit, winner) if unit.is_refuted and winner is not None else unit.paid


def _has_liar(unit: Unit) -> bool:
    """Whether a case settled the unit, and found wrong what a racer answered or never opened."""
    if unit.output_root is None:
        return False
    reveals = [racer.reveal.output_root for racer in unit.racers if racer.reveal is not None]
    if any(root != unit.output_root for root in reveals):
        return True
    # an answer that stayed alone is looked at: who committed to another, and never opened it, counts as a liar
    withheld = any(racer.commitment is not None and racer.reveal is None for racer in unit.racers)
    return len(reveals) == 1 and withheld


def attested_at(unit: Unit) -> int | None:
    """The block with the winner's attestation."""
    winner = winner_of(unit)
    return winner.reveal.revealed_at if winner and winner.reveal else None


def progress(unit: Unit) -> str:
    """A unit's state with what has happened in it."""
    if unit.is_refuted:
        return "settled, and refuted by an audit"
    if unit.state is not UnitState.RACING:
        return unit.state.name.lower()
    committed = sum(racer.commitment is not None for racer in unit.racers)
    revealed = sum(racer.reveal is not None for racer in unit.racers)
    refilling = ", a declined place is drawn again" if unit.is_refilling else ""
    return f"racing, {committed} committed, {revealed} revealed{refilling}"


async def completions_of(
    client: ChainClient, blobs: BlobClient, key: Keypair, unit_id: bytes, unit: Unit, at: bytes | None = None
) -> tuple[Completion, ...]:
    """The completions of a settled unit, whose stores are known at a block; ResultError, with what to do next."""
    return (await paid_output(client, blobs, key, unit_id, unit, at)).shown()


async def paid_output(
    client: ChainClient, blobs: BlobClient, key: Keypair, unit_id: bytes, unit: Unit, at: bytes | None = None
) -> PaidOutput:
    """The bytes that a settled unit was paid for, fetched, opened and checked; ResultError, with what to do next."""
    _require_result(unit, key)
    providers = await market_reads.providers(client, at)
    asked = await _input(blobs, key, unit, endpoints_of(providers))
    form = await _form_of(client, unit, at)
    outcomes = await outcomes_served(client, blobs, key, unit_id, unit, asked.salt, providers)
    return PaidOutput(_requests(asked, unit), outcomes, form, asked.salt)


async def salt_of(blobs: BlobClient, key: Keypair, unit: Unit, providers: dict[bytes, Provider]) -> bytes:
    """Of the input of a settled unit: with it what is served is checked, so the input is fetched once; ResultError."""
    _require_result(unit, key)
    return (await _input(blobs, key, unit, endpoints_of(providers))).salt


async def outcomes_served(
    client: ChainClient, blobs: BlobClient, key: Keypair, unit_id: bytes, unit: Unit, salt: bytes,
    providers: dict[bytes, Provider],
) -> tuple[BatchOutcome, ...]:  # fmt: skip
    """What a settled unit was paid for, of whichever of its racers serves it; ResultError where none does now."""

    async def served(blob: bytes, endpoint: str) -> UnitOutput | None:
        content = await _fetched(blobs, SealKey.of(key), blob, endpoint)
        if content is None:
            return None
        output = read_output(client.genesis_hash, unit_id, salt, content, unit.terms.requests)
        # any racer may serve other bytes than it was paid for: only what hashes to the settled root is shown
        return output if output is not None and output.root == unit.output_root else None

    tries = [partial(served, blob, endpoint) for blob, endpoint in _outputs(unit, providers)]
    found = await side_by_side(tries, wanted=1, patience_seconds=PATIENCE_SECONDS, deadline_seconds=FETCH_SECONDS)
    if not found:
        raise ResultError("no provider serves the output that was paid for now; try again later")
    return found[0].outcomes


def _require_result(unit: Unit, key: Keypair) -> None:
    """ResultError for a unit that has no result, or none that the key opens."""
    if unit.state is not UnitState.SETTLED or unit.output_root is None:
        raise ResultError(f"the unit is {progress(unit)}: it has no result; follow it with `ogpu watch`")
    if unit.is_refuted:
        raise ResultError("an audit found its result wrong, and the price came back: post it again")
    if unit.customer != key.account:
        raise ResultError(f"the unit is {ss58.encode(unit.customer)}'s: only the key that posted it opens its result")


def _outputs(unit: Unit, providers: dict[bytes, Provider]) -> Iterator[tuple[bytes, str]]:
    """Which blobs the racers who were right have, and where."""
    for racer in unit.racers:
        endpoint = endpoint_of(providers[racer.owner]) if racer.owner in providers else None
        if endpoint is not None and racer.reveal is not None and racer.reveal.output_root == unit.output_root:
            yield racer.reveal.output_blob, endpoint


async def _input(blobs: BlobClient, key: Keypair, unit: Unit, endpoints: list[str]) -> UnitInput:
    """What was sealed for the racers, as the chain's hash says."""
    try:

        async def fetched(address: bytes) -> bytes:
            return await blobs.get(address, stores_for(address, endpoints))

        stored = await gathered(await fetched(unit.terms.input_root), fetched, content_max(unit.terms.requests))
        content = SealKey.of(key).open(stored)
        if commitment_of(content) != unit.terms.input_commitment:
            raise ResultError("the stored input is another than the one that was posted")
        return decode_input(content)
    except SealError as error:
        raise ResultError(f"the input cannot be opened: {error}; is --key the customer's?") from error
    except (BlobError, DecodeError, PiecesError) as error:
        raise ResultError(f"the input is gone: {error}") from error


async def _form_of(client: ChainClient, unit: Unit, at: bytes | None) -> WorkloadForm | None:
    """The form of the unit's workload. None if this program does not know it, or the chain forgot a closed service."""
    service = await market_reads.service(client, unit.service, at)
    return None if service is None else registry.form_of(service.terms.workload)


def _shown_request(form: WorkloadForm | None, request: bytes) -> str:
    if form is None:
        return _in_hex(request)
    try:
        return form.show_request(request)
    except DecodeError:  # posted by another program, and declined by those who read it
        return _in_hex(request)


def _requests(asked: UnitInput, unit: Unit) -> tuple[bytes, ...]:
    try:
        return requests_of(asked, unit.terms.requests)
    except DecodeError as error:
        raise ResultError(f"the input is not what the unit says: {error}") from error


def _shown_output(form: WorkloadForm | None, output: bytes | None) -> str | None:
    if output is None:
        return None
    return _in_hex(output) if form is None else form.show_output(output)


def _in_hex(data: bytes) -> str:
    return "0x" + data.hex()


async def _fetched(blobs: BlobClient, own: SealKey, address: bytes, endpoint: str) -> bytes | None:
    try:
        return own.open(await blobs.get(address, [endpoint]))
    except (BlobError, SealError):
        return None


REASONS = {
    Refund.CANCELLED: "cancelled by the key that posted it",
    Refund.EXPIRED: "no result in the time that a unit may wait for one",
    Refund.INPUT_BAD: "a committee found that its input cannot be used",
    Refund.INCONCLUSIVE: "no committee could decide; the bond is gone if hardly a judge had its input",
}


def why_refunded(unit: Unit) -> str:
    """A sentence: in which block a refunded unit ended, and why."""
    assert unit.refund is not None, "a refunded unit says why"
    return f"refunded in block {unit.ended_at}: {REASONS[unit.refund]}"
