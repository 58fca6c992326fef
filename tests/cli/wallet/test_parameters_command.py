"""`ogpu-wallet parameters` and `set-parameter` against a real RPC server: values, changes and early refusals."""

from pathlib import Path

import pytest

import played_node
from error_codes import ended_code
from genesis.chain import runtime_of
from genesis.presets import load_spec
from wallet.proved.pins import Pin, hold_to
from wallet_runner import answer, chain, live_spec, wallet

TABLE = runtime_of(load_spec("dev")).parameters


def test_every_parameter_is_shown_with_all_that_is_declared(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        rows = answer(wallet(tmp_path, url, "parameters"))
    assert [row["name"] for row in rows] == list(TABLE.parameters)
    for row in rows:
        declared = TABLE.parameters[row["name"]]
        assert row == {
            "name": declared.name,
            "value": TABLE.items[declared.name].default,
            "unit": declared.unit,
            "least": declared.least,
            "greatest": declared.greatest,
            "frozen": declared.is_frozen,
            "reason": declared.doc,
        }


def test_root_sets_one_and_the_next_read_shows_it(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        name = "TransactionPayment.base_fee"
        sent = answer(wallet(tmp_path, url, "set-parameter", name, "0.00003oGPU", "--key", "//Alice", "--yes"))
        assert sent["success"]
        (row,) = answer(wallet(tmp_path, url, "parameters", "transactionpayment.base"))
        assert (row["name"], row["value"]) == (name, 3_000)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("TransactionPayment.base_fees", "1"), "did you mean TransactionPayment.base_fee?"),
        (("base_fees", "1"), "argument NAME "),
        (("TransactionPayment.base_fee", "x"), "argument VALUE."),
        (("TrustStake.unbonding_epochs", "1"), "TrustStake.unbonding_epochs is a constant"),
        (("unbonding_epochs", "1"), "TrustStake.unbonding_epochs is a constant"),
        (("check_rate", "1"), ".check_rate, "),
        (("base_fee", "0"), "1 to 1000000 grains"),
        (("TransactionPayment.base_fee", "0"), "1 to 1000000 grains"),
        (("Balances.transfer_tax", "0"), "Balances.transfer_tax is frozen"),
        (("TransactionPayment.base_fee", "20001"), "a post prepays its duty calls: "),
    ],
)
def test_what_the_chain_would_refuse_is_said_before(tmp_path: Path, words: tuple[str, str], said: str) -> None:
    with chain(tmp_path) as url:
        ended = wallet(tmp_path, url, "set-parameter", *words, "--key", "//Alice", "--yes")
    assert ended.exit_code == 2
    assert said in ended.stderr


def test_what_is_forced_is_sent_and_the_chain_refuses_it(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        words = ("set-parameter", "TransactionPayment.base_fee", "20001", "--key", "//Alice", "--yes", "--anyway")
        ended = wallet(tmp_path, url, *words)
        assert ended.exit_code == 1
        assert "ChainParameters.RelationBroken: " in ended.stderr
        assert ended_code(ended) == "inner_call_failed"
        (row,) = answer(wallet(tmp_path, url, "parameters", "TransactionPayment.base_fee"))
        assert row["value"] == TABLE.items["TransactionPayment.base_fee"].default


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> None:
    """The played chain is a live one, without Sudo."""
    monkeypatch.setattr(played_node, "SPEC", live_spec())


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize(
    "words",
    [
        ("set-parameter", "TransactionPayment.base_fee", "3000"),
        ("set-parameter", "TransactionPayment.base_fee", "3000", "--anyway"),
        ("call", "Sudo.sudo", '{"System.remark": {"remark": "x"}}'),
        (
            "call",
            "Utility.batch",
            '[{"Utility.batch": {"calls": [{"Sudo.sudo": {"call": {"System.remark": {"remark": "x"}}}}]}}]',
        ),
        ("call", "Utility.batch", '[{"Sudo.sudo": {"call": {"System.remark": {"remark": "x"}}}}]'),
    ],
)
def test_a_live_chain_has_no_root(tmp_path: Path, words: tuple[str, ...]) -> None:
    with chain(tmp_path) as url:
        ended = wallet(tmp_path, url, "--trust-node", *words, "--key", "//Alice", "--yes")
    assert ended.exit_code == 2, ended.exception
    assert ended_code(ended) == "pallet_missing"


def test_the_calls_that_are_listed_are_those_of_the_chain(tmp_path: Path) -> None:
    def pallets(folder: Path, *options: str) -> set[str]:
        listed = answer(wallet(folder, "ws://127.0.0.1:9", *options, "call"))
        return {row["call"].partition(".")[0] for row in listed}

    for is_development in (True, False):
        keyring = tmp_path / str(is_development) / "keys"
        keyring.mkdir(parents=True)
        hold_to(keyring, Pin("0x00", "Some", "mainnet", is_development, 1))
    assert pallets(tmp_path / "True") - pallets(tmp_path / "False") == {"Sudo"}
    assert "Sudo" in pallets(tmp_path / "None")
    assert "Sudo" in pallets(tmp_path / "False", "--trust-node"), "any chain may be meant"


def test_a_name_that_no_parameter_has_is_told(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        ended = wallet(tmp_path, url, "parameters", "nothing")
    assert (ended.exit_code, ended_code(ended)) == (2, "unknown_parameter")


def test_who_does_not_hold_the_key_is_refused(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        ended = wallet(tmp_path, url, "set-parameter", "TransactionPayment.base_fee", "3000", "--key", "//Bob", "--yes")
        assert ended.exit_code == 1
        assert ended_code(ended) == "Sudo.RequireSudo"
        assert ".. " not in ended.stderr
