"""Language models computed wrongly in the profitable ways: other weights, fewer layers, fewer bits, another seed.

Invariant: a wrong workload states the published model's id, so only its outputs differ. The same cheat gives the same
outputs on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from gpu_tasks.models.model_file import read_header
from gpu_tasks.models.model_store import ModelStore, default_folder
from gpu_tasks.workloads.decoder_int8.model import DecoderModel, LayerArrays
from gpu_tasks.workloads.decoder_int8.request import GenerationRequest
from gpu_tasks.workloads.decoder_int8.service import DecoderWorkload, mapped_model
from gpu_tasks.workloads.decoder_int8.transformer import load
from gpu_tasks.workloads.integer_transformer.arithmetic import TransformerBackend
from gpu_tasks.workloads.integer_transformer.backends import arithmetic
from gpu_tasks.workloads.integer_transformer.rows import Rows

SKIPPED_LAYERS = 8
"""The last 1/SKIPPED_LAYERS of the layers is skipped, and at least one."""
CHANGED_WEIGHTS = 64
"""One weight in CHANGED_WEIGHTS differs, as between two revisions of a model."""
ROUNDED_BITS = 4


def _other_weights(rows: Rows) -> Rows:
    integers = rows.integers.copy()
    changed = integers.reshape(-1)[::CHANGED_WEIGHTS]
    # Towards zero: a weight of 8 bits stays in its range.
    changed[...] = np.where(changed > 0, changed - 1, changed + 1)
    return replace(rows, integers=integers)


def _four_bits(rows: Rows) -> Rows:
    step = 1 << (8 - ROUNDED_BITS)
    steps_max = (1 << (ROUNDED_BITS - 1)) - 1
    rounded = (rows.integers.astype(np.int16) + step // 2) // step
    return replace(rows, integers=(np.clip(rounded, -steps_max, steps_max) * step).astype(np.int8))


def _with_matrices(change: Callable[[Rows], Rows]) -> Callable[[DecoderModel], DecoderModel]:
    """Return a change of a model that changes every matrix of its layers."""

    def changed_layer(layer: LayerArrays) -> LayerArrays:
        return replace(
            layer,
            qkv=change(layer.qkv),
            out=change(layer.out),
            gate_up=change(layer.gate_up),
            down=change(layer.down),
        )

    return lambda model: replace(model, layers=tuple(changed_layer(layer) for layer in model.layers))


def _fewer_layers(model: DecoderModel) -> DecoderModel:
    layers = model.layers[: -max(1, len(model.layers) // SKIPPED_LAYERS)]
    return replace(model, shape=replace(model.shape, layers=len(layers)), layers=layers)


class OtherSeed(DecoderWorkload):
    """A decoder that draws from a seed of its own and not from the request's."""

    def _read(self, encoded_request: bytes) -> GenerationRequest:
        return replace(super()._read(encoded_request), seed=bytes(32))


_CHANGES: Mapping[str, Callable[[DecoderModel], DecoderModel]] = {
    "swapped-model": _with_matrices(_other_weights),
    "fewer-layers": _fewer_layers,
    "four-bits": _with_matrices(_four_bits),
}


def wrong_decoder(cheat: str, backend: TransformerBackend, model: DecoderModel, stated_id: bytes) -> DecoderWorkload:
    """Return a decoder that cheats. It states the id of the published model."""
    if cheat == "other-seed":
        return OtherSeed(load(backend, model), stated_id)
    return DecoderWorkload(load(backend, _CHANGES[cheat](model)), stated_id)


def open_wrong_decoder(cheat: str, model: str, backend_name: str) -> DecoderWorkload:
    """Return a decoder that cheats, with a model of the store, by its name or id."""
    store = ModelStore(default_folder())
    path = store.path(store.find(model).model_id)
    return wrong_decoder(cheat, arithmetic(backend_name), mapped_model(path), read_header(path).model_id)
