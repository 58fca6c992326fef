"""Appeals by hand, of customers and of providers: the verdict, the bond, and the chain's acceptance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cli.wallet.program import main as wallet
from genesis import dev_accounts
from gpu_tasks.client.cli import main
from gpu_tasks.market.courts import hearing
from gpu_tasks.market.courts.cases import CaseKind, CaseRules, CaseStage, CaseTerms, ClaimKind, CourtCase, PartyClaim
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from gpu_tasks.market.inference.inference import InferenceMarket
from planted_state import chain_with
from provider_runner import Operator
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.frame.runtime import Bound
from wallet_runner import answer

ALICE, BOB = (dev_accounts.stash(name) for name in ("Alice", "Bob"))
RIGHT, WRONG = b"r" * 32, b"w" * 32
CLAIMS = tuple(PartyClaim(account, ClaimKind.ANSWERED, WRONG, GRAINS_PER_OGPU) for account in (ALICE, BOB))
TERMS = CaseTerms(b"c" * 32, 3 * GRAINS_PER_OGPU, 5, 100, 0, 1_900, 0, 3, 30, (), CLAIMS)
DECIDED = CourtCase(
    InferenceMarket.index, CaseKind.DISPUTE, TERMS, 50, 2_000, CaseRules(50_000, 33, 20, 12, 20), None,
    CaseStage.APPEALABLE, 0, verdict=Answered(RIGHT), has_court=True, appealable_until=500,
)  # fmt: skip
CASES = {
    b"a" * 32: DECIDED,
    b"b" * 32: replace(DECIDED, verdict=Unanswerable()),
    b"s" * 32: replace(DECIDED, stage=CaseStage.COMMITTEE, verdict=None),
}
DECIDED_UNIT, UNUSABLE_UNIT, SITTING_UNIT = ("0x" + unit.hex() for unit in CASES)


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """One validator is no court; here none is needed."""
    monkeypatch.setattr(hearing, "COURT_MIN", 0)
    with chain_with(tmp_path, plant) as url:
        yield url


def plant(bound: Bound) -> None:
    for unit, case in CASES.items():
        bound[Courts].cases[unit] = case
        bound[Courts].agenda.put(501, unit)


def ogpu(folder: Path, url: str, *words: str) -> Result:
    return CliRunner().invoke(main, ["--url", url, "--keyring", str(folder / "keys"), "--json", *words])


def held(folder: Path, url: str, name: str) -> list[Any]:
    words = ["--url", url, "--keyring", str(folder / "keys"), "--json", "locks", f"//{name}"]
    return [row for row in answer(CliRunner().invoke(wallet, words)) if "AppealBond" in str(row)]


def test_a_customer_sees_what_an_appeal_binds_and_makes_it(tmp_path: Path, url: str) -> None:
    words = ["unit", "appeal", DECIDED_UNIT, "--key", "//Bob"]
    shown = answer(ogpu(tmp_path, url, *words, "--dry-run"))
    assert shown["call"] == "Courts.appeal"
    assert shown["verdict"] == "the right result is 0x" + RIGHT.hex()
    assert shown["stands_after_block"] == 500
    # who loses collateral by the verdict stands with that, and once the price
    assert (shown["bond"]["ogpu"], shown["brings_if_won"]["ogpu"], shown["sent"]) == ("3", "6", False)
    assert int(shown["total"]["grains"]) == int(shown["bond"]["grains"]) + int(shown["fee"]["grains"])
    assert held(tmp_path, url, "Bob") == []
    assert "no_terminal" in ogpu(tmp_path, url, *words).stderr
    made = answer(ogpu(tmp_path, url, *words, "--yes"))
    assert (made["success"], made["sent"]) == (True, True)
    assert len(held(tmp_path, url, "Bob")) == 1
    again = ogpu(tmp_path, url, *words, "--yes")
    assert (again.exit_code, "at court" in again.stderr) == (2, True)


def test_there_is_an_appeal_against_a_verdict_only(tmp_path: Path, url: str) -> None:
    unknown = ogpu(tmp_path, url, "unit", "appeal", "0x" + "ee" * 32, "--key", "//Bob", "--dry-run")
    assert (unknown.exit_code, "this unit has no open case" in unknown.stderr) == (2, True)
    sitting = ogpu(tmp_path, url, "unit", "appeal", SITTING_UNIT, "--key", "//Bob", "--dry-run")
    assert (sitting.exit_code, "at committee" in sitting.stderr) == (2, True)
    shown = answer(ogpu(tmp_path, url, "unit", "appeal", UNUSABLE_UNIT, "--key", "//Bob", "--dry-run"))
    assert shown["verdict"] == "its input is unusable"


def test_what_the_chain_would_refuse_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with chain_with(tmp_path, plant) as url:
        refused = ogpu(tmp_path, url, "unit", "appeal", DECIDED_UNIT, "--key", "//Bob", "--yes")
        assert refused.exit_code == 1
        assert "Courts.NotAppealable" in refused.stderr
        assert held(tmp_path, url, "Bob") == []


def test_a_provider_s_key_signs_and_its_stash_stands(tmp_path: Path, url: str) -> None:
    alice = Operator(tmp_path, url, "Alice")
    shown = alice.answer("appeal", DECIDED_UNIT, "--dry-run")
    assert (shown["calls"], shown["bond"]["ogpu"], shown["amount"]["ogpu"]) == ("Courts.appeal", "3", "3")
    assert shown["verdict"] == "the right result is 0x" + RIGHT.hex()
    assert alice.refused_code("appeal", "0x12") == "not_a_unit"
    assert alice.refused_code("appeal", DECIDED_UNIT) == "no_terminal"
    assert alice.answer("appeal", DECIDED_UNIT, "--yes")["success"]
    assert len(held(tmp_path, url, "Alice")) == 1
