"""From lines of a file to what units are posted with: write each request, seal it, store it.

Always: what a request is, the form of the service's workload says; an input is stored before its unit is posted, so no
racer is drawn for what cannot be had; what is locked and what may be spent is known, to the grain, before anything is
sent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpu_tasks.client.posting_kind import PostingKind, UnitPosting
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.market_reads import endpoints_of, keys_at
from gpu_tasks.data.placement import COPIES, stores_for
from gpu_tasks.data.sealing import READERS_MAX, SealKey, address_of, seal
from gpu_tasks.data.unit_input import commitment_of, encode_input
from gpu_tasks.market.inference.inference import UNITS_PER_POST_MAX
from gpu_tasks.market.inference.services import Service
from gpu_tasks.market.inference.units import UnitTerms
from gpu_tasks.workloads.form import RequestError, WorkloadForm, settings
from wallet.amounts import format_amount
from wallet.client import ChainClient, Payer
from wallet.errors import WalletError
from wallet.keypair import Keypair

PROMPTS_MAX = 4_096
SEALED_AT_ONCE = 8
SEED_BYTES = 32
PROMPT_FILE_BYTES_MAX = 4 * 1024 * 1024


class PostError(WalletError):
    """The units cannot be posted as asked."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the customer asks of every unit. The price is in grains."""

    service: int
    cost_max: int
    """In the workload's unit of cost; on the chain: `tokens_max`."""
    options: Mapping[str, str]
    """What is set for the workload, by name."""
    racers: int
    price_max: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """What one unit asks, and in which line of the file it stands."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class PostingCost:
    """What posting costs, in grains."""

    units: int
    locked: int
    """Held until the units end: price, premium, customer's bond; for a witness or two judges where two or more race.

    And a deposit, which is held until the record of the unit is dropped.
    """
    prepaid: int
    """Gone at once, for the duty calls that the units cause."""
    fees: int
    """Transaction fees and tips."""
    most: int
    """The most that can be gone in the end."""

    @property
    def needed(self) -> int:
        """What the account must be able to spend when it posts."""
        return self.locked + self.prepaid + self.fees


def read_prompts(data: bytes) -> list[Prompt]:
    r"""One prompt a line; empty lines do not count, and `\n` in a line is a line break of its prompt. PostError."""
    if len(data) > PROMPT_FILE_BYTES_MAX:
        raise PostError(f"the file has {len(data):,} bytes: at most {PROMPT_FILE_BYTES_MAX:,}; split it")
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise PostError(f"the file is not UTF-8 at byte {error.start}: save it as UTF-8") from None
    prompts = [Prompt(number, line.replace("\\n", "\n")) for number, line in enumerate(lines, 1) if line.strip()]
    if not 1 <= len(prompts) <= PROMPTS_MAX:
        raise PostError(f"the file has {len(prompts):,} prompts: give 1 to {PROMPTS_MAX:,}, one a line")
    return prompts


def requests_of(prompts: Sequence[Prompt], form: WorkloadForm, wish: Wish) -> list[bytes]:
    """The workload's requests, each with a seed of its own; PostError names the line that is none."""
    requests = []
    for prompt in prompts:
        try:
            requests.append(form.encode(prompt.text, wish.cost_max, wish.options, os.urandom(SEED_BYTES)))
        except RequestError as error:
            raise PostError(f"line {prompt.line}: {error}") from None
    return requests


def check_terms(service: Service, form: WorkloadForm, wish: Wish, price_from: str = "--price") -> None:
    """PostError where the service does not sell what is wished: each limit in the terms of its option."""
    terms = service.terms
    if not terms.price_min <= wish.price_max <= terms.price_max:
        raise PostError(
            f"{price_from} is {format_amount(terms.price_min)} to {format_amount(terms.price_max)} oGPU a unit "
            f"for service {wish.service}, not {format_amount(wish.price_max)}"
        )
    if not 1 <= wish.cost_max <= terms.tokens_max:
        raise PostError(
            f"--max-tokens is 1 to {terms.tokens_max} for service {wish.service}, in {form.cost_unit}s, "
            f"not {wish.cost_max}"
        )
    try:
        settings(form.options, wish.options)
    except RequestError as error:
        raise PostError(f"--set: {error}") from None


async def cost_of(client: ChainClient, payer: Payer, wish: Wish, count: int, tip: int = 0) -> PostingCost:
    """The exact cost of `count` units, with a tip for each extrinsic."""
    quote = await market_reads.quote(client, wish.service, wish.price_max, wish.racers)
    if quote is None:
        raise PostError(f"there is no service {wish.service}")
    dummy = UnitTerms(wish.price_max, wish.racers, bytes(32), bytes(32), 0, wish.cost_max)
    sizes = [len(part) for part in parts_of(range(count))]
    calls = {size: UnitPosting(wish.service).call([dummy] * size) for size in sorted(set(sizes))}
    fee_of = {size: await client.fee(call, payer, tip) for size, call in calls.items()}
    fees = sum(fee_of[size] + tip for size in sizes)
    return PostingCost(
        units=count,
        locked=count * quote.locked,
        prepaid=count * quote.prepaid,
        fees=fees,
        most=count * quote.cost_max + fees,
    )


@dataclass(frozen=True, slots=True)
class Sealer:
    """Seals and stores inputs for one customer and wish."""

    client: ChainClient
    blobs: BlobClient
    key: Keypair
    wish: Wish

    @property
    def kind(self) -> PostingKind:
        """Units of the service that is wished for."""
        return UnitPosting(self.wish.service)

    async def terms(self, requests: Sequence[bytes], tell: Callable[[], None]) -> Sequence[UnitTerms]:
        """Seal each request to all who may race or judge, and to the customer; store it; the terms to post.

        BlobError if some input could not be stored. Several go side by side, so a slow store holds none of them up.
        """
        client, wish = self.client, self.wish
        final = await client.finalized()
        sealed_at = await client.height(final)
        keys = keys_at(await market_reads.readers(client, wish.service, final), sealed_at)
        if not keys:
            raise PostError(
                f"service {wish.service} has no provider that inputs could be sealed to; see `ogpu providers`"
            )
        endpoints = endpoints_of(await market_reads.providers(client, final))
        turn = asyncio.Semaphore(SEALED_AT_ONCE)

        async def sealed(request: bytes) -> UnitTerms:
            async with turn:
                own = SealKey.of(self.key).public
                content = encode_input(os.urandom(32), own, request)
                blob = seal(content, [own, *keys[: READERS_MAX - 1]])
                address = address_of(blob)
                await self.blobs.put(blob, stores_for(address, endpoints), COPIES)
                tell()
            commitment = commitment_of(content)
            return UnitTerms(wish.price_max, wish.racers, address, commitment, sealed_at, wish.cost_max)

        tasks = [asyncio.create_task(sealed(request)) for request in requests]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def parts_of(places: Sequence[int]) -> list[Sequence[int]]:
    """What goes into one extrinsic each."""
    return [places[start : start + UNITS_PER_POST_MAX] for start in range(0, len(places), UNITS_PER_POST_MAX)]
