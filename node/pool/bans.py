"""What was refused as invalid costs one look-up when it comes again.

Invariant: a list forgets its oldest entries first, and another list none: whoever has extrinsics banned by the
thousand, which is free, ends no ban of a signer.

Pure: the time is an argument, in seconds of any clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from node.pool.refusal import BANNED, PoolRefusalError

BAN_SECONDS = 120.0
BANNED_LIMIT = 10_000  # of one list


def brought_by(source: str | None, signer: bytes) -> bytes:
    """Return the name of a signer as far as one source brings what it signed: others may bring it as well."""
    return signer + (source or "").encode()


class BanList:
    """Names of one kind: hashes of extrinsics, or signers by who brings what they signed."""

    def __init__(self) -> None:
        self._until: OrderedDict[bytes, float] = OrderedDict()

    def add(self, name: bytes, now: float) -> None:
        """Refuse it for a while."""
        self._until[name] = now + BAN_SECONDS
        self._until.move_to_end(name)
        while len(self._until) > BANNED_LIMIT:
            self._until.popitem(last=False)

    def refuse(self, name: bytes, now: Callable[[], float]) -> None:
        """Raise if it is banned; what time it is, only where it matters."""
        banned_until = self._until.get(name)
        if banned_until is not None and banned_until > now():
            raise PoolRefusalError(
                BANNED, "Transaction is temporarily banned", f"it was invalid in the last {BAN_SECONDS:.0f} s"
            )
