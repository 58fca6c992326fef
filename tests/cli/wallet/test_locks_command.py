"""`ogpu-wallet locks` against a real RPC server: locked amounts, their ends and their risks."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.chain_time import ChainTime, moment
from cli.wallet import locks
from cli.wallet.lock_words import STAKE_WORDS
from cli.wallet.program import main
from error_codes import ended_code
from genesis import dev_accounts
from runtime.interface.locks_api import Lock, LockPart, SlashWait
from runtime.pallets.staking.stakers import STAKE
from wallet_runner import answer, chain, wallet

OWN_BOND, DELEGATION, LEAVING = (STAKE_WORDS[part] for part in (LockPart.BOND, LockPart.DELEGATION, LockPart.LEAVING))
ALICE = dev_accounts.stash("Alice")
SEND = ("--key", "//Bob", "--yes")
COLUMNS = (
    "amount", "what", "reason", "case", "until", "at_most", "taken_by", "about", "until_epoch", "until_block",
)  # fmt: skip


def test_what_stakers_have_locked_is_told_with_its_end(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        assert answer(wallet(tmp_path, url, "locks", "//Bob")) == []
        for call in (
            ("TrustStake.bond", "20oGPU"),
            ("TrustStake.delegate", "0x" + ALICE.hex(), "5oGPU"),
            ("TrustStake.undelegate", "0x" + ALICE.hex(), "2oGPU"),
        ):
            assert answer(wallet(tmp_path, url, "call", *call, *SEND))["success"]
        rows = answer(wallet(tmp_path, url, "locks", "//Bob"))
        assert [tuple(row) for row in rows] == [COLUMNS] * 3
        told = [(row["what"], row["amount"]["ogpu"], row["at_most"]["ogpu"]) for row in rows]
        assert told == [(DELEGATION.what, "3", "3"), (LEAVING.what, "2", "2"), (OWN_BOND.what, "20", "20")]
        _, leaving, bond = rows
        assert bond["until"] == f"{OWN_BOND.until}, and 6 epochs after that"
        assert (bond["about"], bond["until_epoch"], bond["until_block"]) == (None, None, None)
        assert leaving["until_epoch"] == 6
        assert re.match(r"about \d{4}-\d\d-\d\d \d\d:\d\d UTC \(epoch 6; it is 0 now\): until you", leaving["until"])
        assert datetime.fromisoformat(leaving["about"]).tzinfo is not None


def test_a_provider_reads_all_that_secures_its_work(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        rows = answer(wallet(tmp_path, url, "locks", "0x" + ALICE.hex()))
        (balance,) = answer(wallet(tmp_path, url, "balance", "0x" + ALICE.hex()))
        assert sum(int(row["amount"]["grains"]) for row in rows) == int(balance["reserved"]["grains"])
        kinds = [row["kind"] for row in answer(wallet(tmp_path, url, "stakes", "0x" + ALICE.hex()))]
        assert "held: Devices.FreeBond" in kinds
        by_reason = {row["reason"]: row for row in rows}
        assert by_reason["Devices.FreeBond"]["until"].startswith("until you unregister")
        assert "until you unbond it" in by_reason["TrustStake.Stake"]["until"]


def test_a_table_for_people_fits_and_tells_when_it_is(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        options = ["--url", url, "--keyring", str(tmp_path / "keys")]
        shown = CliRunner().invoke(main, [*options, "locks", "0x" + ALICE.hex()])
        assert shown.exit_code == 0, shown.output
        assert re.search(r"^[\d.]+ oGPU locked; it is block 0 now, epoch 0$", shown.output, re.MULTILINE)
        assert re.search(r"^amount +10000 oGPU *$\s^what +your own bond as a validator *$", shown.output, re.MULTILINE)


def test_a_dry_run_shows_whose_money_a_call_locks(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        words = ("--key", "//Bob", "--dry-run")
        delegated = answer(wallet(tmp_path, url, "delegate", "0x" + ALICE.hex(), "5", *words))["holds"]
        bonded = answer(wallet(tmp_path, url, "stake", "20", *words))["holds"]
    assert [(each["reason"], each["change"]["ogpu"]) for each in (*delegated, *bonded)] == [
        ("TrustStake.Stake", "5"),
        ("TrustStake.Stake", "20"),
    ]
    assert delegated[0]["account"] != bonded[0]["account"]


def test_the_earlier_name_of_the_command_is_answered(tmp_path: Path) -> None:
    refused = CliRunner().invoke(main, ["holds", "//Bob"])
    assert (refused.exit_code, "`ogpu-wallet locks`" in refused.stderr) == (2, True)


def test_without_an_account_every_stored_key_is_shown(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        refused = wallet(tmp_path, url, "locks")
        assert (refused.exit_code, ended_code(refused)) == (2, "no_keys")
        (tmp_path / "password").write_text("p")
        (tmp_path / "password").chmod(0o600)
        made = CliRunner().invoke(
            main, ["--keyring", str(tmp_path / "keys"), "--password-file", str(tmp_path / "password"), "new", "mine"]
        )
        assert made.exit_code == 0, made.output
        address = answer(wallet(tmp_path, url, "list"))[0]["address"]
        delegated = wallet(tmp_path, url, "send", address, "9", *SEND)
        assert answer(delegated)["success"]
        bonded = (
            "--password-file",
            str(tmp_path / "password"),
            "delegate",
            "0x" + ALICE.hex(),
            "3",
            "--key",
            "mine",
            "--yes",
        )
        assert answer(wallet(tmp_path, url, *bonded))["success"]
        (row,) = answer(wallet(tmp_path, url, "locks"))
        assert (row["account"], row["what"], row["amount"]["ogpu"]) == ("mine", DELEGATION.what, "3")


def test_a_list_that_is_longer_than_is_shown_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with chain(tmp_path) as url:
        whole = wallet(tmp_path, url, "locks", "0x" + ALICE.hex())
        assert "more than" not in whole.stderr
        count = len(answer(whole))
        monkeypatch.setattr(locks, "LOCKS_SHOWN_MAX", count - 1)
        cut = wallet(tmp_path, url, "locks", "0x" + ALICE.hex())
        assert (len(answer(cut)), "more than" in cut.stderr) == (count - 1, True)


TIME = ChainTime(100, 1_700_000_000_000, 48_000, 48, 60, 1)


@pytest.mark.parametrize(
    ("epoch", "block", "told"),
    [
        (None, None, "until you unbond it"),
        (3, None, "about 2023-11-14 22:14 UTC (epoch 3; it is 1 now): until you unbond it"),
        (1, None, "reached (epoch 1; it is 1 now): until you unbond it"),
        (None, 160, "about 2023-11-14 22:14 UTC (block 160; it is 100 now): until you unbond it"),
        (None, 100, "reached (block 100; it is 100 now): until you unbond it"),
        (None, 2**32 - 1, "about 2159-12-22 04:39 UTC (block 4,294,967,295; it is 100 now): until you unbond it"),
    ],
)
def test_an_end_is_a_date_where_the_chain_has_a_height(epoch: int | None, block: int | None, told: str) -> None:
    lock = Lock(STAKE, LockPart.BOND, bytes(32), 1, 1, epoch, block, 0, 0, SlashWait.NONE)
    assert locks._row(lock, TIME)["until"] == told


def test_a_clock_that_makes_no_sense_gives_no_date() -> None:
    assert moment(2**63) is None
    assert moment(TIME.block_ms(161)) == datetime(2023, 11, 14, 22, 14, 21, tzinfo=UTC)
    assert moment(ChainTime(100, 1_700_000_000_000, 96_000, 48, 60, 1).block_ms(101)) == datetime(
        2023, 11, 14, 22, 13, 22, tzinfo=UTC
    ), "at the pace of the blocks before it"
