"""Encrypted key files in polkadot.js' JSON format, version 3, which this wallet and browser wallets exchange.

    encoded = base64( salt 32 || N, p, r as u32 || nonce 24 || secretbox( pkcs8 ) )    key = scrypt(password)[:32]
    pkcs8   = header 16 || secret 64 || divider 5 || public key 32

Format: @polkadot/keyring (pair/encode.ts) and @polkadot/util-crypto (scrypt, xsalsa20-poly1305). Invariants: the cost
parameters are checked against a list before any memory is taken. The address is checked against the unlocked key. A
wrong password and a damaged file give the same message.
"""

import base64
import binascii
import hashlib
import json
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

from runtime.cryptography import ss58
from runtime.cryptography.signatures import Scheme, secret_key_from_expanded, secret_key_to_expanded
from wallet.errors import CannotUnlockError, KeyFileError
from wallet.keypair import Keypair

MAX_FILE_BYTES = 64 * 1024
VERSION = "3"
OLDER_VERSIONS = ("0", "1", "2")
SCHEME_NAMES = {Scheme.ED25519: "ed25519", Scheme.SR25519: "sr25519"}


class ScryptCost(NamedTuple):
    """Parameters of scrypt (RFC 7914) in the order of the file; 128 * n * r bytes of memory."""

    n: int
    p: int
    r: int


# polkadot.js' own list of parameters. A file from a stranger could otherwise demand any amount of memory.
ALLOWED_COSTS = frozenset(
    ScryptCost(1 << log_n, p, 8) for log_n, p in ((13, 10), (14, 5), (15, 1), (15, 3), (16, 2), (17, 1))
)
DEFAULT_COST = ScryptCost(1 << 17, 1, 8)  # 128 MiB, about half a second

_COST_LAYOUT = struct.Struct("<III")
_SALT_BYTES = 32
_PKCS8_HEADER = bytes([48, 83, 2, 1, 1, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32])
_PKCS8_DIVIDER = bytes([161, 35, 3, 33, 0])
_SECRET_BYTES = 64
_PLAIN_BYTES = len(_PKCS8_HEADER) + _SECRET_BYTES + len(_PKCS8_DIVIDER) + 32
# OpenSSL's default limit of 32 MiB is below the memory of these costs.
_SCRYPT_MEMORY_BYTES = 256 * 1024 * 1024
_CANNOT_UNLOCK = "the key stays locked: the password is wrong, or the key file is damaged"


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A locked key: account, scheme and notes (name, time of creation) in the clear, the rest sealed."""

    account: bytes
    scheme: Scheme
    sealed: bytes = field(repr=False)
    meta: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The owner's name for it, or an empty text."""
        stored_name = self.meta.get("name")
        return stored_name if isinstance(stored_name, str) else ""


def lock(
    keypair: Keypair,
    password: str,
    metadata: Mapping[str, Any],
    *,
    entropy: bytes,
    scrypt_cost: ScryptCost = DEFAULT_COST,
) -> KeyFile:
    """Seal a key with a password; `entropy` is 56 fresh random bytes, for salt and nonce."""
    salt, box_nonce = entropy[:_SALT_BYTES], entropy[_SALT_BYTES:]
    # polkadot.js stores 64 bytes of secret, also for a key that comes from a seed of 32 bytes.
    expanded_secret = secret_key_to_expanded(keypair.scheme, keypair.secret_key)
    plain_bytes = _PKCS8_HEADER + expanded_secret + _PKCS8_DIVIDER + keypair.public_key
    sealed_key = SecretBox(_stretch(password, salt, scrypt_cost)).encrypt(plain_bytes, box_nonce)
    return KeyFile(
        keypair.public_key, keypair.scheme, salt + _COST_LAYOUT.pack(*scrypt_cost) + bytes(sealed_key), dict(metadata)
    )


def unlock(key_file: KeyFile, password: str, *other_passwords: str) -> Keypair:
    """Return the key inside, unlocked with the first password that fits.

    Raise CannotUnlockError, with one message for a wrong password and for damage.
    """
    if not other_passwords:
        return _unlock(key_file, password)
    with suppress(CannotUnlockError):
        return _unlock(key_file, password)
    return unlock(key_file, *other_passwords)


def _unlock(key_file: KeyFile, password: str) -> Keypair:
    sealed_start = _SALT_BYTES + _COST_LAYOUT.size
    # The exact length first: the offsets below rely on it.
    if len(key_file.sealed) != sealed_start + SecretBox.NONCE_SIZE + SecretBox.MACBYTES + _PLAIN_BYTES:
        raise CannotUnlockError(_CANNOT_UNLOCK)
    scrypt_cost = ScryptCost(*_COST_LAYOUT.unpack_from(key_file.sealed, _SALT_BYTES))
    if scrypt_cost not in ALLOWED_COSTS:
        raise CannotUnlockError(_CANNOT_UNLOCK)
    try:
        plain_bytes = SecretBox(_stretch(password, key_file.sealed[:_SALT_BYTES], scrypt_cost)).decrypt(
            key_file.sealed[sealed_start:]
        )
    except CryptoError:
        raise CannotUnlockError(_CANNOT_UNLOCK) from None
    return _parse_plain(key_file, plain_bytes)


def dump(key_file: KeyFile) -> bytes:
    """Return the JSON text of a key file."""
    json_fields = {
        "encoded": base64.b64encode(key_file.sealed).decode(),
        "encoding": {
            "content": ["pkcs8", SCHEME_NAMES[key_file.scheme]],
            "type": ["scrypt", "xsalsa20-poly1305"],
            "version": VERSION,
        },
        "address": ss58.encode(key_file.account),
        "meta": dict(key_file.meta),
    }
    return json.dumps(json_fields, indent=2, ensure_ascii=False).encode() + b"\n"


def load(file_bytes: bytes) -> KeyFile:
    """Read a key file's JSON text, ours or polkadot.js', without its password. Raise KeyFileError for other text."""
    if len(file_bytes) > MAX_FILE_BYTES:
        raise KeyFileError(f"a key file has at most {MAX_FILE_BYTES:,} bytes", code="not_a_key_file")
    try:
        json_fields = json.loads(file_bytes)
        unsupported_kind = _other_kind(json_fields)
        if unsupported_kind is not None:
            raise KeyFileError(unsupported_kind, code="other_key_file")
        sealed = base64.b64decode(json_fields["encoded"], validate=True)
        # Any prefix: a browser wallet may write the address in the form of another network.
        account = ss58.decode(json_fields["address"], prefix=None)
        metadata = json_fields.get("meta", {})
        scheme = _scheme(json_fields["encoding"])
    # A few kilobytes of nested brackets make `json.loads` raise RecursionError.
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError, binascii.Error):
        raise KeyFileError(
            "this is not a key file in polkadot.js' JSON format, version 3", code="not_a_key_file"
        ) from None
    if not isinstance(metadata, dict):
        raise KeyFileError("`meta` of the key file is not a JSON object", code="not_a_key_file")
    return KeyFile(account, scheme, sealed, cast("dict[str, Any]", metadata))


def _other_kind(json_fields: dict[str, Any]) -> str | None:
    """Return the kind of an unsupported polkadot.js key file, and the remedy; None for a supported one."""
    encoding = json_fields["encoding"]
    content, wrapping = encoding["content"], encoding["type"]
    if "batch-pkcs8" in content:
        return "this is polkadot.js' export of several accounts. Export each account by itself, and import those files"
    if "none" in wrapping:
        return "the key in this file is not encrypted. Set a password in polkadot.js, and export it again"
    other_scheme = next((scheme_name for scheme_name in ("ecdsa", "ethereum") if scheme_name in content), None)
    if other_scheme is not None:
        scheme_names = " or ".join(SCHEME_NAMES.values())
        return f"this is an {other_scheme} key, and accounts here are {scheme_names}. Make a key with `new`"
    if encoding["version"] in OLDER_VERSIONS:
        return (
            f"this file has version {encoding['version']}, and must have version {VERSION}. Import it into "
            "polkadot.js, and export it there again"
        )
    return None


def _scheme(encoding: dict[str, Any]) -> Scheme:
    """Return the scheme of an encrypted pkcs8 file. Raise ValueError or KeyError for every other kind of file."""
    content_kind, scheme_name = encoding["content"]
    if content_kind != "pkcs8" or encoding["type"] != ["scrypt", "xsalsa20-poly1305"] or encoding["version"] != VERSION:
        raise ValueError("another format")
    return {known_scheme_name: scheme for scheme, known_scheme_name in SCHEME_NAMES.items()}[scheme_name]


def _stretch(password: str, salt: bytes, scrypt_cost: ScryptCost) -> bytes:
    """Return the key of a password; bytes from a terminal that are no UTF-8 count unchanged."""
    password_bytes = password.encode(errors="surrogateescape")
    n, p, r = scrypt_cost
    return hashlib.scrypt(
        password_bytes, salt=salt, n=n, r=r, p=p, maxmem=_SCRYPT_MEMORY_BYTES, dklen=SecretBox.KEY_SIZE
    )


def _parse_plain(key_file: KeyFile, plain_bytes: bytes) -> Keypair:
    """Return the key in unlocked bytes. Raise CannotUnlockError if it is not the address's key."""
    secret_end = len(_PKCS8_HEADER) + _SECRET_BYTES
    expanded_secret, remaining_bytes = plain_bytes[len(_PKCS8_HEADER) : secret_end], plain_bytes[secret_end:]
    if not plain_bytes.startswith(_PKCS8_HEADER) or remaining_bytes != _PKCS8_DIVIDER + key_file.account:
        raise CannotUnlockError(_CANNOT_UNLOCK)
    try:
        public_key, secret_key = secret_key_from_expanded(key_file.scheme, expanded_secret)
    except ValueError:
        raise CannotUnlockError(_CANNOT_UNLOCK) from None
    # The secret key may differ from the public key beside it: only this check ties the file to its account.
    if public_key != key_file.account:
        raise CannotUnlockError(_CANNOT_UNLOCK)
    return Keypair(key_file.scheme, public_key, secret_key)
