"""A published float model, in one form for every file format: `SourceModel`.

The config and the tensors have the names and the layout of Hugging Face. Each tensor is read when a caller asks for
it, so a model larger than the memory can be quantised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

MODEL_BYTES_MAX = 64 * 2**30
CONFIG_BYTES_MAX = 2**20
LICENCE_BYTES_MAX = 256 * 2**10
TENSORS_MAX = 65_536
TENSOR_VALUES_MAX = 2**31
"""8 GiB as float32. The largest tensor of Llama 3.1 405B has 2.1 thousand million values."""
NAMES_IN_ERROR_MAX = 5

Floats: TypeAlias = NDArray[np.float32]
ConfigValue: TypeAlias = int | float | bool | str


class SourceError(ValueError):
    """A file that holds no usable model. `code` is stable; the text may change."""

    def __init__(self, code: str, text: str) -> None:
        """`text`: the fault, and the remedy where there is one."""
        super().__init__(text)
        self.code = code


class StoredTensor(NamedTuple):
    """A tensor of a file: its shape, rows first, and the function that reads it as float32."""

    shape: tuple[int, ...]
    read: Callable[[], Floats]


class Tensors(Mapping[str, Floats]):
    """The tensors of a model by name. Each access reads the file and raises SourceError for NaN or infinity."""

    def __init__(self, stored: Mapping[str, StoredTensor]) -> None:
        self._stored = dict(stored)

    def __getitem__(self, name: str) -> Floats:
        stored = self._stored[name]
        values = np.ascontiguousarray(stored.read(), dtype=np.float32)
        if values.shape != stored.shape:
            raise SourceError("shape", f"tensor {name} has the shape {values.shape}, not {stored.shape}")
        # Quantisation turns NaN into an ordinary integer, and customers would pay for the damaged model.
        if not np.isfinite(values).all():
            raise SourceError(
                "not_finite", f"tensor {name} holds NaN or infinity: the file is damaged or badly trained"
            )
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return a tensor's shape without reading the tensor."""
        return self._stored[name].shape


@dataclass(frozen=True)
class SourceModel:
    """A float model with its tokenizer and its origin."""

    architecture: str
    """`llama` or `bert`."""
    config: Mapping[str, ConfigValue]
    """Checked values under Hugging Face's names; the keys are those of `configs.canonical_config`."""
    tensors: Tensors
    """Exactly the tensors of `configs.tensor_shapes`. Rotary pairs lie half a head apart."""
    tokenizer: bytes
    """A `tokenizer.json`, empty if text is read as bytes."""
    chat_template: str
    """Jinja text, empty if the model has none."""
    generation: Mapping[str, object]
    """`eos_token_id` (a list), and if known `bos_token_id`, `pad_token_id` and the author's sampling values."""
    name: str
    licence: str
    """An SPDX id, `LicenseRef-…` for an id outside SPDX's list, or empty."""
    licence_text: str
    revision: str
    source: str


def check_names(stored: Mapping[str, StoredTensor], expected: Mapping[str, tuple[int, ...]]) -> None:
    """Raise SourceError unless a file has the expected tensors, in the expected shapes, and no other."""
    if missing := [name for name in expected if name not in stored]:
        raise SourceError("missing_tensors", f"the model lacks {some_of(missing)}")
    if unexpected := [name for name in stored if name not in expected]:
        raise SourceError(
            "unexpected_tensors",
            f"this architecture has no place for {some_of(unexpected)}: the result would differ from the author's",
        )
    for name, shape in expected.items():
        if stored[name].shape != shape:
            raise SourceError("shape", f"tensor {name} has the shape {stored[name].shape}; the config requires {shape}")
        # A sparse file of 64 GiB takes no room on the disk, and all memory when it is read.
        if prod(shape) > TENSOR_VALUES_MAX:
            raise SourceError(
                "too_large", f"tensor {name} has {prod(shape)} values; at most {TENSOR_VALUES_MAX} are read"
            )


def some_of(names: list[str]) -> str:
    """Return the first names as text, with the count of the others."""
    shown = ", ".join(name[:100] for name in names[:NAMES_IN_ERROR_MAX])
    rest = len(names) - NAMES_IN_ERROR_MAX
    return f"{shown} and {rest} more" if rest > 0 else shown
