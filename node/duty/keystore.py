"""The keys with which a node signs: the session key (votes, headers) and the VRF key (slots).

Invariant: each key has one file, named by the hex of its type (4 bytes) and its public key. The file is a JSON string
with the secret, in Substrate's layout. Only the owner can read it. A key that can spend money does not belong here.

A secret is a 32-byte hex seed, `0x...`. `key insert` derives the seed from a phrase or path, so the node derives
nothing at its start.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from node.durable import read_private
from node.errors import BadInputError
from runtime.cryptography.signatures import SEED_BYTES, Scheme, keypair_from_seed
from wallet import private_file

SESSION = b"ogpu"
VRF = b"ogvr"
KEY_TYPES = {"ogpu": SESSION, "ogvr": VRF}
FILE_BYTES_LIMIT = 1_024


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An ed25519 key pair. `secret` never appears in a print or a log."""

    public: bytes
    seed: Secret
    secret: Secret

    @classmethod
    def from_seed(cls, seed: bytes) -> KeyPair:
        """Return the key pair of a 32-byte seed."""
        public, secret = keypair_from_seed(Scheme.ED25519, seed)
        return cls(public, Secret(seed), Secret(secret))


class Secret(bytes):
    """Bytes whose text form hides their content."""

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__


class Keystore:
    """The key files in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def insert(self, key_type: bytes, seed: bytes) -> bytes:
        """Store a key and return its public half; a key that is stored already stays."""
        pair = KeyPair.from_seed(seed)
        path = self._key_path(key_type, pair.public)
        if not path.exists():
            private_file.replace(path, json.dumps("0x" + seed.hex()).encode())
        return pair.public

    def public_keys(self, key_type: bytes) -> list[bytes]:
        """Return the public keys of one type, in order."""
        type_prefix = key_type.hex()
        file_names = sorted(path.name for path in self.folder.glob(f"{type_prefix}*")) if self.folder.is_dir() else []
        return [
            bytes.fromhex(file_name[len(type_prefix) :])
            for file_name in file_names
            if len(file_name) == len(type_prefix) + 64
        ]

    def changed_at(self) -> int:
        """Return the time of the last change of the folder, in nanoseconds; 0 if there is no folder."""
        try:
            return self.folder.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def pair(self, key_type: bytes, public: bytes) -> KeyPair | None:
        """Return the key pair of a public key, or None.

        Raise `BadInputError` if the file is damaged or readable by other users.
        """
        path = self._key_path(key_type, public)
        try:
            seed_text = read_private(path, FILE_BYTES_LIMIT)
        except FileNotFoundError:
            return None
        try:
            seed = bytes.fromhex(json.loads(seed_text).removeprefix("0x"))
        # RecursionError: deeply nested JSON in a damaged file.
        except (ValueError, AttributeError, RecursionError):
            seed = b""
        if len(seed) != SEED_BYTES or (key_pair := KeyPair.from_seed(seed)).public != public:
            raise BadInputError(f"{path} does not hold the key of its name. Remove the file and insert the key again")
        return key_pair

    def _key_path(self, key_type: bytes, public: bytes) -> Path:
        return self.folder / (key_type.hex() + public.hex())
