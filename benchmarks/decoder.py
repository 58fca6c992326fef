"""CPU time and memory of `decoder-int8` with a real model, beside llama.cpp with the same model at 8 bits.

    Run: MODEL=smollm2-135m-instruct GGUF=model.Q8_0.gguf OPENBLAS_NUM_THREADS=1 python -m benchmarks decoder

MODEL is a name in the model store, or a model file. GGUF and the package `xllamacpp` are optional: without them the
figures are of `decoder-int8` alone. FLOAT_GGUF, the same model in float32, adds the log-probabilities of the imported
float model and of llama.cpp: with quantised weights llama.cpp also rounds the activations.

Every rate is per CPU second of one thread. Names that end with `extrapolated` are computed from two layers at full
width with random weights, in the shape of Llama-3.2-1B.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.figures import Figures, named_model
from benchmarks.llama_cpp import LEFT_OUT, LlamaCpp
from benchmarks.processes import peak_mib
from gpu_tasks.models.model_file import TOKENIZER, read_section
from gpu_tasks.models.model_store import ModelStore, default_folder
from gpu_tasks.models.sources.open_source import open_source
from gpu_tasks.models.text import Tokenizer
from gpu_tasks.workloads.decoder_int8.config import READ_MAX, DecoderShape, cache_bytes
from gpu_tasks.workloads.decoder_int8.conformance import built_in_model
from gpu_tasks.workloads.decoder_int8.float_decoder import FloatDecoder
from gpu_tasks.workloads.decoder_int8.model import DecoderModel, LayerArrays
from gpu_tasks.workloads.decoder_int8.quality import paragraphs
from gpu_tasks.workloads.decoder_int8.request import REQUEST, TOP_P_ONE, GenerationRequest
from gpu_tasks.workloads.decoder_int8.service import open_model
from gpu_tasks.workloads.decoder_int8.transformer import (
    KeyValueCache,
    LoadedDecoder,
    embedded,
    load,
    logits_of,
    through_layers,
)
from gpu_tasks.workloads.integer_transformer.backends import arithmetic
from gpu_tasks.workloads.integer_transformer.rows import GainRow, Rows
from gpu_tasks.workloads.workload import Workload

TEXT = Path(__file__).with_name("texts") / "moby_dick.txt"
ROUNDS = 3
PROMPT, BATCH, SHORT, LONG = 462, 64, 4, 16
"""Tokens of the prefill; texts side by side, and their lengths, whose difference leaves out the prompts."""
ALONE, ITEMS, ITEM_PROMPT, ITEM_TOKENS = 64, 256, 12, 16
LONG_PROMPT, LONG_ANSWER = 2000, 48
CAPITAL = "The capital of France is"
LLAMA_1B = DecoderShape(2048, 16, 32, 8, 64, 8192, 2048, 128_256, 10_995_116, False, False, False, ())
MEASURED_LAYERS = 2


def measure() -> Figures:
    """Return our figures, llama.cpp's where it is at hand, and those of the 1B shape."""
    path = model_path()
    tokenizer = Tokenizer(read_section(path, TOKENIZER))
    tokens = tokenizer.encode(paragraphs(TEXT))
    workload = open_model(os.environ.get("BACKEND", "numpy"), path)
    figures = _beside_llama_cpp(workload, tokens) | _checks(workload, tokens)
    if "FLOAT_GGUF" in os.environ:
        figures |= log_probabilities(Path(os.environ["FLOAT_GGUF"]), tokenizer.encode(CAPITAL))
    del workload
    child = subprocess.run([sys.executable, "-m", "benchmarks.decoder"], stdout=subprocess.PIPE, check=True, text=True)
    figures[f"peak_{LONG_PROMPT + LONG_ANSWER}_tokens_mib"] = float(child.stdout)
    return figures | _one_billion()


def model_path() -> Path:
    """Return the model file that MODEL names."""
    named = named_model()
    store = ModelStore(default_folder())
    return Path(named) if Path(named).is_file() else store.path(store.find(named).model_id)


def _beside_llama_cpp(workload: Workload, tokens: Sequence[int]) -> Figures:
    """Return rates of prefill and decoding in turns with llama.cpp."""
    prompts = [tokens[first : first + ITEM_PROMPT] for first in range(BATCH)]
    works: dict[str, Callable[[], float]] = {
        "prefill": lambda: PROMPT / cpu_seconds(lambda: workload.run(request(tokens[:PROMPT], 1))),
        f"decode_{BATCH}": lambda: decode_rate(lambda count: _batch_seconds(workload, prompts, count)),
    }
    try:
        gguf = Path(os.environ["GGUF"])
        alone, beside = LlamaCpp(gguf, 1, 2048), LlamaCpp(gguf, BATCH, 2 * (ITEM_PROMPT + LONG))
    except (KeyError, ImportError) as error:
        reason = "GGUF is not set" if isinstance(error, KeyError) else str(error)
        print(LEFT_OUT.format(reason=reason), file=sys.stderr)
    else:
        works["llama_cpp_prefill"] = lambda: PROMPT / alone.prefill(tokens[:PROMPT])
        works[f"llama_cpp_decode_{BATCH}"] = lambda: decode_rate(lambda count: beside.generation(prompts, count))
    rounds = [{name: work() for name, work in works.items()} for _ in range(ROUNDS)]
    rates = {name: median(rates[name] for rates in rounds) for name in works}
    return {f"{name}_tokens_per_cpu_second": round(rate, 1) for name, rate in rates.items()} | ratios(rates)


def ratios(rates: Figures) -> Figures:
    """Return our rates as shares of llama.cpp's, where it has them."""
    return {
        f"{name}_of_llama_cpp": round(rate / rates[f"llama_cpp_{name}"], 3)
        for name, rate in rates.items()
        if f"llama_cpp_{name}" in rates
    }


def decode_rate(seconds: Callable[[int], float]) -> float:
    """Return the tokens per second of a batch, from the seconds that it takes for a number of tokens each."""
    return BATCH * (LONG - SHORT) / (seconds(LONG) - seconds(SHORT))


def log_probabilities(gguf: Path, prompt: Sequence[int]) -> Figures:
    """Return the greatest difference between the imported float model and llama.cpp over the likeliest tokens."""
    ours = FloatDecoder(open_source(gguf)).log_probabilities(prompt)[-1]
    theirs = LlamaCpp(gguf, 1, 2048).log_probabilities(prompt)
    likeliest = max(theirs, key=theirs.__getitem__)
    return {
        "float_model_logprob": round(float(ours[likeliest]), 4),
        "llama_cpp_logprob": round(theirs[likeliest], 4),
        "logprob_difference_max": round(max(abs(float(ours[token]) - found) for token, found in theirs.items()), 4),
    }


def _checks(workload: Workload, tokens: Sequence[int]) -> Figures:
    """Return the costs of checks relative to the checked work."""
    alone = request(tokens[:27], ALONE)
    answers: list[bytes] = []
    generation = cpu_seconds(lambda: answers.append(workload.run(alone)))
    check = cpu_seconds(lambda: workload.verify(alone, answers[0]))
    items = [request(tokens[first : first + ITEM_PROMPT], ITEM_TOKENS) for first in range(ITEMS)]
    outputs: dict[int, bytes | None] = {}
    batch = cpu_seconds(lambda: outputs.update(workload.run_many(items)))
    drawn = outputs[ITEMS // 2]
    assert drawn is not None
    item = cpu_seconds(lambda: workload.verify(items[ITEMS // 2], drawn))
    return {
        "decode_1_tokens_per_cpu_second": round(ALONE / generation, 1),
        "check_over_generation": round(check / generation, 3),
        f"batch_of_{ITEMS}_over_item": round(batch / item, 1),
    }


def _batch_seconds(workload: Workload, prompts: Sequence[Sequence[int]], count: int) -> float:
    return cpu_seconds(lambda: list(workload.run_many([request(prompt, count) for prompt in prompts])))


def request(prompt: Sequence[int], count: int) -> bytes:
    """Return a request for a greedy answer of `count` tokens."""
    return REQUEST.encode(GenerationRequest(tuple(prompt), count, 0, TOP_P_ONE, bytes(32), (), has_logprobs=False))


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of a piece of work."""
    start = time.process_time()
    work()
    return time.process_time() - start


def _one_billion() -> Figures:
    """Return figures of the shape of Llama-3.2-1B, from two layers and the head."""
    shape = replace(LLAMA_1B, layers=MEASURED_LAYERS)
    model = load(arithmetic(os.environ.get("BACKEND", "numpy")), random_model(shape))
    prefill, _ = _layers_and_head(model, 1, READ_MAX)
    layers, head = _layers_and_head(model, BATCH, 1)
    return extrapolated(prefill, layers, head) | {
        "shape_1b_kv_bytes_per_token": cache_bytes(LLAMA_1B),
        "shape_1b_float32_weights_gib": round(float32_bytes(LLAMA_1B) / 2**30, 2),
    }


def extrapolated(prefill: float, layers: float, head: float) -> Figures:
    """Return rates of the 1B shape from the CPU seconds of MEASURED_LAYERS.

    `prefill` is of READ_MAX positions, `layers` of one token of a batch, and `head` of that batch's logits.
    """
    share = LLAMA_1B.layers / MEASURED_LAYERS
    return {
        "shape_1b_prefill_tokens_per_cpu_second_extrapolated": round(READ_MAX / (prefill * share), 2),
        f"shape_1b_decode_{BATCH}_tokens_per_cpu_second_extrapolated": round(BATCH / (layers * share + head), 2),
    }


def float32_bytes(shape: DecoderShape) -> int:
    """Return the bytes of the matrices of all layers and of the head as float32."""
    attended = shape.heads * shape.head_width
    rows = 2 * attended + 2 * shape.key_heads * shape.head_width + 3 * shape.hidden
    return 4 * shape.width * (shape.layers * rows + shape.vocabulary)


def _layers_and_head(model: LoadedDecoder, texts: int, length: int) -> tuple[float, float]:
    """Return the median CPU seconds of the layers and of the logits of each text's last position."""
    tokens = np.random.default_rng(1).integers(0, model.shape.vocabulary, (texts, length))
    starts, rounds = np.zeros(texts, dtype=np.int64), []
    for _ in range(ROUNDS):
        cache, stream = KeyValueCache(model, texts, length), embedded(model, tokens)
        streams = []
        layers = cpu_seconds(lambda: streams.append(through_layers(model, stream, cache, starts)))  # noqa: B023
        head = cpu_seconds(lambda: logits_of(model, streams[0][:, -1]))  # noqa: B023
        rounds.append((layers, head))
    return median(layers for layers, _ in rounds), median(head for _, head in rounds)


def random_model(shape: DecoderShape) -> DecoderModel:
    """Return a model with random weights that keep the size of activations, and the tables of the built-in one."""
    draw = np.random.default_rng(0)

    def rows(count: int, columns: int) -> Rows:
        integers = draw.integers(-127, 128, (count, columns), dtype=np.int8)
        mantissas, exponents = np.full(count, 1 << 15, dtype=np.uint16), np.full(count, 28, dtype=np.int8)
        return Rows(integers, mantissas, exponents)

    gain = GainRow(np.full(shape.width, 1 << 14, dtype=np.int16), np.array([14], dtype=np.int8))
    attended, kept = shape.heads * shape.head_width, shape.key_heads * shape.head_width
    layers = tuple(
        LayerArrays(
            gain, rows(attended + 2 * kept, shape.width), None, None, None, rows(shape.width, attended), None, gain,
            rows(2 * shape.hidden, shape.width), rows(shape.width, shape.hidden),
        )
        for _ in range(shape.layers)
    )  # fmt: skip
    head, tables = rows(shape.vocabulary, shape.width), built_in_model()
    turns = np.zeros((shape.context, shape.head_width // 2), dtype=np.int16)
    return DecoderModel(shape, head, turns, turns, tables.exponentials, tables.sigmoids, layers, gain, head)


def long_text_peak() -> float:
    """Return the peak memory of this process, in MiB, after an answer to a long prompt."""
    path = model_path()
    tokens = Tokenizer(read_section(path, TOKENIZER)).encode(paragraphs(TEXT))
    open_model(os.environ.get("BACKEND", "numpy"), path).run(request(tokens[:LONG_PROMPT], LONG_ANSWER))
    return peak_mib(os.getpid())


if __name__ == "__main__":
    print(long_text_peak())
