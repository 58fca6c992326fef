"""A folder in Hugging Face's layout as a source model: config, safetensors, tokenizer, chat template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from gpu_tasks.models.sources.configs import FREQUENCY_FACTORS, canonical_config, frequency_factors, tensor_shapes
from gpu_tasks.models.sources.json_files import json_object
from gpu_tasks.models.sources.origin import licence_id, one_line
from gpu_tasks.models.sources.safetensors_file import read_safetensors
from gpu_tasks.models.sources.source_files import SourceFiles, licence_text
from gpu_tasks.models.sources.source_model import (
    CONFIG_BYTES_MAX,
    ConfigValue,
    SourceError,
    SourceModel,
    StoredTensor,
    Tensors,
    check_names,
    some_of,
)
from gpu_tasks.models.sources.source_tokenizer import check_chat_template, check_tokenizer
from gpu_tasks.models.text import BYTE_VOCABULARY, END_TOKEN
from gpu_tasks.models.tokenizer_checks import TOKENIZER_BYTES_MAX

SHARDS_MAX = 1_024
INDEX = "model.safetensors.index.json"
README_BYTES_MAX = 2**20
IGNORED = re.compile(r"(?:.*\.)?(?:rotary_emb\.inv_freq|embeddings\.position_ids|pooler\.dense\.(?:weight|bias))")
"""Tensors without a part in the result: constants, and BERT's pooler, which mean pooling does not use."""
SAMPLING = ("do_sample", "temperature", "top_p", "top_k", "min_p", "repetition_penalty")
LICENCE_LINE = re.compile(r"^license: *[\"']?([^\"'\n]+)", re.MULTILINE)


def read_folder_model(files: SourceFiles, folder: PurePosixPath) -> SourceModel:
    """Return the model in a folder of some files. Raise SourceError."""
    layout = _Folder(files, folder)
    raw = layout.json("config.json")
    architecture, config = canonical_config(raw)
    stored = _stored(layout, architecture, config)
    if (factors := frequency_factors(raw, config) if architecture == "llama" else None) is not None:
        stored[FREQUENCY_FACTORS] = StoredTensor(factors.shape, factors.copy)
    check_names(stored, tensor_shapes(architecture, config))
    _check_pooling(layout)
    rows = int(config["vocab_size"])
    generation = _generation(layout, raw, rows)
    origin = files.origin
    licence = _licence(layout) or origin.licence
    return SourceModel(
        architecture=architecture,
        config=config,
        tensors=Tensors(stored),
        tokenizer=_tokenizer(layout, rows, generation),
        chat_template=check_chat_template(_chat_template(layout)),
        generation=generation,
        name=origin.name,
        licence=licence,
        licence_text=licence_text(files, folder) or origin.text_for(licence),
        revision=origin.revision,
        source=origin.source,
    )


class _Folder:
    """The files of a model's folder by their names in it."""

    def __init__(self, files: SourceFiles, folder: PurePosixPath) -> None:
        self._files = files
        self._folder = folder

    def path(self, name: str) -> str:
        return str(self._folder / name)

    def names(self) -> list[str]:
        paths = [PurePosixPath(name) for name in self._files.sizes]
        return [path.name for path in paths if path.parent == self._folder]

    def has(self, name: str) -> bool:
        return self.path(name) in self._files.sizes

    def read(self, name: str, most: int) -> bytes:
        return self._files.open(self.path(name)).read_all(most)

    def text(self, name: str, most: int) -> str:
        try:
            return self.read(name, most).decode()
        except UnicodeDecodeError:
            raise SourceError("damaged", f"{name} is not UTF-8") from None

    def json(self, name: str, most: int = CONFIG_BYTES_MAX) -> dict[str, object]:
        return json_object(self.read(name, most), name)

    def json_or_empty(self, name: str) -> dict[str, object]:
        return self.json(name) if self.has(name) else {}

    def tensors(self, name: str, tied: bool) -> dict[str, StoredTensor]:
        # Some files hold a tied head a second time. The config says that the embedding table stands for it.
        def is_ignored(tensor: str) -> bool:
            return IGNORED.fullmatch(tensor) is not None or (tied and tensor == "lm_head.weight")

        return read_safetensors(self._files.open(self.path(name)), is_ignored)


def _stored(layout: _Folder, architecture: str, config: Mapping[str, ConfigValue]) -> dict[str, StoredTensor]:
    """Return the tensors of all shards."""
    tied = config.get("tie_word_embeddings") is True
    stored: dict[str, StoredTensor] = {}
    for shard in _shards(layout):
        for name, tensor in layout.tensors(shard, tied).items():
            # A BERT with a head for another task has its encoder under this prefix.
            canonical = name.removeprefix("bert.") if architecture == "bert" else name
            if canonical in stored:
                raise SourceError("duplicate", f"two shards hold the tensor {name[:100]}")
            stored[canonical] = tensor
    return stored


def _shards(layout: _Folder) -> list[str]:
    if not layout.has(INDEX):
        if layout.has("model.safetensors"):
            return ["model.safetensors"]
        found = [name for name in layout.names() if name.endswith(".safetensors")]
        if len(found) != 1:
            raise SourceError("shards", f"{INDEX} is missing, which lists the parts of the model")
        return found
    weight_map = layout.json(INDEX, README_BYTES_MAX * 16).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise SourceError("damaged", f"{INDEX} holds no weight_map")
    shards = sorted(set(weight_map.values()))
    if len(shards) > SHARDS_MAX:
        raise SourceError("too_large", f"the model has {len(shards)} shards; at most {SHARDS_MAX} are read")
    # The index is a stranger's: a shard named `../…` would read another file of this user.
    if outside := [name for name in shards if "/" in name or "\\" in name or not name.endswith(".safetensors")]:
        raise SourceError("path", f"{INDEX} names {some_of(outside)}, which is no safetensors file beside it")
    if missing := [name for name in shards if not layout.has(name)]:
        raise SourceError("shards", f"these parts of the model are missing: {some_of(missing)}; download them too")
    return shards


def _tokenizer(layout: _Folder, rows: int, generation: Mapping[str, object]) -> bytes:
    """Return the `tokenizer.json`, or nothing for a model of bytes."""
    if layout.has("tokenizer.json"):
        tokenizer = layout.read("tokenizer.json", TOKENIZER_BYTES_MAX)
        check_tokenizer(tokenizer, rows)
        return tokenizer
    if rows != BYTE_VOCABULARY or generation["eos_token_id"] != [END_TOKEN]:
        raise SourceError(
            "tokenizer",
            "the folder holds no tokenizer.json; other forms of tokenizers are not read, and text as bytes takes "
            f"{BYTE_VOCABULARY} tokens, of which {END_TOKEN} ends a text",
        )
    return b""


def _check_pooling(layout: _Folder) -> None:
    """Raise SourceError if sentence-transformers would do more than mean pooling and normalising."""
    pooling = layout.json_or_empty("1_Pooling/config.json")
    pooling_modes = sorted(key for key, value in pooling.items() if key.startswith("pooling_mode") and value)
    if (
        pooling_modes not in ([], ["pooling_mode_mean_tokens"], ["pooling_mode"])
        or pooling.get("pooling_mode", "mean") != "mean"
    ):
        raise SourceError("pooling", f"the model pools by {some_of(pooling_modes)}; only mean pooling is supported")
    if layout.has("2_Dense/config.json"):
        raise SourceError("pooling", "the model has a dense layer behind the pooling, which is not supported")


def _chat_template(layout: _Folder) -> str:
    if layout.has("chat_template.jinja"):
        return layout.text("chat_template.jinja", CONFIG_BYTES_MAX)
    template: object = ""
    for name in ("chat_template.json", "tokenizer_config.json"):
        template = template or layout.json_or_empty(name).get("chat_template")
    if isinstance(template, list):  # several by name
        templates_by_name = {str(item.get("name")): item.get("template") for item in template if isinstance(item, dict)}
        template = templates_by_name.get("default")
    if not isinstance(template, str | None):
        raise SourceError("chat_template", "the chat template is not a text")
    return template or ""


def _generation(layout: _Folder, raw: Mapping[str, object], vocabulary_rows: int) -> dict[str, object]:
    stated = layout.json_or_empty("generation_config.json")
    generation: dict[str, object] = {"eos_token_id": []}
    for key in ("eos_token_id", "bos_token_id", "pad_token_id"):
        stated_tokens = stated.get(key, raw.get(key))
        if stated_tokens is None:
            continue
        token_ids = stated_tokens if isinstance(stated_tokens, list) else [stated_tokens]
        if (
            not all(type(token_id) is int and 0 <= token_id < vocabulary_rows for token_id in token_ids)
            or len(token_ids) > SHARDS_MAX
        ):
            raise SourceError("vocabulary", f"{key} is {str(stated_tokens)[:100]}, not an id below {vocabulary_rows}")
        generation[key] = sorted(set(token_ids)) if key == "eos_token_id" else token_ids[0]
    for key in SAMPLING:
        if isinstance(value := stated.get(key), int | float):
            generation[key] = value
    sequence_length = layout.json_or_empty("sentence_bert_config.json").get("max_seq_length")
    if type(sequence_length) is int and sequence_length > 0:
        generation["max_seq_length"] = sequence_length
    return generation


def _licence(layout: _Folder) -> str:
    """Return the licence in the head of the README, where Hugging Face keeps it."""
    if not layout.has("README.md"):
        return ""
    text = layout.read("README.md", README_BYTES_MAX).decode(errors="replace")
    front_matter = text.split("\n---", 1)[0] if text.startswith("---\n") else ""
    licence_match = LICENCE_LINE.search(front_matter)
    return licence_id(one_line(licence_match[1], 64)) if licence_match else ""
