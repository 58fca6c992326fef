"""The cheats in sessions, as one table: the behaviour of provider and customer, and the required outcome.

Each scene has a service of its own, which its provider offers. Hostile customers share the service of an honest
provider.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from devnet.stage.actors.session_customer import RawCustomer
from devnet.stage.cheating.session_cheats import FORGING_MODE
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.vouchers import Voucher
from gpu_tasks.sessions.messages import CUSTOMER_MESSAGE, LENGTH_BYTES, UNPAID_TOKENS_MAX, Ask, Cut, Pay, framed
from wallet.client import ChainClient

ANSWER_TOKENS = 100
LONG_PROMPT_BYTES = 2**20
NO_SIGNATURE = bytes(65)
SEEN_SECONDS = 10.0
U32_MAX, U64_MAX = 2**32 - 1, 2**64 - 1
OTHER_SESSION = bytes(32)
HALF = UNPAID_TOKENS_MAX // 2
Script = Callable[[RawCustomer, bytes], Awaitable[None]]
"""The messages of a hostile customer, given a request. It ends with the end of the stream."""


@dataclass(frozen=True, slots=True)
class ProviderScene:
    """A provider that cheats honest customers."""

    name: str
    title: str
    mode: str
    outcome: ClaimOutcome
    """The end of its claims."""
    is_handed_over: bool = False
    """True if the customer goes on with the spare."""

    @property
    def is_false(self) -> bool:
        """True if its claims are false."""
        return self.outcome is not ClaimOutcome.PASSED


PROVIDER_SCENES = (
    ProviderScene("wrong-tokens", "a provider that changes tokens", "wrong-tokens", ClaimOutcome.REFUTED),
    ProviderScene("other-model", "a provider that serves a model without its last layers", "other-model",
                  ClaimOutcome.REFUTED),
    ProviderScene("padded-tokens", "a provider that counts tokens beyond the end of an answer", "padded-tokens",
                  ClaimOutcome.PASSED),
    ProviderScene("stops", "a provider that falls silent amid an answer", "stops", ClaimOutcome.PASSED,
                  is_handed_over=True),
    # Its records are newer than the claim, so it has no items to deliver.
    ProviderScene(FORGING_MODE, "a provider that forges vouchers, claims by an old one and claims again", FORGING_MODE,
                  ClaimOutcome.REFUTED),
)  # fmt: skip
REFUND_SCENES = (replace(PROVIDER_SCENES[0], outcome=ClaimOutcome.RETURNED),)
"""With four validators two voters are left beside provider and checker: no decision."""


@dataclass(frozen=True, slots=True)
class CustomerScene:
    """A hostile customer at an honest provider."""

    name: str
    title: str
    script: Script
    code: str
    """The code with which the provider ends the stream, or an empty text if the customer ends it."""
    tokens: int = 0
    """The tokens that it gets without paying them, at most."""


# ----------------------------------------------------------------------------------------------- the customers' scripts


async def _never_pays(raw: RawCustomer, request: bytes) -> None:
    await raw.enter()
    voucher = raw.end.ask(request)
    await raw.send(Ask(request, voucher.totals, NO_SIGNATURE))
    await raw.read_to_end()


async def _pays_and_leaves(raw: RawCustomer, request: bytes) -> None:
    await raw.enter()
    await raw.ask(request)
    await raw.read(1)


async def _withholds(raw: RawCustomer, request: bytes) -> None:
    await raw.enter()
    await raw.ask(request)
    await raw.read_to_end()


async def _half_paid(raw: RawCustomer, request: bytes) -> Voucher:
    """Get half of the tokens that may be unpaid, and pay them."""
    await raw.enter()
    await raw.ask(request)
    await raw.read(HALF)
    return await raw.pay()


async def _pays(raw: RawCustomer, request: bytes, signed: Callable[[Voucher], Voucher]) -> None:
    """Pay once, read on, and pay the next tokens with the signature of another voucher."""
    await _half_paid(raw, request)
    await raw.read(raw.tokens + HALF // 2)
    voucher = Voucher(raw.seat.id, raw.end.period, raw.end.transcript.totals())
    await raw.send(Pay(voucher.totals, raw.sign(signed(voucher))))
    await raw.read_to_end()


async def _other_session(raw: RawCustomer, request: bytes) -> None:
    await _pays(raw, request, lambda voucher: replace(voucher, session=OTHER_SESSION))


async def _other_period(raw: RawCustomer, request: bytes) -> None:
    await _pays(raw, request, lambda voucher: replace(voucher, period=voucher.period + 1))


async def _smaller(raw: RawCustomer, request: bytes) -> None:
    await raw.enter()
    await raw.ask(request)
    prompt = raw.promised
    assert prompt is not None, "a request pays its prompt"
    await raw.read(HALF)
    await raw.pay()
    await raw.send(Pay(prompt.totals, raw.sign(prompt)))
    await raw.read_to_end()


async def _replayed(raw: RawCustomer, request: bytes) -> None:
    voucher = await _half_paid(raw, request)
    await raw.send(Pay(voucher.totals, raw.sign(voucher)))
    await raw.read_to_end()


async def _overflow(raw: RawCustomer, request: bytes) -> None:
    await _half_paid(raw, request)
    totals = Totals(U32_MAX, U64_MAX, U64_MAX, bytes(32))
    await raw.send(Pay(totals, raw.sign(Voucher(raw.seat.id, raw.end.period, totals))))
    await raw.read_to_end()


async def _after_close(raw: RawCustomer, request: bytes) -> None:
    await _half_paid(raw, request)
    await raw.read(raw.tokens + HALF // 2)
    voucher = Voucher(raw.seat.id, raw.end.period, raw.end.transcript.totals())
    async with await ChainClient.connect(raw.seat.url) as chain:
        await chain.submit(Sessions.close(session=raw.seat.id), raw.seat.key)
    # The provider has seen the close by its first later block.
    await asyncio.sleep(SEEN_SECONDS)
    await raw.send(Pay(voucher.totals, raw.sign(voucher)))
    await raw.read_to_end()


async def _long_prompt(raw: RawCustomer, _: bytes) -> None:
    await raw.enter()
    await raw.send_bytes(LONG_PROMPT_BYTES.to_bytes(LENGTH_BYTES, "little") + bytes(LONG_PROMPT_BYTES))
    await raw.read_to_end()


async def _malformed(raw: RawCustomer, _: bytes) -> None:
    await raw.enter()
    await raw.send_bytes(framed(b"\xff"))
    await raw.read_to_end()


async def _half_a_message(raw: RawCustomer, _: bytes) -> None:
    await raw.enter()
    await raw.send_bytes(framed(CUSTOMER_MESSAGE.encode(Cut()))[:-1])
    await raw.read_to_end()


async def _useless(raw: RawCustomer, _: bytes) -> None:
    await raw.enter()
    await raw.send_bytes(framed(CUSTOMER_MESSAGE.encode(Cut())) * 40)
    await raw.read_to_end()


async def _no_entry(raw: RawCustomer, _: bytes) -> None:
    await raw.read_to_end()


CUSTOMER_SCENES = (
    CustomerScene("never-pays", "a customer that never pays", _never_pays, "wrong_signature"),
    CustomerScene("pays-and-leaves", "a customer that pays a prompt and leaves", _pays_and_leaves, "",
                  UNPAID_TOKENS_MAX),
    CustomerScene("withholds", "a customer that pays no tokens", _withholds, "silent", UNPAID_TOKENS_MAX),
    CustomerScene("other-session", "a voucher of another session", _other_session, "wrong_signature",
                  UNPAID_TOKENS_MAX),
    CustomerScene("other-period", "a voucher of another period", _other_period, "wrong_signature", UNPAID_TOKENS_MAX),
    CustomerScene("smaller", "a voucher of less", _smaller, "smaller_voucher", UNPAID_TOKENS_MAX),
    CustomerScene("replayed", "a voucher again", _replayed, "smaller_voucher", UNPAID_TOKENS_MAX),
    CustomerScene("overflow", "a voucher of the greatest numbers", _overflow, "unknown_totals", UNPAID_TOKENS_MAX),
    CustomerScene("long-prompt", "a prompt of a megabyte", _long_prompt, "malformed_message"),
    CustomerScene("malformed", "a message of no kind", _malformed, "malformed_message"),
    CustomerScene("half-a-message", "a message without its end", _half_a_message, "silent"),
    CustomerScene("useless", "forty useless messages", _useless, "too_many_refusals"),
    CustomerScene("no-entry", "no message at all", _no_entry, "no_entry"),
    CustomerScene("after-close", "a voucher after the close", _after_close, "session_over", UNPAID_TOKENS_MAX),
)  # fmt: skip
