"""`ogpu show`: whoever asks sees how a unit stands, who races, why it ended, and who was paid what."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from genesis import dev_accounts
from gpu_tasks.client.cli import main
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Racer, Reveal, Unit, UnitState, UnitTerms
from planted_state import chain_with
from runtime.cryptography import ss58
from runtime.frame.runtime import Bound
from wallet_runner import answer

ALICE, EVE = dev_accounts.stash("Alice"), dev_accounts.stash("Eve")
TERMS = UnitTerms(10_000_000, 2, b"i" * 32, b"h" * 32, 1, 8)
SUMS = ("locked", "prepaid", "fees", "paid", "returned", "still_locked", "cost")
RACERS = (
    Racer(ALICE, b"a" * 32, 0, b"c" * 32, 3, Reveal(b"r" * 32, b"o" * 32, 8, 5)),
    Racer(EVE, b"e" * 32, 0, b"c" * 32, 4, Reveal(b"r" * 32, b"o" * 32, 8, 6)),
)
SETTLED = Unit(
    0, dev_accounts.stash("Bob"), TERMS, 14_000_000, 500_000, 3, 1, 1, UnitState.SETTLED, 1, 10_000_000,
    racers=RACERS, output_root=b"r" * 32, paid=13_500_000, ended_at=7,
)  # fmt: skip
UNITS = {
    b"s" * 32: SETTLED,
    b"q" * 32: Unit(0, dev_accounts.stash("Bob"), TERMS, 1, 1, 0, 1, 1),
}
SETTLED_UNIT, QUEUED_UNIT = ("0x" + unit.hex() for unit in UNITS)


def plant(bound: Bound) -> None:
    for unit, record in UNITS.items():
        bound[InferenceMarket].units[unit] = record


def show(url: str, folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["--url", url, "--keyring", str(folder / "keys"), *words])


def test_show_says_who_raced_and_was_paid(tmp_path: Path) -> None:
    with chain_with(tmp_path, plant) as url:
        shown = answer(show(url, tmp_path, "--json", "show", SETTLED_UNIT))
        assert (shown["state"], shown["ended_in_block"], shown["paid"]["grains"]) == ("settled", 7, "13500000")
        assert [shown[name] and shown[name]["grains"] for name in SUMS] == [
            "14500003", "200000", None, "13500000", "1000000", "3", None,
        ], "which extrinsic posted it, no block says here"  # fmt: skip
        assert [row["answer"] for row in shown["race"]] == ["0x" + (b"r" * 32).hex()] * 2
        paid = {row["to"]: (row["account"], row["amount"]["grains"]) for row in shown["payments"]}
        assert paid["winner"] == (ss58.encode(ALICE), "9800000")
        assert paid["witness"] == (ss58.encode(EVE), "2940000")
        assert sum(int(row["amount"]["grains"]) for row in shown["payments"]) == SETTLED.paid
        assert shown["payments_not_shown"].startswith("what judges were paid")
        table = show(url, tmp_path, "show", SETTLED_UNIT).output
        assert "Who was paid" in table
        assert ss58.encode(ALICE) in table


def test_show_of_an_open_unit_says_why_it_waits(tmp_path: Path) -> None:
    with chain_with(tmp_path, plant) as url:
        shown = answer(show(url, tmp_path, "--json", "show", QUEUED_UNIT))
        assert (shown["state"], shown["payments"], shown["race"]) == ("queued", [], [])
        assert shown["why"].startswith("needs 2 owners, 1 offers the service")
        unknown = show(url, tmp_path, "show", "0x" + "ee" * 32)
        assert (unknown.exit_code, "the chain knows no such unit" in unknown.stderr) == (2, True)
        assert "is no unit" in show(url, tmp_path, "show", "0x12").stderr
