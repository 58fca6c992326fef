"""Blocks: built, executed again from their bytes, and refused if they break a rule."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.blocks.block import Block, block_id
from runtime.blocks.digest import PreDigest, author_item, pre_digest_item
from runtime.blocks.era import mortal
from runtime.blocks.extrinsic import Extra, MultiSignature, decode_extrinsic, encode_bare, encode_signed
from runtime.cryptography.signatures import Scheme, verify
from runtime.encoding.codec import codec
from runtime.encoding.types import Pays
from runtime.execution.executive import BlockExecution, execute_block
from runtime.execution.pool_validation import TransactionValidator, nonce_tag
from runtime.execution.supply import recount
from runtime.frame.call import Call
from runtime.frame.errors import BadOrigin, InvalidBlock, InvalidReason, InvalidTransaction
from runtime.frame.pallet import Pallet, PostDispatch, Signed, Unsigned, Weight, call
from runtime.frame.weights import BLOCK_MAX
from runtime.pallets.balances import Balances, Deposit, Transfer, Withdraw
from runtime.pallets.sudo import Sudid, Sudo
from runtime.pallets.system import AccountInfo, ExtrinsicFailed, ExtrinsicSuccess, System
from runtime.pallets.timestamp import Timestamp
from runtime.pallets.transaction_payment import TransactionFeePaid
from runtime.pallets.utility import BatchInterrupted, Utility, batch_weight
from small_chain import (
    ALICE,
    AUTHOR,
    BOB,
    CHARLIE,
    ENDOWMENT,
    FIRST_SLOT,
    PEOPLE,
    RUNTIME,
    SLOT_MS,
    SmallChain,
    runtime_of,
    sealed,
)

OGPU = 10**8


class Bell(Pallet, index=100):
    """An inherent, and calls that lie about their weight."""

    @call(index=0)
    def ring(self, origin: Unsigned) -> None:
        """Only the author may ring."""

    @call(index=1, weight=lambda _: Weight(7 * 10**8))
    def claim(self, origin: Signed, heavier: bool) -> PostDispatch:
        """Claim a weight below or above the declared one."""
        return PostDispatch(actual_weight=Weight(10**12 if heavier else 10**8))

    @call(index=2, weight=Weight(10**12))
    def toll(self, origin: Signed) -> None:
        """Too heavy for any block."""


class Yawn(Pallet, index=101):
    """A hook that uses half of a block's weight."""

    def on_initialize(self) -> Weight:
        """Return that weight."""
        return Weight(BLOCK_MAX.ref_time // 2)


def pay(target: Any, amount: int) -> Call:
    return Balances.transfer_keep_alive(dest=target.account, value=amount)


def fee_of(chain: SmallChain) -> int:
    (paid,) = [event for event in chain.happened() if isinstance(event, TransactionFeePaid)]
    return paid.actual_fee


def test_what_a_hook_weighs_counts_for_its_block() -> None:
    chains = SmallChain(), SmallChain(runtime_of(Yawn))
    for chain in chains:
        chain.author(chain.signed(ALICE, pay(BOB, OGPU)))
    plain, yawning = (chain.bound[System].block_weight.get() for chain in chains)
    assert yawning.normal == plain.normal
    assert yawning.mandatory == plain.mandatory + Weight(BLOCK_MAX.ref_time // 2)


def test_three_blocks_of_transfers_are_executed_again_and_equal() -> None:
    chain = SmallChain()
    for height in (1, 2, 3):
        chain.author(*(chain.signed(person, pay(BOB, OGPU)) for person in (ALICE, CHARLIE)))
        assert chain.head.number == chain.bound[System].number.get() == height
        assert chain.bound[Timestamp].now.get() == (FIRST_SLOT + height) * SLOT_MS
    assert chain.balance(BOB) == ENDOWMENT + 6 * OGPU
    assert recount(chain.bound) == chain.bound[Balances].total_issuance.get()
    assert recount(chain.bound) + chain.bound[Balances].burned.get() == 4 * ENDOWMENT


def test_events_of_a_transfer_are_those_that_explorers_expect() -> None:
    chain = SmallChain()
    raw = chain.signed(ALICE, pay(BOB, OGPU), tip=7)
    chain.author(raw)
    fee = 2_000 + 10 * len(raw) + pay(BOB, 1).weight.ref_time // 100_000
    inherent, withdraw, transfer, tip, paid, success = chain.happened()
    assert isinstance(inherent, ExtrinsicSuccess)
    assert (withdraw, transfer) == (Withdraw(ALICE.account, fee + 7), Transfer(ALICE.account, BOB.account, OGPU))
    assert (tip, paid) == (Deposit(AUTHOR.account, 7), TransactionFeePaid(ALICE.account, fee + 7, 7))
    assert isinstance(success, ExtrinsicSuccess)
    assert success.dispatch_info.weight == pay(BOB, 1).weight
    assert chain.bound[Balances].burned.get() == fee


def test_what_ends_one_extrinsic_is_not_what_ended_another() -> None:
    chain = SmallChain()
    calls = (pay(BOB, 1), pay(BOB, 2), System.remark(remark=b"x"), pay(BOB, 10 * ENDOWMENT), pay(BOB, 3))
    chain.author(*(chain.signed(ALICE, call, nonce=nonce) for nonce, call in enumerate(calls)))
    ends = [event for event in chain.happened() if isinstance(event, ExtrinsicSuccess | ExtrinsicFailed)][1:]
    assert [end.dispatch_info.weight for end in ends] == [call.weight for call in calls]
    assert [isinstance(end, ExtrinsicFailed) for end in ends] == [False, False, False, True, False]


def test_a_failed_call_keeps_its_fee_and_its_nonce_and_nothing_else() -> None:
    chain = SmallChain()
    doomed = Utility.batch_all(calls=(pay(BOB, OGPU), pay(CHARLIE, 10 * ENDOWMENT)))
    chain.author(chain.signed(ALICE, doomed))
    assert chain.nonce(ALICE) == 1
    assert chain.balance(ALICE) == ENDOWMENT - fee_of(chain)
    assert (chain.balance(BOB), chain.balance(CHARLIE)) == (ENDOWMENT, ENDOWMENT)
    assert not [event for event in chain.happened() if isinstance(event, Transfer)]
    (failed,) = [event for event in chain.happened() if isinstance(event, ExtrinsicFailed)]
    assert failed.dispatch_error.name == "Token.FundsUnavailable"


def test_a_batch_keeps_what_came_before_the_failure_and_pays_for_what_it_did() -> None:
    chain = SmallChain()
    calls = (pay(BOB, OGPU), pay(BOB, 10 * ENDOWMENT), *(pay(BOB, OGPU) for _ in range(50)))
    raw = chain.signed(ALICE, Utility.batch(calls=calls))
    chain.author(raw)
    assert chain.balance(BOB) == ENDOWMENT + OGPU
    assert [event.index for event in chain.happened() if isinstance(event, BatchInterrupted)] == [1]
    done = batch_weight("Utility.batch", calls[:2])
    assert fee_of(chain) == 2_000 + 10 * len(raw) + done.ref_time // 100_000
    assert chain.balance(ALICE) == ENDOWMENT - OGPU - fee_of(chain)


def test_a_duty_that_succeeds_is_free_and_one_that_fails_is_not() -> None:
    chain = SmallChain()
    note = System.remark_with_event(remark=b"x")
    chain.author(chain.signed(ALICE, Sudo.sudo(call=note)), chain.signed(BOB, Sudo.sudo(call=note)))
    assert chain.balance(ALICE) == ENDOWMENT
    assert chain.nonce(ALICE) == 1
    assert chain.balance(BOB) < ENDOWMENT
    (success,) = [event for event in chain.happened() if isinstance(event, ExtrinsicSuccess)][1:]
    assert success.dispatch_info.pays_fee is Pays.No
    assert [event.sudo_result for event in chain.happened() if isinstance(event, Sudid)] == [BadOrigin.value]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"nonce": 1}, InvalidReason.FUTURE),
        ({"tip": 2 * ENDOWMENT}, InvalidReason.PAYMENT),
        ({"era": mortal(64, 60)}, InvalidReason.ANCIENT_BIRTH_BLOCK),
    ],
)
def test_what_may_not_enter_a_block(change: Any, reason: InvalidReason) -> None:
    chain = SmallChain()
    authoring = chain.begin()
    with pytest.raises(InvalidTransaction) as caught:
        authoring.offer(chain.signed(ALICE, pay(BOB, 1), **change), verify)
    assert caught.value.reason is reason


def test_a_nonce_serves_once() -> None:
    chain = SmallChain()
    raw = chain.signed(ALICE, pay(BOB, OGPU))
    chain.author(raw)
    with pytest.raises(InvalidTransaction) as caught:
        chain.begin().offer(raw, verify)
    assert caught.value.reason is InvalidReason.STALE


def test_a_signature_is_for_one_message_one_key_and_one_chain() -> None:
    chain = SmallChain()
    raw = bytearray(chain.signed(BOB, pay(ALICE, OGPU)))
    raw[-1] ^= 1  # another amount
    other = SmallChain(config={"Beacon": {"seed": "11" * 32}})
    for forged in (bytes(raw), other.signed(BOB, pay(ALICE, OGPU))):
        with pytest.raises(InvalidTransaction) as caught:
            chain.begin().offer(forged, verify)
        assert caught.value.reason is InvalidReason.BAD_PROOF


def test_a_mortal_transaction_lives_until_its_period_ends() -> None:
    chain = SmallChain()
    for _ in range(3):
        chain.author()
    raw = chain.signed(ALICE, pay(BOB, OGPU), era=mortal(4, chain.head.number))
    validity = TransactionValidator(chain.runtime, chain.state, block_id(chain.head)).validate(raw, verify)
    assert validity.longevity == 3
    for _ in range(3):
        chain.author()
    with pytest.raises(InvalidTransaction) as caught:
        chain.begin().offer(raw, verify)
    assert caught.value.reason in (InvalidReason.ANCIENT_BIRTH_BLOCK, InvalidReason.BAD_PROOF)


def test_the_pool_accepts_a_nonce_ahead_and_says_what_it_waits_for() -> None:
    chain = SmallChain()
    validator = TransactionValidator(chain.runtime, chain.state, block_id(chain.head))
    first = validator.validate(chain.signed(ALICE, pay(BOB, 1)), verify)
    later = validator.validate(chain.signed(ALICE, pay(BOB, 1), nonce=2, tip=5), verify)
    assert (first.requires, first.provides) == ((), (nonce_tag(ALICE.account, 0),))
    assert (later.requires, later.provides) == ((nonce_tag(ALICE.account, 1),), (nonce_tag(ALICE.account, 2),))
    following = validator.validate(chain.signed(ALICE, pay(BOB, 1), nonce=1), verify)
    assert following.requires == first.provides, "of what is in no block yet, the very next one too"
    assert later.priority > first.priority
    for raw in (encode_bare(RUNTIME, Timestamp.set(now=0)), chain.signed(ALICE, Timestamp.set(now=0))):
        with pytest.raises(InvalidTransaction) as caught:
            validator.validate(raw, verify)
        assert caught.value.reason is InvalidReason.CALL


def tampered(chain: SmallChain, **header: Any) -> Block:
    authoring = chain.begin()
    authoring.offer(chain.signed(ALICE, pay(BOB, 1)), verify)
    built = authoring.finish()
    return Block(sealed(replace(built.header, **header)), built.extrinsics)


@pytest.mark.parametrize(
    ("field", "value"), [("state_root", bytes(32)), ("extrinsics_root", bytes(32)), ("number", 2), ("digest", ())]
)
def test_a_header_that_does_not_fit_is_refused(field: str, value: Any) -> None:
    chain = SmallChain()
    with pytest.raises(InvalidBlock):
        execute_block(RUNTIME, chain.state, chain.trie, tampered(chain, **{field: value}), verify)


TIME = encode_bare(RUNTIME, Timestamp.set(now=(FIRST_SLOT + 1) * SLOT_MS))
WRONG_TIME = encode_bare(RUNTIME, Timestamp.set(now=(FIRST_SLOT + 1) * SLOT_MS + 1))
BARE_TRANSFER = encode_bare(RUNTIME, Balances.burn(value=1, keep_alive=True))


@pytest.mark.parametrize(
    "names", [[], ["wrong"], ["time", "time"], ["pay", "time"], ["time", "bare"], ["time", "junk"]]
)
def test_inherents_are_exact(names: list[str]) -> None:
    chain = SmallChain()
    pieces = {"time": TIME, "wrong": WRONG_TIME, "bare": BARE_TRANSFER, "junk": b"\x04\x00"}
    pieces["pay"] = chain.signed(ALICE, pay(BOB, 1))
    execution = BlockExecution(RUNTIME, chain.state, 1, block_id(chain.head), chain.digest())
    with pytest.raises(InvalidBlock):
        for name in names:
            execution.apply_from_block(pieces[name], verify)
        execution.finalize()


def test_inherents_come_once_and_in_the_order_of_their_pallets() -> None:
    runtime = runtime_of(Bell)
    chain = SmallChain(runtime)
    ring, time = encode_bare(runtime, Bell.ring()), encode_bare(runtime, Timestamp.set(now=(FIRST_SLOT + 1) * SLOT_MS))

    def execute(*raws: bytes) -> None:
        execution = BlockExecution(runtime, chain.state, 1, block_id(chain.head), chain.digest())
        for raw in raws:
            execution.apply_from_block(raw, verify)
        execution.finalize()

    execute(time, ring)
    for wrong in ((ring, time), (time, ring, ring)):
        with pytest.raises(InvalidBlock, match="inherent late"):
            execute(*wrong)


def test_a_call_cannot_lower_its_bill_below_nothing_or_raise_it() -> None:
    chain = SmallChain(runtime_of(Bell))
    for heavier in (False, True):
        raw = chain.signed(ALICE, Bell.claim(heavier=heavier))
        chain.author(raw)
        weight = 7 * 10**8 if heavier else 10**8
        assert fee_of(chain) == 2_000 + 10 * len(raw) + weight // 100_000


def test_what_does_not_fit_any_block_is_not_valid() -> None:
    chain = SmallChain(runtime_of(Bell))
    validator = TransactionValidator(chain.runtime, chain.state, block_id(chain.head))
    with pytest.raises(InvalidTransaction) as caught:
        validator.validate(chain.signed(ALICE, Bell.toll()), verify)
    assert caught.value.reason is InvalidReason.EXHAUSTS_RESOURCES


def test_the_zero_account_signs_nothing() -> None:
    chain = SmallChain(config={"Balances": {"balances": [["0x" + "00" * 32, ENDOWMENT]]}})
    raw = encode_signed(RUNTIME, pay(BOB, 1), Extra(), bytes(32), MultiSignature(Scheme.ED25519, bytes(64)))
    with pytest.raises(InvalidTransaction) as caught:
        chain.begin().offer(raw, lambda *_: True)
    assert caught.value.reason is InvalidReason.BAD_SIGNER


def test_the_last_nonce_is_never_used() -> None:
    chain = SmallChain()
    account = chain.bound[System].account
    for nonce, allowed in ((2**32 - 2, True), (2**32 - 1, False)):
        info = replace(account[ALICE.account], nonce=nonce)
        chain.state = chain.state.updated({account.key(ALICE.account): codec(AccountInfo).encode(info)})
        authoring = chain.begin()
        if allowed:
            assert authoring.offer(chain.signed(ALICE, pay(BOB, 1)), verify)
            authoring._execution.finalize()
        else:
            with pytest.raises(InvalidTransaction):
                authoring.offer(chain.signed(ALICE, pay(BOB, 1)), verify)


def test_a_header_of_another_height_is_refused() -> None:
    chain = SmallChain()
    for number in (0, 2):
        with pytest.raises(InvalidBlock, match="height"):
            BlockExecution(RUNTIME, chain.state, number, block_id(chain.head), chain.digest())


def test_slots_and_epochs_in_the_digest_are_checked() -> None:
    chain = SmallChain()
    chain.author()
    for slot, epoch in ((FIRST_SLOT + 1, 0), (FIRST_SLOT + 2, 1)):
        digest = (author_item(AUTHOR.account), pre_digest_item(PreDigest(slot, epoch, bytes(32), bytes(80))))
        with pytest.raises(InvalidBlock):
            BlockExecution(RUNTIME, chain.state, 2, block_id(chain.head), digest)


def test_an_error_of_ours_leaves_no_trace_and_the_block_can_be_finished() -> None:
    chain = SmallChain()

    def broken(scheme: Scheme, key: bytes, message: bytes, signature: bytes) -> bool:
        raise ZeroDivisionError

    authoring = chain.begin()
    with pytest.raises(ZeroDivisionError):
        authoring.offer(chain.signed(ALICE, pay(BOB, 1)), broken)
    assert authoring.offer(chain.signed(BOB, pay(ALICE, OGPU)), verify)
    chain.adopt(authoring.finish())
    assert chain.nonce(ALICE) == 0
    assert chain.nonce(BOB) == 1


def test_calls_nested_too_deep_do_not_decode() -> None:
    call = pay(BOB, 1)
    for _ in range(3):
        call = Utility.batch(calls=(call,))
    chain = SmallChain()
    assert decode_extrinsic(RUNTIME, chain.signed(ALICE, call)).call == call
    raw = encode_bare(RUNTIME, call)
    deeper = bytes((4 * (len(raw) + 2),)) + b"\x04\x04\x00\x04" + raw[2:]
    with pytest.raises(ValueError, match="too deep"):
        decode_extrinsic(RUNTIME, deeper)


amounts = st.integers(0, ENDOWMENT * 2)
calls = st.recursive(
    st.one_of(
        st.builds(pay, st.sampled_from(PEOPLE), amounts),
        st.builds(
            lambda to, keep: Balances.transfer_all(dest=to.account, keep_alive=keep),
            st.sampled_from(PEOPLE),
            st.booleans(),
        ),
        st.builds(lambda value, keep: Balances.burn(value=value, keep_alive=keep), amounts, st.booleans()),
        st.builds(lambda data: System.remark_with_event(remark=data), st.binary(max_size=40)),
    ),
    lambda inner: st.one_of(
        st.builds(lambda some: Utility.batch(calls=tuple(some)), st.lists(inner, max_size=3)),
        st.builds(lambda some: Utility.force_batch(calls=tuple(some)), st.lists(inner, max_size=3)),
        st.builds(lambda some: Utility.batch_all(calls=tuple(some)), st.lists(inner, max_size=3)),
    ),
    max_leaves=4,
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from(PEOPLE), calls, st.integers(0, 1000)), max_size=4), max_size=4))
def test_no_sequence_of_blocks_makes_or_loses_a_grain(script: list[list[tuple[Any, Call, int]]]) -> None:
    chain = SmallChain()
    for block in script:
        authoring = chain.begin()
        used = {person: chain.nonce(person) for person in PEOPLE}
        for who, wanted, tip in block:
            try:
                authoring.offer(chain.signed(who, wanted, nonce=used[who], tip=tip), verify)
                used[who] += 1
            except (InvalidTransaction, ValueError):
                continue
        chain.adopt(authoring.finish())
        assert {person: chain.nonce(person) for person in PEOPLE} == used
        assert recount(chain.bound) + chain.bound[Balances].burned.get() == 4 * ENDOWMENT
