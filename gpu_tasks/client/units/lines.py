"""The lines of a customer's file, and their split into units.

A provider locks the price of a unit as its collateral, so no device takes a unit whose price exceeds the devices' free
bonds.

Invariants:

* The limits here bound the cost of reading a file.
* Units keep the file's order, and none exceeds its limits.
* The same requests and limits split the same way.
"""

import codecs
import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Any, Never

from gpu_tasks.batches.outcomes import FRAME_BYTES
from gpu_tasks.batches.requests import BATCH_BYTES_MAX, PRICED, REQUEST_BYTES_MAX, REQUESTS_MAX, price_of, work_of
from gpu_tasks.data.unit_output import ANSWERS_BYTES_MAX, answers_bytes
from gpu_tasks.workloads.form import ChatMessage, WorkloadForm
from wallet.errors import WalletError

# OpenAI's Batch API has the same limits: 50,000 requests and 200 MB a file.
LINES_MAX = 50_000
"""The most requests of a file, and also the most empty lines."""
FILE_BYTES_MAX = 200_000_000
LINE_BYTES_MAX = 512 * 1024
"""The most bytes of a line: the longest request of a batch, with every character escaped, and its surroundings."""
CUSTOM_ID_CHARS_MAX = 512


class BatchFileError(WalletError):
    """The whole file cannot be used. The text gives the reason and the next step."""


class FileForm(StrEnum):
    """The form of a file's requests."""

    LINES = "lines"
    """One prompt per line."""
    OBJECTS = "jsonl"
    """One plain JSON object per line."""
    OPENAI = "openai"
    """OpenAI's batch input, one request per line."""


@dataclass(frozen=True, slots=True)
class BatchLine:
    """The request of a line."""

    number: int
    """The line number from 1, as in editors."""
    custom_id: str | None
    text: str
    cost_max: int
    """The limit in the workload's unit of cost."""
    options: Mapping[str, str]
    """The workload options of this line, which override those of all lines."""
    seed: bytes
    """32 bytes: the source of randomness for the request."""
    messages: tuple[ChatMessage, ...] = ()
    """The chat, whose plain text is `text`; empty for a prompt."""


@dataclass(frozen=True, slots=True)
class LineError:
    """The refusal of a line, with OpenAI's error codes, so that programs for its API understand them."""

    number: int
    custom_id: str | None
    code: str
    message: str
    param: str | None
    """The invalid field, if there is one."""


class LineRefusal(Exception):
    """A line is refused while it is read. Its number and id are added later."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param

    def at(self, number: int, custom_id: str | None) -> LineError:
        """Return the line's error."""
        return LineError(number, custom_id, self.code, self.message, self.param)


# Every reader must take a JSON object for the same request. Numbers keep their digits, so that no float rounds a
# temperature. Duplicate names, `NaN`, and lone surrogates are refused.
NUMBER_CHARS_MAX = 32
SHOWN_CHARS_MAX = 60


class JsonNumber(str):
    """A number with the digits as written."""

    __slots__ = ()


def json_object(line: bytes) -> dict[str, Any]:
    """Return the object of a line. Raise LineRefusal if it has none."""
    try:
        line_object = json.loads(
            line.decode("utf-8"),
            object_pairs_hook=_each_once,
            parse_int=_json_number,
            parse_float=_json_number,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError as error:
        raise not_utf8(error) from None
    except RecursionError:
        raise _invalid_json("it is nested too deeply") from None
    except ValueError as error:
        raise _invalid_json(str(error)) from None
    if not isinstance(line_object, dict):
        raise _invalid_json("it is no object: write {...}")
    return line_object


def not_utf8(error: UnicodeDecodeError) -> LineRefusal:
    """Return the refusal of a line that is not UTF-8."""
    return LineRefusal("invalid_encoding", f"the line is not UTF-8 at its byte {error.start}: save the file as UTF-8")


def text_of(value: Any, param: str) -> str:
    """Return `value` if it is a text that UTF-8 can encode. Raise LineRefusal if not."""
    if not isinstance(value, str) or isinstance(value, JsonNumber):
        raise LineRefusal("invalid_type", f"{param} must be a string, not {shown(value)}", param)
    if not _is_encodable(value):
        raise LineRefusal("invalid_value", f"{param} holds half of a surrogate pair, which no text has", param)
    return value


def whole_of(value: Any, param: str, least: int, most: int) -> int:
    """Return `value` as a whole number from `least` to `most`. Raise LineRefusal if it is none."""
    digits = value.removeprefix("-") if isinstance(value, JsonNumber) else ""
    if not digits.isdigit():
        raise LineRefusal("invalid_type", f"{param} must be a whole number, not {shown(value)}", param)
    if not least <= int(value) <= most:
        raise LineRefusal("invalid_value", f"{param} is {least} to {most}, not {shown(value)}", param)
    return int(value)


def shown(value: Any) -> str:
    """Return a refused value for a message: short, and free of control characters."""
    if isinstance(value, JsonNumber):
        return str(value)
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    # Escaped, because the message goes to a terminal and the value comes from any file.
    return ascii(value if len(value) <= SHOWN_CHARS_MAX else f"{value[:SHOWN_CHARS_MAX]}...")


def _each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    # RFC 8259 leaves repeated names to each parser, so two readers could take one line for different requests.
    fields_by_name = dict(pairs)
    if len(fields_by_name) < len(pairs):
        seen_names: set[str] = set()
        for name, _ in pairs:
            if name in seen_names:
                raise ValueError(f"{shown(name)} stands in it twice")
            seen_names.add(name)
    return fields_by_name


def _json_number(digits: str) -> JsonNumber:
    # Python converts long numbers in quadratic time (CVE-2020-10735).
    if len(digits) > NUMBER_CHARS_MAX:
        raise ValueError(f"a number of {len(digits)} characters, where {NUMBER_CHARS_MAX} are allowed")
    return JsonNumber(digits)


def _refuse_constant(name: str) -> Never:
    # Python's parser calls this for NaN and Infinity, which RFC 8259 does not have.
    raise ValueError(f"{name} is no number of JSON")


def _is_encodable(value: str) -> bool:
    # A JSON escape can write half of a surrogate pair (RFC 8259, section 8.2), and UTF-8 cannot.
    return not any("\ud800" <= char <= "\udfff" for char in value) if not value.isascii() else True


def _invalid_json(reason: str) -> LineRefusal:
    return LineRefusal("invalid_json_line", f"the line is no JSON object: {reason}")


# A line ends at a line feed, with or without a carriage return before it, as in editors, `wc` and `sed`. A byte order
# mark at the start of the file is no part of its first line.
WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
"""The marks of UTF-16 and UTF-32. Little-endian UTF-32 begins with the mark of UTF-16."""
OPENAI_NAMES = ("method", "url", "body")
REQUEST_NAMES = (*OPENAI_NAMES, "prompt", "messages", "custom_id")
"""An object with one of these fields is a request, not a prompt."""
_BROKEN = "begins as JSON, but {}; correct it"
_LIST = "is a JSON list: write one object a line, as `jq -c '.[]'` prints them"
_AMONG_PROMPTS = "is a request in JSON, and the first line of the file is a prompt: write all lines in one form"


def encoding_fault(data: bytes, *, is_first: bool) -> str | None:
    """Return the reason why the bytes are not UTF-8 prompts, or None. With `is_first` they begin the file."""
    if is_first and data.startswith(WIDE_MARKS):
        return "the file is UTF-16 or UTF-32: save it as UTF-8"
    # UTF-16 without a mark has a zero byte beside every Latin letter.
    if b"\0" in data:
        return "the file has zero bytes, as UTF-16 and UTF-32 do: save it as UTF-8"
    return None


def unmarked(data: bytes) -> bytes:
    """Strip the UTF-8 byte order mark from the start of a file."""
    return data.removeprefix(codecs.BOM_UTF8)


def line_text(line_bytes: bytes) -> str:
    """Return a line without its end. Raise UnicodeDecodeError if it is not UTF-8."""
    return line_bytes.decode("utf-8").removesuffix("\n").removesuffix("\r")


def first_line_fault(line: bytes) -> str | None:
    """Return the fault of a first line that is JSON but no request; None for objects and prompts."""
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
        line_object = json_object(line)
    except LineRefusal:
        return None
    return _AMONG_PROMPTS if any(name in line_object for name in REQUEST_NAMES) else None


def _is_list(line: bytes) -> bool:
    """Return True for a JSON list or its opening line. `[INST]` opens a prompt."""
    if not line.startswith(b"["):
        return False
    if line[1:].lstrip()[:1] in (b"", b"{"):
        return True
    try:
        return isinstance(json.loads(line), list)
    except (ValueError, RecursionError):
        return False


LIST_BYTES = 4
"""The most bytes before a list of requests, and before each request."""


@dataclass(frozen=True, slots=True)
class LineLoad:
    """The load of one request."""

    number: int
    """The request's line in the file."""
    request_bytes: int
    tokens_in: int
    tokens_out: int
    """The most output tokens."""
    output_bytes: int
    """The most output bytes."""


@dataclass(frozen=True, slots=True)
class UnitRoom:
    """The limits of one unit. Prices are grains."""

    rate: int
    """The highest price of a thousand output tokens."""
    input_share: int
    """The service's share of an input token, in millionths of an output token."""
    bond_free: int
    """The free bond of a typical device: the median of the service's devices."""
    requests_max: int = REQUESTS_MAX
    bytes_max: int = BATCH_BYTES_MAX
    """The most bytes of all requests, encoded."""
    answers_max: int = ANSWERS_BYTES_MAX
    """The most bytes of all answers, encoded."""

    @property
    def work_max(self) -> int:
        """The most work whose price the bond covers."""
        return self.bond_free * PRICED // self.rate


@dataclass(frozen=True, slots=True)
class UnitLines:
    """The requests of one unit: `count` requests from the place `first`, from 0, without refused lines."""

    first: int
    count: int


def load_of(number: int, request: bytes, workload_form: WorkloadForm) -> LineLoad:
    """Return the load of a request."""
    return LineLoad(
        number,
        len(request),
        workload_form.cost_in(request),
        workload_form.cost_asked(request),
        workload_form.output_bytes(request),
    )


def split(loads: Sequence[LineLoad], room: UnitRoom) -> list[UnitLines]:
    """Return the units of a file, in order. Raise BatchFileError if one line alone exceeds a unit."""
    for load in loads:
        _check_alone(load, room)
    sums = _PrefixSums.of(loads, room)
    # The fewest units, as equal as possible: halving finds the least limit of work that needs no further unit.
    fewest = len(sums.cut(room.work_max))
    low, high = 0, room.work_max
    while low < high:
        middle = (low + high) // 2
        if sums.fits(middle, fewest):
            high = middle
        else:
            low = middle + 1
    return sums.cut(high)


@dataclass(frozen=True, slots=True)
class _PrefixSums:
    """The sums of all requests before each place, so that a unit's end is found by search instead of addition."""

    room: UnitRoom
    work: Sequence[int]
    encoded: Sequence[int]
    answers: Sequence[int]

    @classmethod
    def of(cls, loads: Sequence[LineLoad], room: UnitRoom) -> "_PrefixSums":
        return cls(
            room,
            list(accumulate((_work_of_load(load, room) for load in loads), initial=0)),
            list(accumulate((load.request_bytes + LIST_BYTES for load in loads), initial=0)),
            list(accumulate((load.output_bytes + FRAME_BYTES for load in loads), initial=0)),
        )

    def cut(self, work_max: int) -> list[UnitLines]:
        """Return units as full as possible, each with at most `work_max` work."""
        units, first, count = [], 0, len(self.work) - 1
        while first < count:
            end = self._end(first, work_max)
            assert end > first, "each request fits a unit of its own"
            units.append(UnitLines(first, end - first))
            first = end
        return units

    def fits(self, work_max: int, units: int) -> bool:
        """Return True if `units` units suffice when each has at most `work_max` work."""
        first, count = 0, len(self.work) - 1
        for _ in range(units):
            if first == count:
                break
            end = self._end(first, work_max)
            if end == first:
                return False
            first = end
        return first == count

    def _end(self, first: int, work_max: int) -> int:
        room = self.room
        return min(
            first + room.requests_max,
            bisect_right(self.work, self.work[first] + work_max) - 1,
            bisect_right(self.encoded, self.encoded[first] + room.bytes_max - LIST_BYTES) - 1,
            bisect_right(self.answers, self.answers[first] + room.answers_max - FRAME_BYTES) - 1,
            len(self.work) - 1,
        )


def _work_of_load(load: LineLoad, room: UnitRoom) -> int:
    return work_of(room.input_share, load.tokens_in, load.tokens_out)


def _check_alone(load: LineLoad, room: UnitRoom) -> None:
    assert load.request_bytes <= REQUEST_BYTES_MAX, "reading refuses such a line"
    where = f"line {load.number} alone"
    if _work_of_load(load, room) > room.work_max:
        price = price_of(room.rate, _work_of_load(load, room))
        raise BatchFileError(
            f"{where} costs up to {price:,} grains, and a device of the service usually has {room.bond_free:,} free to "
            "answer for it. Ask for fewer tokens, or pay less for each",
            code="unit_too_dear",
        )
    if load.request_bytes + 2 * LIST_BYTES > room.bytes_max:
        raise BatchFileError(
            f"{where} has {load.request_bytes:,} bytes, and a unit holds {room.bytes_max:,}. Shorten its prompt",
            code="unit_too_large",
        )
    if answers_bytes([load.output_bytes]) > room.answers_max:
        raise BatchFileError(
            f"{where} asks for up to {load.output_bytes:,} bytes, and a unit's answers have {room.answers_max:,}. "
            "Ask for less",
            code="answers_too_large",
        )
