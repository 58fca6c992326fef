"""The pallet Disputes: validators vote about one item, for any pallet.

A handler (see `handlers`) opens a dispute with its terms, and receives the ruling. This module has the calls, the hook,
and the method for handlers.

Invariants: a dispute is keyed by an id of its handler and is open once. The work of the hook is bounded. Only the bonds
of voters are held here. Handlers hold and move all other money.
"""

from gpu_tasks.market.block_room import KEPT_FOR_UNITS, BlockRoom
from gpu_tasks.market.claims import dispute_events as ev
from gpu_tasks.market.claims import hearing
from gpu_tasks.market.claims.disputes import VOTER_BOND, Dispute, DisputeTerms
from gpu_tasks.market.claims.disputes_storage import DisputesStorage
from gpu_tasks.market.claims.findings import ItemVote
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.types import Hash, Weight
from runtime.frame.pallet import FREE, PostDispatch, Signed, call
from runtime.frame.weights import work

STEPS_BUDGET = work(microseconds=8_000)
"""The weight for the steps of disputes in a block. One step that has begun may exceed it."""


class Disputes(DisputesStorage, index=21):
    """Votes of validators about single items, keyed by dispute."""

    events = (
        ev.DisputeOpened, ev.VotersDrawn, ev.VoteCommitted, ev.VoteOpened, ev.DisputeDecided, ev.DisputeAppealed,
        ev.VoterCharged, ev.DisputeEnded,
    )  # fmt: skip
    errors = (
        ev.UnknownDispute, ev.NotAVoter, ev.NotAParty, ev.OutsideWindow, ev.ActedAlready, ev.NotTheCommittedVote,
        ev.MalformedVote, ev.NoDecisionToAppeal,
    )  # fmt: skip
    hold_reasons = (VOTER_BOND,)

    # ----------------------------------------------------- duty calls: signed by the provider key, free if they succeed

    @call(index=0, weight=WEIGHTS["Disputes.commit_vote"])
    def commit_vote(self, origin: Signed, dispute: Hash, commitment: Hash) -> PostDispatch:
        """Commit to a vote as a voter of the present round (`findings.vote_commitment`). Free if it succeeds."""
        voter = self.devices.operator(origin.account)
        hearing.commit(self, dispute, self.open_dispute(dispute), voter, commitment)
        return FREE

    @call(index=1, weight=WEIGHTS["Disputes.open_vote"])
    def open_vote(self, origin: Signed, dispute: Hash, vote: ItemVote, salt: Hash) -> PostDispatch:
        """Open your committed vote. Free if it succeeds."""
        voter = self.devices.operator(origin.account)
        hearing.open_vote(self, dispute, self.open_dispute(dispute), voter, vote, salt)
        return FREE

    @call(index=2, weight=WEIGHTS["Disputes.appeal"])
    def appeal(self, origin: Signed, dispute: Hash) -> None:
        """Appeal a decision of nine voters as a party or an outvoted voter: all validators vote by stake, once."""
        hearing.appeal(self, dispute, self.open_dispute(dispute), origin.account)

    # ------------------------------------------------------------------------------------------- a method for handlers

    def open(self, dispute: bytes, terms: DisputeTerms) -> None:
        """Open a dispute. Its handler receives the ruling once (`handlers.DisputeHandler.rule`)."""
        hearing.begin(self, dispute, terms)

    # ------------------------------------------------------------------------------------------------------------ hook

    def on_initialize(self) -> Weight:
        """Process the disputes that are due, by height and by finality.

        A late step delays only its own dispute: calls follow the clock.
        """
        steps = BlockRoom(self.context.mandatory_left - KEPT_FOR_UNITS.ref_time).budget(STEPS_BUDGET)
        for dispute_id in self.agenda.take(self.system.number.get(), steps):
            steps.spend(hearing.step(self, dispute_id, self._on_agenda(dispute_id)))
        for dispute_id in self.final_agenda.take(self.beacon.final_height(), steps):
            steps.spend(hearing.step(self, dispute_id, self._on_agenda(dispute_id)))
        return steps.spent

    def _on_agenda(self, dispute_id: bytes) -> Dispute:
        found = self.disputes[dispute_id]
        assert found is not None, "every dispute on an agenda has a record"
        return found
