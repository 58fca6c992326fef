"""A model file: a header, then the sections that it names, each with its length and hash.

Layout: `MAGIC`, the header's length (u32, little-endian), the header in canonical SCALE, and the bytes of the sections
in the header's order. Nothing stands between them or after them. The model id is the BLAKE2b-256 of everything before
the first section. It therefore covers every byte of the file.

Invariant: the file decides over no memory. A header has at most `HEADER_BYTES_MAX` bytes, and everything else passes
through a buffer of `BUFFER_BYTES`, except a section that the caller asks for.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from hashlib import blake2b
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from gpu_tasks.models.errors import ModelError
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U64, Annotated, Bounded, DecodeError, Fixed, codec

MAGIC = b"ogpu/mf1"
LENGTH_BYTES = 4
HEADER_BYTES_MAX = 1 << 20
FILE_BYTES_MAX = 64 << 30
SECTIONS_MAX = 64
SECTION_BYTES_MAX = 64 << 20
"""The usual limit of a section that is read into memory. A tokenizer of 256,000 tokens has half of it."""
BUFFER_BYTES = 1 << 20
HASH_BYTES = 32
WORKLOAD_BYTES_MAX = 32
NAME_BYTES_MAX = 64
LICENCE_BYTES_MAX = 64
REVISION_BYTES_MAX = 128
SOURCE_BYTES_MAX = 256
SECTION_NAME_BYTES_MAX = 32

CONFIG = "config"
TOKENIZER = "tokenizer"
CHAT_TEMPLATE = "chat-template"
GENERATION = "generation"
LICENCE_TEXT = "licence-text"
TENSORS = "tensors"
SECTION_NAMES = (CONFIG, TOKENIZER, CHAT_TEMPLATE, GENERATION, LICENCE_TEXT, TENSORS)
"""The sections that a file may have, in their order: the large one is the last."""

DRAFT_SUFFIX = ".draft"
FILE_MODE = 0o644
_FORMS = {
    "workload": re.compile(r"[a-z0-9][a-z0-9-]*"),
    "name": re.compile(r"[a-z0-9][a-z0-9._-]*"),
    "licence": re.compile(r"[A-Za-z0-9.+() -]*"),
}
_TEXT_BYTES_MAX = {
    "workload": WORKLOAD_BYTES_MAX,
    "name": NAME_BYTES_MAX,
    "licence": LICENCE_BYTES_MAX,
    "revision": REVISION_BYTES_MAX,
    "source": SOURCE_BYTES_MAX,
}
_Decoded = TypeVar("_Decoded")
_FETCH_AGAIN = "Fetch or import the model again"

SectionContent = bytes | Iterable[bytes | memoryview]
ByteProgress = Callable[[int], object]
"""It is called with the number of bytes done since the last call."""


class ModelFileError(ModelError):
    """The file is not a sound model file, or cannot be read or written."""


@dataclass(frozen=True, slots=True)
class ModelFields:
    """The facts about a model that its file states."""

    workload: Annotated[str, Bounded(WORKLOAD_BYTES_MAX)]
    """The workload that computes it, such as `decoder-int8`."""
    name: Annotated[str, Bounded(NAME_BYTES_MAX)]
    """The name for people, such as `smollm2-135m-instruct`. Several models may have it."""
    licence: Annotated[str, Bounded(LICENCE_BYTES_MAX)]
    """An SPDX expression, or empty."""
    revision: Annotated[str, Bounded(REVISION_BYTES_MAX)]
    source: Annotated[str, Bounded(SOURCE_BYTES_MAX)]


@dataclass(frozen=True, slots=True)
class ModelSection:
    """One part of the file."""

    name: Annotated[str, Bounded(SECTION_NAME_BYTES_MAX)]
    length: U64
    content_hash: Annotated[bytes, Fixed(HASH_BYTES)]
    """The BLAKE2b-256 of its bytes."""


class SectionRange(NamedTuple):
    """The place of a section in its file, in bytes."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class ModelHeader(ModelFields):
    """The header of a model file."""

    sections: Annotated[tuple[ModelSection, ...], Bounded(SECTIONS_MAX)]

    @property
    def front(self) -> bytes:
        """The bytes before the first section."""
        encoded = _HEADER.encode(self)
        return MAGIC + len(encoded).to_bytes(LENGTH_BYTES, "little") + encoded

    @property
    def model_id(self) -> bytes:
        """The 32 bytes that identify the model with all its weights."""
        return blake2_256(self.front)

    @property
    def file_bytes(self) -> int:
        """The length of the whole file."""
        return len(self.front) + sum(section.length for section in self.sections)

    def has(self, name: str) -> bool:
        """Return whether the file has this section."""
        return any(section.name == name for section in self.sections)

    def section(self, name: str) -> ModelSection:
        """Return a section. Raise ModelFileError `section_missing`, with the sections that exist."""
        for section in self.sections:
            if section.name == name:
                return section
        names = ", ".join(section.name for section in self.sections) or "none"
        raise ModelFileError(f"{self.name} has no section {name!r}. Its sections: {names}", code="section_missing")

    def range_of(self, name: str) -> SectionRange:
        """Return the place of a section. Raise as `section`."""
        found = self.section(name)
        before = self.sections[: self.sections.index(found)]
        return SectionRange(len(self.front) + sum(section.length for section in before), found.length)


_HEADER = codec(ModelHeader)


# ------------------------------------------------------------------------------------------------------------ reading
def read_header(path: Path) -> ModelHeader:
    """Return the header of a file that has exactly the length that the header states. Raise ModelFileError.

    The sections are not read.
    """
    with _opened(path) as (_, header):
        return header


def section_range(path: Path, name: str) -> SectionRange:
    """Return the place of a section, to map it into memory. Raise ModelFileError. The bytes are not read."""
    return read_header(path).range_of(name)


def read_section(path: Path, name: str, bytes_max: int = SECTION_BYTES_MAX) -> bytes:
    """Return the bytes of a section, with length and hash checked. Raise ModelFileError.

    `bytes_max`: refuse a longer one before it is read.
    """
    with _opened(path) as (stream, header):
        found = header.section(name)
        if found.length > bytes_max:
            raise ModelFileError(
                f"section {name} of {path} has {found.length:,} bytes, and at most {bytes_max:,} are read into memory",
                code="section_too_large",
            )
        with _told_unreadable(path):
            stream.seek(header.range_of(name).offset)
            content = stream.read(found.length)
        # Another program may cut the file after its length was checked.
        if len(content) != found.length:
            raise _cut_error(path)
        _check_hash(path, found, blake2_256(content))
        return content


def decoded_section(path: Path, name: str, decode: Callable[[bytes], _Decoded]) -> _Decoded:
    """Return what `decode` makes of a section. Raise ModelFileError, also for a ValueError of `decode`."""
    content = read_section(path, name)
    try:
        return decode(content)
    # Hashes cover what an author wrote, sound or not. Python's JSON parser raises RecursionError for deep nesting.
    except (ValueError, RecursionError) as error:
        raise ModelFileError(
            f"section {name} of {path} is malformed: {str(error)[:100]}. {_FETCH_AGAIN}", code="section_malformed"
        ) from None


def verify(path: Path, progress: ByteProgress = lambda _: None) -> ModelHeader:
    """Return the header of a file after every byte is checked against its hash. Raise ModelFileError."""
    with _opened(path) as (stream, header):
        _pass_sections(path, stream, header, lambda _: None, progress)
        return header


def copy_verified(path: Path, target: BinaryIO, progress: ByteProgress = lambda _: None) -> ModelHeader:
    """Copy a model file, check every copied byte, and return its header. Raise ModelFileError."""
    with _opened(path) as (stream, header):
        _put(target, header.front)
        _pass_sections(path, stream, header, lambda chunk: _put(target, chunk), progress)
        return header


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BufferedReader, ModelHeader]]:
    """Open a model file and check its header and its length. The stream stands at the first section."""
    with _told_unreadable(path):
        # O_NONBLOCK: opening a named pipe without a writer would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        # Check the descriptor: between a check of the path and the opening, another file could take its place.
        file_status = os.fstat(descriptor)
        if not stat.S_ISREG(file_status.st_mode):
            raise ModelFileError(f"{path} is not a plain file. Give the path of a model file", code="not_a_file")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            with _told_unreadable(path):
                header = _checked_header(path, stream, file_status.st_size)
            yield stream, header
    finally:
        os.close(descriptor)


@contextmanager
def _told_unreadable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ModelFileError(
            f"{path} cannot be read: {error.strerror or error}. Give the path of a model file", code="file_unreadable"
        ) from None


def _checked_header(path: Path, stream: BinaryIO, file_bytes: int) -> ModelHeader:
    """Read the front of a file. Every length is compared with a limit and with the file before it is used."""
    front = stream.read(len(MAGIC) + LENGTH_BYTES)
    if not front.startswith(MAGIC):
        is_cut = MAGIC.startswith(front)
        raise (
            _cut_error(path)
            if is_cut
            else ModelFileError(
                f"{path} is not a model file. Import a model of another form with `ogpu model import`",
                code="not_a_model_file",
            )
        )
    if len(front) < len(MAGIC) + LENGTH_BYTES:
        raise _cut_error(path)
    header_bytes = int.from_bytes(front[len(MAGIC) :], "little")
    # A stranger's file of twelve bytes can state 4 GiB here: refuse it before the read takes the memory.
    if header_bytes > HEADER_BYTES_MAX:
        raise ModelFileError(
            f"{path} states a header of {header_bytes:,} bytes, and a header has at most {HEADER_BYTES_MAX:,}. "
            f"{_FETCH_AGAIN}",
            code="header_too_large",
        )
    encoded = stream.read(header_bytes)
    if len(encoded) < header_bytes:
        raise _cut_error(path)
    try:
        header = _HEADER.decode(encoded)
    except DecodeError as error:
        raise ModelFileError(
            f"the header of {path} cannot be read: {error}. {_FETCH_AGAIN}", code="header_malformed"
        ) from None
    _check_header(header, str(path))
    if file_bytes < header.file_bytes:
        raise _cut_error(path)
    # No hash covers bytes behind the sections, so one model id would stand for many files.
    if file_bytes > header.file_bytes:
        raise ModelFileError(
            f"{path} has {file_bytes - header.file_bytes:,} bytes behind its last section. {_FETCH_AGAIN}",
            code="bytes_left_over",
        )
    return header


def _check_header(header: ModelHeader, place: str) -> None:
    """Raise ModelFileError for texts, sections or lengths that no model file has."""
    _check_fields(header, place)
    names = [section.name for section in header.sections]
    unknown = [name for name in names if name not in SECTION_NAMES]
    if unknown:
        raise ModelFileError(
            f"{place} has a section {unknown[0]!r}, which this version cannot read. It reads "
            f"{', '.join(SECTION_NAMES)}. Install a newer version",
            code="section_unknown",
        )
    # The header fixes the id, so the same sections in another order would be a second id of one model.
    if names != [name for name in SECTION_NAMES if name in names]:
        raise ModelFileError(
            f"the sections of {place} are not in their order, or stand there twice: {', '.join(names)}. {_FETCH_AGAIN}",
            code="sections_out_of_order",
        )
    if header.file_bytes > FILE_BYTES_MAX:
        raise ModelFileError(
            f"{place} states {header.file_bytes:,} bytes, and a model file has at most {FILE_BYTES_MAX:,}",
            code="file_too_large",
        )


def _check_fields(model_fields: ModelFields, place: str) -> None:
    """Raise ModelFileError for a text that could mislead a person or a program."""
    texts = {field.name: getattr(model_fields, field.name) for field in fields(ModelFields)}
    # A control character in a stranger's file moves the cursor, and would write over lines of the terminal.
    wrong = [
        *(field_name for field_name, form in _FORMS.items() if not form.fullmatch(texts[field_name])),
        *(field_name for field_name in ("revision", "source") if not texts[field_name].isprintable()),
        *(
            field_name
            for field_name, bytes_max in _TEXT_BYTES_MAX.items()
            if len(texts[field_name].encode()) > bytes_max
        ),
    ]
    if wrong:
        raise ModelFileError(
            f"the {wrong[0]} of {place} is {texts[wrong[0]]!r}, which is too long or has characters that it may not "
            "have. Give another one",
            code="invalid_field",
        )


def _pass_sections(
    path: Path, stream: BufferedReader, header: ModelHeader, use: Callable[[memoryview], None], progress: ByteProgress
) -> None:
    """Read all sections once through a buffer, hand each part to `use`, and check each hash."""
    buffer = memoryview(bytearray(BUFFER_BYTES))
    for section in header.sections:
        digest = blake2b(digest_size=HASH_BYTES)
        missing = section.length
        while missing:
            with _told_unreadable(path):
                count = stream.readinto(buffer[: min(missing, BUFFER_BYTES)])
            if not count:
                raise _cut_error(path)
            digest.update(buffer[:count])
            use(buffer[:count])
            progress(count)
            missing -= count
        _check_hash(path, section, digest.digest())


def _check_hash(path: Path, section: ModelSection, content_hash: bytes) -> None:
    if content_hash != section.content_hash:
        raise ModelFileError(
            f"section {section.name} of {path} is damaged: its hash is another one than the header's. {_FETCH_AGAIN}",
            code="hash_mismatch",
        )


def _cut_error(path: Path) -> ModelFileError:
    return ModelFileError(f"{path} ends too early: the file is cut. {_FETCH_AGAIN}", code="file_truncated")


# ------------------------------------------------------------------------------------------------------------ writing
def write_model(
    path: Path,
    model_fields: ModelFields,
    sections: Iterable[tuple[str, SectionContent]],
    progress: ByteProgress = lambda _: None,
) -> ModelHeader:
    """Write a model file, replacing another one at `path`, and return its header. Raise ModelFileError.

    Each content is read once, a part at a time, in the order of `SECTION_NAMES`. Until every byte is on the disk the
    path stays as it is.
    """
    with draft_beside(path) as draft:
        header = write_sections(draft.stream, model_fields, sections, progress)
        draft.give_name(path)
    return header


def write_sections(
    target: BinaryIO,
    model_fields: ModelFields,
    sections: Iterable[tuple[str, SectionContent]],
    progress: ByteProgress = lambda _: None,
) -> ModelHeader:
    """Write a model file to an empty file that can seek. Otherwise as `write_model`."""
    _check_fields(model_fields, "the new model")
    given = sorted(sections, key=lambda section: _position(section[0]))
    texts = {field.name: getattr(model_fields, field.name) for field in fields(ModelFields)}
    # Lengths and hashes have a fixed size, so the header keeps its length when they become known.
    empty = tuple(ModelSection(name, 0, bytes(HASH_BYTES)) for name, _ in given)
    blank = ModelHeader(**texts, sections=empty)
    _check_header(blank, "the new model")
    front_bytes = len(blank.front)
    target.seek(front_bytes)
    written = []
    room = FILE_BYTES_MAX - front_bytes
    for name, content in given:
        written.append(_write_section(target, name, content, room, progress))
        room -= written[-1].length
    header = ModelHeader(**texts, sections=tuple(written))
    # The front comes last, so the draft of a killed import never looks like a model file.
    target.seek(0)
    _put(target, header.front)
    return header


class ModelDraft(NamedTuple):
    """A file without its final name."""

    path: Path
    stream: BinaryIO

    def give_name(self, path: Path) -> None:
        """Put the bytes on the disk, and then replace the file at `path`, on the same file system."""
        with _told_unwritable(path):
            self.stream.flush()
            # A power cut after a rename without fsync leaves a file of zeros under the model's id.
            os.fsync(self.stream.fileno())
            self.path.replace(path)
            # POSIX puts a new name on the disk only with an fsync of its folder.
            _sync_folder(path.parent)


@contextmanager
def draft_beside(path: Path) -> Iterator[ModelDraft]:
    """Create a draft in the folder of `path`, and remove it at the end unless it got a name. Raise ModelFileError."""
    # The draft lies in the same folder, because a rename to another file system is not atomic.
    draft_path = path.with_name(f".{os.urandom(8).hex()}{DRAFT_SUFFIX}")
    with _told_unwritable(path):
        # O_EXCL and O_NOFOLLOW: a file or link that another user prepared must not receive the bytes.
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(draft_path, flags, FILE_MODE)
    try:
        with os.fdopen(descriptor, "w+b", buffering=0) as stream:
            yield ModelDraft(draft_path, stream)
    finally:
        with suppress(OSError):
            draft_path.unlink(missing_ok=True)


def _position(name: str) -> int:
    return SECTION_NAMES.index(name) if name in SECTION_NAMES else len(SECTION_NAMES)


def _write_section(
    target: BinaryIO, name: str, content: SectionContent, room: int, progress: ByteProgress
) -> ModelSection:
    """Write the content of a section, and return its length and hash."""
    digest = blake2b(digest_size=HASH_BYTES)
    length = 0
    for given_part in (content,) if isinstance(content, bytes) else content:
        part = memoryview(given_part).cast("B")
        length += len(part)
        if length > room:
            raise ModelFileError(
                f"the model has more than {FILE_BYTES_MAX:,} bytes, the most of a model file", code="file_too_large"
            )
        digest.update(part)
        _put(target, part)
        progress(len(part))
    return ModelSection(name, length, digest.digest())


def _put(target: BinaryIO, rest: bytes | memoryview) -> None:
    """Write all bytes. Raise ModelFileError `file_unwritable`, as on a full disk."""
    with _told_unwritable(getattr(target, "name", "the file")):
        # An unbuffered file may take only a part of the bytes, as on a disk that fills up.
        while rest:
            rest = rest[target.write(rest) :]


@contextmanager
def _told_unwritable(place: object) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        named = "the model file" if isinstance(place, int) else place
        raise ModelFileError(
            f"{named} cannot be written: {error.strerror or error}. Free space, or name another folder",
            code="file_unwritable",
        ) from None


def _sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
