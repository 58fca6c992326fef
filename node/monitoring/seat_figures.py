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
        for final_block in blocks:
            self._count_slots(final_block)
        self._count_vote()
        self._show_seats(blocks[-1])

    def _show_seats(self, final_block: ExecutedBlock) -> None:
        trust_stake = self._chain.runtime.at(final_block.state)[TrustStake]
        next_epoch = self._chain.parameters.epoch_of(final_block.facts.height + 1)
        for epoch_number, seat_gauge in ((next_epoch, self._metrics.seat), (next_epoch + 1, self._metrics.next_seat)):
            epoch_seats = trust_stake.validators(epoch_number)
            own_weight = sum(
                epoch_seat.weight for epoch_seat in epoch_seats if epoch_seat.session_key in self._sessions
            )
            seat_gauge.set(own_weight / GRAINS_PER_OGPU)
        self._metrics.validators.set(len(trust_stake.validators(next_epoch)))
        self._show_stake(trust_stake)

    def _show_stake(self, trust_stake: TrustStake) -> None:
        """Set the figures of the candidates that registered a key of this node."""
        own_stashes = [
            own_stash
            for own_stash in trust_stake.owners(self._sessions)
            if trust_stake.candidates[own_stash] is not None
        ]
        self._metrics.stake.set(sum(trust_stake.behind(own_stash) for own_stash in own_stashes) / GRAINS_PER_OGPU)
        self._metrics.jailed.set(any(trust_stake.jailed[own_stash] is not None for own_stash in own_stashes))

    def _count_slots(self, final_block: ExecutedBlock) -> None:
        """Count own slots between two final blocks, in the epoch of the later one."""
        epoch_number = self._chain.parameters.epoch_of(final_block.facts.height)
        session_key, block_epoch = self._session_of(epoch_number), self._chain.epochs(epoch_number)
        first_slot, self._last_slot = self._last_slot + 1, final_block.facts.slot
        if (
            session_key is None
            or block_epoch is None
            or self._chain.parameters.epoch_of(final_block.facts.height - 1) != epoch_number
        ):
            return  # at an epoch's edge the slots before the first block may belong to either set
        if final_block.facts.slot - first_slot > GAP_SLOTS_MAX:
            return
        missed_slots = sum(
            proposer(block_epoch, slot) == session_key for slot in range(first_slot, final_block.facts.slot)
        )
        if missed_slots:
            self._metrics.missed_slots.inc(missed_slots)

    def _count_vote(self) -> None:
        certificate = self._chain.final_certificate
        if certificate is None:
            return
        epoch_number = certificate.ballot.epoch
        session_key, vote_epoch = self._session_of(epoch_number), self._chain.epochs(epoch_number)
        if session_key is None or vote_epoch is None:
            return
        vote_signers = signers_of(certificate, vote_epoch.validators)
        if vote_signers is not None and session_key not in vote_signers:
            self._metrics.missed_votes.inc()
