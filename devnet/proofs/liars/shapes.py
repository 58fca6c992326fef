"""Answers that are none: odd types, too large, too deep, no JSON, errors that shout."""

from __future__ import annotations

from typing import Any, Final

from devnet.proofs.liars.heads import CLEARS_THE_SCREEN
from devnet.proofs.liars.lie import TRUTH, Mouth, NodeMessage, Noticed, Program, Replies, lie

WALLET, CUSTOMER, PROVIDER = Program
HUGE_BYTES = 17 * 1024 * 1024
DEPTH = 200_000
DIGITS = 6_000
ODD_VALUES: Final[tuple[Any, ...]] = (7, -1, 2.5, True, "no", [], {}, [None], {"number": []}, "0x", "0xzz")
READS = (
    "state_getStorage", "state_call", "state_getReadProof", "ogpu_callProof", "ogpu_certifiedHeader", "chain_getHeader",
)  # fmt: skip
FLIPPED_LENGTH_MIN = 66

_NONSENSE = ("makes no sense", "does not answer as a node of this chain does")
_NO_RPC = ("does not speak JSON-RPC", "broke", "closed")


@lie(WALLET, CUSTOMER, words=_NONSENSE)
def nothing_at_all(message: NodeMessage, _: Mouth) -> Replies | None:
    """Every answer is null."""
    return TRUTH if message.is_item else [message.saying(None)]


@lie(WALLET, CUSTOMER, PROVIDER, words=(*_NONSENSE, "refused"))
def odd_types(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """What is read is of any type but the right one."""
    if message.method not in READS:
        return TRUTH
    mouth.memory["odd"] = number = mouth.memory.get("odd", -1) + 1
    return [message.saying(ODD_VALUES[number % len(ODD_VALUES)])]


@lie(PROVIDER, noticed=Noticed.HARMLESS)
def odd_items(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """What a provider subscribed to is of any type but the right one: it is a bell and no more."""
    if not message.is_item:
        return TRUTH
    mouth.memory["odd"] = number = mouth.memory.get("odd", -1) + 1
    return [message.saying(ODD_VALUES[number % len(ODD_VALUES)])]


@lie(WALLET, CUSTOMER, words=_NO_RPC)
def no_json(_message: NodeMessage, _: Mouth) -> Replies | None:
    """Every message is a web page."""
    return [b"<html><body>502 Bad Gateway</body></html>"]


@lie(WALLET, CUSTOMER, words=_NO_RPC)
def no_text(_message: NodeMessage, _: Mouth) -> Replies | None:
    """Every message is bytes that are no text."""
    return [b"\xff\xfe\x00\xd8"]


@lie(*Program, words=(*_NO_RPC, "away"))
def too_deep(message: NodeMessage, _: Mouth) -> Replies | None:
    """Answers are brackets within brackets."""
    return [b"[" * DEPTH] if message.method in READS else TRUTH


@lie(*Program, words=(*_NO_RPC, "away"))
def huge(message: NodeMessage, _: Mouth) -> Replies | None:
    """Answers are larger than a program reads."""
    return [b'{"id":1,"result":"' + b"a" * HUGE_BYTES + b'"}'] if message.method in READS else TRUTH


@lie(WALLET, CUSTOMER, words=_NO_RPC)
def endless_number(_message: NodeMessage, _: Mouth) -> Replies | None:
    """Answers are one number of thousands of digits."""
    return [b'{"id":1,"result":' + b"9" * DIGITS + b"}"]


@lie(WALLET, CUSTOMER, words=_NO_RPC)
def odd_error(message: NodeMessage, _: Mouth) -> Replies | None:
    """Errors are a text, where they should be an object."""
    return TRUTH if message.is_item else [message.failing("no")]


@lie(WALLET, CUSTOMER, words=("refused",))
def shouted_error(message: NodeMessage, _: Mouth) -> Replies | None:
    """Errors clear the screen of whoever prints them."""
    if message.is_item:
        return TRUTH
    return [message.failing({"code": -32000, "message": CLEARS_THE_SCREEN + "your account is empty\r\x1b[31m"})]


LIES = (
    nothing_at_all, odd_types, odd_items, no_json, no_text, too_deep, huge, endless_number, odd_error,
    shouted_error,
)  # fmt: skip
