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
    """Where a command line keeps keys and notes that is told nothing else: never in the home of who runs the tests."""
    home = tmp_path_factory.getbasetemp() / "homes" / os.urandom(8).hex()
    folder = home / "keyring"
    monkeypatch.setenv("OGPU_KEYRING", str(folder))
    monkeypatch.setenv("OGPU_POSTINGS", str(home / "postings"))
    monkeypatch.setenv("OGPU_PROVIDER_BASE", str(home / "provider"))
    return folder
