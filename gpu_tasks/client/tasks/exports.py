"""A trained model as a file that other programs read: safetensors, or NumPy's .npz.

Sources: github.com/huggingface/safetensors (8 bytes of header length, a JSON header, raw little-endian data) and
numpy.lib.format (version 1.0).
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from gpu_tasks.workloads.form import ModelTensor
from wallet.errors import WalletError, in_words

NPY_MAGIC = b"\x93NUMPY\x01\x00"
NPY_ALIGNMENT = 64
HEADER_ALIGNMENT = 8
FLOAT_BYTES = 4


class ExportError(WalletError):
    """A result that cannot be exported."""


def safetensors_file(tensors: Sequence[ModelTensor], metadata: Mapping[str, str]) -> bytes:
    """Return tensors in the safetensors format."""
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    data_end = 0
    for tensor in tensors:
        header[tensor.name] = {
            "dtype": "F32",
            "shape": tensor.shape,
            "data_offsets": [data_end, data_end + len(tensor.data)],
        }
        data_end += len(tensor.data)
    header_json = json.dumps(header, separators=(",", ":")).encode()
    # The format allows trailing spaces, and with them a mapped file has its data at a multiple of 8 bytes.
    header_json += b" " * (-len(header_json) % HEADER_ALIGNMENT)
    return b"".join([len(header_json).to_bytes(8, "little"), header_json, *(tensor.data for tensor in tensors)])


def npz_file(tensors: Sequence[ModelTensor], metadata: Mapping[str, str]) -> bytes:
    """Return tensors as an .npz archive, with the metadata as the archive's comment."""
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = json.dumps(dict(metadata)).encode()
        for tensor in tensors:
            archive.writestr(f"{tensor.name}.npy", _npy_bytes(tensor))
    return stream.getvalue()


def _npy_bytes(tensor: ModelTensor) -> bytes:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tensor.shape!r}, }}".encode()
    length = len(NPY_MAGIC) + 2 + len(header) + 1
    header += b" " * (-length % NPY_ALIGNMENT) + b"\n"
    return NPY_MAGIC + len(header).to_bytes(2, "little") + header + tensor.data


FORMS: Mapping[str, Callable[[Sequence[ModelTensor], Mapping[str, str]], bytes]] = {
    ".safetensors": safetensors_file,
    ".npz": npz_file,
}


def read_safetensors(file_bytes: bytes) -> tuple[tuple[ModelTensor, ...], dict[str, str]]:
    """Return the tensors of a file of `safetensors_file`, and its metadata. Raise ExportError for another file."""
    header_end = 8 + int.from_bytes(file_bytes[:8], "little")
    try:
        header = json.loads(file_bytes[8:header_end])
        metadata = {str(name): str(value) for name, value in header.pop("__metadata__").items()}
        return _sliced_tensors(header, file_bytes, header_end), metadata
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        reason = f"the file is not a model that --export wrote: {in_words(error)}"
        raise ExportError(reason, code="no_model") from None


def _sliced_tensors(header: Mapping[str, Any], data: bytes, start: int) -> tuple[ModelTensor, ...]:
    """Return the tensors, which follow each other in the file. Raise ValueError for an overlap or another size.

    Overlapping tensors would be copied again and again, so a small file could take any amount of memory.
    """
    tensors, position = [], start
    for name, entry in header.items():
        shape, (first, last) = tuple(entry["shape"]), entry["data_offsets"]
        if start + first != position or last - first != FLOAT_BYTES * math.prod(shape) or min(shape, default=0) < 1:
            raise ValueError(f"tensor {name} has another place or size")
        tensors.append(ModelTensor(name, shape, data[position : start + last]))
        position = start + last
    if position != len(data):
        raise ValueError("the tensors are not all of the data")
    return tuple(tensors)


def require_form(export_path: Path) -> None:
    """Raise ExportError for a file whose ending names no known form."""
    if export_path.suffix not in FORMS:
        raise ExportError(
            f"--export {export_path}: the name ends with {' or '.join(FORMS)}", code="export_form_unknown"
        )


def exported(export_path: Path, tensors: Sequence[ModelTensor], metadata: Mapping[str, str]) -> bytes:
    """Return the content of an export in the form that the file's ending names."""
    return FORMS[export_path.suffix](tensors, metadata)
