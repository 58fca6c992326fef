"""Image archives, checked completely before the engine reads a byte, and written again without anything else.

After the check these facts hold:

* The configuration has the requested id.
* Each layer is the plain tar that the configuration names by hash, without sparse files.
* The total size is within the limit.

So nothing unpacks to more than was counted, and no tag of this machine's images moves to a stranger's image.

Format: the archive of `docker save` (manifest.json).
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from gpu_tasks.provider.execution.containers.image_rules import check_config, check_platform, check_size, refused
from gpu_tasks.provider.execution.containers.tar_entries import (
    BLOCK,
    CHUNK_BYTES,
    EntryKind,
    HashingReader,
    Read,
    TarStream,
)

DOCUMENT_BYTES_MAX = 1 << 20
"""The limit for the manifest and for the configuration."""
LAYERS_MAX = 128
ENTRIES_MAX = 1_000_000
"""Files of all layers together. Each takes an inode."""
ENTRY_COST_BYTES = 256
"""The counted size of the smallest entry."""
ENTRY_FRAME_BYTES = 4_096
"""The allowance for headers and padding of each file in a layer."""
LAYER_FRAME_BYTES = 64 * 1024
"""The allowance for the end of a layer. The engine reads a whole layer each time that the manifest names it."""


@dataclass(frozen=True, slots=True)
class _Place:
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class CheckedArchive:
    """An archive that may be loaded."""

    content: BinaryIO
    config: bytes
    layers: tuple[_Place, ...]
    size: int
    """The unpacked size of its files in bytes."""

    def pieces(self) -> Iterator[bytes]:
        """Yield the archive for the engine: one image without tags."""
        config_name = f"{hashlib.sha256(self.config).hexdigest()}.json"
        names = [f"{number}.tar" for number in range(len(self.layers))]
        manifest = [{"Config": config_name, "RepoTags": None, "Layers": names}]
        yield from _member(config_name, self.config)
        for name, place in zip(names, self.layers, strict=True):
            yield _header(name, place.size)
            yield from _slice(self.content, place)
            yield bytes(-place.size % BLOCK)
        yield from _member("manifest.json", json.dumps(manifest).encode())
        yield bytes(2 * BLOCK)


def check_archive(content: BinaryIO, sha256: str, size_max: int, machine: str) -> CheckedArchive:
    """Read the whole archive. Raise ContainerRefusedError with the reason unless it is the requested image."""
    places = _places(content)
    manifest = _document(content, places, "manifest.json")
    if not (isinstance(manifest, list) and len(manifest) == 1 and isinstance(manifest[0], dict)):
        raise refused(
            "its manifest does not name exactly one image", "save one image, by its id", code="several_images"
        )
    config_bytes = _bytes(content, places, manifest[0].get("Config"))
    if hashlib.sha256(config_bytes).hexdigest() != sha256:
        raise refused(
            f"its configuration has an id other than sha256:{sha256[:12]}…", "ask for its own id", code="other_image_id"
        )
    image = _parsed(config_bytes)
    if not isinstance(image, dict) or not isinstance(image.get("config") or {}, dict):
        raise refused("its configuration is invalid", "build it again", code="invalid_image")
    check_platform(image.get("os"), image.get("architecture"), machine)
    # Before the layers, which take much longer to read.
    check_config(image.get("config") or {})
    layers, size = _check_layers(content, places, manifest[0].get("Layers"), image, size_max)
    return CheckedArchive(content, config_bytes, layers, size)


def _check_layers(
    content: BinaryIO, places: dict[str, _Place], names: object, image: dict[str, Any], size_max: int
) -> tuple[tuple[_Place, ...], int]:
    files = image.get("rootfs")
    hashes = files.get("diff_ids") if isinstance(files, dict) else None
    if not (isinstance(names, list) and isinstance(hashes, list) and len(names) == len(hashes) <= LAYERS_MAX):
        raise refused(
            "its layers do not match its configuration",
            f"save it again, with at most {LAYERS_MAX} layers",
            code="wrong_layers",
        )
    found, size, entries = [], 0, 0
    for name, expected in zip(names, hashes, strict=True):
        place = _place(places, name)
        reader = HashingReader(_bounded(content, place))
        room = LAYER_FRAME_BYTES
        for entry in TarStream(reader):
            # Even an empty file costs an inode and metadata, so it counts with a least size.
            size, entries = size + max(entry.size, ENTRY_COST_BYTES), entries + 1
            room += entry.size + ENTRY_FRAME_BYTES
            check_size(size, size_max)
            if entries > ENTRIES_MAX:
                raise refused(f"it has more than {ENTRIES_MAX} files", "make it smaller", code="too_many_files")
        # Bytes between or after the entries would reach the engine uncounted.
        if place.size > room:
            raise refused(
                f"a layer has {place.size} bytes, but files for at most {room}",
                "save it again, by its id",
                code="uncounted_bytes",
            )
        if f"sha256:{reader.finish()}" != expected:
            raise refused(
                "a layer is not the plain tar of its configuration", "save it uncompressed", code="other_layer"
            )
        found.append(place)
    return tuple(found), size


def _places(content: BinaryIO) -> dict[str, _Place]:
    """Return the position of each file in the archive. Links and folders are left out."""
    content.seek(0)
    stream = TarStream(content.read)
    found: dict[str, _Place] = {}
    end = content.seek(0, io.SEEK_END)
    content.seek(0)
    for entry in stream:
        # A `docker save` archive has a few files for each layer, so this bound only stops floods.
        if len(found) > 4 * LAYERS_MAX + 64:
            raise refused(
                "it has more files than an image can have", "save one image, by its id", code="too_many_files"
            )
        if entry.kind is EntryKind.FILE:
            found[entry.name] = _Place(content.tell(), entry.size)
        if content.tell() + entry.size > end:
            raise refused("it ends inside a file", "send it again", code="truncated")
    return found


def _place(places: dict[str, _Place], name: object) -> _Place:
    if not isinstance(name, str) or name not in places:
        raise refused("its manifest names a missing file", "save it again, by its id", code="missing_file")
    return places[name]


def _bytes(content: BinaryIO, places: dict[str, _Place], name: object) -> bytes:
    place = _place(places, name)
    if place.size > DOCUMENT_BYTES_MAX:
        raise refused(
            f"{str(name)[:60]} is longer than {DOCUMENT_BYTES_MAX} bytes", "make it smaller", code="document_too_long"
        )
    return b"".join(_slice(content, place))


def _document(content: BinaryIO, places: dict[str, _Place], name: str) -> Any:
    return _parsed(_bytes(content, places, name))


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    # Deeply nested JSON raises RecursionError in Python's parser.
    except (ValueError, RecursionError):
        raise refused("a document in it is not JSON", "save it again", code="not_json") from None


def _slice(content: BinaryIO, place: _Place) -> Iterator[bytes]:
    read = _bounded(content, place)
    while piece := read(CHUNK_BYTES):
        yield piece


def _bounded(content: BinaryIO, place: _Place) -> Read:
    left = place.size
    content.seek(place.offset)

    def read(count: int) -> bytes:
        nonlocal left
        data = content.read(min(count, left))
        left -= len(data)
        return data

    return read


def _header(name: str, size: int) -> bytes:
    header = tarfile.TarInfo(name)
    header.size = size
    return header.tobuf(tarfile.GNU_FORMAT)


def _member(name: str, content: bytes) -> Iterator[bytes]:
    yield _header(name, len(content))
    yield content + bytes(-len(content) % BLOCK)
