"""Calls of commands: the recipient is shown and confirmed (A10), and a call that must fail is not sent (A11)."""

import json
from pathlib import Path
from unittest.mock import patch

import click
import pytest
from click.testing import CliRunner

from cli import calls
from cli.calls import PlannedCall, SendingOptions
from cli.output import Output
from cli.session import WalletSession
from cli.wallet.program import main
from error_codes import ended_code
from runtime.pallets.system import System
from wallet.client import ChainClient, Payer
from wallet.keyring import Keyring
from wallet_runner import answer, chain, said, wallet

ALICE = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"
BOB = "5FHneW46xGXgs5mUiveU4sbTyGBzmstUspZC92UhjJM694ty"
SEND = ("send", "//Bob", "1", "--key", "//Alice")
NOBODY = "ws://127.0.0.1:9"


def nonce(folder: Path, url: str, account: str = "//Alice") -> int:
    found: int = answer(wallet(folder, url, "balance", account))[0]["nonce"]
    return found


@pytest.mark.parametrize(
    ("command", "name", "address"),
    [
        (SEND, "to", BOB),
        (("delegate", "//Alice", "50", "--key", "//Bob"), "validator", ALICE),
        (("call", "Balances.transfer_keep_alive", "//Bob", "1oGPU", "--key", "//Alice"), "arguments", BOB),
    ],
    ids=["send", "delegate", "call"],
)
def test_a10_the_recipient_is_shown_and_asked_for(
    tmp_path: Path, command: tuple[str, ...], name: str, address: str
) -> None:
    with chain(tmp_path) as url:
        assert address in json.dumps(answer(wallet(tmp_path, url, *command, "--dry-run"))[name])
        asked = wallet(tmp_path, url, *command, typed="n\n", attended=True)
        assert (asked.exit_code, asked.stdout) == (1, "")
        assert address in asked.stderr
        with patch.object(calls, "is_attended", lambda: True):
            for_people = CliRunner().invoke(main, ["--url", url, *command], input="n\n")
        assert address in for_people.stdout
        assert "Send it?" in for_people.stderr
        assert nonce(tmp_path, url) == nonce(tmp_path, url, "//Bob") == 0
        assert answer(wallet(tmp_path, url, *command, typed="y\n", attended=True))["success"]


def test_a10_where_nobody_can_be_asked_nothing_is_sent(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        result = wallet(tmp_path, url, *SEND, typed="y\n")
        assert result.exit_code == 2
        assert ended_code(result) == "no_terminal"
        assert nonce(tmp_path, url) == 0
        assert answer(wallet(tmp_path, url, *SEND, "--yes"))["success"]


@pytest.mark.parametrize(
    ("amount", "key", "code"), [("2000000", "//Alice", "FundsUnavailable"), ("1", "//Zoe", "fee_unaffordable")]
)
def test_a_payment_without_the_money_is_not_offered_to_be_sent_anyway(
    tmp_path: Path, amount: str, key: str, code: str
) -> None:
    with chain(tmp_path) as url:
        result = wallet(tmp_path, url, "send", "//Bob", amount, "--key", key, "--yes")
        assert (result.exit_code, ended_code(result), "--anyway" in result.stderr) == (1, code, False)
        other = wallet(tmp_path, url, "withdraw", "--key", "//Bob", "--yes")
        assert (other.exit_code, "--anyway" in other.stderr) == (1, True)


def test_a_plan_may_have_a_question_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "is_attended", lambda: True)

    async def plan(_client: ChainClient, _payer: Payer) -> PlannedCall:
        return PlannedCall(System.remark(remark=b"x"), question="End it?")

    with chain(tmp_path) as url, CliRunner().isolation(input="n\n") as (_, said_to_people, _):
        session = WalletSession(url, Keyring(tmp_path / "keys"), Output(as_json=False), None)
        with pytest.raises(click.Abort):
            calls.make(session, "//Alice", SendingOptions(False, False, False, 0), plan)
        assert b"End it?" in said_to_people.getvalue()


def test_a10_no_terminal_is_no_person() -> None:
    assert not calls.is_attended()


FAILURES = {
    "more than there is": (("send", "//Alice", "2000000"), "spendable balance does not cover"),
    "less than an account may own": (("send", "0x" + "77" * 32, "0.0001"), "existential deposit"),
    "all but the fee": (("send", "//Alice", "999999.99999999"), "must live on|does not cover"),
    "stake below the least": (("stake", "0.5"), "TrustStake."),
    "delegate to nobody": (("delegate", "//Eve", "50"), "TrustStake."),
    "delegate too little": (("delegate", "//Alice", "0.5"), "TrustStake."),
    "unstake what is not there": (("unstake", "10"), "TrustStake."),
    "withdraw too early": (("withdraw",), "TrustStake.NothingToWithdraw: 0 oGPU of yours are on their way out"),
    "chill without an offer": (("chill",), "TrustStake."),
    "unjail of who is free": (("unjail",), "TrustStake.NotJailed: you offer nothing"),
    "any other call": (("call", "InferenceMarket.cancel", "0x" + "11" * 32), "InferenceMarket."),
}


def test_a11_what_must_fail_is_said_and_not_sent(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        for case, (command, reason) in FAILURES.items():
            for how in ("--dry-run", "--yes"):
                result = wallet(tmp_path, url, *command, "--key", "//Bob", how)
                assert result.exit_code == 1, case
                planned = json.loads(result.stdout)
                assert any(part in planned["refused"] for part in reason.split("|")), (case, planned)
                assert planned["sent"] is False
                (error,) = said(result, "error")
                assert planned["refused"].removesuffix(".") in error
        assert nonce(tmp_path, url, "//Bob") == 0


def test_a11_the_last_grain_can_be_sent(tmp_path: Path) -> None:
    """The trial deducts the fee first, as the chain does. The rest can then all be sent."""
    with chain(tmp_path) as url:
        answer(wallet(tmp_path, url, "send", "//Nobody", "1", "--key", "//Alice", "--yes"))
        fee = int(
            answer(wallet(tmp_path, url, "send", "//Bob", "0.5", "--key", "//Nobody", "--allow-death", "--dry-run"))[
                "fee"
            ]["grains"]
        )
        rest = f"0.{10**8 - fee:08}"
        more = f"0.{10**8 - fee + 1:08}"
        last = ("--key", "//Nobody", "--allow-death", "--yes")
        assert wallet(tmp_path, url, "send", "//Bob", more, *last).exit_code == 1
        tipped = ("send", "//Bob", rest, "--key", "//Nobody", "--allow-death", "--tip", "0.00000001", "--dry-run")
        assert wallet(tmp_path, url, *tipped).exit_code == 1
        assert answer(wallet(tmp_path, url, "send", "//Bob", rest, *last))["success"]


def test_a11_whoever_cannot_pay_the_fee_is_told_both_numbers(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        result = wallet(tmp_path, url, "chill", "--key", "//Nobody", "--yes")
        assert result.exit_code == 1
        assert "the fee is 0.0000" in result.stderr
        assert "the account can spend 0 oGPU" in result.stderr


def test_a11_a_dry_run_sends_nothing_even_where_it_is_forced(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        result = wallet(tmp_path, url, "withdraw", "--key", "//Bob", "--dry-run", "--anyway", "--yes")
        assert json.loads(result.stdout)["sent"] is False
        assert nonce(tmp_path, url, "//Bob") == 0


def test_a_dry_run_asks_for_no_password(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        answer(wallet(tmp_path, url, "import", "savings", typed="//Bob\npass\npass\n"))
        assert answer(wallet(tmp_path, url, "send", "//Alice", "1", "--key", "savings", "--dry-run"))["sent"] is False
