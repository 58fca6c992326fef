"""The consensus of one node: events in, effects out, no clock, no socket, no disk.

`Machine` owns all consensus state and ties the parts together: Snowflake polls over the tree of
blocks (`topological`, `polls`), the finality gadget, the building of blocks in own slots, and the
fetching of missing blocks. `events` says what a shell feeds in and carries out, and `restore`
what it hands over at start. Docstrings there are the contract.

Always: every effect follows from the events alone (and from the injected `randbelow`), so that one
seed replays one run; nothing is signed that `signstate` does not allow.
"""

from collections.abc import Callable, Mapping

from consensus import events as ev
from consensus import signstate
from consensus.blocktree import BlockTree
from consensus.certificates import Certificate
from consensus.events import BlockFacts, Build, CertifiedRef, Effect, Event, Recovery, ReportDoubleHeader
from consensus.fetches import Fetches
from consensus.finality.catchup import CatchUp
from consensus.finality.gadget import Gadget
from consensus.finality.hearing import InvalidVoteError
from consensus.finality.relay import BallotRelay
from consensus.headers import proposer, slot_at
from consensus.neighbours import Neighbours
from consensus.parameters import Condition, Parameters
from consensus.polling import sampling
from consensus.polling.poller import Poller
from consensus.polling.topological import Topological
from consensus.signstate import SignState
from consensus.validators import Epoch, Epochs, SessionOf, ValidatorSet
from consensus.wire import Certified, Chits, Message, NeedCerts, Propose, PullQuery, Vote
from runtime.blocks.votes import NO_BLOCK, Ballot, Proposal, VerifyEd25519

FINAL_AT_ONCE = 8  # blocks, while a node catches up


# Headers by author and slot: an honest proposer seals one.
#
# Always: headers of slots at or below the final block's are forgotten.
class Twins:
    """The headers of each author in each slot above the final one."""

    def __init__(self) -> None:
        """None yet."""
        self._known: dict[tuple[bytes, int], list[bytes]] = {}
        self._final_slot = -1

    def count(self, facts: BlockFacts) -> int:
        """How many headers are known of a block's author in its slot."""
        return len(self._known.get((facts.author, facts.slot), ()))

    def add(self, facts: BlockFacts) -> list[ReportDoubleHeader]:
        """One more; the report of an offence, if it is one."""
        headers = self._known.setdefault((facts.author, facts.slot), [])
        headers.append(facts.id)
        if len(headers) == 1:
            return []
        return [ReportDoubleHeader(facts.author, facts.slot, headers[0], facts.id)]

    def forget_to(self, final_slot: int) -> None:
        """Slots up to this one are settled."""
        if final_slot > self._final_slot:
            self._final_slot = final_slot
            self._known = {key: ids for key, ids in self._known.items() if key[1] > final_slot}


# Votes that this validator signed before a restart, sent again once their blocks are here.
#
# Always: a recorded vote is asked for again at most once, only in its own epoch, only while its round is not final, and
# only when the block that it names is here: no validator vouches for a lost block.
class Recall:
    """The votes of a sign-state that wait for their block."""

    def __init__(self, recorded: SignState) -> None:
        """Everything that was signed waits."""
        self._waiting: tuple[Proposal | Ballot, ...] = (*recorded.proposals, *recorded.ballots)

    def take(self, epoch: int, tree: BlockTree, signed: SignState) -> list[Proposal | Ballot]:
        """Votes to send again now; `signed` is what still counts, the rest is forgotten."""
        if not self._waiting:
            return []
        waiting = [record for record in self._waiting if record in signed.proposals or record in signed.ballots]
        # A node that asked for a vote on a block which it did not have could never start again.
        ready = [record for record in waiting if record.epoch == epoch and _is_known(record, tree)]
        self._waiting = tuple(record for record in waiting if record not in ready)
        return ready


def _is_known(record: Proposal | Ballot, tree: BlockTree) -> bool:
    return record.block == NO_BLOCK or record.block in tree


def plan_block(
    parameters: Parameters,
    epochs: Epochs,
    session_of: SessionOf,
    slot: int,
    built_slot: int,
    tip: BlockFacts,
    processing: int,
    final: Certificate | None,
    boundary_of: Callable[[int], Certificate | None],
) -> Build | None:
    """The block to build now on the preferred `tip`, if the slot is ours and a block may be valid.

    `built_slot` is the newest slot in which we built, `processing` counts the undecided blocks up
    to the tip, `final` certifies the newest final block known (None for genesis), `boundary_of` the last one of an
    epoch, if it is known.
    """
    if slot <= built_slot or slot <= tip.slot or processing >= parameters.processing_max:
        return None
    height = tip.height + 1
    number = parameters.epoch_of(height)
    # Blocks of an epoch are built before the one before it has ended: the key is that of the block's epoch.
    session = session_of(number)
    reference = choose_reference(parameters, tip, final, boundary_of)
    # Headers refuse what runs further ahead of finality, or before the epoch's seed is final.
    if (tip.referenced_height if reference is None else reference.height) < parameters.referenced_min(height):
        return None
    epoch = epochs(number)
    if epoch is None or proposer(epoch, slot) != session:
        return None
    is_heartbeat = slot - tip.slot >= parameters.heartbeat_slots
    return Build(slot, tip.id, height, number, reference, is_heartbeat)


def choose_reference(
    parameters: Parameters, tip: BlockFacts, final: Certificate | None, boundary_of: Callable[[int], Certificate | None]
) -> CertifiedRef | None:
    """The final block to name on a tip: the newest one, but no boundary is passed over; None if there is no news."""
    limit = parameters.reference_max(tip.referenced_height)
    if final is not None and final.ballot.height > limit:
        final = boundary_of(parameters.epoch_of(limit))
    if final is None or final.ballot.height <= tip.referenced_height:
        return None
    return CertifiedRef(final.ballot.height, final.ballot.block, final)


# The work that one peer may cause in a second; beyond it, the peer is penalised or ignored.
#
# Always: counts are of the running second alone, and of peers that are connected.
class Allowance:
    """So many of something a second for each peer."""

    def __init__(self) -> None:
        """Nothing used."""
        self._second = 0
        self._used: dict[bytes, int] = {}

    def is_used_up(self, peer: bytes, most: int, now_ms: int) -> bool:
        """Count one more; whether that is more than `most` in this second."""
        second = now_ms // 1_000
        if second != self._second:
            self._second = second
            self._used.clear()
        self._used[peer] = self._used.get(peer, 0) + 1
        return self._used[peer] > most


class Machine:
    """See the module. `session_of` gives this node's session key in an epoch: None where it only follows."""

    def __init__(
        self,
        parameters: Parameters,
        genesis: bytes,
        epochs: Epochs,
        verify: VerifyEd25519,
        session_of: SessionOf,
        randbelow: sampling.RandBelow,
    ) -> None:
        """Call `restore` next."""
        self._parameters = parameters
        self._genesis = genesis
        self._epochs = epochs
        self._verify = verify
        self._session_of = session_of
        self._randbelow = randbelow
        self._effects: list[Effect] = []
        self._fetches = Fetches(parameters)
        self._neighbours = Neighbours()
        self._relay = BallotRelay(self._neighbours)
        self._queries = Allowance()
        self._useless = Allowance()
        self._twins = Twins()
        self._final_certificate: Certificate | None = None
        self._built_slot = 0
        self._is_gadget_due = True
        self._gadget_deadline_ms: int | None = None
        self._now_ms = 0
        self.deadline_ms = 0

    # --- the shell's side

    @property
    def final(self) -> BlockFacts:
        """The newest final block."""
        return self._tree.final

    @property
    def best(self) -> BlockFacts:
        """The accepted tip: what the RPC calls best. It is the final block when nothing newer is."""
        return self._tree[self._chain.accepted]

    @property
    def tip(self) -> BlockFacts:
        """The preferred tip, on which the next block would be built."""
        return self._tree[self._chain.preference]

    def facts_of(self, block: bytes) -> BlockFacts | None:
        """Facts of a block from the final one upwards, None if it is not there."""
        return self._tree.blocks.get(block)

    def ancestor_at(self, block: bytes, height: int) -> bytes | None:
        """The ancestor of such a block, None if it is below the final one."""
        return self._tree.ancestor_at(block, height) if height >= self.final.height else None

    def confidence(self, block: bytes) -> tuple[tuple[Condition, int], ...]:
        """How sure the polls are of a preferred block: each condition, and the polls in a row that met it."""
        return self._chain.confidence(block)

    def electorate(self, request: int) -> tuple[ValidatorSet, Mapping[bytes, int]]:
        """The set that an open poll asks, and the votes by session key of those that it drew from it."""
        return self._gadget.members, self._poller.polls.weights(request)

    def is_welcome(self, facts: BlockFacts) -> bool:
        """Whether to execute a block whose header is valid.

        A proposer may seal any number of headers in its slot; beyond a few only those count that
        somebody votes for.
        """
        return self._twins.count(facts) < self._parameters.headers_per_slot_max or self._fetches.is_wanted(facts.id)

    @property
    def gadget_round(self) -> tuple[int, int]:
        """(epoch, round) of the finality gadget, for metrics."""
        return self._gadget.members.epoch, self._gadget.rounds.current

    def restore(self, recovery: Recovery, now_ms: int) -> list[Effect]:
        """Start from what the shell kept."""
        final, certificate, sign_state = recovery.final, recovery.certificate, recovery.sign_state
        self._now_ms = now_ms
        self._tree = BlockTree(final)
        self._final_certificate = certificate
        epoch = self._epochs(self._parameters.epoch_of(final.height + 1))
        if epoch is None:
            raise ValueError("the epoch after the final block is not determined")
        self._chain = Topological(self._tree, *sampling.terms(self._parameters, epoch.validators))
        self._poller = Poller(self._parameters, self._chain, self._randbelow)
        self._gadget = Gadget(
            self._parameters, self._genesis, self._chain, self._verify, self._session_of, self._effects.append,
            self._relay,
        )  # fmt: skip
        self._catchup = CatchUp(self._parameters, self._gadget, recovery.boundaries, self._effects.append)
        if certificate is not None and self._parameters.is_boundary(final.height):
            self._catchup.end_epoch(certificate)
        # The shell may have died between the commit of a final block and the note of it in the sign-state.
        if certificate is not None:
            sign_state = signstate.raise_floor(sign_state, certificate.ballot.epoch, certificate.ballot.round)
        self._gadget.sign_state = sign_state
        self._gadget.silent_below = recovery.silent_below
        self._recall = Recall(sign_state)
        self._built_slot = sign_state.header.slot
        start = self._parameters.boundary(epoch.validators.epoch - 1)
        # In the middle of an epoch its base is not needed: the newest final round is the parent.
        self._seat(epoch)
        self._gadget.begin(epoch, (start, final.id if final.height == start else NO_BLOCK))
        if certificate is not None:
            self._gadget.receive_certificate(certificate)
        for kept in recovery.open_rounds:
            self._gadget.receive_certificate(kept)
        for facts in recovery.blocks:
            self._insert(facts)
        if recovery.preference is not None and recovery.preference in self._tree:
            self._chain.prefer(recovery.preference)
        self._persisted = self._reported = self._chain.preference
        self._accepted = self._chain.accepted
        return self._settle(now_ms)

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Take in one event; what to do about it, in order."""
        self._now_ms = now_ms
        match event:
            case ev.Tick():
                pass
            case ev.MessageReceived(peer) if peer not in self._neighbours:
                pass  # sent before the connection was lost
            case ev.MessageReceived(peer, PullQuery() as query):
                self._answer_query(peer, query)
            case ev.MessageReceived(peer, Chits() as chits):
                self._take_chits(peer, chits)
            case ev.MessageReceived(peer, message):
                self._receive(peer, message)
            case _:
                self._is_gadget_due = True
                self._take(event)
        return self._settle(now_ms)

    def _take(self, event: Event) -> None:
        match event:
            case ev.BlockImported(facts):
                self._insert(facts)
            case ev.BlockBuilt(facts):
                self._insert(facts)
                self._effects.append(ev.Announce(facts.id))
            case ev.RecordSigned(record, signature):
                self._gadget.signed(record, signature)
            case ev.BlockRejected(block):
                self._fetches.reject(block)
            case ev.BlockWanted(block, peer):
                self._want(block, peer)
            case ev.PeerConnected(peer, keys):
                self._connect(peer, keys)
            case ev.PeerLost(peer):
                self._disconnect(peer)
            case ev.MessageReceived() | ev.Tick():
                pass  # see `step`

    # --- peers and messages

    def _connect(self, peer: bytes, keys: tuple[bytes, ...]) -> None:
        self._neighbours.connect(peer, keys)
        self._relay.connect(peer, self._now_ms)
        for key in keys:
            self._poller.polls.forgive(key)
        self._effects.append(ev.SendTo(peer, self._gadget.need()))

    def _disconnect(self, peer: bytes) -> None:
        self._neighbours.disconnect(peer)
        self._relay.disconnect(peer, self._now_ms)
        self._catchup.forget(peer)

    def _receive(self, peer: bytes, message: Message) -> None:
        """Something for the gadget: it looks at what is news, and the sender answers for too much that is none."""
        try:
            is_news = self._hear(peer, message)
        except InvalidVoteError as error:
            self._effects.append(ev.Penalise(peer, str(error)))
            return
        self._is_gadget_due = self._is_gadget_due or is_news
        most = self._parameters.useless_most(len(self._gadget.members.members))
        # Far rounds, old rounds, repeats: cheap to drop, but not by the ten thousand.
        if not is_news and self._useless.is_used_up(peer, most, self._now_ms):
            self._effects.append(ev.Penalise(peer, "a flood of votes that change nothing"))

    def _hear(self, peer: bytes, message: Message) -> bool:
        match message:
            case Propose(proposal):
                self._catchup.note_position(peer, proposal.proposal.epoch, proposal.proposal.round, self._now_ms)
                return self._gadget.receive_proposal(proposal)
            case Vote(vote, proposal):
                self._catchup.note_position(peer, vote.ballot.epoch, vote.ballot.round, self._now_ms)
                self._relay.note_vote(peer, vote)
                is_proposed = proposal is not None and self._gadget.receive_proposal(proposal)
                return self._gadget.receive_vote(vote, peer) or is_proposed
            case Certified(certificates):
                is_news = False
                for certificate in certificates:
                    self._relay.note_certificate(peer, certificate.ballot)
                    is_news |= self._gadget.receive_certificate(certificate)
                return is_news
            case NeedCerts():
                self._catchup.answer(peer, message, self._now_ms)
                return self._relay.note_need(peer, message)
            case PullQuery() | Chits():
                return False  # see `step`

    def _answer_query(self, peer: bytes, query: PullQuery) -> None:
        # An honest peer polls a few times a second; a flood must not make this node talk.
        if self._queries.is_used_up(peer, self._parameters.queries_per_second_max, self._now_ms):
            return
        self._want(query.tip, peer)
        tip = self._chain.preference
        # Written before it is said: acceptance was reverted where a restart forgot what others had counted.
        if tip != self._persisted:
            self._persisted = tip
            self._effects.append(ev.PersistPreference(tip))
        answer = Chits(
            query.request,
            tip,
            self._chain.preferred_at(max(query.height, self.final.height)),
            self._chain.accepted,
            self.best.height,
            self.final.height,
        )
        self._effects.append(ev.SendTo(peer, answer))

    def _take_chits(self, peer: bytes, chits: Chits) -> None:
        vote = (chits.tip, chits.at_height)
        keys = self._neighbours.keys_of(peer)  # whoever proved none would vote as often as it connects
        if not self._poller.answer(chits.request, keys, vote, self._now_ms):
            return
        if chits.final_height >= self.final.height:
            self._want(chits.tip, peer)
        if chits.final_height > self.final.height + 1:
            self._catchup.ask(peer, self._now_ms)

    # --- blocks and certificates

    def _insert(self, facts: BlockFacts) -> None:
        self._fetches.settle(facts.id)
        if not self._chain.insert(facts):
            return
        self._effects.extend(self._twins.add(facts))
        reference = facts.final_ref
        if reference is not None and reference.height > self.final.height:
            self._gadget.receive_certificate(reference.certificate)
            self._finalise_on_the_way(reference)

    def _finalise_on_the_way(self, reference: ev.CertifiedRef) -> None:
        """While the newest final block is still to come: what a header's older certificate names, which its rules saw.

        An epoch of 1,800 full blocks became final all at once when its newest was here, and lay in memory until then.
        """
        newest, ballot = self._gadget.pending_final, reference.certificate.ballot
        # Its own height may be certified twice, and ends the epoch where it is the boundary: that is the gadget's.
        is_below = newest is not None and ballot.height < newest.ballot.height
        # Not each one: it is a synced write, which an empty block is quicker than.
        is_worth_it = ballot.height >= self.final.height + FINAL_AT_ONCE
        if is_below and is_worth_it and ballot.epoch == self._gadget.members.epoch:
            self._gadget.make_final(reference.certificate)

    def _want(self, block: bytes, peer: bytes) -> None:
        if block not in self._tree and not self._tree.is_past(block):
            self._fetches.want(block, peer, self._now_ms, is_voter=self._neighbours.is_voter(peer))

    # --- everything that may be due, after each event

    def _settle(self, now_ms: int) -> list[Effect]:
        if self._poller.finish(now_ms):
            self._is_gadget_due = True
        is_epoch_over = self.final.height == self._parameters.boundary(self._gadget.members.epoch)
        if self._is_gadget_due or is_epoch_over or (self._gadget_deadline_ms or now_ms + 1) <= now_ms:
            self._advance_gadget(now_ms)
        self._build(now_ms)
        self._effects.extend(self._poller.start(self._gadget.members, self._neighbours, now_ms))
        self._effects.extend(self._relay.tell(self._gadget.need, now_ms))
        peers = self._neighbours.in_order()
        if peers:
            for block in self._gadget.missing():
                self._fetches.need(block, now_ms)
            self._effects.extend(self._fetches.due(peers, self.final.height, now_ms))
        self.deadline_ms = self._next_deadline(now_ms)
        effects = self._effects[:]
        self._effects.clear()
        return effects

    def _advance_gadget(self, now_ms: int) -> None:
        self._is_gadget_due = False
        self._gadget.advance(now_ms)
        while self._change_epoch():
            self._gadget.advance(now_ms)
        self._gadget_deadline_ms = self._gadget.deadline_ms(now_ms)
        if not self._gadget.is_silent():
            recalled = self._recall.take(self._gadget.members.epoch, self._tree, self._gadget.sign_state)
            self._effects.extend(ev.PersistThenSign(record) for record in recalled)
        self._twins.forget_to(self.final.slot)
        self._report()

    def _change_epoch(self) -> bool:
        """When the boundary block is final, the next epoch's validators take over."""
        number = self._gadget.members.epoch
        final = self.final
        if final.height != self._parameters.boundary(number):
            return False
        following = self._epochs(number + 1)
        ended = self._gadget.rounds.final
        if following is None or ended is None:
            return False
        self._final_certificate = ended
        self._catchup.end_epoch(ended)
        self._seat(following)
        self._gadget.begin(following, (final.height, final.id), ended)
        self._poller.polls.abandon()  # the old set's answers say nothing under the new set's thresholds
        self._chain.restart_confidence(*sampling.terms(self._parameters, following.validators))
        return True

    def _seat(self, epoch: Epoch) -> None:
        """Another set votes, with other keys or the same."""
        members = epoch.validators
        self._neighbours.begin(members, self._session_of(members.epoch))
        self._relay.begin(members, self._now_ms)

    def _report(self) -> None:
        """Say what became accepted and which tip is preferred."""
        if self._accepted != self._chain.accepted:
            is_ahead = self._accepted in self._tree and self._tree.descends(self._chain.accepted, self._accepted)
            # Where finality overruled an acceptance, the new branch is told from the final block on.
            base = self._accepted if is_ahead else self.final.id
            path = self._tree.path(base, self._chain.accepted)
            self._effects.extend(ev.Accepted(block, self._tree[block].height) for block in path)
            self._accepted = self._chain.accepted
        if self._reported != self._chain.preference:
            self._reported = self._chain.preference
            self._effects.append(ev.PreferenceChanged(self._reported))

    # --- building

    def _build(self, now_ms: int) -> None:
        """In an own slot, once, ask for a block on the preferred tip."""
        request = plan_block(
            self._parameters,
            self._epochs,
            self._session_of,
            slot_at(now_ms, self._parameters.slot_ms),
            self._built_slot,
            self.tip,
            self._chain.count_processing(),
            self._newest_certificate(),
            self._catchup.boundary_of,
        )
        if request is not None:
            self._built_slot = request.slot
            self._effects.append(request)

    def _newest_certificate(self) -> Certificate | None:
        certificate = self._gadget.rounds.final
        if certificate is not None and certificate.ballot.block == self.final.id:
            self._final_certificate = certificate
        return self._final_certificate

    def _next_deadline(self, now_ms: int) -> int:
        slot_ms = self._parameters.slot_ms
        next_slot_ms = (now_ms // slot_ms + 1) * slot_ms
        fetches_ms = self._fetches.deadline_ms() if self._neighbours.in_order() else None
        parts = (self._poller.deadline_ms(), self._gadget_deadline_ms, fetches_ms, self._relay.deadline_ms())
        return max(min([next_slot_ms, *(moment for moment in parts if moment is not None)]), now_ms + 1)
