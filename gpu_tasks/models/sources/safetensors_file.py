"""The container format safetensors: a JSON header and tensors.

The library `safetensors` reads no BF16 into NumPy and accepts a name twice, so the header is read here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypeGuard

import numpy as np

from gpu_tasks.models.sources.json_files import json_object
from gpu_tasks.models.sources.opened_file import OpenedFile
from gpu_tasks.models.sources.source_model import TENSORS_MAX, Floats, SourceError, StoredTensor

HEADER_BYTES_MAX = 16 * 2**20
"""A header of 65,536 tensors has about 10 MiB."""
DIMENSIONS_MAX = 8
TYPES = {"F32": 4, "F16": 2, "BF16": 2}
"""Bytes of a value of each known type."""


class _Entry(NamedTuple):
    name: str
    kind: str
    shape: tuple[int, ...]
    start: int
    end: int


def read_safetensors(file: OpenedFile, is_ignored: Callable[[str], bool]) -> dict[str, StoredTensor]:
    """Return the tensors of a file, the ignored ones left out. Raise SourceError for any other file.

    An ignored tensor may have any type.
    """
    if file.size < 8:
        raise SourceError("format", f"{file.name} is no safetensors file")
    header_bytes = int.from_bytes(file.read(0, 8), "little")
    # The first 8 bytes of any file read as a length up to 2**64: refuse it before the read takes the memory.
    if header_bytes > HEADER_BYTES_MAX:
        raise SourceError("format", f"{file.name} is no safetensors file: its header would have {header_bytes} bytes")
    header = json_object(file.read(8, header_bytes), file.name)
    if len(header) > TENSORS_MAX:
        raise SourceError("too_large", f"{file.name} lists {len(header)} tensors; at most {TENSORS_MAX} are read")
    entries = [_entry(name, stated) for name, stated in header.items() if name != "__metadata__"]
    data_start = 8 + header_bytes
    _check_places(file, entries, data_start)
    kept = [entry for entry in entries if not is_ignored(entry.name)]
    for entry in kept:
        if entry.kind not in TYPES:
            known = ", ".join(TYPES)
            raise SourceError(
                "type", f"tensor {entry.name[:100]} has the type {entry.kind}; the known ones are {known}"
            )
        if math.prod(entry.shape) * TYPES[entry.kind] != entry.end - entry.start:
            raise SourceError("shape", f"tensor {entry.name[:100]} of the shape {entry.shape} has another size")
    return {entry.name: StoredTensor(entry.shape, partial(_read, file, data_start, entry)) for entry in kept}


def _entry(name: str, stated: object) -> _Entry:
    members = stated if isinstance(stated, Mapping) else {}
    kind, shape, byte_range = members.get("dtype"), members.get("shape"), members.get("data_offsets")
    if (
        not isinstance(kind, str)
        or not _are_sizes(shape)
        or not _are_sizes(byte_range)
        or len(byte_range) != 2
        or byte_range[0] > byte_range[1]
        or len(shape) > DIMENSIONS_MAX
    ):
        raise SourceError("damaged", f"the entry of tensor {name[:100]} is damaged")
    return _Entry(name, kind[:40], tuple(shape), byte_range[0], byte_range[1])


def _are_sizes(value: object) -> TypeGuard[list[int]]:
    # `isinstance` would accept JSON's `true`, which is an integer in Python.
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 2**63 for item in value)


def _check_places(file: OpenedFile, entries: list[_Entry], start: int) -> None:
    """Raise SourceError unless the tensors lie in the file and apart."""
    placed = sorted(entries, key=lambda entry: (entry.start, entry.end))
    for entry in placed:
        if start + entry.end > file.size:
            raise SourceError(
                "out_of_file", f"tensor {entry.name[:100]} ends beyond the end of {file.name}: the file is cut short"
            )
    for before, entry in pairwise(placed):
        if entry.start < before.end:
            raise SourceError(
                "overlap", f"the tensors {before.name[:100]} and {entry.name[:100]} overlap in {file.name}"
            )


def _read(file: OpenedFile, start: int, entry: _Entry) -> Floats:
    stored = file.read_array(start + entry.start, entry.end - entry.start)
    if entry.kind == "BF16":  # the upper half of a float32
        values = (stored.view("<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        values = stored.view("<f4" if entry.kind == "F32" else "<f2").astype(np.float32, copy=False)
    return values.reshape(entry.shape)
