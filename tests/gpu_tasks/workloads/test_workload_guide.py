"""`docs/workloads/README.md`, followed exactly in a copy of the repository: the tests there pass with its workload."""

import re
from pathlib import Path

import pytest

from linked_house import LinkedHouse

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "workloads" / "README.md"
PACKAGE = "gpu_tasks/workloads/square_sum"
REGISTRY, SAMPLES = "gpu_tasks/workloads/registry.py", "tests/support/workload_samples.py"
FILE = re.compile(r"`([\w/]+\.py)`:\n\n```python\n(.*?)```", re.DOTALL)


@pytest.mark.nightly
def test_the_example_of_the_guide_is_a_workload(tmp_path: Path) -> None:
    """Its own test, and those that every workload has to pass: form, conformance, worker processes, checking."""
    house = LinkedHouse(tmp_path)
    text = GUIDE.read_text()
    files = dict(FILE.findall(text))
    assert set(files) == {
        *(f"{PACKAGE}/{name}.py" for name in ("request", "service", "form")),
        "tests/gpu_tasks/workloads/test_square_sum.py",
    }
    for path, code in files.items():
        house.write(path, code)
    house.write(f"{PACKAGE}/__init__.py", '"""Sums of squares."""\n')
    house.change(REGISTRY, "TileForm())", "TileForm(), SquareSumForm())")
    house.change(REGISTRY, "\nFORMS", "from gpu_tasks.workloads.square_sum.form import SquareSumForm\n\nFORMS")
    (sample,) = re.findall(r'^ +"square-sum": .*\n', text, re.MULTILINE)
    house.change(SAMPLES, "}\n", sample + "}\n")

    tests = "tests/gpu_tasks/workloads"
    assert "3 passed" in house.tested(f"{tests}/test_square_sum.py", f"{tests}/test_workload_trial.py", only="square")
    house.tested(f"{tests}/test_forms.py", only="square-sum or distinct or name_no_workload")
