"""`ogpu show`: whoever asks sees how a unit stands, who races, why it ended, and who was paid what."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner, Result

from genesis import dev_accounts
from gpu_tasks.client.cli import main
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Racer, Reveal, Unit, UnitState, UnitTerms
from gpu_tasks.market.leaf_checks.checks import (
    LEAF_FEE,
    Answerer,
    CheckTerms,
    CheckWindows,
    LeafCheck,
    LeafStage,
    ShownLeaf,
)
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from planted_state import chain_with
from runtime.cryptography import ss58
from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound
from runtime.pallets.staking.trust_lock import TrustLock
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


BATCH_TERMS = replace(TERMS, requests=40, tokens_max=640)
LIAR = Racer(EVE, b"e" * 32, 0, b"c" * 32, 4, Reveal(b"w" * 32, b"o" * 32, 8, 6))
BATCH = b"b" * 32
CHECKED = replace(
    SETTLED,
    terms=BATCH_TERMS,
    racers=RACERS[:1],
    ended_at=1,
    is_watched=True,
    leaf_audit_ppm=50_000,
    output_root=b"r" * 32,
)
FEE = 100_000


def plant_check(bound: Bound) -> None:
    """A batch whose leaves were found right, but for two blocks in which its customer may dispute one."""
    bob, fee = dev_accounts.stash("Bob"), Hold(LEAF_FEE, BATCH)
    device, stored = next((name, found) for name, found in bound[Devices].devices.items() if found is not None)
    racer = replace(RACERS[0], owner=stored.owner, device=device)
    bound[InferenceMarket].units[BATCH] = replace(CHECKED, racers=(racer,))
    bound[InferenceMarket].catalogue.count_units(0, 1)
    bound[TrustLock].lock(bob, fee, FEE)
    terms = CheckTerms(
        InferenceMarket.index, bob, b"r" * 32, 40, 640, 0, 10_000_000, 35_000_000, FEE, 5_000_000, 50_000, 0, 30,
        (ALICE,), (Answerer(ALICE, 0),),
    )  # fmt: skip
    check = LeafCheck(
        terms, CheckWindows(300, 40, 20), 1, LeafStage.OPEN, b"s" * 32, 3, (EVE,), (ShownLeaf(7, b"n" * 32),), (EVE,),
        auditor=EVE, proof=b"p" * 32,
    )  # fmt: skip
    bound[LeafChecks].put(BATCH, check)


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


def test_show_says_what_became_of_a_check_once_it_is_over(tmp_path: Path) -> None:
    unit = "0x" + BATCH.hex()
    with chain_with(tmp_path, plant_check, beat_seconds=0.3) as url:
        open_until = time.monotonic() + 60
        before = answer(show(url, tmp_path, "--json", "show", unit))
        while (shown := answer(show(url, tmp_path, "--json", "show", unit)))["check"] is None:
            assert time.monotonic() < open_until
            time.sleep(0.1)
        assert before["leaves"] == "its customer may dispute any leaf, up to block 3"
        assert before["check"] is None
        assert int(before["prepaid"]["grains"]) == 240_000, "for two calls of its check more than without one"
        found = f"{ss58.encode(EVE)[:8]} computed the leaf that was drawn and found it right"
        assert shown["leaves"] == f"ended in block 4: {found}"
        assert shown["dispute"] is None
        check = shown["check"]
        assert (check["outcome"], check["ended_in_block"], check["auditor"]) == ("passed", 4, ss58.encode(EVE))
        assert [(row["to"], row["account"], row["amount"]["grains"]) for row in check["payments"]] == [
            ("auditor", ss58.encode(EVE), str(FEE))
        ]
        table = show(url, tmp_path, "show", unit).output
        assert "What the end of its check moved" in table


def test_show_says_what_the_record_has_of_a_check_that_no_block_shows(tmp_path: Path) -> None:
    differed = replace(CHECKED, racers=(RACERS[0], LIAR), is_watched=False, price=10_000_000)
    refuted = replace(CHECKED, is_watched=False, is_refuted=True)
    units = {b"d" * 32: differed, b"f" * 32: refuted}

    def plant_both(bound: Bound) -> None:
        for unit_id, record in units.items():
            bound[InferenceMarket].units[unit_id] = record

    with chain_with(tmp_path, plant_both) as url:
        first, second = (answer(show(url, tmp_path, "--json", "show", "0x" + unit.hex())) for unit in units)
        liar = ss58.encode(EVE)[:8]
        assert first["dispute"].startswith(
            f"its racers gave different answers; that of {liar} does not stand; {liar} lost"
        )
        assert first["leaves"].startswith("looked at no more: not found wrong; who looked")
        assert second["leaves"].startswith("looked at no more: found wrong, or not shown; ")
        assert "its customer has 0.00125 oGPU back" in second["leaves"]
        assert [int(row["lost"]["grains"]) > 0 for row in second["race"]] == [True]
