"""The kinds of postings, units and tasks, and the steps from lines to a unit's terms: encode, seal, store.

Invariants:

* The form of the service's workload defines a request.
* An input is stored before its unit is posted, so no racer is drawn for a missing input.
* The locked money and the greatest cost are known to the grain before anything is sent.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from typing import Any, Protocol, Self

from gpu_tasks.batches.requests import encode_requests, price_of, work_of
from gpu_tasks.client.buyer import Buyer
from gpu_tasks.client.offers.listing import NO_CLASS, USUAL, ClassWish, classes_for
from gpu_tasks.client.offers.outlook import lock_facts
from gpu_tasks.client.units.line_reader import BatchReader, LineTerms
from gpu_tasks.client.units.lines import LIST_BYTES, BatchFileError, FileForm, LineError
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import COPIES, BlobClient, stores_for
from gpu_tasks.data.market_reads import endpoints_of, keys_at
from gpu_tasks.data.pieces import in_pieces
from gpu_tasks.data.sealing import CONTENT_BYTES_MAX, LARGE_CONTENT_BYTES_MAX, READERS_MAX, SealKey, address_of, seal
from gpu_tasks.data.side_by_side import all_side_by_side
from gpu_tasks.data.unit_input import INPUT_BYTES_MAX, commitment_of, encode_input
from gpu_tasks.market.devices.records import CLASS_NAMES, DeviceClass
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.inference import UNITS_PER_POST_MAX, InferenceMarket
from gpu_tasks.market.inference.rules import UnitRules
from gpu_tasks.market.inference.services import Service, ServiceTerms
from gpu_tasks.market.inference.units import UNITS_OPEN_MAX, UnitTerms, unit_id_of
from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.tasks import Task, task_id_of
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.workloads.form import RequestError, WorkloadForm, settings
from runtime.frame.call import Call
from runtime.frame.runtime import Runtime, constant_value
from runtime.frame.storage import StorageItem
from wallet.amounts import Grains, format_amount
from wallet.client import ChainClient, Payer
from wallet.errors import WalletError
from wallet.keypair import Keypair

PROMPTS_MAX = 4_096
SEALED_AT_ONCE = 8
PROMPT_FILE_BYTES_MAX = 4 * 1024 * 1024
TASKS_LOOKED_AT = 64
"""The newest tasks searched for an earlier posting. A task's record has one or two KiB."""

PostedInput = tuple[bytes, int]
"""The hash of a sealed input, and the block in which it was posted."""


class SealedTerms(Protocol):
    """The terms of any posting. The input's hash identifies the posting."""

    @property
    def input_root(self) -> bytes:
        """The input's hash."""

    @property
    def sealed_at(self) -> int:
        """The height for which the input was sealed."""


@dataclass(frozen=True, slots=True)
class PostingKind:
    """A kind of posting, as the chain defines it."""

    noun: str
    counter: StorageItem
    """The number of an account's postings so far."""
    looked_at_max: int
    """The newest postings searched for an earlier one. It is a limit in case a node lies about their number."""
    sealed_age_max: Callable[[Runtime], int]
    """A function that returns the greatest age of a seal, in blocks."""
    id_of: Callable[[bytes, bytes, int], bytes]
    """A function that returns an id by genesis hash, account and number from 0."""
    call: Callable[[Sequence[Any]], Call]
    """A function that returns the call for posting terms."""
    inputs: Callable[[ChainClient, Sequence[bytes], bytes], Awaitable[list[PostedInput | None]]]
    """A function that reads the inputs of ids at a block; None for an unknown id."""


async def _unit_inputs(client: ChainClient, ids: Sequence[bytes], block_hash: bytes) -> list[PostedInput | None]:
    units = await market_reads.units(client, ids, block_hash)
    return [None if unit is None else (unit.terms.input_root, unit.posted_at) for unit in units]


async def _task_inputs(client: ChainClient, ids: Sequence[bytes], block_hash: bytes) -> list[PostedInput | None]:
    tasks: list[Task | None] = await client.read_many(TrainingMarket.tasks, ids, at=block_hash)
    return [None if task is None else (task.order.input_root, task.submitted_at) for task in tasks]


def unit_posting(service: int) -> PostingKind:
    """Return the posting of a service's units: several in one call."""
    return PostingKind(
        "unit",
        InferenceMarket.post_counts,
        UNITS_OPEN_MAX,
        partial(constant_value, InferenceMarket, InferenceMarket.sealed_age_max),
        unit_id_of,
        lambda terms: InferenceMarket.post(service=service, units=tuple(terms)),
        _unit_inputs,
    )


def _submit_call(terms: Sequence[TaskOrder]) -> Call:
    (order,) = terms
    return TrainingMarket.submit(order=order)


TASK_POSTING = PostingKind(
    "task",
    TrainingMarket.submission_counts,
    TASKS_LOOKED_AT,
    partial(constant_value, TrainingMarket, TrainingMarket.sealed_age_max),
    task_id_of,
    _submit_call,
    _task_inputs,
)


class PostError(WalletError):
    """The units cannot be posted as asked."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The customer's wish for every request, and the number of requests per unit."""

    service: int
    cost_max: int
    """The limit of a request, in the workload's unit of cost."""
    options: Mapping[str, str]
    """The workload options, by name."""
    racers: int
    rate_max: int
    """The highest price, in grains per thousand output tokens."""
    batch: int = 1
    """The most requests of a unit."""
    device_class: str = field(default=USUAL, repr=False)
    """The class of its racers (`CLASS_CHOICES`).

    It is no part of a posting's name, so another class posts nothing twice.
    """

    @property
    def classes(self) -> ClassWish:
        """The class of racers, and the price that decides which classes have enough of them."""
        return ClassWish(self.device_class, self.rate_max)

    @property
    def named_class(self) -> DeviceClass | None:
        """The class named by the customer. None if the program chooses it, or any may race."""
        return CLASS_NAMES.get(self.device_class)


@dataclass(frozen=True, slots=True)
class AskedUnit:
    """The request of one unit. Tokens and price are the sums of its requests' limits."""

    read: Callable[[], bytes]
    """A function that returns the requests as in the unit's input. Requests of a file are read on demand and not kept.
    """
    size: int
    """The bytes of the requests, or a little less."""
    count: int
    tokens_in: int
    tokens_max: int
    price_max: int
    """In grains."""

    @classmethod
    def of(cls, request: bytes, count: int, tokens_in: int, tokens_max: int, price_max: int) -> Self:
        """Return a unit whose requests are in memory."""
        return cls(lambda: request, len(request), count, tokens_in, tokens_max, price_max)

    @property
    def request(self) -> bytes:
        """The requests, as in the unit's input."""
        return self.read()


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of a request with its line in the file, or a label for the requests of a unit."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class PostingCost:
    """The cost of posting, in grains."""

    units: int
    locked: int
    """Held until the units end: price, the most that checks can cost, the customer's bond, and with two or more racers
    the pay of a witness.

    A deposit is included. It is held until the unit's record is dropped."""
    prepaid: int
    """Spent at once, for the duty calls of the units."""
    fees: int
    """Transaction fees and tips."""
    most: int
    """The greatest possible cost."""
    locks: tuple[tuple[str, int], ...] = ()
    """The parts of `locked` by name."""

    def facts(self, *, is_for_programs: bool) -> dict[str, Any]:
        """Return all amounts."""
        return {
            "locked": Grains(self.locked),
            **lock_facts(self.locks, is_for_programs=is_for_programs),
            "prepaid": Grains(self.prepaid),
            "fees": Grains(self.fees),
            "most": Grains(self.most),
        }

    @property
    def needed(self) -> int:
        """The money that the account must be able to spend when it posts."""
        return self.locked + self.prepaid + self.fees

    @property
    def of_budget(self) -> int:
        """The part that counts for the caps of a budget: all but deposits and fees."""
        return self.locked + self.prepaid - dict(self.locks).get("deposit", 0)


def read_prompts(data: bytes, terms: LineTerms, *, is_told: bool = False) -> tuple[list[Prompt], list[bytes]]:
    """Return the prompt of each line that is not empty, and its request. Raise PostError for an invalid line.

    `is_told` means that the customer declared the lines to be prompts, also those that are JSON.
    """
    if len(data) > PROMPT_FILE_BYTES_MAX:
        reason = f"the file has {len(data):,} bytes, and the limit is {PROMPT_FILE_BYTES_MAX:,}. Split it"
        raise PostError(reason, code="file_too_large")
    try:
        reader = BatchReader(BytesIO(data), terms, FileForm.LINES if is_told else None)
        if reader.form is not FileForm.LINES:
            raise PostError(
                "the lines are JSON requests. Add --out RESULTS, which answers such files, or --form lines if they are "
                "prompts",
                code="json_lines",
            )
        lines = list(reader)
    except BatchFileError as error:
        raise PostError(str(error), code="invalid_file") from None
    if len(lines) > PROMPTS_MAX:
        reason = f"the file has {len(lines):,} prompts. Give 1 to {PROMPTS_MAX:,}, one per line"
        raise PostError(reason, code="too_many_prompts")
    prompts, requests = [], []
    for line in lines:
        if isinstance(line, LineError):
            raise PostError(f"line {line.number}: {line.message}", code="invalid_line")
        prompts.append(Prompt(line.number, line.text))
        requests.append(terms.request(line))
    return prompts, requests


def units_of(
    prompts: Sequence[Prompt],
    requests: Sequence[bytes],
    workload_form: WorkloadForm,
    wish: Wish,
    service_terms: ServiceTerms,
) -> tuple[list[AskedUnit], list[Prompt]]:
    """Return the units for all requests in order, and a label of each. Raise PostError if one is too large."""
    units, labels = [], []
    for first in range(0, len(requests), wish.batch):
        unit_requests, unit_prompts = requests[first : first + wish.batch], prompts[first : first + wish.batch]
        units.append(_unit_of_requests(unit_requests, unit_prompts, workload_form, wish, service_terms))
        batch_label = Prompt(
            unit_prompts[0].line,
            f"{len(unit_prompts)} requests, lines {unit_prompts[0].line} to {unit_prompts[-1].line}",
        )
        labels.append(unit_prompts[0] if len(unit_prompts) == 1 else batch_label)
    return units, labels


def _unit_of_requests(
    unit_requests: Sequence[bytes],
    unit_prompts: Sequence[Prompt],
    workload_form: WorkloadForm,
    wish: Wish,
    service_terms: ServiceTerms,
) -> AskedUnit:
    size = sum(map(len, unit_requests))
    if size + (len(unit_requests) + 1) * LIST_BYTES > INPUT_BYTES_MAX:
        raise PostError(
            f"lines {unit_prompts[0].line} to {unit_prompts[-1].line} have {size:,} bytes of requests, and a unit "
            f"holds {INPUT_BYTES_MAX:,}. Give a smaller --batch",
            code="unit_too_large",
        )
    request = unit_requests[0] if len(unit_requests) == 1 else encode_requests(unit_requests)
    tokens_in = sum(workload_form.cost_in(unit_request) for unit_request in unit_requests)
    tokens_max = sum(workload_form.cost_asked(unit_request) for unit_request in unit_requests)
    price = price_of(wish.rate_max, work_of(service_terms.input_share, tokens_in, tokens_max))
    return AskedUnit.of(request, len(unit_requests), tokens_in, tokens_max, price)


def check_terms(service: Service, workload_form: WorkloadForm, wish: Wish, price_from: str = "--price") -> None:
    """Raise PostError if the service does not sell the wish. The text names the option with the limit."""
    terms = service.terms
    # The chain would refuse such units too, but only after their inputs are stored and a fee is paid.
    if not terms.price_min <= wish.rate_max <= terms.price_max:
        raise PostError(
            f"{price_from} is {format_amount(terms.price_min)} to {format_amount(terms.price_max)} oGPU per thousand "
            f"{workload_form.cost_unit}s for service {wish.service}, not {format_amount(wish.rate_max)}",
            code="price_not_sold",
        )
    if not 1 <= wish.cost_max <= terms.tokens_max:
        raise PostError(
            f"--max-tokens is 1 to {terms.tokens_max} for service {wish.service}, in {workload_form.cost_unit}s, "
            f"not {wish.cost_max}",
            code="tokens_not_sold",
        )
    try:
        settings(workload_form.options, wish.options)
    except RequestError as error:
        raise PostError(f"--set: {error}", code="invalid_option") from None


async def cost_of(
    client: ChainClient, payer: Payer, buyer: Buyer, service: int, racers: int, units: Sequence[AskedUnit],
    tip: int = 0,
) -> PostingCost:  # fmt: skip
    """Return the exact cost of the units, with a tip for each extrinsic."""
    counts = Counter(unit.price_max for unit in units)
    quotes = []
    for price, count in counts.items():
        quote = await market_reads.quote(client, service, price, racers)
        if quote is None:
            raise PostError(f"there is no service {service}. `ogpu offer services` lists all", code="unknown_service")
        quotes.append((count, quote))
    # A fee depends on the length and weight of a call, not on its hashes, so dummy terms stand for the real ones.
    dummy = UnitTerms(max((unit.price_max for unit in units), default=0), racers, bytes(32), bytes(32), 0, 1)
    sizes = [len(part) for part in parts_of(range(len(units)))]
    calls = {size: unit_posting(service).call([dummy] * size) for size in sorted(set(sizes))}
    fee_of = {size: await client.fee(buyer.call(call), payer, tip) for size, call in calls.items()}
    fees = sum(fee_of[size] + tip for size in sizes)
    locked, prepaid, most = (
        sum(count * getattr(quote, name) for count, quote in quotes) for name in ("locked", "prepaid", "cost_max")
    )
    return PostingCost(
        units=len(units),
        locked=locked,
        prepaid=prepaid,
        fees=fees,
        most=most + fees,
        locks=await _lock_parts(client, units, racers, locked, most - prepaid),
    )


async def _lock_parts(
    client: ChainClient, units: Sequence[AskedUnit], racers: int, locked: int, escrow: int
) -> tuple[tuple[str, int], ...]:
    """Return the parts of the money that units lock. `escrow` pays racers and at most two checks of each unit."""
    price = sum(unit.price_max for unit in units)
    deposit = len(units) * await client.read(InferenceMarket.unit_deposit.item)
    rules = UnitRules(witness_share=await client.read(InferenceMarket.witness_share.item))
    witness = sum(money.witness_pay(rules, unit.price_max) for unit in units) if racers > 1 else 0
    return (
        ("price", price),
        ("witness", witness),
        ("checks", escrow - price - witness),
        ("bond", locked - escrow - deposit),
        ("deposit", deposit),
    )


@dataclass(frozen=True, slots=True)
class Sealer:
    """Seals and stores inputs for one customer and service, and chooses each unit's device class."""

    client: ChainClient
    blobs: BlobClient
    key: Keypair
    service: int
    racers: int
    classes: ClassWish = NO_CLASS
    budget: Buyer | None = None
    """The buyer, if it is not the key alone."""

    @property
    def buyer(self) -> Buyer:
        """The account that posts, and the key that signs."""
        return self.budget or Buyer.alone(self.key.account)

    @property
    def kind(self) -> PostingKind:
        """The posting of the service's units."""
        return unit_posting(self.service)

    async def terms(self, requests: Sequence[AskedUnit], tell: Callable[[], None]) -> Sequence[UnitTerms]:
        """Seal each unit's input to all possible racers, checkers and the customer, store it, and return the terms.

        Raise BlobError if an input cannot be stored. Several are stored at once, so a slow store delays none of the
        others.
        """
        client = self.client
        final_hash = await client.finalized()
        sealed_at = await client.height(final_hash)
        # The chain draws only owners whose keys are as old as the seal, so one final block decides about both.
        keys = keys_at(await market_reads.readers(client, self.service, final_hash), sealed_at)
        if not keys:
            raise PostError(
                f"service {self.service} has no provider that can open inputs. `ogpu offer providers` lists all",
                code="no_reader",
            )
        endpoints = endpoints_of(await market_reads.providers(client, final_hash))
        class_of = await classes_for(client, self.service, self.buyer.principal, self.racers, self.classes, final_hash)
        large_inputs = asyncio.Lock()  # Large inputs one by one: each needs several times its size in memory.

        async def sealed(unit: AskedUnit) -> UnitTerms:
            async with large_inputs if unit.size > CONTENT_BYTES_MAX else nullcontext():
                own_key = SealKey.of(self.key).public
                # The commitment is public. Without a salt, anyone could test guesses of a short prompt against it.
                content = encode_input(os.urandom(32), own_key, unit.request)
                # The customer is the first reader, so it can open its input later with nothing but its key.
                pieces = in_pieces(seal(content, [own_key, *keys[: READERS_MAX - 1]], LARGE_CONTENT_BYTES_MAX))
                for piece in pieces:
                    await self.blobs.put(piece, stores_for(address_of(piece), endpoints), COPIES)
                tell()
            return UnitTerms(
                price_max=unit.price_max,
                racers=self.racers,
                input_root=address_of(pieces[-1]),
                input_commitment=commitment_of(content),
                sealed_at=sealed_at,
                tokens_max=unit.tokens_max,
                requests=unit.count,
                tokens_in=unit.tokens_in,
                device_class=class_of(),
            )

        return await all_side_by_side([partial(sealed, unit) for unit in requests], at_once=SEALED_AT_ONCE)


def parts_of(places: Sequence[int]) -> list[Sequence[int]]:
    """Return the places of each extrinsic."""
    return [places[start : start + UNITS_PER_POST_MAX] for start in range(0, len(places), UNITS_PER_POST_MAX)]
