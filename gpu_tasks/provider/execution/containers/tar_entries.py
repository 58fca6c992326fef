"""Strangers' tar archives, read entry by entry. Invariant: memory use does not grow with the archive.

Python's `tarfile` reads extended headers of any declared length into memory, and loops for ever on some damaged ones.
This reader supports ustar, GNU long names and pax records, verifies each header's checksum, and refuses everything
else.

Formats: POSIX.1-2017, pax; tar(5).
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from gpu_tasks.provider.execution.containers.refusals import ContainerRefusedError

BLOCK = 512
EXTENDED_BYTES_MAX = 64 * 1024
"""The size of one extended header. A path has at most 4,096 bytes, attributes a little more."""
EXTENDED_IN_A_ROW_MAX = 4
RECORDS_MAX = 256
"""Records of one extended header: a name, times and a few attributes. Each record costs time to parse."""
SIZE_MAX = 1 << 50
CHUNK_BYTES = 1 << 20

Read = Callable[[int], bytes]
"""A function that returns up to the requested number of bytes: at least one, or nothing at the end."""


class EntryKind(Enum):
    """The kind of a tar entry."""

    FILE = "a file"
    FOLDER = "a folder"
    HARD_LINK = "a hard link"
    SYMBOLIC_LINK = "a symbolic link"
    DEVICE = "a device"
    FIFO = "a pipe"


@dataclass(frozen=True, slots=True)
class TarEntry:
    """One entry. Its content follows in the stream."""

    name: str
    kind: EntryKind
    size: int
    """Bytes of content."""
    mode: int
    link: str = ""


_KINDS = {
    b"0": EntryKind.FILE,
    b"\0": EntryKind.FILE,
    b"7": EntryKind.FILE,
    b"1": EntryKind.HARD_LINK,
    b"2": EntryKind.SYMBOLIC_LINK,
    b"3": EntryKind.DEVICE,
    b"4": EntryKind.DEVICE,
    b"5": EntryKind.FOLDER,
    b"6": EntryKind.FIFO,
}


def refused(reason: str) -> ContainerRefusedError:
    """Return the error of an unreadable archive."""
    remedy = "make it with GNU tar or `docker save`, without sparse files"
    return ContainerRefusedError("read an archive", reason, remedy, code="archive_unreadable")


class TarStream:
    """A reader of entries in order: `next_entry`, optionally `content`, then `next_entry` again."""

    def __init__(self, read_bytes: Read) -> None:
        """`read_bytes` returns the archive's bytes."""
        self._read_bytes = read_bytes
        self._content_left = 0
        self._padding_left = 0

    def __iter__(self) -> Iterator[TarEntry]:
        """Yield all entries. Raise ContainerRefusedError if this is no valid archive."""
        while (entry := self.next_entry()) is not None:
            yield entry

    def next_entry(self) -> TarEntry | None:
        """Return the next entry, or None at the end. The rest of the previous content is skipped."""
        for _ in self.content():
            pass
        extended: dict[str, str] = {}
        # An archive of extended headers alone would otherwise never reach an entry.
        for _ in range(EXTENDED_IN_A_ROW_MAX):
            block = self._next_header()
            if block is None:
                return None
            type_flag, entry_size = block[156:157], _octal_number(block[124:136])
            if type_flag in b"LKxg" and type_flag:
                self._read_extended(type_flag, entry_size, extended)
                continue
            return self._entry_of(block, type_flag, entry_size, extended)
        raise refused(f"more than {EXTENDED_IN_A_ROW_MAX} extended headers before an entry")

    def content(self) -> Iterator[bytes]:
        """Yield the rest of the entry's content, in pieces of at most `CHUNK_BYTES`."""
        while self._content_left:
            piece = self._read_bytes(min(self._content_left, CHUNK_BYTES))
            if not piece:
                raise refused("it ends inside a file")
            self._content_left -= len(piece)
            yield piece
        self._read_exactly(self._padding_left)
        self._padding_left = 0

    def _next_header(self) -> bytes | None:
        block = self._read_exactly(BLOCK, may_end=True)
        if not block or not any(block):
            return None
        declared = _octal_number(block[148:156])
        # The checksum field itself counts as eight spaces.
        if declared != sum(block) - sum(block[148:156]) + 8 * 0x20:
            raise refused("a header has a wrong checksum")
        return block

    def _entry_of(self, block: bytes, type_flag: bytes, size_bytes: int, extended: dict[str, str]) -> TarEntry:
        entry_kind = _KINDS.get(type_flag)
        # A sparse file of a kilobyte unpacks to a terabyte in the engine's folder.
        if entry_kind is None or any(extended_key.startswith("GNU.sparse") for extended_key in extended):
            raise refused("an entry is sparse or of an unknown kind")
        # POSIX pax: an extended size replaces the header's field, which has too few digits for large files.
        if "size" in extended:
            size_bytes = _decimal_number(extended["size"])
        # Entries without content may still declare a size, for example some links.
        if entry_kind is not EntryKind.FILE:
            size_bytes = 0
        if size_bytes > SIZE_MAX:
            raise refused("an entry declares more bytes than any disk has")
        self._content_left, self._padding_left = size_bytes, -size_bytes % BLOCK
        entry_name = extended.get("path") or _name_of(block)
        link_target = extended.get("linkpath") or _field_text(block[157:257])
        return TarEntry(entry_name, entry_kind, size_bytes, _octal_number(block[100:108]) & 0o7777, link_target)

    def _read_extended(self, type_flag: bytes, size_bytes: int, extended: dict[str, str]) -> None:
        if size_bytes > EXTENDED_BYTES_MAX:
            raise refused(f"an extended header has {size_bytes} bytes, of at most {EXTENDED_BYTES_MAX}")
        content = self._read_exactly(size_bytes)
        self._read_exactly(-size_bytes % BLOCK)
        match type_flag:
            case b"L":
                extended["path"] = _field_text(content)
            case b"K":
                extended["linkpath"] = _field_text(content)
            case b"x":
                extended.update(_extended_records(content))
            case _:
                # Global records would apply to every later entry. Harmless ones, such as comments, are ignored.
                if any(
                    extended_key.startswith("GNU.sparse") or extended_key in {"path", "size"}
                    for extended_key in _extended_records(content)
                ):
                    raise refused("a global header renames every file")

    def _read_exactly(self, byte_count: int, *, may_end: bool = False) -> bytes:
        read_bytes = b""
        while len(read_bytes) < byte_count:
            next_piece = self._read_bytes(byte_count - len(read_bytes))
            if not next_piece:
                if may_end and not read_bytes:
                    return b""
                raise refused("it is truncated")
            read_bytes += next_piece
        return read_bytes


class PieceReader:
    """A `Read` over pieces of any length from the engine. It holds one piece."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        """`pieces` in order."""
        self._pieces = pieces
        self._held = io.BytesIO()

    def __call__(self, byte_count: int) -> bytes:
        """See `Read`."""
        while not (taken_bytes := self._held.read(byte_count)):
            next_piece = next(self._pieces, None)
            if next_piece is None:
                return b""
            self._held = io.BytesIO(next_piece)
        return taken_bytes


class HashingReader:
    """A `Read` that computes the SHA-256 of everything read."""

    def __init__(self, read_bytes: Read) -> None:
        """`read_bytes` returns the bytes."""
        self._read_bytes = read_bytes
        self._hash = hashlib.sha256()

    def __call__(self, byte_count: int) -> bytes:
        """See `Read`."""
        read_bytes = self._read_bytes(byte_count)
        self._hash.update(read_bytes)
        return read_bytes

    def finish(self) -> str:
        """Read to the end, and return the hash in hexadecimal."""
        while self(CHUNK_BYTES):
            pass
        return self._hash.hexdigest()


def _name_of(block: bytes) -> str:
    file_name, name_prefix = (
        _field_text(block[:100]),
        _field_text(block[345:500]) if block[257:262] == b"ustar" else "",
    )
    # GNU's old format uses these bytes for other fields than a prefix.
    is_posix = block[257:263] == b"ustar\0"
    return f"{name_prefix}/{file_name}" if name_prefix and is_posix else file_name


def _field_text(header_field: bytes) -> str:
    try:
        return header_field.split(b"\0", 1)[0].decode()
    except UnicodeDecodeError:
        raise refused("a name is not UTF-8") from None


def _octal_number(header_field: bytes) -> int:
    """Return a number from octal digits or from GNU's binary form for large files."""
    if header_field[0] == 0x80:
        return int.from_bytes(header_field[1:], "big")
    octal_digits = header_field.strip(b" \0")
    if not octal_digits:
        return 0
    if not all(0x30 <= digit < 0x38 for digit in octal_digits):
        raise refused("a header has an invalid number")
    return int(octal_digits, 8)


def _decimal_number(digits_text: str) -> int:
    if not (digits_text.isascii() and digits_text.isdigit() and len(digits_text) < 20):
        raise refused("an extended header has an invalid number")
    return int(digits_text)


def _extended_records(content: bytes) -> dict[str, str]:
    """Return the pax records "length key=value newline" that this reader needs. Other keys are skipped."""
    value_found: dict[str, str] = {}
    content, record_start, record_count = content.rstrip(b"\0"), 0, 0
    while record_start < len(content):
        record_count += 1
        if record_count > RECORDS_MAX:
            raise refused(f"an extended header has more than {RECORDS_MAX} records")
        length_digits, space_sign, _ = content[record_start : record_start + 8].partition(b" ")
        if not space_sign or not length_digits.isdigit():
            raise refused("an extended header is damaged")
        record_end = record_start + int(length_digits)
        if (
            not record_start + len(length_digits) + 2 < record_end <= len(content)
            or content[record_end - 1 : record_end] != b"\n"
        ):
            raise refused("an extended header is damaged")
        record_key, equals_sign, value_text = content[record_start + len(length_digits) + 1 : record_end - 1].partition(
            b"="
        )
        if not equals_sign:
            raise refused("an extended header is damaged")
        record_start = record_end
        if record_key in {b"path", b"linkpath", b"size"} or record_key.startswith(b"GNU.sparse"):
            value_found[record_key.decode(errors="replace")] = _field_text(value_text)
    return value_found
