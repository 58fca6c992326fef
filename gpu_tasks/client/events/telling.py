"""An event as a sentence for people, and as a row for programs.

Always: a row has every field of the event, whole; a sentence nothing that a terminal would take for a command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import IntEnum
from functools import cache
from typing import Any, get_args, get_type_hints

from gpu_tasks.client.events.wording import SENTENCES
from runtime.cryptography import ss58
from runtime.encoding.types import AccountId, Balance
from wallet.amounts import SYMBOL, format_amount
from wallet.output import Account, Grains, harmless, plain

MARKET = "gpu_tasks.market."
"""Where the market's events are declared."""
ACCOUNT_LETTERS, HASH_DIGITS = 8, 8
NAMED = re.compile(r"\{([a-z_.]+)\}")


@dataclass(frozen=True, slots=True)
class ToldEvent:
    """An event of a final block."""

    block: int
    block_id: bytes
    index: int
    """Among all events of the block, of other pallets too: with the block's number it names the event."""
    event: Any

    def row(self) -> dict[str, Any]:
        """For programs: as JSON has it."""
        return {
            "kind": "event",
            "block": self.block,
            "block_hash": "0x" + self.block_id.hex(),
            "index": self.index,
            "event": type(self.event).__name__,
            "fields": plain(values(self.event)),
            "says": self.says(),
        }

    def says(self) -> str:
        """For people."""
        shown = {name: _in_words(value) for name, value in _leaves(values(self.event))}
        name = type(self.event).__name__
        template = SENTENCES.get(f"{name}: {shown.get('outcome')}", SENTENCES.get(name))
        if template is None:
            about = (type(self.event).__doc__ or type(self.event).__name__).strip().split("\n")[0].rstrip(".")
            told = ", ".join(f"{name} {text}" for name, text in shown.items())
            return harmless(f"{about}: {told}" if told else about)
        return harmless(NAMED.sub(lambda found: shown.get(found[1], "-"), template))


@dataclass(frozen=True, slots=True)
class UntoldBlocks:
    """Blocks of which the node shows no events any more."""

    first: int
    last: int

    def row(self) -> dict[str, Any]:
        """For programs."""
        return {"kind": "gap", "from": self.first, "to": self.last, "says": self.says()}

    def says(self) -> str:
        """For people."""
        blocks = f"block {self.first}" if self.first == self.last else f"blocks {self.first} to {self.last}"
        return f"{blocks}: the node cannot show these events, because no node keeps states for so long"


def is_of_market(event: Any) -> bool:
    """Whether it is an event of units, tasks, courts or devices."""
    return type(event).__module__.startswith(MARKET)


def values(event: Any) -> dict[str, Any]:
    """The fields of an event or a record, with accounts and amounts told apart from other bytes and numbers."""
    kind: Any = type(event)
    kinds = _kinds(kind)
    return {each.name: _value(getattr(event, each.name), kinds[each.name]) for each in fields(event)}


def accounts_of(event: Any) -> set[bytes]:
    """Every account that it names."""
    return {bytes(value) for _, value in _leaves(values(event)) if isinstance(value, Account)} | {
        bytes(each)
        for _, value in _leaves(values(event))
        if isinstance(value, tuple)
        for each in value
        if isinstance(each, Account)
    }


@cache
def _kinds(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def _value(value: Any, kind: Any) -> Any:
    """A value as its declared type says what it is."""
    inner = get_args(kind)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, IntEnum):
        return value.name.lower().replace("_", " ")
    if isinstance(value, bytes):
        return Account(value) if AccountId in (kind, *inner) else value
    if isinstance(value, int):
        return Grains(value) if Balance in (kind, *inner) else value
    if isinstance(value, tuple):
        of_each = get_args(inner[0])[0] if inner and get_args(inner[0]) else None
        return tuple(_value(each, of_each) for each in value)
    return values(value) if is_dataclass(value) else str(value)


def _leaves(found: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value by its name, those of records inside with a point between."""
    for name, value in found.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _in_words(value: Any) -> str:
    """Short: accounts and hashes by how they begin."""
    match value:
        case None:
            return "-"
        case tuple():
            return ", ".join(map(_in_words, value)) or "nobody"
        case Account():
            return ss58.encode(value)[:ACCOUNT_LETTERS]
        case bytes() if value.isascii() and value.decode("ascii").isprintable():
            return value.decode("ascii")
        case bytes():
            return "0x" + value.hex()[:HASH_DIGITS]
        case Grains():
            return f"{format_amount(value)} {SYMBOL}"
        case _:
            return str(value)
