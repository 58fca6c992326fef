"""What the type checker must accept and refuse about pallets: read by mypy, never run.

Every line with an ignore is a mistake that must stay an error: mypy complains about an ignore that is not needed.
"""

from typing import assert_type

from runtime.encoding.types import Root, Signed
from runtime.frame.call import Call
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.system import AccountInfo, System

WHO = bytes(32)


def calls_are_data_on_the_class() -> None:
    """Built by the method's own signature."""
    assert_type(Balances.transfer_keep_alive(dest=WHO, value=1), Call)
    Balances.transfer_keep_alive(dest=WHO)  # type: ignore[call-arg]
    Balances.transfer_keep_alive(dest=WHO, amount=1)  # type: ignore[call-arg]
    Balances.transfer_keep_alive(dest=WHO, value="1")  # type: ignore[arg-type]
    Balances.transfer_keep_alive(Signed(WHO), dest=WHO, value=1)  # type: ignore[misc, arg-type]


def calls_are_methods_on_an_instance(bound: Bound) -> None:
    """Executed for an origin that may make them."""
    assert_type(bound[Balances], Balances)
    bound[Balances].transfer_keep_alive(Signed(WHO), dest=WHO, value=1)
    bound[Balances].transfer_keep_alive(Root(), dest=WHO, value=1)  # type: ignore[arg-type]
    bound[Balances].transfer_keep_alive(dest=WHO, value=1)  # type: ignore[call-arg]


def storage_has_types(bound: Bound) -> None:
    """Keys and values are those of the annotation."""
    assert_type(bound[System].account[WHO], AccountInfo)
    assert_type(bound[System].number.get(), int)
    assert_type(bound[System].extrinsic_count.get(), int | None)
    assert_type(bound[Balances].existential_deposit, int)
    bound[System].account["who"]  # type: ignore[index]
    bound[System].number.set("1")  # type: ignore[arg-type]
