"""The way from a socket to an accepted peer that sent its hello.

The dialler sends its hello first. The listener judges it and answers with its own hello, or with a goodbye that gives
the reason. So a connection is either up at both ends or at none. Invariants: the handshake ends within
`HANDSHAKE_SECONDS`. Every failure is `HandshakeFailed`. An exception in the caller's `on_hello` counts as a refusal,
and is logged as our own fault.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import trio

from node.p2p.channel import ChannelClosed
from node.p2p.connection import Connection, ProtocolRefused, connect_inbound, connect_outbound
from node.p2p.frames import FrameError, FrameKind, decode_frame, encode_frame
from node.p2p.hardening import HandshakeRefused, NoiseUpgrade
from node.p2p.hello import GoodbyeReason, Hello, Role, decode_hello, decode_reason, encode_hello
from node.p2p.identity import PeerId
from node.p2p.link import say_goodbye
from node.p2p.multistream import MultistreamError
from node.p2p.work import ReadingAccounts
from streams.yamux import YamuxError

HANDSHAKE_SECONDS: Final = 5.0
_LOG: Final = logging.getLogger(__name__)

OnHello = Callable[[PeerId, Role, bytes], bool]
"""(peer id, claimed role, proof) -> accepted. The peer id is authenticated; the role holds only if this returns True.
"""


class HandshakeFailed(Exception):
    """The handshake failed. `reason` is set if either side gave one."""

    def __init__(self, failure_text: str, reason: GoodbyeReason | None = None) -> None:
        super().__init__(failure_text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Handshaker:
    """The inputs of both directions: our identity, the chain, the judge of hellos, the accounts that pay for data."""

    noise: NoiseUpgrade
    protocol: str
    hello: Hello
    on_hello: OnHello
    accounts: ReadingAccounts

    async def dial(self, stream: trio.SocketStream, expected: PeerId) -> tuple[Connection, Hello]:
        """Upgrade a dialled socket. Raise `HandshakeFailed`."""
        async with _as_handshake_failure():
            connection = await connect_outbound(stream, self.noise, expected, self.protocol, self.accounts)
            await connection.send(encode_frame([(FrameKind.HELLO, encode_hello(self.hello))]))
            hello = await _receive_hello(connection)
            await self._require_accepted(connection, hello)
            return connection, hello

    async def listen(
        self, stream: trio.SocketStream, admit_peer: Callable[[Connection, Hello], GoodbyeReason | None]
    ) -> tuple[Connection, Hello]:
        """Upgrade an accepted socket; `admit_peer` decides last. Raise `HandshakeFailed`."""
        async with _as_handshake_failure():
            connection = await connect_inbound(stream, self.noise, self.protocol, self.accounts)
            hello = await _receive_hello(connection)
            await self._require_accepted(connection, hello)
            refusal_reason = admit_peer(connection, hello)
            if refusal_reason is not None:
                await say_goodbye(connection, refusal_reason)
                raise HandshakeFailed(f"refused: {refusal_reason.name}", refusal_reason)
            # The last step: the dialler enters the connection with this answer, so it is up at both ends or at none.
            await connection.send(encode_frame([(FrameKind.HELLO, encode_hello(self.hello))]))
            return connection, hello

    async def _require_accepted(self, connection: Connection, hello: Hello) -> None:
        reason: GoodbyeReason | None = None
        # The chain first: proofs are signed over a genesis hash, so those of another chain never hold.
        if hello.genesis != self.hello.genesis:
            reason = GoodbyeReason.WRONG_CHAIN
        elif not self._accepts_peer(connection.peer_id, hello):
            reason = GoodbyeReason.REFUSED
        if reason is not None:
            await say_goodbye(connection, reason)
            raise HandshakeFailed(reason.name, reason)

    def _accepts_peer(self, peer_id: PeerId, hello: Hello) -> bool:
        try:
            return self.on_hello(peer_id, hello.role, hello.proof)
        except Exception:  # noqa: BLE001 - the caller's fault must not end the connection's task
            _LOG.exception("on_hello failed for %s: refused", peer_id)
            return False


def why_failed(error: Exception) -> str:
    """Return the reason of a failed dial, for an operator."""
    if isinstance(error, HandshakeFailed):
        return f"a program answers there, but the handshake fails ({error}): check the peer id"
    return "no answer in time" if isinstance(error, trio.TooSlowError) else str(error)


async def _receive_hello(connection: Connection) -> Hello:
    bodies = await connection.receive()
    first_frame = decode_frame(bodies[0])
    if len(bodies) != 1 or len(first_frame.messages) != 1:
        raise FrameError("a hello with other messages in its frame")
    kind, payload = first_frame.messages[0]
    if kind is FrameKind.GOODBYE:
        reason = decode_reason(payload)
        raise HandshakeFailed(f"peer refused: {reason.name}", reason)
    if kind is not FrameKind.HELLO:
        raise FrameError("a frame before the hello")
    return decode_hello(payload)


class _as_handshake_failure:  # noqa: N801 - reads as a statement
    """A context that turns every fault of a peer into `HandshakeFailed`."""

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, error_type: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, ProtocolRefused):
            raise HandshakeFailed("peer is on another chain or version", GoodbyeReason.WRONG_CHAIN) from error
        if isinstance(error, (ChannelClosed, FrameError, YamuxError, MultistreamError, HandshakeRefused)):
            raise HandshakeFailed(str(error) or type(error).__name__) from error
