"""The money that a call moves, as the wallet shows it before consent."""

import pytest

from genesis.chain import runtime_for
from gpu_tasks.market.budgets.budgets import Budgets
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import ServiceTerms
from runtime.frame.call import Call
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from runtime.pallets.utility import Utility
from wallet.calls.declared import arguments_of
from wallet.calls.money import BATCHES, BURNED, DEPOSITS, LOCKED, POST, SENT, Moved, moved_by, posts_in
from wallet.calls.plain_forms import AmountForm

RUNTIME = runtime_for("devnet", is_development=True)
BOB = bytes(32)
SEND = Balances.transfer_keep_alive(dest=BOB, value=3)
BOND = TrustStake.bond(value=5)
DEPOSITED = {"InferenceMarket.service_deposit": 9, "Budgets.budget_deposit": 11}
BURN = Balances.burn(value=7, keep_alive=True)

TERMS = ServiceTerms(b"any", bytes(32), bytes(32), 1, 2, 0, 1, 1)
CREATE = InferenceMarket.create_service(terms=TERMS)


@pytest.mark.parametrize(("name", "argument"), [*SENT.items(), *LOCKED.items(), *BURNED.items()])
def test_what_is_named_is_an_amount_of_that_call(name: str, argument: str) -> None:
    forms = {each.name: each.form for each in arguments_of(RUNTIME.method(*name.split(".")))}
    assert isinstance(forms[argument], AmountForm)


def test_every_call_with_an_amount_says_what_becomes_of_it() -> None:
    taking = {
        f"{pallet.__name__}.{method.name}"
        for pallet in RUNTIME.pallets
        for method in pallet.methods
        if any(isinstance(each.form, AmountForm) for each in arguments_of(method))
    }
    moving_nothing = {"TrustStake.unbond", "TrustStake.undelegate", "TrustStake.redelegate", "InferenceMarket.offer"}
    to_the_signer = {"Budgets.withdraw"}
    assert taking - moving_nothing - to_the_signer == {*SENT, *LOCKED, *BURNED}


@pytest.mark.parametrize("name", [*DEPOSITS, *BATCHES, POST])
def test_calls_that_are_named_exist(name: str) -> None:
    RUNTIME.method(*name.split("."))
    assert DEPOSITS.get(name, "") in {"", *RUNTIME.parameters.parameters}


@pytest.mark.parametrize(
    ("call", "moved"),
    [
        (SEND, Moved(sent=3)),
        (BOND, Moved(locked=5)),
        (BURN, Moved(burned=7)),
        (System.remark(remark=b""), Moved()),
        (CREATE, Moved(locked=9)),
        (Budgets.create(deposit=4), Moved(sent=4, locked=11)),
        (Utility.batch_all(calls=(SEND, BOND, Utility.batch(calls=(SEND, BURN)))), Moved(sent=6, locked=5, burned=7)),
    ],
)
def test_moves(call: Call, moved: Moved) -> None:
    assert moved_by(call, DEPOSITED) == moved
    assert moved.total == moved.sent + moved.locked + moved.burned


def test_posts_are_found_inside_batches() -> None:
    post = Call(RUNTIME.method("InferenceMarket", "post"), (0, ()))
    assert posts_in(Utility.batch(calls=(SEND, Utility.force_batch(calls=(post,))))) == [post]
    assert posts_in(SEND) == []
