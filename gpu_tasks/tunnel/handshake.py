"""The handshake of a tunnel: Noise KK, in which both sides know both static keys in advance.

The customer's static key is the key to which its outputs are sealed, from the sealed request. The provider's static key
is its seal key on the chain.

* Forward secrecy: both sides add an ephemeral key, so a recording cannot be decrypted later.
* Replay: an attacker that repeats a first message cannot read the answer, and so cannot seal the record that must
  follow.
* Binding: the prologue names chain, target and provider, so no message of one tunnel is valid in another.

Noise: revision 34, pattern KK, 25519, ChaChaPoly, BLAKE2b (https://noiseprotocol.org/noise.html).
"""

from __future__ import annotations

from dataclasses import dataclass

from noise.connection import Keypair as NoiseKeypair
from noise.connection import NoiseConnection
from noise.exceptions import NoiseHandshakeError, NoiseInvalidMessage, NoiseMaxNonceError, NoiseValueError

from gpu_tasks.data.sealing import SealKey
from runtime.cryptography.signing import domain

PROTOCOL = b"Noise_KK_25519_ChaChaPoly_BLAKE2b"
KIND = b"tunnel"
HANDSHAKE_BYTES = 48
"""The length of each of the two messages: an ephemeral key and a tag."""
RECORD_BYTES_MAX = 65_535
TAG_BYTES = 16
_ERRORS = (NoiseHandshakeError, NoiseInvalidMessage, NoiseMaxNonceError, NoiseValueError, ValueError, TypeError)


READY = b"ready"
"""The customer's first sealed record. It proves that the customer did not only replay a recorded handshake message."""


class TunnelKeyError(Exception):
    """The other side does not have the expected key, or a message was changed in transit."""


@dataclass(frozen=True, slots=True)
class TunnelName:
    """The identity of a tunnel: chain, target and provider."""

    genesis: bytes
    target: bytes
    """The id of a task or session."""
    provider: bytes
    """The provider's stash."""

    @property
    def prologue(self) -> bytes:
        """The bytes that both sides bind the handshake to."""
        return domain(KIND, self.genesis, self.target + self.provider)


class SealedLine:
    """One end of a tunnel. It seals and opens messages, each once and in order."""

    def __init__(self, name: TunnelName, own_key: SealKey, other_key: bytes, *, is_customer: bool) -> None:
        """Begin a handshake with the public key `other_key` of the other side. Raise ValueError if that is no key."""
        noise = NoiseConnection.from_name(PROTOCOL)
        (noise.set_as_initiator if is_customer else noise.set_as_responder)()
        noise.set_prologue(name.prologue)
        noise.set_keypair_from_private_bytes(NoiseKeypair.STATIC, own_key.lent())
        noise.set_keypair_from_public_bytes(NoiseKeypair.REMOTE_STATIC, other_key)
        noise.start_handshake()
        self._noise_connection = noise

    def hello(self) -> bytes:
        """Return this side's handshake message. The customer sends first."""
        return bytes(self._noise_connection.write_message())

    def hear(self, message: bytes) -> None:
        """Read the other side's handshake message. Raise TunnelKeyError if it is wrong."""
        # A message of exact size carries no payload, which a stranger could otherwise send before its key is proven.
        if len(message) != HANDSHAKE_BYTES:
            raise TunnelKeyError("not the handshake of a tunnel")
        try:
            payload = self._noise_connection.read_message(message)
        except _ERRORS as error:
            raise TunnelKeyError("the other side has an unexpected key") from error
        except Exception as error:  # the cryptographic library's own error for a wrong tag
            if type(error).__name__ != "InvalidTag":
                raise
            raise TunnelKeyError("the other side has an unexpected key") from error
        if payload:
            raise TunnelKeyError("the handshake has unexpected content")

    def seal(self, content: bytes) -> bytes:
        """Return the sealed record of some content."""
        return bytes(self._noise_connection.encrypt(content))

    def open(self, record: bytes) -> bytes:
        """Return the content of the next record. Raise TunnelKeyError if a record was changed, repeated or left out."""
        if not TAG_BYTES < len(record) <= RECORD_BYTES_MAX:
            raise TunnelKeyError(f"a record of {len(record)} bytes")
        try:
            return bytes(self._noise_connection.decrypt(record))
        except _ERRORS as error:
            raise TunnelKeyError("a record was changed in transit") from error
