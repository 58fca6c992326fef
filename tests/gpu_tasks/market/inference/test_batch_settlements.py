"""Batches that end in every way, with partial results: every grain is in its place, pay goes by the tokens of the root.

A seeded search: 100,000 of them in `make properties`, some thousand otherwise.
"""

import os
import random
from collections import Counter
from dataclasses import replace

import pytest

from gpu_tasks.batches.requests import TOKEN
from gpu_tasks.market.courts.cases import AUDIT_POT
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.rules import DEFAULT_RULES, UnitRules
from gpu_tasks.market.inference.units import Racer, Refund, Reveal, Unit, UnitTerms
from gpu_tasks.market.leaf_checks.fees import withheld_shares
from runtime.pallets.staking.slashing import Share

SETTLEMENTS = 100_000 if os.environ.get("HYPOTHESIS_PROFILE") in ("properties", "soak") else 3_000
PPM = 1_000_000
CUSTOMER, TREASURY, AUDITOR = (letter * 32 for letter in (b"C", b"T", b"A"))
Book = Counter[bytes | None]
"""What each account has more or less, grain by grain; None is the fire."""


def some_rules(chance: random.Random) -> UnitRules:
    return replace(
        DEFAULT_RULES,
        witness_share=chance.choice((0, 300_000, PPM)),
        settlement_fee=chance.choice((0, 20_000, 50_000)),
        fee_rebate=chance.choice((0, 900_000, 990_000)),
        cancel_burn=chance.choice((0, 100_000, PPM)),
        judge_fee_ppm=chance.choice((0, 500_000, PPM)),
        judge_fee_min=chance.choice((0, 1, 100_000)),
        audit_rate_ppm=PPM,
    )


def some_batch(chance: random.Random) -> Unit:
    """A batch that is raced for, its racers with what they answered: some take all that is allowed, some nothing."""
    requests, racers = chance.choice((2, 16, 33, 256, 4_096)), chance.randint(1, 8)
    tokens_in, tokens_max = chance.choice((0, requests, chance.randint(0, 10**7))), chance.randint(1, 10**7)
    price_max = chance.choice((1, 7, 10**8, chance.randint(1, 21 * 10**12)))
    rules, rate = some_rules(chance), chance.choice((1, 50_000, PPM))
    terms = UnitTerms(price_max, racers, bytes(32), bytes(32), 1, tokens_max, requests, tokens_in)
    said = chance.choice(
        ((0, 0), (tokens_in, tokens_max), (chance.randint(0, tokens_in), chance.randint(0, tokens_max)))
    )
    reveal = Reveal(bytes(32), bytes(32), said[1], 9, said[0])
    price = chance.choice((price_max, chance.randint(1, price_max)))
    held = money.collateral(rules, price)
    return Unit(
        service=0, customer=CUSTOMER, terms=terms, escrow=money.batch_escrow(rules, rate, price_max, racers, requests),
        bond=money.customer_bond(price_max, chance.choice((1, 50_000, PPM))), deposit=0, posted_at=1, recorded_at=1,
        price=price, input_share=chance.choice((0, 1, 250_000, PPM)), rules=rules, leaf_audit_ppm=rate,
        racers=tuple(Racer(bytes([place]) * 32, bytes(32), held, reveal=reveal) for place in range(racers)),
    )  # fmt: skip


def moved(book: Book, source: bytes, shares: tuple[Share, ...]) -> None:
    """Pay shares out of what somebody held."""
    for share in shares:
        assert share.amount >= 0
        book[source] -= share.amount
        book[share.payee] += share.amount


def due_by_hand(unit: Unit) -> int:
    """Price x work done / work allowed, rounded down; an input token counts its share."""
    reveal, terms = unit.racers[0].reveal, unit.terms
    assert reveal is not None
    done = reveal.output_tokens * TOKEN + reveal.input_tokens * unit.input_share
    return unit.price * done // (terms.tokens_max * TOKEN + terms.tokens_in * unit.input_share)


def settle(chance: random.Random, unit: Unit, book: Book) -> str:
    """The batch is paid, its auditor's fee set aside; then its check ends in one of its ways."""
    rules, winner = unit.rules, unit.racers[0]
    witness = unit.racers[1] if len(unit.racers) > 1 and chance.random() < 0.7 else None
    # a pair that looked at a lone answer was paid out of what is spare
    taken = chance.randint(0, money.spare(rules, unit.price)) if len(unit.racers) > 1 and witness is None else 0
    moved(book, CUSTOMER, (Share(b"judges", taken),))
    fee, held = money.check_fee(rules, unit.price, unit.terms.requests), unit.escrow + unit.bond - taken
    shares = money.settlement(unit, held - fee, winner=winner, witness=witness, treasury=TREASURY)
    assert sum(share.amount for share in shares) == held - fee, "all that is held is paid, or comes back"
    price, earned = due_by_hand(unit), Book()
    for share in shares:
        earned[share.payee] += share.amount
    moved(book, CUSTOMER, shares)
    assert money.due(unit, winner) == price <= unit.price
    assert earned[winner.owner] == price - price * rules.settlement_fee // PPM
    assert earned[AUDIT_POT] == -(-2 * fee * unit.leaf_audit_ppm // PPM), "by the price that it was drawn at"
    assert money.rebate(rules, price) <= price * rules.settlement_fee // PPM
    if witness is not None:
        second = price * rules.witness_share // PPM
        assert earned[witness.owner] == second - second * rules.settlement_fee // PPM
    end = chance.choice(("passed", "unlooked", "withheld"))
    moved(book, CUSTOMER, (Share(AUDIT_POT if end == "unlooked" else AUDITOR, fee),))
    if end == "withheld":
        answerers = [(racer.owner, racer.collateral) for racer in unit.racers[: 1 if witness is None else 2]]
        back = 0
        for who, lost in withheld_shares(price, CUSTOMER, answerers):
            assert sum(share.amount for share in lost) == dict(answerers)[who]
            back += sum(share.amount for share in lost if share.payee == CUSTOMER)
            moved(book, who, lost)
        assert back == min(price, sum(held for _, held in answerers)), "the price once, however many answered"
    return end


def give_back(chance: random.Random, unit: Unit, book: Book) -> str:
    """The batch ends without a result."""
    reason, held = chance.choice(list(Refund)), unit.escrow + unit.bond
    shares = money.refund(unit, held, reason)
    assert sum(share.amount for share in shares) == held
    lost = sum(share.amount for share in shares if share.payee is None)
    assert lost == (unit.bond * unit.rules.cancel_burn // PPM if reason is Refund.CANCELLED else 0)
    moved(book, CUSTOMER, shares)
    return reason.name


@pytest.mark.nightly
def test_every_grain_is_in_its_place_however_a_batch_ends() -> None:
    chance, ends = random.Random(13), Counter[str]()
    for _ in range(SETTLEMENTS):
        unit, book = some_batch(chance), Book()
        ends[settle(chance, unit, book) if chance.random() < 0.7 else give_back(chance, unit, book)] += 1
        assert sum(book.values()) == 0, "nothing is made, nothing is lost"
        assert book[CUSTOMER] >= -(unit.escrow + unit.bond), "a batch costs no more than what was locked for it"
    assert set(ends) == {"passed", "unlooked", "withheld", *(reason.name for reason in Refund)}
    assert min(ends.values()) > SETTLEMENTS // 40
