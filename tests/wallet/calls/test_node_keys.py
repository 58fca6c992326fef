"""Keys that a node proves and a wallet registers: accepted ones, and refusals before any fee."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from error_codes import raises_code
from genesis import dev_accounts
from runtime.pallets.sudo import Sudo
from wallet.calls.node_keys import FILE_BYTES_MAX, NodeKeys, read_node_keys
from wallet.errors import WalletError

GENESIS, OWNER = b"g" * 32, b"o" * 32
KEYS = NodeKeys(dev_accounts.node_keys("Bob"), dev_accounts.keys_proof("Bob", GENESIS, OWNER))


def client(*, is_development: bool = True) -> Any:
    """Return a client with only the queried fields."""
    return SimpleNamespace(genesis_hash=GENESIS, runtime=SimpleNamespace(pallets=(Sudo,) * is_development))


def file(folder: Path, text: str) -> str:
    path = folder / "keys.json"
    path.write_text(text)
    return str(path)


def test_what_a_node_prints_is_what_a_wallet_reads(tmp_path: Path) -> None:
    assert read_node_keys(file(tmp_path, KEYS.as_json()), OWNER, client(is_development=False)) == KEYS
    spaced = file(tmp_path, KEYS.as_json() + "\n")
    assert read_node_keys(spaced, OWNER, client()) == KEYS


def test_a_proof_for_somebody_else_is_refused_and_says_for_whom_one_is_needed(tmp_path: Path) -> None:
    with raises_code(WalletError, "proof_of_another_key"):
        read_node_keys(file(tmp_path, KEYS.as_json()), b"x" * 32, client())
    elsewhere = NodeKeys(KEYS.keys, dev_accounts.keys_proof("Bob", b"x" * 32, OWNER))
    with raises_code(WalletError, "proof_of_another_key"):
        read_node_keys(file(tmp_path, elsewhere.as_json()), OWNER, client())


def test_well_known_keys_are_for_chains_for_development(tmp_path: Path) -> None:
    assert read_node_keys("//Bob", OWNER, client()) == KEYS
    with raises_code(WalletError, "development_key"):
        read_node_keys("//Bob", OWNER, client(is_development=False))
    with raises_code(WalletError, "file_unusable"):
        read_node_keys(str(tmp_path / "none"), OWNER, client())
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path, tmp_path / "pipe"):  # a pipe without a writer must not make the program wait
        with raises_code(WalletError, "not_a_file"):
            read_node_keys(str(other), OWNER, client())


FIELDS = json.loads(KEYS.as_json())
BAD = ["", "{}", "[]", "7", json.dumps({**FIELDS, "keys": 1}), json.dumps({**FIELDS, "keys": "0xzz"}),
       json.dumps({**FIELDS, "proof": FIELDS["proof"][:-2]}), json.dumps({**FIELDS, "keys": FIELDS["keys"] + "00"}),
       "[" * 4_000]  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_such_file_is_refused(text: str, tmp_path: Path) -> None:
    with raises_code(WalletError, "not_node_keys"):
        read_node_keys(file(tmp_path, text), OWNER, client())


def test_no_more_is_read_than_such_a_file_holds(tmp_path: Path) -> None:
    keys = KEYS.as_json()
    assert read_node_keys(file(tmp_path, keys.ljust(FILE_BYTES_MAX)), OWNER, client()) == KEYS
    with raises_code(WalletError, "file_too_large"):
        read_node_keys(file(tmp_path, keys.ljust(FILE_BYTES_MAX + 1)), OWNER, client())
