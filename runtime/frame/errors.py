"""The four kinds of invalid input. Any other exception is a bug in this program.

* `DecodeError` (runtime.encoding.scale): bytes that encode nothing
* `InvalidTransaction`: an extrinsic that may not enter a block
* `DispatchError`: a call that entered a block and failed. It changed only the sender's fee and nonce
* `InvalidBlock`: a block that no node may build on
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, ClassVar, TypeVar

from runtime.encoding import type_info as info
from runtime.encoding.codec import Codec
from runtime.encoding.scale import DecodeError, result
from runtime.encoding.type_info import TypeInfo, rust_path

T = TypeVar("T")

# Numbers and names of `sp_runtime::DispatchError`, which clients know.
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
    """`sp_runtime::DispatchError` as events encode it: the kind, and the detail of that kind."""

    kind: int
    detail: bytes = b""

    @property
    def name(self) -> str:
        """The name of the kind. Token, arithmetic and transactional errors append the detail's name."""
        if self.kind in _DETAILS:
            return f"{_KINDS[self.kind]}.{_DETAILS[self.kind][1].split()[self.detail[0]]}"
        return _KINDS[self.kind]


class DispatchError(Exception):
    """A call that cannot be carried out. A pallet owns the subclasses that its `errors` list.

    The class alone is the error. It has no text, because only its number reaches the chain.
    """

    value: ClassVar[ErrorValue] = ErrorValue(0)
    place: ClassVar[int | None] = None
    """The number in the pallet, where it differs from the position in the pallet's `errors`."""


class CannotLookup(DispatchError):
    """The address names no account."""

    value = ErrorValue(1)


class BadOrigin(DispatchError):
    """This origin may not make this call."""

    value = ErrorValue(2)


class CallFiltered(DispatchError):
    """The chain, or a filter of the origin, does not allow this call at present."""

    place = 5  # the SDK's number of this error in System


class FundsUnavailable(DispatchError):
    """The account's spendable balance does not cover the amount."""

    value = ErrorValue(7, b"\0")


class BelowMinimum(DispatchError):
    """The receiving account would own less than the existential deposit."""

    value = ErrorValue(7, b"\2")


class Frozen(DispatchError):
    """The balance suffices, but it is frozen."""

    value = ErrorValue(7, b"\5")


class NotExpendable(DispatchError):
    """The payment would remove an account that must stay alive."""

    value = ErrorValue(7, b"\x08")


class Overflow(DispatchError):
    """A sum does not fit its type."""

    value = ErrorValue(8, b"\1")


class Exhausted(DispatchError):
    """The call would exceed a limit of the chain."""

    value = ErrorValue(10)


class RootNotAllowed(DispatchError):
    """Root may not make this call."""

    value = ErrorValue(13)


class InvalidReason(IntEnum):
    """The reasons why a transaction is invalid, numbered as in `sp_runtime::InvalidTransaction`."""

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
    """An extrinsic that may not enter a block on this state."""

    def __init__(self, reason: InvalidReason, detail: str = "") -> None:
        """Create the error with a `reason`, which is encoded, and a `detail` for people only."""
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        """Return the reason, and the detail if there is one."""
        reason = self.reason.name.lower()  # deterministic: ASCII, and for people only
        return f"{reason}: {self.detail}" if self.detail else reason


class InvalidBlock(Exception):
    """A block that breaks a rule. No node may build on it."""


def ensure(condition: bool, error: type[DispatchError]) -> None:
    """Raise `error` unless `condition` holds."""
    if not condition:
        raise error


def known(value: T | None, error: type[DispatchError]) -> T:
    """Return `value`. Raise `error` if it is None."""
    if value is None:
        raise error
    return value


@contextmanager
def genesis_entry(entry: str) -> Iterator[None]:
    """Raise a DispatchError as a ValueError that names this entry of a chain specification."""
    try:
        yield
    except DispatchError as error:
        raise ValueError(f"{entry}: {type(error).__name__}: {type(error).__doc__}") from error


def _encode(error: ErrorValue) -> bytes:
    return bytes((error.kind,)) + error.detail


def _decode(encoded: bytes, start: int) -> tuple[ErrorValue, int]:
    kind = encoded[start]
    if kind not in _KINDS:
        raise DecodeError("unknown variant", start)
    end = start + 1 + _detail_bytes(kind)
    if end > len(encoded):
        raise DecodeError("end of input", len(encoded))
    # Refused here, because `name` looks the number up.
    if kind in _DETAILS and encoded[start + 1] >= len(_DETAILS[kind][1].split()):
        raise DecodeError("unknown variant", start + 1)
    return ErrorValue(kind, encoded[start + 1 : end]), end


def _detail_bytes(kind: int) -> int:
    """Return the number of bytes after the kind: pallet and error of a module's error, or the number of a detail."""
    if kind == 3:
        return 5
    return 1 if kind in _DETAILS or kind == 14 else 0


def _variant(kind: int) -> info.VariantInfo:
    field_infos: tuple[info.FieldInfo, ...] = ()
    if kind == 3:
        module_fields = (
            info.FieldInfo("index", info.U8, "u8"),
            info.FieldInfo("error", TypeInfo(info.ArrayShape(4, info.U8)), "[u8; MAX_MODULE_ERROR_ENCODED_SIZE]"),
        )
        field_infos = (
            info.FieldInfo(
                None, TypeInfo(info.CompositeShape(module_fields), rust_path("sp_runtime::ModuleError")), "ModuleError"
            ),
        )
    elif kind == 14:
        field_infos = (info.FieldInfo(None, info.U8, "u8"),)
    elif kind in _DETAILS:
        type_name, names = _DETAILS[kind]
        details = tuple(info.VariantInfo(name, number) for number, name in enumerate(names.split()))
        path = "sp_arithmetic::ArithmeticError" if kind == 8 else f"sp_runtime::{type_name}"
        field_infos = (info.FieldInfo(None, TypeInfo(info.VariantsShape(details), rust_path(path)), type_name),)
    return info.VariantInfo(_KINDS[kind], kind, field_infos)


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
"""The result of a nested call: None, or its error."""
