"""Files of jobs and leases: every default, the refusals with reasons, and the resulting orders."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.client.tasks.orders import load_any
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.orders import INTERVALS_MAX, CheckedBy, interval_of, is_by_time
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.tasks.container_order import PreparedContainer, container_hash, intervals_of, prepare_container
from gpu_tasks.tasks.container_request import (
    CONTAINER_WORKLOAD,
    INPUT_BYTES_MAX,
    INPUT_FILES_MAX,
    REQUEST,
    SECRETS_MAX,
    WORD_BYTES_MAX,
    WORDS_MAX,
    ArchivedImage,
    ContainerNetwork,
    ImagePart,
    RegistryImage,
)
from gpu_tasks.tasks.container_task import ContainerFile, SavedImage
from gpu_tasks.tasks.order import StoredInput
from gpu_tasks.tasks.problems import TaskFileError
from gpu_tasks.tasks.quantities import TimeSpan
from gpu_tasks.tasks.task_kinds import ContainerSource, read_any_task
from gpu_tasks.tasks.yaml_tree import FILE_BYTES_MAX
from simulation.chains.market_chain import OGPU
from task_chain import TaskChain, an_offer, an_order, time_order

FOLDER = Path(__file__).parents[3] / "examples" / "containers"
EXAMPLES = sorted(FOLDER.glob("*.yaml"))
SLOT_MS = 1_000
DIGEST = "ab" * 32
LEAST = f"""apiVersion: ogpu/v1
kind: Job
metadata: {{name: least}}
spec:
  run: {{image: ghcr.io/acme/lora@sha256:{DIGEST}}}
  market: {{maxPrice: 2 oGPU}}
"""
LEASE = LEAST.replace("kind: Job", "kind: Lease")
STORED = StoredInput(b"r" * 32, b"b" * 32, 3)


def read(text: str) -> ContainerFile:
    source = read_any_task(text.encode(), "task.yaml")
    assert isinstance(source, ContainerSource)
    return source.file


def with_run(text: str, line: str) -> str:
    """Return the smallest file with another key of `run`."""
    return text.replace("}}\n  market", "}\n  market").replace(f"{DIGEST}}}", f"{DIGEST}, {line}}}")


def codes(error: TaskFileError) -> list[str]:
    return [problem.code for problem in error.problems]


def prepared(text: str) -> PreparedContainer:
    return prepare_container(read(text), {}, SLOT_MS)


def test_six_lines_suffice() -> None:
    task = read(LEAST).task
    assert (task.name, task.is_lease, task.image) == (
        "least", False, RegistryImage("ghcr.io/acme/lora", bytes.fromhex(DIGEST)),
    )  # fmt: skip
    assert (task.command, task.environment, task.inputs, task.secrets, task.ports) == ((), {}, (), (), ())
    assert (task.network, task.gpus, task.processes, task.cpu_thousandths) == (ContainerNetwork.NONE, 0, 128, 1_000)
    assert (task.memory_bytes, task.disk_bytes) == (512 << 20, 64 << 20)
    assert task.classes == tuple(DeviceClass)
    assert (task.price_max, task.loss, task.collateral) == (2 * OGPU, None, 0)
    assert (task.time, task.interval, task.keep) == (TimeSpan(3_600_000), None, None)
    assert read(LEASE).task == task.model_copy(update={"is_lease": True})


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_are_taken(path: Path) -> None:
    asked = load_any(path).asked(bytes(32), SLOT_MS)
    assert asked.checked_by in (CheckedBy.METERED, CheckedBy.LEASED)
    assert asked.intervals(SLOT_MS) >= 2


@pytest.mark.parametrize(
    ("run", "code", "value"),
    [
        ("nimage: x", "unknown_key", "did you mean image?"),
        ("command: []", "list_expected", "256"),
        ("command: sh", "list_expected", "256"),
        ("env: {1A: x}", "wrong_letters", "'1A'"),
        ("env: {LD_PRELOAD: x}", "loader_variable", "spec.run.env.LD_PRELOAD"),
        ("env: {nvidia_visible_devices: all}", "loader_variable", "spec.run.env.nvidia_visible"),
        ("inputs: [/etc/passwd]", "path_outside", ""),
        ("inputs: [a/../../b]", "path_outside", ""),
        ("inputs: [a/x, b/x]", "same_name", "x in /in"),
        ("inputs: [a, a]", "repeated_value", ""),
        ("inputs: [a b.csv]", "wrong_letters", "'a b.csv'"),
        ("inputs: [.hidden]", "wrong_letters", "'.hidden'"),
        ("secrets: [A-B]", "wrong_letters", "'A-B'"),
        ("network: all", "unknown_name", "'all'"),
        ("ports: [80]", "unknown_key", "'ports'"),
    ],
)
def test_what_runs_is_read_strictly(run: str, code: str, value: str) -> None:
    with pytest.raises(TaskFileError, match=r"spec\.run") as caught:
        read(with_run(LEAST, run))
    assert codes(caught.value) == [code]
    assert value in str(caught.value)


def test_a_variable_has_a_longer_value_than_other_keys() -> None:
    longest = "x" * 4_096
    assert len(longest) == WORD_BYTES_MAX, "as much as a request holds"
    assert read(with_run(LEAST, f"env: {{A: {longest}}}")).task.environment == {"A": longest}
    with pytest.raises(TaskFileError, match=r"4,096 letters.*spec\.run\.inputs"):
        read(with_run(LEAST, f"env: {{A: {longest}x}}"))
    with pytest.raises(TaskFileError):
        read(with_run(LEAST, f"secrets: [{'A' * 301}]"))


@pytest.mark.parametrize(
    ("section", "code", "value"),
    [
        ("resources: {replicas: 2}", "several_replicas", "spec.resources.replicas"),
        ("resources: {cpu: 0.001}", "out_of_range", "0.01 to 512"),
        ("resources: {cpu: 513}", "out_of_range", "0.01 to 512"),
        ("resources: {memory: 512}", "invalid_size", "`512Mi`"),
        ("resources: {memory: 1Ki}", "out_of_range", "1Mi to 4096Gi"),
        ("resources: {disk: 5Ti}", "out_of_range", "1Mi to 4096Gi"),
        ("resources: {gpus: 2}", "several_gpus", "spec.resources.gpus"),
        ("resources: {gpus: 1, classes: [cpu]}", "no_gpu_class", "spec.resources.classes"),
        ("resources: {processes: 15}", "out_of_range", "16 to 65,536"),
        ("resources: {classes: [cpu, gpu]}", "unknown_name", "'gpu'"),
        ("limits: {keep: 1h}", "unknown_key", "'keep'"),
        ("limits: {deadline: 1h}", "unknown_key", "'deadline'"),
        ("limits: {time: 11d}", "time_too_long", "10 days"),
    ],
)
def test_limits_are_read_strictly(section: str, code: str, value: str) -> None:
    with pytest.raises(TaskFileError) as caught:
        read(LEAST + f"  {section}\n")
    assert codes(caught.value) == [code]
    assert value in str(caught.value)


@pytest.mark.parametrize(
    ("key", "most", "item"),
    [("command", WORDS_MAX, "x{}"), ("secrets", SECRETS_MAX, "S{}"), ("inputs", INPUT_FILES_MAX, "data/{}")],
)
def test_a_list_has_as_many_items_as_its_limit_and_no_more(key: str, most: int, item: str) -> None:
    items = [item.format(number) for number in range(most + 1)]
    task = read(with_run(LEAST, f"{key}: [{', '.join(items[:most])}]")).task
    assert len(getattr(task, key)) == most
    with pytest.raises(TaskFileError) as caught:
        read(with_run(LEAST, f"{key}: [{', '.join(items)}]"))
    assert [problem.where for problem in caught.value.problems] == [f"spec.run.{key}"]


@pytest.mark.parametrize("classes", ["", ", classes: [cpu, consumer, datacenter]"])
def test_who_wants_a_gpu_asks_devices_that_have_one(classes: str) -> None:
    asked = prepared(LEAST + f"  resources: {{gpus: 1{classes}}}\n")
    assert asked.classes == (DeviceClass.CONSUMER, DeviceClass.DATACENTER)
    assert prepared(LEAST).classes == tuple(DeviceClass)


@pytest.mark.parametrize(
    "image", ["ghcr.io/acme/lora:latest", "ghcr.io/acme/lora", f"Acme@sha256:{DIGEST}", f"a@sha256:{DIGEST[1:]}"]
)
def test_an_image_is_named_by_its_digest_alone(image: str) -> None:
    with pytest.raises(TaskFileError) as caught:
        read(LEAST.replace(f"ghcr.io/acme/lora@sha256:{DIGEST}", image))
    assert codes(caught.value) == ["no_digest"]


def test_an_image_may_be_an_archive_beside_the_file() -> None:
    text = with_run(LEAST.replace("ghcr.io/acme/lora@", ""), "archive: images/tool.tar")
    assert read(text).task.image == SavedImage("images/tool.tar", bytes.fromhex(DIGEST))
    made = prepared(text)
    parts = [ImagePart(b"b" * 32, b"r" * 32)]
    stored = REQUEST.decode(made.with_parts(9_000, parts).request)
    assert stored.image == ArchivedImage(bytes.fromhex(DIGEST), 9_000, tuple(parts))
    assert replace(stored, image=REQUEST.decode(made.request).image) == REQUEST.decode(made.request)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (LEAST.replace("ghcr.io/acme/lora@", ""), "no_archive"),
        (with_run(LEAST, "archive: tool.tar"), "two_images"),
        (with_run(LEAST, "archive: ../tool.tar"), "path_outside"),
    ],
)
def test_an_archive_and_its_id_are_named_together(text: str, code: str) -> None:
    with pytest.raises(TaskFileError) as caught:
        read(text)
    assert codes(caught.value) == [code]


def test_a_program_may_be_given_a_word_twice() -> None:
    assert read(with_run(LEAST, "command: [echo, a, a]")).task.command == ("echo", "a", "a")


def test_a_kind_that_there_is_not_is_answered_with_those_that_are() -> None:
    with pytest.raises(TaskFileError, match="Lease") as caught:
        read_any_task(LEAST.replace("kind: Job", "kind: Leese").encode(), "task.yaml")
    assert codes(caught.value) == ["unknown_name"]
    assert "task.yaml:2: kind" in str(caught.value)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ("{}", (3_600, 60)),
        ("{time: 90s, interval: 1m}", (120, 2)),
        ("{time: 30s, interval: 1m}", (30, 1)),
        ("{time: 1 block, interval: 1 block}", (1, 1)),
        ("{time: 255 blocks, interval: 1 block}", (255, 255)),
        ("{time: 21h, interval: 5m}", (75_600, 252)),
        ("{time: 1h}", (3_600, 60)),
        ("{time: 5h}", (18_034, 254)),
        ("{time: 21h 15m}", (76_500, 255)),
        ("{time: 12 blocks}", (12, 1)),
        ("{time: 1s, interval: 1ms}", None),
    ],
)
def test_time_is_bought_in_whole_intervals(limits: str, expected: tuple[int, int] | None) -> None:
    text = LEAST + f"  limits: {limits}\n"
    if expected is None:
        with pytest.raises(TaskFileError):
            read(text)
    else:
        assert intervals_of(read(text), SLOT_MS) == expected


@pytest.mark.parametrize(
    ("limits", "place", "code"),
    [
        ("{time: 256 blocks, interval: 1 block}", "time", "too_many_intervals"),
        ("{interval: 301s}", "interval", "interval_too_long"),
        ("{time: 21h 16m}", "time", "time_too_long"),
    ],
)
def test_more_intervals_or_longer_ones_are_refused(limits: str, place: str, code: str) -> None:
    with pytest.raises(TaskFileError) as caught:
        intervals_of(read(LEAST + f"  limits: {limits}\n"), SLOT_MS)
    assert [(problem.where, problem.code) for problem in caught.value.problems] == [(f"spec.limits.{place}", code)]


@given(st.integers(1, 700_000), st.integers(1, 300))
def test_no_less_time_is_bought_than_was_asked_for_and_less_than_an_interval_more(time: int, interval: int) -> None:
    file = read(LEAST + f"  limits: {{time: {time}s, interval: {interval}s}}\n")
    try:
        blocks, count = intervals_of(file, SLOT_MS)
    except TaskFileError:
        assert time > INTERVALS_MAX * interval
        return
    assert time <= blocks < time + interval
    assert blocks % count == 0
    assert count <= INTERVALS_MAX


def test_an_order_buys_time_and_asks_for_nothing_to_check() -> None:
    chain = TaskChain()
    ready = prepared(LEAST + "  limits: {time: 12 blocks, interval: 3 blocks}\n")
    order = ready.order(STORED, chain.market.rules(an_order(**time_order())), SLOT_MS)
    assert is_by_time(order)
    assert (order.checked_by, order.workload) == (CheckedBy.METERED, CONTAINER_WORKLOAD)
    assert (order.blocks_max, order.milestones, interval_of(order)) == (12, 4, 3)
    assert (order.segments, order.run_blocks, order.time_value, order.slots) == (0, 0, 0, 1)
    assert order.task_hash == container_hash(ready.request, 4, tuple(DeviceClass))
    leased = prepared(LEASE).order(STORED, chain.market.rules(order), SLOT_MS)
    assert leased.checked_by is CheckedBy.LEASED


def test_a_chain_takes_the_order_and_its_terms_are_those_that_were_shown() -> None:
    chain = TaskChain()
    ready = prepared(LEAST + "  limits: {time: 12 blocks, interval: 3 blocks}\n")
    rules = chain.market.rules(an_order(**time_order()))
    order = ready.order(replace(STORED, sealed_at=0), rules, SLOT_MS)
    fields = {name: getattr(order, name) for name in ("price_max", "blocks_max", "milestones", "checked_by", "loss")}
    chain.submit(**{**time_order(), **fields, "task_hash": order.task_hash})
    assert chain.now().terms == ready.terms(rules, SLOT_MS)
    chain.auction({chain.alice: an_offer(OGPU, 12)})
    assert chain.state() is TaskState.STARTING


def test_the_hash_names_the_request_its_intervals_and_its_classes() -> None:
    classes = tuple(DeviceClass)
    names = {
        container_hash(b"request", 4, classes),
        container_hash(b"another", 4, classes),
        container_hash(b"request", 5, classes),
        container_hash(b"request", 4, classes[1:]),
    }
    assert len(names) == 4


def test_a_request_holds_what_the_file_says_and_no_secret() -> None:
    text = with_run(
        LEASE, "command: [serve], env: {B: b, A: a}, secrets: [TOKEN, KEY], ports: [80, 22], network: outbound"
    )
    source = read_any_task((text + "  limits: {keep: 60s}\n").encode(), "task.yaml")
    asked = source.prepared({}, bytes(32), SLOT_MS)
    request = REQUEST.decode(asked.request)
    assert [(each.name, each.value) for each in request.environment] == [("A", "a"), ("B", "b")]
    assert (request.command, request.secrets, request.ports) == (("serve",), ("KEY", "TOKEN"), (22, 80))
    assert (request.network, request.is_lease, request.keep_blocks) == (ContainerNetwork.OUTBOUND, True, 60)
    assert request.limits.memory_bytes == 512 << 20


def test_copies_have_no_secrets_which_are_one_winner_s() -> None:
    copies = "  verify: {copies: 3}\n"
    assert read(LEAST + copies).task.copies == 3
    with pytest.raises(TaskFileError, match=r"spec\.run\.secrets") as caught:
        read(with_run(LEAST, "secrets: [TOKEN]") + copies)
    assert codes(caught.value) == ["not_for_copies"]


def test_inputs_are_named_by_their_last_part_and_bounded(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.csv").write_bytes(b"1,2\n")
    path = tmp_path / "job.yaml"
    path.write_text(with_run(LEAST, "inputs: [data/x.csv]"))
    request = REQUEST.decode(load_any(path).asked(bytes(32), SLOT_MS).request)
    assert [(each.name, each.content) for each in request.inputs] == [("x.csv", b"1,2\n")]
    (tmp_path / "data" / "x.csv").write_bytes(bytes(INPUT_BYTES_MAX + 1))
    with pytest.raises(TaskFileError, match="196,608") as caught:
        load_any(path).asked(bytes(32), SLOT_MS)
    assert codes(caught.value) == ["inputs_too_large"]


@given(st.binary(max_size=300))
def test_any_bytes_are_a_task_or_a_list_of_problems(data: bytes) -> None:
    assert len(data) < FILE_BYTES_MAX
    with pytest.raises(TaskFileError, match=r"^task\.yaml"):  # no chance hits on a whole task
        read_any_task(data, "task.yaml")
