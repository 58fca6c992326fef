"""A file as a stream of lines: each something to ask, or the reason why it is none.

Always: one line of the file is in memory at a time, and of those before only a hash of their ids.
"""

from collections.abc import Iterator
from hashlib import blake2b
from itertools import chain
from typing import BinaryIO

from gpu_tasks.client.batches.json_lines import json_object
from gpu_tasks.client.batches.line_forms import (
    LineTerms,
    endpoint_of,
    object_line,
    openai_line,
    plain_line,
    undecodable,
)
from gpu_tasks.client.batches.lines import (
    FILE_BYTES_MAX,
    LINE_BYTES_MAX,
    LINES_MAX,
    BatchFileError,
    BatchLine,
    FileForm,
    LineError,
    LineRefusal,
)

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OPENAI_NAMES = ("method", "url", "body")
_ID_HASH_BYTES = 16
_EMPTY = "the file holds no request: write one a line"


class BatchReader:
    """One reading of a file. Iterate it once: it gives what each line that is not empty became, in their order.

    BatchFileError on the way if the file as a whole is too large, or holds nothing.
    """

    def __init__(self, stream: BinaryIO, terms: LineTerms, form: FileForm | None = None) -> None:
        """`form` None: as the first line has it."""
        self._stream = stream
        self._terms = terms
        self._hash = blake2b(digest_size=32)
        self._bytes = 0
        self._ids: dict[bytes, int] = {}
        """By the hash of an id, in which line it stands."""
        lines = self._raw_lines()
        before, first = _first_of(lines)
        self.form = form or _form_of(first)
        self.endpoint: str | None = None
        """What OpenAI's lines ask, all of them: as the first says that names something known."""
        self._raw = chain(before, [first], lines)

    def __iter__(self) -> Iterator[BatchLine | LineError]:
        """What the lines became."""
        count = blank = 0
        for found in self._lines():
            if found is None:
                blank += 1
                if blank > LINES_MAX:
                    raise BatchFileError(f"the file has more than {LINES_MAX:,} empty lines: remove them")
                continue
            count += 1
            if count > LINES_MAX:
                raise BatchFileError(f"the file has more than {LINES_MAX:,} requests: split it")
            yield self._once(found)
        if not count:
            raise BatchFileError(_EMPTY)

    @property
    def digest(self) -> bytes:
        """32 bytes: the file's hash, once all of it was read. It tells whether the file is still what it was."""
        return self._hash.digest()

    def _lines(self) -> Iterator[BatchLine | LineError | None]:
        """None for an empty line."""
        number = 0
        for raw in self._raw:
            if raw is None:
                number += 1
                yield _too_long(number)
                continue
            for found in self._parsed(raw, number + 1):
                number += 1
                yield found

    def _parsed(self, raw: bytes, number: int) -> Iterator[BatchLine | LineError | None]:
        """What stands between two line feeds: in a plain file it is several lines where other line breaks are in it."""
        if self.form is FileForm.LINES:
            yield from _plain(raw, number, self._terms)
        elif not (data := _unmarked(raw, number).strip()):
            yield None
        elif self.form is FileForm.OBJECTS:
            yield object_line(data, number, self._terms)
        else:
            self.endpoint = self.endpoint or endpoint_of(data)
            yield openai_line(data, number, self._terms, self.endpoint)

    def _once(self, found: BatchLine | LineError) -> BatchLine | LineError:
        """As it is, unless its id stands in an earlier line; a line that is refused has taken its id too."""
        if found.custom_id is None:
            return found
        key = blake2b(found.custom_id.encode(), digest_size=_ID_HASH_BYTES).digest()
        earlier = self._ids.setdefault(key, found.number)
        if earlier == found.number:
            return found
        message = f"the custom_id stands in line {earlier} already: each line needs its own"
        return LineError(found.number, found.custom_id, "duplicate_custom_id", message, "custom_id")

    def _raw_lines(self) -> Iterator[bytes | None]:
        """What stands between line feeds, with them; None for what is too long, which is not kept."""
        while data := self._chunk():
            if len(data) <= LINE_BYTES_MAX:
                yield data
                continue
            while not data.endswith(b"\n") and (data := self._chunk()):
                pass
            yield None

    def _chunk(self) -> bytes:
        data = self._stream.readline(LINE_BYTES_MAX + 1)
        self._hash.update(data)
        self._bytes += len(data)
        if self._bytes > FILE_BYTES_MAX:
            raise BatchFileError(f"the file has more than {FILE_BYTES_MAX:,} bytes: split it")
        return data


def _first_of(lines: Iterator[bytes | None]) -> tuple[list[bytes], bytes | None]:
    """The first line that is not empty, and those before it."""
    before: list[bytes] = []
    for raw in lines:
        if raw is None or _unmarked(raw, 1 + len(before)).strip():
            return before, raw
        before.append(raw)
        if len(before) > LINES_MAX:
            break
    raise BatchFileError(_EMPTY)


def _form_of(first: bytes | None) -> FileForm:
    """What a first line shows; BatchFileError where it is broken JSON, which nobody means as a prompt."""
    if first is None or not _unmarked(first, 1).lstrip().startswith(b"{"):
        return FileForm.LINES
    try:
        found = json_object(_unmarked(first, 1).strip())
    except LineRefusal as refusal:
        raise BatchFileError(
            f"the first line begins as JSON, but {refusal.message}; mend it, or say --form lines if it is a prompt"
        ) from None
    return FileForm.OPENAI if any(name in found for name in _OPENAI_NAMES) else FileForm.OBJECTS


def _plain(raw: bytes, number: int, terms: LineTerms) -> Iterator[BatchLine | LineError | None]:
    try:
        lines = raw.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        yield undecodable(error, number)
        return
    for place, text in enumerate(lines):
        yield plain_line(text, number + place, terms) if text.strip() else None


def _unmarked(raw: bytes, number: int) -> bytes:
    """Without the mark that some editors write before JSON."""
    return raw.removeprefix(_BYTE_ORDER_MARK) if number == 1 else raw


def _too_long(number: int) -> LineError:
    message = f"the line has more than {LINE_BYTES_MAX:,} bytes: shorten its prompt"
    return LineError(number, None, "line_too_long", message, None)
