"""The built-in language model, and requests to it, for benchmarks."""

from genesis.presets import TEXT_MODEL
from gpu_tasks.models.model_store import ModelStore, default_folder
from gpu_tasks.models.text import END_TOKEN
from gpu_tasks.workloads.decoder_int8.request import OUTPUT, REQUEST, TOP_P_ONE, GenerationRequest
from gpu_tasks.workloads.decoder_int8.service import mapped_model
from gpu_tasks.workloads.decoder_int8.transformer import LoadedDecoder, load
from gpu_tasks.workloads.integer_transformer.arithmetic import TransformerBackend

WORKLOAD = "decoder-int8:ogpu-bytes"
PROMPT = b"It was a bright cold day, and the"


def loaded_on(backend: TransformerBackend) -> LoadedDecoder:
    """Return the model in the arrays of a backend."""
    return load(backend, mapped_model(ModelStore(default_folder()).path(TEXT_MODEL)))


def text_request(prompt: bytes, max_tokens: int, temperature_milli: int, seed: bytes) -> bytes:
    """Return the request to continue some bytes."""
    request = GenerationRequest(
        tuple(prompt), max_tokens, temperature_milli, TOP_P_ONE, seed, ((END_TOKEN,),), has_logprobs=False
    )
    return REQUEST.encode(request)


def greedy(tokens: int) -> bytes:
    """Return a request to continue `PROMPT`. At temperature 0 no text ends early by chance."""
    return text_request(PROMPT, tokens, 0, bytes(32))


def tokens_of(output: bytes | None) -> int:
    """Return the number of tokens of an answer, or 0 for none."""
    return 0 if output is None else len(OUTPUT.decode(output).tokens)
