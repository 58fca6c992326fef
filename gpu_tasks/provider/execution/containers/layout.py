"""The initial content of a container's volumes, as one tar stream: folders, inputs, secrets.

Invariant: files are read once and in pieces, no link is followed, and no more is sent than was counted.
"""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from gpu_tasks.provider.execution.containers.creation import USER_ID
from gpu_tasks.provider.execution.containers.refusals import ContainerRefusedError
from gpu_tasks.provider.execution.containers.tar_entries import BLOCK, CHUNK_BYTES

FILES_MAX = 100_000
DEPTH_MAX = 32
_READABLE, _OWN_FOLDER, _SECRET, _WALKABLE = 0o444, 0o700, 0o400, 0o555


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file, or a folder if `content` is None."""

    name: str
    content: bytes | Path | None
    size: int


_refused = partial(ContainerRefusedError, "prepare inputs")


def input_files(inputs: Mapping[str, bytes | Path], bytes_max: int) -> list[InputFile]:
    """Return all files below the inputs, in order.

    Raise ContainerRefusedError for links, too many files or too many bytes, or OSError.
    """
    found_files: list[InputFile] = []
    for input_name, input_content in sorted(inputs.items()):
        if isinstance(input_content, bytes):
            found_files.append(InputFile(input_name, input_content, len(input_content)))
        else:
            found_files.extend(_walked_files(input_name, input_content, 0))
        if len(found_files) > FILES_MAX:
            raise _refused(f"more than {FILES_MAX} files", "pack them", code="too_many_files")
    if (total_bytes := sum(file.size for file in found_files)) > bytes_max:
        raise _refused(f"{total_bytes} bytes, of at most {bytes_max}", "raise input_bytes", code="input_too_large")
    return found_files


def laid_in(
    folder_names: tuple[str, ...], placed_inputs: list[InputFile], secrets: Mapping[str, bytes]
) -> Iterator[bytes]:
    """Yield the tar stream that gives a container's volumes their owners and contents."""
    for folder_name in folder_names:
        is_writable = folder_name in {"out", "workspace", "secrets"}
        yield _entry_header(
            folder_name, 0, _OWN_FOLDER if is_writable else _WALKABLE, tarfile.DIRTYPE, USER_ID if is_writable else 0
        )
    for file in placed_inputs:
        yield from _file_pieces(f"in/{file.name}", file, _READABLE if file.content is not None else _WALKABLE, 0)
    for secret_name, secret_content in sorted(secrets.items()):
        yield from _file_pieces(
            f"secrets/{secret_name}", InputFile(secret_name, secret_content, len(secret_content)), _SECRET, USER_ID
        )
    yield bytes(2 * BLOCK)


def copied_in(folder_name: str, files: list[InputFile]) -> Iterator[bytes]:
    """Yield the tar stream of files for a folder that the program owns."""
    for file in files:
        file_mode = 0o644 if file.content is not None else 0o755
        yield from _file_pieces(f"{folder_name}/{file.name}", file, file_mode, USER_ID)
    yield bytes(2 * BLOCK)


def _walked_files(entry_name: str, path: Path, folder_depth: int) -> Iterator[InputFile]:
    # lstat, so that a link is refused and not followed.
    path_status = path.lstat()
    if stat.S_ISREG(path_status.st_mode):
        yield InputFile(entry_name, path, path_status.st_size)
    elif stat.S_ISDIR(path_status.st_mode):
        if folder_depth >= DEPTH_MAX:
            raise _refused(f"{entry_name} has folders deeper than {DEPTH_MAX}", "pack them", code="path_too_long")
        yield InputFile(entry_name, None, 0)
        for child_path in sorted(path.iterdir()):
            yield from _walked_files(f"{entry_name}/{child_path.name}", child_path, folder_depth + 1)
    else:
        raise _refused(
            f"{entry_name} is neither a file nor a folder", "remove links and devices", code="not_a_plain_file"
        )


def _file_pieces(entry_name: str, file: InputFile, file_mode: int, owner_id: int) -> Iterator[bytes]:
    if file.content is None:
        yield _entry_header(entry_name, 0, file_mode, tarfile.DIRTYPE, owner_id)
        return
    yield _entry_header(entry_name, file.size, file_mode, tarfile.REGTYPE, owner_id)
    if isinstance(file.content, bytes):
        yield file.content
    else:
        # O_NOFOLLOW: the file may have become a link since it was counted.
        descriptor = os.open(file.content, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as source:
            yield from _counted_pieces(source, file)
    yield bytes(-file.size % BLOCK)


def _counted_pieces(source: BinaryIO, file: InputFile) -> Iterator[bytes]:
    bytes_left = file.size
    while bytes_left:
        # The tar header promises this size, so a shorter file would shift every later entry.
        piece = source.read(min(bytes_left, CHUNK_BYTES))
        if not piece:
            raise _refused(f"{file.name} was shortened during the copy", "do not change it", code="file_changed")
        bytes_left -= len(piece)
        yield piece


def _entry_header(entry_name: str, size_bytes: int, entry_mode: int, entry_kind: bytes, owner_id: int) -> bytes:
    header = tarfile.TarInfo(entry_name)
    header.size, header.mode, header.type, header.uid, header.gid = (
        size_bytes,
        entry_mode,
        entry_kind,
        owner_id,
        owner_id,
    )
    return header.tobuf(tarfile.PAX_FORMAT)
