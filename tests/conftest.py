"""Hypothesis profiles: `ci` with fixed examples, and `nightly`, `properties` and `soak` with fresh ones.

No test uses the keys of the user who runs it, or the chain in the user's settings.
"""

import asyncio
import gc
import inspect
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import rewrite
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from wallet.keyfile import ScryptCost
from wallet.keyring import Keyring

# Deadlines measure the machine, and no test here asserts on wall-clock time.
settings.register_profile(
    "ci",
    max_examples=50,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # it measures the machine
)
settings.register_profile(
    "nightly",
    max_examples=200,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # as above
)
settings.register_profile(
    "properties",
    max_examples=10_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],  # both measure the first examples alone
)
settings.register_profile("soak", max_examples=20_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


COROUTINE_SECONDS = 300
"""The time limit of a test. A test that waits for ever fails with its waiting line."""


@cache
def together_with(file: Path) -> str:
    """Return the group of tests with which the tests of a file must run. Empty: each runs in any process.

    Networks of real nodes run one after another, because two at once slow each other down. A fixture of a module is
    made once, and not in each process.
    """
    text = file.read_text(encoding="utf-8")
    if "pytest.mark.e2e" in text:
        return "networks"
    return file.name if 'scope="module"' in text else ""


class Dealer(LoadScopeScheduling):  # type: ignore[misc]  # it publishes no types
    """Deals tests to processes by `together_with`. The marks of xdist 3.8 for it have no effect under pytest 9.2."""

    def _split_scope(self, nodeid: str) -> str:
        return together_with(self.config.rootpath / nodeid.partition("::")[0]) or nodeid

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget a completed unit of work. After each test xdist walks through all units that a process ever had."""
        del duration
        nodeid = self.registered_collections[node][item_index]
        assigned, scope = self.assigned_work[node], self._split_scope(nodeid)
        assigned[scope][nodeid] = True
        if all(assigned[scope].values()):
            del assigned[scope]
        self._reschedule(node)


def pytest_configure(config: pytest.Config) -> None:
    """Rewrite the assertions of this process's share of the tests, once for all processes of xdist.

    In a fresh clone each process would rewrite every file at the same time as the others, which takes 20 s of each.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode:
        return
    named = [config.rootpath / argument.partition("::")[0] for argument in config.args]
    files = {file for path in named for file in ([path] if path.is_file() else path.rglob("test_*.py"))}
    first, step = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for file in sorted(files)[first::step]:
        _write_rewritten(config, file)


def _write_rewritten(config: pytest.Config, file: Path) -> None:
    """Do as pytest's import hook does, but do not run the file."""
    state = config.stash[rewrite.assertstate_key]
    folder = rewrite.get_cache_dir(file)
    compiled = folder / (file.stem + rewrite.PYC_TAIL)
    if rewrite.try_makedirs(folder) and rewrite._read_pyc(file, compiled, state.trace) is None:
        source_hash, code = rewrite._rewrite_test(file, config)
        rewrite._write_pyc(state, code, source_hash, compiled)


def _synced(fd: Any) -> None:
    """Replace `os.fsync`, since tests' files need not survive the machine. Raise OSError if `fd` is closed."""
    os.fstat(fd if isinstance(fd, int) else fd.fileno())


os.fsync = _synced


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test in an event loop of its own. Tests marked for trio are not coroutines by now."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), COROUTINE_SECONDS))
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Dealer | None:
    return Dealer(config, log) if config.getvalue("dist") == "load" else None


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection, which would otherwise walk through all 15,000 each time.

    In a process that also runs a node, that time would count as work of the current caller.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def keyring_of_its_own(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point a command line's keys and notes at a temporary folder, never at the user's home."""
    home = tmp_path_factory.getbasetemp() / "homes" / os.urandom(8).hex()
    folder = home / "keyring"
    monkeypatch.setenv("OGPU_KEYRING", str(folder))
    monkeypatch.setenv("OGPU_POSTINGS", str(home / "postings"))
    monkeypatch.setenv("OGPU_PROVIDER_BASE", str(home / "provider"))
    return folder


@pytest.fixture(autouse=True)
def keys_sealed_with_the_least_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the cheapest key derivation: by default a new key costs half a second."""
    defaults = Keyring.add.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "cost", ScryptCost(1 << 15, 1, 8))


@pytest.fixture(autouse=True)
def tables_of_any_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes of xdist say that they have 80 columns."""
    monkeypatch.delenv("COLUMNS", raising=False)
