"""The four ways in which input can be invalid. Any other exception is a mistake of ours.

`DecodeError` (runtime.encoding.scale): bytes that encode nothing. `InvalidTransaction`: an extrinsic that
may not enter a block. `DispatchError`: a call that entered, failed, and changed nothing but fee and nonce.
`InvalidBlock`: a block that nobody may build on.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, ClassVar, TypeVar

from runtime.encoding import type_info as info
from runtime.encoding.codec import Codec
from runtime.encoding.scale import DecodeError, result
from runtime.encoding.type_info import TypeInfo, rust_path

T = TypeVar("T")

_KINDS = {
    0: "Other",
    1: "CannotLookup",
    2: "BadOrigin",
    3: "Module",
    4: "ConsumerRemaining",
    5: "NoProviders",
    6: "TooManyConsumers",
    7: "Token",
    8: "Arithmetic",
    9: "Transactional",
    10: "Exhausted",
    11: "Corruption",
    12: "Unavailable",
    13: "RootNotAllowed",
    14: "Trie",
}
_DETAILS = {
    7: (
        "TokenError",
        (
            "FundsUnavailable OnlyProvider BelowMinimum CannotCreate UnknownAsset Frozen Unsupported "
            "CannotCreateHold NotExpendable Blocked"
        ),
    ),
    8: ("ArithmeticError", "Underflow Overflow DivisionByZero"),
    9: ("TransactionalError", "LimitReached NoLayer"),
}


@dataclass(frozen=True, slots=True)
class ErrorValue:
    """`sp_runtime::DispatchError` as events carry it: the kind, and what the kind adds."""

    kind: int
    detail: bytes = b""

    @property
    def name(self) -> str:
        """The kind, and for token and arithmetic errors which one."""
        if self.kind in _DETAILS:
            return f"{_KINDS[self.kind]}.{_DETAILS[self.kind][1].split()[self.detail[0]]}"
        return _KINDS[self.kind]


class DispatchError(Exception):
    """A call cannot do what it asks for. Subclasses listed in a pallet's `errors` are its own.

    The class is the error: it carries no text, since only its number reaches the chain.
    """

    value: ClassVar[ErrorValue] = ErrorValue(0)
    place: ClassVar[int | None] = None
    """Its number in its pallet, where the position in the pallet's `errors` is not to give it."""


class CannotLookup(DispatchError):
    """The address names no account."""

    value = ErrorValue(1)


class BadOrigin(DispatchError):
    """This caller may not make this call."""

    value = ErrorValue(2)


class CallFiltered(DispatchError):
    """The chain does not take this call now, or whoever lent the origin does not allow it."""

    place = 5  # that of the SDK's System, whose error this is


class FundsUnavailable(DispatchError):
    """The account's spendable balance does not cover the amount."""

    value = ErrorValue(7, b"\0")


class BelowMinimum(DispatchError):
    """The receiving account would hold less than the existential deposit."""

    value = ErrorValue(7, b"\2")


class Frozen(DispatchError):
    """The balance is there, but frozen."""

    value = ErrorValue(7, b"\5")


class NotExpendable(DispatchError):
    """The payment would end an account that must live on."""

    value = ErrorValue(7, b"\x08")


class Overflow(DispatchError):
    """A sum does not fit its type."""

    value = ErrorValue(8, b"\1")


class Exhausted(DispatchError):
    """The call would go beyond a limit of the chain."""

    value = ErrorValue(10)


class RootNotAllowed(DispatchError):
    """Root may not make this call."""

    value = ErrorValue(13)


class InvalidReason(IntEnum):
    """Why a transaction is not valid, numbered as `sp_runtime::InvalidTransaction`."""

    CALL = 0
    PAYMENT = 1
    FUTURE = 2
    STALE = 3
    BAD_PROOF = 4
    ANCIENT_BIRTH_BLOCK = 5
    EXHAUSTS_RESOURCES = 6
    CUSTOM = 7
    BAD_MANDATORY = 8
    MANDATORY_VALIDATION = 9
    BAD_SIGNER = 10


class InvalidTransaction(Exception):
    """This extrinsic may not enter a block on this state."""

    def __init__(self, reason: InvalidReason, detail: str = "") -> None:
        """`detail` is for people; only `reason` is encoded."""
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        """The reason, and the detail where there is one."""
        reason = self.reason.name.lower()  # deterministic: ASCII, and for people only
        return f"{reason}: {self.detail}" if self.detail else reason


class InvalidBlock(Exception):
    """This block breaks a rule; nothing may be built on it."""


def ensure(condition: bool, error: type[DispatchError]) -> None:
    """Raise `error` unless `condition` holds."""
    if not condition:
        raise error


def known(value: T | None, error: type[DispatchError]) -> T:
    """`value`, which is not None; else raises `error`."""
    if value is None:
        raise error
    return value


def _encode(value: ErrorValue) -> bytes:
    return bytes((value.kind,)) + value.detail


def _decode(data: bytes, start: int) -> tuple[ErrorValue, int]:
    kind = data[start]
    if kind not in _KINDS:
        raise DecodeError("unknown variant", start)
    end = start + 1 + _detail_bytes(kind)
    if end > len(data):
        raise DecodeError("end of input", len(data))
    if kind in _DETAILS and data[start + 1] >= len(_DETAILS[kind][1].split()):
        raise DecodeError("unknown variant", start + 1)
    return ErrorValue(kind, data[start + 1 : end]), end


def _detail_bytes(kind: int) -> int:
    """How much follows the kind: pallet and error of a module's error, or the number of a detail."""
    if kind == 3:
        return 5
    return 1 if kind in _DETAILS or kind == 14 else 0


def _variant(kind: int) -> info.VariantInfo:
    fields: tuple[info.FieldInfo, ...] = ()
    if kind == 3:
        parts = (
            info.FieldInfo("index", info.U8, "u8"),
            info.FieldInfo("error", TypeInfo(info.ArrayShape(4, info.U8)), "[u8; MAX_MODULE_ERROR_ENCODED_SIZE]"),
        )
        fields = (
            info.FieldInfo(
                None, TypeInfo(info.CompositeShape(parts), rust_path("sp_runtime::ModuleError")), "ModuleError"
            ),
        )
    elif kind == 14:
        fields = (info.FieldInfo(None, info.U8, "u8"),)
    elif kind in _DETAILS:
        name, words = _DETAILS[kind]
        names = tuple(info.VariantInfo(word, number) for number, word in enumerate(words.split()))
        path = "sp_arithmetic::ArithmeticError" if kind == 8 else f"sp_runtime::{name}"
        fields = (info.FieldInfo(None, TypeInfo(info.VariantsShape(names), rust_path(path)), name),)
    return info.VariantInfo(_KINDS[kind], kind, fields)


_INFO = TypeInfo(info.VariantsShape(tuple(_variant(kind) for kind in _KINDS)), rust_path("sp_runtime::DispatchError"))
ERROR_VALUE = Codec(_encode, _decode, _INFO, "DispatchError")
_RESULT_INFO = TypeInfo(
    info.VariantsShape(
        (
            info.VariantInfo("Ok", 0, (info.FieldInfo(None, info.UNIT, ""),)),
            info.VariantInfo("Err", 1, (info.FieldInfo(None, _INFO, ""),)),
        )
    ),
    ("Result",),
    (("T", info.UNIT), ("E", _INFO)),
)
DISPATCH_RESULT = Codec(*result(ERROR_VALUE.wire), _RESULT_INFO, "DispatchResult")

DispatchErrorField = Annotated[ErrorValue, ERROR_VALUE]
DispatchResultField = Annotated[ErrorValue | None, DISPATCH_RESULT]
"""What a nested call came to: None, or its error."""
