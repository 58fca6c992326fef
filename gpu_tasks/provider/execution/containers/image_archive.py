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
class _EntryPlace:
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class CheckedArchive:
    """An archive that may be loaded."""

    content: BinaryIO
    config: bytes
    layers: tuple[_EntryPlace, ...]
    size: int
    """The unpacked size of its files in bytes."""

    def pieces(self) -> Iterator[bytes]:
        """Yield the archive for the engine: one image without tags."""
        config_name = f"{hashlib.sha256(self.config).hexdigest()}.json"
        layer_names = [f"{layer_number}.tar" for layer_number in range(len(self.layers))]
        manifest = [{"Config": config_name, "RepoTags": None, "Layers": layer_names}]
        yield from _entry_with_content(config_name, self.config)
        for layer_name, layer_place in zip(layer_names, self.layers, strict=True):
            yield _entry_header(layer_name, layer_place.size)
            yield from _entry_slices(self.content, layer_place)
            yield bytes(-layer_place.size % BLOCK)
        yield from _entry_with_content("manifest.json", json.dumps(manifest).encode())
        yield bytes(2 * BLOCK)


def check_archive(file: BinaryIO, sha256: str, size_max: int, machine_name: str) -> CheckedArchive:
    """Read the whole archive. Raise ContainerRefusedError with the reason unless it is the requested image."""
    places = _entry_places(file)
    manifest = _json_document(file, places, "manifest.json")
    if not (isinstance(manifest, list) and len(manifest) == 1 and isinstance(manifest[0], dict)):
        raise refused(
            "its manifest does not name exactly one image", "save one image, by its id", code="several_images"
        )
    config_bytes = _bytes_of(file, places, manifest[0].get("Config"))
    if hashlib.sha256(config_bytes).hexdigest() != sha256:
        raise refused(
            f"its configuration has an id other than sha256:{sha256[:12]}…", "ask for its own id", code="other_image_id"
        )
    image = _parsed_json(config_bytes)
    if not isinstance(image, dict) or not isinstance(image.get("config") or {}, dict):
        raise refused("its configuration is invalid", "build it again", code="invalid_image")
    check_platform(image.get("os"), image.get("architecture"), machine_name)
    # Before the layers, which take much longer to read.
    check_config(image.get("config") or {})
    layer_places, image_bytes = _check_layers(file, places, manifest[0].get("Layers"), image, size_max)
    return CheckedArchive(file, config_bytes, layer_places, image_bytes)


def _check_layers(
    file: BinaryIO, places: dict[str, _EntryPlace], layer_names: object, image: dict[str, Any], size_max: int
) -> tuple[tuple[_EntryPlace, ...], int]:
    image_rootfs = image.get("rootfs")
    layer_hashes = image_rootfs.get("diff_ids") if isinstance(image_rootfs, dict) else None
    if not (
        isinstance(layer_names, list)
        and isinstance(layer_hashes, list)
        and len(layer_names) == len(layer_hashes) <= LAYERS_MAX
    ):
        raise refused(
            "its layers do not match its configuration",
            f"save it again, with at most {LAYERS_MAX} layers",
            code="wrong_layers",
        )
    layer_places, total_bytes, entry_count = [], 0, 0
    for layer_name, expected in zip(layer_names, layer_hashes, strict=True):
        layer_place = _place_of(places, layer_name)
        hashing_reader = HashingReader(_bounded_reader(file, layer_place))
        bytes_left = LAYER_FRAME_BYTES
        for layer_entry in TarStream(hashing_reader):
            # Even an empty file costs an inode and metadata, so it counts with a least size.
            total_bytes, entry_count = total_bytes + max(layer_entry.size, ENTRY_COST_BYTES), entry_count + 1
            bytes_left += layer_entry.size + ENTRY_FRAME_BYTES
            check_size(total_bytes, size_max)
            if entry_count > ENTRIES_MAX:
                raise refused(f"it has more than {ENTRIES_MAX} files", "make it smaller", code="too_many_files")
        # Bytes between or after the entries would reach the engine uncounted.
        if layer_place.size > bytes_left:
            raise refused(
                f"a layer has {layer_place.size} bytes, but files for at most {bytes_left}",
                "save it again, by its id",
                code="uncounted_bytes",
            )
        # The engine must unpack exactly the bytes that were counted here.
        if f"sha256:{hashing_reader.finish()}" != expected:
            raise refused(
                "a layer is not the plain tar of its configuration", "save it uncompressed", code="other_layer"
            )
        layer_places.append(layer_place)
    return tuple(layer_places), total_bytes


def _entry_places(file: BinaryIO) -> dict[str, _EntryPlace]:
    """Return the position of each file in the archive. Links and folders are left out."""
    file.seek(0)
    tar_stream = TarStream(file.read)
    places: dict[str, _EntryPlace] = {}
    archive_end = file.seek(0, io.SEEK_END)
    file.seek(0)
    for entry in tar_stream:
        # A `docker save` archive has a few files for each layer, so this bound only stops floods.
        if len(places) > 4 * LAYERS_MAX + 64:
            raise refused(
                "it has more files than an image can have", "save one image, by its id", code="too_many_files"
            )
        if entry.kind is EntryKind.FILE:
            places[entry.name] = _EntryPlace(file.tell(), entry.size)
        if file.tell() + entry.size > archive_end:
            raise refused("it ends inside a file", "send it again", code="truncated")
    return places


def _place_of(places: dict[str, _EntryPlace], entry_name: object) -> _EntryPlace:
    if not isinstance(entry_name, str) or entry_name not in places:
        raise refused("its manifest names a missing file", "save it again, by its id", code="missing_file")
    return places[entry_name]


def _bytes_of(file: BinaryIO, places: dict[str, _EntryPlace], entry_name: object) -> bytes:
    place = _place_of(places, entry_name)
    if place.size > DOCUMENT_BYTES_MAX:
        raise refused(
            f"{str(entry_name)[:60]} is longer than {DOCUMENT_BYTES_MAX} bytes",
            "make it smaller",
            code="document_too_long",
        )
    return b"".join(_entry_slices(file, place))


def _json_document(file: BinaryIO, places: dict[str, _EntryPlace], entry_name: str) -> Any:
    return _parsed_json(_bytes_of(file, places, entry_name))


def _parsed_json(json_bytes: bytes) -> Any:
    try:
        return json.loads(json_bytes)
    # Deeply nested JSON raises RecursionError in Python's parser.
    except (ValueError, RecursionError):
        raise refused("a document in it is not JSON", "save it again", code="not_json") from None


def _entry_slices(file: BinaryIO, place: _EntryPlace) -> Iterator[bytes]:
    read_within = _bounded_reader(file, place)
    while entry_piece := read_within(CHUNK_BYTES):
        yield entry_piece


def _bounded_reader(file: BinaryIO, place: _EntryPlace) -> Read:
    left = place.size
    file.seek(place.offset)

    def read(byte_count: int) -> bytes:
        nonlocal left
        read_bytes = file.read(min(byte_count, left))
        left -= len(read_bytes)
        return read_bytes

    return read


def _entry_header(entry_name: str, size_bytes: int) -> bytes:
    block = tarfile.TarInfo(entry_name)
    block.size = size_bytes
    return block.tobuf(tarfile.GNU_FORMAT)


def _entry_with_content(entry_name: str, entry_content: bytes) -> Iterator[bytes]:
    yield _entry_header(entry_name, len(entry_content))
    yield entry_content + bytes(-len(entry_content) % BLOCK)
