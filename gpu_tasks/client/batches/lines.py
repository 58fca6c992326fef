"""What a line of a customer's file becomes: something to ask, or the reason why it is none.

Always: what a file may cost its reader is bounded by the limits here, whatever is in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from wallet.errors import WalletError

LINES_MAX = 50_000
"""Requests of a file; and as many empty lines beside them."""
FILE_BYTES_MAX = 200_000_000
LINE_BYTES_MAX = 512 * 1024
"""Of one line: the longest request of a batch, with every character of it escaped, and what stands around it."""
CUSTOM_ID_CHARS_MAX = 512


class BatchFileError(WalletError):
    """The file as a whole cannot be used; the text says why and what to do."""


class FileForm(StrEnum):
    """How a file says what it asks."""

    LINES = "lines"
    """A prompt a line."""
    OBJECTS = "jsonl"
    """A plain JSON object a line."""
    OPENAI = "openai"
    """A line of OpenAI's batch input."""


@dataclass(frozen=True, slots=True)
class BatchLine:
    """What one line asks."""

    number: int
    """From 1, as editors count."""
    custom_id: str | None
    text: str
    cost_max: int
    """In the workload's unit of cost."""
    options: Mapping[str, str]
    """What the line sets for the workload, over what is set for all lines."""
    seed: bytes
    """32 bytes: of whatever chance is in it."""


@dataclass(frozen=True, slots=True)
class LineError:
    """Why a line asks nothing that can be bought: in OpenAI's words, so that its programs understand."""

    number: int
    custom_id: str | None
    code: str
    message: str
    param: str | None
    """The field that is at fault, if it is one."""


class LineRefusal(Exception):
    """Raised while a line is read; its number and id are added where they are known."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param

    def at(self, number: int, custom_id: str | None) -> LineError:
        """As what the line became."""
        return LineError(number, custom_id, self.code, self.message, self.param)
