"""`ogpu-node genesis check`: every inequality with its numbers, and a failing one by name."""

import json
from pathlib import Path

import pytest

from genesis.presets import load_spec, raw_spec
from genesis.relations import RELATIONS
from genesis.spec import to_json
from node.cli import main

SPEC = load_spec("dev")


def written(folder: Path, numbers: dict[str, int]) -> str:
    content = json.loads(to_json(SPEC))
    content["genesis"]["runtimeGenesis"]["patch"]["chainParameters"] = numbers
    path = folder / "chain.json"
    path.write_text(json.dumps(content))
    return str(path)


def checked(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["genesis", "check", *words])
    return int(ended.value.code or 0)


def test_the_development_chain_keeps_every_relation(capsys: pytest.CaptureFixture[str]) -> None:
    assert checked("--dev") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(RELATIONS) + 1
    assert all(line.startswith("holds ") for line in lines[:-1])
    assert "is 6 >= 6" in lines[0]


def test_a_raw_specification_is_checked_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "raw.json"
    path.write_text(to_json(raw_spec(SPEC)))
    assert checked("--chain", str(path)) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(RELATIONS) + 1


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"TransactionPayment.base_fee": 20_001}, "a post prepays its duty calls: "),
        (
            {"TransactionPayment.base_fee": 20_001},
            "TransactionPayment.byte_fee or TransactionPayment.weight_price in chainParameters",
        ),
        (
            {"TrainingMarket.bid_bond": 100_001},
            "change TrainingMarket.no_start_penalty or TrainingMarket.bid_bond in chainParameters",
        ),
        ({"TrustStake.unbonding_epochs": 9}, "no such parameter: TrustStake.unbonding_epochs, which is a constant"),
        (
            {"TrustStake.slash_reporter": 500_000, "TrustStake.slash_treasury": 500_001},
            "1000000 >= 1000001, which must",
        ),
        ({"TransactionPayment.base_fee": 0}, "TransactionPayment.base_fee is 0, outside 1 to 1000000 grains"),
        ({"Balances.supply_cap": 1}, "frozen"),
        ({"Balances.nothing": 1}, "no such parameter: Balances.nothing"),
    ],
)
def test_what_fails_is_named_with_its_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], numbers: dict[str, int], said: str
) -> None:
    assert checked("--chain", written(tmp_path, numbers)) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("address", ["10.0.0.1:30333", "/ip4/10.0.0.1/tcp/30333", ""])
def test_an_address_of_a_boot_node_that_is_none_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    content = json.loads(to_json(SPEC))
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(content | {"bootNodes": [address]}))
    assert checked("--chain", str(path)) == 2
    assert f"bootNodes[0]: {address!r}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("provider_key", "0x" + "00" * 32, "UnsafeKey"),
        ("provider_key", None, "KeyTaken"),
        ("bond", 10**15, "FundsUnavailable"),
    ],
)
def test_a_validator_that_cannot_be_seated_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str, value: object, error: str
) -> None:
    content = json.loads(to_json(load_spec("local")))
    validators = content["genesis"]["runtimeGenesis"]["patch"]["trustStake"]["validators"]
    validators[1][field] = validators[0][field] if value is None else value
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(content))
    assert checked("--chain", str(path)) == 2
    said = capsys.readouterr().err
    assert error in said
    assert validators[1]["stash"] in said
    assert ("ed25519" in said) == (error == "UnsafeKey")
    assert (field in said) == (field != "bond")
