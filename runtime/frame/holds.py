"""Holds: the reasons for which pallets hold money, and the cases that tell holds apart.

    UNIT_MONEY = HoldReason("UnitMoney", "Price, witness fee and bond. One for each unit.")

    class InferenceMarket(Pallet, index=10):
        hold_reasons = (UNIT_MONEY,)

Invariant: a reason belongs to one pallet and is numbered by its position in that pallet's list, like an error. Its
encoding is that of the SDK's `RuntimeHoldReason`: the pallet's index, then the position. No central list names all
reasons.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from runtime.encoding import scale
from runtime.encoding import type_info as info
from runtime.encoding.codec import Codec, Fixed, struct
from runtime.encoding.struct_codec import struct_wire
from runtime.encoding.type_info import TypeInfo, pallet_path, rust_path

CASE_BYTES = 32
HOLD_REASONS_MAX = 64
"""The most reasons of a runtime. An account's holds are a list by reason, and every change of one reads the list."""

CaseId = Annotated[bytes, Fixed(CASE_BYTES)]


class HoldReason:
    """A reason to hold money. The pallet that lists it in `hold_reasons` sets its tag."""

    def __init__(self, name: str, doc: str, *, is_deposit: bool = False) -> None:
        """Declare a reason. A deposit (`is_deposit`) is always returned in full."""
        self.name = name
        self.doc = doc
        self.is_deposit = is_deposit
        self.pallet = ""
        self.tag = b""

    def __repr__(self) -> str:
        return f"{self.pallet}.{self.name}"

    def belong_to(self, pallet: str, index: int, place: int) -> None:
        """Set the pallet that owns the reason, for good. Raise TypeError if it has one already."""
        if self.tag:
            # The tag names its pallet, so one reason cannot serve two.
            raise TypeError(f"{self} already belongs to another pallet")
        self.pallet, self.tag = pallet, bytes((index, place))


@struct
class Hold:
    """The purpose of held money: a reason and a case. No payment for another case may use it."""

    reason: HoldReason
    case: CaseId


@dataclass(frozen=True, slots=True)
class HoldEnd:
    """The end of a hold, as far as the state determines it."""

    block: int | None = None
    """The block that releases the money, None if unknown."""
    stays: int = 0
    """The blocks for which the money stays held after the event that ends its case."""


def numbered_case(case_number: int) -> CaseId:
    """Return the case of a numbered thing."""
    return case_number.to_bytes(CASE_BYTES, "big")


def reason_codec(reasons: Sequence[HoldReason]) -> Codec[HoldReason]:
    """Return the codec of the reasons of a runtime: an enum of the pallets' enums."""
    wires_by_pallet: dict[int, dict[int, scale.Wire]] = {}
    infos_by_pallet: dict[str, list[info.VariantInfo]] = {}
    for reason in reasons:
        pallet_index, reason_index = reason.tag
        # The inner encoder writes the tag, as `scale.tagged` requires.
        wires_by_pallet.setdefault(pallet_index, {})[reason_index] = struct_wire(
            [], lambda reason=reason: reason, reason.tag
        )
        infos_by_pallet.setdefault(reason.pallet, []).append(
            info.VariantInfo(reason.name, reason_index, (), (reason.doc,))
        )
    pallet_wires = {
        pallet_index: scale.tagged(wires, lambda reason: reason.tag[1])
        for pallet_index, wires in wires_by_pallet.items()
    }
    encode, decode = scale.tagged(pallet_wires, _pallet_index)
    variants = tuple(
        info.VariantInfo(name, index, (info.FieldInfo(None, _enum_of(name, infos), "HoldReason"),))
        for index, (name, infos) in zip(wires_by_pallet, infos_by_pallet.items(), strict=True)
    )
    reason_info = TypeInfo(info.VariantsShape(variants), rust_path("ogpu_runtime::RuntimeHoldReason"))
    return Codec(encode, decode, reason_info, "RuntimeHoldReason")


def _pallet_index(reason: HoldReason) -> int:
    if not reason.tag:
        raise TypeError(f"{reason.name} is in no pallet's hold_reasons")
    return reason.tag[0]


def _enum_of(pallet_name: str, variant_infos: list[info.VariantInfo]) -> TypeInfo:
    return TypeInfo(info.VariantsShape(tuple(variant_infos)), pallet_path(pallet_name, "HoldReason"))
