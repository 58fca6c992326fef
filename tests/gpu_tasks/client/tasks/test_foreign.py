"""Drafts of tasks, and others' files: nothing is read as less than it asks for, and every error is a declared one."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from converted import IMAGE, Converted, compose, read_back, sbatch, sdl
from gpu_tasks.client.tasks.drafts import ProgramDraft, plain_name, quoted
from gpu_tasks.client.tasks.foreign import (
    SAID_MAX,
    ForeignFileError,
    cores_of,
    looks_secret,
    size_for_cores,
    size_of,
    slurm_seconds,
    written_time,
)
from gpu_tasks.client.tasks.sbatch import FLAGS, UNNEEDED
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.tasks.container_order import intervals_of
from gpu_tasks.tasks.container_task import ContainerFile
from gpu_tasks.tasks.file_words import NAME
from gpu_tasks.tasks.problems import TaskFileError
from gpu_tasks.tasks.quantities import TimeSpan, cpu_of, span
from gpu_tasks.tasks.yaml_tree import Listing, Scalar, Table, parse

# What a draft writes is read as it was meant, whatever stands in it.


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


# Secrets among variables, by name and by value.


PLAIN = ("", "0", "1", "True", "false", "yes", "no", "on", "off", "None", "$OTHER", "${OTHER}")


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "DB_PASSWORD", "PGPASSWORD", "dbPassword", "OPENAI_API_KEY", "apikey", "SECRET_KEY_BASE", "RPC_PASS",
     "MYSQL_PWD", "WALLET_MNEMONIC", "sshKey", "AUTHTOKEN", "AWS_SECRET_ACCESS_KEY", "CLIENT_SECRET", "APP_SECRETS",
     "DB_PASSWD", "GPG_PASSPHRASE", "CLOUD_CREDENTIALS", "CLOUD_CREDENTIAL"],
)  # fmt: skip
def test_a_secret_is_known_by_its_name(name: str) -> None:
    assert looks_secret(name, "hunter2")
    assert not any(looks_secret(name, value) for value in PLAIN)


@pytest.mark.parametrize(
    "name",
    ["MAX_TOKENS", "TOKENIZERS_PARALLELISM", "PASSWORD_FILE", "SSH_PUBKEY", "PUBLIC_KEY", "KEYBOARD", "TOKEN_LIMIT",
     "SECRET_NAME", "PASSENGERS", "KEY_PATH", "MODEL", "TOKEN_URL", "TOKEN_URI", "KEY_FILES", "SECRETS_DIR",
     "TOKEN_HOST", "TOKEN_USER", "AWS_ACCESS_KEY_ID", "KEY_LENGTH", "KEY_SIZE", "MAX_TOKEN", "PASSWORD_MIN",
     "TOKEN_TTL", "TOKEN_COUNT", "TOKEN_EXPIRY", "KEY_TYPE"],
)  # fmt: skip
def test_others_are_none(name: str) -> None:
    assert not looks_secret(name, "hunter2")


@pytest.mark.parametrize(
    ("value", "is_secret"),
    [
        ("postgres://me:hunter2@db:5432/x", True),
        ("redis://:hunter2@db", True),
        ("http://me:@host", False),
        ("postgres://db:5432/x", False),
        ("http://me@host", False),
        ("a:b@c", False),
        ("://" * 10_000, False),
    ],
)
def test_a_password_in_an_address_is_one(value: str, is_secret: bool) -> None:
    assert looks_secret("ADDRESS", value) is is_secret


# Times, sizes and cores of others: never less than was asked for.


MIB = 1 << 20
UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
DECIMAL = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5_400), ("1:30", 90), ("90:00", 5_400), ("2:00:00", 7_200), ("1-12", 129_600), ("1-12:30", 131_400),
        ("1-12:30:15", 131_415), ("0:05", 5), ("0-1", 3_600), ("0", 0), ("UNLIMITED", 0), ("infinite", 0),
    ],
)  # fmt: skip
def test_times_of_slurm(text: str, seconds: int) -> None:
    assert slurm_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "1-", "a", "1:2:3:4", "-5", "1.5", "٣", "1:2:300"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ForeignFileError):
        slurm_seconds(text)


@given(st.integers(1, 10 * 86_400))
def test_a_written_time_is_that_time(seconds: int) -> None:
    assert span(written_time(seconds)).milliseconds == seconds * 1_000


@given(st.integers(1, 10**6), st.sampled_from(sorted(UNITS)))
def test_a_size_is_never_smaller(number: int, unit: str) -> None:
    size = int(size_of(f"{number}{unit}", "x").removesuffix("Mi")) * MIB
    assert 0 <= size - number * UNITS[unit] < MIB


@given(st.integers(1, 10**6), st.sampled_from(sorted(DECIMAL)))
def test_nor_a_decimal_one(number: int, unit: str) -> None:
    size = int(size_of(f"{number}{unit}", "x", is_decimal=True).removesuffix("Mi")) * MIB
    assert 0 <= size - number * DECIMAL[unit] < MIB


def test_a_size_of_nothing_is_none() -> None:
    assert size_of("0", "x") == size_of("0.0G", "x") == ""
    assert size_of("1099511627776", "x") == "1048576Mi"
    assert size_of("512m", "x") == "512Mi"
    assert size_of("1".rjust(20, "0"), "x") == "1Mi"
    with pytest.raises(ForeignFileError):
        size_of("512m", "x", is_decimal=True)
    for text in ("", "m", "1x", "1.G", "-1", "1e3", "1" * 21, "٣m"):
        with pytest.raises(ForeignFileError):
            size_of(text, "x")


@given(st.integers(0, 999), st.text("0123456789", min_size=1, max_size=9))
def test_cores_are_never_fewer(whole: int, part: str) -> None:
    text = cores_of(f"{whole}.{part}", "x")
    exact = whole * 10**9 + int(part.ljust(9, "0"))
    number, _, after = text.partition(".")
    found = int(number or 0) * 10**9 + int(after.ljust(9, "0") or 0)
    assert 0 <= found - exact < 10**6


def test_cores() -> None:
    assert [cpu_of(cores_of(text, "x")) for text in ("2", "100m", "1.5", ".5", "0.0101")] == [
        2_000, 100, 1_500, 500, 11,
    ]  # fmt: skip
    assert cores_of("0", "x") == cores_of("0.0", "x") == ""
    assert (size_for_cores("100Mi", "0.5"), size_for_cores("3Mi", "1.5")) == ("50Mi", "5Mi")
    for text in ("", "m", "1,5", "-1", "٣", "1.5m"):
        with pytest.raises(ForeignFileError):
            cores_of(text, "x")


# Whatever a file of others holds: a task file, or one of the errors that are declared, and no other.


WORDS = (
    "services", "web", "image", "command", "environment", "ports", "deploy", "resources", "limits", "reservations",
    "devices", "capabilities", "count", "profiles", "compute", "placement", "deployment", "profile", "cpu", "units",
    "memory", "size", "storage", "gpu", "attributes", "vendor", "nvidia", "model", "expose", "port", "to", "global",
    "target", "gpus", "cpus", "mem_limit", "restart", "args", "env", "entrypoint", "version", "secrets", "source",
    "pids_limit", "persistent", "proto", "replicas", "device_ids",
)  # fmt: skip
scalars = st.one_of(
    st.sampled_from((IMAGE, "nginx:1", "1", "2.5", "512Mi", "8080:80", "A=1", "$$x", "${Y}", "all", "always", "true")),
    st.text(max_size=20),
    st.integers(-5, 10**9),
    st.none(),
    st.booleans(),
)
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=8), inner, max_size=6)
    ),
    max_leaves=25,
)
services = st.dictionaries(st.sampled_from(WORDS), trees, max_size=8).map(lambda keys: {"image": IMAGE, **keys})


def task_or_refusal(convert: Callable[[str], Converted], text: str) -> None:
    try:
        found = convert(text)
    except (ForeignFileError, TaskFileError):
        return
    assert read_back(found.foreign.draft) == found.task
    assert len(found.foreign.carrying.left_out) <= SAID_MAX
    assert all(each.what and each.why for each in found.foreign.carrying.left_out)


@given(trees)
def test_any_tree(tree: object) -> None:
    for convert in (compose, sdl):
        task_or_refusal(convert, json.dumps(tree))


@given(services, trees, trees)
def test_any_service(service: dict[str, object], resources: object, placement: object) -> None:
    task_or_refusal(compose, json.dumps({"services": {"web": service}}))
    profiles = {"compute": {"web": {"resources": resources}}, "placement": {"a": placement}}
    deployment = {"web": {"a": {"profile": "web", "count": 1}}}
    file = {"version": "2.0", "services": {"web": service}, "profiles": profiles, "deployment": deployment}
    task_or_refusal(sdl, json.dumps(file))


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for convert in (compose, sdl, sbatch):
        task_or_refusal(convert, text)


options = st.sampled_from(
    sorted({*UNNEEDED, *FLAGS, "time", "mem", "gres", "gpus", "cpus-per-task", "mem-per-cpu", "array", "export", "tmp",
            "dependency", "nodes", "job-name", "odd"})
)  # fmt: skip
values = st.sampled_from(("1", "0-3%2", "gpu:a100:2", "4G", "1:00", "A=1,B", "ALL", "'", "#", "")) | st.text(
    max_size=12
)


@given(st.lists(st.tuples(options, values, st.sampled_from("= ")), max_size=6), st.text(max_size=60))
def test_any_script(lines: list[tuple[str, str, str]], body: str) -> None:
    text = "\n".join(f"#SBATCH --{name}{between}{value}" for name, value, between in lines) + f"\n{body}"
    task_or_refusal(sbatch, text)


def test_of_a_thousand_losses_some_are_said_and_all_are_counted() -> None:
    carrying = sbatch("\n".join(f"#SBATCH --odd-{number}=1" for number in range(1_000))).foreign.carrying
    assert (len(carrying.left_out), carrying.more) == (SAID_MAX, 1_000 - SAID_MAX)
