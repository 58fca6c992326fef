"""Float models to model files: the workload that computes an architecture, and the sections of its file.

Invariant: the sections are a function of the source's bytes, so an import gives the same model id on every machine.
The report of the conversion comes from floats and may differ in a last digit; no section depends on it.
"""

import json
from collections.abc import Callable, Mapping
from itertools import count
from typing import NamedTuple

from gpu_tasks.models.model_file import (
    CHAT_TEMPLATE,
    CONFIG,
    GENERATION,
    LICENCE_TEXT,
    TENSORS,
    TOKENIZER,
    ModelFields,
    SectionContent,
)
from gpu_tasks.models.sources.source_model import SourceError, SourceModel
from gpu_tasks.workloads.decoder_int8 import config as decoder_config
from gpu_tasks.workloads.decoder_int8 import model as decoder_model
from gpu_tasks.workloads.decoder_int8.quality import quality_report, report_steps
from gpu_tasks.workloads.decoder_int8.quantising import quantised_decoder
from gpu_tasks.workloads.decoder_int8.request import WORKLOAD_NAME as DECODER
from gpu_tasks.workloads.embed_int8 import config as encoder_config
from gpu_tasks.workloads.embed_int8 import model as encoder_model
from gpu_tasks.workloads.embed_int8.quantising import quantised_encoder
from gpu_tasks.workloads.embed_int8.request import WORKLOAD_NAME as ENCODER

StepProgress = Callable[[int, int], object]
"""It is called with the number of steps done, and of all."""


class ImportedModel(NamedTuple):
    """The fields and sections of a new model file, and for people what the conversion costs."""

    fields: ModelFields
    sections: list[tuple[str, SectionContent]]
    report: Mapping[str, object]


class Quantised(NamedTuple):
    """The sections `config` and `tensors`, and the report."""

    config: bytes
    tensors: SectionContent
    report: Mapping[str, object]


def import_model(
    source: SourceModel, progress: StepProgress = lambda _done, _all: None, *, has_report: bool = True
) -> ImportedModel:
    """Quantise a float model. Raise SourceError for a model that no workload computes."""
    if source.architecture not in _QUANTISERS:
        known = ", ".join(_QUANTISERS)
        raise SourceError("architecture", f"no workload computes {source.architecture}; the known ones are {known}")
    workload, quantise = _QUANTISERS[source.architecture]
    config, tensors, report = quantise(source, progress, has_report)
    fields = ModelFields(workload, source.name, source.licence, source.revision, source.source)
    texts = [
        (TOKENIZER, source.tokenizer),
        (CHAT_TEMPLATE, source.chat_template.encode()),
        (GENERATION, json.dumps(source.generation, sort_keys=True, separators=(",", ":")).encode()),
        (LICENCE_TEXT, source.licence_text.encode()),
    ]
    return ImportedModel(fields, [(CONFIG, config), *texts, (TENSORS, tensors)], report)


def _decoder(source: SourceModel, progress: StepProgress, has_report: bool) -> Quantised:
    layers = int(source.config["num_hidden_layers"])
    steps = layers + (report_steps(layers) if has_report else 0)
    model = quantised_decoder(source, lambda done, _all: progress(done, steps))
    tensors = decoder_model.encode_tensors(model)
    if not has_report:
        return Quantised(decoder_config.SHAPE.encode(model.shape), tensors, {})
    done = count(layers + 1)
    report = quality_report(source, model, lambda: progress(next(done), steps))
    return Quantised(decoder_config.SHAPE.encode(model.shape), tensors, report)


def _encoder(source: SourceModel, progress: StepProgress, _has_report: bool) -> Quantised:
    model = quantised_encoder(source, progress)
    return Quantised(encoder_config.SHAPE.encode(model.shape), encoder_model.encode_tensors(model), {})


_QUANTISERS: Mapping[str, tuple[str, Callable[[SourceModel, StepProgress, bool], Quantised]]] = {
    "llama": (DECODER, _decoder),
    "bert": (ENCODER, _encoder),
}
"""The workload and its quantiser, by canonical architecture."""
