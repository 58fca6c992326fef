"""The handshake of a tunnel: Noise KK, whose two static keys both sides know before.

The customer's is the key that its outputs are sealed to, which stands in the sealed request; the provider's is its
seal key on the chain. What was recorded opens nothing later, for both add a key of this connection; a first message
that is sent again opens nothing either, for who copied it cannot read the answer, and so cannot seal the record that
follows it. The prologue binds both to chain, task and provider, so that no message of one tunnel is good in another.

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
"""Of each of the two messages: a key, and a tag."""
RECORD_BYTES_MAX = 65_535
TAG_BYTES = 16
_ERRORS = (NoiseHandshakeError, NoiseInvalidMessage, NoiseMaxNonceError, NoiseValueError, ValueError, TypeError)


READY = b"ready"
"""What the customer seals first: who cannot, has copied its message."""


class TunnelKeyError(Exception):
    """The other side has not the key that it should have, or a message was changed on its way."""


@dataclass(frozen=True, slots=True)
class TunnelName:
    """What a tunnel is to: which chain, task and provider."""

    genesis: bytes
    task: bytes
    provider: bytes
    """Its stash."""

    @property
    def prologue(self) -> bytes:
        """What both sides bind themselves to."""
        return domain(KIND, self.genesis, self.task + self.provider)


class SealedLine:
    """One end of a tunnel: messages to seal, and to open, each once and in their order."""

    def __init__(self, name: TunnelName, own: SealKey, other: bytes, *, is_customer: bool) -> None:
        """`other` is the public key of the other side. ValueError where it is none."""
        noise = NoiseConnection.from_name(PROTOCOL)
        (noise.set_as_initiator if is_customer else noise.set_as_responder)()
        noise.set_prologue(name.prologue)
        noise.set_keypair_from_private_bytes(NoiseKeypair.STATIC, own.lent())
        noise.set_keypair_from_public_bytes(NoiseKeypair.REMOTE_STATIC, other)
        noise.start_handshake()
        self._noise = noise

    def hello(self) -> bytes:
        """This side's message of the handshake; the customer's is the first."""
        return bytes(self._noise.write_message())

    def hear(self, message: bytes) -> None:
        """The other side's message; TunnelKeyError."""
        if len(message) != HANDSHAKE_BYTES:
            raise TunnelKeyError("that is no handshake of a tunnel")
        try:
            said = self._noise.read_message(message)
        except _ERRORS as error:
            raise TunnelKeyError("the other side has another key than it should have") from error
        except Exception as error:  # what its cryptographic library raises for a tag that is wrong
            if type(error).__name__ != "InvalidTag":
                raise
            raise TunnelKeyError("the other side has another key than it should have") from error
        if said:
            raise TunnelKeyError("the handshake says more than it should")

    def seal(self, content: bytes) -> bytes:
        """A record."""
        return bytes(self._noise.encrypt(content))

    def open(self, record: bytes) -> bytes:
        """What is in the next record; TunnelKeyError for one that was changed, repeated, or left out."""
        if not TAG_BYTES < len(record) <= RECORD_BYTES_MAX:
            raise TunnelKeyError(f"a record has {len(record)} bytes")
        try:
            return bytes(self._noise.decrypt(record))
        except _ERRORS as error:
            raise TunnelKeyError("a record was changed on its way") from error
