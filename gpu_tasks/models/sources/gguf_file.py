"""The container format GGUF: metadata and a list of tensors, read with limits.

The format is that of ggml's docs/gguf.md, versions 2 and 3, little-endian. The library `gguf` has a reader too; it
trusts the file's counts and takes seconds for a vocabulary, so only its dequantisation is used here.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import cast

import numpy as np
from numpy.typing import NDArray

from gpu_tasks.models.sources.opened_file import OpenedFile
from gpu_tasks.models.sources.source_model import TENSORS_MAX, Floats, SourceError, StoredTensor

MAGIC = b"GGUF"
VERSIONS = (2, 3)
HEADER_BYTES_MAX = 64 * 2**20
KEYS_MAX = 4_096
KEY_BYTES_MAX = 256
TEXT_BYTES_MAX = 2**20
ARRAY_MAX = 2**21
ALIGNMENT_DEFAULT = 32
ALIGNMENT_MAX = 2**16
DIMENSIONS_MAX = 4

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT = 8
ARRAY = 9

TENSOR_TYPES = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS".split()
"""Types with a dequantisation in the library."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """A list of numbers. It differs from every scalar, without an error where a file holds it in place of one."""

    array: NDArray[np.generic]


@dataclass(frozen=True)
class GgufFile:
    """The metadata and the tensors of a file, under the names in the file."""

    metadata: Mapping[str, object]
    tensors: Mapping[str, StoredTensor]


def read_gguf(file: OpenedFile) -> GgufFile:
    """Read a header, which lists no tensor outside of the file. Raise SourceError for any other file."""
    cursor = _Cursor(file)
    if cursor.take(4) != MAGIC:
        raise SourceError("format", f"{file.name} is no GGUF file")
    version = cursor.number("I")
    # A big-endian file has the version 0x03000000 here, so this refuses it too.
    if version not in VERSIONS:
        raise SourceError("format", f"{file.name} has GGUF version {version}; versions 2 and 3 are supported")
    tensor_count, key_count = cursor.number("Q"), cursor.number("Q")
    # A file of 24 bytes can state 2**63 entries: limit the counts before the loops take memory.
    if tensor_count > TENSORS_MAX or key_count > KEYS_MAX:
        raise SourceError("too_large", f"{file.name} lists {tensor_count} tensors and {key_count} metadata keys")
    metadata: dict[str, object] = {}
    for _ in range(key_count):
        key = cursor.text(KEY_BYTES_MAX)
        if key in metadata:
            raise SourceError("duplicate", f"{file.name} holds the metadata key {key} twice")
        metadata[key] = cursor.value()
    entries: dict[str, _Entry] = {}
    for _ in range(tensor_count):
        name = cursor.text(KEY_BYTES_MAX)
        if name in entries:
            raise SourceError("duplicate", f"{file.name} holds the tensor {name} twice")
        entries[name] = _entry(cursor, name)
    alignment = metadata.get("general.alignment", ALIGNMENT_DEFAULT)
    if not isinstance(alignment, int) or not 8 <= alignment <= ALIGNMENT_MAX or alignment % 8:
        raise SourceError("damaged", f"{file.name} has the alignment {str(alignment)[:40]}")
    start = -(-cursor.offset // alignment) * alignment
    _check_places(file, entries, start, alignment)
    return GgufFile(metadata, {name: _stored(file, start, entry) for name, entry in entries.items()})


@dataclass(frozen=True)
class _Entry:
    shape: tuple[int, ...]
    type_number: int
    offset: int
    length: int


class _Cursor:
    """Reads the header from its start."""

    def __init__(self, file: OpenedFile) -> None:
        self._name = file.name
        self._bytes = file.read(0, min(file.size, HEADER_BYTES_MAX))
        self.offset = 0

    def take(self, length: int) -> bytes:
        end = self.offset + length
        if end > len(self._bytes):
            raise SourceError("out_of_file", f"{self._name} ends within its header: the file is cut short")
        taken = self._bytes[self.offset : end]
        self.offset = end
        return taken

    def number(self, letter: str) -> int:
        return int(self._scalar(letter))

    def text(self, most: int) -> str:
        length = self.number("Q")
        if length > most:
            raise SourceError("too_large", f"{self._name} holds a text of {length} bytes; at most {most} are read")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            raise SourceError("damaged", f"{self._name} holds a text that is not UTF-8") from None

    def value(self) -> object:
        """Return a scalar, a text, a tuple of texts, or Numbers."""
        value_type = self.number("I")
        if value_type == TEXT:
            return self.text(TEXT_BYTES_MAX)
        if value_type != ARRAY:
            return self._scalar(self._letter(value_type))
        value_type, value_count = self.number("I"), self.number("Q")
        if value_count > ARRAY_MAX:
            raise SourceError(
                "too_large", f"{self._name} holds a list of {value_count} values; at most {ARRAY_MAX} are read"
            )
        if value_type == TEXT:
            return tuple(self.text(TEXT_BYTES_MAX) for _ in range(value_count))
        # A list of lists is an unknown type here: a stranger could nest them to any depth.
        scalar_type = np.dtype(f"<{self._letter(value_type)}")
        return Numbers(np.frombuffer(self.take(value_count * scalar_type.itemsize), dtype=scalar_type))

    def _scalar(self, letter: str) -> int | float | bool:
        (value,) = struct.unpack(f"<{letter}", self.take(struct.calcsize(f"<{letter}")))
        return cast(int | float | bool, value)

    def _letter(self, kind: int) -> str:
        if kind not in SCALARS:
            raise SourceError("damaged", f"{self._name} holds a metadata value of the unknown type {kind}")
        return SCALARS[kind]


def _entry(cursor: _Cursor, name: str) -> _Entry:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType  # noqa: PLC0415 - 0.2 s of CPU, for these files alone

    dimension_count = cursor.number("I")
    if not 1 <= dimension_count <= DIMENSIONS_MAX:
        raise SourceError("shape", f"tensor {name} has {dimension_count} dimensions")
    shape = tuple(cursor.number("Q") for _ in range(dimension_count))[::-1]  # the file names the innermost first
    type_number, offset = cursor.number("I"), cursor.number("Q")
    known_types = {kind.value: kind for kind in GGMLQuantizationType if kind.name in TENSOR_TYPES}
    if type_number not in known_types:
        type_name = {kind.value: kind.name for kind in GGMLQuantizationType}.get(type_number, str(type_number))
        raise SourceError(
            "type", f"tensor {name} has the type {type_name}; the known ones are {', '.join(TENSOR_TYPES)}"
        )
    block_values, block_bytes = GGML_QUANT_SIZES[known_types[type_number]]
    if 0 in shape or shape[-1] % block_values:
        raise SourceError(
            "shape", f"tensor {name} of the shape {shape} does not divide into blocks of {block_values} values"
        )
    # Python's integers do not overflow: in 64 bits a shape of 2**62 by 2**62 values would have the length 0.
    return _Entry(shape, type_number, offset, math.prod(shape) // block_values * block_bytes)


def _check_places(file: OpenedFile, entries: Mapping[str, _Entry], start: int, alignment: int) -> None:
    """Raise SourceError unless the tensors lie in the file, aligned and apart."""
    placed = sorted((entry.offset, entry.offset + entry.length, name) for name, entry in entries.items())
    for offset, end, name in placed:
        if offset % alignment:
            raise SourceError("damaged", f"tensor {name} begins at {offset}, not at a multiple of {alignment}")
        if start + end > file.size:
            raise SourceError("out_of_file", f"tensor {name} ends beyond the end of {file.name}: the file is cut short")
    for (_, end, before), (offset, _, name) in pairwise(placed):
        # Tensors of a sound file share no byte. An overlap shows a damaged list.
        if offset < end:
            raise SourceError("overlap", f"the tensors {before} and {name} overlap in {file.name}")


def _stored(file: OpenedFile, start: int, entry: _Entry) -> StoredTensor:
    return StoredTensor(entry.shape, partial(_read, file, start, entry))


def _read(file: OpenedFile, start: int, entry: _Entry) -> Floats:
    from gguf import GGMLQuantizationType, dequantize  # noqa: PLC0415 - as in `_entry`

    row_count = math.prod(entry.shape[:-1])
    stored_bytes = file.read_array(start + entry.offset, entry.length).reshape(row_count, -1)
    with np.errstate(all="ignore"):  # a scale may be NaN or infinity, which the caller refuses
        values = dequantize(stored_bytes, GGMLQuantizationType(entry.type_number))
    return values.astype(np.float32, copy=False).reshape(entry.shape)
