"""The refusals of a pool, or of the node behind the RPC feed.

Invariant: the codes are those by which Substrate's clients recognise a failure. Objects keep and send a `Refusal`,
never an exception: an exception's frames would keep the refused objects alive.
"""

from __future__ import annotations

from typing import NamedTuple

UNDECODABLE = 1001
INVALID = 1010
BANNED = 1012
ALREADY_KNOWN = 1013
PRIORITY_TOO_LOW = 1014
NO_ROOM = 1016


class Refusal(NamedTuple):
    """A refused request; `code` is Substrate's JSON-RPC code for the reason."""

    code: int
    text: str
    data: str = ""


class PoolRefusalError(Exception):
    """A `Refusal` as an exception, on its way to the caller."""

    def __init__(self, code: int, text: str, data: str = "") -> None:
        super().__init__(f"{text}: {data}" if data else text)
        self.code = code
        self.text = text
        self.data = data

    @property
    def refusal(self) -> Refusal:
        """The refusal without the exception's frames, which may be kept."""
        return Refusal(self.code, self.text, self.data)


class ForgedError(PoolRefusalError):
    """A message that every honest node refuses, so an honest peer never passes it on."""
