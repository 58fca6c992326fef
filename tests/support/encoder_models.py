"""Small models of the BERT class with random weights: as floats, and as a model file of `embed-int8`."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from gpu_tasks.models.model_file import (
    CONFIG,
    TENSORS,
    TOKENIZER,
    ModelFields,
    ModelHeader,
    SectionContent,
    write_model,
)
from gpu_tasks.models.sources.configs import canonical_config, tensor_shapes
from gpu_tasks.models.sources.source_model import Floats, SourceModel, StoredTensor, Tensors
from gpu_tasks.workloads.embed_int8.config import SHAPE
from gpu_tasks.workloads.embed_int8.model import EncoderModel, encode_tensors
from gpu_tasks.workloads.embed_int8.quantising import quantised_encoder

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{number}" for number in range(92)))
"""The vocabulary: a text is words such as `w17`."""
CONFIG_JSON: dict[str, object] = {
    "architectures": ["BertModel"],
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 80,
    "vocab_size": len(WORDS),
    "max_position_embeddings": 40,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
}


def float_encoder_model(changed: Mapping[str, Floats] | None = None, **config_json: object) -> SourceModel:
    """Return a float model. `changed`: other tensors; `config_json`: other values of its config."""
    architecture, config = canonical_config(CONFIG_JSON | config_json)
    draw = np.random.default_rng(7)
    tensors = {
        name: (draw.standard_normal(shape) * _size(name) + name.endswith("LayerNorm.weight")).astype(np.float32)
        for name, shape in tensor_shapes(architecture, config).items()
    } | dict(changed or {})
    stored = {name: StoredTensor(tensor.shape, partial(np.copy, tensor)) for name, tensor in tensors.items()}
    return SourceModel(
        architecture=architecture, config=config, tensors=Tensors(stored), tokenizer=tokenizer(), chat_template="",
        generation={}, name="tiny-encoder", licence="", licence_text="", revision="", source="",
    )  # fmt: skip


def _size(name: str) -> float:
    return 0.05 if name.endswith("bias") else 0.2 if name.endswith("LayerNorm.weight") else 0.3


def tokenizer() -> bytes:
    """Return a `tokenizer.json` that splits at spaces and encloses a text in [CLS] and [SEP]."""
    special = [
        {"id": number, "content": WORDS[number], "special": True, "single_word": False, "lstrip": False,
         "rstrip": False, "normalized": False}
        for number in range(4)
    ]  # fmt: skip
    ends = {WORDS[number]: {"id": WORDS[number], "ids": [number], "tokens": [WORDS[number]]} for number in (2, 3)}
    single = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ]  # fmt: skip
    return json.dumps(
        {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
            "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": {
                "type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": ends,
            },
            "decoder": None,
            "model": {
                "type": "WordLevel", "vocab": {word: number for number, word in enumerate(WORDS)},
                "unk_token": "[UNK]",
            },
        }
    ).encode()  # fmt: skip


def write_encoder(path: Path, model: EncoderModel | None = None) -> ModelHeader:
    """Write a model file of `embed-int8`, and return its header."""
    model = model or quantised_encoder(float_encoder_model())
    sections: list[tuple[str, SectionContent]] = [
        (CONFIG, SHAPE.encode(model.shape)),
        (TOKENIZER, tokenizer()),
        (TENSORS, encode_tensors(model)),
    ]
    return write_model(path, ModelFields("embed-int8", "tiny-encoder", "", "", ""), sections)
