"""Immutable values of which every transaction makes dozens: accounts, events, calls.

A frozen dataclass checks at run time that nobody assigns to its fields, which makes its constructor three to four times
as slow. Here the type checker alone refuses assignments; nothing else differs from a frozen dataclass. What always
holds, and what strict typing keeps: no field of a record changes after its construction, so values may be shared.
"""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """A dataclass with slots, equality and hash whose fields are read-only to the type checker."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
