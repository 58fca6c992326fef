"""Sealed blobs: content encrypted once, its key sealed to each reader.

    blob = SCALE(version, boxes, nonce, ciphertext)        address = blake2-256 of the blob

* The content key is 32 random bytes. A box is that key in a libsodium sealed box (X25519), 80 bytes. Its ephemeral
  secret is blake2b-256(reader; key = content key, person = "ogpu box"). The reader of one box can thus compute every
  other, and sees whether a rightful reader was left out.
* The content is under XChaCha20-Poly1305, with the boxes as associated data, so that the readers cannot be exchanged.
  The nonce is blake2b-192(content key, person = "ogpu nonce"), so that a blob has one content key. A box with another
  key is skipped, and all readers open the same content.
* A box has no name. A reader tries each, at about 40 us, and an outsider learns only the number of readers.

This does not hide the length of the content, the number of readers, or that the readers can read it.
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
from wallet.errors import CodedError
from wallet.keypair import Keypair

VERSION = 3
CONTENT_BYTES_MAX = 1024 * 1024
LARGE_CONTENT_BYTES_MAX = 16 * 1024 * 1024 + 256
"""The limit of a unit's input, which is stored in pieces: the requests of a batch with their encoding."""
READERS_MAX = 256
BOX_BYTES = 80
NOTE_SEAL_BYTES = 48
"""The growth of a note by sealing."""
KEY_BYTES = 32
NONCE_BYTES = 24
TAG_BYTES = 16
SEALING_BYTES_MAX = TAG_BYTES + READERS_MAX * BOX_BYTES + 64
"""The greatest growth of content by sealing."""
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


class SealError(CodedError, ValueError):
    """The key cannot open the blob: it is not sealed to it, is damaged, or is no blob."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An opened blob: its content, its key, and the boxes that show its other readers."""

    content: bytes
    key: bytes
    boxes: tuple[bytes, ...]

    def left_out(self, reader_keys: Iterable[bytes]) -> list[bytes]:
        """Return the readers without a box or with a wrong one, at about 0.1 ms for each."""
        boxes = dict.fromkeys(self.boxes)
        # The whole box: one with the right ephemeral key may still hold another content key.
        return [reader for reader in reader_keys if _key_box(self.key, reader) not in boxes]


class SealKey:
    """An X25519 key pair. Only `lent` gives out the secret half."""

    def __init__(self, secret: bytes) -> None:
        """Take a secret of 32 bytes."""
        self._secret = secret
        self.public: bytes = crypto_scalarmult_base(secret)

    @classmethod
    def from_seed(cls, seed: bytes) -> SealKey:
        """Return the key of a signing seed."""
        return cls(seal_keypair_from_seed(seed)[1])

    @classmethod
    def of(cls, key: Keypair) -> SealKey:
        """Return the key with which a provider or customer opens blobs. It follows from the signing key."""
        return cls.from_seed(key.secret_key[:32])

    def __repr__(self) -> str:
        """Show only the public half."""
        return f"SealKey({self.public.hex()})"

    def lent(self) -> bytes:
        """Return the secret half, for the handshake of a tunnel and nothing else."""
        return self._secret

    def open(self, sealed: bytes) -> bytes:
        """Return the content of a blob that was sealed to this key. Raise `SealError` if it cannot be opened."""
        return self.opened(sealed).content

    def opened(self, blob: bytes) -> Opened:
        """Open as `open`, and return also the key and the boxes, which show the other readers."""
        sealed = _read(blob)
        return _opened(sealed, self._content_key(sealed.boxes, sealed.nonce))

    def open_note(self, sealed: bytes) -> bytes:
        """Return the text that `seal_note` sealed to this key. Raise `SealError` for any other."""
        try:
            plain: bytes = crypto_box_seal_open(sealed, self.public, self._secret)
        except (CryptoError, ValueError, TypeError):
            raise SealError("the note is not sealed to this key", code="other_key") from None
        return plain

    def _content_key(self, boxes: Iterable[bytes], nonce: bytes) -> bytes:
        for box in boxes:
            try:
                opened: bytes = crypto_box_seal_open(box, self.public, self._secret)
            except CryptoError:
                continue
            # A sender could put different keys into the boxes, and show each reader other content.
            if _nonce_of(opened) == nonce:
                return opened
        raise SealError("the blob is not sealed to this key", code="other_key")


def opened_with(content_key: bytes, blob: bytes) -> Opened:
    """Open a blob with its content key, which a reader handed out. Raise `SealError` for another key."""
    sealed = _read(blob)
    if _nonce_of(content_key) != sealed.nonce:
        raise SealError("the blob has another content key", code="other_key")
    return _opened(sealed, content_key)


def _read(blob: bytes) -> _Blob:
    try:
        sealed: _Blob = _BLOB.decode(blob)
    except DecodeError as error:
        raise SealError(f"not a sealed blob: {error}", code="not_a_blob") from None
    if sealed.version != VERSION:
        text = f"sealed blob of version {sealed.version}; this program reads version {VERSION}"
        raise SealError(text, code="unknown_version")
    return sealed


def _opened(sealed: _Blob, content_key: bytes) -> Opened:
    associated = _BOXES.encode(sealed.boxes)
    try:
        content = crypto_aead_xchacha20poly1305_ietf_decrypt(sealed.ciphertext, associated, sealed.nonce, content_key)
    except (CryptoError, ValueError, TypeError) as error:
        raise SealError("the blob is damaged", code="damaged") from error
    return Opened(content, content_key, sealed.boxes)


def seal(content: bytes, readers: Iterable[bytes], bytes_max: int = CONTENT_BYTES_MAX) -> bytes:
    """Return a blob of `content` that exactly `readers` (X25519 public keys) can open.

    `pieces` stores a blob that is too long. Raise ValueError for too much content, no reader or too many, or an
    unusable key (`is_usable`).
    """
    # Sorted and distinct, so that the boxes show neither who was named first nor who was named twice.
    reader_keys = sorted({bytes(reader) for reader in readers})
    if len(content) > bytes_max:
        raise ValueError(f"a blob holds at most {bytes_max:,} bytes, not {len(content):,}")
    if not 1 <= len(reader_keys) <= READERS_MAX:
        raise ValueError(f"a blob has 1 to {READERS_MAX} readers, not {len(reader_keys)}")
    content_key = os.urandom(KEY_BYTES)
    nonce = _nonce_of(content_key)  # Used once, as the key is
    try:
        boxes = tuple(_key_box(content_key, reader) for reader in reader_keys)
    except CryptoError:
        raise ValueError("a reader's key is not an X25519 key") from None
    ciphertext = crypto_aead_xchacha20poly1305_ietf_encrypt(content, _BOXES.encode(boxes), nonce, content_key)
    return _BLOB.encode(_Blob(VERSION, boxes, nonce, ciphertext))


def seal_note(plain: bytes, reader: bytes) -> bytes:
    """Return a few bytes sealed to one reader, in a libsodium sealed box. Raise ValueError for an unusable key."""
    try:
        sealed: bytes = crypto_box_seal(plain, reader)
    except (CryptoError, TypeError):
        raise ValueError("the reader's key is not an X25519 key") from None
    return sealed


def _key_box(content_key: bytes, reader: bytes) -> bytes:
    """Return the one box of a content key for a reader: that of `crypto_box_seal`, with a derived ephemeral secret."""
    # Derived and not random: a holder of the content key can make the box again, and so see whether a reader got it.
    ephemeral_secret = blake2b(reader, key=content_key, person=b"ogpu box", digest_size=KEY_BYTES).digest()
    ephemeral_public: bytes = crypto_scalarmult_base(ephemeral_secret)
    box_nonce = blake2b(ephemeral_public + reader, digest_size=crypto_box_NONCEBYTES).digest()
    return ephemeral_public + crypto_box(content_key, box_nonce, reader, ephemeral_secret)


def _nonce_of(content_key: bytes) -> bytes:
    """Return the nonce of a content key. It commits to the key, because the cipher alone may open under two keys."""
    return blake2b(content_key, digest_size=NONCE_BYTES, person=b"ogpu nonce").digest()


def is_usable(reader: bytes) -> bool:
    """Return True if blobs can be sealed to this key.

    libsodium refuses points of small order, which anyone may register.
    """
    try:
        crypto_box_seal(bytes(KEY_BYTES), reader)
    except (CryptoError, ValueError, TypeError):
        return False
    return True


def address_of(blob: bytes) -> bytes:
    """Return the 32-byte address of a blob."""
    return blake2_256(blob)
