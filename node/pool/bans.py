"""Bans for a short time: a second copy of an invalid extrinsic costs one look-up.

Invariant: a full list forgets its oldest entries first, and no entry of another list. It is free to get thousands of
extrinsics banned. Separate lists keep such a flood from ending the ban of a signer.

Pure: the time is an argument, in seconds of any clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from node.pool.refusal import BANNED, PoolRefusalError

BAN_SECONDS = 120.0
BANNED_LIMIT = 10_000  # in one list


def brought_by(source: str | None, signer: bytes) -> bytes:
    """Return the name under which a signer is banned at one source: other sources stay unaffected."""
    return signer + (source or "").encode()


class BanList:
    """Banned names of one kind: hashes of extrinsics, or pairs of signer and source."""

    def __init__(self) -> None:
        self._banned_until: OrderedDict[bytes, float] = OrderedDict()

    def add(self, name: bytes, now: float) -> None:
        """Ban a name for `BAN_SECONDS`."""
        self._banned_until[name] = now + BAN_SECONDS
        self._banned_until.move_to_end(name)
        while len(self._banned_until) > BANNED_LIMIT:
            self._banned_until.popitem(last=False)

    def refuse(self, asking_name: bytes, now: Callable[[], float]) -> None:
        """Raise `PoolRefusalError` if the name is banned; `now` is called only for a name in the list."""
        banned_until = self._banned_until.get(asking_name)
        if banned_until is not None and banned_until > now():
            raise PoolRefusalError(
                BANNED, "Transaction is temporarily banned", f"it was invalid in the last {BAN_SECONDS:.0f} s"
            )
