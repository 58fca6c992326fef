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
    reason_codecs = {HoldReason: _reason_codec(pallets)}
    event_wire = _event_wire(pallets, Codecs(reason_codecs))
    event_codec = Codec(*event_wire, TypeInfo(info.ReferenceShape("RuntimeEvent")), "RuntimeEvent")
    call_info = TypeInfo(info.ReferenceShape("RuntimeCall"))
    call_codec = Codec(_refuse_encode, _refuse_decode, call_info, "RuntimeCall")
    changes_codec = change_codec(pallets)
    origins_codec = origin_codec(pallets, Codecs(reason_codecs))
    given: dict[Any, Codec[Any]] = {
        RuntimeEvent: event_codec,
        ParameterChange: changes_codec,
        RuntimeOrigin: origins_codec,
    }
    given.update(reason_codecs)
    variants = [variant for pallet in pallets for variant in pallet.variants]
    codecs = Codecs({**given, Call: call_codec}, variants)
    for _ in range(CALL_DEPTH_MAX):
        call_codec = Codec(*_call_wire(pallets, codecs), call_info, "RuntimeCall")
        codecs = Codecs({**given, Call: call_codec}, variants)
    return codecs, call_codec


def _reason_codec(pallets: Sequence[type[Pallet]]) -> Codec[HoldReason]:
    reasons = tuple(reason for pallet in pallets for reason in pallet.hold_reasons)
    if len(reasons) > HOLD_REASONS_MAX:
        raise ValueError("more hold reasons than an account can list")
    return reason_codec(reasons)


def _call_wire(pallets: Sequence[type[Pallet]], codecs: Codecs) -> scale.Wire:
    wires_by_pallet = {}
    for pallet in pallets:
        wires = {method.index: method.wire(codecs) for method in pallet.methods}
        wires_by_pallet[pallet.index] = scale.tagged(wires, lambda runtime_call: runtime_call.method.index)
    return scale.tagged(wires_by_pallet, lambda runtime_call: runtime_call.method.pallet.index)


def _event_wire(pallets: Sequence[type[Pallet]], codecs: Codecs) -> scale.Wire:
    """Return the wire of events. It encodes by the event's class, a single look-up, and decodes by the two tags."""
    encoders = _Declared()
    decoders = {}
    for pallet in pallets:
        wires_by_event = {event: codecs.alternative(event, bytes((pallet.index,)))[0] for event in pallet.events}
        wires_by_tag = {event.__variant__: wire for event, wire in wires_by_event.items()}
        if len(wires_by_tag) != len(pallet.events) or encoders.keys() & wires_by_event.keys():
            raise ValueError(f"{pallet.__name__}: two events share a tag, or one also belongs to another pallet")
        # Two pallets may not share an event: its class alone selects the encoder.
        encoders.update({event: encode for event, (encode, _) in wires_by_event.items()})
        decoders[pallet.index] = scale.tagged(wires_by_tag, lambda record: record.__variant__)
    _, decode = scale.tagged(decoders, lambda _: 0)
    return (lambda record: encoders[type(record)](record)), decode


class _Declared(dict[type[Any], scale.Encode]):
    """Encoders of events by class. An event that no pallet lists raises a TypeError that names it."""

    def __missing__(self, event: type[Any]) -> scale.Encode:
        raise TypeError(f"{event.__name__} is in no pallet's events")


def _refuse_encode(_value: Any) -> bytes:
    raise scale.EncodeError(f"calls nested deeper than {CALL_DEPTH_MAX}")


def _refuse_decode(_data: bytes, start: int) -> tuple[Any, int]:
    raise scale.DecodeError("calls nested too deep", start)
