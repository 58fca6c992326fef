"""What makes a block with attestations invalid, on a chain of the real pallets."""

import pytest

from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.inference import events as ev
from runtime.encoding.types import Unsigned
from runtime.frame.errors import InvalidBlock
from scripts.chains.market_chain import MarketChain, attach, attestation, commit, named_keys, terms

RIGHT, WRONG = b"R" * 32, b"W" * 32

BAD_FORMS: dict[str, dict[str, object]] = {
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
    "too many tokens": {"output_tokens": 65},
    "finished in the future": {"finished_at": 10_000},
    "began before the draw": {"started_at": 1},
    "impossible usage": {"usage": Usage(1, 0, 1 << 40, 0, 1, 0)},
    "an unknown version": {"version": 2},
    "an unknown unit": {"unit": b"u" * 32},
}


@pytest.mark.parametrize("name", BAD_FORMS)
def test_a_block_with_a_malformed_attestation_is_invalid(name: str) -> None:
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    (unit_id,) = chain.post(terms())
    chain.blocks(3)
    unit = chain.unit(unit_id)
    racers = [chain.keys_of(one.owner) for one in unit.racers]
    chain.block(*(commit(one, unit_id, unit, RIGHT) for one in racers))
    good = attestation(racers[0], unit_id, unit, RIGHT)
    bad = attestation(racers[0], unit_id, unit, RIGHT, **BAD_FORMS[name])
    with pytest.raises(InvalidBlock):
        chain.block(attach(bad))
    chain.height -= 1
    chain.block(attach(good))


def test_signature_order_duplicates_and_replays() -> None:
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    (unit_id,) = chain.post(terms())
    chain.blocks(3)
    unit = chain.unit(unit_id)
    one, two = (chain.keys_of(racer.owner) for racer in unit.racers)
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
    assert chain.happened(ev.UnitSettled)
    with pytest.raises(InvalidBlock):
        chain.block(attach(second))


def _attach_as_is(bound: object, attestations: tuple[object, ...]) -> None:
    bound.dispatch(Attestations.attach(attestations=attestations), Unsigned())  # type: ignore[attr-defined, arg-type]
