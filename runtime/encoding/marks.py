"""How a type declares its encoding: marks on plain Python types, and decorators of classes.

    @struct
    class Transfer:
        target: AccountId                              # Annotated[bytes, Fixed(32)]
        amount: U128
        memo: Annotated[bytes, Bounded(64)] | None

Nothing here encodes; `runtime.encoding.codec` reads the declarations.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


# Immutable values of which every transaction makes dozens: accounts, events, calls.
#
# A frozen dataclass checks at run time that nobody assigns to its fields, which makes its constructor three to four
# times as slow. Here the type checker alone refuses assignments; nothing else differs from a frozen dataclass. What
# always holds, and what strict typing keeps: no field of a record changes after its construction, so values may be
# shared.
@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """A dataclass with slots, equality and hash whose fields are read-only to the type checker."""
    return dataclass(slots=True, unsafe_hash=True)(cls)


@dataclass(frozen=True, slots=True)
class UInt:
    """Marks an `int`: unsigned, little-endian, `size` bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class Compact:
    """Marks an `int`: compact form, at most `size` bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class Fixed:
    """Marks `bytes` of exactly `length`."""

    length: int


@dataclass(frozen=True, slots=True)
class Bounded:
    """Marks `bytes`, `str` or `tuple[T, ...]`: at most `limit` bytes or items."""

    limit: int


@dataclass(frozen=True, slots=True)
class Sorted:
    """Marks `tuple[T, ...]` as a BTreeSet, `tuple[tuple[K, V], ...]` as a BTreeMap, by first item."""

    limit: int


@dataclass(frozen=True, slots=True)
class Tagged:
    """Marks a union of `@variant` classes; `path` is its Rust path (empty: none).

    It marks a plain class as an open union, whose variants are those subclasses that a runtime's pallets list.
    """

    path: str = ""


@dataclass(frozen=True, slots=True)
class Named:
    """Marks a type that metadata shows as a Rust new type around it, such as AccountId32."""

    path: str


@dataclass(frozen=True, slots=True)
class TypeName:
    """The name that metadata shows for a field of this type, such as `Balance`."""

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

    `path` is the Rust path that metadata shows (else `ogpu` and the name, so that a file that moves changes nothing for
    clients), `params` its generic parameters (two types of one path must differ in them), `unnamed` hides the fields'
    names from metadata, as in a Rust tuple struct.
    """

    def wrap(plain: type[T]) -> type[T]:
        made: Any = record(plain)
        made.__rust_path__ = path or own_path(plain)
        made.__rust_params__ = tuple((params or {}).items())
        made.__unnamed__ = unnamed
        return made  # type: ignore[no-any-return]

    return wrap if cls is None else wrap(cls)


@dataclass_transform(frozen_default=True)
def variant(index: int, *, name: str = "", unnamed: bool = False) -> Callable[[type[T]], type[T]]:
    """Make a class one alternative of a `Tagged` union, with `index` as its tag byte."""

    def wrap(plain: type[T]) -> type[T]:
        made = struct(unnamed=unnamed)(plain)
        made.__variant__ = index  # type: ignore[attr-defined]
        made.__variant_name__ = name or plain.__name__  # type: ignore[attr-defined]
        return made

    return wrap


def own_path(cls: type) -> str:
    """The Rust path of a type of this chain that is not one of the SDK's."""
    return f"ogpu::{cls.__name__}"


def named(path: str) -> Callable[[type[T]], type[T]]:
    """Give an `IntEnum` its Rust path."""

    def wrap(cls: type[T]) -> type[T]:
        cls.__rust_path__ = path  # type: ignore[attr-defined]
        return cls

    return wrap
