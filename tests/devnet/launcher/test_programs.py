"""The users' programs, as a devnet runs them."""

import json
from pathlib import Path

import pytest

from devnet.launcher import programs
from runtime.cryptography.signatures import Scheme
from wallet.keyfile import ScryptCost
from wallet.keypair import Keypair
from wallet.keyring import Keyring


def test_they_know_the_devnet_and_nothing_of_their_owners_other_chains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a run of the demo, the programs kept to the demo's chain, and its user could run no other network."""
    key = Keypair.from_seed(Scheme.ED25519, bytes(32))
    Keyring(tmp_path / "own").add("mine", key, "secret", cost=ScryptCost(1 << 15, 1, 8))
    Keyring(tmp_path / "net").add("of-the-devnet", key, "secret", cost=ScryptCost(1 << 15, 1, 8))
    monkeypatch.setenv("OGPU_KEYRING", str(tmp_path / "own"))
    listed = json.loads(programs.run("ogpu-wallet", "list", keyring=tmp_path / "net"))
    assert [row["name"] for row in listed] == ["of-the-devnet"]


def test_a_failed_program_gives_its_status_and_its_code(tmp_path: Path) -> None:
    with pytest.raises(programs.ProgramFailedError) as failed:
        programs.run("ogpu-wallet", "new", "My Key", keyring=tmp_path / "net")
    assert (failed.value.status, failed.value.code) == (2, "invalid_name")
    with pytest.raises(programs.ProgramFailedError) as failed:
        programs.run("ogpu-wallet", "statsu", keyring=tmp_path / "net")
    assert (failed.value.status, failed.value.code) == (2, "unknown_command")
