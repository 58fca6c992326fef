"""A file as a stream of lines: each something to ask, or the reason why it is none.

Always: one line of the file is in memory at a time, and of those before only a hash of their ids. Where a line stands
is told beside it, so that it can be read once more, and what stands there then is known to be the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from typing import BinaryIO

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
    OPENAI_NAMES,
    BatchFileError,
    BatchLine,
    FileForm,
    LineError,
    encoding_fault,
    first_line_fault,
    json_object,
    later_line_fault,
    line_text,
    unmarked,
)

_HASH_BYTES = 16
_EMPTY = "the file holds no request: write one a line"
_PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RawPlace:
    """Where in a file a line stands, with its line feed."""

    start: int
    size: int
    number: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class _Raw:
    """A line with its line feed, and its first byte; None for one that is too long, which is not kept."""

    start: int
    data: bytes | None


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
        self._is_told = form is not None
        self.endpoint: str | None = None
        """What OpenAI's lines ask, all of them: as the first says that names something known."""
        self.place = RawPlace(0, 0, 1, b"")
        """Where the line stands that was given last."""
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
        for number, raw in enumerate(self._raw, 1):
            if raw.data is None:
                yield _too_long(number)
                continue
            self.place = RawPlace(raw.start, len(raw.data), number, _hash_of(raw.data))
            if self.form is FileForm.OPENAI and self.endpoint is None:
                self.endpoint = endpoint_of(_content(raw.data, raw.start).strip())
            if self.form is FileForm.LINES and not self._is_told and (fault := later_line_fault(raw.data)):
                raise BatchFileError(f"line {number} {fault}, or give --form lines if it is a prompt")
            yield _parsed(raw.data, self.place, self.form, self.endpoint, self._terms)

    def _once(self, found: BatchLine | LineError) -> BatchLine | LineError:
        """As it is, unless its id stands in an earlier line; a line that is refused has taken its id too."""
        if found.custom_id is None:
            return found
        key = blake2b(found.custom_id.encode(), digest_size=_HASH_BYTES).digest()
        earlier = self._ids.setdefault(key, found.number)
        if earlier == found.number:
            return found
        message = f"the custom_id stands in line {earlier} already: each line needs its own"
        return LineError(found.number, found.custom_id, "duplicate_custom_id", message, "custom_id")

    def _raw_lines(self) -> Iterator[_Raw]:
        """The lines, each with its line feed."""
        while data := self._chunk():
            start = self._bytes - len(data)
            if len(data) <= LINE_BYTES_MAX:
                yield _Raw(start, data)
                continue
            while not data.endswith(b"\n") and (data := self._chunk()):
                pass
            yield _Raw(start, None)

    def _chunk(self) -> bytes:
        data = self._stream.readline(LINE_BYTES_MAX + 1)
        if (fault := encoding_fault(data, is_first=not self._bytes)) is not None:
            raise BatchFileError(fault)
        self._hash.update(data)
        self._bytes += len(data)
        if self._bytes > FILE_BYTES_MAX:
            raise _too_large()
        return data


def digest_of(stream: BinaryIO) -> bytes:
    """The hash that a reading of the whole file ends with; BatchFileError where it is too large."""
    whole, size = blake2b(digest_size=32), 0
    while piece := stream.read(_PIECE_BYTES):
        whole.update(piece)
        size += len(piece)
        if size > FILE_BYTES_MAX:
            raise _too_large()
    return whole.digest()


def read_again(
    stream: BinaryIO, place: RawPlace, form: FileForm, endpoint: str | None, terms: LineTerms
) -> BatchLine | LineError | None:
    """What a reading of the file found at a place; BatchFileError where something else stands there now."""
    stream.seek(place.start)
    data = stream.read(place.size)
    if _hash_of(data) != place.hash:
        raise BatchFileError(
            "the file was changed while it was in use: leave it as it is until its answers are written"
        )
    return _parsed(data, place, form, endpoint, terms)


def _parsed(
    raw: bytes, place: RawPlace, form: FileForm, endpoint: str | None, terms: LineTerms
) -> BatchLine | LineError | None:
    """Return the request of a line; None for an empty line."""
    content = _content(raw, place.start)
    if form is FileForm.LINES:
        return _plain(content, place.number, terms)
    if not (data := content.strip()):
        return None
    if form is FileForm.OBJECTS:
        return object_line(data, place.number, terms)
    return openai_line(data, place.number, terms, endpoint)


def _hash_of(raw: bytes) -> bytes:
    return blake2b(raw, digest_size=_HASH_BYTES).digest()


def _too_large() -> BatchFileError:
    return BatchFileError(f"the file has more than {FILE_BYTES_MAX:,} bytes: split it")


def _first_of(lines: Iterator[_Raw]) -> tuple[list[_Raw], _Raw]:
    """The first line that is not empty, and those before it."""
    before: list[_Raw] = []
    for raw in lines:
        if raw.data is None or _content(raw.data, raw.start).strip():
            return before, raw
        before.append(raw)
        if len(before) > LINES_MAX:
            break
    raise BatchFileError(_EMPTY)


def _form_of(first: _Raw) -> FileForm:
    """Return the form that a first line shows; BatchFileError for JSON that is no request."""
    if first.data is None:
        return FileForm.LINES
    line = _content(first.data, first.start).strip()
    if (fault := first_line_fault(line)) is not None:
        raise BatchFileError(f"the first line {fault}, or give --form lines if it is a prompt")
    if not line.startswith(b"{"):
        return FileForm.LINES
    return FileForm.OPENAI if any(name in json_object(line) for name in OPENAI_NAMES) else FileForm.OBJECTS


def _plain(content: bytes, number: int, terms: LineTerms) -> BatchLine | LineError | None:
    try:
        text = line_text(content)
    except UnicodeDecodeError as error:
        return undecodable(error, number)
    return plain_line(text, number, terms) if text.strip() else None


def _content(raw: bytes, start: int) -> bytes:
    """A line that begins at this byte of its file, without the mark of UTF-8."""
    return raw if start else unmarked(raw)


def _too_long(number: int) -> LineError:
    message = f"the line has more than {LINE_BYTES_MAX:,} bytes: shorten its prompt"
    return LineError(number, None, "line_too_long", message, None)
