"""Attestations that make a block invalid, on a chain of the real pallets."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.inference import events as ev
from runtime.encoding.types import Unsigned
from runtime.frame.errors import InvalidBlock
from simulation.chains.market_chain import (
    TOKENS,
    MarketChain,
    attach,
    attestation,
    commit,
    named_keys,
    root_of,
    terms,
    totals_under,
)
from unit_cases import RIGHT, WRONG, matched

BAD_FORMS: dict[str, dict[str, Any]] = {
    "another racer's key": {"provider_key": b"k" * 32},
    "another device": {"device": b"d" * 32},
    "another attempt": {"attempt": 2},
    "no such place": {"replica": 7},
    "the other racer's place": {"replica": 1},
    "another model": {"model": b"x" * 32},
    "another workload": {"workload": b"x" * 32},
    "another input": {"input_root": b"x" * 32},
    "another salt": {"salt": b"s" * 32},
    "another proof": {"proof_hash": WRONG},
    "a proof inline": {"proof_inline": b"p"},
    "totals of another root": {"totals": totals_under(WRONG)},
    "fewer tokens than the root commits to": {"totals": replace(totals_under(RIGHT), tokens_out=TOKENS - 1)},
    "finished in the future": {"finished_at": 10_000},
    "began before the draw": {"started_at": 1},
    "impossible usage": {"usage": Usage(1, 0, 1 << 40, 0, 1, 0)},
    "a version of before": {"version": 1},
    "an unknown version": {"version": 3},
    "an unknown unit": {"unit": b"u" * 32},
}


@pytest.mark.parametrize("name", BAD_FORMS)
def test_a_block_with_a_malformed_attestation_is_invalid(name: str) -> None:
    chain = MarketChain(named_keys(2))
    unit_id, unit, racers = matched(chain)
    chain.block(*(commit(one, unit_id, unit, RIGHT) for one in racers))
    good = attestation(racers[0], unit_id, unit, RIGHT)
    bad = attestation(racers[0], unit_id, unit, RIGHT, **BAD_FORMS[name])
    with pytest.raises(InvalidBlock):
        chain.block(attach(bad))
    chain.height -= 1
    chain.block(attach(good))


@pytest.mark.parametrize(
    ("root", "is_allowed"),
    [
        (root_of(b"all that is allowed", TOKENS, 2, 3), True),
        (root_of(b"more output", TOKENS + 1, 2, 3), False),
        (root_of(b"more input", TOKENS, 2, 4), False),
        (root_of(b"fewer requests", TOKENS, 1, 3), False),
        (root_of(b"more requests", TOKENS, 3, 3), False),
    ],
)
def test_a_root_that_commits_to_more_than_the_unit_allows_is_never_opened(root: bytes, *, is_allowed: bool) -> None:
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    (unit_id,) = chain.post(replace(terms(racers=1), requests=2, tokens_in=3))
    chain.blocks(3)
    unit = chain.unit(unit_id)
    racer = chain.keys_of(unit.racers[0].owner)
    chain.block(commit(racer, unit_id, unit, root))
    chain.block()
    opening = attach(attestation(racer, unit_id, unit, root))
    if is_allowed:
        chain.block(opening)
        revealed = chain.unit(unit_id).racers[0].reveal
        assert revealed is not None
        assert (revealed.input_tokens, revealed.output_tokens) == (3, TOKENS)
    else:
        with pytest.raises(InvalidBlock, match=r"requests|tokens"):
            chain.block(opening)


def test_signature_order_duplicates_and_replays() -> None:
    chain = MarketChain(named_keys(2))
    unit_id, unit, (one, two) = matched(chain)
    first, second = (attestation(keys, unit_id, unit, RIGHT) for keys in (one, two))
    other = attestation(one, unit_id, unit, WRONG)
    chain.block(commit(one, unit_id, unit, RIGHT), commit(two, unit_id, unit, RIGHT))
    forged = type(first)(first.statement, second.signature)
    for attestations in ((forged,), (other,), (second, first), (first, first), ()):
        with pytest.raises(InvalidBlock):
            chain.block(lambda bound, these=attestations: _attach_as_is(bound, these))  # type: ignore[misc]
        chain.height -= 1
    chain.block(attach(first))
    with pytest.raises(InvalidBlock):
        chain.block(attach(first))
    chain.height -= 1
    chain.block(attach(second))
    assert chain.happened(ev.ResultClaimed)
    with pytest.raises(InvalidBlock):
        chain.block(attach(second))


def _attach_as_is(bound: object, attestations: tuple[object, ...]) -> None:
    bound.dispatch(Attestations.attach(attestations=attestations), Unsigned())  # type: ignore[attr-defined, arg-type]
