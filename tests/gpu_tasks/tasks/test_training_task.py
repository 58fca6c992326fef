"""Training tasks from files: six lines suffice, nothing unknown passes, and all errors are listed at once."""

import re
import tracemalloc
from dataclasses import replace

import pytest

from a_task_file import SIX_LINES
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.rules import DEFAULT_RULES
from gpu_tasks.market.training.terms import TaskTerms
from gpu_tasks.tasks.canonical import CANONICAL, INPUT_BYTES_MAX, CanonicalTask, prepare, terms_of
from gpu_tasks.tasks.problems import PROBLEMS_SHOWN_MAX, TaskFileError
from gpu_tasks.tasks.quantities import TimeSpan
from gpu_tasks.tasks.training_task import TaskFile, read_task
from gpu_tasks.tasks.yaml_tree import FILE_BYTES_MAX

ALL_KEYS = """\
apiVersion: ogpu/v1
kind: TrainingTask
metadata:
  name: run-7
  labels: {team: vision, owner/mail: a.b}
spec:
  run:
    workload: train-int8
    input: data/corpus.txt
    length: 200
    options: {width: 8, hidden: "16"}
    seed: 0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
    milestones: 4
  resources: {devices: 2, classes: [datacenter, consumer]}
  market:
    maxPrice: 25 oGPU
    valueOfTime: 0.5 oGPU/h
    lossOnFailure: 5 oGPU
    collateral: 1000 oGPU
  limits: {deadline: 90m}
"""
SEED = bytes(range(32))
TEXT = b"the quick brown fox jumps over the lazy dog\n" * 32
SLOT_MS = 2_000


def read(text: str) -> TaskFile:
    return read_task(text.encode(), "task.yaml")


def problems(text: str) -> list[str]:
    with pytest.raises(TaskFileError) as refused:
        read(text)
    return str(refused.value).splitlines()


def places(error: TaskFileError) -> list[tuple[int, str, str]]:
    """Return the line, the place and the code of each problem."""
    return [(problem.line, problem.where, problem.code) for problem in error.problems]


def test_six_lines_suffice() -> None:
    task = read(SIX_LINES).task
    assert SIX_LINES.count("\n") == 6
    assert (task.name, task.input, task.price_max) == ("haiku", "corpus.txt", 250_000_000)
    assert (task.workload, task.length, task.milestones, task.devices) == ("train-int8", 1000, 10, 1)
    assert (task.classes, task.deadline) == (tuple(DeviceClass), TimeSpan(6 * 3_600_000))
    assert (task.time_value, task.loss, task.collateral, task.seed, task.options) == (None, None, 0, None, {})


@pytest.mark.parametrize("amount", ["2.5", "'2.5'", "250000000 grains"])
def test_an_amount_needs_no_unit(amount: str) -> None:
    assert read(SIX_LINES.replace("2.5 oGPU", amount)).task == read(SIX_LINES).task


def test_every_key_has_its_effect() -> None:
    task = read(ALL_KEYS).task
    assert task.labels == {"team": "vision", "owner/mail": "a.b"}
    assert task.options == {"width": "8", "hidden": "16"}
    assert task.seed == SEED
    assert task.classes == (DeviceClass.CONSUMER, DeviceClass.DATACENTER)
    assert (task.milestones, task.devices) == (4, 2)
    assert (task.loss, task.collateral, task.deadline) == (500_000_000, 100_000_000_000, TimeSpan(5_400_000))


@pytest.mark.parametrize(
    ("was", "becomes", "line", "where", "code", "said"),
    [
        ("maxPrice", "maxprice", 6, "spec.market", "unknown_key", "did you mean maxPrice?"),
        ("maxPrice: 2.5 oGPU", "", 6, "spec.market", "missing_key", "maxPrice"),
        ("2.5 oGPU", "2.5 USD", 6, "spec.market.maxPrice", "invalid_amount", "`2.5 oGPU`"),
        ("2.5 oGPU", "999 grains", 6, "spec.market.maxPrice", "price_too_low", "1,000"),
        ("2.5 oGPU", "[2.5 oGPU]", 6, "spec.market.maxPrice", "not_single", ""),
        ("2.5 oGPU", f"{'1' * 301} oGPU", 6, "spec.market.maxPrice", "too_long", "300"),
        ("2.5 oGPU", "~", 6, "spec.market.maxPrice", "no_value", ""),
        ("TrainingTask", "Training", 2, "kind", "unknown_name", "did you mean TrainingTask?"),
        ("ogpu/v1", "ogpu/v2", 1, "apiVersion", "unknown_name", "did you mean ogpu/v1?"),
        ("haiku", "Haiku!", 3, "metadata.name", "wrong_letters", "'Haiku!'"),
        ("{name: haiku}", "haiku", 3, "metadata", "keys_expected", "name, labels"),
        ("input: corpus.txt", "input: a, workload: train-int9", 5, "spec.run.workload", "unknown_name", "train-int8?"),
        ("input: corpus.txt", "input: a, workload: matmul-hash", 5, "spec.run.workload", "unknown_name", "train-int8"),
        ("input: corpus.txt", "input: a, length: 0", 5, "spec.run.length", "out_of_range", "1 to 4,294,967,295"),
        ("input: corpus.txt", "input: a, length: '7'", 5, "spec.run.length", "in_quotes", "7"),
        ("input: corpus.txt", "input: a, length: 1e3", 5, "spec.run.length", "not_whole", "1e3"),
        ("input: corpus.txt", "input: a, options: {widht: 8}", 5, "spec.run.options", "invalid_request", "context"),
        ("input: corpus.txt", "input: a, options: [width]", 5, "spec.run.options", "names_expected", ""),
        ("input: corpus.txt", "input: a, seed: 0x12", 5, "spec.run.seed", "invalid_seed", "64"),
        ("input: corpus.txt", f"input: {'a' * 256}", 5, "spec.run.input", "invalid_path", "255"),
        (
            "input: corpus.txt", f"input: a, options: {{{', '.join(f'o{n}: 1' for n in range(33))}}}",
            5, "spec.run.options", "too_many_names", "32",
        ),
        ("spec:\n", "spec:\n  resources: {classes: [gpu]}\n", 5, "spec.resources.classes", "unknown_name", "'gpu'"),
        ("spec:\n", "spec:\n  resources: {classes: [cpu, cpu]}\n", 5, "spec.resources.classes", "repeated_value", ""),
        ("spec:\n", "spec:\n  resources: {classes: []}\n", 5, "spec.resources.classes", "list_expected", "1 to 3"),
        ("spec:\n", "spec:\n  resources: {classes: cpu}\n", 5, "spec.resources.classes", "list_expected", "1 to 3"),
        ("input: corpus.txt", "input: /etc/passwd", 5, "spec.run.input", "path_outside", ""),
        ("input: corpus.txt", "input: a/../../b", 5, "spec.run.input", "path_outside", ""),
        ("spec:\n", "spec:\n  resources: {devices: 33}\n", 5, "spec.resources.devices", "out_of_range", "1 to 32"),
        ("spec:\n", "spec:\n  limits: {deadline: 11d}\n", 5, "spec.limits.deadline", "time_too_long", "10 days"),
        ("spec:\n", "spec:\n  limits: {deadline: 864001 blocks}\n", 5, "spec.limits.deadline", "time_too_long", "864"),
        ("metadata", "metadata:\nmeta", 4, "", "unknown_key", "did you mean metadata?"),
    ],
)  # fmt: skip
def test_a_problem_has_its_line_place_reason_and_remedy(
    was: str, becomes: str, line: int, where: str, code: str, said: str
) -> None:
    assert was in SIX_LINES
    with pytest.raises(TaskFileError) as refused:
        read(SIX_LINES.replace(was, becomes, 1))
    found = [problem for problem in refused.value.problems if problem.code == code]
    assert [(problem.line, problem.where) for problem in found] == [(line, where)]
    assert said in found[0].text
    assert f"task.yaml:{line}: {where}" in str(refused.value)


@pytest.mark.parametrize(
    "hostile",
    [
        SIX_LINES + "  limits: {deadline: " + "1h" * 15_000 + "}\n",
        SIX_LINES.replace("2.5 oGPU", "1" * 30_000),
        SIX_LINES.replace("{name: haiku}", "{name: haiku, labels: {" + "a-" * 15_000 + ": b}}"),
        "".join(f"maxPric{number}: v\n" for number in range(990)),
    ],
)
def test_hostile_values_take_little_memory(hostile: str) -> None:
    assert len(hostile) <= FILE_BYTES_MAX
    tracemalloc.start()
    try:
        said = problems(hostile)
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert used < 2_000_000
    assert max(map(len, said)) < 300


def test_everything_is_said_at_once_in_the_order_of_the_lines() -> None:
    said = problems("apiVersion: x\nkind: y\nfoo: 1\nspec: {run: {input: a, lenght: 3}, market: {maxPrice: x}}\n")
    assert [int(line.split(":")[1]) for line in said] == [1, 1, 2, 3, 4, 4]
    many = problems("\n".join(f"k{number}: 1" for number in range(100)))
    assert len(many) == PROBLEMS_SHOWN_MAX + 1
    assert re.fullmatch("task.yaml: and [0-9]+ more", many[-1])


# --------------------------------------------------------------------------------------------------- canonical bytes


def test_the_canonical_task_and_its_hash() -> None:
    """Vectors: a change of these bytes changes the ids of tasks on every chain."""
    prepared = prepare(read(ALL_KEYS), TEXT, bytes(32))
    assert prepared.encoded.hex() == GOLDEN_BYTES
    assert prepared.task_hash.hex() == GOLDEN_HASH
    assert CANONICAL.decode(prepared.encoded) == prepared.canonical
    assert prepare(read(SIX_LINES), TEXT, SEED).task_hash.hex() == GOLDEN_HASH_OF_SIX_LINES


def test_what_is_computed_changes_the_hash_and_what_it_is_called_or_costs_does_not() -> None:
    def hash_of(text: str) -> bytes:
        return prepare(read(text), TEXT, bytes(32)).task_hash

    whole = hash_of(ALL_KEYS)
    for was, becomes in (
        ("run-7", "run-8"), ("vision", "sound"), ("25 oGPU", "26 oGPU"), ("90m", "91m"), ("0.5 oGPU/h", "1 oGPU/h"),
        ("1000 oGPU", "2 oGPU"), ("data/corpus.txt", "elsewhere"),
    ):  # fmt: skip
        assert hash_of(ALL_KEYS.replace(was, becomes)) == whole, was
    hashes = {whole}
    for was, becomes in (
        ("length: 200", "length: 201"), ("width: 8", "width: 9"), ("milestones: 4", "milestones: 5"),
        ("devices: 2", "devices: 3"), ("[datacenter, consumer]", "[cpu]"),
        ("0x00", "0x01"),
    ):  # fmt: skip
        hashes.add(hash_of(ALL_KEYS.replace(was, becomes)))
    assert len(hashes) == 7
    assert hash_of(ALL_KEYS.replace("[datacenter, consumer]", "[consumer, datacenter]")) == whole


def test_chance_is_given_unless_the_file_names_it() -> None:
    assert prepare(read(ALL_KEYS), TEXT, SEED) == prepare(read(ALL_KEYS), TEXT, bytes(32))
    assert prepare(read(SIX_LINES), TEXT, SEED).task_hash != prepare(read(SIX_LINES), TEXT, bytes(32)).task_hash


@pytest.mark.parametrize(
    ("given", "where", "code", "value"),
    [
        (b"short", "spec.run", "invalid_request", "1024"),
        (b"\xff" * 2_000, "spec.run.input", "not_utf8", "byte 0"),
        (b"a" * (INPUT_BYTES_MAX + 1), "spec.run.input", "input_too_large", "1,048,576"),
    ],
)
def test_inputs_that_are_none(given: bytes, where: str, code: str, value: str) -> None:
    with pytest.raises(TaskFileError, match=value) as refused:
        prepare(read(SIX_LINES), given, SEED)
    assert places(refused.value) == [(5, where, code)]


def test_terms_are_integers_for_the_chain_s_slots() -> None:
    rules = replace(DEFAULT_RULES, check_rate_ppm=100_000)
    assert terms_of(read(ALL_KEYS), 40, rules, SLOT_MS) == TaskTerms(
        price_max=2_500_000_000,
        time_value=27_777,
        loss=500_000_000,
        blocks_max=2_700,
        collateral_min=100_000_000_000,
        slots=2,
    )
    plain = terms_of(read(SIX_LINES), 40, rules, SLOT_MS)
    assert (plain.blocks_max, plain.loss) == (10_800, 250_000_000 // 4)
    assert plain.time_value == 250_000_000 // (4 * 10_800)
    assert plain.collateral_min == 259 * 250_000_000 // 100, "four of 40 segments are always checked"
    assert terms_of(read(SIX_LINES), 39, rules, SLOT_MS).collateral_min == 9_300_000_000, "it is not always checked"


def test_milestones_stand_at_the_ends_of_segments() -> None:
    """A segment of `train-int8` has 20 steps unless the file sets another number."""
    short = SIX_LINES.replace("{input: corpus.txt}", "{input: corpus.txt, length: 100}")
    prepared = prepare(read(short), TEXT, SEED)
    assert (prepared.segments, prepared.canonical.milestones) == (5, 5)
    assert prepare(read(SIX_LINES), TEXT, SEED).canonical.milestones == 10
    named = short.replace("length: 100", "length: 100, milestones: 5")
    assert prepare(read(named), TEXT, SEED).canonical.milestones == 5
    with pytest.raises(TaskFileError, match="only 5 segments") as refused:
        prepare(read(named.replace("milestones: 5", "milestones: 6")), TEXT, SEED)
    assert places(refused.value) == [(5, "spec.run.milestones", "too_many_milestones")]
    finer = named.replace("milestones: 5", "milestones: 6, options: {segment: 10}")
    assert prepare(read(finer), TEXT, SEED).segments == 10


def test_no_block_is_worth_more_than_the_task() -> None:
    dear = ALL_KEYS.replace("0.5 oGPU/h", "12.5 oGPU/s")
    assert terms_of(read(dear), 40, DEFAULT_RULES, SLOT_MS).time_value == 25 * 10**8
    with pytest.raises(TaskFileError) as refused:
        terms_of(read(dear.replace("12.5", "12.50000001")), 40, DEFAULT_RULES, SLOT_MS)
    assert places(refused.value) == [(17, "spec.market.valueOfTime", "time_too_dear")]


def test_a_deadline_shorter_than_a_block_is_none() -> None:
    with pytest.raises(TaskFileError) as refused:
        terms_of(read(ALL_KEYS.replace("90m", "1s")), 40, DEFAULT_RULES, SLOT_MS)
    assert places(refused.value) == [(20, "spec.limits.deadline", "time_too_short")]


def test_a_canonical_task_is_canonical() -> None:
    task = CanonicalTask(bytes(32), bytes(32), bytes(32), 1, 1, 1, 1, (DeviceClass.CPU,))
    assert CANONICAL.decode(CANONICAL.encode(task)) == task


GOLDEN_BYTES = (
    "a53fbf92703db12f974a258baf3d26d8d62bcee4f12b26d360eb6196eaa498dd00000000000000000000000000000000"
    "000000000000000000000000000000001e48afdb582b708462882e08fadee62a0eb7fea657f04de59fbd4a1d0cb5df3f"
    "b5050000c80000000402080102"
)
GOLDEN_HASH = "128319d2a12da3be9f7e4714bd931b96a38fcad41277048cc3be10c0d35f320a"
GOLDEN_HASH_OF_SIX_LINES = "55f496891912ed0b3b88914ae2a3f4f9f86d05fe7d18d1c4d2706a45104f11b0"
