"""Parameters: numbers in the state that steer the chain, each with unit, bounds and reason.

    base_fee: Parameter[Balance] = Parameter(2_000, unit="grains", least=0, greatest=10**8, doc="Of any extrinsic.")
    settlement_fee_max: Parameter[U32] = Parameter(50_000, unit="ppm", is_frozen=True, doc="...")

    self.base_fee                       # on an instance: the value in force, an int, read once in a block
    TransactionPayment.base_fee.item    # on the class: the storage item, for readers of a state

A `Constant` is part of the code. A parameter is part of the state, under its pallet. Invariant: a block uses the values
of its parent's state, so a change takes effect with the next block. A value lies within the bounds. A frozen parameter
has one value, which no origin changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar, get_args, overload

from runtime.encoding import scale
from runtime.encoding import type_info as info
from runtime.encoding.codec import Codec, Codecs
from runtime.encoding.type_info import TypeInfo, pallet_path, rust_path
from runtime.frame.storage import StorageValue

T = TypeVar("T")


class Parameter(Generic[T]):
    """A number in the state. The value here is the default. Chains set their own, and change it."""

    def __init__(
        self,
        default: int,
        *,
        unit: str,
        doc: str,
        least: int | None = None,
        greatest: int | None = None,
        is_frozen: bool = False,
    ) -> None:
        """Declare a parameter. `doc` is the reason for it.

        `least` and `greatest` are inclusive. Raise TypeError unless it has both bounds or is frozen at its default.
        """
        if is_frozen != (least is None) or is_frozen != (greatest is None):
            raise TypeError("a parameter has both bounds or is frozen")
        self.default = default
        self.unit = unit
        self.doc = doc
        self.least = default if least is None else least
        self.greatest = default if greatest is None else greatest
        self.is_frozen = is_frozen
        if not self.holds(default):
            raise TypeError(f"default {default} out of bounds")
        bounds = f"Frozen: no origin can change it. In {unit}." if is_frozen else f"In {unit}, {least} to {greatest}."
        self.item: StorageValue[Any] = StorageValue(default=default, doc=f"{doc}\n{bounds}")
        self.pallet = ""
        self.attribute = ""
        self.tag = b""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute
        self.item.__set_name__(owner, attribute)

    def __repr__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """The full name, such as `TransactionPayment.base_fee`."""
        return f"{self.pallet}.{self.attribute}"

    def holds(self, candidate: int) -> bool:
        """Return True if `candidate` lies within the bounds."""
        return self.least <= candidate <= self.greatest

    def belong_to(self, pallet: str, index: int, place: int) -> None:
        """Set the pallet that owns the parameter, for good. Raise TypeError if it has one already."""
        if self.tag:
            raise TypeError(f"{self.name} already belongs to another pallet")
        self.pallet, self.tag = pallet, bytes((index, place))

    @overload
    def __get__(self, pallet: None, owner: type) -> Self: ...
    @overload
    def __get__(self, pallet: object, owner: type) -> T: ...
    def __get__(self, pallet: Any, owner: type) -> Any:
        """Return the declaration on the class, the value in force on an instance, cached as its attribute."""
        if pallet is None:
            return self
        item = pallet.compiled_items[self.attribute]
        # Read from the parent's state: otherwise a call could change the value that later steps of its block use.
        value = pallet.overlay.before(item.prefix, item.decode)
        # Cached, so that each number is read once in a block (ADR 16).
        value = pallet.__dict__[self.attribute] = item.default if value is None else value
        return value


@dataclass(frozen=True, slots=True)
class ParameterChange:
    """A parameter and its new value: the argument of the call that changes one."""

    parameter: Parameter[Any]
    value: int


def change_codec(pallets: Sequence[type[Any]]) -> Codec[ParameterChange]:
    """Return the codec of a change of any parameter: an enum of the pallets' enums, each value of its type."""
    codecs, wires_by_pallet, variants = Codecs(), {}, []
    for pallet in pallets:
        annotations, wires_by_index, variant_infos = pallet.hints(), {}, []
        for attribute, parameter in pallet.parameters.items():
            value_codec = codecs.of(get_args(annotations[attribute])[0])
            wires_by_index[parameter.tag[1]] = _change_wire(parameter, value_codec)
            field = info.FieldInfo(None, value_codec.info, value_codec.type_name)
            doc_lines = (parameter.doc,)
            variant_infos.append(info.VariantInfo(parameter.item.name, parameter.tag[1], (field,), doc_lines))
        if variant_infos:
            wires_by_pallet[pallet.index] = scale.tagged(wires_by_index, lambda change: change.parameter.tag[1])
            pallet_info = TypeInfo(info.VariantsShape(tuple(variant_infos)), pallet_path(pallet.__name__, "Parameter"))
            variants.append(info.VariantInfo(pallet.__name__, pallet.index, (info.FieldInfo(None, pallet_info, ""),)))
    encode, decode = scale.tagged(wires_by_pallet, lambda change: change.parameter.tag[0])
    changes_info = TypeInfo(info.VariantsShape(tuple(variants)), rust_path("ogpu_runtime::RuntimeParameters"))
    return Codec(encode, decode, changes_info, "RuntimeParameters")


def _change_wire(parameter: Parameter[Any], value_codec: Codec[Any]) -> scale.Wire:
    """Return the wire of one parameter's change. The encoder writes both tags, as `scale.tagged` requires."""
    encode, decode = value_codec.wire

    def encode_change(change: ParameterChange) -> bytes:
        return parameter.tag + encode(change.value)

    def decode_change(encoded: bytes, start: int) -> tuple[ParameterChange, int]:
        value, end = decode(encoded, start)
        return ParameterChange(parameter, value), end

    return encode_change, decode_change
