"""The wallet's command line against a real RPC server with a played node behind it, and against nobody."""

import asyncio
import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cli.options import AMOUNT
from cli.output import Output
from cli.session import WalletSession
from cli.wallet.money import _require_sense
from cli.wallet.program import main
from error_codes import ended_code, raises_code
from runtime.pallets.pots import PROVIDER_REWARDS, RESERVE, STAKES, STAKING_REWARDS, TREASURY
from wallet.errors import WalletError
from wallet.keyring import Keyring
from wallet.rpc import RpcConnection
from wallet.trust import socket_url
from wallet_runner import answer, chain, said, wallet

ALICE_ADDRESS = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"


def test_new_key_receives_and_sends(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        made = answer(wallet(tmp_path, url, "new", "carol", typed="pass\npass\n"))
        assert len(made["recovery_phrase"].split()) == 12
        assert answer(wallet(tmp_path, url, "list"))[0]["address"] == made["address"]

        planned = answer(wallet(tmp_path, url, "send", "carol", "12.5", "--key", "//Alice", "--dry-run"))
        assert planned["sent"] is False
        sent = answer(wallet(tmp_path, url, "send", "carol", "12.5", "--key", "//Alice", "--yes"))
        assert sent["success"]
        assert sent["fee"] == planned["fee"]
        assert answer(wallet(tmp_path, url, "balance", "carol"))[0]["free"]["ogpu"] == "12.5"

        newest = answer(wallet(tmp_path, url, "send", "//Bob", "1", "--key", "carol", "--yes", typed="pass\n"))
        left = int(answer(wallet(tmp_path, url, "balance", "carol"))[0]["free"]["grains"])
        assert 11 * 10**8 < left < 1150 * 10**6

        explained = answer(wallet(tmp_path, url, "why", sent["extrinsic"]))
        assert explained["status"] == "final"
        assert answer(wallet(tmp_path, url, "why", newest["extrinsic"]))["status"] == "final"
        assert "transfer_keep_alive" in explained["call"]


def test_stake_delegate_unstake(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        assert answer(wallet(tmp_path, url, "validators"))[0]["stash"] == ALICE_ADDRESS
        answer(wallet(tmp_path, url, "delegate", "//Alice", "50", "--key", "//Bob", "--yes"))
        answer(wallet(tmp_path, url, "stake", "20", "--key", "//Bob", "--yes"))
        answer(wallet(tmp_path, url, "unstake", "10", "--validator", "//Alice", "--key", "//Bob", "--yes"))
        rows = answer(wallet(tmp_path, url, "stakes", "//Bob"))
        assert {(row["kind"], row["amount"]["ogpu"]) for row in rows} == {
            ("delegation", "40"),
            ("bond", "20"),
            ("unstaking", "10"),
        }


def test_a_failed_call_is_explained_and_costs_only_its_fee(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        result = wallet(tmp_path, url, "withdraw", "--key", "//Bob", "--yes", "--anyway")
        assert result.exit_code == 1
        assert "TrustStake.NothingToWithdraw: Nothing that was unbonded is free yet." in result.stderr
        extrinsic = json.loads(result.stdout)["extrinsic"]
        assert answer(wallet(tmp_path, url, "why", extrinsic))["why"].startswith("TrustStake.NothingToWithdraw")


def test_a_failure_without_a_pallet_is_explained_too(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        result = wallet(tmp_path, url, "send", "//Alice", "2000000", "--key", "//Bob", "--yes", "--anyway")
        assert ended_code(result) == "Token.FundsUnavailable"


def test_only_a_call_that_can_succeed_is_offered_to_be_sent_anyway(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        for words, code, is_offered in (
            (["send", "//Alice", "2000000", "--key", "//Bob"], "FundsUnavailable", False),
            (["send", "//Alice", "1", "--key", "//Nobody"], "fee_unaffordable", False),
            (["withdraw", "--key", "//Bob"], "TrustStake.NothingToWithdraw", True),
        ):
            result = wallet(tmp_path, url, *words, "--yes")
            assert ended_code(result) == code
            assert ("--anyway" in result.stderr) == is_offered, words


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("send", "//Bob", "1,5", "--key", "//Alice", "--yes"), "bad_parameter"),
        (("send", "nobody", "1", "--key", "//Alice", "--yes"), "unknown_account"),
        (("send", "Bob", "1", "--key", "//Alice", "--yes"), "unknown_account"),
        (("send", "//Bob", "1", "--key", "dave", "--yes"), "unknown_key"),
        (("send", "//Bob", "0", "--key", "//Alice", "--yes"), "nothing_to_send"),
        (("send", "//Alice", "1", "--key", "//Alice", "--yes"), "sends_to_itself"),
        (("send", "0x" + "00" * 32, "1", "--key", "//Alice", "--yes"), "account_without_key"),
        (("send", "0x" + RESERVE.hex(), "1", "--key", "//Alice", "--yes"), "account_without_key"),
        (("send", "//Bob", "-5", "--key", "//Alice", "--yes"), "negative_number"),
        (("send", "5GrwvaEF5zXb26Fz9", "5", "--key", "//Alice", "--yes"), "unknown_account"),
        (("profile", "Alice", "javascript:alert(1)", "--key", "//Alice", "--yes"), "web_unusable"),
        (("why", "0x12"), "not_a_hash"),
        (("why", "0x" + "00" * 32), "extrinsic_not_found"),
        (("rewards", "//Bob", "--claim"), "nothing_to_claim"),
    ],
)
def test_mistakes_are_explained(tmp_path: Path, arguments: tuple[str, ...], code: str) -> None:
    with chain(tmp_path) as url:
        result = wallet(tmp_path, url, *arguments)
        assert (result.exit_code, ended_code(result)) == (2, code)


def test_a_mistyped_name_of_a_key_is_answered_with_the_one_that_is_meant(tmp_path: Path) -> None:
    answer(wallet(tmp_path, "ws://127.0.0.1:9", "import", "savings", typed="//Dave\npass\npass\n"))
    with chain(tmp_path) as url:
        assert "savings?" in wallet(tmp_path, url, "balance", "saving").stderr
        assert "savings?" in wallet(tmp_path, url, "balance", "Savings").stderr
        assert "savings?" in wallet(tmp_path, url, "send", "//Bob", "1", "--key", "savigns", "--yes").stderr


def test_what_makes_no_sense_is_sent_anyway(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        for to, amount in (("//Alice", "1"), ("//Bob", "0"), ("0x" + "00" * 32, "1")):
            assert answer(wallet(tmp_path, url, "send", to, amount, "--key", "//Alice", "--yes", "--anyway"))["success"]


def test_a_path_almost_like_a_known_one_is_another_key(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        asked = wallet(tmp_path, url, "balance", "//alice", "//Alice", "//alice")
        assert sum("//alice" in told and "//Alice" in told for told in said(asked, "note")) == 1
        assert "//Alice" not in wallet(tmp_path, url, "balance", "//Alice", "//Zoe").stderr
        sends = wallet(tmp_path, url, "send", "//Bob", "1", "--key", "//ferdi", "--yes")
        assert sum("//Ferdie" in told for told in said(sends, "note")) == 1


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("//Alise", "Alice"), ("//alice", "Alice"), ("//alice//stash", "Alice"), ("//Bobb", "Bob"),
        ("//Gracie", "Grace"),        ("//Alice//stash", None), ("//Carl", None), ("//Fernando", None), ("//0", None),
    ],
)  # fmt: skip
def test_which_paths_are_almost_like_a_known_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str, meant: str | None
) -> None:
    """Signing and paying are told too, each once in a session."""
    for use in ("account", "payer", "key"):
        session = WalletSession("ws://nobody", Keyring(tmp_path), Output(as_json=False), None)
        for _ in range(2):
            getattr(session, use)(path)
        told = capsys.readouterr().err
        assert told.count("note: ") == (meant is not None), use
        assert meant is None or f"//{meant}" in told


@pytest.mark.parametrize("use", ["payer", "key"])
def test_an_address_signs_nothing(tmp_path: Path, use: str) -> None:
    session = WalletSession("ws://nobody", Keyring(tmp_path), Output(as_json=False), None)
    with raises_code(WalletError, "address_cannot_sign"):
        getattr(session, use)(ALICE_ADDRESS)


@pytest.mark.parametrize("pot", [bytes(32), RESERVE, TREASURY, STAKING_REWARDS, PROVIDER_REWARDS, STAKES])
def test_nobody_has_the_key_of_a_pot(pot: bytes) -> None:
    with pytest.raises(WalletError):
        _require_sense(pot, 1, b"a" * 32)
    _require_sense(b"b" * 32, 1, b"a" * 32)


@pytest.mark.parametrize("text", ["1.5", "1.5oGPU", "1.5 oGPU", "1.5  ogpu", "1.5 OGPU"])
def test_an_amount_may_have_its_unit(text: str) -> None:
    assert AMOUNT.convert(text, None, None) == 150_000_000
    with pytest.raises(click.UsageError):
        AMOUNT.convert(text + "s", None, None)


def test_an_address_of_the_web_reaches_the_node_behind_it(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        address = url.replace("ws://", "HTTP://", 1)
        assert wallet(tmp_path, address, "balance", "//Alice").exit_code == 0

        async def ask() -> None:
            async with await RpcConnection.open(address) as connection:
                assert connection.url == url

        asyncio.run(ask())


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("https://node:1", "wss://node:1"),
        ("http://node", "ws://node"),
        ("wss://node/x", "wss://node/x"),
        ("node:9944", "ws://node:9944"),
    ],
)
def test_an_address_becomes_one_of_web_sockets(given: str, url: str) -> None:
    assert socket_url(given) == url


@pytest.mark.parametrize("address", ["http://", "ws://", "ftp://node", "ws://[::1"])
def test_an_address_without_a_host_is_refused(tmp_path: Path, address: str) -> None:
    result = wallet(tmp_path, address, "balance", "//Alice")
    assert (result.exit_code, ended_code(result)) == (2, "bad_parameter")


def test_no_node_is_said_plainly(tmp_path: Path) -> None:
    result = wallet(tmp_path, "ws://127.0.0.1:9", "balance", "//Alice")
    assert (result.exit_code, ended_code(result)) == (2, "node_unreachable")


def test_a_balance_counts_what_the_chain_keeps_for_an_account(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        answer(wallet(tmp_path, url, "delegate", "//Alice", "50", "--key", "//Bob", "--yes"))
        answer(wallet(tmp_path, url, "undelegate", "//Alice", "20", "--key", "//Bob", "--yes"))
        (row,) = answer(wallet(tmp_path, url, "balance", "//Bob"))
        shown = [row[name]["ogpu"] for name in ("reserved", "delegated", "unbonding", "unpaid_rewards")]
        assert shown == ["0", "30", "20", "0"]


def test_a_history_has_transfers_with_their_other_side(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        answer(wallet(tmp_path, url, "send", "//Bob", "7", "--key", "//Alice", "--yes"))
        (got,) = answer(wallet(tmp_path, url, "history", "//Bob"))
        (sent,) = answer(wallet(tmp_path, url, "history", "//Alice"))
        assert (got["what"], got["amount"]["ogpu"], got["more"]) == ("received", "7", f"from {ALICE_ADDRESS}")
        assert (sent["what"], sent["amount"]["ogpu"]) == ("sent", "7")
        answer(wallet(tmp_path, url, "delegate", "//Alice", "5", "--key", "//Bob", "--yes"))
        assert [row["what"] for row in answer(wallet(tmp_path, url, "history", "//Bob"))] == ["received", "delegated"]
        newest = wallet(tmp_path, url, "history", "//Bob", "--limit", "1")
        assert [row["what"] for row in answer(newest)] == ["delegated"]
        notes = [said(wallet(tmp_path, url, "history", "//Bob", "--limit", limit), "note") for limit in ("1", "2")]
        assert len(notes[0]) == len(notes[1]) + 1, "a list that is cut says so"
        _, *lines = wallet(tmp_path, url, "history", "//Bob", "--csv").stdout.splitlines()
        assert [line.split(",")[2] for line in lines] == ["received", "delegated"]


def test_wrong_password_is_said_plainly(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        answer(wallet(tmp_path, url, "import", "dave", typed="//Dave\npass\npass\n"))
        result = wallet(tmp_path, url, "send", "//Bob", "1", "--key", "dave", "--yes", typed="wrong\n")
        assert (result.exit_code, ended_code(result)) == (2, "cannot_unlock")


def test_tables_are_for_people(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        result = CliRunner().invoke(main, ["--url", url, "validators"])
        assert result.exit_code == 0
        assert ALICE_ADDRESS in result.output.replace("\n", "")
