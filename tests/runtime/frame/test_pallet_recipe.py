"""The example of CONTRIBUTING.md, a pallet with an agenda item, a hold and a parameter, works unchanged.

The recipe above it is short, and adds the example to the chain.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.weights.tables import FILES
from guide_code import guide_module
from linked_house import LinkedHouse
from runtime.frame.parameter import ParameterChange
from runtime.pallets.balances import Balances
from runtime.pallets.chain_parameters import ChainParameters
from runtime.pallets.hold_book import HeldAmount
from runtime.pallets.sudo import Sudo
from small_chain import ALICE, BOB, SmallChain, runtime_of

CONTRIBUTING = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text()
RECIPE, EXAMPLE = re.findall(r"### A pallet.*?(?=^### )", CONTRIBUTING, re.DOTALL | re.MULTILINE)
STEPS_MAX, FILES_MAX = 6, 8
OWN = ("runtime/pallets/lockers.py", "simulation/pallets/lockers.py", "benchmarks/weights/lockers_cases.py")
STEPS = 3_000
MEASURE = """
import tempfile
from pathlib import Path
from benchmarks.weights import lockers_cases, tables
from benchmarks.weights.findings import Findings
from benchmarks.weights.timer import Meter, Scale
from benchmarks.weights.world import World

with tempfile.TemporaryDirectory() as folder:
    world = World(Path(folder), accounts=4_200, senders=100)
    found = Findings(Meter(world, Scale()))
    found.quiet_hooks()
    lockers_cases.measure(world, found)
    world.close()
tables.write({name: round(cost) for name, cost in found.rows.items()}, only_missing=True)
"""
ROOM_IN_ORDER = """
import sys
sys.path.insert(0, "tests")
from test_rooms import ROOT, disorder
assert not disorder(ROOT / "runtime" / "pallets"), disorder(ROOT / "runtime" / "pallets")
"""
FIRST, SECOND = b"1" * 32, b"2" * 32
OGPU = 10**8


@pytest.fixture(scope="module")
def lockers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return guide_module("CONTRIBUTING.md", tmp_path_factory.mktemp("recipe") / "lockers.py")


@pytest.fixture(scope="module")
def runtime(lockers: Any) -> Any:
    return runtime_of(lockers.Lockers, ChainParameters)


def test_a_thing_is_kept_for_its_term_and_the_deposit_comes_back(lockers: Any, runtime: Any) -> None:
    chain = SmallChain(runtime)
    chain.author(chain.signed(BOB, lockers.Lockers.keep(thing=FIRST)))
    assert chain.bound[Balances].holds[BOB.account] == (HeldAmount(lockers.LOCKER, OGPU),)
    for _ in range(9):
        chain.author()
        assert FIRST in chain.bound[lockers.Lockers].things
    chain.author()
    assert lockers.Returned(FIRST) in chain.happened()
    assert chain.bound[Balances].holds[BOB.account] == ()


def test_a_change_of_the_parameters_meets_only_what_is_kept_later(lockers: Any, runtime: Any) -> None:
    chain = SmallChain(runtime)
    chain.author(chain.signed(BOB, lockers.Lockers.keep(thing=FIRST)))
    for parameter, value in ((lockers.Lockers.deposit, 3 * OGPU), (lockers.Lockers.term, 2)):
        change = ParameterChange(parameter, value)
        chain.author(chain.signed(ALICE, Sudo.sudo(call=ChainParameters.set_parameter(change=change))))
    chain.author(chain.signed(BOB, lockers.Lockers.keep(thing=SECOND)))
    assert chain.bound[Balances].holds[BOB.account] == (HeldAmount(lockers.LOCKER, 4 * OGPU),)
    returned = []
    while chain.head.number < 12:
        chain.author()
        events = [event for event in chain.happened() if isinstance(event, lockers.Returned)]
        returned += [(chain.head.number, event.thing) for event in events]
    assert returned == [(6, SECOND), (11, FIRST)]
    assert chain.bound[Balances].holds[BOB.account] == ()


# ------------------------------------------------------------------------------------------------ the recipe


def files_of(recipe: str) -> set[str]:
    """The files of the repository that it names."""
    return {path for path in re.findall(r"`([\w/]+\.\w+)`", recipe) if (Path(__file__).parents[3] / path).is_file()}


def test_the_recipe_is_short() -> None:
    """In steps, and in files beside the pallet's own, for a pallet of the chain or of the market."""
    assert 1 < len(re.findall(r"^\d+\. ", RECIPE, re.MULTILINE)) <= STEPS_MAX
    shared = files_of(RECIPE)
    of_the_chain = shared - {"ARCHITECTURE.md", "pyproject.toml", "gpu_tasks/market/weights.py"}
    of_the_market = shared - {"runtime/pallets/__init__.py", "runtime/pallets/weights.py"}
    assert len(of_the_chain) <= FILES_MAX
    assert len(of_the_market) <= FILES_MAX


@pytest.mark.nightly
def test_a_pallet_joins_the_chain_by_the_recipe(tmp_path: Path) -> None:
    house = LinkedHouse(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", EXAMPLE, re.DOTALL)
    assert len(blocks) == len(OWN)
    for path, code in zip(OWN, blocks, strict=True):
        house.write(path, code)
    room, chain, words = "runtime/pallets/__init__.py", "genesis/chain.py", "cli/wallet/lock_words.py"
    house.change(room, "* `im_online`", "* `lockers`: things kept for a term\n* `im_online`")
    house.change(chain, "    ImOnline,\n", "    ImOnline,\n    Lockers,\n")
    house.change(
        chain,
        "\nfrom runtime.pallets.session",
        "\nfrom runtime.pallets.lockers import Lockers\nfrom runtime.pallets.session",
    )
    (row,) = re.findall(r"`(LOCKER: LockWords.*?,)`", EXAMPLE)
    house.change(words, "\nWORDS = {\n", f"\nWORDS = {{\n    {row}\n")
    house.change(
        words,
        "\nfrom runtime.pallets.staking",
        "\nfrom runtime.pallets.lockers import LOCKER\nfrom runtime.pallets.staking",
    )
    house.copy(*FILES, "docs/parameters.md")
    house.python("-c", MEASURE)
    house.python("-m", "scripts.parameter_table", "--write")
    assert {*house.changed, "runtime/pallets/weights.py", "docs/parameters.md"} <= files_of(RECIPE)

    growing = "tests/benchmarks/weights/test_weight_tables.py"
    house.change(
        growing, "    Sudo.sudo(call=REMARK),\n", "    Sudo.sudo(call=REMARK),\n    Lockers.keep(thing=bytes(32)),\n"
    )
    house.change(
        growing,
        "\nfrom runtime.pallets.staking.eras",
        "\nfrom runtime.pallets.lockers import Lockers\nfrom runtime.pallets.staking.eras",
    )
    house.python("-c", ROOM_IN_ORDER)
    checks = (
        "cli/wallet/test_lock_words.py",
        "scripts/test_parameter_table.py",
        "simulation/test_economy_figures.py",
    )
    only = "Lockers or as_it_was_generated or no_row or lock_words or parameter_table or books"
    house.tested(growing, *(f"tests/{check}" for check in checks), only=only)
    house.python("-m", "simulation.economy", "--steps", str(STEPS), "--seed", "3")
    calls = json.loads((tmp_path / "out" / "economy.json").read_text())["calls"]
    assert calls["Lockers.keep"] > 0
