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


def refused(why: str) -> ContainerRefusedError:
    """Return the error of an unreadable archive."""
    then = "make it with GNU tar or `docker save`, without sparse files"
    return ContainerRefusedError("read an archive", why, then, code="archive_unreadable")


class TarStream:
    """A reader of entries in order: `next_entry`, optionally `content`, then `next_entry` again."""

    def __init__(self, read: Read) -> None:
        """`read` returns the archive's bytes."""
        self._read = read
        self._left = 0
        self._padding = 0

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
            header = self._header()
            if header is None:
                return None
            flag, size = header[156:157], _number(header[124:136])
            if flag in b"LKxg" and flag:
                self._extend(flag, size, extended)
                continue
            return self._entry(header, flag, size, extended)
        raise refused(f"more than {EXTENDED_IN_A_ROW_MAX} extended headers before an entry")

    def content(self) -> Iterator[bytes]:
        """Yield the rest of the entry's content, in pieces of at most `CHUNK_BYTES`."""
        while self._left:
            piece = self._read(min(self._left, CHUNK_BYTES))
            if not piece:
                raise refused("it ends inside a file")
            self._left -= len(piece)
            yield piece
        self._exactly(self._padding)
        self._padding = 0

    def _header(self) -> bytes | None:
        block = self._exactly(BLOCK, may_end=True)
        if not block or not any(block):
            return None
        declared = _number(block[148:156])
        # The checksum field itself counts as eight spaces.
        if declared != sum(block) - sum(block[148:156]) + 8 * 0x20:
            raise refused("a header has a wrong checksum")
        return block

    def _entry(self, header: bytes, flag: bytes, size: int, extended: dict[str, str]) -> TarEntry:
        kind = _KINDS.get(flag)
        if kind is None or any(key.startswith("GNU.sparse") for key in extended):
            raise refused("an entry is sparse or of an unknown kind")
        # POSIX pax: an extended size replaces the header's field, which has too few digits for large files.
        if "size" in extended:
            size = _decimal(extended["size"])
        # Entries without content may still declare a size, for example some links.
        if kind is not EntryKind.FILE:
            size = 0
        if size > SIZE_MAX:
            raise refused("an entry declares more bytes than any disk has")
        self._left, self._padding = size, -size % BLOCK
        name = extended.get("path") or _name_of(header)
        link = extended.get("linkpath") or _text(header[157:257])
        return TarEntry(name, kind, size, _number(header[100:108]) & 0o7777, link)

    def _extend(self, flag: bytes, size: int, extended: dict[str, str]) -> None:
        if size > EXTENDED_BYTES_MAX:
            raise refused(f"an extended header has {size} bytes, of at most {EXTENDED_BYTES_MAX}")
        content = self._exactly(size)
        self._exactly(-size % BLOCK)
        match flag:
            case b"L":
                extended["path"] = _text(content)
            case b"K":
                extended["linkpath"] = _text(content)
            case b"x":
                extended.update(_records(content))
            case _:
                # Global records would apply to every later entry. Harmless ones, such as comments, are ignored.
                if any(key.startswith("GNU.sparse") or key in {"path", "size"} for key in _records(content)):
                    raise refused("a global header renames every file")

    def _exactly(self, count: int, *, may_end: bool = False) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._read(count - len(data))
            if not piece:
                if may_end and not data:
                    return b""
                raise refused("it is truncated")
            data += piece
        return data


class PieceReader:
    """A `Read` over pieces of any length from the engine. It holds one piece."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        """`pieces` in order."""
        self._pieces = pieces
        self._held = io.BytesIO()

    def __call__(self, count: int) -> bytes:
        """See `Read`."""
        while not (data := self._held.read(count)):
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._held = io.BytesIO(piece)
        return data


class HashingReader:
    """A `Read` that computes the SHA-256 of everything read."""

    def __init__(self, read: Read) -> None:
        """`read` returns the bytes."""
        self._read = read
        self._hash = hashlib.sha256()

    def __call__(self, count: int) -> bytes:
        """See `Read`."""
        data = self._read(count)
        self._hash.update(data)
        return data

    def finish(self) -> str:
        """Read to the end, and return the hash in hexadecimal."""
        while self(CHUNK_BYTES):
            pass
        return self._hash.hexdigest()


def _name_of(header: bytes) -> str:
    name, prefix = _text(header[:100]), _text(header[345:500]) if header[257:262] == b"ustar" else ""
    # GNU's old format uses these bytes for other fields than a prefix.
    is_posix = header[257:263] == b"ustar\0"
    return f"{prefix}/{name}" if prefix and is_posix else name


def _text(field: bytes) -> str:
    try:
        return field.split(b"\0", 1)[0].decode()
    except UnicodeDecodeError:
        raise refused("a name is not UTF-8") from None


def _number(field: bytes) -> int:
    """Return a number from octal digits or from GNU's binary form for large files."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not digits:
        return 0
    if not all(0x30 <= digit < 0x38 for digit in digits):
        raise refused("a header has an invalid number")
    return int(digits, 8)


def _decimal(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise refused("an extended header has an invalid number")
    return int(text)


def _records(content: bytes) -> dict[str, str]:
    """Return the pax records "length key=value newline" that this reader needs. Other keys are skipped."""
    found: dict[str, str] = {}
    content, at, count = content.rstrip(b"\0"), 0, 0
    while at < len(content):
        count += 1
        if count > RECORDS_MAX:
            raise refused(f"an extended header has more than {RECORDS_MAX} records")
        digits, space, _ = content[at : at + 8].partition(b" ")
        if not space or not digits.isdigit():
            raise refused("an extended header is damaged")
        end = at + int(digits)
        if not at + len(digits) + 2 < end <= len(content) or content[end - 1 : end] != b"\n":
            raise refused("an extended header is damaged")
        key, equals, value = content[at + len(digits) + 1 : end - 1].partition(b"=")
        if not equals:
            raise refused("an extended header is damaged")
        at = end
        if key in {b"path", b"linkpath", b"size"} or key.startswith(b"GNU.sparse"):
            found[key.decode(errors="replace")] = _text(value)
    return found
