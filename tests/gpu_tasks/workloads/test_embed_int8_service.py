"""`embed-int8` as a workload and as a form: a model file in, requests and answers as bytes, bad input refused."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder_models import write_encoder
from gpu_tasks.batches.outcomes import Completed
from gpu_tasks.models.errors import ModelError
from gpu_tasks.models.model_file import CONFIG, TENSORS, ModelFields, ModelHeader, read_section, write_model
from gpu_tasks.workloads.embed_int8 import service
from gpu_tasks.workloads.embed_int8.form import EmbeddingForm
from gpu_tasks.workloads.embed_int8.request import (
    OUTPUT,
    REQUEST,
    EmbeddingOutput,
    EmbeddingRequest,
    decode_output,
    output_bytes,
)
from gpu_tasks.workloads.embed_int8.service import open_model
from gpu_tasks.workloads.form import RequestError, outcomes_of
from gpu_tasks.workloads.integer_arrays import BackendArray
from gpu_tasks.workloads.integer_transformer.numpy_backend import FloatBackend
from gpu_tasks.workloads.workload import NonConformingBackendError, OutputCheck, Workload
from runtime.encoding.codec import DecodeError
from torch_here import skip_without

ROOT = Path(__file__).parents[3]
SEED = bytes(32)
TEXT = "w5 w17 w17 w40"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models") / "tiny.ogpu-model"


@pytest.fixture(scope="module")
def header(path: Path) -> ModelHeader:
    return write_encoder(path)


@pytest.fixture(scope="module")
def form(header: ModelHeader, path: Path) -> EmbeddingForm:
    return EmbeddingForm(header, path)


@pytest.fixture(scope="module")
def workload(form: EmbeddingForm) -> Workload:
    return form.open("numpy")


def request_of(*tokens: int) -> bytes:
    return REQUEST.encode(EmbeddingRequest(tokens))


# --------------------------------------------------------------------------------------------------------- the workload
def test_a_form_opens_its_own_workload(
    form: EmbeddingForm, workload: Workload, header: ModelHeader, path: Path
) -> None:
    assert (workload.workload_id, workload.model_id) == (form.workload_id, header.model_id)
    assert form.name == "embed-int8:tiny-encoder"
    assert form.memory_bytes() > path.stat().st_size
    assert len(workload.conformance()) == 32


@pytest.mark.parametrize("backend", ["reference", "torch-cpu"])
def test_other_backends_give_the_same_answer(form: EmbeddingForm, workload: Workload, backend: str) -> None:
    skip_without(backend)
    request = form.encode(TEXT, 100, {}, SEED)
    assert form.open(backend).run(request) == workload.run(request)


def test_a_backend_that_does_not_conform_serves_no_model(form: EmbeddingForm, monkeypatch: pytest.MonkeyPatch) -> None:
    class RoundsUp(FloatBackend):
        def root(self, squares: BackendArray) -> BackendArray:
            return np.ceil(np.sqrt(squares))

    monkeypatch.setattr(service, "arithmetic", lambda _: RoundsUp())
    with pytest.raises(NonConformingBackendError):
        form.open("numpy")


def test_an_answer_is_within_its_cost_and_length(form: EmbeddingForm, workload: Workload) -> None:
    request = form.encode(TEXT, 6, {}, SEED)
    assert REQUEST.decode(request).tokens == (2, 9, 21, 21, 44, 3)
    output = workload.run(request)
    assert len(output) == form.output_bytes(request) == output_bytes(form.shape)
    assert form.cost(output) == form.cost_asked(request) == 6
    assert outcomes_of(form, [request], [output]) == (Completed(output, 0, 6),)
    assert workload.verify(request, output) == OutputCheck(valid=True, recomputed=6, first_wrong=None)


def test_the_effort_of_texts_follows_their_lengths(form: EmbeddingForm) -> None:
    short, long = request_of(*[1] * 10), request_of(*[1] * 40)
    one, more = form.effort([short], 0), form.effort([long], 0)
    assert 4 * one.reading < more.reading < 16 * one.reading
    assert one.stepping == more.stepping == form.effort([short] * 9, 0).stepping
    assert form.effort([short, b"", request_of(96)], 0) == one
    assert form.effort([], 0) == (0, 0)
    probe = form.probe(40, 8)
    assert probe is not None
    assert form.cost_asked(probe) == 40
    assert form.probe(41, 1) is None


def test_many_requests_are_answered_with_the_bad_ones_left_out(form: EmbeddingForm, workload: Workload) -> None:
    requests = [form.encode(f"w{number} " * (1 + number), 100, {}, SEED) for number in range(12)]
    requests[3:3] = [b"", request_of(), request_of(96)]
    found = dict(workload.run_many(requests))
    assert sorted(found) == list(range(15))
    assert [place for place, output in found.items() if output is None] == [3, 4, 5]
    assert all(output is None or output == workload.run(requests[place]) for place, output in found.items())
    assert list(workload.run_many([])) == []


@pytest.mark.parametrize(
    "encoded",
    [b"", request_of(), request_of(96), request_of(2**32 - 1), request_of(*[1] * 41), request_of(1) + b"\0"],
    ids=["nothing", "no token", "token beyond", "largest id", "too long", "left over"],
)
def test_bad_requests_are_refused(form: EmbeddingForm, workload: Workload, encoded: bytes) -> None:
    for use in (workload.run, lambda bad: workload.verify(bad, b""), form.cost_asked, form.output_bytes):
        with pytest.raises(DecodeError):
            use(encoded)


def test_the_longest_text_is_served(workload: Workload) -> None:
    assert decode_output(workload.run(request_of(*[95] * 40)))[0] == 40


# ---------------------------------------------------------------------------------------------------------------- check
@given(bit=st.integers(0, 48 * 16 - 1))
def test_a_flipped_bit_is_found_at_its_value(workload: Workload, bit: int) -> None:
    request = request_of(2, 9, 3)
    output = OUTPUT.decode(workload.run(request))
    values = bytearray(output.values)
    values[bit // 8] ^= 1 << bit % 8
    wrong = OUTPUT.encode(EmbeddingOutput(output.tokens, bytes(values)))
    assert workload.verify(request, wrong) == OutputCheck(valid=False, recomputed=3, first_wrong=bit // 16)


def test_answers_of_another_form_are_wrong(workload: Workload) -> None:
    request = request_of(2, 9, 3)
    right = workload.run(request)
    for wrong in (b"", right[:-1], right + b"\0", b"\x04" + right[1:], right[:2] + b"\xff" + right[3:]):
        assert workload.verify(request, wrong) == OutputCheck(valid=False, recomputed=3, first_wrong=0)


# ------------------------------------------------------------------------------------------------------------- the form
@pytest.mark.parametrize(("text", "cost"), [("w1 " * 39, 100), (TEXT, 5), (TEXT, 0), ("x" * (2**20 + 1), 2)])
def test_a_text_that_is_too_long_is_refused_before_it_is_posted(form: EmbeddingForm, text: str, cost: int) -> None:
    with pytest.raises(RequestError):
        form.encode(text, cost, {}, SEED)
    with pytest.raises(RequestError):
        form.encode(TEXT, 10, {"temperature": "1"}, SEED)


def test_an_answer_is_a_line_of_numbers(form: EmbeddingForm, workload: Workload) -> None:
    output = workload.run(form.encode(TEXT, 10, {}, SEED))
    shown = form.show_output(output)
    values = json.loads(shown)
    assert "\n" not in shown
    assert [round(value * 2**15) for value in values] == [round(value * 2**15) for value in decode_output(output)[1]]
    assert form.show_request(form.encode(TEXT, 10, {}, SEED)) == TEXT
    assert form.model_facts() == {
        "layers": 2, "width": 48, "heads": 4, "vocabulary": 96, "context_tokens": 40,
    }  # fmt: skip


@given(encoded=st.binary(max_size=40))
def test_any_bytes_can_be_shown_and_counted(form: EmbeddingForm, encoded: bytes) -> None:
    assert isinstance(form.show_output(encoded), str)
    assert form.cost(encoded) >= 0


def test_a_customer_needs_neither_numpy_nor_a_tokenizer_to_count_and_show(path: Path, header: ModelHeader) -> None:
    code = f"""
import sys
sys.modules["numpy"] = sys.modules["tokenizers"] = None
from pathlib import Path
from gpu_tasks.models.model_file import read_header
from gpu_tasks.workloads.embed_int8.form import EmbeddingForm
from gpu_tasks.workloads.embed_int8.request import REQUEST, EmbeddingRequest
from gpu_tasks.workloads.form import RequestError
form = EmbeddingForm(read_header(Path({str(path)!r})), Path({str(path)!r}))
request = REQUEST.encode(EmbeddingRequest((2, 9, 3)))
try:
    form.encode("w1", 9, {{}}, bytes(32))
except RequestError:
    print(form.show_request(request), form.cost_asked(request), form.output_bytes(request), form.show_output(b"?"))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.returncode) == (["2", "9", "3", "3", "100", "0x3f"], 0), done.stderr


# ------------------------------------------------------------------------------------------------------------ bad files
def test_bad_model_files_are_refused(path: Path, header: ModelHeader, tmp_path: Path) -> None:
    whole = path.read_bytes()
    damaged = tmp_path / "damaged"
    damaged.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ModelError) as raised:
        open_model("numpy", damaged)
    assert raised.value.code == "hash_mismatch"
    config, tensors = read_section(path, CONFIG), read_section(path, TENSORS)
    fields = ModelFields("embed-int8", "bad", "", "", "")
    for sections in (
        [(CONFIG, config), (TENSORS, tensors[:-1])], [(CONFIG, config), (TENSORS, b"")],
        [(CONFIG, config[:-1]), (TENSORS, tensors)], [(CONFIG, b"\0" * len(config)), (TENSORS, tensors)],
    ):  # fmt: skip
        write_model(tmp_path / "bad", fields, sections)
        with pytest.raises(DecodeError):
            open_model("numpy", tmp_path / "bad")
    write_model(tmp_path / "bad", fields, [(CONFIG, config)])
    with pytest.raises(ModelError) as raised:
        open_model("numpy", tmp_path / "bad")
    assert raised.value.code == "section_missing"
    with pytest.raises(LookupError):
        open_model("abacus", path)
