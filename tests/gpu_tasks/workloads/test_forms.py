"""The forms: all that programs need to know about each workload."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.workloads import model_forms, registry
from gpu_tasks.workloads.decoder_int8.request import REQUEST as TEXT_REQUEST
from gpu_tasks.workloads.decoder_int8.request import GenerationRequest
from gpu_tasks.workloads.form import RequestError, WorkloadForm
from gpu_tasks.workloads.matmul_hash.form import MatmulHashForm
from gpu_tasks.workloads.matmul_hash.request import REQUEST as CHAIN_REQUEST
from gpu_tasks.workloads.matmul_hash.request import ROUNDS_MAX, SIZE_MAX, ChainRequest
from runtime.encoding.codec import DecodeError
from text_requests import TEXTS
from workload_samples import SAMPLES, shown

ROOT = Path(__file__).parents[3]
FOLDERS_THAT_KNOW_NO_WORKLOAD = (
    "gpu_tasks/client",
    "gpu_tasks/data",
    "gpu_tasks/tasks",
    "gpu_tasks/provider",
    "devnet/launcher",
    "wallet",
    "node",
)
SEED = bytes(range(32))
TEXT = model_forms.form_named(TEXTS)
CONTEXT = 1024
CHAIN = MatmulHashForm()


# ------------------------------------------------------------------------------------------------------- the registry


def test_names_and_ids_are_distinct() -> None:
    assert len({form.name for form in model_forms.PACKAGE_FORMS}) == len(model_forms.PACKAGE_FORMS)
    assert len({form.workload_id for form in model_forms.PACKAGE_FORMS}) == len(model_forms.PACKAGE_FORMS)


@pytest.mark.parametrize("form", model_forms.PACKAGE_FORMS, ids=lambda form: form.name)
def test_a_form_is_found_by_name_and_id_and_opens_its_own_workload(form: WorkloadForm) -> None:
    assert model_forms.form_named(form.name) is form
    found = model_forms.form_of(form.workload_id, form.model_id)
    assert found is not None
    assert (found.name, found.model_id) == (form.name, form.model_id)
    workload = model_forms.open_workload(form.name)
    assert (workload.workload_id, workload.model_id) == (form.workload_id, form.model_id)
    assert (len(form.workload_id), len(form.model_id)) == (32, 32)


@pytest.mark.parametrize("form", model_forms.PACKAGE_FORMS, ids=lambda form: form.name)
def test_what_a_form_asks_is_answered_within_its_cost(form: WorkloadForm) -> None:
    request = form.encode(SAMPLES[form.name], 12, {}, SEED)
    workload = form.open("numpy")
    output = workload.run(request)
    assert workload.verify(request, output).valid
    assert 0.75 * form.output_bytes(request) <= len(output) <= form.output_bytes(request)
    assert 1 <= form.cost(output) <= 12
    assert (form.segments(request) > 0) == form.is_stepwise
    assert form.show_request(request).startswith(shown(form.name))
    assert form.show_output(output)


@pytest.mark.parametrize("form", model_forms.PACKAGE_FORMS, ids=lambda form: form.name)
def test_a_customer_needs_no_numpy(form: WorkloadForm) -> None:
    """As `ogpu` is installed: it names a service, writes a request, shows it and an output."""
    code = f"""
import sys
sys.modules["numpy"] = None
from gpu_tasks.workloads.model_forms import form_named
form = form_named({form.name!r})
print(form.show_request(form.encode({SAMPLES[form.name]!r}, 12, {{}}, bytes(32))), form.show_output(bytes(36)))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(shown(form.name))


def test_what_is_unknown_is_said() -> None:
    assert registry.form_of(bytes(32)) is None
    with pytest.raises(LookupError, match=r"'abacus'; .*train-int8, matmul-hash, render-tile, decoder-int8:MODEL"):
        model_forms.form_named("abacus")


@pytest.mark.parametrize("form", model_forms.PACKAGE_FORMS, ids=lambda form: form.name)
def test_an_unknown_option_lists_the_known_ones(form: WorkloadForm) -> None:
    names = ", ".join(option.name for option in form.options)
    with pytest.raises(RequestError, match=f"'colour' .*: {names}"):
        form.encode(SAMPLES[form.name], 12, {"colour": "red"}, SEED)


@pytest.mark.parametrize("form", model_forms.PACKAGE_FORMS, ids=lambda form: form.name)
@given(data=st.binary(max_size=80))
def test_whatever_an_output_is_it_can_be_shown_and_counted(form: WorkloadForm, data: bytes) -> None:
    assert isinstance(form.show_output(data), str)
    assert form.cost(data) >= 0
    with contextlib.suppress(DecodeError):
        assert isinstance(form.show_request(data), str)


# ---------------------------------------------------------------------------------------------------- text and chain


def test_a_text_becomes_a_request_with_its_temperature_and_seed() -> None:
    asked = TEXT_REQUEST.decode(TEXT.encode("ü", 5, {"temperature": "1.25", "top-p": "0.9"}, SEED))
    assert asked == GenerationRequest(tuple("ü".encode()), 5, 1250, 900, SEED, ((256,),), has_logprobs=False)
    assert TEXT_REQUEST.decode(TEXT.encode("a", 5, {}, SEED)).temperature_milli == 700


@pytest.mark.parametrize("temperature", ["warm", "", "-1", "10.001", "0.0001", "1e1", "nan", "inf", ".5", "٣", "1.-1"])
def test_temperatures_that_are_none(temperature: str) -> None:
    with pytest.raises(RequestError, match="temperature is"):
        TEXT.encode("a", 5, {"temperature": temperature}, SEED)


@pytest.mark.parametrize(
    ("temperature", "milli"), [("0", 0), ("10", 10_000), ("0.001", 1), ("1.5", 1500), ("1.", 1000)]
)
def test_temperatures(temperature: str, milli: int) -> None:
    request = TEXT.encode("a", 5, {"temperature": temperature}, SEED)
    assert TEXT_REQUEST.decode(request).temperature_milli == milli


def test_prompt_and_completion_fit_the_models_context() -> None:
    assert TEXT.model_facts()["context_tokens"] == CONTEXT
    TEXT.encode("x" * (CONTEXT - 16), 16, {}, SEED)
    with pytest.raises(RequestError, match=rf"\b{CONTEXT - 15} tokens, .* 16 .*\b{CONTEXT};"):
        TEXT.encode("x" * (CONTEXT - 15), 16, {}, SEED)
    for text, cost_max in (("x", 0), ("", 5), ("\ud800", 5)):
        with pytest.raises(RequestError):
            TEXT.encode(text, cost_max, {}, SEED)


def test_a_line_of_a_chain_is_a_seed_or_all_three_numbers() -> None:
    assert CHAIN_REQUEST.decode(CHAIN.encode("5", 9, {}, SEED)) == ChainRequest(5, 64, 9)
    assert CHAIN_REQUEST.decode(CHAIN.encode("5", 9, {"size": "8"}, SEED)) == ChainRequest(5, 8, 9)
    assert CHAIN_REQUEST.decode(CHAIN.encode(" 5 3  9 ", 9, {"size": "8"}, SEED)) == ChainRequest(5, 3, 9)


@pytest.mark.parametrize(
    ("text", "cost_max", "why"),
    [
        ("", 9, "neither SEED nor SEED SIZE ROUNDS"),
        ("1 2", 9, "neither SEED nor SEED SIZE ROUNDS"),
        ("1 2 3 4", 9, "neither SEED nor SEED SIZE ROUNDS"),
        ("one", 9, "'one' is not a whole number"),
        ("-1", 9, "'-1' is not a whole number"),
        ("²", 9, "is not a whole number"),
        (str(2**64), 9, "from 0 to 18446744073709551615"),
        ("9" * 5000, 9, "is not a whole number"),
        ("1", 0, "a chain has 1 to 256 products, not 0"),
        ("1", ROUNDS_MAX + 1, "a chain has 1 to 256 products, not 257"),
        ("1 0 9", 9, "a matrix has 1 to 128 rows, not 0"),
        (f"1 {SIZE_MAX + 1} 9", 9, "a matrix has 1 to 128 rows, not 129"),
        ("1 2 10", 9, "10 rounds cost more than 9 products"),
    ],
)
def test_lines_that_are_no_chain(text: str, cost_max: int, why: str) -> None:
    with pytest.raises(RequestError, match=why):
        CHAIN.encode(text, cost_max, {}, SEED)


def test_the_end_of_a_chain_is_shown_in_hex() -> None:
    output = CHAIN.open("numpy").run(CHAIN.encode("1 2 3", 9, {}, SEED))
    assert CHAIN.show_output(output) == "0x" + output[4:].hex()
    assert CHAIN.cost(output) == 3
    assert (CHAIN.show_output(b"\1\2"), CHAIN.cost(b"\1\2")) == ("0x0102", 0)


# -------------------------------------------------------------------------------------------------- nobody knows a name


@pytest.mark.parametrize("folder", FOLDERS_THAT_KNOW_NO_WORKLOAD)
def test_programs_name_no_workload(folder: str) -> None:
    """Neither in words nor by an import: a further workload must need no change in them."""
    names = {*(form.name for form in model_forms.PACKAGE_FORMS), *registry.workload_names().values()}
    words = (*names, *(name.replace("-", "_") for name in names))
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).rglob("*.py"))}
    assert texts
    assert {(path, word) for path, text in texts.items() for word in words if word in text} == set()


@pytest.mark.parametrize("form", model_forms.PACKAGE_FORMS, ids=lambda form: form.name)
def test_every_machine_can_be_asked_for_every_workload(form: WorkloadForm) -> None:
    assert form.backends[0] == "numpy"
    assert len(set(form.backends)) == len(form.backends)


def test_a_check_by_one_prefill_costs_a_fifth_and_any_other_as_much_as_the_run() -> None:
    costs = {form.name: form.check_ppm for form in model_forms.PACKAGE_FORMS}
    assert costs.pop(TEXTS) == 200_000
    assert set(costs.values()) == {1_000_000}
