"""A validator's own seat as figures: its weight in this epoch and the next, and its missed slots and votes.

Invariant: it only reads. The chain punishes no missed slot or vote: these figures are for the operator.
"""

from __future__ import annotations

from collections.abc import Collection

from consensus.certificates import signers_of
from consensus.headers import proposer
from consensus.validators import SessionOf
from node.ledger.chain import Chain, ExecutedBlock
from node.ledger.listener import Listener
from node.monitoring.metrics import Metrics
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.staking.trust_stake import TrustStake

GAP_SLOTS_MAX = 1_000
"""The most slots without a block that are checked: after a longer halt of the chain they count for no validator."""


class SeatFigures(Listener):
    """The figures of one node's seat, by its keys."""

    def __init__(self, chain: Chain, sessions: Collection[bytes], session_of: SessionOf, metrics: Metrics) -> None:
        """Create it; `sessions` are all session keys of this node, `session_of` returns an epoch's."""
        self._chain = chain
        self._sessions = sessions
        self._session_of = session_of
        self._metrics = metrics
        self._last_slot = chain.final.facts.slot
        self._show_seats(chain.final)

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """Count this node's missed slots before each block, and its missing vote in the last certificate."""
        for block in blocks:
            self._count_slots(block)
        self._count_vote()
        self._show_seats(blocks[-1])

    def _show_seats(self, final: ExecutedBlock) -> None:
        stake = self._chain.runtime.at(final.state)[TrustStake]
        epoch = self._chain.parameters.epoch_of(final.facts.height + 1)
        for number, gauge in ((epoch, self._metrics.seat), (epoch + 1, self._metrics.next_seat)):
            seats = stake.validators(number)
            own = sum(seat.weight for seat in seats if seat.session_key in self._sessions)
            gauge.set(own / GRAINS_PER_OGPU)
        self._metrics.validators.set(len(stake.validators(epoch)))
        self._show_stake(stake)

    def _show_stake(self, stake: TrustStake) -> None:
        """Set the figures of the candidates that registered a key of this node."""
        own = [stash for stash in stake.owners(self._sessions) if stake.candidates[stash] is not None]
        self._metrics.stake.set(sum(stake.behind(stash) for stash in own) / GRAINS_PER_OGPU)
        self._metrics.jailed.set(any(stake.jailed[stash] is not None for stash in own))

    def _count_slots(self, block: ExecutedBlock) -> None:
        """Count own slots between two final blocks, in the epoch of the later one."""
        number = self._chain.parameters.epoch_of(block.facts.height)
        session, epoch = self._session_of(number), self._chain.epochs(number)
        first, self._last_slot = self._last_slot + 1, block.facts.slot
        if session is None or epoch is None or self._chain.parameters.epoch_of(block.facts.height - 1) != number:
            return  # at an epoch's edge the slots before the first block may belong to either set
        if block.facts.slot - first > GAP_SLOTS_MAX:
            return
        missed = sum(proposer(epoch, slot) == session for slot in range(first, block.facts.slot))
        if missed:
            self._metrics.missed_slots.inc(missed)

    def _count_vote(self) -> None:
        certificate = self._chain.final_certificate
        if certificate is None:
            return
        number = certificate.ballot.epoch
        session, epoch = self._session_of(number), self._chain.epochs(number)
        if session is None or epoch is None:
            return
        signers = signers_of(certificate, epoch.validators)
        if signers is not None and session not in signers:
            self._metrics.missed_votes.inc()
