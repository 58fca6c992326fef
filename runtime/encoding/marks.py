"""The declaration of an encoding: marks on plain Python types, and decorators of classes.

    @struct
    class Transfer:
        target: AccountId                              # Annotated[bytes, Fixed(32)]
        amount: U128
        memo: Annotated[bytes, Bounded(64)] | None

Nothing here encodes. `runtime.encoding.codec` reads the declarations.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


# Immutable values that every transaction creates by the dozen: accounts, events, calls.
#
# A frozen dataclass checks at run time that no code assigns to its fields, which makes its constructor three to four
# times as slow. Here only the type checker refuses assignments. Otherwise a record equals a frozen dataclass.
# Invariant: no field of a record changes after its construction, so values may be shared. Strict typing
# ensures it.
@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Make a class a dataclass with slots, equality and hash. The type checker treats its fields as read-only."""
    return dataclass(slots=True, unsafe_hash=True)(cls)


@dataclass(frozen=True, slots=True)
class UInt:
    """The mark of an `int`: unsigned, little-endian, `size` bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class Compact:
    """The mark of an `int`: compact form, at most `size` bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class Fixed:
    """The mark of `bytes` of exactly `length`."""

    length: int


@dataclass(frozen=True, slots=True)
class Bounded:
    """The mark of `bytes`, `str` or `tuple[T, ...]`: at most `limit` bytes or items."""

    limit: int


@dataclass(frozen=True, slots=True)
class Sorted:
    """The mark of `tuple[T, ...]` as a BTreeSet, or `tuple[tuple[K, V], ...]` as a BTreeMap, by first item."""

    limit: int


@dataclass(frozen=True, slots=True)
class Tagged:
    """The mark of a union of `@variant` classes. `path` is its Rust path (empty: none).

    On a plain class it marks an open union. Its variants are the subclasses that a runtime's pallets list.
    """

    path: str = ""


@dataclass(frozen=True, slots=True)
class Named:
    """The mark of a type that metadata shows as a Rust new type around it, such as AccountId32."""

    path: str


@dataclass(frozen=True, slots=True)
class TypeName:
    """The name of a field's type in metadata, such as `Balance`."""

    text: str


U8 = Annotated[int, UInt(1)]
U16 = Annotated[int, UInt(2)]
U32 = Annotated[int, UInt(4)]
U64 = Annotated[int, UInt(8)]
U128 = Annotated[int, UInt(16)]
U256 = Annotated[int, UInt(32)]
CompactU32 = Annotated[int, Compact(4)]
CompactU64 = Annotated[int, Compact(8)]
CompactU128 = Annotated[int, Compact(16)]


@overload
def struct(cls: type[T], /) -> type[T]: ...
@overload
def struct(
    *, path: str = "", params: Mapping[str, Any] | None = None, unnamed: bool = False
) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True)
def struct(
    cls: type[T] | None = None,
    /,
    *,
    path: str = "",
    params: Mapping[str, Any] | None = None,
    unnamed: bool = False,
) -> Any:
    """Make a class a `record` with an encoding: its fields in order.

    `path` is the Rust path in metadata. The default is `ogpu` and the name, so that moving a file changes nothing for
    clients. `params` are its generic parameters (two types with one path must differ in them). `unnamed` hides the
    fields' names from metadata, as in a Rust tuple struct.
    """

    def wrap(plain_class: type[T]) -> type[T]:
        marked_class: Any = record(plain_class)
        marked_class.__rust_path__ = path or own_path(plain_class)
        # polkadot-js takes two types of one path for the same unless these differ (ADR 11).
        marked_class.__rust_params__ = tuple((params or {}).items())
        marked_class.__unnamed__ = unnamed
        return marked_class  # type: ignore[no-any-return]

    return wrap if cls is None else wrap(cls)


@dataclass_transform(frozen_default=True)
def variant(index: int, *, name: str = "", unnamed: bool = False) -> Callable[[type[T]], type[T]]:
    """Make a class one alternative of a `Tagged` union, with `index` as its tag byte."""

    def wrap(plain_class: type[T]) -> type[T]:
        marked_class = struct(unnamed=unnamed)(plain_class)
        marked_class.__variant__ = index  # type: ignore[attr-defined]
        marked_class.__variant_name__ = name or plain_class.__name__  # type: ignore[attr-defined]
        return marked_class

    return wrap


def own_path(cls: type) -> str:
    """Return the Rust path of a type of this chain that is not one of the SDK's."""
    return f"ogpu::{cls.__name__}"


def named(path: str) -> Callable[[type[T]], type[T]]:
    """Give an `IntEnum` its Rust path."""

    def wrap(cls: type[T]) -> type[T]:
        cls.__rust_path__ = path  # type: ignore[attr-defined]
        return cls

    return wrap
