"""Whatever a file of others holds: a task file, or one of the errors that are declared, and no other."""

import json
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from converted import IMAGE, Converted, compose, read_back, sbatch, sdl
from gpu_tasks.client.tasks.foreign import SAID_MAX, ForeignFileError
from gpu_tasks.client.tasks.sbatch import FLAGS, UNNEEDED
from gpu_tasks.tasks.problems import TaskFileError

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
