"""The finality gadget: Simplex on checkpoints of the chain that Snowflake chooses.

In a round the leader proposes a checkpoint. Validators notarise it, or skip the round after a timeout. After more than
two thirds notarised it, they vote to finalise it and enter the next round.

Invariant (of an honest node): one notarise ballot a round. Never a finalise and a skip in one round. A notarise ballot
only for a block that descends from a notarised parent checkpoint, with a skip certificate for every round between. Two
final blocks therefore never conflict while less than a third of the stake is Byzantine, under any network conditions.
"""

from itertools import islice

from consensus import signstate
from consensus.blocktree import BlockTree
from consensus.certificates import Certificate
from consensus.events import AcceptedReverted, Broadcast, Finalise, PersistCertificate, PersistThenSign
from consensus.finality.hearing import Emit, EpochHearing
from consensus.finality.relay import BallotRelay
from consensus.finality.rounds import Rounds
from consensus.parameters import Parameters
from consensus.polling.topological import Topological
from consensus.validators import Epoch, SessionOf, Validator
from consensus.wire import CERTIFICATES_PER_MESSAGE_MAX, NeedCerts, Propose, Vote
from runtime.blocks.votes import Ballot, BallotKind, Proposal, SignedBallot, SignedProposal, VerifyEd25519, skip_ballot

GAPS_REPEATED_MAX = 16


# The choice of the checkpoint that a leader proposes, and of the proposals that get a notarise ballot.
#
# Invariant: safety rests on `is_linked` alone. The other rules here steer liveness, and how often finality
# overrules Snowflake's acceptance.
def choose_checkpoint(
    chain: Topological, parent: tuple[int, bytes], boundary: int, *, has_waited: bool
) -> bytes | None:
    """Return the block to propose on a parent checkpoint (height, block), up to the height of the epoch's end.

    It is the accepted block, or after a wait the preferred one. If neither extends the parent, it is the parent's
    checkpoint again while that is not final, because no block above it may be proposed.
    """
    tree = chain.tree
    parent_height, checkpoint = parent
    if checkpoint not in tree:
        return None
    tips = (chain.accepted, chain.preference) if has_waited else (chain.accepted,)
    for tip_block in tips:
        block_id = tree.ancestor_at(tip_block, boundary)
        if tree[block_id].height > parent_height and tree.descends(block_id, checkpoint):
            return block_id
    return checkpoint if has_waited and parent_height > tree.final.height else None


def is_linked(tree: BlockTree, rounds: Rounds, proposal: Proposal) -> bool:
    """Return True if a proposal builds on a notarised parent and every round between has a skip certificate."""
    if proposal.block not in tree or tree[proposal.block].height != proposal.height:
        return False
    if not rounds.links(proposal.parent_round, proposal.round):
        return False
    _, checkpoint = rounds.checkpoint(proposal.parent_round)
    return checkpoint in tree and tree.descends(proposal.block, checkpoint)


def is_supported(chain: Topological, block_id: bytes, skips: int, *, has_waited: bool) -> bool:
    """Return True if Snowflake supports a known block. After skipped rounds a weaker support suffices."""
    if _is_on(chain.tree, block_id, chain.accepted):
        return True
    # Own acceptance counts even after skips. Voting against it at the first skips made finality overrule
    # acceptance 43 times in 150 simulated storms of four honest nodes. This rule left 8.
    if skips > 0:
        return chain.tree.is_related(block_id, chain.accepted)
    return has_waited and _is_on(chain.tree, block_id, chain.preference)


def _is_on(tree: BlockTree, block_id: bytes, tip: bytes) -> bool:
    return tree[block_id].height <= tree[tip].height and tree.descends(tip, block_id)


# The clock of a gadget round: the time since it has work, and the next repetition of votes.
#
# Invariant: it is stopped while there is no work, so that an idle network neither skips rounds nor repeats votes.
class RoundClock:
    """The clock of one round, in ms. `restart` begins the next round."""

    def __init__(self, parameters: Parameters) -> None:
        """Start stopped."""
        self._parameters = parameters
        self.restart()

    def restart(self) -> None:
        """Reset the clock for a new round."""
        self._work_since_ms: int | None = None
        self._repeat_at_ms = 0

    @property
    def is_running(self) -> bool:
        """True if the round has something to make final."""
        return self._work_since_ms is not None

    def keep(self, now_ms: int, *, has_work: bool) -> None:
        """Run the clock while there is work, stop it while there is none."""
        if not has_work:
            self.restart()
        elif self._work_since_ms is None:
            self._work_since_ms = now_ms
            self._repeat_at_ms = now_ms + 2 * self._parameters.resend_ms

    def has_waited(self, now_ms: int, wait_ms: int) -> bool:
        """Return True if the round has had work for `wait_ms`."""
        return self._work_since_ms is not None and now_ms >= self._work_since_ms + wait_ms

    def postpone(self) -> None:
        """Delay the next repetition by `resend_ms`, because a vote was just sent."""
        self._repeat_at_ms += self._parameters.resend_ms

    def is_time_to_repeat(self, now_ms: int) -> bool:
        """Return True if votes and requests are due to be sent again, and set the next time."""
        if self._work_since_ms is None or now_ms < self._repeat_at_ms:
            return False
        self._repeat_at_ms = now_ms + self._parameters.resend_ms
        return True

    def deadline_ms(self, now_ms: int, timeout_ms: int) -> int | None:
        """Return the time of the round's next action without an event, None while the clock is stopped."""
        if self._work_since_ms is None:
            return None
        end_times_ms = [self._work_since_ms + wait_ms for wait_ms in (self._parameters.soft_wait_ms, timeout_ms)]
        return min([self._repeat_at_ms, *(end_ms for end_ms in end_times_ms if end_ms > now_ms)])


# Late messages of the previous epoch: checked for evidence alone.
#
# An offender gains by a conflicting vote at the end of an epoch, when members change. Its second vote often arrives
# only after that end, so these messages must not be dropped unread.
#
# Invariant: nothing is signed, sent or made final from here. Rounds below the boundary's final round are settled and
# not checked. Earlier epochs are not checked at all.
class EndedEpoch:
    """The hearing of an ended epoch, from its final round to the highest round accepted at its end."""

    def __init__(self, hearing: EpochHearing, boundary: Certificate, round_max: int) -> None:
        """Start with `boundary`, the certificate that made the epoch's last block final."""
        self._hearing = hearing
        self._rounds = range(boundary.ballot.round, round_max + 1)
        self._seen: set[Ballot] = {boundary.ballot}

    @property
    def epoch(self) -> int:
        """The ended epoch."""
        return self._hearing.members.epoch

    def proposal(self, signed: SignedProposal) -> bool:
        """Check a proposal and return True if it is new. Raise InvalidVoteError if it is invalid."""
        return signed.proposal.round in self._rounds and self._hearing.proposal(signed)

    def vote(self, signed_ballot: SignedBallot) -> bool:
        """Check a ballot and return True if it is new. Raise InvalidVoteError if it is invalid."""
        if signed_ballot.ballot.round not in self._rounds or not self._hearing.is_news(signed_ballot):
            return False
        self._hearing.count(signed_ballot)
        return True

    def certificate(self, certificate: Certificate) -> bool:
        """Check a certificate and return True if it is new. Its ballots count one by one, for evidence.

        Raise InvalidVoteError if it is invalid.
        """
        if certificate.ballot.round not in self._rounds or certificate.ballot in self._seen:
            return False
        self._hearing.check(certificate)
        self._seen.add(certificate.ballot)
        for signed_ballot in self._hearing.votes_of(certificate):
            self._hearing.count(signed_ballot)
        return True


class Gadget:
    """One epoch of the gadget at a validator, or at an observer (if `session_of` returns no key for the epoch)."""

    def __init__(
        self,
        parameters: Parameters,
        genesis_hash: bytes,
        chain: Topological,
        verify_signature: VerifyEd25519,
        session_of: SessionOf,
        emit_effect: Emit,
        relay: BallotRelay,
    ) -> None:
        """Create a gadget without an epoch. Call `begin` before any other method."""
        self._heard: EpochHearing
        self.rounds: Rounds
        self._parameters = parameters
        self._genesis = genesis_hash
        self._chain = chain
        self._verify = verify_signature
        self._session_of = session_of
        self._emit = emit_effect
        self._relay = relay
        self.sign_state = signstate.EMPTY
        self.silent_below = 0

    def begin(self, epoch: Epoch, base: tuple[int, bytes], ended: Certificate | None = None) -> None:
        """Start an epoch above its base, the final boundary block of the epoch before.

        `ended` is that block's certificate if this gadget went through the previous epoch. Messages of that epoch's
        members are then still checked, for evidence alone.
        """
        ended_epoch = None
        if ended is not None:
            ended_epoch = EndedEpoch(self._heard, ended, self.rounds.current + self._parameters.rounds_ahead_max)
        self._ended: EndedEpoch | None = ended_epoch
        self.members = epoch.validators
        self.rounds = Rounds(self.members.epoch, base)
        self._session = self._session_of(self.members.epoch)
        self._heard = EpochHearing(self._parameters, epoch, self._genesis, self._verify, self._emit)
        self.pending_final: Certificate | None = None
        self._clock = RoundClock(self._parameters)

    # --- input

    def receive_proposal(self, signed_proposal: SignedProposal) -> bool:
        """Process a leader's proposal. Return True if it is new. Raise InvalidVoteError if it is invalid."""
        proposal = signed_proposal.proposal
        if self._ended is not None and proposal.epoch == self._ended.epoch:
            return self._ended.proposal(signed_proposal)
        if proposal.epoch != self.members.epoch or not self._is_near(proposal.round, self.rounds.floor + 1):
            return False
        return self._heard.proposal(signed_proposal)

    def receive_vote(self, signed_ballot: SignedBallot, source: bytes) -> bool:
        """Process a ballot. Return True if it is new.

        Raise InvalidVoteError if it is malformed or not signed by its voter.
        """
        ballot = signed_ballot.ballot
        if self._ended is not None and ballot.epoch == self._ended.epoch:
            return self._ended.vote(signed_ballot)
        if ballot.epoch != self.members.epoch or not self._is_near(ballot.round, self.rounds.floor + 1):
            return False
        if not self._heard.is_news(signed_ballot):
            return False
        self._pass_on(signed_ballot, source)
        self._count(signed_ballot)
        return True

    def receive_certificate(self, certificate: Certificate) -> bool:
        """Process a certificate. Return True if it is new. Raise InvalidVoteError if it does not verify."""
        ballot = certificate.ballot
        if self._ended is not None and ballot.epoch == self._ended.epoch:
            return self._ended.certificate(certificate)
        if ballot.epoch != self.members.epoch or ballot.round < self.rounds.floor:
            return False
        held_certificate = self.rounds.find(ballot.kind, ballot.round)
        if held_certificate is not None and (ballot.height, ballot.block) == (
            held_certificate.ballot.height,
            held_certificate.ballot.block,
        ):
            return False
        self._heard.check(certificate)
        self._hold(certificate)
        for signed_ballot in self._heard.votes_of(certificate):
            self._count(signed_ballot)
        return True

    def signed(self, signed_record: signstate.SignedRecord, signature: bytes) -> None:
        """Count and send a vote that the shell persisted and signed at the gadget's request."""
        self._clock.postpone()
        match signed_record:
            case Proposal():
                signed_proposal = SignedProposal(signed_record, signature)
                if signed_record.epoch == self.members.epoch:
                    self._heard.proposals.setdefault(signed_record.round, signed_proposal)
                self._emit(Broadcast(Propose(signed_proposal)))
            case Ballot():
                # The answer may arrive in the next epoch, in which this node may have another key or none.
                session_key = self._session_of(signed_record.epoch)
                assert session_key is not None  # an observer requests no signature
                signed_ballot = SignedBallot(signed_record, session_key, signature)
                if signed_record.epoch == self.members.epoch and signed_record.round > self.rounds.floor:
                    self._count(signed_ballot)
                self._emit(Broadcast(self._vote_message(signed_ballot)))
            case signstate.HeaderRecord():
                pass  # the shell seals headers itself

    def answer(self, need: NeedCerts) -> tuple[Certificate, ...]:
        """Return certificates of this epoch that the sender of `need` lacks, oldest first, for one message."""
        return tuple(islice(self.rounds.lacked_by(need.parent_round, need.final_round), CERTIFICATES_PER_MESSAGE_MAX))

    # --- actions

    def advance(self, now_ms: int) -> None:
        """Do everything that is due. Call it after each event."""
        self._finalise()
        self._enter_round()
        self._clock.keep(now_ms, has_work=self._has_work())
        if self._session in self.members.index:
            self._propose(now_ms)
            self._notarise(now_ms)
            self._skip(now_ms)
        self._resend(now_ms)

    def deadline_ms(self, now_ms: int) -> int | None:
        """Return the time of the next action of `advance` without an event, None if there is none."""
        return self._clock.deadline_ms(now_ms, self._timeout_ms())

    def missing(self) -> tuple[bytes, ...]:
        """Return the blocks that the gadget waits for."""
        missing_blocks = []
        if self.pending_final is not None:
            missing_blocks.append(self.pending_final.ballot.block)
        newest_notarised = self.rounds.newest_notarised()
        if newest_notarised is not None and newest_notarised.ballot.height > self._chain.tree.final.height:
            missing_blocks.append(newest_notarised.ballot.block)
        proposal = self._heard.proposals.get(self.rounds.current)
        if proposal is not None:
            missing_blocks.append(proposal.proposal.block)
        return tuple(block_id for block_id in missing_blocks if block_id not in self._chain.tree)

    def unheard(self) -> tuple[Validator, ...]:
        """Return the members that let the newest timed-out round pass without a vote to skip it.

        While finality stands, they are the reason. Other votes of a round may come from before a member fell silent.
        """
        for round_number in (self.rounds.current, self.rounds.current - 1):
            votes = self._heard.box.votes(round_number)
            skippers = {vote.voter for vote in votes if vote.ballot.kind is BallotKind.SKIP}
            if skippers:
                return tuple(member for member in self.members.members if member.session not in skippers)
        return self.members.members

    # --- certificates

    def _count(self, signed_ballot: SignedBallot) -> None:
        self._heard.count(signed_ballot)
        ballot = signed_ballot.ballot
        if not self.rounds.holds(ballot.kind, ballot.round):
            certificate = self._heard.box.certificate(ballot)
            if certificate is not None:
                self._hold(certificate)

    def _hold(self, certificate: Certificate) -> None:
        if not self.rounds.add(certificate):
            return
        for effect in self._relay.pass_certificate(certificate):
            self._emit(effect)
        ballot = certificate.ballot
        # A certificate that its only honest holder forgets can never be made again (docs/adr/0012, scenario
        # `blackouts`).
        if ballot.kind != BallotKind.FINALISE:
            self._emit(PersistCertificate(certificate))
        if ballot.kind == BallotKind.FINALISE and ballot.height > self._chain.tree.final.height:
            self.pending_final = certificate
        newest_notarised = self.rounds.newest_notarised()
        if newest_notarised is not None and newest_notarised.ballot.round == ballot.round:
            self._chain.lock_on(newest_notarised.ballot.block)

    def _finalise(self) -> None:
        certificate, tree = self.pending_final, self._chain.tree
        if certificate is not None and certificate.ballot.block in tree:
            self.pending_final = None
            if certificate.ballot.height > tree.final.height:
                self.make_final(certificate)

    def make_final(self, certificate: Certificate) -> None:
        """Make the certified block and all its ancestors final. It must be in the tree."""
        previous_height = self._chain.tree.final.height
        path, overruled = self._chain.finalise(certificate.ballot.block)
        if overruled is not None:
            self._emit(AcceptedReverted(overruled, certificate.ballot.block))
        assert self._chain.tree.final.height > previous_height, "the final height never falls"
        self._heard.prune(certificate.ballot.round)
        self.sign_state = signstate.raise_floor(self.sign_state, certificate.ballot.epoch, certificate.ballot.round)
        self._emit(Finalise(path, certificate))

    # --- rounds and their timer

    def _enter_round(self) -> None:
        newest_certificate = self.rounds.newest()
        if newest_certificate < self.rounds.current:
            return
        notarised = self.rounds.notarised.get(newest_certificate)
        if notarised is not None and newest_certificate > self.rounds.floor:
            ballot = notarised.ballot
            self._sign(Ballot(BallotKind.FINALISE, ballot.epoch, newest_certificate, ballot.height, ballot.block))
        previous_round = self.rounds.current
        self.rounds.current = newest_certificate + 1
        # After a jump over rounds this node can neither propose nor vote until it holds the certificates between.
        if newest_certificate > previous_round and self.rounds.gaps():
            self._emit(Broadcast(self.need()))
        self._clock.restart()

    def _has_work(self) -> bool:
        parent_round = self.rounds.parent_round()
        if parent_round is None:
            return True
        height, _ = self.rounds.checkpoint(parent_round)
        preferred_height = self._chain.tree[self._chain.preference].height
        final_height = self._chain.tree.final.height
        return min(preferred_height, self._boundary()) > max(height, final_height) or height > final_height

    def _skips(self) -> int:
        """Return the number of rounds in a row that were skipped before this one."""
        parent_round = self.rounds.parent_round()
        return 0 if parent_round is None else self.rounds.current - 1 - parent_round

    def _timeout_ms(self) -> int:
        return self._parameters.round_timeout(self._skips())

    # --- ballots

    def _propose(self, now_ms: int) -> None:
        round_number = self.rounds.current
        if not self._clock.is_running or round_number in self._heard.proposals:
            return
        if self._heard.leaders.leader(round_number) != self._session:
            return
        parent_round = self.rounds.parent_round()
        if parent_round is None:
            return
        has_waited = self._skips() > 0 or self._clock.has_waited(now_ms, self._parameters.soft_wait_ms)
        block_id = choose_checkpoint(
            self._chain,
            self.rounds.checkpoint(parent_round),
            self._boundary(),
            has_waited=has_waited,
        )
        if block_id is None:
            return
        height = self._chain.tree[block_id].height
        self._sign(Proposal(self.members.epoch, round_number, parent_round, height, block_id))

    def _notarise(self, now_ms: int) -> None:
        signed_proposal = self._heard.proposals.get(self.rounds.current)
        # Votes would split between the blocks of a leader that proposed twice, so its round is skipped.
        if signed_proposal is None or self.rounds.current in self._heard.equivocated:
            return
        proposal = signed_proposal.proposal
        if not is_linked(self._chain.tree, self.rounds, proposal):
            return
        if self._is_wanted(proposal.block, now_ms):
            proposed_block = (proposal.epoch, proposal.round, proposal.height, proposal.block)
            self._sign(Ballot(BallotKind.NOTARISE, *proposed_block))

    def _is_wanted(self, block_id: bytes, now_ms: int) -> bool:
        """Return True if this node should vote for a linked proposal. Safety does not depend on it."""
        has_waited = self._clock.has_waited(now_ms, self._parameters.soft_wait_ms)
        # Snowflake may be split for ever: after `override_skips` skips finality proceeds without its support.
        is_overdue = self._skips() >= self._parameters.override_skips
        return is_overdue or is_supported(self._chain, block_id, self._skips(), has_waited=has_waited)

    def _skip(self, now_ms: int) -> None:
        ballot = skip_ballot(self.members.epoch, self.rounds.current)
        is_over = self._clock.has_waited(now_ms, self._timeout_ms())
        # No honest validator votes for either proposal: waiting for the timeout stalled the prototype.
        is_spoilt = self.rounds.current in self._heard.equivocated
        # Joins timeouts that began at different times: without it the prototype stalled.
        is_given_up = self.members.is_blocking(self._heard.box.weight(ballot))
        if is_over or is_spoilt or is_given_up:
            self._sign(ballot)

    def is_silent(self) -> bool:
        """Return True while the shell refuses to sign.

        A refused record is never requested again and its round would stall, so the gadget requests nothing until then.
        """
        return self._chain.tree.final.height < self.silent_below

    def _sign(self, signed_record: Proposal | Ballot) -> None:
        """Request a signature, once, if no earlier signature excludes it."""
        if self._session not in self.members.index or self.is_silent():
            return
        try:
            next_state = signstate.after(self.sign_state, signed_record)
        except signstate.SigningRefusedError:
            return
        if next_state is not self.sign_state:
            self.sign_state = next_state
            self._emit(PersistThenSign(signed_record))

    # --- repetition

    def _resend(self, now_ms: int) -> None:
        """While a round lasts, repeat messages that may be lost and request certificates that this node may lack."""
        if not self._clock.is_time_to_repeat(now_ms):
            return
        current_round = self.rounds.current
        parent_round = self.rounds.parent_round()
        if self._heard.leaders.leader(current_round) == self._session and current_round in self._heard.proposals:
            self._emit(Broadcast(Propose(self._heard.proposals[current_round])))
        # A round whose certificate no node kept may get one again from its votes.
        round_gaps = self.rounds.gaps()[:GAPS_REPEATED_MAX] if parent_round is None else [parent_round]
        for round_number in (*round_gaps, current_round):
            for signed_ballot in self._heard.box.votes(round_number):
                if signed_ballot.voter == self._session:
                    self._emit(Broadcast(self._vote_message(signed_ballot)))
                else:
                    self._pass_on(signed_ballot, None)
        self._emit(Broadcast(self.need()))

    def need(self) -> NeedCerts:
        """Return the request for certificates that this node may lack."""
        parent_round = self.rounds.parent_round()
        complete_round = self.rounds.complete_to() if parent_round is None else parent_round
        return NeedCerts(
            self.members.epoch, self.rounds.current, complete_round, self.rounds.floor, self._relay.bitmap()
        )

    def _pass_on(self, signed_ballot: SignedBallot, source: bytes | None) -> None:
        for effect in self._relay.pass_vote(self._vote_message(signed_ballot), source):
            self._emit(effect)

    def _vote_message(self, signed_ballot: SignedBallot) -> Vote:
        # A peer that missed the proposal can vote only if the votes bring it along. Without it rounds stalled.
        is_notarise = signed_ballot.ballot.kind == BallotKind.NOTARISE
        return Vote(signed_ballot, self._heard.proposals.get(signed_ballot.ballot.round) if is_notarise else None)

    # --- form

    def _boundary(self) -> int:
        return self._parameters.boundary(self.members.epoch)

    def _is_near(self, round_number: int, lowest: int) -> bool:
        return lowest <= round_number <= self.rounds.current + self._parameters.rounds_ahead_max
