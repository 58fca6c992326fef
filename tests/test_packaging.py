"""The distribution: package names without clashes, locks with a hash for everything, a light wallet."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Collection
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
LOCKS = sorted((ROOT / "locks").glob("*.lock"))
NOT_IN_THE_WALLET = ("aiohttp", "libp2p", "msgpack", "numpy", "plyvel", "trio")
REQUIREMENT = re.compile(r"^([a-z0-9._-]+)==", re.MULTILINE)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("package", PACKAGES)
def test_no_other_distribution_installs_our_package_names(package: str) -> None:
    """Two distributions with one top-level name overwrite each other without a warning."""
    assert set(packages_distributions().get(package, [])) <= {"ogpu"}


@pytest.mark.parametrize("package", PACKAGES)
def test_package_is_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


def test_every_top_level_package_is_in_the_wheel() -> None:
    found = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks", "scripts", "simulation"}
    assert found == set(PACKAGES)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_lock_pins_every_requirement_with_a_hash_and_names_no_host(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    blocks = re.split(r"\n(?=[a-z0-9])", text.strip())
    assert blocks
    assert [block.splitlines()[0] for block in blocks if "==" not in block or "--hash=sha256:" not in block] == []
    assert "://" not in text
    assert "index-url" not in text


def test_locks_hold_every_declared_dependency() -> None:
    declared = [*PROJECT["project"]["dependencies"]]
    for extra in PROJECT["project"]["optional-dependencies"].values():
        declared += extra
    locked = {normal(name) for name in REQUIREMENT.findall((ROOT / "locks" / "all.lock").read_text(encoding="utf-8"))}
    assert {normal(re.split(r"[<>=!~ ;\[]", name)[0]) for name in declared} <= locked


def test_wallet_lock_agrees_with_the_full_lock_and_is_light() -> None:
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^([a-z0-9._-]+==[^ \\;]+)", (ROOT / "locks" / name).read_text(), re.MULTILINE))

    wallet = pins("wallet.lock")
    declared = {normal(re.split(r"[<>=!~ ;\[]", name)[0]) for name in PROJECT["project"]["dependencies"]}
    assert declared <= {pin.split("==")[0] for pin in wallet}
    assert wallet <= pins("all.lock")
    assert {pin.split("==")[0] for pin in wallet}.isdisjoint(NOT_IN_THE_WALLET)


@pytest.mark.parametrize(
    ("program", "absent"),
    [("cli.wallet.program", NOT_IN_THE_WALLET), ("gpu_tasks.client.cli", set(NOT_IN_THE_WALLET) - {"aiohttp"})],
)
def test_light_program_loads_without_the_heavy_libraries(program: str, absent: Collection[str]) -> None:
    # A command is imported when it is called: so each of them is.
    code = (
        f"import sys\nfor name in {sorted(absent)!r}: sys.modules[name] = None\nfrom {program} import main\n"
        "from cli.deferred import import_work\nimport_work(main)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("script", PROJECT["project"]["scripts"].items(), ids=lambda script: script[0])
def test_script_has_its_function(script: tuple[str, str]) -> None:
    module, _, function = script[1].partition(":")
    code = f"import {module}\nassert callable({module}.{function})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
