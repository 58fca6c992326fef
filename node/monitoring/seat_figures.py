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

    def _show_seats(self, block: ExecutedBlock) -> None:
        stake = self._chain.runtime.at(block.state)[TrustStake]
        next_epoch = self._chain.parameters.epoch_of(block.facts.height + 1)
        for epoch, gauge in ((next_epoch, self._metrics.seat), (next_epoch + 1, self._metrics.next_seat)):
            seats = stake.validators(epoch)
            own_weight = sum(seat.weight for seat in seats if seat.session_key in self._sessions)
            gauge.set(own_weight / GRAINS_PER_OGPU)
        self._metrics.validators.set(len(stake.validators(next_epoch)))
        self._show_stake(stake)

    def _show_stake(self, stake: TrustStake) -> None:
        """Set the figures of the candidates that registered a key of this node."""
        own_stashes = [stash for stash in stake.owners(self._sessions) if stake.candidates[stash] is not None]
        self._metrics.stake.set(sum(stake.behind(stash) for stash in own_stashes) / GRAINS_PER_OGPU)
        self._metrics.jailed.set(any(stake.jailed[stash] is not None for stash in own_stashes))

    def _count_slots(self, block: ExecutedBlock) -> None:
        """Count own slots between two final blocks, in the epoch of the later one."""
        epoch = self._chain.parameters.epoch_of(block.facts.height)
        session, block_epoch = self._session_of(epoch), self._chain.epochs(epoch)
        first_slot, self._last_slot = self._last_slot + 1, block.facts.slot
        if session is None or block_epoch is None or self._chain.parameters.epoch_of(block.facts.height - 1) != epoch:
            return  # at an epoch's edge the slots before the first block may belong to either set
        if block.facts.slot - first_slot > GAP_SLOTS_MAX:
            return
        missed_slots = sum(proposer(block_epoch, slot) == session for slot in range(first_slot, block.facts.slot))
        if missed_slots:
            self._metrics.missed_slots.inc(missed_slots)

    def _count_vote(self) -> None:
        certificate = self._chain.final_certificate
        if certificate is None:
            return
        epoch = certificate.ballot.epoch
        session, vote_epoch = self._session_of(epoch), self._chain.epochs(epoch)
        if session is None or vote_epoch is None:
            return
        signers = signers_of(certificate, vote_epoch.validators)
        if signers is not None and session not in signers:
            self._metrics.missed_votes.inc()
