"""Hypothesis profiles: `dev` while writing, `ci` for every change (the same examples each time), `soak` for nights.

No test touches the keys of whoever runs it, nor the chain that they keep to.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Deadlines measure the machine, and no test here asserts on wall-clock time.
settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile(
    "ci",
    max_examples=200,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # it measures the machine
)
settings.register_profile("soak", max_examples=20_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.fixture(autouse=True)
def keyring_of_its_own(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a command line looks for keys that is told nothing else."""
    folder = tmp_path_factory.getbasetemp() / "keyrings" / os.urandom(8).hex()
    monkeypatch.setenv("OGPU_KEYRING", str(folder))
    return folder
