"""The finality gadget: Simplex on checkpoints of the chain that Snowflake chooses.

A round: its leader proposes a checkpoint; validators notarise it, or skip the round when its time
is over; more than two thirds notarised: finalise, and enter the next round.

Always (of an honest node): one notarise ballot a round; never a finalise and a skip in one round;
a notarise ballot only for a block that descends from a notarised parent checkpoint, with every
round between certified as skipped. Two final blocks therefore never conflict while less than a
third of the stake is Byzantine, whatever the network does.
"""

from collections.abc import Callable
from itertools import islice

from consensus import signstate
from consensus.certificates import Certificate, signers_of, verify_certificate
from consensus.events import (
    AcceptedReverted,
    Broadcast,
    Effect,
    Finalise,
    PersistCertificate,
    PersistThenSign,
    ReportEvidence,
)
from consensus.evidence import DoubleProposal
from consensus.finality import voting
from consensus.finality.ballotbox import BallotBox
from consensus.finality.relay import BallotRelay
from consensus.finality.roundclock import RoundClock
from consensus.finality.rounds import Rounds
from consensus.parameters import Parameters
from consensus.polling.topological import Topological
from consensus.validators import Epoch, Leaders
from consensus.votes import (
    NO_BLOCK,
    Ballot,
    BallotKind,
    Proposal,
    SignedBallot,
    SignedProposal,
    VerifyEd25519,
    ballot_payload,
    proposal_payload,
    skip_ballot,
)
from consensus.wire import CERTIFICATES_PER_MESSAGE_MAX, NeedCerts, Propose, Vote

GAPS_REPEATED_MAX = 16
Emit = Callable[[Effect], None]


class InvalidVoteError(Exception):
    """A message that no honest peer sends: wrong form, wrong signer, wrong signature."""


class Gadget:
    """One epoch of the gadget at one validator (or at an observer, when `session` is None)."""

    def __init__(
        self,
        parameters: Parameters,
        genesis: bytes,
        chain: Topological,
        verify: VerifyEd25519,
        session: bytes | None,
        emit: Emit,
        relay: BallotRelay,
    ) -> None:
        """Call `begin` before anything else."""
        self._parameters = parameters
        self._genesis = genesis
        self._chain = chain
        self._verify = verify
        self._session = session
        self._emit = emit
        self._relay = relay
        self.sign_state = signstate.EMPTY
        self.silent_below = 0

    def begin(self, epoch: Epoch, base: tuple[int, bytes]) -> None:
        """Start an epoch above its base, the final boundary block of the epoch before."""
        self.members = epoch.validators
        self.rounds = Rounds(self.members.epoch, base)
        self._leaders = Leaders(self.members.members)
        self._box = BallotBox(self.members)
        self._proposals: dict[int, SignedProposal] = {}
        self._equivocated: set[int] = set()
        self.pending_final: Certificate | None = None
        self._clock = RoundClock(self._parameters)

    # --- what comes in

    def receive_proposal(self, signed: SignedProposal) -> bool:
        """A leader's proposal, whether it is news; InvalidVoteError if it is not one."""
        proposal = signed.proposal
        round_ = proposal.round
        if proposal.epoch != self.members.epoch or not self._is_near(round_, self.rounds.current):
            return False
        known = self._proposals.get(round_)
        # Each notarise vote brings its proposal along: most arrive again, and need no second check.
        if known is not None and known.proposal == proposal:
            return False
        leader = self._leaders.leader(round_)
        if not self._is_votable(proposal.height) or proposal.parent_round >= round_:
            raise InvalidVoteError("a proposal of impossible form")
        if not self._verify(leader, proposal_payload(self._genesis, proposal), signed.signature):
            raise InvalidVoteError("a proposal that its leader did not sign")
        if known is None:
            self._proposals[round_] = signed
        elif round_ not in self._equivocated:
            self._equivocated.add(round_)
            # In one order, whichever came first, so that all nodes report the same evidence.
            first, second = sorted((known, signed), key=lambda statement: statement.signature)
            self._emit(ReportEvidence(DoubleProposal(
                leader, first.proposal, first.signature, second.proposal, second.signature
            )))  # fmt: skip
        return True

    def receive_vote(self, vote: SignedBallot, source: bytes) -> bool:
        """A ballot, whether it is news; InvalidVoteError if it is malformed or not its voter's."""
        ballot = vote.ballot
        if ballot.epoch != self.members.epoch or not self._is_near(ballot.round, self.rounds.floor + 1):
            return False
        if self._box.has_no_use_for(ballot, vote.voter):
            return False
        if vote.voter not in self.members.index or not self._is_well_formed(ballot):
            raise InvalidVoteError("a ballot of impossible form")
        if not self._verify(vote.voter, ballot_payload(self._genesis, ballot), vote.signature):
            raise InvalidVoteError("a ballot that its voter did not sign")
        self._pass_on(vote, source)
        self._count(vote)
        return True

    def receive_certificate(self, certificate: Certificate) -> bool:
        """A certificate of this epoch, whether it is news; InvalidVoteError if it does not verify."""
        ballot = certificate.ballot
        if ballot.epoch != self.members.epoch or ballot.round < self.rounds.floor:
            return False
        held = self.rounds.find(ballot.kind, ballot.round)
        if held is not None and (ballot.height, ballot.block) == (held.ballot.height, held.ballot.block):
            return False
        if not self._is_well_formed(ballot):
            raise InvalidVoteError("a certificate of impossible form")
        if not verify_certificate(certificate, self.members, self._genesis, self._verify):
            raise InvalidVoteError("a certificate that does not verify")
        self._hold(certificate)
        # Counting its votes one by one finds those who also signed what excludes it. Should two
        # certificates ever conflict, this names more than a third of the stake.
        keys = signers_of(certificate, self.members) or ()
        for key, signature in zip(keys, certificate.signatures, strict=True):
            self._count(SignedBallot(ballot, key, signature))
        return True

    def signed(self, record: signstate.SignedRecord, signature: bytes) -> None:
        """The shell persisted and signed what we asked for: count it and send it."""
        self._clock.postpone()
        assert self._session is not None  # observers ask for no signature
        match record:
            case Proposal():
                signed = SignedProposal(record, signature)
                if record.epoch == self.members.epoch:
                    self._proposals.setdefault(record.round, signed)
                self._emit(Broadcast(Propose(signed)))
            case Ballot():
                vote = SignedBallot(record, self._session, signature)
                if record.epoch == self.members.epoch and record.round > self.rounds.floor:
                    self._count(vote)
                self._emit(Broadcast(self._vote_message(vote)))
            case signstate.HeaderRecord():
                pass  # the shell seals headers itself

    def answer(self, need: NeedCerts) -> tuple[Certificate, ...]:
        """Certificates that a node in `need`'s round of this epoch lacks, oldest first."""
        return tuple(islice(self.rounds.lacked_by(need.parent_round, need.final_round), CERTIFICATES_PER_MESSAGE_MAX))

    # --- what follows from it

    def advance(self, now_ms: int) -> None:
        """Do everything that is due. Called after each event."""
        self._finalise()
        self._enter_round()
        self._clock.keep(now_ms, has_work=self._has_work())
        if self._session in self.members.index:
            self._propose(now_ms)
            self._notarise(now_ms)
            self._skip(now_ms)
        self._resend(now_ms)

    def deadline_ms(self, now_ms: int) -> int | None:
        """When `advance` has something to do next without an event."""
        return self._clock.deadline_ms(now_ms, self._timeout_ms())

    def missing(self) -> tuple[bytes, ...]:
        """Blocks that the gadget waits for."""
        wanted = []
        if self.pending_final is not None:
            wanted.append(self.pending_final.ballot.block)
        lock = self.rounds.newest_notarised()
        if lock is not None and lock.ballot.height > self._chain.tree.final.height:
            wanted.append(lock.ballot.block)
        proposal = self._proposals.get(self.rounds.current)
        if proposal is not None:
            wanted.append(proposal.proposal.block)
        return tuple(block for block in wanted if block not in self._chain.tree)

    # --- certificates

    def _count(self, vote: SignedBallot) -> None:
        evidence = self._box.add(vote)
        if evidence is not None:
            self._emit(ReportEvidence(evidence))
        ballot = vote.ballot
        if not self.rounds.holds(ballot.kind, ballot.round):
            certificate = self._box.certificate(ballot)
            if certificate is not None:
                self._hold(certificate)

    def _hold(self, certificate: Certificate) -> None:
        if not self.rounds.add(certificate):
            return
        for effect in self._relay.pass_certificate(certificate):
            self._emit(effect)
        ballot = certificate.ballot
        # Forgotten by its only honest holder it could never be made again (docs/adr/0012, scenario `blackouts`).
        if ballot.kind != BallotKind.FINALISE:
            self._emit(PersistCertificate(certificate))
        if ballot.kind == BallotKind.FINALISE and ballot.height > self._chain.tree.final.height:
            self.pending_final = certificate
        lock = self.rounds.newest_notarised()
        if lock is not None and lock.ballot.round == ballot.round:
            self._chain.lock_on(lock.ballot.block)

    def _finalise(self) -> None:
        certificate, tree = self.pending_final, self._chain.tree
        if certificate is not None and certificate.ballot.block in tree:
            self.pending_final = None
            if certificate.ballot.height > tree.final.height:
                self.make_final(certificate)

    def make_final(self, certificate: Certificate) -> None:
        """Make the certified block final, which is in the tree, and all below it."""
        before = self._chain.tree.final.height
        path, overruled = self._chain.finalise(certificate.ballot.block)
        if overruled is not None:
            self._emit(AcceptedReverted(overruled, certificate.ballot.block))
        assert self._chain.tree.final.height > before, "the final height fell"
        self._box.prune(certificate.ballot.round)
        self._proposals = {round_: held for round_, held in self._proposals.items() if round_ >= self.rounds.current}
        self.sign_state = signstate.raise_floor(self.sign_state, certificate.ballot.epoch, certificate.ballot.round)
        self._emit(Finalise(path, certificate))

    # --- rounds and their timer

    def _enter_round(self) -> None:
        newest = self.rounds.newest()
        if newest < self.rounds.current:
            return
        notarised = self.rounds.notarised.get(newest)
        if notarised is not None and newest > self.rounds.floor:
            ballot = notarised.ballot
            self._sign(Ballot(BallotKind.FINALISE, ballot.epoch, newest, ballot.height, ballot.block))
        was = self.rounds.current
        self.rounds.current = newest + 1
        # After a jump over rounds this node can neither propose nor vote until it holds what is between.
        if newest > was and self.rounds.gaps():
            self._emit(Broadcast(self.need()))
        self._clock.restart()

    def _has_work(self) -> bool:
        parent = self.rounds.parent_round()
        if parent is None:
            return True
        height, _ = self.rounds.checkpoint(parent)
        tip = self._chain.tree[self._chain.preference].height
        final = self._chain.tree.final.height
        return min(tip, self._boundary()) > max(height, final) or height > final

    def _skips(self) -> int:
        """How many rounds in a row were skipped before this one."""
        parent = self.rounds.parent_round()
        return 0 if parent is None else self.rounds.current - 1 - parent

    def _timeout_ms(self) -> int:
        return self._parameters.round_timeout(self._skips())

    # --- ballots

    def _propose(self, now_ms: int) -> None:
        round_ = self.rounds.current
        if not self._clock.is_running or round_ in self._proposals:
            return
        if self._leaders.leader(round_) != self._session:
            return
        parent = self.rounds.parent_round()
        if parent is None:
            return
        has_waited = self._skips() > 0 or self._clock.has_waited(now_ms, self._parameters.soft_wait_ms)
        block = voting.choose_checkpoint(
            self._chain,
            self.rounds.checkpoint(parent),
            self._boundary(),
            has_waited=has_waited,
        )
        if block is None:
            return
        height = self._chain.tree[block].height
        self._sign(Proposal(self.members.epoch, round_, parent, height, block))

    def _notarise(self, now_ms: int) -> None:
        signed = self._proposals.get(self.rounds.current)
        # Votes would part among the blocks of a leader that proposed twice: its round is skipped.
        if signed is None or self.rounds.current in self._equivocated:
            return
        proposal = signed.proposal
        if not voting.is_linked(self._chain.tree, self.rounds, proposal):
            return
        has_waited = self._clock.has_waited(now_ms, self._parameters.soft_wait_ms)
        # Snowflake may be split for ever: after so many skips finality goes on without its word.
        is_overdue = self._skips() >= self._parameters.override_skips
        if is_overdue or voting.is_supported(self._chain, proposal.block, self._skips(), has_waited=has_waited):
            content = (proposal.epoch, proposal.round, proposal.height, proposal.block)
            self._sign(Ballot(BallotKind.NOTARISE, *content))

    def _skip(self, now_ms: int) -> None:
        ballot = skip_ballot(self.members.epoch, self.rounds.current)
        is_over = self._clock.has_waited(now_ms, self._timeout_ms())
        # Nobody votes for either proposal: to wait for the timeout stalled the prototype.
        is_spoilt = self.rounds.current in self._equivocated
        # Brings timeouts that began apart together: without it the prototype stalled.
        is_given_up = self.members.is_blocking(self._box.weight(ballot))
        if is_over or is_spoilt or is_given_up:
            self._sign(ballot)

    def is_silent(self) -> bool:
        """Whether the shell signs nothing yet: what it refused was never asked for again, and the round stood still."""
        return self._chain.tree.final.height < self.silent_below

    def _sign(self, record: Proposal | Ballot) -> None:
        """Ask for a signature, once, if nothing signed before excludes it."""
        if self._session not in self.members.index or self.is_silent():
            return
        try:
            state = signstate.after(self.sign_state, record)
        except signstate.SigningRefusedError:
            return
        if state is not self.sign_state:
            self.sign_state = state
            self._emit(PersistThenSign(record))

    # --- repetition

    def _resend(self, now_ms: int) -> None:
        """While a round lasts, repeat what may have been lost and ask for what we may lack."""
        if not self._clock.is_time_to_repeat(now_ms):
            return
        current = self.rounds.current
        parent = self.rounds.parent_round()
        if self._leaders.leader(current) == self._session and current in self._proposals:
            self._emit(Broadcast(Propose(self._proposals[current])))
        # Votes of rounds whose certificate nobody kept may make it once more.
        gaps = self.rounds.gaps()[:GAPS_REPEATED_MAX] if parent is None else [parent]
        for round_ in (*gaps, current):
            for vote in self._box.votes(round_):
                if vote.voter == self._session:
                    self._emit(Broadcast(self._vote_message(vote)))
                else:
                    self._pass_on(vote, None)
        self._emit(Broadcast(self.need()))

    def need(self) -> NeedCerts:
        """The question for certificates that this node may lack."""
        parent = self.rounds.parent_round()
        held = self.rounds.complete_to() if parent is None else parent
        return NeedCerts(self.members.epoch, self.rounds.current, held, self.rounds.floor, self._relay.bitmap())

    def _pass_on(self, vote: SignedBallot, source: bytes | None) -> None:
        for effect in self._relay.pass_vote(self._vote_message(vote), source):
            self._emit(effect)

    def _vote_message(self, vote: SignedBallot) -> Vote:
        # The proposal travels with the votes for it: whoever missed it could not join them, and rounds stalled.
        is_notarise = vote.ballot.kind == BallotKind.NOTARISE
        return Vote(vote, self._proposals.get(vote.ballot.round) if is_notarise else None)

    # --- form

    def _boundary(self) -> int:
        return self._parameters.boundary(self.members.epoch)

    def _is_near(self, round_: int, lowest: int) -> bool:
        return lowest <= round_ <= self.rounds.current + self._parameters.rounds_ahead_max

    def _is_votable(self, height: int) -> bool:
        return self.rounds.base[0] < height <= self._boundary()

    def _is_well_formed(self, ballot: Ballot) -> bool:
        if ballot.kind == BallotKind.SKIP:
            return (ballot.height, ballot.block) == (0, NO_BLOCK)
        return self._is_votable(ballot.height)
