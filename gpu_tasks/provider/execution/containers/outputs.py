"""A container's output folder as one canonical archive with one hash: the same files give the same bytes.

The canonical form is a tar (pax) in the order of a walk, with the names of a folder sorted as bytes, owner and times 0,
and only the modes 644 and 755.

Invariants:

* It contains plain files and folders only.
* No name leads elsewhere or contains terminal control characters.
* Nothing is read beyond the limits. Sizes are checked before contents, because an engine expands sparse files.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

from gpu_tasks.provider.execution.containers.refusals import ContainerRefusedError
from gpu_tasks.provider.execution.containers.tar_entries import BLOCK, EntryKind, PieceReader, TarEntry, TarStream

NAME_BYTES_MAX = 255
"""The limit for a whole path."""
DEPTH_MAX = 16
_FOLDER_MODE, _FILE_MODE, _PROGRAM_MODE = 0o755, 0o644, 0o755


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """The limits of an archive."""

    files: int
    """Files and folders."""
    file_bytes: int
    """The content of all files together."""


@dataclass(frozen=True, slots=True)
class OutputArchive:
    """The written archive."""

    blake2_256: bytes
    """The hash of the archive."""
    size: int
    files: int
    """Files without folders."""


_refused = partial(ContainerRefusedError, "fetch the outputs")


def write_outputs(
    pieces: Iterator[bytes], folder: str, limits: OutputLimits, sink: BinaryIO, *, is_named: bool = False
) -> OutputArchive:
    """Write the archive of a folder that the engine sends as tar.

    Raise ContainerRefusedError, or OSError of the sink. `folder` is the first part of the engine's entry names. The
    archive's names begin below it, or with it if `is_named`.
    """
    output_writer = _OutputWriter(sink)
    tar_stream, last_place = TarStream(PieceReader(pieces)), None
    entry_count = file_count = total_bytes = 0
    for entry in tar_stream:
        path = _path_within(entry, folder, is_named=is_named)
        if path is None:
            continue
        place = tuple(path_part.encode() for path_part in path.split("/"))
        # The order is part of the canonical form, and it also excludes repeated names.
        if last_place is not None and place <= last_place:
            raise _refused(f"the engine sends {path!r} out of order", "report this", code="out_of_order")
        last_place = place
        entry_count, total_bytes, file_count = (
            entry_count + 1,
            total_bytes + entry.size,
            file_count + (entry.kind is EntryKind.FILE),
        )
        if entry_count > limits.files:
            raise _refused(
                f"more than {limits.files} files and folders", "pack them, or raise output_files", code="too_many_files"
            )
        # Sizes before contents: a sparse file expands while the engine sends it.
        if total_bytes > limits.file_bytes:
            raise _refused(
                f"the files have more than {limits.file_bytes} bytes, holes included",
                "raise output_bytes",
                code="output_too_large",
            )
        output_writer.add(entry, path, tar_stream)
    return OutputArchive(output_writer.finish(), output_writer.size, file_count)


class _OutputWriter:
    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._hash = hashlib.blake2b(digest_size=32)
        self.size = 0

    def add(self, entry: TarEntry, path: str, stream: TarStream) -> None:
        header = tarfile.TarInfo(path)
        if entry.kind is EntryKind.FOLDER:
            header.type, header.mode = tarfile.DIRTYPE, _FOLDER_MODE
        else:
            # Only two modes, so that the same files give the same hash on every machine.
            header.size, header.mode = (entry.size, _PROGRAM_MODE if entry.mode & 0o100 else _FILE_MODE)
        self._write(header.tobuf(tarfile.PAX_FORMAT))
        for piece in stream.content():
            self._write(piece)
        self._write(bytes(-entry.size % BLOCK))

    def finish(self) -> bytes:
        self._write(bytes(2 * BLOCK))
        return self._hash.digest()

    def _write(self, written_bytes: bytes) -> None:
        self._sink.write(written_bytes)
        self._hash.update(written_bytes)
        self.size += len(written_bytes)


def _path_within(entry: TarEntry, folder: str, *, is_named: bool) -> str | None:
    """Return the entry's name below the folder, or None for the folder itself unless `is_named`.

    A single file keeps its own name.
    """
    entry_name = entry.name.removesuffix("/") if entry.kind is EntryKind.FOLDER else entry.name
    shown_name = repr(entry_name[:80])
    # A customer that unpacks the outputs must not follow a stranger's link.
    if entry.kind not in {EntryKind.FILE, EntryKind.FOLDER}:
        raise _refused(f"{shown_name} is {entry.kind.value}", "use plain files and folders", code="not_a_plain_file")
    if entry_name == folder:
        return None if entry.kind is EntryKind.FOLDER and not is_named else folder
    path = entry_name.removeprefix(f"{folder}/")
    path_parts = path.split("/")
    if not entry_name.startswith(f"{folder}/") or any(path_part in {"", ".", ".."} for path_part in path_parts):
        raise _refused(f"the name {shown_name} leads out of the folder", "use plain names", code="path_outside")
    if len(path_parts) > DEPTH_MAX or len(path.encode()) > NAME_BYTES_MAX:
        raise _refused(
            f"the name {shown_name} is too deep or too long",
            f"use at most {DEPTH_MAX} folders and {NAME_BYTES_MAX} bytes",
            code="path_too_long",
        )
    # A customer lists these names on a terminal, which would act on control characters.
    if not path.isprintable():
        raise _refused(f"the name {shown_name} has unprintable characters", "use plain names", code="unprintable_name")
    return entry_name if is_named else path
