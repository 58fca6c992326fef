"""Sealed blobs: content encrypted once, its key sealed to each reader.

    blob = SCALE(version, boxes, nonce, ciphertext)        address = blake2-256 of the blob

* the content key is 32 random bytes; a box is that key in a libsodium sealed box (X25519), 80 bytes, whose ephemeral
  secret is blake2b-256(reader; key = content key, person = "ogpu box"): who opened one box can work out every other,
  and sees whether somebody who shall read was left out;
* the content is under XChaCha20-Poly1305, with the boxes as associated data, so that nobody can trade readers; the
  nonce is blake2b-192(content key, person = "ogpu nonce"), so that a blob has one content key: a box with another is
  passed over, and what one reader opens is what every other opens;
* a box carries no name: a reader tries each, at about 40 us, and an outsider learns only how many readers there are.

What this does not hide: the length of the content, the number of readers, and that the readers can read it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated

from nacl.bindings import (
    crypto_aead_xchacha20poly1305_ietf_decrypt,
    crypto_aead_xchacha20poly1305_ietf_encrypt,
    crypto_box,
    crypto_box_NONCEBYTES,
    crypto_box_seal,
    crypto_box_seal_open,
    crypto_scalarmult_base,
)
from nacl.exceptions import CryptoError

from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import seal_keypair_from_seed
from runtime.encoding.codec import U8, Bounded, DecodeError, Fixed, codec, struct
from wallet.keypair import Keypair

VERSION = 3
CONTENT_BYTES_MAX = 1024 * 1024
LARGE_CONTENT_BYTES_MAX = 16 * 1024 * 1024 + 256
"""Of the input of a unit, which travels in pieces: the requests of a batch, and what stands around them."""
READERS_MAX = 256
BOX_BYTES = 80
NOTE_SEAL_BYTES = 48
"""By so much a note grows that is sealed."""
KEY_BYTES = 32
NONCE_BYTES = 24
TAG_BYTES = 16
SEALING_BYTES_MAX = TAG_BYTES + READERS_MAX * BOX_BYTES + 64
"""By so much content grows at most that is sealed."""
BLOB_BYTES_MAX = CONTENT_BYTES_MAX + SEALING_BYTES_MAX

Boxes = Annotated[tuple[Annotated[bytes, Fixed(BOX_BYTES)], ...], Bounded(READERS_MAX)]


@struct
class _Blob:
    version: U8
    boxes: Boxes
    nonce: Annotated[bytes, Fixed(NONCE_BYTES)]
    ciphertext: Annotated[bytes, Bounded(LARGE_CONTENT_BYTES_MAX + TAG_BYTES)]


_BLOB = codec(_Blob)
_BOXES = codec(Boxes)


class SealError(ValueError):
    """A blob that cannot be opened with this key: not sealed to it, damaged, or no blob at all."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A blob that was opened: its content, and what shows who else can open it."""

    content: bytes
    key: bytes
    boxes: tuple[bytes, ...]

    def left_out(self, readers: Iterable[bytes]) -> list[bytes]:
        """Those who have no box or a wrong one, at about 0.1 ms for each that is asked about."""
        boxes = dict.fromkeys(self.boxes)
        return [reader for reader in readers if _box(self.key, reader) not in boxes]


class SealKey:
    """An X25519 key pair; the secret half stays inside."""

    def __init__(self, secret: bytes) -> None:
        """`secret` is 32 bytes."""
        self._secret = secret
        self.public: bytes = crypto_scalarmult_base(secret)

    @classmethod
    def from_seed(cls, seed: bytes) -> SealKey:
        """The key that belongs to a signing seed."""
        return cls(seal_keypair_from_seed(seed)[1])

    @classmethod
    def of(cls, key: Keypair) -> SealKey:
        """The key that a provider or customer opens blobs with; its signing key is all that has to be kept."""
        return cls.from_seed(key.secret_key[:32])

    def __repr__(self) -> str:
        """Only the public half."""
        return f"SealKey({self.public.hex()})"

    def lent(self) -> bytes:
        """The secret half, for the handshake of a tunnel and nothing else."""
        return self._secret

    def open(self, blob: bytes) -> bytes:
        """The content of a blob that was sealed to this key; `SealError` if it cannot be opened."""
        return self.opened(blob).content

    def opened(self, blob: bytes) -> Opened:
        """As `open`, with what shows who else can open it."""
        try:
            sealed = _BLOB.decode(blob)
        except DecodeError as error:
            raise SealError(f"not a sealed blob: {error}") from None
        if sealed.version != VERSION:
            raise SealError(f"sealed blob version {sealed.version} is unknown; this is version {VERSION}")
        key = self._content_key(sealed.boxes, sealed.nonce)
        associated = _BOXES.encode(sealed.boxes)
        try:
            content = crypto_aead_xchacha20poly1305_ietf_decrypt(sealed.ciphertext, associated, sealed.nonce, key)
        except (CryptoError, ValueError, TypeError) as error:
            raise SealError("the blob is damaged") from error
        return Opened(content, key, sealed.boxes)

    def open_note(self, sealed: bytes) -> bytes:
        """What `seal_note` sealed to this key; `SealError` if it was not."""
        try:
            plain: bytes = crypto_box_seal_open(sealed, self.public, self._secret)
        except (CryptoError, ValueError, TypeError):
            raise SealError("the note is not sealed to this key") from None
        return plain

    def _content_key(self, boxes: Iterable[bytes], nonce: bytes) -> bytes:
        for box in boxes:
            try:
                key: bytes = crypto_box_seal_open(box, self.public, self._secret)
            except CryptoError:
                continue
            if _nonce_of(key) == nonce:
                return key
        raise SealError("the blob is not sealed to this key")


def readers_of(blob: bytes) -> int:
    """For how many readers a blob has boxes; 0 for what is no sealed blob."""
    try:
        return len(_BLOB.decode(blob).boxes)
    except DecodeError:
        return 0


def seal(content: bytes, readers: Iterable[bytes], bytes_max: int = CONTENT_BYTES_MAX) -> bytes:
    """A blob of `content` that exactly `readers` (X25519 public keys) can open; `pieces` store what is too long.

    ValueError for too much content, for no readers or too many of them, or for a key that is none (`is_usable`).
    """
    keys = sorted({bytes(reader) for reader in readers})
    if len(content) > bytes_max:
        raise ValueError(f"a blob holds at most {bytes_max:,} bytes, not {len(content):,}")
    if not 1 <= len(keys) <= READERS_MAX:
        raise ValueError(f"a blob has 1 to {READERS_MAX} readers, not {len(keys)}")
    key = os.urandom(KEY_BYTES)
    nonce = _nonce_of(key)  # used once, as the key is
    try:
        boxes = tuple(_box(key, reader) for reader in keys)
    except CryptoError:
        raise ValueError("a reader's key is no X25519 key") from None
    ciphertext = crypto_aead_xchacha20poly1305_ietf_encrypt(content, _BOXES.encode(boxes), nonce, key)
    return _BLOB.encode(_Blob(VERSION, boxes, nonce, ciphertext))


def seal_note(plain: bytes, reader: bytes) -> bytes:
    """A few bytes for one reader alone, in a libsodium sealed box; ValueError for a key that is none."""
    try:
        sealed: bytes = crypto_box_seal(plain, reader)
    except (CryptoError, TypeError):
        raise ValueError("the reader's key is no X25519 key") from None
    return sealed


def _box(key: bytes, reader: bytes) -> bytes:
    """The one box of a content key for a reader: what `crypto_box_seal` makes, its ephemeral secret chosen by both."""
    secret = blake2b(reader, key=key, person=b"ogpu box", digest_size=KEY_BYTES).digest()
    public: bytes = crypto_scalarmult_base(secret)
    nonce = blake2b(public + reader, digest_size=crypto_box_NONCEBYTES).digest()
    return public + crypto_box(key, nonce, reader, secret)


def _nonce_of(key: bytes) -> bytes:
    """What shows that a blob is under this content key; the cipher itself may open under two."""
    return blake2b(key, digest_size=NONCE_BYTES, person=b"ogpu nonce").digest()


def is_usable(reader: bytes) -> bool:
    """Whether blobs can be sealed to this key: libsodium refuses points of small order, which anybody may register."""
    try:
        crypto_box_seal(bytes(KEY_BYTES), reader)
    except (CryptoError, ValueError, TypeError):
        return False
    return True


def address_of(blob: bytes) -> bytes:
    """The 32 bytes by which a blob is found."""
    return blake2_256(blob)
