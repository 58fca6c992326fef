"""Why a pool, or the node behind the RPC feed, does not do what it was asked.

What always holds: the codes are those by which Substrate's clients recognise a failure.
"""

from __future__ import annotations

UNDECODABLE = 1001
INVALID = 1010
BANNED = 1012
ALREADY_KNOWN = 1013
PRIORITY_TOO_LOW = 1014
NO_ROOM = 1016


class PoolRefusalError(Exception):
    """The answer is no; `code` is the JSON-RPC code that Substrate uses for this."""

    def __init__(self, code: int, text: str, data: str = "") -> None:
        super().__init__(f"{text}: {data}" if data else text)
        self.code = code
        self.text = text
        self.data = data
