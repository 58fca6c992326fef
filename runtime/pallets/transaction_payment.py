"""Fees: taken before a call, corrected after it, burned at the end of the block. Tips go to the author.

The fee for the declared weight is withdrawn first. After the call the part for unused weight is refunded, or all of it
for a duty that succeeded. Between the extrinsics of a block, collected fees wait in `collected`.
"""

from functools import cached_property
from typing import Annotated, Any

from runtime.blocks.digest import find_author
from runtime.encoding.codec import U8, U64, Named, UInt
from runtime.encoding.types import AccountId, Balance, Weight
from runtime.frame.fees import (
    BASE_FEE,
    BYTE_FEE,
    MULTIPLIER_ONE,
    PICOSECONDS_PER_GRAIN,
    FeePrices,
    InclusionFee,
    fullness,
    inclusion_fee,
    least_fee,
    next_multiplier,
    total_fee,
)
from runtime.frame.pallet import Constant, Pallet, Parameter, StorageValue, event
from runtime.pallets.balances import Balances
from runtime.pallets.system import System

Multiplier = Annotated[int, UInt(16), Named("sp_arithmetic::fixed_point::FixedU128")]


@event(0)
class TransactionFeePaid:
    """An extrinsic's final fee was settled. `actual_fee` includes the tip."""

    who: AccountId
    actual_fee: Balance
    tip: Balance


class TransactionPayment(Pallet, index=3):
    """The fees of the extrinsics in a block."""

    system: System
    balances: Balances

    next_fee_multiplier: StorageValue[Multiplier] = StorageValue(
        default=MULTIPLIER_ONE, doc="Multiplier of the weight part of fees, with 18 decimals."
    )
    collected: StorageValue[Balance] = StorageValue(default=0, doc="Fees of this block, burned at its end.")

    operational_fee_multiplier: Constant[U8] = Constant(
        5, doc="Expected by clients. No call of this chain is operational."
    )

    base_fee: Parameter[Balance] = Parameter(
        BASE_FEE,
        unit="grains",
        least=1,
        greatest=1_000_000,
        doc="Fee of any extrinsic. Each is an entry in every index.",
    )
    byte_fee: Parameter[Balance] = Parameter(
        BYTE_FEE,
        unit="grains per byte",
        least=1,
        greatest=10_000,
        doc="Fee of a byte. Every node stores and sends every byte.",
    )
    weight_price: Parameter[U64] = Parameter(
        PICOSECONDS_PER_GRAIN,
        unit="picoseconds per grain",
        least=1_000,
        greatest=100_000_000,
        doc="Execution time that a grain buys while the fee multiplier is 1.",
    )

    events = (TransactionFeePaid,)

    @cached_property
    def prices(self) -> FeePrices:
        """The prices of fees in this block."""
        return FeePrices(self.base_fee, self.byte_fee, self.weight_price)

    def fee(self, length: int, weight: Weight) -> InclusionFee:
        """Return the fee of an extrinsic in this block, without tip."""
        return inclusion_fee(self.prices, length, weight, self.next_fee_multiplier.get())

    def total_fee(self, length: int, weight: Weight) -> int:
        """Return the sum of the parts of `fee`."""
        return total_fee(self.prices, length, weight, self.next_fee_multiplier.get())

    def least_fee(self, length: int) -> int:
        """Return the least fee of an extrinsic of `length` bytes, for any call."""
        return least_fee(self.prices, length)

    def settle(self, account: bytes, withdrawn_grains: int, due: int, tip_grains: int) -> None:
        """Settle the fee after a call: refund the excess over `due`, which includes the tip, and pass on the rest."""
        if withdrawn_grains > due:
            self.balances.deposit(account, withdrawn_grains - due)
        block_author = find_author(self.system.digest.get()) if tip_grains else None
        if block_author is not None:
            self.balances.deposit(block_author, tip_grains)
        self.collected.set(self.collected.get() + due - (tip_grains if block_author is not None else 0))
        self.emit(TransactionFeePaid(account, due, tip_grains))

    def on_finalize(self) -> None:
        """Burn the block's fees, and set the multiplier for the next block."""
        self.balances.retire(self.collected.get())
        self.collected.remove()
        # Ordinary extrinsics alone: fees cannot slow inherents and hooks.
        normal_weight = self.system.block_weight.get().normal
        block_fullness = fullness(normal_weight, self.system.all_extrinsics_len.get() or 0)
        self.next_fee_multiplier.set(next_multiplier(self.next_fee_multiplier.get(), block_fullness))

    def genesis(self, config: dict[str, Any]) -> None:
        """Start with a multiplier of one."""
        self.next_fee_multiplier.set(MULTIPLIER_ONE)
