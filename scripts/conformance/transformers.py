"""Answers of `decoder-int8` and `embed-int8`: alone and beside each other, and logits of texts that are read in chunks.

The models are those of the published vectors, which need no file. A model file can be added (`--model`).
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

from gpu_tasks.models.model_store import ModelStore, default_folder
from gpu_tasks.workloads import model_forms
from gpu_tasks.workloads.decoder_int8 import conformance as decoder_vectors
from gpu_tasks.workloads.decoder_int8.decoding import generated, verify_output
from gpu_tasks.workloads.decoder_int8.request import OUTPUT, REQUEST, GenerationOutput
from gpu_tasks.workloads.decoder_int8.request import WORKLOAD_NAME as DECODER
from gpu_tasks.workloads.decoder_int8.transformer import load as load_decoder
from gpu_tasks.workloads.embed_int8 import conformance as encoder_vectors
from gpu_tasks.workloads.embed_int8.request import REQUEST as TEXT_REQUEST
from gpu_tasks.workloads.embed_int8.service import TextEmbedding
from gpu_tasks.workloads.embed_int8.transformer import load as load_encoder
from gpu_tasks.workloads.integer_transformer.arithmetic import TransformerBackend
from gpu_tasks.workloads.integer_transformer.conformance import operation_hashes
from gpu_tasks.workloads.workload import NonConformingBackendError, Workload
from scripts.conformance import cases
from scripts.conformance.verdict import BATCHED, CHUNKED

REFUSED = "refused by its own check"
Hashes = dict[str, str]


def decoder_hashes(backend: TransformerBackend) -> Hashes:
    """Return the vectors, and the answers and logits of the built-in decoder. A prefill must accept each answer."""
    model = load_decoder(backend, decoder_vectors.built_in_model())
    whole = decoder_vectors.TEXTS.shape[1]
    found = {f"vector {name}": digest for name, digest in operation_hashes(backend).items()}
    found |= {
        f"logits{way}": decoder_vectors.logits_hash(decoder_vectors.logits(model, step))
        for way, step in {"": whole, **{f"{CHUNKED}{step}": step for step in cases.CHUNKS}}.items()
    }
    found["vector LOGITS"] = found["logits"]
    requests = cases.questions(decoder_vectors.SHAPE.context, decoder_vectors.SHAPE.vocabulary)

    def answers(lanes: int) -> list[GenerationOutput]:
        outputs = dict(generated(model, requests, lanes))
        return [outputs[place] for place in range(len(requests))]

    alone = answers(1)
    checks = (verify_output(model, request, output) for request, output in zip(requests, alone, strict=True))
    found["crowd"] = _hash(map(OUTPUT.encode, alone)) if all(check.valid for check in checks) else REFUSED
    return found | {
        f"crowd{BATCHED}{lanes}": _hash(map(OUTPUT.encode, answers(lanes))) for lanes in cases.TRANSFORMER_BATCHES
    }


def encoder_hashes(backend: TransformerBackend) -> Hashes:
    """Return the vector, and the answers of the small encoder to texts of many lengths."""
    try:
        vector = encoder_vectors.answers_hash(backend).hex()
    except NonConformingBackendError:
        vector = REFUSED
    workload = TextEmbedding(load_encoder(backend, encoder_vectors.small_model()), bytes(32))
    shape = encoder_vectors.SHAPE
    requests = [TEXT_REQUEST.encode(each) for each in cases.sentences(cases.SENTENCE_TOKENS, shape.vocabulary)]
    return {"vector ANSWERS": vector} | crowd_hashes(workload, requests)


def model_hashes(name: str, backend_name: str) -> Hashes:
    """Return the answers of a model of this user's store, by the name of its workload. Raise ModelError."""
    store = ModelStore(default_folder())
    header = store.find(name)
    form = model_forms.form_of_model(header, store.path(header.model_id))
    assert form is not None, f"{name} is of {header.workload}"
    vocabulary = int(form.model_facts()["vocabulary"])
    if header.workload == DECODER:
        asked = [REQUEST.encode(each) for each in cases.questions(cases.MODEL_TOKENS, vocabulary)]
    else:
        asked = [TEXT_REQUEST.encode(each) for each in cases.sentences(cases.SENTENCE_TOKENS, vocabulary)]
    found = crowd_hashes(form.open(backend_name), asked)
    return {f"{header.workload} {header.model_id.hex()[:8]} {way}": digest for way, digest in found.items()}


def crowd_hashes(workload: Workload, requests: Sequence[bytes]) -> Hashes:
    """Return the hashes of the answers: each alone, accepted by its own check, and in batches of each size."""
    alone = [workload.run(request) for request in requests]
    checks = (workload.verify(request, output) for request, output in zip(requests, alone, strict=True))
    found = {"crowd": _hash(alone) if all(check.valid for check in checks) else REFUSED}
    for size in cases.TRANSFORMER_BATCHES:
        found[f"crowd{BATCHED}{size}"] = _hash(_in_batches(workload, requests, size))
    return found


def _in_batches(workload: Workload, requests: Sequence[bytes], size: int) -> Iterator[bytes]:
    for start in range(0, len(requests), size):
        batch = requests[start : start + size]
        outputs = dict(workload.run_many(batch))
        yield from (outputs[place] or b"" for place in range(len(batch)))


def _hash(parts: Iterable[bytes]) -> str:
    """Return the hash of all parts with their lengths."""
    return blake2b(b"".join(len(part).to_bytes(4, "little") + part for part in parts), digest_size=32).hexdigest()
