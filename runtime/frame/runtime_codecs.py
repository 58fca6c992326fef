"""The codecs of a list of pallets: calls, events, origins, hold reasons and parameter changes."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from runtime.encoding import scale
from runtime.encoding import type_info as info
from runtime.encoding.codec import Codec, Codecs
from runtime.encoding.type_info import TypeInfo
from runtime.frame.call import CALL_DEPTH_MAX, Call
from runtime.frame.holds import HOLD_REASONS_MAX, HoldReason, reason_codec
from runtime.frame.origins import RuntimeOrigin, origin_codec
from runtime.frame.pallet import Pallet
from runtime.frame.parameter import ParameterChange, change_codec

PALLET_LISTS_MAX = 64


class RuntimeEvent:
    """A placeholder for "an event of any pallet" in annotations. The runtime provides its codec."""


@lru_cache(maxsize=PALLET_LISTS_MAX)
def runtime_codecs(pallets: tuple[type[Pallet], ...]) -> tuple[Codecs, Codec[Call]]:
    """Return the codecs of all types and of calls. Chains that differ in numbers alone share them.

    There is one call codec for each level of nesting. The innermost level knows no calls inside calls. Raise ValueError
    for two events with one tag, an event of two pallets, or too many hold reasons.
    """
    reasons = {HoldReason: _reason_codec(pallets)}
    event_wire = _event_wire(pallets, Codecs(reasons))
    event_codec = Codec(*event_wire, TypeInfo(info.ReferenceShape("RuntimeEvent")), "RuntimeEvent")
    call_info = TypeInfo(info.ReferenceShape("RuntimeCall"))
    inner = Codec(_refuse_encode, _refuse_decode, call_info, "RuntimeCall")
    changes = change_codec(pallets)
    origins = origin_codec(pallets, Codecs(reasons))
    given: dict[Any, Codec[Any]] = {RuntimeEvent: event_codec, ParameterChange: changes, RuntimeOrigin: origins}
    given.update(reasons)
    variants = [kind for pallet in pallets for kind in pallet.variants]
    codecs = Codecs({**given, Call: inner}, variants)
    for _ in range(CALL_DEPTH_MAX):
        inner = Codec(*_call_wire(pallets, codecs), call_info, "RuntimeCall")
        codecs = Codecs({**given, Call: inner}, variants)
    return codecs, inner


def _reason_codec(pallets: Sequence[type[Pallet]]) -> Codec[HoldReason]:
    reasons = tuple(reason for pallet in pallets for reason in pallet.hold_reasons)
    if len(reasons) > HOLD_REASONS_MAX:
        raise ValueError("more hold reasons than an account can list")
    return reason_codec(reasons)


def _call_wire(pallets: Sequence[type[Pallet]], codecs: Codecs) -> scale.Wire:
    wires = {}
    for pallet in pallets:
        methods = {method.index: method.wire(codecs) for method in pallet.methods}
        wires[pallet.index] = scale.tagged(methods, lambda call: call.method.index)
    return scale.tagged(wires, lambda call: call.method.pallet.index)


def _event_wire(pallets: Sequence[type[Pallet]], codecs: Codecs) -> scale.Wire:
    """Return the wire of events. It encodes by the event's class, a single look-up, and decodes by the two tags."""
    encoders = _Declared()
    decoders = {}
    for pallet in pallets:
        wires = {event: codecs.alternative(event, bytes((pallet.index,)))[0] for event in pallet.events}
        tags = {event.__variant__: wire for event, wire in wires.items()}
        if len(tags) != len(pallet.events) or encoders.keys() & wires.keys():
            raise ValueError(f"{pallet.__name__}: two events share a tag, or one also belongs to another pallet")
        # Two pallets may not share an event: its class alone selects the encoder.
        encoders.update({event: encode for event, (encode, _) in wires.items()})
        decoders[pallet.index] = scale.tagged(tags, lambda happened: happened.__variant__)
    _, decode = scale.tagged(decoders, lambda _: 0)
    return (lambda happened: encoders[type(happened)](happened)), decode


class _Declared(dict[type[Any], scale.Encode]):
    """Encoders of events by class. An event that no pallet lists raises a TypeError that names it."""

    def __missing__(self, kind: type[Any]) -> scale.Encode:
        raise TypeError(f"{kind.__name__} is in no pallet's events")


def _refuse_encode(_value: Any) -> bytes:
    raise scale.EncodeError(f"calls nested deeper than {CALL_DEPTH_MAX}")


def _refuse_decode(_data: bytes, start: int) -> tuple[Any, int]:
    raise scale.DecodeError("calls nested too deep", start)
