"""The consensus of one node: events in, effects out, no clock, no socket, no disk.

`Machine` owns all consensus state and connects the parts: Snowflake polls over the tree of blocks (`topological`,
`polls`), the finality gadget, building blocks in own slots, and fetching missing blocks. The docstrings of `events` are
the contract for the shell: the events it passes in, the effects it carries out, and the saved data for `restore`.

Invariant: effects depend on the events (and the injected `randbelow`) alone, so that one seed replays one run. Nothing
is signed that `signstate` refuses.
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
from consensus.parameters import FULL_POLL_VALIDATORS_MAX, Condition, Parameters
from consensus.polling import sampling
from consensus.polling.poller import Poller
from consensus.polling.topological import Topological
from consensus.signstate import SignState
from consensus.validators import Epoch, Epochs, SessionOf, Validator, ValidatorSet
from consensus.wire import Certified, Chits, Message, NeedCerts, Propose, PullQuery, Vote
from runtime.blocks.votes import NO_BLOCK, Ballot, Proposal, VerifyEd25519

FINAL_AT_ONCE = 8  # blocks per commit, while a node catches up


# Headers by author and slot: an honest proposer seals one.
#
# Invariant: headers of slots at or below the final block's are forgotten.
class Twins:
    """The headers of each author in each slot above the final one."""

    def __init__(self) -> None:
        """Start without headers."""
        self._known: dict[tuple[bytes, int], list[bytes]] = {}
        self._final_slot = -1

    def count(self, facts: BlockFacts) -> int:
        """Return the number of known headers of a block's author in its slot."""
        return len(self._known.get((facts.author, facts.slot), ()))

    def add(self, facts: BlockFacts) -> list[ReportDoubleHeader]:
        """Add a header. Return the report of an offence if it is the author's second in the slot."""
        headers = self._known.setdefault((facts.author, facts.slot), [])
        headers.append(facts.id)
        if len(headers) == 1:
            return []
        return [ReportDoubleHeader(facts.author, facts.slot, headers[0], facts.id)]

    def forget_to(self, final_slot: int) -> None:
        """Forget the headers of slots up to this one, which is final."""
        if final_slot > self._final_slot:
            self._final_slot = final_slot
            self._known = {
                author_and_slot: header_ids
                for author_and_slot, header_ids in self._known.items()
                if author_and_slot[1] > final_slot
            }


# Votes that this validator signed before a restart, sent again once their blocks are here.
#
# Invariant: a recorded vote is requested again at most once, only in its own epoch, only while its round is not final,
# and only if the named block is here: no validator vouches for a lost block.
class Recall:
    """The votes of a sign-state that wait for their block."""

    def __init__(self, recorded: SignState) -> None:
        """Start with all recorded votes."""
        self._waiting: tuple[Proposal | Ballot, ...] = (*recorded.proposals, *recorded.ballots)

    def take(self, epoch_number: int, tree: BlockTree, sign_state: SignState) -> list[Proposal | Ballot]:
        """Return the votes to sign and send again. Forget recorded votes that are no longer in `sign_state`."""
        if not self._waiting:
            return []
        waiting_records = [
            record for record in self._waiting if record in sign_state.proposals or record in sign_state.ballots
        ]
        # Without the check for the block, a restarted node asked for a vote on a block that it lacked, and never got
        # started.
        ready_records = [
            record for record in waiting_records if record.epoch == epoch_number and _is_known(record, tree)
        ]
        self._waiting = tuple(record for record in waiting_records if record not in ready_records)
        return ready_records


def _is_known(signed_record: Proposal | Ballot, tree: BlockTree) -> bool:
    return signed_record.block == NO_BLOCK or signed_record.block in tree


def plan_block(
    parameters: Parameters,
    epochs: Epochs,
    session_of: SessionOf,
    slot: int,
    built_slot: int,
    tip_facts: BlockFacts,
    processing: int,
    final_certificate: Certificate | None,
    boundary_of: Callable[[int], Certificate | None],
) -> Build | None:
    """Return the request to build on the preferred tip, None if the slot is not ours or no block would be valid.

    `built_slot` is the newest slot in which this node built. `processing` counts the undecided blocks up to the tip.
    `final_certificate` is that of the newest known final block (None for genesis). `boundary_of` returns the
    certificate of an epoch's last block, None if unknown.
    """
    if slot <= built_slot or slot <= tip_facts.slot or processing >= parameters.processing_max:
        return None
    height = tip_facts.height + 1
    epoch_number = parameters.epoch_of(height)
    # An epoch's first blocks are built while the previous epoch still votes: the key is that of the block's epoch.
    session_key = session_of(epoch_number)
    reference = choose_reference(parameters, tip_facts, final_certificate, boundary_of)
    # `headers` refuses blocks too far ahead of finality, and blocks before the epoch's seed is final.
    if (tip_facts.referenced_height if reference is None else reference.height) < parameters.referenced_min(height):
        return None
    epoch = epochs(epoch_number)
    if epoch is None or proposer(epoch, slot) != session_key:
        return None
    is_heartbeat = slot - tip_facts.slot >= parameters.heartbeat_slots
    return Build(slot, tip_facts.id, height, epoch_number, reference, is_heartbeat)


def choose_reference(
    parameters: Parameters,
    tip_facts: BlockFacts,
    final_certificate: Certificate | None,
    boundary_of: Callable[[int], Certificate | None],
) -> CertifiedRef | None:
    """Return the final block to name on a tip, None if there is no newer one than its ancestry names.

    It is the newest final block, but a boundary on the way must be named first.
    """
    reference_max = parameters.reference_max(tip_facts.referenced_height)
    if final_certificate is not None and final_certificate.ballot.height > reference_max:
        final_certificate = boundary_of(parameters.epoch_of(reference_max))
    if final_certificate is None or final_certificate.ballot.height <= tip_facts.referenced_height:
        return None
    return CertifiedRef(final_certificate.ballot.height, final_certificate.ballot.block, final_certificate)


# The work that one peer may cause per second. Beyond it, the peer is penalised or ignored.
#
# Invariant: the counts are those of the current second, and of connected peers.
class Allowance:
    """A limit per second and peer."""

    def __init__(self) -> None:
        """Start with no use counted."""
        self._second = 0
        self._used: dict[bytes, int] = {}

    def is_used_up(self, peer: bytes, allowance: int, now_ms: int) -> bool:
        """Count one use. Return True if the peer now has more than `allowance` uses in this second."""
        second = now_ms // 1_000
        if second != self._second:
            self._second = second
            self._used.clear()
        self._used[peer] = self._used.get(peer, 0) + 1
        return self._used[peer] > allowance


class Machine:
    """The consensus of one node. `session_of` returns its session key in an epoch, None if it only follows."""

    def __init__(
        self,
        parameters: Parameters,
        genesis_hash: bytes,
        epochs: Epochs,
        verify_signature: VerifyEd25519,
        session_of: SessionOf,
        randbelow: sampling.RandBelow,
    ) -> None:
        """Create an empty machine. Call `restore` next."""
        self._parameters = parameters
        self._genesis = genesis_hash
        self._epochs = epochs
        self._verify = verify_signature
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

    # --- interface for the shell

    @property
    def final(self) -> BlockFacts:
        """The newest final block."""
        return self._tree.final

    @property
    def best(self) -> BlockFacts:
        """The accepted tip, "best" in the RPC. It is the final block if no newer block is accepted."""
        return self._tree[self._chain.accepted]

    @property
    def tip(self) -> BlockFacts:
        """The preferred tip, on which this node builds its next block."""
        return self._tree[self._chain.preference]

    def facts_of(self, block_id: bytes) -> BlockFacts | None:
        """Return the facts of a block from the final one upwards, None if it is unknown."""
        return self._tree.blocks.get(block_id)

    def ancestor_at(self, block: bytes, height: int) -> bytes | None:
        """Return the ancestor of a known block at a height, None if that is below the final block."""
        return self._tree.ancestor_at(block, height) if height >= self.final.height else None

    def confidence(self, block: bytes) -> tuple[tuple[Condition, int], ...]:
        """Return each condition of acceptance for a preferred block, and the polls in a row that met it."""
        return self._chain.confidence(block)

    def electorate(self, request_number: int) -> tuple[ValidatorSet, Mapping[bytes, int]]:
        """Return the set that an open poll samples, and the votes by session key of the sampled validators."""
        return self._gadget.members, self._poller.polls.weights(request_number)

    def is_welcome(self, facts: BlockFacts) -> bool:
        """Return True if a block with a valid header should be executed.

        A proposer may seal any number of headers in its slot. Beyond `headers_per_slot_max` only blocks that are wanted
        count, because a voter mentioned them.
        """
        return self._twins.count(facts) < self._parameters.headers_per_slot_max or self._fetches.is_wanted(facts.id)

    @property
    def gadget_round(self) -> tuple[int, int]:
        """(epoch, round) of the finality gadget, for metrics."""
        return self._gadget.members.epoch, self._gadget.rounds.current

    def unheard(self) -> tuple[Validator, ...]:
        """Return the validators whose votes do not arrive while finality stands, for the log."""
        validators, unheard, linked = self._gadget.members, self._gadget.unheard(), self._neighbours.linked()
        # Votes of a stuck round stay, also those of a validator that fell silent later. In a small set all voters are
        # linked, so a lost link tells them apart.
        if self._neighbours.session not in linked or len(validators.members) > FULL_POLL_VALIDATORS_MAX:
            return unheard
        return tuple(member for member in validators.members if member in unheard or member.session not in linked)

    def restore(self, recovery: Recovery, now_ms: int) -> list[Effect]:
        """Start with the shell's saved data. Raise ValueError if the epoch after the final block is unknown."""
        final, certificate, sign_state = recovery.final, recovery.certificate, recovery.sign_state
        self._now_ms = now_ms
        self._tree = BlockTree(final)
        self._final_certificate = certificate
        epoch = self._epochs(self._parameters.epoch_of(final.height + 1))
        if epoch is None:
            raise ValueError("unknown set of the epoch after the final block")
        self._chain = Topological(self._tree, *sampling.terms(self._parameters, epoch.validators))
        self._poller = Poller(self._parameters, self._chain, self._randbelow)
        self._gadget = Gadget(
            self._parameters, self._genesis, self._chain, self._verify, self._session_of, self._effects.append,
            self._relay,
        )  # fmt: skip
        self._catchup = CatchUp(self._parameters, self._gadget, recovery.boundaries, self._effects.append)
        if certificate is not None and self._parameters.is_boundary(final.height):
            self._catchup.end_epoch(certificate)
        # The shell may have died after the commit of a final block and before the raised floor of the sign-state.
        if certificate is not None:
            sign_state = signstate.raise_floor(sign_state, certificate.ballot.epoch, certificate.ballot.round)
        self._gadget.sign_state = sign_state
        self._gadget.silent_below = recovery.silent_below
        self._recall = Recall(sign_state)
        self._built_slot = sign_state.header.slot
        epoch_start = self._parameters.boundary(epoch.validators.epoch - 1)
        # In the middle of an epoch the base is not needed: the newest final round is the parent.
        self._seat(epoch)
        self._gadget.begin(epoch, (epoch_start, final.id if final.height == epoch_start else NO_BLOCK))
        if certificate is not None:
            self._gadget.receive_certificate(certificate)
        for open_round in recovery.open_rounds:
            self._gadget.receive_certificate(open_round)
        for facts in recovery.blocks:
            self._insert(facts)
        if recovery.preference is not None and recovery.preference in self._tree:
            self._chain.prefer(recovery.preference)
        self._persisted = self._reported = self._chain.preference
        self._accepted = self._chain.accepted
        return self._settle(now_ms)

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Process one event. Return the effects, in order."""
        self._now_ms = now_ms
        match event:
            case ev.Tick():
                pass
            case ev.MessageReceived(peer) if peer not in self._neighbours:
                pass  # the connection ended meanwhile
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
            case ev.BlockRejected(block_id):
                self._fetches.reject(block_id)
            case ev.BlockWanted(block_id, peer):
                self._want(block_id, peer)
            case ev.PeerConnected(peer, session_keys):
                self._connect(peer, session_keys)
            case ev.PeerLost(peer):
                self._disconnect(peer)
            case ev.MessageReceived() | ev.Tick():
                pass  # see `step`

    # --- peers and messages

    def _connect(self, peer: bytes, session_keys: tuple[bytes, ...]) -> None:
        self._neighbours.connect(peer, session_keys)
        self._relay.connect(peer, self._now_ms)
        for session_key in session_keys:
            self._poller.polls.forgive(session_key)
        self._effects.append(ev.SendTo(peer, self._gadget.need()))

    def _disconnect(self, peer: bytes) -> None:
        self._neighbours.disconnect(peer)
        self._relay.disconnect(peer, self._now_ms)
        self._catchup.forget(peer)

    def _receive(self, peer: bytes, message: Message) -> None:
        """Pass a message to the gadget, and penalise a peer that sends too many without news."""
        try:
            is_news = self._hear(peer, message)
        except InvalidVoteError as error:
            self._effects.append(ev.Penalise(peer, str(error)))
            return
        self._is_gadget_due = self._is_gadget_due or is_news
        useless_max = self._parameters.useless_most(len(self._gadget.members.members))
        # Messages about far or old rounds, and repeats, are cheap to drop, but not by the ten thousand.
        if not is_news and self._useless.is_used_up(peer, useless_max, self._now_ms):
            self._effects.append(ev.Penalise(peer, "too many votes without news"))

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
        # An honest peer polls a few times a second. A flood must not make this node an amplifier.
        if self._queries.is_used_up(peer, self._parameters.queries_per_second_max, self._now_ms):
            return
        self._want(query.tip, peer)
        preferred_tip = self._chain.preference
        # Saved before it is sent: acceptance was reverted where a restart forgot a preference that others had counted.
        if preferred_tip != self._persisted:
            self._persisted = preferred_tip
            self._effects.append(ev.PersistPreference(preferred_tip))
        answer = Chits(
            query.request,
            preferred_tip,
            self._chain.preferred_at(max(query.height, self.final.height)),
            self._chain.accepted,
            self.best.height,
            self.final.height,
        )
        self._effects.append(ev.SendTo(peer, answer))

    def _take_chits(self, peer: bytes, chits: Chits) -> None:
        vote = (chits.tip, chits.at_height)
        session_keys = self._neighbours.keys_of(peer)  # else a peer without keys would vote once per connection
        if not self._poller.answer(chits.request, session_keys, vote, self._now_ms):
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
        """Make a block final by the certificate in a header, while the newest final block is still missing.

        Without this, the blocks of an epoch of 1,800 full ones stayed in memory until the newest of them arrived.
        """
        newest, ballot = self._gadget.pending_final, reference.certificate.ballot
        # At the newest final height itself there may be two certificates, and the boundary ends the epoch: the gadget
        # decides.
        is_below = newest is not None and ballot.height < newest.ballot.height
        # Not each block: making one final is a synced write, which takes longer than an empty block.
        is_worth_it = ballot.height >= self.final.height + FINAL_AT_ONCE
        if is_below and is_worth_it and ballot.epoch == self._gadget.members.epoch:
            self._gadget.make_final(reference.certificate)

    def _want(self, block_id: bytes, peer: bytes) -> None:
        if block_id not in self._tree and not self._tree.is_past(block_id):
            self._fetches.want(block_id, peer, self._now_ms, is_voter=self._neighbours.is_voter(peer))

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
            for block_id in self._gadget.missing():
                self._fetches.need(block_id, now_ms)
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
        """Start the next epoch if the boundary block is final. Return True if it started."""
        epoch_number = self._gadget.members.epoch
        final_block = self.final
        if final_block.height != self._parameters.boundary(epoch_number):
            return False
        following = self._epochs(epoch_number + 1)
        ended_certificate = self._gadget.rounds.final
        if following is None or ended_certificate is None:
            return False
        self._final_certificate = ended_certificate
        self._catchup.end_epoch(ended_certificate)
        self._seat(following)
        self._gadget.begin(following, (final_block.height, final_block.id), ended_certificate)
        self._poller.polls.abandon()  # the old set's votes mean nothing under the new thresholds
        self._chain.restart_confidence(*sampling.terms(self._parameters, following.validators))
        return True

    def _seat(self, epoch: Epoch) -> None:
        """Pass the epoch's voters and this node's key to the parts that track peers."""
        validators = epoch.validators
        self._neighbours.begin(validators, self._session_of(validators.epoch))
        self._relay.begin(validators, self._now_ms)

    def _report(self) -> None:
        """Report newly accepted blocks and a change of the preferred tip."""
        if self._accepted != self._chain.accepted:
            is_ahead = self._accepted in self._tree and self._tree.descends(self._chain.accepted, self._accepted)
            # If finality overruled an acceptance, report the new branch from the final block on.
            base_id = self._accepted if is_ahead else self.final.id
            path = self._tree.path(base_id, self._chain.accepted)
            self._effects.extend(ev.Accepted(block_id, self._tree[block_id].height) for block_id in path)
            self._accepted = self._chain.accepted
        if self._reported != self._chain.preference:
            self._reported = self._chain.preference
            self._effects.append(ev.PreferenceChanged(self._reported))

    # --- building

    def _build(self, now_ms: int) -> None:
        """Request a block on the preferred tip, once in each own slot."""
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
        deadlines_ms = (self._poller.deadline_ms(), self._gadget_deadline_ms, fetches_ms, self._relay.deadline_ms())
        return max(
            min([next_slot_ms, *(deadline_ms for deadline_ms in deadlines_ms if deadline_ms is not None)]), now_ms + 1
        )
