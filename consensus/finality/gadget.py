"""The finality gadget: Simplex on checkpoints of the chain that Snowflake chooses.

A round: its leader proposes a checkpoint; validators notarise it, or skip the round when its time
is over; more than two thirds notarised: finalise, and enter the next round.

Always (of an honest node): one notarise ballot a round; never a finalise and a skip in one round;
a notarise ballot only for a block that descends from a notarised parent checkpoint, with every
round between certified as skipped. Two final blocks therefore never conflict while less than a
third of the stake is Byzantine, whatever the network does.
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
from consensus.validators import Epoch, SessionOf
from consensus.wire import CERTIFICATES_PER_MESSAGE_MAX, NeedCerts, Propose, Vote
from runtime.blocks.votes import Ballot, BallotKind, Proposal, SignedBallot, SignedProposal, VerifyEd25519, skip_ballot

GAPS_REPEATED_MAX = 16


# Which checkpoint a leader proposes, and which one deserves a notarise ballot.
#
# Always: `is_linked` is the lock on which safety rests; everything else here only steers liveness, and how often
# finality has to overrule what Snowflake accepted.
def choose_checkpoint(
    chain: Topological, parent: tuple[int, bytes], boundary: int, *, has_waited: bool
) -> bytes | None:
    """Return the block to propose on a parent checkpoint (height, block), up to the height of the epoch's end.

    The accepted block; after a wait the preferred one; else the parent's own checkpoint again while
    that is not final, because nothing above it may be proposed.
    """
    tree = chain.tree
    parent_height, checkpoint = parent
    if checkpoint not in tree:
        return None
    tips = (chain.accepted, chain.preference) if has_waited else (chain.accepted,)
    for tip in tips:
        block = tree.ancestor_at(tip, boundary)
        if tree[block].height > parent_height and tree.descends(block, checkpoint):
            return block
    return checkpoint if has_waited and parent_height > tree.final.height else None


def is_linked(tree: BlockTree, rounds: Rounds, proposal: Proposal) -> bool:
    """Whether a proposal is on a notarised parent, every round between being certified as skipped."""
    if proposal.block not in tree or tree[proposal.block].height != proposal.height:
        return False
    if not rounds.links(proposal.parent_round, proposal.round):
        return False
    _, checkpoint = rounds.checkpoint(proposal.parent_round)
    return checkpoint in tree and tree.descends(proposal.block, checkpoint)


def is_supported(chain: Topological, block: bytes, skips: int, *, has_waited: bool) -> bool:
    """Whether Snowflake speaks for a known block, more loosely after skipped rounds."""
    if _is_on(chain.tree, block, chain.accepted):
        return True
    # Own acceptance counts even then: voting against it at the first skips made finality overrule
    # acceptance 43 times in 150 storms of four honest nodes; this rule left 8.
    if skips > 0:
        return chain.tree.is_related(block, chain.accepted)
    return has_waited and _is_on(chain.tree, block, chain.preference)


def _is_on(tree: BlockTree, block: bytes, tip: bytes) -> bool:
    return tree[block].height <= tree[tip].height and tree.descends(tip, block)


# The clock of a gadget round: since when there is something to make final, and when votes are repeated.
#
# Always: it stands while there is no work, so that an idle network neither skips rounds nor repeats votes.
class RoundClock:
    """Milliseconds of one round; `restart` begins the next."""

    def __init__(self, parameters: Parameters) -> None:
        """Not running."""
        self._parameters = parameters
        self.restart()

    def restart(self) -> None:
        """A round is entered."""
        self._work_since_ms: int | None = None
        self._repeat_at_ms = 0

    @property
    def is_running(self) -> bool:
        """Whether the round has something to make final."""
        return self._work_since_ms is not None

    def keep(self, now_ms: int, *, has_work: bool) -> None:
        """Run while there is work, stand while there is none."""
        if not has_work:
            self.restart()
        elif self._work_since_ms is None:
            self._work_since_ms = now_ms
            self._repeat_at_ms = now_ms + 2 * self._parameters.resend_ms

    def has_waited(self, now_ms: int, wait_ms: int) -> bool:
        """Whether the round has had work for so long."""
        return self._work_since_ms is not None and now_ms >= self._work_since_ms + wait_ms

    def postpone(self) -> None:
        """A vote was just sent: repeat that much later."""
        self._repeat_at_ms += self._parameters.resend_ms

    def is_time_to_repeat(self, now_ms: int) -> bool:
        """Whether votes and questions are due to be sent again; then the next time is set."""
        if self._work_since_ms is None or now_ms < self._repeat_at_ms:
            return False
        self._repeat_at_ms = now_ms + self._parameters.resend_ms
        return True

    def deadline_ms(self, now_ms: int, timeout_ms: int) -> int | None:
        """When the round has something to do next without an event."""
        if self._work_since_ms is None:
            return None
        ends = [self._work_since_ms + wait for wait in (self._parameters.soft_wait_ms, timeout_ms)]
        return min([self._repeat_at_ms, *(end for end in ends if end > now_ms)])


# Late messages of the epoch before: read for evidence alone.
#
# A vote that excludes an earlier one often comes late, and whoever offends does it best where sets change: before this,
# all that an ended epoch's members said after its end was dropped unread.
#
# Always: nothing is signed, sent or made final from here; rounds below the boundary's final one are settled and not
# heard; an epoch longer ago is not heard at all.
class EndedEpoch:
    """The hearing of an ended epoch, from its final round up to the rounds that were in reach at its end."""

    def __init__(self, hearing: EpochHearing, boundary: Certificate, round_max: int) -> None:
        """`boundary` made the epoch's last block final."""
        self._hearing = hearing
        self._rounds = range(boundary.ballot.round, round_max + 1)
        self._seen: set[Ballot] = {boundary.ballot}

    @property
    def epoch(self) -> int:
        """The epoch that ended."""
        return self._hearing.members.epoch

    def proposal(self, signed: SignedProposal) -> bool:
        """A proposal, whether it is news; InvalidVoteError as ever."""
        return signed.proposal.round in self._rounds and self._hearing.proposal(signed)

    def vote(self, vote: SignedBallot) -> bool:
        """A ballot, whether it is news; InvalidVoteError as ever."""
        if vote.ballot.round not in self._rounds or not self._hearing.is_news(vote):
            return False
        self._hearing.count(vote)
        return True

    def certificate(self, certificate: Certificate) -> bool:
        """A certificate, whether it is news; InvalidVoteError as ever. One that conflicts names who made it so."""
        if certificate.ballot.round not in self._rounds or certificate.ballot in self._seen:
            return False
        self._hearing.check(certificate)
        self._seen.add(certificate.ballot)
        for vote in self._hearing.votes_of(certificate):
            self._hearing.count(vote)
        return True


class Gadget:
    """One epoch of the gadget at one validator, or at an observer (where `session_of` has no key for the epoch)."""

    def __init__(
        self,
        parameters: Parameters,
        genesis: bytes,
        chain: Topological,
        verify: VerifyEd25519,
        session_of: SessionOf,
        emit: Emit,
        relay: BallotRelay,
    ) -> None:
        """Call `begin` before anything else."""
        self._heard: EpochHearing
        self.rounds: Rounds
        self._parameters = parameters
        self._genesis = genesis
        self._chain = chain
        self._verify = verify
        self._session_of = session_of
        self._emit = emit
        self._relay = relay
        self.sign_state = signstate.EMPTY
        self.silent_below = 0

    def begin(self, epoch: Epoch, base: tuple[int, bytes], ended: Certificate | None = None) -> None:
        """Start an epoch above its base, the final boundary block of the epoch before.

        `ended` is that block's certificate where this gadget went through the epoch before: its members are still
        heard, for evidence alone.
        """
        before = None
        if ended is not None:
            before = EndedEpoch(self._heard, ended, self.rounds.current + self._parameters.rounds_ahead_max)
        self._ended: EndedEpoch | None = before
        self.members = epoch.validators
        self.rounds = Rounds(self.members.epoch, base)
        self._session = self._session_of(self.members.epoch)
        self._heard = EpochHearing(self._parameters, epoch, self._genesis, self._verify, self._emit)
        self.pending_final: Certificate | None = None
        self._clock = RoundClock(self._parameters)

    # --- what comes in

    def receive_proposal(self, signed: SignedProposal) -> bool:
        """A leader's proposal, whether it is news; InvalidVoteError if it is not one."""
        proposal = signed.proposal
        if self._ended is not None and proposal.epoch == self._ended.epoch:
            return self._ended.proposal(signed)
        if proposal.epoch != self.members.epoch or not self._is_near(proposal.round, self.rounds.floor + 1):
            return False
        return self._heard.proposal(signed)

    def receive_vote(self, vote: SignedBallot, source: bytes) -> bool:
        """A ballot, whether it is news; InvalidVoteError if it is malformed or not its voter's."""
        ballot = vote.ballot
        if self._ended is not None and ballot.epoch == self._ended.epoch:
            return self._ended.vote(vote)
        if ballot.epoch != self.members.epoch or not self._is_near(ballot.round, self.rounds.floor + 1):
            return False
        if not self._heard.is_news(vote):
            return False
        self._pass_on(vote, source)
        self._count(vote)
        return True

    def receive_certificate(self, certificate: Certificate) -> bool:
        """A certificate, whether it is news; InvalidVoteError if it does not verify."""
        ballot = certificate.ballot
        if self._ended is not None and ballot.epoch == self._ended.epoch:
            return self._ended.certificate(certificate)
        if ballot.epoch != self.members.epoch or ballot.round < self.rounds.floor:
            return False
        held = self.rounds.find(ballot.kind, ballot.round)
        if held is not None and (ballot.height, ballot.block) == (held.ballot.height, held.ballot.block):
            return False
        self._heard.check(certificate)
        self._hold(certificate)
        for vote in self._heard.votes_of(certificate):
            self._count(vote)
        return True

    def signed(self, record: signstate.SignedRecord, signature: bytes) -> None:
        """The shell persisted and signed what we asked for: count it and send it."""
        self._clock.postpone()
        match record:
            case Proposal():
                signed = SignedProposal(record, signature)
                if record.epoch == self.members.epoch:
                    self._heard.proposals.setdefault(record.round, signed)
                self._emit(Broadcast(Propose(signed)))
            case Ballot():
                # The answer may come when the next epoch has begun, in which this node may have another key or none.
                session = self._session_of(record.epoch)
                assert session is not None  # observers ask for no signature
                vote = SignedBallot(record, session, signature)
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
        proposal = self._heard.proposals.get(self.rounds.current)
        if proposal is not None:
            wanted.append(proposal.proposal.block)
        return tuple(block for block in wanted if block not in self._chain.tree)

    # --- certificates

    def _count(self, vote: SignedBallot) -> None:
        self._heard.count(vote)
        ballot = vote.ballot
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
        self._heard.prune(certificate.ballot.round)
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
        if not self._clock.is_running or round_ in self._heard.proposals:
            return
        if self._heard.leaders.leader(round_) != self._session:
            return
        parent = self.rounds.parent_round()
        if parent is None:
            return
        has_waited = self._skips() > 0 or self._clock.has_waited(now_ms, self._parameters.soft_wait_ms)
        block = choose_checkpoint(
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
        signed = self._heard.proposals.get(self.rounds.current)
        # Votes would part among the blocks of a leader that proposed twice: its round is skipped.
        if signed is None or self.rounds.current in self._heard.equivocated:
            return
        proposal = signed.proposal
        if not is_linked(self._chain.tree, self.rounds, proposal):
            return
        if self._is_wanted(proposal.block, now_ms):
            content = (proposal.epoch, proposal.round, proposal.height, proposal.block)
            self._sign(Ballot(BallotKind.NOTARISE, *content))

    def _is_wanted(self, block: bytes, now_ms: int) -> bool:
        """Whether a linked proposal is to be voted for; safety does not rest on it."""
        has_waited = self._clock.has_waited(now_ms, self._parameters.soft_wait_ms)
        # Snowflake may be split for ever: after so many skips finality goes on without its word.
        is_overdue = self._skips() >= self._parameters.override_skips
        return is_overdue or is_supported(self._chain, block, self._skips(), has_waited=has_waited)

    def _skip(self, now_ms: int) -> None:
        ballot = skip_ballot(self.members.epoch, self.rounds.current)
        is_over = self._clock.has_waited(now_ms, self._timeout_ms())
        # Nobody votes for either proposal: to wait for the timeout stalled the prototype.
        is_spoilt = self.rounds.current in self._heard.equivocated
        # Brings timeouts that began apart together: without it the prototype stalled.
        is_given_up = self.members.is_blocking(self._heard.box.weight(ballot))
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
        if self._heard.leaders.leader(current) == self._session and current in self._heard.proposals:
            self._emit(Broadcast(Propose(self._heard.proposals[current])))
        # Votes of rounds whose certificate nobody kept may make it once more.
        gaps = self.rounds.gaps()[:GAPS_REPEATED_MAX] if parent is None else [parent]
        for round_ in (*gaps, current):
            for vote in self._heard.box.votes(round_):
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
        return Vote(vote, self._heard.proposals.get(vote.ballot.round) if is_notarise else None)

    # --- form

    def _boundary(self) -> int:
        return self._parameters.boundary(self.members.epoch)

    def _is_near(self, round_: int, lowest: int) -> bool:
        return lowest <= round_ <= self.rounds.current + self._parameters.rounds_ahead_max
