"""Random work: workloads with small models, their requests, and their backends on this machine.

Invariant: a request follows from the chance that it is drawn with, and is the same on every machine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

from gpu_tasks.models.model_file import CONFIG, TENSORS, ModelFields, write_model
from gpu_tasks.workloads.decoder_int8 import conformance as decoder_vectors
from gpu_tasks.workloads.decoder_int8.config import SHAPE as DECODER_SHAPE
from gpu_tasks.workloads.decoder_int8.form import DecoderForm
from gpu_tasks.workloads.decoder_int8.model import encode_tensors as decoder_tensors
from gpu_tasks.workloads.decoder_int8.request import REQUEST as GENERATION
from gpu_tasks.workloads.decoder_int8.request import WORKLOAD_NAME as DECODER
from gpu_tasks.workloads.decoder_int8.request import GenerationRequest
from gpu_tasks.workloads.decoder_int8.service import DecoderWorkload
from gpu_tasks.workloads.decoder_int8.transformer import load as load_decoder
from gpu_tasks.workloads.embed_int8 import conformance as encoder_vectors
from gpu_tasks.workloads.embed_int8.config import SHAPE as ENCODER_SHAPE
from gpu_tasks.workloads.embed_int8.form import EmbeddingForm
from gpu_tasks.workloads.embed_int8.model import encode_tensors as encoder_tensors
from gpu_tasks.workloads.embed_int8.request import REQUEST as EMBEDDING
from gpu_tasks.workloads.embed_int8.request import WORKLOAD_NAME as ENCODER
from gpu_tasks.workloads.embed_int8.request import EmbeddingRequest
from gpu_tasks.workloads.embed_int8.service import TextEmbedding
from gpu_tasks.workloads.embed_int8.transformer import load as load_encoder
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.integer_transformer.backends import arithmetic as transformer_backend
from gpu_tasks.workloads.matmul_hash.form import MatmulHashForm
from gpu_tasks.workloads.matmul_hash.request import REQUEST as CHAIN
from gpu_tasks.workloads.matmul_hash.request import SEED_MAX, ChainRequest
from gpu_tasks.workloads.matmul_hash.service import BACKENDS as CHAINS
from gpu_tasks.workloads.matmul_hash.service import MatmulHash
from gpu_tasks.workloads.render_tile.backends import backend_named as tile_backend
from gpu_tasks.workloads.render_tile.form import TileForm
from gpu_tasks.workloads.render_tile.request import REQUEST as TILE
from gpu_tasks.workloads.render_tile.request import request_of
from gpu_tasks.workloads.render_tile.scene_text import read_text
from gpu_tasks.workloads.render_tile.service import TileRendering
from gpu_tasks.workloads.train_int8.backends import arithmetic as training_backend
from gpu_tasks.workloads.train_int8.form import TrainingForm
from gpu_tasks.workloads.train_int8.request import RATE_ONE, TrainingRequest
from gpu_tasks.workloads.train_int8.request import REQUEST as TRAINING
from gpu_tasks.workloads.train_int8.service import IntegerTraining
from gpu_tasks.workloads.workload import Workload

BATCH_MAX = 4
TEXT_BYTES = 1_024
NO_REQUEST = b"\xff no request"
"""Every workload refuses it. A batch may hold it, and its right outcome is a refusal."""
SHAPES = ("sphere 0 0 0 1", "box -1 -1 -1 1 1 1", "plane 0 -1 0 0 1 0")
SURFACES = ("matte #c04030", "mirror #f0f0f0", "checked #ffffff #804020", "light #fff0e0 3")

Wrap = Callable[[Any], Any]
"""Returns a backend in place of a right one."""


@dataclass(frozen=True)
class Kind:
    """A workload: its form, its random requests, and the computation on a backend."""

    form: WorkloadForm
    request: Callable[[Random], bytes]
    make: Callable[[str, Wrap], Workload]
    """Return the workload on a named backend, which the second argument may replace. It runs no vectors."""
    backends: tuple[str, ...]


def kinds(folder: Path, backends: Sequence[str]) -> tuple[Kind, ...]:
    """Return all workloads. The models of the published vectors are written to a folder."""
    decoder, encoder = _decoder(folder / "decoder"), _encoder(folder / "encoder")
    exact, usual = tuple(name for name in backends if name in CHAINS), tuple(backends)
    return (
        Kind(decoder, _generation, partial(_make_decoder, decoder.model_id), usual),
        Kind(encoder, _embedding, partial(_make_encoder, encoder.model_id), usual),
        Kind(MatmulHashForm(), _chain, lambda name, wrap: MatmulHash(wrap(CHAINS[name])), exact),
        Kind(TileForm(), _tile, lambda name, wrap: TileRendering(wrap(tile_backend(name))), usual),
        Kind(TrainingForm(), _training, lambda name, wrap: IntegerTraining(wrap(training_backend(name))), usual),
    )


def backends_here() -> tuple[str, ...]:
    """Return the names of the backends of this machine's processor."""
    return ("numpy", "reference", *(("torch-cpu",) if find_spec("torch") else ()))


def requests(kind: Kind, chance: Random) -> list[bytes]:
    """Return the requests of a unit: one, or a batch in which some may be no requests."""
    if chance.random() < 0.5:
        return [kind.request(chance)]
    count = chance.randint(2, BATCH_MAX)
    return [NO_REQUEST if chance.random() < 0.05 else kind.request(chance) for _ in range(count)]


def _decoder(path: Path) -> DecoderForm:
    model = decoder_vectors.built_in_model()
    sections = [(CONFIG, DECODER_SHAPE.encode(model.shape)), (TENSORS, b"".join(decoder_tensors(model)))]
    return DecoderForm(write_model(path, ModelFields(DECODER, "vectors", "", "", ""), sections), path)


def _encoder(path: Path) -> EmbeddingForm:
    model = encoder_vectors.small_model()
    sections = [(CONFIG, ENCODER_SHAPE.encode(model.shape)), (TENSORS, b"".join(encoder_tensors(model)))]
    return EmbeddingForm(write_model(path, ModelFields(ENCODER, "vectors", "", "", ""), sections), path)


def _make_decoder(model_id: bytes, name: str, wrap: Wrap) -> Workload:
    return DecoderWorkload(load_decoder(wrap(transformer_backend(name)), decoder_vectors.built_in_model()), model_id)


def _make_encoder(model_id: bytes, name: str, wrap: Wrap) -> Workload:
    return TextEmbedding(load_encoder(wrap(transformer_backend(name)), encoder_vectors.small_model()), model_id)


def _generation(chance: Random) -> bytes:
    vocabulary = decoder_vectors.SHAPE.vocabulary
    prompt = tuple(chance.randrange(vocabulary) for _ in range(chance.randint(1, 4)))
    stops = ((chance.randrange(vocabulary),),) if chance.random() < 0.3 else ()
    heat, share = chance.choice((0, 700, 1_500)), chance.choice((1_000, 700))
    has_logprobs = chance.random() < 0.3
    asked = GenerationRequest(prompt, chance.randint(1, 2), heat, share, chance.randbytes(32), stops, has_logprobs)
    return GENERATION.encode(asked)


def _embedding(chance: Random) -> bytes:
    tokens = (chance.randrange(encoder_vectors.SHAPE.vocabulary) for _ in range(chance.randint(1, 4)))
    return EMBEDDING.encode(EmbeddingRequest(tuple(tokens)))


def _chain(chance: Random) -> bytes:
    return CHAIN.encode(ChainRequest(chance.randint(0, SEED_MAX), chance.randint(1, 8), chance.randint(1, 6)))


def _tile(chance: Random) -> bytes:
    rows = chance.randint(1, 4)
    seen = "; ".join(f"{chance.choice(SHAPES)} {chance.choice(SURFACES)}" for _ in range(chance.randint(1, 2)))
    text = f"picture {chance.randint(1, 3)} {rows}; samples 1; bounces {chance.randint(1, 2)}"
    text += f"; camera 0 {chance.randint(1, 9) / 10} -3 0 0.1 0 1; sun 1 2 -1 #ffffff 1; {seen}"
    return TILE.encode(request_of(read_text(f"{text}\nseed {chance.getrandbits(32)}"), chance.randint(1, rows)))


def _training(chance: Random) -> bytes:
    steps = chance.randint(1, 6)
    asked = TrainingRequest(
        context=chance.randint(1, 4), width=chance.randint(1, 5), hidden=chance.randint(1, 8),
        layers=chance.randint(1, 2), batch=chance.choice((1, 2, 4, 8)), steps=steps, segment=chance.randint(1, steps),
        rate=chance.randint(1, RATE_ONE), seed=chance.randbytes(32), text=chance.randbytes(TEXT_BYTES),
    )  # fmt: skip
    return TRAINING.encode(asked)
