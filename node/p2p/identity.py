"""The node key: an ed25519 key in a file of its own, which names this node on the network.

Invariant: the file is readable by its owner only, is created whole or not at all, and is never overwritten. The key is
neither a money key nor a validator key: without it the node only gets another name.
"""

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.keys import KeyPair
from libp2p.peer.id import ID

SEED_BYTES: Final = 32
_OWNER_ONLY: Final = 0o600

PeerId = str
"""A libp2p peer id in base58 (``12D3Koo...``); all of ours are ed25519, so comparing strings compares the ids."""


class IdentityError(Exception):
    """The node key file cannot be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """The key pair of this node and its peer id."""

    key_pair: KeyPair
    peer_id: PeerId


def identity_from_seed(seed: bytes) -> NodeIdentity:
    """Return the identity of a 32-byte ed25519 seed. Raise `IdentityError` for another length."""
    if len(seed) != SEED_BYTES:
        raise IdentityError(f"a node key is {SEED_BYTES} bytes, not {len(seed)}")
    pair = create_new_key_pair(seed)
    return NodeIdentity(pair, ID.from_pubkey(pair.public_key).to_base58())


def load_or_create(path: Path) -> NodeIdentity:
    """Return the identity in the key file at `path` (64 hex digits), which is created if it is missing.

    Raise `IdentityError` if the file is readable by others or malformed.
    """
    if not path.exists():
        _create_key_file(path)
    file_mode = stat.S_IMODE(path.stat().st_mode)
    if file_mode & 0o077:
        raise IdentityError(f"{path} can be read by others (mode {file_mode:o}). Run `chmod 600 {path}`")
    try:
        seed = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except ValueError as error:
        raise IdentityError(f"{path} does not hold a hex node key") from error
    if len(seed) != SEED_BYTES:
        raise IdentityError(
            f"{path} holds {len(seed)} bytes, but a node key has {SEED_BYTES}. Restore the file, or "
            "remove it to give the node a new identity"
        )
    return identity_from_seed(seed)


def _create_key_file(path: Path) -> None:
    """Write a new key to a draft and link it into place, so that two starts at once agree on one key."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(os.urandom(SEED_BYTES).hex() + "\n")
            file.flush()
            # On the disk before it has its name: after a crash the file is whole, or not there.
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            # Unlike a rename, a link refuses to replace the key of another start.
            os.link(draft, path)
    finally:
        draft.unlink()
