"""The example of `docs/pallets.md` works as it stands there."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

from runtime.pallets.balances import Balances
from runtime.pallets.hold_book import HeldAmount
from small_chain import ALICE, SmallChain, runtime_of

GUIDE = Path(__file__).parents[3] / "docs" / "pallets.md"
THING = b"x" * 32


def test_the_example_of_the_guide_is_a_pallet(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert code is not None
    shelves = load(tmp_path / "shelves.py", code.group(1))
    chain = SmallChain(runtime_of(shelves.Shelves))
    chain.author(chain.signed(ALICE, shelves.Shelves.keep(thing=THING)))
    assert shelves.Kept(ALICE.account, THING) in chain.happened()
    assert chain.bound[shelves.Shelves].total.get() == 1
    assert chain.bound[Balances].holds[ALICE.account] == (HeldAmount(shelves.SHELF, 10**8),)
    chain.author(chain.signed(ALICE, shelves.Shelves.take(thing=THING)))
    assert chain.bound[shelves.Shelves].total.get() == 0
    assert chain.bound[Balances].holds[ALICE.account] == ()


def load(path: Path, code: str) -> ModuleType:
    path.write_text(code)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
