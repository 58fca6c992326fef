"""From prompts to units on the chain: seal each input, store it, post.

Always: an input is stored before its unit is posted, so no racer is drawn for what cannot be had; nothing is posted if
some input could not be stored; what is locked and what may be spent is known, to the grain, before anything is sent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.market_reads import endpoints_of
from gpu_tasks.data.placement import COPIES, stores_for
from gpu_tasks.data.sealing import READERS_MAX, SealKey, address_of, is_usable, seal
from gpu_tasks.data.unit_input import commitment_of, encode_input
from gpu_tasks.market.inference.events import UnitPosted
from gpu_tasks.market.inference.inference import UNITS_PER_POST_MAX, InferenceMarket
from gpu_tasks.market.inference.services import Service
from gpu_tasks.market.inference.units import UnitTerms
from gpu_tasks.workloads.textgen_int8.request import TEMPERATURE_MAX, CompletionRequest, context_length, encode_request
from runtime.frame.call import Call
from wallet.client import ChainClient, Outcome
from wallet.errors import WalletError
from wallet.keypair import Keypair

PROMPTS_MAX = 4_096
PROMPT_FILE_BYTES_MAX = 4 * 1024 * 1024


class PostError(WalletError):
    """The units cannot be posted as asked."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the customer asks of every unit. The price is in grains."""

    service: int
    max_tokens: int
    temperature_milli: int
    racers: int
    price_max: int


@dataclass(frozen=True, slots=True)
class PostingCost:
    """What posting costs, in grains."""

    units: int
    locked: int
    """Held until the units end: the price, a witness fee where two or more race, the customer's bond, a deposit."""
    prepaid: int
    """Gone at once, for the duty calls that the units cause."""
    fees: int
    """Transaction fees."""
    most: int
    """The most that can be gone in the end."""


@dataclass(frozen=True, slots=True)
class Posted:
    """A unit on the chain, with what it asks."""

    unit: bytes
    prompt: str
    block: int


def read_prompts(data: bytes) -> list[str]:
    r"""One prompt a line; empty lines do not count, and `\n` in a line is a line break of its prompt. PostError."""
    if len(data) > PROMPT_FILE_BYTES_MAX:
        raise PostError(f"the file has {len(data):,} bytes: at most {PROMPT_FILE_BYTES_MAX:,}; split it")
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise PostError(f"the file is not UTF-8 at byte {error.start}: save it as UTF-8") from None
    prompts = [line.replace("\\n", "\n") for line in lines if line.strip()]
    if not 1 <= len(prompts) <= PROMPTS_MAX:
        raise PostError(f"the file has {len(prompts):,} prompts: give 1 to {PROMPTS_MAX:,}, one a line")
    return prompts


def requests_of(prompts: Sequence[str], wish: Wish) -> list[bytes]:
    """The workload's requests, each with a seed of its own; PostError names the line that is too long."""
    if not 0 <= wish.temperature_milli <= TEMPERATURE_MAX:
        raise PostError(f"a temperature is 0 to {TEMPERATURE_MAX // 1000}")
    requests, context = [], context_length()
    for number, prompt in enumerate(prompts, 1):
        text = prompt.encode()
        if wish.max_tokens < 1 or len(text) + wish.max_tokens > context:
            raise PostError(
                f"prompt {number} has {len(text)} bytes: with --max-tokens {wish.max_tokens} the model's context of "
                f"{context} is exceeded; shorten it or ask for fewer tokens"
            )
        requests.append(
            encode_request(CompletionRequest(text, wish.max_tokens, wish.temperature_milli, os.urandom(32)))
        )
    return requests


async def find_service(client: ChainClient, wish: Wish) -> Service:
    """The service, if it is open and can be asked for this; PostError says what it takes."""
    known = await market_reads.services(client)
    service = known.get(wish.service)
    if service is None or not service.is_open:
        numbers = ", ".join(str(number) for number, one in known.items() if one.is_open) or "none"
        raise PostError(f"there is no open service {wish.service}; open: {numbers}; see `ogpu services`")
    terms = service.terms
    if not terms.price_min <= wish.price_max <= terms.price_max:
        raise PostError(f"the price is {terms.price_min:,} to {terms.price_max:,} grains a unit; see `ogpu services`")
    if not 1 <= wish.max_tokens <= terms.tokens_max:
        raise PostError(f"--max-tokens is 1 to {terms.tokens_max}")
    return service


async def cost_of(client: ChainClient, key: Keypair, wish: Wish, count: int) -> PostingCost:
    """The exact cost of `count` units."""
    quote = await market_reads.quote(client, wish.service, wish.price_max, wish.racers)
    if quote is None:
        raise PostError(f"there is no service {wish.service}")
    dummy = UnitTerms(wish.price_max, wish.racers, bytes(32), bytes(32), 0, wish.max_tokens)
    sizes = [len(part) for part in _parts(range(count))]
    fee_of = {size: await client.fee(_post(wish.service, [dummy] * size), key) for size in sorted(set(sizes))}
    fees = sum(fee_of[size] for size in sizes)
    return PostingCost(
        units=count,
        locked=count * quote.locked,
        prepaid=count * quote.prepaid,
        fees=fees,
        most=count * quote.cost_max + fees,
    )


async def seal_and_store(
    client: ChainClient,
    blobs: BlobClient,
    key: Keypair,
    wish: Wish,
    requests: Sequence[bytes],
    tell: Callable[[], None],
) -> list[UnitTerms]:
    """Seal each request to all who may race or judge, and to the customer; store it; the terms to post."""
    final = await client.finalized()
    sealed_at = await client.height(final)
    readers = await market_reads.readers(client, wish.service, final)
    keys = [one.seal_key for one in readers if one.key_since <= sealed_at and is_usable(one.seal_key)]
    if not keys:
        raise PostError(f"service {wish.service} has no provider that inputs could be sealed to; see `ogpu providers`")
    endpoints = endpoints_of(await market_reads.providers(client, final))
    own = SealKey.of(key)
    terms = []
    for request in requests:
        content = encode_input(os.urandom(32), own.public, request)
        blob = seal(content, [own.public, *keys[: READERS_MAX - 1]])
        address = address_of(blob)
        await blobs.put(blob, stores_for(address, endpoints), COPIES)
        terms.append(
            UnitTerms(wish.price_max, wish.racers, address, commitment_of(content), sealed_at, wish.max_tokens)
        )
        tell()
    return terms


async def post_all(
    client: ChainClient, key: Keypair, wish: Wish, terms: Sequence[UnitTerms], prompts: Sequence[str]
) -> list[Posted]:
    """Post the units, `UNITS_PER_POST_MAX` an extrinsic; all are in final blocks when this returns."""
    posted: list[Posted] = []
    for part in _parts(range(len(terms))):
        outcome = await client.submit(_post(wish.service, [terms[place] for place in part]), key)
        if not outcome.is_success:
            raise PostError(_failure(outcome, len(posted)))
        units = [event.unit for event in outcome.events if isinstance(event, UnitPosted)]
        pairs = zip(units, part, strict=True)
        posted += [Posted(unit, prompts[place], outcome.block_number) for unit, place in pairs]
    return posted


def _post(service: int, terms: Sequence[UnitTerms]) -> Call:
    return InferenceMarket.post(service=service, units=tuple(terms))


def _parts(places: range) -> list[range]:
    return [places[start : start + UNITS_PER_POST_MAX] for start in range(0, len(places), UNITS_PER_POST_MAX)]


def _failure(outcome: Outcome, before: int) -> str:
    return f"posting failed in block {outcome.block_number} after {before} units: {outcome.error}"
