"""What a draft writes is read as it was meant, whatever stands in it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from converted import IMAGE, read_back
from gpu_tasks.client.tasks.drafts import ProgramDraft, plain_name, quoted
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.tasks.container_order import intervals_of
from gpu_tasks.tasks.container_task import ContainerFile
from gpu_tasks.tasks.file_words import NAME
from gpu_tasks.tasks.problems import TaskFileError
from gpu_tasks.tasks.quantities import TimeSpan
from gpu_tasks.tasks.yaml_tree import Listing, Scalar, Table, parse

DRAFT = ProgramDraft("a", IMAGE, "1234 grains")
ODD = (
    "'", '"', "\\", "\n", "\t", "\r\n", "\x7f", "\x85", "\u2028", "\ufeff", "\ufffe", "é", "🚀", "null",
    "~", "- a", "a: b", "#",
    "#",
    "&a", "*a", "!a", "{", "}", "[", "]", ",", "%", "@", "`", "yes", "1e3", "0x1", " ", "", "\x1b[31m",
)  # fmt: skip
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True)


@given(st.text(max_size=60))
def test_a_quoted_text_is_itself(text: str) -> None:
    node = parse(f"k: [{quoted(text)}]\n{quoted('q' + text)}: {quoted(text)}\n".encode(), "x")
    assert isinstance(node, Table)
    (_, listed), (key, value) = node.items()
    assert isinstance(listed, Listing)
    (item,) = listed
    assert isinstance(value, Scalar)
    assert isinstance(item, Scalar)
    assert (key, value, value.line, value.is_plain) == ("q" + text, text, 2, False)
    assert (item, item.line, item.is_plain) == (text, 1, False)


@given(st.lists(texts, max_size=5), st.dictionaries(names, texts, max_size=5), st.booleans())
def test_what_is_written_means_the_same(command: list[str], env: dict[str, str], is_lease: bool) -> None:
    task = read_back(replace(DRAFT, command=tuple(command), env=env, is_lease=is_lease))
    assert (list(task.command), task.environment, task.is_lease, task.price_max) == (command, env, is_lease, 1_234)


def test_every_odd_text_is_a_text() -> None:
    task = read_back(replace(DRAFT, command=ODD, env={f"V{place}": text for place, text in enumerate(ODD)}))
    assert task.command == ODD
    assert tuple(task.environment.values()) == ODD


@pytest.mark.parametrize("text", ["\0", "\ud83d", "x" * 4_097])
def test_what_no_program_can_be_given_is_refused_in_words(text: str) -> None:
    for draft in (replace(DRAFT, command=(text,)), replace(DRAFT, env={"A": text})):
        with pytest.raises(TaskFileError):
            read_back(draft)


@pytest.mark.parametrize(
    "name", ["copies", "gpus", "processes", "network", "cpu", "memory", "disk", "time", "interval"]
)
def test_a_value_says_nothing_but_itself(name: str) -> None:
    with pytest.raises(TaskFileError, match=rf"{name}"):
        odd: dict[str, Any] = {name: "3\n  market: {maxPrice: 9 oGPU}"}
        read_back(replace(DRAFT, **odd))


def test_a_program_may_stand_in_a_word() -> None:
    text = "true && " * 500 + "é"
    assert read_back(replace(DRAFT, command=("sh", "-c", text), env={"A": text})).command[2] == text


def test_everything_that_a_draft_has_is_in_the_file() -> None:
    draft = ProgramDraft(
        "Name", IMAGE, "2 oGPU", is_lease=True, command=("a",), env={"A": "b"}, inputs=("x.txt",), secrets=("S",),
        network="outbound", ports=("80", "81"), gpus="1", classes=("consumer",), cpu="1.5", memory="2Gi", disk="3Gi",
        processes="77", time="2h", interval="2m", keep="5m",
    )  # fmt: skip
    task = read_back(draft)
    assert (task.name, task.secrets, task.ports, task.gpus, task.inputs) == ("name", ("S",), (80, 81), 1, ("x.txt",))
    assert (task.cpu_thousandths, task.memory_bytes, task.disk_bytes, task.processes) == (1_500, 2 << 30, 3 << 30, 77)
    assert (task.time, task.interval) == (TimeSpan(7_200_000), TimeSpan(120_000))
    assert task.keep is not None
    assert read_back(replace(DRAFT, copies="3")).copies == 3


@pytest.mark.parametrize("time", ["1m", "1h", "4h", "4h 1s", "21h", "21h 15m"])
def test_a_long_time_is_paid_in_long_intervals(time: str) -> None:
    task = read_back(replace(DRAFT, time=time))
    assert intervals_of(ContainerFile("x", task, Table([], 1)), 1_000)[1] <= 255


def test_copies_are_paid_in_no_intervals_however_long_they_take() -> None:
    assert read_back(replace(DRAFT, copies="3", time="21h")).copies == 3


@pytest.mark.parametrize("gpus", ["", "0"])
def test_a_job_without_a_gpu_suits_every_device(gpus: str) -> None:
    assert read_back(replace(DRAFT, gpus=gpus)).classes == tuple(DeviceClass)


@given(st.text(max_size=80))
def test_any_text_makes_a_name(text: str) -> None:
    assert NAME.read(plain_name(text))
