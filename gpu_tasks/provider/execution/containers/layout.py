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
    found: list[InputFile] = []
    for name, content in sorted(inputs.items()):
        if isinstance(content, bytes):
            found.append(InputFile(name, content, len(content)))
        else:
            found.extend(_walk(name, content, 0))
        if len(found) > FILES_MAX:
            raise _refused(f"more than {FILES_MAX} files", "pack them", code="too_many_files")
    if (size := sum(file.size for file in found)) > bytes_max:
        raise _refused(f"{size} bytes, of at most {bytes_max}", "raise input_bytes", code="input_too_large")
    return found


def laid_in(folders: tuple[str, ...], inputs: list[InputFile], secrets: Mapping[str, bytes]) -> Iterator[bytes]:
    """Yield the tar stream that gives a container's volumes their owners and contents."""
    for folder in folders:
        is_own = folder in {"out", "workspace", "secrets"}
        yield _header(folder, 0, _OWN_FOLDER if is_own else _WALKABLE, tarfile.DIRTYPE, USER_ID if is_own else 0)
    for file in inputs:
        yield from _file(f"in/{file.name}", file, _READABLE if file.content is not None else _WALKABLE, 0)
    for name, content in sorted(secrets.items()):
        yield from _file(f"secrets/{name}", InputFile(name, content, len(content)), _SECRET, USER_ID)
    yield bytes(2 * BLOCK)


def copied_in(folder: str, files: list[InputFile]) -> Iterator[bytes]:
    """Yield the tar stream of files for a folder that the program owns."""
    for file in files:
        mode = 0o644 if file.content is not None else 0o755
        yield from _file(f"{folder}/{file.name}", file, mode, USER_ID)
    yield bytes(2 * BLOCK)


def _walk(name: str, path: Path, depth: int) -> Iterator[InputFile]:
    # lstat, so that a link is refused and not followed.
    kind = path.lstat()
    if stat.S_ISREG(kind.st_mode):
        yield InputFile(name, path, kind.st_size)
    elif stat.S_ISDIR(kind.st_mode):
        if depth >= DEPTH_MAX:
            raise _refused(f"{name} has folders deeper than {DEPTH_MAX}", "pack them", code="path_too_long")
        yield InputFile(name, None, 0)
        for child in sorted(path.iterdir()):
            yield from _walk(f"{name}/{child.name}", child, depth + 1)
    else:
        raise _refused(f"{name} is neither a file nor a folder", "remove links and devices", code="not_a_plain_file")


def _file(name: str, file: InputFile, mode: int, owner: int) -> Iterator[bytes]:
    if file.content is None:
        yield _header(name, 0, mode, tarfile.DIRTYPE, owner)
        return
    yield _header(name, file.size, mode, tarfile.REGTYPE, owner)
    if isinstance(file.content, bytes):
        yield file.content
    else:
        # O_NOFOLLOW: the file may have become a link since it was counted.
        descriptor = os.open(file.content, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as source:
            yield from _counted(source, file)
    yield bytes(-file.size % BLOCK)


def _counted(source: BinaryIO, file: InputFile) -> Iterator[bytes]:
    left = file.size
    while left:
        # The tar header promises this size, so a shorter file would shift every later entry.
        piece = source.read(min(left, CHUNK_BYTES))
        if not piece:
            raise _refused(f"{file.name} was shortened during the copy", "do not change it", code="file_changed")
        left -= len(piece)
        yield piece


def _header(name: str, size: int, mode: int, kind: bytes, owner: int) -> bytes:
    header = tarfile.TarInfo(name)
    header.size, header.mode, header.type, header.uid, header.gid = size, mode, kind, owner, owner
    return header.tobuf(tarfile.PAX_FORMAT)
