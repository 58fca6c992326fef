"""Archives from a customer, unpacked on the way into a container.

Invariants:

* The archive is a file of bounded size on the disk before it is read.
* Only plain files and folders with plain names are unpacked.
* The target is an empty folder, which the daemon deletes after the copy.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from gpu_tasks.provider.execution.containers.refusals import ContainerRefusedError
from gpu_tasks.provider.execution.containers.tar_entries import EntryKind, PieceReader, TarStream
from gpu_tasks.provider.tunnel.access import AccessError

FILES_MAX = 10_000
DEPTH_MAX = 16
NAME_BYTES_MAX = 255
_PIECE = 1 << 20
OWN_FOLDERS = ("workspace", "out")


def target_of(path: str) -> tuple[str, ...]:
    """Return the parts of a path in a container. Raise AccessError if customers may not write there."""
    parts = tuple(part for part in path.split("/") if part)
    if not parts or parts[0] not in OWN_FOLDERS or any(part in {".", ".."} or "\0" in part for part in parts):
        raise AccessError(f"{path[:80]!r} is not under /workspace or /out; copy files only there", code="path_outside")
    if len(parts) > DEPTH_MAX or any(len(part.encode()) > NAME_BYTES_MAX for part in parts):
        raise AccessError(
            f"{path[:80]!r} is too deep or too long; use at most {DEPTH_MAX} folders and {NAME_BYTES_MAX} bytes a name",
            code="path_too_long",
        )
    return parts


def unpack(file: BinaryIO, target_folder: Path) -> None:
    """Unpack an archive into an empty folder. Raise AccessError if it is no plain archive, or OSError."""
    file_count, known_paths = 0, set[tuple[str, ...]]()
    try:
        tar_stream = TarStream(PieceReader(iter(lambda: file.read(_PIECE), b"")))
        for entry in tar_stream:
            file_count, parts = file_count + 1, _parts(entry.name)
            # Parent folders count too, since a short entry with a deep name would create many of them.
            known_paths.update(parts[:depth] for depth in range(1, len(parts) + 1))
            if max(file_count, len(known_paths)) > FILES_MAX:
                raise AccessError(f"more than {FILES_MAX} files and folders; pack them into one", code="too_many_files")
            target_path = target_folder.joinpath(*parts)
            if entry.kind is EntryKind.FOLDER:
                target_path.mkdir(parents=True, exist_ok=True)
            elif entry.kind is EntryKind.FILE:
                target_path.parent.mkdir(parents=True, exist_ok=True)
                # Mode "xb" never overwrites: a repeated name is an error, and no link is followed.
                with target_path.open("xb") as target_file:
                    for piece in tar_stream.content():
                        target_file.write(piece)
            else:
                raise AccessError(
                    f"{entry.name[:80]!r} is {entry.kind.value}; copy plain files and folders", code="not_a_plain_file"
                )
    except ContainerRefusedError as error:
        raise AccessError(str(error), code=error.code) from None
    except FileExistsError as error:
        raise AccessError(
            f"the archive repeats a name: {Path(str(error.filename)).name[:80]!r}", code="repeated_name"
        ) from None


def _parts(name: str) -> tuple[str, ...]:
    parts = tuple(name.removesuffix("/").split("/"))
    # Names like "..", or empty ones from absolute paths, would lead out of the folder.
    if len(parts) > DEPTH_MAX or any(
        part in {"", ".", ".."} or "\0" in part or len(part.encode()) > NAME_BYTES_MAX for part in parts
    ):
        raise AccessError(
            f"the name {name[:80]!r} leads out of the folder, or is too deep or too long", code="path_outside"
        )
    return parts
