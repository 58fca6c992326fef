"""An image as `docker save` wrote it, on its way to who runs it: looked at here, and compressed.

Always: what no provider would take is said before anything is sent; the same file gives the same compressed bytes, so
that an upload that broke off goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_tasks.tasks.container_request import IMAGE_ARCHIVE_BYTES_MAX, IMAGE_PART_BYTES, IMAGE_PARTS_MAX
from wallet.errors import WalletError

PACKED_BYTES_MAX = IMAGE_PART_BYTES * IMAGE_PARTS_MAX
DOCUMENT_BYTES_MAX = 1 << 20
"""Of manifest and configuration."""
READ_BYTES = 1 << 20
GZIP_WINDOW = 31
LEVEL = 6
PACKED_LAYERS = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""How layers begin that gzip or zstd packed."""


class ImageFileError(WalletError):
    """An archive that nobody would run; the text says why and what to do."""


@dataclass(slots=True)
class ArchiveFile:
    """An archive that was looked at."""

    path: Path
    sha256: bytes
    """The image's id."""
    size: int
    _parts: tuple[bytes, ...] = field(default=(), repr=False)

    def parts(self) -> Sequence[bytes]:
        """Compressed, in pieces; takes seconds, once. ImageFileError where that is too much."""
        if not self._parts:
            packed = _packed(self.path)
            begins = range(0, len(packed), IMAGE_PART_BYTES)
            self._parts = tuple(packed[begin : begin + IMAGE_PART_BYTES] for begin in begins)
        return self._parts


def look_at_image(path: Path, sha256: bytes) -> ArchiveFile:
    """An archive with the image of this id; ImageFileError, OSError."""
    size = path.stat().st_size
    if size > IMAGE_ARCHIVE_BYTES_MAX:
        raise ImageFileError(
            f"{path.name} has {size >> 20} MiB, and an archive {IMAGE_ARCHIVE_BYTES_MAX >> 20}: push a larger image to "
            "a registry, and name its digest"
        )
    try:
        with tarfile.open(path, "r:") as archive:
            _check(archive, path.name, sha256)
    except (tarfile.TarError, KeyError, ValueError, TypeError, RecursionError, AttributeError) as error:
        raise ImageFileError(
            f"{path.name} is no archive of an image ({str(error)[:80]}): `docker save IMAGE -o FILE` writes one"
        ) from None
    return ArchiveFile(path, sha256, size)


def _check(archive: tarfile.TarFile, name: str, sha256: bytes) -> None:
    manifest = json.loads(_document(archive, "manifest.json"))
    if len(manifest) != 1:
        raise ImageFileError(f"{name} has {len(manifest)} images: save one")
    config = _document(archive, manifest[0]["Config"])
    found = hashlib.sha256(config).hexdigest()
    if found != sha256.hex():
        raise ImageFileError(f"{name} has the image sha256:{found}, and the file asks for sha256:{sha256.hex()}")
    for layer in manifest[0]["Layers"]:
        if _begin(archive, layer).startswith(PACKED_LAYERS):
            raise ImageFileError(
                f"{name} has layers that are compressed, which no provider loads: save it from an engine without "
                "containerd's image store"
            )


def _document(archive: tarfile.TarFile, name: str) -> Any:
    opened = archive.extractfile(name)
    if opened is None or archive.getmember(name).size > DOCUMENT_BYTES_MAX:
        raise ValueError(f"{name} is none")
    return opened.read()


def _begin(archive: tarfile.TarFile, name: str) -> bytes:
    opened = archive.extractfile(name)
    return b"" if opened is None else opened.read(4)


def _packed(path: Path) -> bytes:
    packer, pieces, length = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP_WINDOW), [], 0
    try:
        with path.open("rb") as opened:
            while piece := opened.read(READ_BYTES):
                pieces.append(packer.compress(piece))
                length += len(pieces[-1])
                if length > PACKED_BYTES_MAX:
                    break
    except OSError as error:
        raise ImageFileError(f"{path.name} cannot be read: {error.strerror}") from None
    pieces.append(packer.flush())
    packed = b"".join(pieces)
    if len(packed) > PACKED_BYTES_MAX:
        raise ImageFileError(
            f"{path.name} has more than {PACKED_BYTES_MAX >> 20} MiB when it is compressed: push the image to a "
            "registry, and name its digest"
        )
    return packed
