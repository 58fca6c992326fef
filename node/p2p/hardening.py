"""The parts of py-libp2p that this node uses, at one version, with corrections.

Used: peer ids, keys, the libp2p Noise XX handshake. Not used: host, swarm, resource manager, listener, dialer, yamux,
multistream negotiation, identify, GossipSub, DHT, relay, mDNS. docs/p2p.md lists the faults of version 0.8.1 that this
choice avoids. Invariant: `check_version` refuses to start with any other version, because each line here was read and
tested against that one.
"""

from importlib.metadata import version
from typing import Final

from libp2p.crypto.x25519 import create_new_key_pair as create_x25519_key_pair
from libp2p.network.connection.raw_connection import RawConnection
from libp2p.peer.id import ID
from libp2p.security.noise import patterns
from libp2p.security.noise.messages import NoiseHandshakePayload
from libp2p.security.noise.pb import noise_pb2
from libp2p.security.noise.transport import PROTOCOL_ID, Transport
from libp2p.security.secure_session import SecureSession
from nacl.bindings import crypto_core_ed25519_is_valid_point

from node.p2p.channel import BufferedTcp, ChannelClosed, SecureChannel
from node.p2p.identity import NodeIdentity, PeerId

SUPPORTED_LIBP2P: Final = "0.8.1"
NOISE: Final = str(PROTOCOL_ID)
_ED25519_KEY_PREFIX: Final = bytes.fromhex("08011220")
"""Protobuf of libp2p's PublicKey: type 1 (Ed25519), then 32 bytes."""
_ED25519_KEY_BYTES: Final = len(_ED25519_KEY_PREFIX) + 32


class UnsupportedLibp2p(Exception):
    """The installed py-libp2p is not the version against which this node was hardened."""


class HandshakeRefused(Exception):
    """The peer's Noise handshake is not acceptable."""


class Ed25519OnlyPayload(NoiseHandshakePayload):
    """A handshake payload that refuses every identity key except a sound Ed25519 one, before the library parses it.

    The library would load RSA keys of any size (seconds of CPU for one crafted key) and points of small order.
    """

    @classmethod
    def deserialize(cls, protobuf_bytes: bytes) -> NoiseHandshakePayload:
        """Return the payload of a handshake message. Raise `HandshakeRefused`, or the library's exceptions."""
        # Before the library parses it: `crypto/serialization.py` loads any kind and size of key.
        identity_key = bytes(noise_pb2.NoiseHandshakePayload.FromString(protobuf_bytes).identity_key)
        if len(identity_key) != _ED25519_KEY_BYTES or not identity_key.startswith(_ED25519_KEY_PREFIX):
            raise HandshakeRefused("peer key is not Ed25519")
        if not crypto_core_ed25519_is_valid_point(identity_key[len(_ED25519_KEY_PREFIX) :]):
            raise HandshakeRefused("peer key is not a sound curve point")
        return NoiseHandshakePayload.deserialize(protobuf_bytes)


def check_version(installed: str | None = None) -> None:
    """Raise `UnsupportedLibp2p` unless py-libp2p is exactly the hardened version."""
    found_version = version("libp2p") if installed is None else installed
    if found_version != SUPPORTED_LIBP2P:
        raise UnsupportedLibp2p(
            f"py-libp2p {found_version} is installed, this node is hardened against {SUPPORTED_LIBP2P} only; "
            f"run: pip install libp2p=={SUPPORTED_LIBP2P}"
        )


def apply() -> None:
    """Check the version and patch the library. A second call does nothing more."""
    check_version()
    patterns.NoiseHandshakePayload = Ed25519OnlyPayload


class NoiseUpgrade:
    """The upgrade of a TCP connection to an encrypted channel with an authenticated peer."""

    def __init__(self, identity: NodeIdentity) -> None:
        apply()
        self._noise_transport = Transport(identity.key_pair, create_x25519_key_pair().private_key)

    async def outbound(self, tcp: BufferedTcp, expected: PeerId) -> SecureChannel:
        """Upgrade as the dialer.

        Raise `HandshakeRefused` if the other end is not `expected`, `ChannelClosed` if it leaves.
        """
        raw = RawConnection(tcp, True)
        try:
            session = await self._noise_transport.secure_outbound(raw, ID.from_base58(expected))
        except ChannelClosed:
            raise
        except Exception as error:
            raise HandshakeRefused(f"noise handshake failed: {error!r}") from error
        return self._secure_channel(tcp, session)[0]

    async def inbound(self, tcp: BufferedTcp) -> tuple[SecureChannel, PeerId]:
        """Upgrade as the listener, and return the channel and the peer's id. Raise the errors of `outbound`."""
        raw = RawConnection(tcp, False)
        try:
            session = await self._noise_transport.secure_inbound(raw)
        except ChannelClosed:
            raise
        except Exception as error:
            raise HandshakeRefused(f"noise handshake failed: {error!r}") from error
        return self._secure_channel(tcp, session)

    @staticmethod
    def _secure_channel(tcp: BufferedTcp, session: object) -> tuple[SecureChannel, PeerId]:
        if not isinstance(session, SecureSession):
            raise UnsupportedLibp2p("noise handshake returned an unknown kind of session")
        noise_cipher = getattr(session.conn, "noise_state")  # noqa: B009 - not in the declared type
        # The peer is authenticated: from here on its rates and its account bound its bytes.
        tcp.lift_cap()
        return SecureChannel(tcp, noise_cipher), session.get_remote_peer().to_base58()
