"""`ogpu-node key rotate --owner`: the stash has the usual forms, and keys are made only for it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from error_codes import ended_code
from node.cli import ogpu_node
from runtime.cryptography.signatures import Scheme
from wallet.keyfile import ScryptCost
from wallet.keypair import Keypair
from wallet.keyring import Keyring


def rotated(folder: Path, owner: str) -> Result:
    return called(folder, "rotate", owner)


def called(folder: Path, command: str, owner: str) -> Result:
    where = ["--base-path", str(folder / "node"), "--keyring", str(folder / "keys")]
    return CliRunner().invoke(ogpu_node, ["--json", "key", command, *where, "--owner", owner])


def test_the_owner_is_a_name_of_the_keyring_an_address_or_a_path(tmp_path: Path) -> None:
    key = Keypair.from_seed(Scheme.SR25519, os.urandom(32))
    Keyring(tmp_path / "keys").add("stash", key, "secret", cost=ScryptCost(1 << 15, 1, 8))
    for owner in ("stash", key.address, "0x" + key.account.hex(), "//Eve"):
        answer = rotated(tmp_path, owner)
        assert answer.exit_code == 0, answer.output
        assert json.loads(answer.stdout)


def test_the_proof_of_stored_keys_is_for_the_same_owner(tmp_path: Path) -> None:
    key = Keypair.from_seed(Scheme.SR25519, os.urandom(32))
    Keyring(tmp_path / "keys").add("stash", key, "secret", cost=ScryptCost(1 << 15, 1, 8))
    made = rotated(tmp_path, "stash").stdout
    for owner, is_same in (("stash", True), (key.address, True), ("//Eve", False)):
        assert (called(tmp_path, "prove", owner).stdout == made) is is_same
    assert ended_code(called(tmp_path, "prove", "nobody")) == "unknown_account"


@pytest.mark.parametrize("owner", ["nobody", "", "5Grwva", "../keys/stash"])
def test_keys_are_made_for_nobody_else(tmp_path: Path, owner: str) -> None:
    answer = rotated(tmp_path, owner)
    assert (answer.exit_code, ended_code(answer)) == (2, "unknown_account")
    assert repr(owner) in answer.stderr
    assert not list(tmp_path.glob("node/**/keystore/*"))


def test_a_base_path_without_a_chain_is_a_note(tmp_path: Path) -> None:
    words = ["key", "rotate", "--base-path", str(tmp_path / "node"), "--owner", "//Alice"]
    made = [CliRunner().invoke(ogpu_node, words) for _ in range(2)]
    assert [(result.exit_code, "local_testnet" in result.stderr) for result in made] == [(0, True), (0, False)]
