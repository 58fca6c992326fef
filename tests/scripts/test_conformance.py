"""Backends with equal hashes pass, and one different bit anywhere fails."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from hypothesis import given, settings

from encoder_models import write_encoder
from gpu_tasks.traces.trace import SEGMENTS_MAX
from gpu_tasks.workloads.backend_choice import UnknownBackendError
from gpu_tasks.workloads.decoder_int8 import conformance as decoder_vectors
from gpu_tasks.workloads.decoder_int8.decoding import generated as decoded
from gpu_tasks.workloads.integer_transformer import backends as transformer_backends
from gpu_tasks.workloads.integer_transformer.arithmetic import PlainBackend
from gpu_tasks.workloads.integer_transformer.numpy_backend import FloatBackend
from gpu_tasks.workloads.registry import MODEL_WORKLOADS, workload_names
from gpu_tasks.workloads.render_tile import backends as tile_backends
from gpu_tasks.workloads.render_tile.array_arithmetic import NumpyArrays
from gpu_tasks.workloads.render_tile.backends import VectorBackend
from gpu_tasks.workloads.stepwise import states
from gpu_tasks.workloads.train_int8 import backends as training_backends
from gpu_tasks.workloads.train_int8.arithmetic import IntegerArithmetic
from gpu_tasks.workloads.train_int8.backends import FloatArithmetic
from gpu_tasks.workloads.train_int8.request import TrainingRequest, limits_broken
from gpu_tasks.workloads.train_int8.run import TrainingRun
from gpu_tasks.workloads.workload import OutputCheck
from scripts.conformance import __main__ as conformance
from scripts.conformance import answers, cases, transformers, verdict
from scripts.conformance.__main__ import Answer, judged, line
from scripts.conformance.instructions import usable_sets
from scripts.conformance.plain_training import plain_states
from simulation.replay.interpreters import NotPrepared, pinned
from training_requests import small_requests

WAYS = (", texts side by side: 7", ", positions at once: 7")
RUN = {"train-int8 tiny 00 trace root": "aa", "train-int8 tiny 00 trace root, on from milestone 1": "aa"}
TRUTH = {
    **RUN,
    **{f"{name} warm output": "bb" for name in workload_names().values()},
    **{f"decoder-int8 {name}{way}": "cc" for name, way in zip(("crowd", "logits"), WAYS, strict=True)},
    **{f"decoder-int8 {name}": "cc" for name in ("crowd", "logits")},
    **conformance.published(),
}
NEEDS_NOTHING: frozenset[str] = frozenset()


def off(hashes: dict[str, str], *names: str) -> dict[str, str]:
    return {name: "ff" if name in names else digest for name, digest in hashes.items()}


def planted(hashes: dict[str, str] = TRUTH) -> Answer:
    return Answer("3.11.7", "planted", dict.fromkeys(hashes, "00"))


def agreeing() -> list[Answer]:
    return [
        *(Answer("3.11.7", backend, TRUTH) for backend in ("reference", "numpy")),
        Answer("3.11.7", "plain", RUN),
        Answer("3.12.1", "numpy", TRUTH),
        Answer("3.11.7", "torch-cpu", skipped="PyTorch is not installed"),
        planted(),
    ]


def test_what_agrees_passes_and_what_is_skipped_is_said() -> None:
    assert judged(agreeing(), NEEDS_NOTHING) == []
    told = line(agreeing(), 0, 5)
    assert "equal over reference, numpy, plain; Python 3.11.7, 3.12.1" in told
    assert "texts, the same in 1 sizes of batches and 1 of chunks; a planted bit seen; " in told
    assert "torch-cpu skipped: PyTorch is not installed;" in told
    assert {"python": "3.11.7", "backend": "torch-cpu", "hashes": 0, "skipped": "PyTorch is not installed"} in (
        conformance.content(agreeing(), [], 5)["backends"]  # type: ignore[operator]
    )


@pytest.mark.parametrize("name", TRUTH)
@pytest.mark.parametrize("at", [1, 3])
def test_each_hash_that_differs_is_a_failure(at: int, name: str) -> None:
    found = agreeing()
    found[at] = replace(found[at], hashes=off(TRUTH, name))
    assert any(name in problem and found[at].name in problem for problem in judged(found, NEEDS_NOTHING))
    found[at] = replace(found[at], hashes={key: value for key, value in TRUTH.items() if key != name})
    assert any(name in problem for problem in judged(found, NEEDS_NOTHING)), "a backend that says less"


def test_plain_integers_may_say_less_and_nothing_else() -> None:
    found = agreeing()
    for hashes in (off(RUN, "train-int8 tiny 00 trace root"), {}, {"train-int8 another root": "aa"}):
        found[2] = Answer("3.11.7", "plain", hashes)
        assert judged(found, NEEDS_NOTHING)


@pytest.mark.parametrize(
    "name",
    [
        "train-int8 tiny 00 trace root, on from milestone 1",
        "decoder-int8 crowd, texts side by side: 7",
        "decoder-int8 logits, positions at once: 7",
    ],
)
def test_every_way_ends_in_the_undisturbed_result(name: str) -> None:
    assert verdict.other_ways(TRUTH) == []
    assert verdict.other_ways(off(TRUTH, name)) == [name]
    everywhere = [
        answer if answer.backend == "planted" else replace(answer, hashes=off(answer.hashes, name))
        for answer in agreeing()
    ]
    assert any("another result than undisturbed" in problem for problem in judged(everywhere, NEEDS_NOTHING))


def test_vectors_that_all_backends_have_wrong_are_not_as_published() -> None:
    name = "train-int8 vector product"
    everywhere = [replace(answer, hashes=off(answer.hashes, name)) for answer in agreeing()]
    assert judged(everywhere, NEEDS_NOTHING) == [f"reference: {name} is not as published"]


def test_a_planted_bit_that_is_not_seen_is_a_failure() -> None:
    for hashes, named in (
        (TRUTH, "everything of matmul-hash"),
        (
            off(TRUTH, *(name for name in TRUTH if name.endswith("warm output"))),
            "tiny 00 trace root",
        ),
        ({}, "nothing was planted"),
    ):
        found = [*agreeing()[:-1], Answer("3.11.7", "planted", hashes)]
        assert any(named in problem for problem in judged(found, NEEDS_NOTHING))
        assert "NO PLANTED BIT SEEN" in line(found, 1, 5)


def test_what_is_needed_must_not_be_skipped() -> None:
    assert judged(agreeing(), frozenset(["numpy"])) == []
    assert judged(agreeing(), frozenset(["torch-cpu"])) == ["torch-cpu is needed, and was not compared"]


def test_torch_is_asked_for_no_workload_that_it_does_not_have() -> None:
    texts = {name: digest for name, digest in TRUTH.items() if not name.startswith("matmul-hash")}
    assert judged([*agreeing(), Answer("3.11.7", "torch-cuda:0", texts)], frozenset(["torch-cuda:0"])) == []
    assert judged([*agreeing(), Answer("3.11.7", "torch-cuda:0", RUN)], NEEDS_NOTHING)


def test_transformers_agree_on_every_set_of_instructions() -> None:
    part = {name: digest for name, digest in TRUTH.items() if name.split()[0] in MODEL_WORKLOADS}
    found = [*agreeing(), Answer("3.11.7", "numpy", part, instructions="avx2")]
    assert judged(found, NEEDS_NOTHING) == []
    assert "transformers on avx2;" in line(found, 0, 5)
    for name in part:
        wrong = Answer("3.11.7", "torch-cpu", off(part, name), instructions="sse4")
        first, *others = judged([*found, wrong], NEEDS_NOTHING)
        assert first == f"torch-cpu on sse4 under Python 3.11.7: {name}"
        # A way to a result that differs is also another result than undisturbed.
        assert all(name in problem or f"{name}, " in problem for problem in others)


def test_a_model_file_agrees_with_its_first_answer() -> None:
    hashes = {"embed-int8 8275b77e crowd": "dd", "embed-int8 8275b77e crowd, texts side by side: 7": "dd"}
    first = Answer("3.11.7", "numpy", hashes, instructions="sse4", model="minilm")
    assert judged([*agreeing(), first, replace(first, instructions="avx2")], NEEDS_NOTHING) == []
    other = replace(first, hashes=dict.fromkeys(hashes, "ee"), backend="torch-cpu")
    problems = judged([*agreeing(), first, other], NEEDS_NOTHING)
    assert len(problems) == len(hashes)
    assert all("torch-cpu of minilm on sse4" in problem for problem in problems)
    lone = replace(first, hashes=off(hashes, "embed-int8 8275b77e crowd, texts side by side: 7"))
    assert any("another result than undisturbed" in problem for problem in judged([*agreeing(), lone], NEEDS_NOTHING))
    assert conformance.content([*agreeing(), first], [], 5)["model_hashes"] == hashes


def test_a_processor_uses_the_instructions_that_it_has(tmp_path: Path) -> None:
    for flags, names in (
        ("fpu sse4_2", ["sse4"]),
        ("sse4_2 fma avx2 avx512f", ["sse4", "avx2"]),
        ("sse4_2 fma avx2 avx512f avx512bw avx512dq avx512vl", ["sse4", "avx2", "avx512"]),
    ):
        (tmp_path / "cpuinfo").write_text(f"model name\t: X\nflags\t\t: {flags}\n")
        assert [each.name for each in usable_sets(tmp_path / "cpuinfo")] == names
    (tmp_path / "cpuinfo").write_text("Features : fp asimd\n")
    assert usable_sets(tmp_path / "cpuinfo") == usable_sets(tmp_path / "none") == ()


def test_a_backend_that_ends_badly_is_a_failure() -> None:
    assert judged([*agreeing(), Answer("3.12.1", "numpy", failed="ended with 1: x")], NEEDS_NOTHING) == [
        "numpy under Python 3.12.1 ended with 1: x"
    ]


# --------------------------------------------------------------------------------------------------------- real hashes


@pytest.fixture(scope="module")
def small() -> Any:
    """Use real answers of real backends, for fewer and smaller cases. torch is NumPy under its name."""
    chain, room = cases.chains()["odd"], cases.tiles()["room 5a"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cases, "SHAPES", {"tiny": {**cases.SHAPES["tiny"], "steps": 12, "segment": 2}})
        patch.setattr(cases, "SEEDS", cases.SEEDS[:2])
        patch.setattr(cases, "CHUNKS", (1, 3))
        patch.setattr(cases, "TRANSFORMER_TEXTS", 9)
        patch.setattr(cases, "chains", lambda: {"odd": chain})
        patch.setattr(cases, "tiles", lambda: {"room 5a": room})
        patch.setattr("importlib.util.find_spec", lambda _: "found")
        for backends, in_numpy in (
            (training_backends, FloatArithmetic),
            (tile_backends, lambda: VectorBackend(NumpyArrays())),
            (transformer_backends, FloatBackend),
        ):
            patch.setattr(backends, "_torch", lambda of=in_numpy: lambda _: of())
        patch.setattr(answers, "_libraries", lambda _: {})
        return {name: answers.answers(name) for name in ("reference", "numpy", "plain", "torch-cpu", "planted")}


@pytest.mark.nightly
def test_real_backends_agree_and_one_with_a_bit_wrong_is_caught(small: dict[str, dict[str, str]]) -> None:
    found = [Answer("3.11.7", backend, hashes) for backend, hashes in small.items()]
    assert judged(found, NEEDS_NOTHING) == []
    assert sum(verdict.RESUMED in name for name in small["numpy"]) == 3 * 3
    assert len(small["plain"]) == 3 * 2
    assert len(small["torch-cpu"]) == len(small["numpy"]) - 2, (
        "matmul-hash has a vector and an output here, and no torch"
    )
    problems = judged([*found, Answer("3.12.1", "numpy", small["planted"])], NEEDS_NOTHING)
    for name in (
        "train-int8 tiny 5a trace root",
        "matmul-hash odd output",
        "decoder-int8 vector product",
        "embed-int8 vector ANSWERS",
        "render-tile room 5a trace root",
    ):
        assert f"numpy under Python 3.12.1: {name}" in problems


def test_answers_of_transformers_that_are_others_beside_each_other_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cases, "TRANSFORMER_TEXTS", 9)
    assert verdict.other_ways(transformers.decoder_hashes(FloatBackend())) == []

    def bent(model: Any, requests: Any, lanes: int) -> Any:
        outputs = dict(decoded(model, requests, lanes))
        return list((outputs | {8: outputs[7]} if lanes == 7 else outputs).items())

    monkeypatch.setattr(transformers, "generated", bent)
    assert verdict.other_ways(transformers.decoder_hashes(FloatBackend())) == ["crowd, texts side by side: 7"]


def test_logits_that_are_others_in_chunks_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "TRANSFORMER_TEXTS", 9)
    true_logits = decoder_vectors.logits

    def bent(model: Any, step: int) -> Any:
        found = true_logits(model, step)
        found[-1, -1, -1] += step == 2
        return found

    monkeypatch.setattr(decoder_vectors, "logits", bent)
    assert verdict.other_ways(transformers.decoder_hashes(FloatBackend())) == ["logits, positions at once: 2"]


def test_an_answer_that_its_own_check_refuses_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "TRANSFORMER_TEXTS", 9)
    refusal = OutputCheck(valid=False, recomputed=1, first_wrong=0)
    monkeypatch.setattr(transformers, "verify_output", lambda *_: refusal)
    found = transformers.decoder_hashes(PlainBackend())
    assert found["crowd"] == transformers.REFUSED
    assert len(verdict.other_ways(found)) == len(cases.TRANSFORMER_BATCHES)


def test_a_model_file_is_answered_alone_and_in_batches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cases, "TRANSFORMER_TEXTS", 9)
    monkeypatch.setenv("OGPU_MODELS", str(tmp_path))
    header = write_encoder(tmp_path / "draft")
    (tmp_path / "draft").rename(tmp_path / f"{header.model_id.hex()}.ogpu-model")
    found = answers.answers("numpy", frozenset(), header.name)
    assert found == answers.answers("reference", frozenset(), header.model_id.hex())
    assert len(found) == 1 + len(cases.TRANSFORMER_BATCHES)
    assert len(set(found.values())) == 1


def test_questions_and_sentences_are_of_all_kinds() -> None:
    asked = cases.questions(40, 97)
    assert len(asked) > max(cases.TRANSFORMER_BATCHES)
    assert 36 < max(len(each.prompt) + each.max_tokens for each in asked) <= 40
    assert {each.max_tokens for each in asked} == {1, 2, 3, 4}
    assert {bool(each.stops) for each in asked} == {each.has_logprobs for each in asked} == {True, False}
    assert {each.temperature_milli for each in asked} >= {0, 2800}
    assert max(len(each.prompt) + each.max_tokens for each in cases.questions(cases.MODEL_TOKENS, 97)) <= 5
    assert 30 < max(len(each.tokens) for each in cases.sentences(40, 97)) <= 40


@pytest.mark.nightly
@pytest.mark.parametrize(("lying", "other_python", "status"), [("", {}, 0), ("numpy", {}, 1), ("", {"3.12": None}, 1)])
def test_the_tool_fails_when_a_backend_differs(
    small: dict[str, dict[str, str]],
    lying: str,
    other_python: dict[str, Path | None],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def said(command: list[str], **_: Any) -> CompletedProcess[str]:
        backend = command[3]
        hashes = {} if "torch" in backend else small["planted" if backend == lying else backend]
        if "--only" in command:
            only = command[command.index("--only") + 1].split(",")
            hashes = {name: digest for name, digest in hashes.items() if name.partition(" ")[0] in only}
        skip = {} if hashes else {"skipped": "PyTorch is not installed"}
        answer = {"python": "3.11.7", "backend": backend, "hashes": hashes, **skip}
        return CompletedProcess(command, 0, json.dumps(answer), "")

    monkeypatch.setattr("subprocess.run", said)
    monkeypatch.setattr(conformance, "interpreters", lambda *_: {"3.11": Path(sys.executable), **other_python})
    monkeypatch.setattr(conformance, "OUT", tmp_path / "conformance.json")
    monkeypatch.setattr("sys.argv", ["conformance"])
    assert conformance.main() == status
    written = json.loads((tmp_path / "conformance.json").read_text())
    assert bool(written["problems"]) == bool(status)
    of_all = [entry for entry in written["backends"] if not entry.get("instructions")]
    assert [entry.get("skipped") for entry in of_all].count("PyTorch is not installed") == 2


@settings(max_examples=10)
@given(asked=small_requests)
def test_plain_integers_have_the_states_of_the_reference(asked: TrainingRequest) -> None:
    assert list(plain_states(asked)) == list(states(TrainingRun(IntegerArithmetic(), asked)))


def test_without_pytorch_its_backends_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(answers.Skipped, match="PyTorch is not installed"):
        answers.answers("torch-cuda:0")


def test_a_backend_that_there_is_not_is_not_skipped() -> None:
    with pytest.raises(UnknownBackendError, match="nunpy"):
        answers.answers("nunpy")


def test_every_case_is_within_the_limits_and_has_its_milestones() -> None:
    assert [limits_broken(asked) for asked in cases.training().values()] == [None] * 15
    assert answers.milestone_states(9) == [2, 4, 6]
    assert answers.milestone_states(3) == [1, 2]
    assert len(answers.milestone_states(SEGMENTS_MAX)) == 3


def test_a_package_is_taken_out_of_a_lock_with_its_hashes() -> None:
    lock = "noise==1 \\\n    --hash=a\nnumpy==2 \\\n    --hash=b \\\n    --hash=c\n    # via ogpu\nplyvel==1\n"
    assert pinned(lock, "numpy") == "numpy==2 \\\n    --hash=b \\\n    --hash=c\n    # via ogpu\n"
    assert pinned(lock, "plyvel") == "plyvel==1\n"
    with pytest.raises(NotPrepared, match="no lock names num"):
        pinned(lock, "num")
