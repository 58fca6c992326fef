"""Why a pool, or the node behind the RPC feed, does not do what it was asked.

Invariant: the codes are those by which Substrate's clients recognise a failure; what is kept or sent is a
`Refusal`, never an exception, whose frames would keep alive whatever was refused.
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
    """The answer is no; `code` is the JSON-RPC code that Substrate uses for this."""

    code: int
    text: str
    data: str = ""


class PoolRefusalError(Exception):
    """A `Refusal` on its way to whoever asked."""

    def __init__(self, code: int, text: str, data: str = "") -> None:
        super().__init__(f"{text}: {data}" if data else text)
        self.code = code
        self.text = text
        self.data = data

    @property
    def refusal(self) -> Refusal:
        """What may be kept of it."""
        return Refusal(self.code, self.text, self.data)


class ForgedError(PoolRefusalError):
    """Refuses a message that an honest node refuses too, so none passes it on."""
