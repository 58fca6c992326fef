"""Catching up on certificates: request them from peers ahead, send them to peers behind.

Invariant: requests go out at a bounded rate, and each peer gets answers at a bounded rate, because an answer is much
larger than a request. A peer in an ended epoch gets that epoch's last certificate, for its final boundary block. It
needs nothing else to continue.
"""

from collections.abc import Iterable

from consensus.certificates import Certificate
from consensus.events import SendBoundary, SendTo
from consensus.finality.gadget import Gadget
from consensus.finality.hearing import Emit
from consensus.parameters import Parameters
from consensus.wire import Certified, NeedCerts


class CatchUp:
    """The exchange of certificates with peers in other rounds or epochs."""

    def __init__(
        self, parameters: Parameters, gadget: Gadget, boundaries: Iterable[Certificate], emit_effect: Emit
    ) -> None:
        """Start with the boundary certificates that the shell kept."""
        self._parameters = parameters
        self._gadget = gadget
        self._emit = emit_effect
        self._boundaries = {certificate.ballot.epoch: certificate for certificate in boundaries}
        self._ask_at_ms = 0
        self._answer_at_ms: dict[bytes, int] = {}

    def end_epoch(self, boundary: Certificate) -> None:
        """Keep the certificate of a final boundary block, and forget the one of `boundaries_kept` epochs earlier."""
        epoch = boundary.ballot.epoch
        self._boundaries[epoch] = boundary
        self._boundaries.pop(epoch - self._parameters.boundaries_kept, None)

    def boundary_of(self, epoch: int) -> Certificate | None:
        """Return the certificate of an epoch's last block, None if it is unknown or forgotten."""
        return self._boundaries.get(epoch)

    def forget(self, peer: bytes) -> None:
        """Forget a peer."""
        self._answer_at_ms.pop(peer, None)

    def note_position(self, peer: bytes, epoch_number: int, round_number: int, now_ms: int) -> None:
        """Note the round of a peer's message: ask a peer that is ahead, help a peer in an earlier epoch."""
        own_epoch = self._gadget.members.epoch
        own_round = self._gadget.rounds.current
        # In every healthy round some peer is one round ahead for a moment.
        if epoch_number > own_epoch or (epoch_number == own_epoch and round_number > own_round + 1):
            self.ask(peer, now_ms)
        elif epoch_number < own_epoch:
            self._help(peer, epoch_number, now_ms)

    def ask(self, peer: bytes, now_ms: int) -> None:
        """Request the certificates that this node may lack, at a bounded rate."""
        # Any peer can claim to be far ahead. The limit holds over all peers, however many claim it.
        if now_ms >= self._ask_at_ms:
            self._ask_at_ms = now_ms + self._parameters.need_certs_ms
            self._emit(SendTo(peer, self._gadget.need()))

    def answer(self, peer: bytes, need: NeedCerts, now_ms: int) -> None:
        """Answer a peer's request for certificates."""
        if need.epoch == self._gadget.members.epoch:
            self._send(peer, self._gadget.answer(need), now_ms)
        else:
            self.note_position(peer, need.epoch, need.round, now_ms)

    def _help(self, peer: bytes, epoch_number: int, now_ms: int) -> None:
        # Only this certificate leads out of an ended epoch. Its other certificates would be of no use.
        certificate = self._boundaries.get(epoch_number)
        if certificate is not None:
            self._send(peer, (certificate,), now_ms)
        elif self._may_send(peer, now_ms):
            self._emit(SendBoundary(peer, epoch_number))

    def _send(self, peer: bytes, certificates: tuple[Certificate, ...], now_ms: int) -> None:
        # Up to 32 certificates answer a request of a few bytes: without a limit, this node would be an amplifier.
        if certificates and self._may_send(peer, now_ms):
            self._emit(SendTo(peer, Certified(certificates)))

    def _may_send(self, peer: bytes, now_ms: int) -> bool:
        if now_ms < self._answer_at_ms.get(peer, 0):
            return False
        self._answer_at_ms[peer] = now_ms + self._parameters.need_certs_ms
        return True
