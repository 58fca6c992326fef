"""Key files: those of polkadot.js open, ours open in substrate-interface, and nothing damaged opens."""

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from substrateinterface import Keypair as PublicKeypair

from runtime.cryptography import signatures
from runtime.cryptography.signatures import Scheme
from wallet import keyfile
from wallet.errors import CannotUnlockError, KeyFileError
from wallet.keyfile import ALLOWED_COSTS, KeyFile, ScryptCost
from wallet.keypair import Keypair
from wallet.suri import keypair_from_suri

VECTORS = json.loads((Path(__file__).parent / "vectors" / "polkadot_js.json").read_text())
CHEAP = ScryptCost(1 << 15, 1, 8)  # the least work on the list
ENTROPY = bytes(range(56))
META = {"name": "alice", "whenCreated": 1_700_000_000_000}
ALICE = keypair_from_suri("//Alice")
FILE = keyfile.lock(ALICE, "password", META, entropy=ENTROPY, scrypt_cost=CHEAP)


@pytest.mark.parametrize("fields", VECTORS["files"], ids=lambda fields: fields["encoding"]["content"][1])
def test_files_of_polkadot_js_open(fields: dict[str, Any]) -> None:
    file = keyfile.load(json.dumps(fields).encode())
    keypair = keyfile.unlock(file, VECTORS["password"])
    assert keypair.public_key == keypair_from_suri("//Alice", file.scheme).public_key
    assert file.name == fields["meta"]["name"]
    assert signatures.verify(file.scheme, keypair.public_key, b"m", keypair.sign(b"m"))
    again = keyfile.load(keyfile.dump(file))
    assert again == file


@pytest.mark.parametrize("scheme", list(Scheme))
def test_round_trip(scheme: Scheme) -> None:
    keypair = keypair_from_suri("//Bob//x", scheme)
    locked = keyfile.lock(keypair, "päss ☂", META, entropy=ENTROPY, scrypt_cost=CHEAP)
    file = keyfile.load(keyfile.dump(locked))
    unlocked = keyfile.unlock(file, "päss ☂")
    assert unlocked == keypair
    assert signatures.verify(scheme, keypair.public_key, b"m", unlocked.sign(b"m"))
    assert file.meta == META


@pytest.mark.parametrize("scheme", list(Scheme))
def test_our_files_open_in_substrate_interface(scheme: Scheme) -> None:
    keypair = keypair_from_suri("//Bob//x", scheme)
    text = keyfile.dump(keyfile.lock(keypair, "password", META, entropy=ENTROPY, scrypt_cost=CHEAP)).decode()
    theirs = PublicKeypair.create_from_encrypted_json(text, "password", ss58_format=42)
    assert theirs.public_key == keypair.public_key
    assert signatures.verify(scheme, keypair.public_key, b"m", theirs.sign(b"m"))


def test_a_file_of_substrate_interface_opens() -> None:
    theirs = PublicKeypair.create_from_uri("//Alice")
    file = keyfile.load(json.dumps(theirs.export_to_encrypted_json("password", "alice")).encode())
    assert keyfile.unlock(file, "password") == ALICE


@pytest.mark.parametrize("password", ["", "Password", "password "])
def test_wrong_password(password: str) -> None:
    with pytest.raises(CannotUnlockError, match="damaged"):
        keyfile.unlock(FILE, password)


@given(bit=st.integers(0, 8 * len(FILE.sealed) - 1))
@settings(max_examples=settings().max_examples // 6, deadline=None)
def test_every_flipped_bit_gives_the_message_of_a_wrong_password(bit: int) -> None:
    flipped = (int.from_bytes(FILE.sealed, "big") ^ 1 << bit).to_bytes(len(FILE.sealed), "big")
    with pytest.raises(CannotUnlockError) as damaged:
        keyfile.unlock(KeyFile(FILE.account, FILE.scheme, flipped, META), "password")
    assert str(damaged.value) == message_of_a_wrong_password()


@cache
def message_of_a_wrong_password() -> str:
    with pytest.raises(CannotUnlockError) as wrong:
        keyfile.unlock(FILE, "wrong")
    return str(wrong.value)


@pytest.mark.parametrize("size", [0, 31, 32, 43, 44, 67, len(FILE.sealed) - 1, len(FILE.sealed) + 1])
def test_wrong_sizes(size: int) -> None:
    sealed = FILE.sealed[:size].ljust(size, b"\0")
    with pytest.raises(CannotUnlockError):
        keyfile.unlock(KeyFile(FILE.account, FILE.scheme, sealed, META), "password")


@pytest.mark.parametrize(
    "cost",
    [ScryptCost(1 << 30, 1, 8), ScryptCost(1 << 17, 1 << 20, 8), ScryptCost(1 << 17, 1, 1 << 20), ScryptCost(2, 1, 8)],
)
def test_costs_off_the_list_are_refused_before_any_work(cost: ScryptCost, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cost not in ALLOWED_COSTS
    monkeypatch.setattr(keyfile, "_stretch", lambda *_: pytest.fail("memory was taken"))
    sealed = FILE.sealed[:32] + keyfile._COST_LAYOUT.pack(*cost) + FILE.sealed[44:]
    with pytest.raises(CannotUnlockError):
        keyfile.unlock(KeyFile(FILE.account, FILE.scheme, sealed, META), "password")


@pytest.mark.parametrize("scheme", list(Scheme))
def test_an_address_of_another_key_is_noticed(scheme: Scheme) -> None:
    """The address is in the clear. If exchanged, it would receive money that the owner sends to himself."""
    with pytest.raises(CannotUnlockError):
        keyfile.unlock(KeyFile(keypair_from_suri("//Bob").account, scheme, FILE.sealed, META), "password")


def test_a_scheme_of_another_key_is_noticed() -> None:
    with pytest.raises(CannotUnlockError):
        keyfile.unlock(KeyFile(ALICE.account, Scheme.ED25519, FILE.sealed, META), "password")


def changed(**changes: Any) -> bytes:
    fields = json.loads(keyfile.dump(FILE))
    for path, value in changes.items():
        target = fields["encoding"] if path in fields["encoding"] else fields
        target[path] = value
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"null",
        b"[" * 5000,
        keyfile.dump(FILE)[:-20],
        changed(version="99"),
        changed(type=["argon2", "xsalsa20-poly1305"]),
        changed(type="none"),
        changed(content=["pkcs8", "ecdsa"]),
        changed(content=["pkcs8"]),
        changed(content=7),
        changed(encoding=None),
        changed(encoded="not base64!"),
        changed(encoded=7),
        changed(address="5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQZ"),
        changed(address=["5"]),
        changed(meta=[]),
        b" " * (keyfile.MAX_FILE_BYTES + 1),
    ],
)
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(KeyFileError):
        keyfile.load(data)


def test_the_secret_is_not_in_the_file() -> None:
    data = keyfile.dump(FILE)
    sealed = base64.b64decode(json.loads(data)["encoded"])
    for secret in (ALICE.secret_key, ALICE.secret_key[:32], ALICE.secret_key[32:], b"password"):
        assert secret not in sealed
        assert secret.hex().encode() not in data


def test_keys_are_sealed_under_the_default_cost() -> None:
    file = keyfile.lock(Keypair.from_seed(Scheme.ED25519, bytes(32)), "p", {}, entropy=ENTROPY)
    assert file.sealed[32:44] == (1 << 17).to_bytes(4, "little") + bytes([1, 0, 0, 0, 8, 0, 0, 0])
    assert file.name == ""


SEALED = ["scrypt", "xsalsa20-poly1305"]
OTHER_KINDS = {
    "batch": ({"content": ["batch-pkcs8"], "type": SEALED, "version": "3"}, "several"),
    "unencrypted": ({"content": ["pkcs8", "sr25519"], "type": ["none"], "version": "3"}, "not encrypted"),
    "unencrypted as text": ({"content": ["pkcs8", "sr25519"], "type": "none", "version": "3"}, "not encrypted"),
    "ecdsa": ({"content": ["pkcs8", "ecdsa"], "type": SEALED, "version": "3"}, "ecdsa"),
    "ethereum": ({"content": ["pkcs8", "ethereum"], "type": SEALED, "version": "3"}, "ethereum"),
    "older": ({"content": ["pkcs8", "sr25519"], "type": "xsalsa20-poly1305", "version": "2"}, "version 2"),
    "old": ({"content": ["pkcs8", "sr25519"], "type": "xsalsa20-poly1305", "version": "1"}, "version 1"),
    "oldest": ({"content": ["pkcs8", "sr25519"], "type": "xsalsa20-poly1305", "version": "0"}, "version 0"),
}  # fmt: skip


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_a_key_file_of_another_kind_is_named_as_it_is(kind: str) -> None:
    encoding, named = OTHER_KINDS[kind]
    fields = json.loads(keyfile.dump(FILE)) | {"encoding": encoding}
    for file in (fields, {name: value for name, value in fields.items() if name != "address"}):
        with pytest.raises(KeyFileError, match=named):
            keyfile.load(json.dumps(file).encode())


@pytest.mark.parametrize("encoding", [None, [], 3, {}, {"content": None, "type": 3, "version": []}, {"content": 3}])
def test_an_encoding_of_any_form_is_refused(encoding: object) -> None:
    with pytest.raises(KeyFileError):
        keyfile.load(json.dumps(json.loads(keyfile.dump(FILE)) | {"encoding": encoding}).encode())
