"""What money is held for: reasons that pallets declare, and cases by which each hold is told from every other.

    UNIT_MONEY = HoldReason("UnitMoney", "Price, witness fee and bond; the case is the unit.")

    class InferenceMarket(Pallet, index=10):
        hold_reasons = (UNIT_MONEY,)

Always: a reason belongs to one pallet, which numbers it by its place as it does errors; its encoding is that of the
SDK's `RuntimeHoldReason`, the pallet's index and the place; new pallets bring their own, and no list names all.
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
"""Of a runtime: an account's holds are listed by reason, and every change of one reads the list."""

CaseId = Annotated[bytes, Fixed(CASE_BYTES)]


class HoldReason:
    """Why a pallet holds money. Declared once; the pallet that lists it in `hold_reasons` gives its tag."""

    def __init__(self, name: str, doc: str, *, is_deposit: bool = False) -> None:
        """A deposit comes back whole: nothing that happens takes a part of it."""
        self.name = name
        self.doc = doc
        self.is_deposit = is_deposit
        self.pallet = ""
        self.tag = b""

    def __repr__(self) -> str:
        return f"{self.pallet}.{self.name}"

    def belong_to(self, pallet: str, index: int, place: int) -> None:
        """Be this pallet's, for good: TypeError if another has it."""
        if self.tag:
            raise TypeError(f"{self} is a reason of another pallet already")
        self.pallet, self.tag = pallet, bytes((index, place))


@struct
class Hold:
    """What some money of an account is held for. No other case is ever paid from it."""

    reason: HoldReason
    case: CaseId


@dataclass(frozen=True, slots=True)
class HoldEnd:
    """When money that is held comes back, as far as the state says."""

    block: int | None = None
    """The block that frees it."""
    stays: int = 0
    """For so many blocks it stays after the event that ends its case."""


def numbered_case(number: int) -> CaseId:
    """The case of something that has a number."""
    return number.to_bytes(CASE_BYTES, "big")


def reason_codec(reasons: Sequence[HoldReason]) -> Codec[HoldReason]:
    """The codec of the reasons of a runtime, as an enum of the pallets' enums."""
    wires: dict[int, dict[int, scale.Wire]] = {}
    members: dict[str, list[info.VariantInfo]] = {}
    for reason in reasons:
        index, place = reason.tag
        # the tag is written by the inner encoder, as scale.tagged has it
        wires.setdefault(index, {})[place] = struct_wire([], lambda reason=reason: reason, reason.tag)
        members.setdefault(reason.pallet, []).append(info.VariantInfo(reason.name, place, (), (reason.doc,)))
    inner = {index: scale.tagged(places, lambda reason: reason.tag[1]) for index, places in wires.items()}
    encode, decode = scale.tagged(inner, _pallet_index)
    variants = tuple(
        info.VariantInfo(pallet, index, (info.FieldInfo(None, _enum_of(pallet, places), "HoldReason"),))
        for index, (pallet, places) in zip(wires, members.items(), strict=True)
    )
    shape = TypeInfo(info.VariantsShape(variants), rust_path("ogpu_runtime::RuntimeHoldReason"))
    return Codec(encode, decode, shape, "RuntimeHoldReason")


def _pallet_index(reason: HoldReason) -> int:
    if not reason.tag:
        raise TypeError(f"{reason.name} is among the hold_reasons of no pallet")
    return reason.tag[0]


def _enum_of(pallet: str, places: list[info.VariantInfo]) -> TypeInfo:
    return TypeInfo(info.VariantsShape(tuple(places)), pallet_path(pallet, "HoldReason"))
