"""The inputs for every backend: seeds and shapes of each workload, with the limits of valid requests.

Invariant: they are the same on every machine. No case takes the reference more than a second or two.
"""

from hashlib import shake_256
from itertools import product

from gpu_tasks.workloads.decoder_int8.request import GenerationRequest
from gpu_tasks.workloads.embed_int8.request import EmbeddingRequest
from gpu_tasks.workloads.matmul_hash.request import ROUNDS_MAX, SEED_MAX, SIZE_MAX, ChainRequest
from gpu_tasks.workloads.render_tile.request import REQUEST as TILE_REQUEST
from gpu_tasks.workloads.render_tile.request import request_of
from gpu_tasks.workloads.render_tile.scene_text import OBJECTS_MAX, read_text
from gpu_tasks.workloads.train_int8.request import RATE_ONE, TrainingRequest

CHUNKS = (1, 2, 7, 16)
"""Numbers of positions that `decoder-int8` reads at once."""
TRANSFORMER_BATCHES = (7, 64)
"""Numbers of texts that `decoder-int8` and `embed-int8` answer together, beside each text alone."""
TRANSFORMER_TEXTS = 71
"""More than the largest batch, so that lanes are filled again and the last batch is shorter."""
MODEL_TOKENS, SENTENCE_TOKENS = 5, 40
"""The longest prompt and answer of a model from a file, which takes a second for each text; the longest sentence."""
MILESTONES = 4
"""A run resumes at each milestone but the last, which is its end. A run of fewer segments resumes at every state."""
SEEDS = (bytes(32), b"\x5a" * 32, b"\xff" * 32)
WORDS = (b"def ", b"return ", b"self", b".", b"(", b")\n", b"    ", b"\xff\x00", b"if ", b"else:\n")
SHAPES = {
    "least": {"context": 1, "width": 1, "hidden": 1, "layers": 1, "batch": 1, "steps": 9, "segment": 1, "rate": 1},
    "tiny": {"context": 3, "width": 5, "hidden": 7, "layers": 2, "batch": 4, "steps": 30, "segment": 7},
    "ordinary": {"context": 8, "width": 16, "hidden": 128, "layers": 1, "batch": 64, "steps": 30, "segment": 4},
    "deep": {"context": 4, "width": 16, "hidden": 96, "layers": 2, "batch": 32, "steps": 20, "segment": 3},
    "wide": {"context": 16, "width": 16, "hidden": 96, "layers": 1, "batch": 512, "steps": 6, "segment": 2},
}
PLAIN_SHAPES = ("least", "tiny")
"""Shapes that plain Python integers compute in seconds."""

_ROOM = """
picture 20 14; samples 4; bounces 8; camera 0.3 0.1 -1.9 0 0 0 0.8; sky #000000 #000000 0
box -2 -2 -2 2 2 2 matte #b0b0b0; box -0.6 -2 -0.6 0.6 -0.4 0.6 mirror #e0e0ff
sphere 0 1.6 0 0.3 light #fff0e0 30; sphere 1.1 -1.2 0.4 0.8 matte #ff8040
"""
_PART = """
picture 4096 2160; tile 2027 1107 16 9; samples 5; bounces 4; camera 2 1.5 -6 0 0.6 0 1.7
sun 0.5 1 -0.4 #fff4e0 1.5; plane 0 0 0 0 1 0 checked #d0d0c8 #303840
sphere 0 0.8 0 0.8 mirror #f0f0f0; sphere 1.3 0.4 -1.2 0.4 matte #3050c0
"""
_FAR = """
picture 16 1; samples 6; bounces 6; camera 500 499.9 -500 -500 -499.9 500 0.25; sun -500 0.001 500 #ffffff 100
box -500 -500 -500 500 -499.999 500 mirror #ffffff; plane 500 500 500 -500 0 0.001 checked #ffffff #000000
sphere 0 0 0 499.999 matte #fefefe
"""
_LEAST = "picture 3 2; samples 1; bounces 1; camera 0 0 -3 0 0.1 0 1; sphere 0 0 0 1 checked #ffffff #804020"
SCENES = {"least": (_LEAST, 1), "room": (_ROOM, 3), "part": (_PART, 2), "far": (_FAR, 1)}
"""A scene's text, and the rows of a segment."""


def text_of(seed: bytes) -> bytes:
    """Return words in an order drawn from the seed, and some arbitrary bytes."""
    raw = shake_256(b"conformance/text" + seed).digest(1_000)
    return b"".join(WORDS[byte % len(WORDS)] for byte in raw) + raw[:500]


def training() -> dict[str, TrainingRequest]:
    """Return every shape with every seed."""
    return {
        f"{shape} {seed[0]:02x}": TrainingRequest(
            **{"rate": RATE_ONE // (1 + number), **SHAPES[shape]}, seed=seed, text=text_of(seed)
        )
        for shape, (number, seed) in product(SHAPES, enumerate(SEEDS))
    }


def plain_training() -> dict[str, TrainingRequest]:
    """Return the requests that are small enough for plain integers."""
    return {name: asked for name, asked in training().items() if name.split()[0] in PLAIN_SHAPES}


def questions(longest: int, vocabulary: int) -> list[GenerationRequest]:
    """Return prompts, draws, stops and ends of all kinds. Prompt and answer have at most `longest` tokens."""
    raw, answer_max = shake_256(b"conformance/questions").digest(8 * TRANSFORMER_TEXTS), min(4, longest // 2)
    asked = []
    for start in range(0, len(raw), 8):
        length, more, heat, share, stop, wish, *seed = raw[start : start + 8]
        prompt = _tokens(raw[start : start + 8], 1 + length % (longest - answer_max), vocabulary)
        stops = ((stop % vocabulary,), (prompt[-1], stop % vocabulary)) if wish & 1 else ()
        asked.append(
            GenerationRequest(
                prompt, 1 + more % answer_max, heat % 8 * 400, 1000 - share % 3 * 300, bytes(seed) * 16, stops,
                has_logprobs=bool(wish & 2),
            )
        )  # fmt: skip
    return asked


def sentences(longest: int, vocabulary: int) -> list[EmbeddingRequest]:
    """Return texts of 1 to `longest` tokens."""
    seeds = shake_256(b"conformance/sentences").digest(2 * TRANSFORMER_TEXTS)
    return [
        EmbeddingRequest(_tokens(seeds[start : start + 2], 1 + seeds[start] % longest, vocabulary))
        for start in range(0, len(seeds), 2)
    ]


def _tokens(seed: bytes, count: int, vocabulary: int) -> tuple[int, ...]:
    raw = shake_256(b"conformance/tokens" + seed).digest(4 * count)
    return tuple(int.from_bytes(raw[start : start + 4], "little") % vocabulary for start in range(0, len(raw), 4))


def chains() -> dict[str, ChainRequest]:
    """Return the smallest request, the most rounds, odd sizes, and the largest matrices."""
    return {
        "least": ChainRequest(0, 1, 1),
        "long": ChainRequest(1, 5, ROUNDS_MAX),
        "odd": ChainRequest(SEED_MAX, 33, 12),
        "ordinary": ChainRequest(7, 64, 4),
        "large": ChainRequest(11, SIZE_MAX, 1),
    }


def tiles() -> dict[str, bytes]:
    """Return scenes small and large, near and far, each with every seed, and one with the most objects."""
    scenes = {**SCENES, "crowd": (_crowd(), 2)}
    return {
        f"{name} {seed[0]:02x}": TILE_REQUEST.encode(
            request_of(read_text(f"{text}\nseed {int.from_bytes(seed[:4], 'little')}"), segment)
        )
        for name, (text, segment) in scenes.items()
        for seed in SEEDS
    }


def _crowd() -> str:
    raw = shake_256(b"conformance/crowd").digest(4 * OBJECTS_MAX)
    places = [raw[start : start + 4] for start in range(0, len(raw), 4)]
    told = [
        f"sphere {x % 8 - 4} {y % 5} {z % 8} 0.{1 + size % 9} {('matte', 'mirror')[size & 1]} #{x:02x}{y:02x}{z:02x}"
        for x, y, z, size in places
    ]
    return "; ".join(["picture 12 8; samples 2; bounces 3; camera 0 2 -8 0 1.5 0 1.2; sun 1 2 -1 #ffffff 1", *told])
