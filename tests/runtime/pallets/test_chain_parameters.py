"""The call that changes a parameter: its origin, the allowed parameters and values, and no effect on running work."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genesis.chain import genesis_state, runtime_of
from genesis.presets import load_spec
from runtime.encoding.types import Root, Signed, Unsigned
from runtime.frame.call import Call
from runtime.frame.errors import BadOrigin
from runtime.frame.pallet import Parameter
from runtime.frame.parameter import ParameterChange
from runtime.frame.runtime import Bound
from runtime.frame.weights import work
from runtime.pallets.balances import Balances
from runtime.pallets.chain_parameters import ChainParameters, FrozenParameter, OutOfBounds, ParameterSet, RelationBroken
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.sudo import Sudid, Sudo
from runtime.pallets.system import System
from runtime.pallets.transaction_payment import TransactionFeePaid, TransactionPayment
from runtime.pallets.utility import Utility
from runtime.state.overlay import Memory
from small_chain import ALICE, BOB, SmallChain
from small_chain import runtime_of as small_runtime_of

SPEC = load_spec("dev")
RUNTIME = runtime_of(SPEC)
STATE = Memory(genesis_state(SPEC))
PARAMETERS = tuple(RUNTIME.parameters.parameters.values())
FROZEN = tuple(parameter for parameter in PARAMETERS if parameter.is_frozen)
MOVABLE = tuple(parameter for parameter in PARAMETERS if not parameter.is_frozen)


def setting(parameter: Parameter[Any], value: int) -> Call:
    return ChainParameters.set_parameter(change=ParameterChange(parameter, value))


def chain() -> SmallChain:
    return SmallChain(small_runtime_of(ChainParameters))


def as_root(bound: Bound, call: Call) -> None:
    with bound.overlay.transaction():
        bound.dispatch(call, Root())


def test_root_sets_a_parameter_from_the_next_block_on_and_tells() -> None:
    grown = chain()
    remark = System.remark(remark=b"")
    grown.author(
        grown.signed(ALICE, Sudo.sudo(call=setting(TransactionPayment.base_fee, 7_000))),
        grown.signed(BOB, remark, nonce=0),
    )
    assert ParameterSet("TransactionPayment.base_fee", 2_000, 7_000) in grown.happened()
    before = [event.actual_fee for event in grown.happened() if isinstance(event, TransactionFeePaid)][-1]
    grown.author(grown.signed(BOB, remark))
    after = [event.actual_fee for event in grown.happened() if isinstance(event, TransactionFeePaid)][-1]
    assert after - before == 5_000, "the block with the change goes by what was, the next by what is"


def test_each_price_of_a_fee_is_its_own() -> None:
    grown = chain()
    remark = grown.signed(BOB, System.remark(remark=bytes(100)))
    weight = work(reads=3)
    for parameter, value in ((TransactionPayment.byte_fee, 30), (TransactionPayment.weight_price, 1_000)):
        grown.author(grown.signed(ALICE, Sudo.sudo(call=setting(parameter, value))))
    payment = grown.bound[TransactionPayment]
    assert payment.prices.base == 2_000
    assert payment.least_fee(len(remark)) == 2_000 + 30 * len(remark)
    assert payment.total_fee(0, weight) == payment.fee(0, weight).total == 2_000 + weight.ref_time // 1_000


@pytest.mark.parametrize("origin", [Signed(ALICE.account), Signed(bytes(32)), Unsigned()])
def test_nobody_but_root_sets_any_parameter(origin: Any) -> None:
    bound = RUNTIME.at(STATE)
    for parameter in PARAMETERS:
        with pytest.raises(BadOrigin):
            bound.dispatch(setting(parameter, parameter.default), origin)
        assert not bound.overlay.changes(), parameter


@pytest.mark.parametrize("wrap", [lambda call: call, lambda call: Utility.batch_all(calls=(call,))])
def test_a_signer_without_the_key_sets_nothing(wrap: Any) -> None:
    grown = chain()
    call = setting(TransactionPayment.base_fee, 7_000)
    grown.author(
        grown.signed(BOB, wrap(call), nonce=0),
        grown.signed(BOB, Sudo.sudo(call=call), nonce=1),
        grown.signed(ALICE, Sudo.sudo_as(who=BOB.account, call=call), nonce=0),
    )
    assert grown.bound[TransactionPayment].base_fee == 2_000
    assert not [event for event in grown.happened() if isinstance(event, ParameterSet)]


@pytest.mark.parametrize("parameter", FROZEN, ids=repr)
@pytest.mark.parametrize("origin", [Root(), Signed(ALICE.account), Unsigned()])
def test_no_origin_changes_what_is_frozen(parameter: Parameter[Any], origin: Any) -> None:
    for value in (parameter.default, parameter.default + 1, 0):
        bound = RUNTIME.at(STATE)
        with pytest.raises((FrozenParameter, BadOrigin)):
            bound.dispatch(setting(parameter, value), origin)
        assert not bound.overlay.changes()


def test_what_is_frozen_are_the_promises() -> None:
    assert {parameter.name: parameter.default for parameter in FROZEN} == {
        "Balances.supply_cap": 21_000_000 * 10**8,
        "Balances.transfer_tax": 0,
        "InferenceMarket.settlement_fee_max": 50_000,
    }


@pytest.mark.parametrize("parameter", MOVABLE, ids=repr)
def test_both_bounds_are_the_last_values_that_are_taken(parameter: Parameter[Any]) -> None:
    for value, is_within in (
        (parameter.least, True),
        (parameter.greatest, True),
        (parameter.least - 1, False),
        (parameter.greatest + 1, False),
    ):
        bound = RUNTIME.at(STATE)
        try:
            as_root(bound, setting(parameter, value))
        except OutOfBounds:
            assert not is_within
        except RelationBroken:
            assert is_within
        else:
            assert is_within
            assert bound.parameters.changed()[parameter.name] == value


def test_a_value_that_breaks_a_relation_is_refused() -> None:
    bound = RUNTIME.at(STATE)
    as_root(bound, setting(TrustStake.emission_validators, 600_000))
    with pytest.raises(RelationBroken):
        as_root(bound, setting(TrustStake.emission_validators, 600_001))
    with pytest.raises(RelationBroken):  # beside what the same block changed before
        as_root(bound, setting(TrustStake.emission_providers, 400_001))
    as_root(bound, setting(TrustStake.emission_validators, 500_000))
    as_root(bound, setting(TrustStake.emission_providers, 400_001))


def test_a_batch_that_fails_sets_nothing() -> None:
    bound = RUNTIME.at(STATE)
    good, bad = setting(TrustLock.slash_floor, 60_000), setting(Balances.transfer_tax, 1)
    with pytest.raises(FrozenParameter):
        as_root(bound, Utility.batch_all(calls=(good, bad)))
    assert bound.parameters.changed()["TrustLock.slash_floor"] == 50_000
    assert not bound.overlay.events


def test_what_root_was_refused_is_told() -> None:
    grown = chain()
    grown.author(grown.signed(ALICE, Sudo.sudo(call=setting(Balances.supply_cap, 1))))
    assert Sudid(FrozenParameter.value) in grown.happened()


@given(st.lists(st.tuples(st.sampled_from(MOVABLE), st.integers(0, 10**6)), max_size=40), st.integers(1, 5))
def test_any_sequence_of_changes_keeps_every_bound_and_relation(
    wishes: list[tuple[Parameter[Any], int]], block_size: int
) -> None:
    state = STATE
    for start in range(0, len(wishes), block_size):
        bound = RUNTIME.at(state)
        for parameter, millionths in wishes[start : start + block_size]:
            value = parameter.least + (parameter.greatest - parameter.least) * millionths // 10**6
            expected = {**bound.parameters.changed(), parameter.name: value}
            try:
                as_root(bound, setting(parameter, value))
            except RelationBroken:
                assert RUNTIME.parameters.broken(expected)
            else:
                assert bound.parameters.changed() == expected
        state = state.updated(bound.overlay.changes())
        RUNTIME.parameters.check(RUNTIME.at(state).parameters.changed())
        for pallet in RUNTIME.at(state).pallets:
            for name, parameter in pallet.parameters.items():
                assert parameter.least <= getattr(pallet, name) <= parameter.greatest
