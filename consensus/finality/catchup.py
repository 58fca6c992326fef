"""Certificates between peers: ask whoever is ahead, help whoever is behind.

Always: questions go out at a bounded rate, and each peer is answered at a bounded rate, because an
answer is much larger than a question. A peer in an ended epoch gets that epoch's last certificate,
the one of its final boundary block; it needs nothing else to go on.
"""

from collections.abc import Iterable

from consensus.certificates import Certificate
from consensus.events import SendBoundary, SendTo
from consensus.finality.gadget import Gadget
from consensus.finality.hearing import Emit
from consensus.parameters import Parameters
from consensus.wire import Certified, NeedCerts


class CatchUp:
    """Who is where in the gadget's rounds, and what they need."""

    def __init__(self, parameters: Parameters, gadget: Gadget, boundaries: Iterable[Certificate], emit: Emit) -> None:
        """Start with the boundary certificates that the shell kept."""
        self._parameters = parameters
        self._gadget = gadget
        self._emit = emit
        self._boundaries = {certificate.ballot.epoch: certificate for certificate in boundaries}
        self._ask_at_ms = 0
        self._answer_at_ms: dict[bytes, int] = {}

    def end_epoch(self, boundary: Certificate) -> None:
        """Keep the certificate of a final boundary block; forget one of long ago."""
        epoch = boundary.ballot.epoch
        self._boundaries[epoch] = boundary
        self._boundaries.pop(epoch - self._parameters.boundaries_kept, None)

    def boundary_of(self, epoch: int) -> Certificate | None:
        """The certificate of an epoch's last block, if it is one of the newest."""
        return self._boundaries.get(epoch)

    def forget(self, peer: bytes) -> None:
        """A peer left."""
        self._answer_at_ms.pop(peer, None)

    def note_position(self, peer: bytes, epoch: int, round_: int, now_ms: int) -> None:
        """A peer speaks of a round: if it is ahead, ask; if it is an epoch behind, help."""
        own_epoch = self._gadget.members.epoch
        own_round = self._gadget.rounds.current
        # A round ahead is what every healthy round looks like for a moment.
        if epoch > own_epoch or (epoch == own_epoch and round_ > own_round + 1):
            self.ask(peer, now_ms)
        elif epoch < own_epoch:
            self._help(peer, epoch, now_ms)

    def ask(self, peer: bytes, now_ms: int) -> None:
        """Ask a peer for what we may lack."""
        # Whoever claims to be far ahead makes us ask: but no more often than this, however many claim it.
        if now_ms >= self._ask_at_ms:
            self._ask_at_ms = now_ms + self._parameters.need_certs_ms
            self._emit(SendTo(peer, self._gadget.need()))

    def answer(self, peer: bytes, need: NeedCerts, now_ms: int) -> None:
        """Send a peer what it lacks."""
        if need.epoch == self._gadget.members.epoch:
            self._send(peer, self._gadget.answer(need), now_ms)
        else:
            self.note_position(peer, need.epoch, need.round, now_ms)

    def _help(self, peer: bytes, epoch: int, now_ms: int) -> None:
        # Only this leads out of an ended epoch; its other certificates would be of no use there.
        certificate = self._boundaries.get(epoch)
        if certificate is not None:
            self._send(peer, (certificate,), now_ms)
        elif self._may_send(peer, now_ms):
            self._emit(SendBoundary(peer, epoch))

    def _send(self, peer: bytes, certificates: tuple[Certificate, ...], now_ms: int) -> None:
        # Up to 32 certificates answer a question of a few bytes: without a limit, an amplifier.
        if certificates and self._may_send(peer, now_ms):
            self._emit(SendTo(peer, Certified(certificates)))

    def _may_send(self, peer: bytes, now_ms: int) -> bool:
        if now_ms < self._answer_at_ms.get(peer, 0):
            return False
        self._answer_at_ms[peer] = now_ms + self._parameters.need_certs_ms
        return True
