"""A model file as a workload: found by its id or name, asked in text, refused where a request or a file is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from decoder_models import drawn_source
from error_codes import raises_code
from gpu_tasks.models.model_file import (
    CHAT_TEMPLATE,
    CONFIG,
    GENERATION,
    TOKENIZER,
    ModelFields,
    ModelFileError,
    ModelHeader,
    read_section,
)
from gpu_tasks.models.model_store import ModelStore
from gpu_tasks.models.sources.source_model import SourceError
from gpu_tasks.workloads import model_forms, registry
from gpu_tasks.workloads.decoder_int8 import decoding, service
from gpu_tasks.workloads.decoder_int8.form import DecoderForm
from gpu_tasks.workloads.decoder_int8.request import (
    OUTPUT,
    REQUEST,
    GenerationOutput,
    GenerationRequest,
    decode_request,
    output_bytes_max,
)
from gpu_tasks.workloads.decoder_int8.transformer import KeyValueCache, LoadedDecoder
from gpu_tasks.workloads.form import ChatMessage, RequestError, WorkloadForm
from gpu_tasks.workloads.importing import import_model
from gpu_tasks.workloads.integer_arrays import BackendArray
from gpu_tasks.workloads.integer_transformer.numpy_backend import FloatBackend
from gpu_tasks.workloads.workload import NonConformingBackendError, Workload
from runtime.encoding.codec import DecodeError

SEED = bytes(32)
TEMPLATE = "{% for m in messages %}{{ m.role[0] }}<{{ m.content }}>{% endfor %}"


def byte_tokenizer(first: str = "") -> bytes:
    """Return a tokenizer of the characters that a test writes: one token each. It puts `first` before a text."""
    letters = {letter: number for number, letter in enumerate("abcdefghijklmnopqrstuvwxyz <>?")}
    tokenizer: dict[str, object] = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated", "invert": False},
        "post_processor": None, "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "vocab": letters, "merges": [], "unk_token": None, "dropout": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                  "byte_fallback": False},
    }  # fmt: skip
    if first:
        special = {first: {"id": first, "ids": [letters[first]], "tokens": [first]}}
        pieces = [{"SpecialToken": {"id": first, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
        tokenizer["post_processor"] = {
            "type": "TemplateProcessing", "single": pieces, "pair": pieces, "special_tokens": special
        }  # fmt: skip
    return json.dumps(tokenizer).encode()


@pytest.fixture
def header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelHeader:
    monkeypatch.setenv("OGPU_MODELS", str(tmp_path))
    source = replace(drawn_source(), tokenizer=byte_tokenizer(), chat_template=TEMPLATE)
    imported = import_model(source)
    return ModelStore(tmp_path).create(imported.fields, imported.sections)


@pytest.fixture
def form(header: ModelHeader) -> WorkloadForm:
    found = model_forms.form_of(registry.MODEL_WORKLOADS["decoder-int8"], header.model_id)
    assert found is not None
    return found


@pytest.fixture
def workload(form: WorkloadForm) -> Workload:
    return form.open("numpy")


def test_a_model_is_found_by_id_and_by_name(header: ModelHeader, form: WorkloadForm) -> None:
    assert isinstance(form, DecoderForm)
    assert (form.name, form.model_id) == ("decoder-int8:tiny", header.model_id)
    for name in ("decoder-int8:tiny", f"decoder-int8:{header.model_id.hex()[:8]}"):
        assert model_forms.form_named(name).model_id == header.model_id
    assert [each.name for each in model_forms.forms()][-1] == "decoder-int8:tiny"
    assert model_forms.form_of(form.workload_id, bytes(32)) is None
    assert model_forms.form_of(bytes(32), header.model_id) is None
    assert model_forms.form_of(registry.MODEL_WORKLOADS["embed-int8"], header.model_id) is None
    assert registry.workload_name(form.workload_id) == "decoder-int8"
    for unknown in ("decoder-int8:other", "decoder-int8:", "decoder-int8", "embed-int8:tiny", "nothing"):
        with pytest.raises(LookupError):
            model_forms.form_named(unknown)


def test_the_same_source_gives_the_same_model(header: ModelHeader, tmp_path: Path) -> None:
    source = replace(drawn_source(), tokenizer=byte_tokenizer(), chat_template=TEMPLATE)
    imported = import_model(source)
    again = ModelStore(tmp_path / "other").create(imported.fields, imported.sections)
    assert again.model_id == header.model_id


def test_text_is_asked_and_answered(form: WorkloadForm, workload: Workload) -> None:
    request = form.encode("what is it", 6, {"temperature": "0", "logprobs": "yes"}, SEED)
    assert form.show_request(request) == "what is it"
    assert (form.cost_in(request), form.cost_asked(request)) == (13, 6)
    output = workload.run(request)
    assert len(output) <= form.output_bytes(request)
    shown = json.loads(form.show_output(output))
    assert list(shown) == ["text", "tokens", "logprobs"]
    assert len(shown["tokens"]) == len(shown["logprobs"]) == form.cost(output)
    plain = form.encode("what is it", 6, {"temperature": "0", "chat": "no"}, SEED)
    assert form.show_request(plain) == "what is it"
    assert REQUEST.decode(plain).prompt == REQUEST.decode(request).prompt[2:-1]
    assert REQUEST.decode(plain).stops == ((0,),)
    assert (workload.workload_id, workload.model_id) == (form.workload_id, form.model_id)
    assert workload.verify(request, output).valid
    assert not workload.verify(request, b"nonsense").valid
    assert len(workload.conformance()) == 32


def test_the_fields_of_a_model_are_those_of_its_source() -> None:
    origin = {"name": "small", "licence": "MIT", "revision": "v2", "source": "pypi:small==2"}
    source = replace(drawn_source(), tokenizer=byte_tokenizer(), **origin)  # type: ignore[arg-type]
    assert import_model(source, has_report=False).fields == ModelFields("decoder-int8", **origin)


def test_the_first_token_stands_once_before_a_chat_and_before_a_text(tmp_path: Path) -> None:
    """The chat template writes it, as those of most models do."""
    source = replace(drawn_source(), tokenizer=byte_tokenizer("<"), chat_template=TEMPLATE)
    imported = import_model(source, has_report=False)
    store = ModelStore(tmp_path)
    header = store.create(imported.fields, imported.sections)
    form = DecoderForm(header, store.path(header.model_id))
    assert form.cost_in(form.encode("ab", 1, {}, SEED)) == len("u<ab>")
    assert form.cost_in(form.encode("ab", 1, {"chat": "no"}, SEED)) == len("<ab")


def test_a_batch_uses_no_more_room_than_its_worker_has(
    form: WorkloadForm, workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes: list[int] = []

    class Noted(KeyValueCache):
        def __init__(self, model: LoadedDecoder, texts: int, positions: int) -> None:
            lanes.append(texts)
            super().__init__(model, texts, positions)

    monkeypatch.setattr(decoding, "KeyValueCache", Noted)
    request = form.encode("ab", 3, {}, SEED)
    for room_bytes, most in ((form.request_bytes(request), 1), (form.room_bytes(), 5)):
        lanes.clear()
        workload.use_room(room_bytes)
        assert len(dict(workload.run_many([request] * 5))) == 5
        assert max(lanes) == most


def test_each_message_of_a_chat_goes_through_the_template(form: WorkloadForm) -> None:
    chat = [ChatMessage("developer", "be kind"), ChatMessage("user", "hi")]
    assert form.show_request(form.encode_chat(chat, 6, {}, SEED)) == "s<be kind>u<hi>"
    question = form.encode_chat(chat[1:], 6, {}, SEED)
    assert question == form.encode("hi", 6, {}, SEED)


def test_an_invalid_request_does_not_stop_the_others(form: WorkloadForm, workload: Workload) -> None:
    good = form.encode("ab", 3, {}, SEED)
    unknown_token = REQUEST.encode(GenerationRequest((9_999,), 3, 0, 1000, SEED, (), has_logprobs=False))
    answers = dict(workload.run_many([good, b"", unknown_token, good]))
    assert answers[1] is answers[2] is None
    assert answers[0] == answers[3] == workload.run(good)


@pytest.mark.parametrize(
    ("text", "most", "options"),
    [
        ("", 1, {"chat": "no"}),
        ("a", 0, {}),
        ("a" * 40, 30, {}),
        ("a", 1, {"temperature": "11"}),
        ("a", 1, {"top-p": "0"}),
        ("a", 1, {"top-p": "1.5"}),
        ("a", 1, {"chat": "perhaps"}),
        ("a", 1, {"logprobs": "1"}),
        ("a", 1, {"warmth": "1"}),
    ],
)
def test_what_the_model_cannot_serve_is_refused_before_posting(
    form: WorkloadForm, text: str, most: int, options: dict[str, str]
) -> None:
    with pytest.raises(RequestError):
        form.encode(text, most, options, SEED)


@pytest.mark.parametrize(
    ("section", "content", "code"),
    [
        (CONFIG, b"", "section_malformed"),
        (CHAT_TEMPLATE, b"\xff", "section_malformed"),
        (GENERATION, b"{", "section_malformed"),
        (GENERATION, b"[]", "section_malformed"),
        (GENERATION, b"[" * 100_000, "section_malformed"),
        (GENERATION, None, "section_missing"),
    ],
)
def test_a_malformed_section_is_an_error_of_the_file(
    header: ModelHeader, tmp_path: Path, section: str, content: bytes | None, code: str
) -> None:
    """Any author can write such a file with sound hashes, and `ogpu model add` accepts it."""
    with raises_code(ModelFileError, code):
        changed_form(header, tmp_path, {section: content}).encode("a", 1, {}, SEED)


def test_a_tokenizer_of_another_model_posts_nothing(header: ModelHeader, tmp_path: Path) -> None:
    tokenizer = json.loads(byte_tokenizer())
    tokenizer["model"]["vocab"]["z"] = 64
    form = changed_form(header, tmp_path, {TOKENIZER: json.dumps(tokenizer).encode()})
    assert form.encode("a", 1, {}, SEED)
    with pytest.raises(RequestError):
        form.encode("z", 1, {}, SEED)


def test_an_unusable_tokenizer_hides_no_answer(header: ModelHeader, tmp_path: Path, workload: Workload) -> None:
    form = changed_form(header, tmp_path, {TOKENIZER: b"{}"})
    assert form.show_request(REQUEST.encode(GOOD)) == "1 2"
    assert form.show_output(OUTPUT.encode(GenerationOutput((5, 6), 0, ()))) == "5 6"


def changed_form(header: ModelHeader, folder: Path, changes: dict[str, bytes | None]) -> WorkloadForm:
    """Return the form of a model file with other sections."""
    path = ModelStore(folder).path(header.model_id)
    sections = {section.name: read_section(path, section.name) for section in header.sections} | changes
    kept = [(name, content) for name, content in sections.items() if content is not None]
    fields = ModelFields(header.workload, header.name, header.licence, header.revision, header.source)
    changed = ModelStore(folder / "changed").create(fields, kept)
    form = model_forms.form_of_model(changed, ModelStore(folder / "changed").path(changed.model_id))
    assert form is not None
    return form


GOOD = GenerationRequest((1, 2), 3, 0, 1000, SEED, ((4,),), has_logprobs=False)


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": ()},
        {"prompt": (64,)},
        {"max_tokens": 0},
        {"max_tokens": 63},
        {"temperature_milli": 10_001},
        {"top_p_milli": 0},
        {"top_p_milli": 1_001},
        {"stops": ((),)},
        {"stops": ((64,),)},
    ],
)
def test_a_request_beyond_the_model_is_invalid(change: dict[str, object]) -> None:
    assert decode_request(REQUEST.encode(GOOD), 64, 64) == GOOD
    with pytest.raises(DecodeError):
        decode_request(REQUEST.encode(replace(GOOD, **change)), 64, 64)  # type: ignore[arg-type]


@pytest.mark.parametrize("has_logprobs", [True, False])
def test_the_greatest_answer_fits_its_limit(has_logprobs: bool) -> None:
    request = replace(GOOD, max_tokens=8_000, has_logprobs=has_logprobs)
    tokens = (2**32 - 1,) * 8_000
    output = OUTPUT.encode(GenerationOutput(tokens, 1, tokens if has_logprobs else ()))
    assert len(output) <= output_bytes_max(request)


def test_wrong_weights_are_not_served(form: WorkloadForm, header: ModelHeader, tmp_path: Path) -> None:
    (path,) = tmp_path.glob("*.ogpu-model")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        form.open("numpy")


def test_a_backend_that_does_not_conform_serves_no_model(form: WorkloadForm, monkeypatch: pytest.MonkeyPatch) -> None:
    class TowardsZero(FloatBackend):
        def shifted(self, values: BackendArray, shift: BackendArray) -> BackendArray:
            return np.trunc(values * np.ldexp(1.0, -np.asarray(shift).astype(np.int32)))

    monkeypatch.setattr(service, "arithmetic", lambda _: TowardsZero())
    with pytest.raises(NonConformingBackendError):
        form.open("numpy")


def test_a_model_that_no_workload_computes_is_refused() -> None:
    with pytest.raises(SourceError) as refused:
        import_model(replace(drawn_source(), architecture="mamba"))
    assert refused.value.code == "architecture"
