"""A folder of keys on a real disk: modes, names, refusals, and no overwriting."""

import base64
import json
import os
import stat
from pathlib import Path

import pytest

from error_codes import raises_code
from runtime.cryptography import ss58
from runtime.cryptography.signatures import Scheme
from wallet import keyfile
from wallet import keyring as keyring_module
from wallet.errors import CannotUnlockError, KeyFileError, KeyringError
from wallet.keyfile import ScryptCost
from wallet.keyring import Keyring
from wallet.private_file import read_private, write_new
from wallet.suri import keypair_from_suri

CHEAP = ScryptCost(1 << 15, 1, 8)
ALICE = keypair_from_suri("//Alice")


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    ring = Keyring(tmp_path / "wallet")
    ring.add("alice", ALICE, "password", cost=CHEAP)
    return ring


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_add_get_unlock_remove(keyring: Keyring) -> None:
    keyring.add("session", keypair_from_suri("//Alice//session", Scheme.ED25519), "other", cost=CHEAP)
    assert keyring.names() == ["alice", "session"]
    assert keyring.get("alice").account == ALICE.account
    assert keyring.get("alice").name == "alice"
    assert keyring.unlock("alice", "password") == ALICE
    with pytest.raises(CannotUnlockError):
        keyring.unlock("session", "password")
    keyring.remove("alice")
    assert keyring.names() == ["session"]
    with raises_code(KeyringError, "unknown_key"):
        keyring.remove("alice")


def test_an_absent_folder_is_an_empty_keyring(tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "none")
    assert ring.names() == []
    with pytest.raises(KeyringError, match=r"no key 'alice' in .*`ogpu-wallet new`"):
        ring.get("alice")


def test_a_name_that_no_key_has_is_answered_with_those_there_are(keyring: Keyring) -> None:
    with pytest.raises(KeyringError, match=r"no key 'alise' in .* alice\?$"):
        keyring.get("alise")
    for number in range(keyring_module.NAMES_SHOWN):
        (keyring.folder / f"b{number}.json").touch()
    with pytest.raises(KeyringError, match=r"alice, b0, .*, b8, …$"):
        keyring.get("zoe")


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_files_are_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_new(tmp_path / "deep" / "secret", b"data")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "deep" / "secret") == 0o600
    assert mode_of(tmp_path / "deep") == 0o700
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["secret"]


def test_a_name_is_never_taken_twice(keyring: Keyring) -> None:
    path = keyring.folder / "alice.json"
    before = path.read_bytes()
    with raises_code(KeyringError, "name_taken"):
        keyring.add("alice", keypair_from_suri("//Bob"), "password", cost=CHEAP)
    assert path.read_bytes() == before
    assert len(list(keyring.folder.iterdir())) == 1


@pytest.mark.parametrize(
    "name", ["", "Alice", "a b", "../alice", "a/b", ".hidden", "-x", "a" * 33, "5" * 48, "ä", "a\n", "a\0"]
)
def test_unusable_names(keyring: Keyring, name: str) -> None:
    with raises_code(KeyringError, "invalid_name"):
        keyring.get(name)
    with raises_code(KeyringError, "invalid_name"):
        keyring.add(name, ALICE, "password", cost=CHEAP)


def test_other_files_in_the_folder_are_no_keys(keyring: Keyring) -> None:
    (keyring.folder / "notes.txt").write_text("")
    (keyring.folder / "Upper.json").write_text("")
    assert keyring.names() == ["alice"]


def test_import_keeps_the_password_and_needs_no_private_source(keyring: Keyring, tmp_path: Path) -> None:
    exported = tmp_path / "export.json"
    exported.write_bytes(keyfile.dump(keyring.get("alice")))
    exported.chmod(0o644)
    keyring.import_file("copy", exported, "password")
    assert keyring.unlock("copy", "password") == ALICE
    assert mode_of(keyring.folder / "copy.json") == 0o600


def test_import_of_something_else_stores_nothing(keyring: Keyring, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    for content in (b"{}", b" " * (keyfile.MAX_FILE_BYTES + 1)):
        other.write_bytes(content)
        with pytest.raises(KeyFileError):
            keyring.import_file("copy", other, "password")
    os.mkfifo(tmp_path / "pipe")
    for source, code in (("absent", "file_unusable"), ("", "not_a_file"), ("pipe", "not_a_file")):
        with raises_code(KeyFileError, code):
            keyring.import_file("copy", tmp_path / source, "password")
    assert keyring.names() == ["alice"]


@pytest.mark.parametrize("damage", ["wrong password", "address of another", "a flipped byte"])
def test_a12_import_proves_the_key_before_it_is_needed(keyring: Keyring, tmp_path: Path, damage: str) -> None:
    fields = json.loads(keyfile.dump(keyring.get("alice")))
    if damage == "address of another":
        fields["address"] = ss58.encode(bytes(range(32)))
    elif damage == "a flipped byte":
        sealed = bytearray(base64.b64decode(fields["encoded"]))
        sealed[-1] ^= 1
        fields["encoded"] = base64.b64encode(sealed).decode()
    source = tmp_path / "export.json"
    source.write_text(json.dumps(fields))
    with pytest.raises(CannotUnlockError):
        keyring.import_file("copy", source, "other" if damage == "wrong password" else "password")
    assert keyring.names() == ["alice"]


def test_files_that_others_could_read_or_swap_are_refused(keyring: Keyring, tmp_path: Path) -> None:
    path = keyring.folder / "alice.json"
    path.chmod(0o644)
    with raises_code(KeyFileError, "file_not_private"):
        keyring.get("alice")
    path.chmod(0o600)
    (keyring.folder / "link.json").symlink_to(path)
    with raises_code(KeyFileError, "not_a_plain_file"):
        keyring.get("link")
    (keyring.folder / "folder.json").mkdir(mode=0o700)
    with pytest.raises(KeyFileError, match="plain file"):
        keyring.get("folder")
    os.mkfifo(keyring.folder / "pipe.json", 0o600)
    with pytest.raises(KeyFileError, match="plain file"):
        keyring.get("pipe")


def test_a_file_of_another_user_is_refused(keyring: Keyring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: keyring.folder.stat().st_uid + 1)
    with raises_code(KeyFileError, "file_of_another_user"):
        keyring.get("alice")


def test_large_files_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    write_new(path, bytes(1001))
    with raises_code(KeyFileError, "file_too_large"):
        read_private(path, 1000)
    assert read_private(path, 1001) == bytes(1001)


def test_a_failed_unlock_leaves_the_file_as_it_was(keyring: Keyring) -> None:
    path = keyring.folder / "alice.json"
    before = path.read_bytes()
    with pytest.raises(CannotUnlockError):
        keyring.unlock("alice", "wrong")
    assert path.read_bytes() == before
