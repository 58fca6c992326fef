"""A line as a JSON object, with nothing in it that two readers could take differently.

Always: numbers stay as they were written, so that no float rounds a temperature; a name that stands twice, `NaN`, and a
character that UTF-8 cannot write are refused.
"""

import json
from collections.abc import Sequence
from typing import Any, Never

from gpu_tasks.client.batches.lines import LineRefusal

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
