"""The keys a node signs with: its session key (votes, headers) and its VRF key (slots).

Invariant: one file for each key, named by the hex of its type (4 bytes) and its public key, holding a JSON
string with the secret, as Substrate lays it out; nobody but the owner can read it. No key that could spend anything
belongs here.

A secret is a 32-byte hex seed, `0x...`; `key insert` derives it from a phrase or path, so that nothing has to be
derived at start.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from node.durable import read_private, write_durably
from node.errors import BadInputError
from runtime.cryptography.signatures import SEED_BYTES, Scheme, keypair_from_seed

SESSION = b"ogpu"
VRF = b"ogvr"
KEY_TYPES = {"ogpu": SESSION, "ogvr": VRF}
FILE_BYTES_LIMIT = 1_024


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An ed25519 key; `secret` never shows in a print or a log."""

    public: bytes
    seed: Secret
    secret: Secret

    @classmethod
    def from_seed(cls, seed: bytes) -> KeyPair:
        """Return the pair of a 32-byte seed."""
        public, secret = keypair_from_seed(Scheme.ED25519, seed)
        return cls(public, Secret(seed), Secret(secret))


class Secret(bytes):
    """Bytes whose text form is not their content."""

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__


class Keystore:
    """The key files in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def insert(self, key_type: bytes, seed: bytes) -> bytes:
        """Store a key -> its public half. The same key may be stored again."""
        pair = KeyPair.from_seed(seed)
        path = self._path(key_type, pair.public)
        if not path.exists():
            write_durably(path, json.dumps("0x" + seed.hex()).encode())
        return pair.public

    def public_keys(self, key_type: bytes) -> list[bytes]:
        """Return the public keys of one type, in order."""
        prefix = key_type.hex()
        names = sorted(path.name for path in self.folder.glob(f"{prefix}*")) if self.folder.is_dir() else []
        return [bytes.fromhex(name[len(prefix) :]) for name in names if len(name) == len(prefix) + 64]

    def changed_at(self) -> int:
        """When a key came or went last, in nanoseconds; 0 where there is no folder yet."""
        try:
            return self.folder.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def pair(self, key_type: bytes, public: bytes) -> KeyPair | None:
        """Return the key with that public half, or None.

        Raise `BadInputError` for a file that is damaged or open to others.
        """
        path = self._path(key_type, public)
        try:
            text = read_private(path, FILE_BYTES_LIMIT)
        except FileNotFoundError:
            return None
        try:
            seed = bytes.fromhex(json.loads(text).removeprefix("0x"))
        except (ValueError, AttributeError, RecursionError):
            seed = b""
        if len(seed) != SEED_BYTES or (pair := KeyPair.from_seed(seed)).public != public:
            raise BadInputError(f"{path} does not hold the key that its name says: remove it and insert the key again")
        return pair

    def _path(self, key_type: bytes, public: bytes) -> Path:
        return self.folder / (key_type.hex() + public.hex())
