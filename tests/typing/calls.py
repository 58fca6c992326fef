"""Code about pallets that the type checker must accept or refuse: checked by mypy, never run.

Every line with an ignore is a mistake that must stay an error: mypy reports unused ignores.
"""

from collections.abc import Iterator
from typing import assert_type

from runtime.encoding.codec import U8, U32
from runtime.encoding.types import AccountId, PalletOrigin, Root, Signed
from runtime.frame.call import Call, call
from runtime.frame.pallet import Pallet, StorageTripleMap, origin
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.system import AccountInfo, System

WHO = bytes(32)


@origin
class Decided(PalletOrigin):
    """An origin of `number` members."""

    ayes: U32


class Typed(Pallet, index=230):
    """Asks for an origin of a pallet, and has three keys."""

    kept: StorageTripleMap[AccountId, U32, U8, AccountId | None] = StorageTripleMap()

    @call(index=0)
    def carry_out(self, origin: Decided | Root, number: U32) -> None:
        """Carry out a decision."""


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


def origins_of_pallets_have_types(bound: Bound) -> None:
    """A call takes those that it names, and no others."""
    bound[Typed].carry_out(Decided(3), 1)
    bound[Typed].carry_out(Root(), 1)
    bound[Typed].carry_out(Signed(WHO), 1)  # type: ignore[arg-type]
    Decided(ayes="3")  # type: ignore[arg-type]
    bound.dispatch(Typed.carry_out(1), Decided(3))
    bound.dispatch(Typed.carry_out(1), 3)  # type: ignore[arg-type]


def three_keys_have_types(bound: Bound) -> None:
    """Check the types of three keys, and of a listing under the first of them."""
    kept = bound[Typed].kept
    assert_type(kept[WHO, 1, 2], bytes | None)
    assert_type(kept.under(WHO), Iterator[tuple[tuple[int, int], bytes | None]])
    assert_type(kept.under(WHO, 1), Iterator[tuple[int, bytes | None]])
    kept[WHO, 1]  # type: ignore[index]
    kept.under(1)  # type: ignore[call-overload]
