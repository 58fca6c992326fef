"""Files of other programs, given to a command that reads task files."""

import pytest

from gpu_tasks.tasks.problems import TaskFileError
from gpu_tasks.tasks.task_kinds import OtherFile, other_file, read_any_task

JOB = """apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec:
  template: {spec: {containers: [{name: a, image: b, resources: {limits: {"nvidia.com/gpu": 1}}}]}}
---
apiVersion: v1
kind: Service
"""


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (JOB, OtherFile.KUBERNETES),
        ("kind: Pod\napiVersion: 'v1'\n", OtherFile.KUBERNETES),
        ("services:\n  web: {image: a}\n", OtherFile.COMPOSE),
        ("version: '2.0'\nservices: {}\nprofiles: {}\ndeployment: {}\n", OtherFile.SDL),
        ("services: {}\ndeployment: {}\n", OtherFile.SDL),
        ("services: {}\nprofiles: {}\n", OtherFile.SDL),
        ("#!/bin/bash\n#SBATCH --time=1\n", OtherFile.SCRIPT),
    ],
)
def test_another_programs_file_is_named(text: str, kind: OtherFile) -> None:
    assert other_file(text.encode()) is kind
    with pytest.raises(TaskFileError) as refused:
        read_any_task(text.encode(), "x.yaml")
    assert [(problem.line, problem.code) for problem in refused.value.problems] == [(1, kind.name.lower())]


@pytest.mark.parametrize(
    "text",
    ["apiVersion: ogpu/v1\nkind: Job\n", 'apiVersion: "ogpu/v9"\nkind: Job\n', "", "a: 1", "# services: a"],
)
def test_a_task_file_is_none_of_them(text: str) -> None:
    assert other_file(text.encode()) is None
