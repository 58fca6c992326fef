"""Decoding of prompt files: their encoding, their lines, and JSON that is no prompt.

Always: a line ends at a line feed, with a carriage return before it or without, as editors, `wc` and `sed` count; a
mark of UTF-8 at the start of the file is no part of its first line.
"""

from __future__ import annotations

import codecs
import json

from gpu_tasks.client.batches.json_lines import json_object
from gpu_tasks.client.batches.lines import LineRefusal

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
