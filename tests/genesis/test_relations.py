"""The inequalities between the numbers of the chain: both sets of numbers keep them, and a violation is named."""

import json
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from genesis.chain import genesis_numbers, genesis_state, runtime_for, runtime_of
from genesis.parameters import CONSENSUS, TRUSTING_DAYS, outside
from genesis.presets import load_spec, raw_spec
from genesis.relations import RELATIONS
from genesis.spec import PARAMETER_SETS, ChainSpec, SpecError, from_json, to_json
from runtime.frame.relations import Relation
from runtime.pallets.transaction_payment import TransactionPayment
from runtime.state.overlay import Memory
from wallet.proved.trusting import TRUSTING_PERIOD_MS

SPEC = load_spec("dev")


def with_parameters(**changed: Any) -> ChainSpec:
    assert SPEC.patch is not None
    numbers = {name.replace("__", "."): value for name, value in changed.items()}
    return replace(SPEC, patch={**SPEC.patch, "chainParameters": numbers})


@pytest.mark.parametrize("name", PARAMETER_SETS)
def test_both_sets_of_numbers_keep_every_relation(name: str) -> None:
    table = runtime_for(name, is_development=False).parameters
    table.check(table.values_at_genesis({}))


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.name)
def test_every_relation_holds_by_its_numbers_and_can_fail(relation: Relation) -> None:
    values = genesis_numbers(SPEC)
    assert relation.holds(values)
    assert relation.reason
    assert all(name in values for name in relation.names())
    extremes = product((0, 10**18), repeat=len(relation.names()))
    assert not all(relation.holds({**values, **dict(zip(relation.names(), given, strict=True))}) for given in extremes)


def test_relations_have_names_of_their_own() -> None:
    assert len({relation.name for relation in RELATIONS}) == len(RELATIONS)


def test_wallets_trust_as_long_as_the_relations_say() -> None:
    mainnet = CONSENSUS["mainnet"]
    assert TRUSTING_PERIOD_MS == TRUSTING_DAYS * 24 * 60 * 60 * 1000
    assert (
        outside("mainnet")["Consensus.trusting_epochs"] * mainnet.epoch_blocks * mainnet.slot_ms == TRUSTING_PERIOD_MS
    )


def test_a_specification_sets_parameters() -> None:
    spec = from_json(to_json(with_parameters(TransactionPayment__base_fee=3_000)).encode())
    state = Memory(genesis_state(spec))
    assert runtime_of(spec).at(state)[TransactionPayment].base_fee == 3_000
    assert genesis_numbers(spec)["TransactionPayment.base_fee"] == 3_000
    assert genesis_numbers(raw_spec(spec)) == genesis_numbers(spec)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"TransactionPayment__base_fee": 0}, "TransactionPayment.base_fee is 0, outside"),
        ({"TransactionPayment__base_fee": "5"}, "base_fee must be an integer"),
        ({"TransactionPayment__base_fees": 5}, "parameter: TransactionPayment.base_fees"),
        ({"Balances__transfer_tax": 1}, "frozen"),
        ({"TransactionPayment__base_fee": 20_001}, r": .* is 4800000000 >= \d{10}, which"),
        ({"TrustStake__emission_providers": 500_001}, "emission_validators .* is 1000000 >= 1000001"),
    ],
)
def test_a_specification_with_numbers_that_do_not_fit_is_refused_by_name(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        genesis_state(with_parameters(**changed))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (bytes(16), "TransactionPayment.base_fee is 0, outside"),
        ((20_001).to_bytes(16, "little"), "duty calls: .* is 4800000000"),
        (b"\1", "damaged"),
    ],
)
def test_a_raw_state_with_numbers_that_do_not_fit_is_refused(raw: bytes, said: str) -> None:
    spec = raw_spec(SPEC)
    assert spec.raw is not None
    key = runtime_of(SPEC).item(TransactionPayment.base_fee.item).prefix
    with pytest.raises(SpecError, match=said):
        genesis_state(replace(spec, raw={**spec.raw, key: raw}))


def test_the_parameters_of_a_specification_are_an_object_of_bounded_size() -> None:
    content = json.loads(to_json(SPEC))
    content["genesis"]["runtimeGenesis"]["patch"]["chainParameters"] = {f"A.b{place}": 1 for place in range(1_025)}
    with pytest.raises(SpecError, match="at most 1,024"):
        genesis_state(from_json(json.dumps(content).encode()))
