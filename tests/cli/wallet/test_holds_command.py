"""`ogpu-wallet holds` and `stakes` against a real RPC server: what is held of an account, by reason and case."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.wallet import money
from cli.wallet.program import main
from genesis import dev_accounts
from runtime.pallets.staking.stakers import STAKE
from wallet.amounts import format_amount
from wallet.suri import keypair_from_suri
from wallet_runner import answer, chain, wallet

BOB = "0x" + keypair_from_suri("//Bob").account.hex()
ALICE = "0x" + dev_accounts.stash("Alice").hex()


def test_what_is_held_is_listed_by_reason_and_case(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        assert answer(wallet(tmp_path, url, "holds", "//Bob")) == []
        bond = ("call", "TrustStake.bond", "20oGPU", "--from", "//Bob", "--yes")
        assert answer(wallet(tmp_path, url, *bond))["success"]
        (held,) = answer(wallet(tmp_path, url, "holds", "//Bob"))
        assert (held["reason"], held["case"], held["amount"]["ogpu"]) == ("TrustStake.Stake", BOB, "20")
        assert held["what"] == STAKE.doc
        (stake,) = answer(wallet(tmp_path, url, "stakes", "//Bob"))
        assert stake["kind"] == "bond", "stake is listed once"


def test_what_a_provider_holds_is_told_apart(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        reasons = [held["reason"] for held in answer(wallet(tmp_path, url, "holds", ALICE))]
        assert reasons[0] == "TrustStake.Stake"
        assert "Devices.FreeBond" in reasons
        kinds = [row["kind"] for row in answer(wallet(tmp_path, url, "stakes", ALICE))]
        assert "held: Devices.FreeBond" in kinds


def test_people_see_sums_by_reason_and_in_all(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        found = answer(wallet(tmp_path, url, "holds", ALICE))
        shown = CliRunner().invoke(main, ["--url", url, "holds", ALICE]).stdout
        none = CliRunner().invoke(main, ["--url", url, "holds", "//Bob"]).stdout
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if line.startswith("│")]
    sums = {row[0]: (int(row[1]), row[2]) for row in rows if len(row) == 3}
    total = sum(int(held["amount"]["grains"]) for held in found)
    assert sums.pop("total") == (len(found), f"{format_amount(total)} oGPU")
    assert sums.keys() == {held["reason"] for held in found}
    bonds = [int(held["amount"]["grains"]) for held in found if held["reason"] == "Devices.FreeBond"]
    assert sums["Devices.FreeBond"] == (len(bonds), f"{format_amount(sum(bonds))} oGPU")
    assert len(sums) > 1
    assert "total" in none


def test_where_delegations_lie_is_said(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        assert "`stakes` and `locks` show it" in wallet(tmp_path, url, "holds", "//Bob").stderr
        words = ("--from", "//Bob", "--dry-run")
        delegated = CliRunner().invoke(main, ["--url", url, "delegate", ALICE, "5", *words])
        assert "(where all delegations lie) for TrustStake.Stake" in " ".join(delegated.stdout.split())
        bonded = CliRunner().invoke(main, ["--url", url, "stake", "20", *words])
        assert "+20 oGPU for TrustStake.Stake" in " ".join(bonded.stdout.split())


def test_a_list_that_is_as_long_as_an_answer_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with chain(tmp_path) as url:
        whole = wallet(tmp_path, url, "holds", ALICE)
        assert "there may be more" not in whole.stderr
        monkeypatch.setattr(money, "HELD_CASES_MAX", len(answer(whole)))
        assert "there may be more" in wallet(tmp_path, url, "holds", ALICE).stderr
