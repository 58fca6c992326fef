"""From lines of a file to what units are posted with: write each request, seal it, store it.

Always: what a request is, the form of the service's workload says; an input is stored before its unit is posted, so no
racer is drawn for what cannot be had; what is locked and what may be spent is known, to the grain, before anything is
sent.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from gpu_tasks.batches.requests import encode_requests, price_of, work_of
from gpu_tasks.client.batches.prompt_text import (
    encoding_fault,
    first_line_fault,
    later_line_fault,
    line_text,
    unmarked,
)
from gpu_tasks.client.batches.splitting import LIST_BYTES
from gpu_tasks.client.class_choice import NO_CLASS, USUAL, ClassWish, classes_for
from gpu_tasks.client.posting_kind import PostingKind, UnitPosting
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import COPIES, BlobClient, stores_for
from gpu_tasks.data.market_reads import endpoints_of, keys_at
from gpu_tasks.data.pieces import in_pieces
from gpu_tasks.data.sealing import (
    CONTENT_BYTES_MAX,
    LARGE_CONTENT_BYTES_MAX,
    READERS_MAX,
    SealKey,
    address_of,
    seal,
)
from gpu_tasks.data.side_by_side import all_side_by_side
from gpu_tasks.data.unit_input import INPUT_BYTES_MAX, commitment_of, encode_input
from gpu_tasks.market.devices.records import CLASS_NAMES, DeviceClass
from gpu_tasks.market.inference.inference import UNITS_PER_POST_MAX
from gpu_tasks.market.inference.services import Service, ServiceTerms
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
    """What the customer asks of every request, and how requests are put into units."""

    service: int
    cost_max: int
    """Of a request, in the workload's unit of cost."""
    options: Mapping[str, str]
    """What is set for the workload, by name."""
    racers: int
    rate_max: int
    """Grains per thousand output tokens, at most."""
    batch: int = 1
    """Requests of a unit, at most."""
    device_class: str = field(default=USUAL, repr=False)
    """Of its racers (`CLASS_CHOICES`). Not in what names a posting: who asks otherwise posts nothing twice."""

    @property
    def named_class(self) -> DeviceClass | None:
        """The class that it names; None where it is left to the program, or any may race."""
        return CLASS_NAMES.get(self.device_class)


@dataclass(frozen=True, slots=True)
class UnitWish:
    """What one unit asks: its requests as its input holds them, their tokens and their price in grains, at most."""

    request: bytes
    count: int
    tokens_in: int
    tokens_max: int
    price_max: int

    @property
    def size(self) -> int:
        """Of the requests, in bytes."""
        return len(self.request)


class AskedUnit(Protocol):
    """What a `UnitWish` says, for units whose requests are not kept in memory."""

    @property
    def request(self) -> bytes:
        """Its requests, as its input holds them."""

    @property
    def size(self) -> int:
        """Of these, in bytes, or a little less: told without reading them."""

    @property
    def count(self) -> int:
        """How many."""

    @property
    def tokens_in(self) -> int:
        """Of all of them."""

    @property
    def tokens_max(self) -> int:
        """Of all answers, at most."""

    @property
    def price_max(self) -> int:
        """In grains."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a request asks, and in which line of the file it stands; or what stands for those of a unit."""

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


def read_prompts(data: bytes, *, is_told: bool = False) -> list[Prompt]:
    r"""One prompt a line; empty lines do not count, and `\n` in a line is a line break of its prompt. PostError.

    `is_told`: somebody said that its lines are prompts, also those that are JSON.
    """
    if len(data) > PROMPT_FILE_BYTES_MAX:
        raise PostError(f"the file has {len(data):,} bytes: at most {PROMPT_FILE_BYTES_MAX:,}; split it")
    if (fault := encoding_fault(data, is_first=True)) is not None:
        raise PostError(fault)
    lines = [line for line in enumerate(unmarked(data).split(b"\n"), 1) if line[1].strip()]
    if not is_told:
        _require_no_json(lines)
    prompts = []
    for number, line in lines:
        try:
            text = line_text(line)
        except UnicodeDecodeError as error:
            raise PostError(f"line {number} is not UTF-8 at its byte {error.start}: save the file as UTF-8") from None
        if text.strip():
            prompts.append(Prompt(number, text.replace("\\n", "\n")))
    if not 1 <= len(prompts) <= PROMPTS_MAX:
        raise PostError(f"the file has {len(prompts):,} prompts: give 1 to {PROMPTS_MAX:,}, one a line")
    return prompts


def _require_no_json(lines: Sequence[tuple[int, bytes]]) -> None:
    """Raise PostError if a line is JSON: files of requests need a file of results."""
    for place, (number, line) in enumerate(lines):
        fault = first_line_fault(line) if not place else None
        if fault is None and (line.lstrip().startswith(b"{") if not place else later_line_fault(line) is not None):
            fault = "is a request in JSON: add --out RESULTS, which answers files of such lines"
        if fault is not None:
            raise PostError(f"line {number} {fault}, or give --form lines if it is a prompt")


def requests_of(prompts: Sequence[Prompt], form: WorkloadForm, wish: Wish) -> list[bytes]:
    """The workload's requests, each with a seed of its own; PostError names the line that is none."""
    requests = []
    for prompt in prompts:
        try:
            requests.append(form.encode(prompt.text, wish.cost_max, wish.options, os.urandom(SEED_BYTES)))
        except RequestError as error:
            raise PostError(f"line {prompt.line}: {error}") from None
    return requests


def units_of(
    prompts: Sequence[Prompt], requests: Sequence[bytes], form: WorkloadForm, wish: Wish, sold: ServiceTerms
) -> tuple[list[UnitWish], list[Prompt]]:
    """The units that ask all requests, in their order, and what stands for each; PostError where one is too large."""
    units, named = [], []
    for first in range(0, len(requests), wish.batch):
        part, lines = requests[first : first + wish.batch], prompts[first : first + wish.batch]
        units.append(_unit_of(part, lines, form, wish, sold))
        named.append(lines[0] if len(lines) == 1 else _prompt_of(lines))
    return units, named


def _unit_of(
    part: Sequence[bytes], lines: Sequence[Prompt], form: WorkloadForm, wish: Wish, sold: ServiceTerms
) -> UnitWish:
    size = sum(map(len, part))
    if size + (len(part) + 1) * LIST_BYTES > INPUT_BYTES_MAX:
        raise PostError(
            f"lines {lines[0].line} to {lines[-1].line} have {size:,} bytes of requests, and a unit holds "
            f"{INPUT_BYTES_MAX:,}: give a smaller --batch"
        )
    request = part[0] if len(part) == 1 else encode_requests(part)
    tokens_in = sum(form.cost_in(each) for each in part)
    tokens_max = sum(form.cost_asked(each) for each in part)
    price = price_of(wish.rate_max, work_of(sold.input_share, tokens_in, tokens_max))
    return UnitWish(request, len(part), tokens_in, tokens_max, price)


def _prompt_of(lines: Sequence[Prompt]) -> Prompt:
    """What stands for the requests of a batch."""
    return Prompt(lines[0].line, f"{len(lines)} requests, lines {lines[0].line} to {lines[-1].line}")


def check_terms(service: Service, form: WorkloadForm, wish: Wish, price_from: str = "--price") -> None:
    """PostError where the service does not sell what is wished: each limit in the terms of its option."""
    terms = service.terms
    if not terms.price_min <= wish.rate_max <= terms.price_max:
        raise PostError(
            f"{price_from} is {format_amount(terms.price_min)} to {format_amount(terms.price_max)} oGPU per thousand "
            f"{form.cost_unit}s for service {wish.service}, not {format_amount(wish.rate_max)}"
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


async def cost_of(
    client: ChainClient, payer: Payer, service: int, racers: int, units: Sequence[AskedUnit], tip: int = 0
) -> PostingCost:
    """The exact cost of the units, with a tip for each extrinsic."""
    counts = Counter((unit.price_max, unit.count) for unit in units)
    quotes = []
    for (price, requests), count in counts.items():
        quote = await market_reads.quote(client, service, price, racers, requests)
        if quote is None:
            raise PostError(f"there is no service {service}")
        quotes.append((count, quote))
    dummy = UnitTerms(max((unit.price_max for unit in units), default=0), racers, bytes(32), bytes(32), 0, 1)
    sizes = [len(part) for part in parts_of(range(len(units)))]
    calls = {size: UnitPosting(service).call([dummy] * size) for size in sorted(set(sizes))}
    fee_of = {size: await client.fee(call, payer, tip) for size, call in calls.items()}
    fees = sum(fee_of[size] + tip for size in sizes)
    return PostingCost(
        units=len(units),
        locked=sum(count * quote.locked for count, quote in quotes),
        prepaid=sum(count * quote.prepaid for count, quote in quotes),
        fees=fees,
        most=sum(count * quote.cost_max for count, quote in quotes) + fees,
    )


@dataclass(frozen=True, slots=True)
class Sealer:
    """Seals and stores inputs for one customer and service, and says who shall race."""

    client: ChainClient
    blobs: BlobClient
    key: Keypair
    service: int
    racers: int
    classes: ClassWish = NO_CLASS

    @property
    def kind(self) -> PostingKind:
        """Units of the service that is wished for."""
        return UnitPosting(self.service)

    async def terms(self, requests: Sequence[AskedUnit], tell: Callable[[], None]) -> Sequence[UnitTerms]:
        """Seal each unit's input to all who may race or judge, and to the customer; store it; the terms to post.

        BlobError if some input could not be stored. Several go side by side, so a slow store holds none of them up.
        """
        client = self.client
        final = await client.finalized()
        sealed_at = await client.height(final)
        keys = keys_at(await market_reads.readers(client, self.service, final), sealed_at)
        if not keys:
            raise PostError(
                f"service {self.service} has no provider that inputs could be sealed to; see `ogpu providers`"
            )
        endpoints = endpoints_of(await market_reads.providers(client, final))
        class_of = await classes_for(client, self.service, self.key.account, self.racers, self.classes, final)
        large = asyncio.Lock()  # these one by one, for their memory

        async def sealed(unit: AskedUnit) -> UnitTerms:
            async with large if unit.size > CONTENT_BYTES_MAX else nullcontext():
                own = SealKey.of(self.key).public
                content = encode_input(os.urandom(32), own, unit.request)
                blobs = in_pieces(seal(content, [own, *keys[: READERS_MAX - 1]], LARGE_CONTENT_BYTES_MAX))
                for blob in blobs:
                    await self.blobs.put(blob, stores_for(address_of(blob), endpoints), COPIES)
                tell()
            return UnitTerms(
                price_max=unit.price_max,
                racers=self.racers,
                input_root=address_of(blobs[-1]),
                input_commitment=commitment_of(content),
                sealed_at=sealed_at,
                tokens_max=unit.tokens_max,
                requests=unit.count,
                tokens_in=unit.tokens_in,
                device_class=class_of(),
            )

        return await all_side_by_side([partial(sealed, unit) for unit in requests], at_once=SEALED_AT_ONCE)


def parts_of(places: Sequence[int]) -> list[Sequence[int]]:
    """What goes into one extrinsic each."""
    return [places[start : start + UNITS_PER_POST_MAX] for start in range(0, len(places), UNITS_PER_POST_MAX)]
