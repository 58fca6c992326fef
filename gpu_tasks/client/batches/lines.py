"""What a line of a customer's file becomes: something to ask, or the reason why it is none.

Always: what a file may cost its reader is bounded by the limits here, whatever is in it.
"""

import codecs
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Never

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


# Of a JSON object no two readers may take anything differently. Numbers stay as they were written, so that no float
# rounds a temperature. A name that stands twice, `NaN`, and half a surrogate pair are refused.
NUMBER_CHARS_MAX = 32
SHOWN_CHARS_MAX = 60


class JsonNumber(str):
    """A number, as it was written."""

    __slots__ = ()


def json_object(line: bytes) -> dict[str, Any]:
    """The object of a line; LineRefusal if it is none."""
    try:
        found = json.loads(
            line.decode("utf-8"),
            object_pairs_hook=_each_once,
            parse_int=_number,
            parse_float=_number,
            parse_constant=_constant,
        )
    except UnicodeDecodeError as error:
        raise not_utf8(error) from None
    except RecursionError:
        raise _invalid("it is nested too deeply") from None
    except ValueError as error:
        raise _invalid(str(error)) from None
    if not isinstance(found, dict):
        raise _invalid("it is no object: write {...}")
    return found


def not_utf8(error: UnicodeDecodeError) -> LineRefusal:
    """The refusal of a line that is no text."""
    return LineRefusal("invalid_encoding", f"the line is not UTF-8 at its byte {error.start}: save the file as UTF-8")


def text_of(value: Any, param: str) -> str:
    """`value` as a text that UTF-8 can write; LineRefusal."""
    if not isinstance(value, str) or isinstance(value, JsonNumber):
        raise LineRefusal("invalid_type", f"{param} must be a string, not {shown(value)}", param)
    if not _is_text(value):
        raise LineRefusal("invalid_value", f"{param} holds half of a surrogate pair, which no text has", param)
    return value


def whole_of(value: Any, param: str, least: int, most: int) -> int:
    """`value` as a whole number from `least` to `most`; LineRefusal."""
    digits = value.removeprefix("-") if isinstance(value, JsonNumber) else ""
    if not digits.isdigit():
        raise LineRefusal("invalid_type", f"{param} must be a whole number, not {shown(value)}", param)
    if not least <= int(value) <= most:
        raise LineRefusal("invalid_value", f"{param} is {least} to {most}, not {shown(value)}", param)
    return int(value)


def shown(value: Any) -> str:
    """A value that was refused, short enough for a message and free of control characters."""
    if isinstance(value, JsonNumber):
        return str(value)
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return ascii(value if len(value) <= SHOWN_CHARS_MAX else f"{value[:SHOWN_CHARS_MAX]}...")


def _each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"{shown(name)} stands in it twice")
            seen.add(name)
    return found


def _number(digits: str) -> JsonNumber:
    if len(digits) > NUMBER_CHARS_MAX:
        raise ValueError(f"a number of {len(digits)} characters, where {NUMBER_CHARS_MAX} are allowed")
    return JsonNumber(digits)


def _constant(name: str) -> Never:
    raise ValueError(f"{name} is no number of JSON")


def _is_text(value: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in value) if not value.isascii() else True


def _invalid(why: str) -> LineRefusal:
    return LineRefusal("invalid_json_line", f"the line is no JSON object: {why}")


# A line ends at a line feed, with or without a carriage return before it, as editors, `wc` and `sed` count. A mark of
# UTF-8 at the start of the file is no part of its first line.
WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
"""Of UTF-16 and UTF-32; little-endian UTF-32 begins as UTF-16 does."""
OPENAI_NAMES = ("method", "url", "body")
REQUEST_NAMES = (*OPENAI_NAMES, "prompt", "messages", "custom_id")
"""A field of one of these names makes an object a request, and no prompt."""
_BROKEN = "begins as JSON, but {}; correct it"
_LIST = "is a JSON list: write one object a line, as `jq -c '.[]'` prints them"
_AMONG_PROMPTS = "is a request in JSON, and the first line of the file is a prompt: write all lines in one form"


def encoding_fault(data: bytes, *, is_first: bool) -> str | None:
    """Return the reason why bytes are no UTF-8 prompts, or None; `is_first`: they begin the file."""
    if is_first and data.startswith(WIDE_MARKS):
        return "the file is UTF-16 or UTF-32: save it as UTF-8"
    if b"\0" in data:
        return "the file has zero bytes, as UTF-16 and UTF-32 do: save it as UTF-8"
    return None


def unmarked(data: bytes) -> bytes:
    """Strip the UTF-8 byte order mark from the start of a file."""
    return data.removeprefix(codecs.BOM_UTF8)


def line_text(raw: bytes) -> str:
    """A line without its end; UnicodeDecodeError."""
    return raw.decode("utf-8").removesuffix("\n").removesuffix("\r")


def first_line_fault(line: bytes) -> str | None:
    """Return the fault of a file's first line if it is JSON, but no request; None for objects and prompts."""
    line = line.strip()
    if line.startswith(b"{"):
        try:
            json_object(line)
        except LineRefusal as refusal:
            return _BROKEN.format(refusal.message)
    return _LIST if _is_list(line) else None


def later_line_fault(line: bytes) -> str | None:
    """Return the reason why a line is no prompt; None for texts, also those that only look like JSON."""
    line = line.strip()
    if not line.startswith(b"{"):
        return None
    try:
        found = json_object(line)
    except LineRefusal:
        return None
    return _AMONG_PROMPTS if any(name in found for name in REQUEST_NAMES) else None


def _is_list(line: bytes) -> bool:
    """Tell whether a line is a JSON list, or opens one; `[INST]` opens a prompt."""
    if not line.startswith(b"["):
        return False
    if line[1:].lstrip()[:1] in (b"", b"{"):
        return True
    try:
        return isinstance(json.loads(line), list)
    except (ValueError, RecursionError):
        return False
