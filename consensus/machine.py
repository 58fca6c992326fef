"""The consensus of one node: events in, effects out, no clock, no socket, no disk.

`Machine` owns all consensus state and ties the parts together: Snowflake polls over the tree of
blocks (`topological`, `polls`), the finality gadget, the building of blocks in own slots, and the
fetching of missing blocks. `events` says what a shell feeds in and carries out, and `restore`
what it hands over at start. Docstrings there are the contract.

Always: every effect follows from the events alone (and from the injected `random`), so that one
seed replays one run; nothing is signed that `signstate` does not allow.
"""

from collections.abc import Iterable
from random import Random

from consensus import proposer, sampling, signstate
from consensus.blocktree import BlockTree
from consensus.certificates import Certificate
from consensus.events import (
    Accepted,
    Announce,
    BlockFacts,
    BlockImported,
    BlockRejected,
    BlockWanted,
    Build,
    Built,
    Effect,
    Event,
    FinalRef,
    MessageReceived,
    Penalise,
    PeerConnected,
    PeerLost,
    PersistPreference,
    PersistThenSign,
    PreferenceChanged,
    ReportDoubleHeader,
    SendTo,
    Signed,
    Tick,
)
from consensus.fetches import Fetches
from consensus.gadget import Gadget, InvalidVoteError
from consensus.parameters import Parameters
from consensus.polls import Poll, Polls
from consensus.topological import Topological
from consensus.validators import Epochs
from consensus.votes import NO_BLOCK, Verify
from consensus.wire import Certified, Chits, Message, NeedCerts, Propose, PullQuery, Vote


class Machine:
    """See the module. `session` is this validator's session key, None for an observer."""

    def __init__(
        self,
        parameters: Parameters,
        genesis: bytes,
        epochs: Epochs,
        verify: Verify,
        session: bytes | None,
        random: Random,
    ) -> None:
        """Call `restore` next."""
        self._parameters = parameters
        self._genesis = genesis
        self._epochs = epochs
        self._verify = verify
        self._session = session
        self._random = random
        self._effects: list[Effect] = []
        self._polls = Polls(parameters)
        self._fetches = Fetches(parameters)
        self._peers: dict[bytes, bytes | None] = {}
        self._voters: dict[bytes, bytes] = {}
        self._headers: dict[tuple[bytes, int], bytes] = {}
        self._headers_final = b""
        self._boundaries: dict[int, Certificate] = {}
        self._final_certificate: Certificate | None = None
        self._queries: dict[bytes, int] = {}
        self._queries_second = 0
        self._need_certs_at_ms: dict[bytes, int] = {}
        self._built_slot = 0
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

    @property
    def gadget_round(self) -> tuple[int, int]:
        """(epoch, round) of the finality gadget, for metrics."""
        return self._gadget.members.epoch, self._gadget.rounds.current

    def restore(
        self,
        final: BlockFacts,
        certificate: Certificate | None,
        blocks: Iterable[BlockFacts],
        sign_state: signstate.SignState,
        preference: bytes | None,
        now_ms: int,
        boundaries: Iterable[Certificate] = (),
    ) -> list[Effect]:
        """Start from what the shell kept: newest final block (the genesis block when new) with its
        certificate, blocks above it (parents first), sign-state, preferred tip, and certificates of
        past epoch boundaries for peers that are behind.
        """
        self._now_ms = now_ms
        self._tree = BlockTree(final)
        self._boundaries = {one.ballot.epoch: one for one in boundaries}
        self._final_certificate = certificate
        epoch = self._epochs(self._parameters.epoch_of(final.height + 1))
        if epoch is None:
            raise ValueError("the epoch after the final block is not determined")
        self._chain = Topological(
            self._tree, sampling.compute_thresholds(self._parameters, epoch.validators)
        )
        self._gadget = Gadget(
            self._parameters, self._genesis, self._chain, self._verify, self._session, self._effects.append
        )
        self._gadget.sign_state = sign_state
        self._built_slot = sign_state.header.slot
        start = self._parameters.boundary(epoch.validators.epoch - 1)
        # In the middle of an epoch its base is not needed: the newest final round is the parent.
        self._gadget.begin(epoch, (start, final.id if final.height == start else NO_BLOCK))
        if certificate is not None:
            self._gadget.receive_certificate(certificate)
        for facts in blocks:
            self._insert(facts)
        if preference is not None and preference in self._tree:
            self._chain.prefer(preference)
        self._persisted = self._reported = self._chain.preference
        self._accepted = self._chain.accepted
        self._effects.extend(
            PersistThenSign(record) for record in (*sign_state.proposals, *sign_state.ballots)
        )
        return self._settle(now_ms)

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Take in one event; what to do about it, in order."""
        self._now_ms = now_ms
        match event:
            case Tick():
                pass
            case MessageReceived(peer, message):
                self._receive(peer, message)
            case BlockImported(facts):
                self._insert(facts)
            case Built(facts):
                self._insert(facts)
                self._effects.append(Announce(facts.id))
            case Signed(record, signature):
                self._gadget.signed(record, signature)
            case BlockRejected(block):
                self._fetches.reject(block)
            case BlockWanted(block, peer):
                self._want(block, peer)
            case PeerConnected(peer, validator):
                self._connect(peer, validator)
            case PeerLost(peer):
                self._disconnect(peer)
        return self._settle(now_ms)

    # --- peers and messages

    def _connect(self, peer: bytes, validator: bytes | None) -> None:
        self._peers[peer] = validator
        if validator is not None and validator != self._session:
            self._voters[validator] = peer
            self._polls.forgive(validator)
        self._effects.append(SendTo(peer, self._gadget.need()))

    def _disconnect(self, peer: bytes) -> None:
        validator = self._peers.pop(peer, None)
        if validator is not None and self._voters.get(validator) == peer:
            del self._voters[validator]
        self._need_certs_at_ms.pop(peer, None)

    def _receive(self, peer: bytes, message: Message) -> None:
        if peer not in self._peers:
            return
        try:
            match message:
                case PullQuery():
                    self._answer_query(peer, message)
                case Chits():
                    self._take_chits(peer, message)
                case Propose(proposal):
                    self._note_position(peer, proposal.proposal.epoch, proposal.proposal.round)
                    self._gadget.receive_proposal(proposal)
                case Vote(vote, proposal):
                    self._note_position(peer, vote.ballot.epoch, vote.ballot.round)
                    if proposal is not None:
                        self._gadget.receive_proposal(proposal)
                    self._gadget.receive_vote(vote)
                case Certified(certificates):
                    for certificate in certificates:
                        self._gadget.receive_certificate(certificate)
                case NeedCerts():
                    self._answer_need(peer, message)
        except InvalidVoteError as error:
            self._effects.append(Penalise(peer, str(error)))

    def _answer_query(self, peer: bytes, query: PullQuery) -> None:
        second = self._now_ms // 1_000
        if second != self._queries_second:
            self._queries_second = second
            self._queries.clear()
        self._queries[peer] = self._queries.get(peer, 0) + 1
        if self._queries[peer] > self._parameters.queries_per_second_max:
            return
        self._want(query.tip, peer)
        tip = self._chain.preference
        if tip != self._persisted:
            self._persisted = tip
            self._effects.append(PersistPreference(tip))
        answer = Chits(
            query.request,
            tip,
            self._chain.preferred_at(max(query.height, self.final.height)),
            self._chain.accepted,
            self.best.height,
            self.final.height,
        )
        self._effects.append(SendTo(peer, answer))

    def _take_chits(self, peer: bytes, chits: Chits) -> None:
        validator = self._peers[peer]
        if validator is None:
            return
        vote = (chits.tip, chits.at_height)
        if not self._polls.answer(chits.request, validator, vote, self._now_ms):
            return
        if chits.final_height >= self.final.height:
            self._want(chits.tip, peer)
        if chits.final_height > self.final.height + 1:
            self._ask_certificates(peer)

    def _note_position(self, peer: bytes, epoch: int, round_: int) -> None:
        """A peer speaks of a round: if it is ahead, ask; if it is an epoch behind, help."""
        if (epoch, round_) > self.gadget_round:
            self._ask_certificates(peer)
        elif epoch < self._gadget.members.epoch:
            self._send_certificates(peer, self._boundaries_from(epoch))

    def _ask_certificates(self, peer: bytes) -> None:
        if self._now_ms >= self._need_certs_at_ms.get(peer, 0):
            self._need_certs_at_ms[peer] = self._now_ms + self._parameters.need_certs_ms
            self._effects.append(SendTo(peer, self._gadget.need()))

    def _answer_need(self, peer: bytes, need: NeedCerts) -> None:
        if need.epoch == self._gadget.members.epoch:
            self._send_certificates(peer, self._gadget.answer(need))
        elif need.epoch < self._gadget.members.epoch:
            self._send_certificates(peer, self._boundaries_from(need.epoch))
        else:
            self._ask_certificates(peer)

    def _boundaries_from(self, epoch: int) -> tuple[Certificate, ...]:
        """The certificate that ended an epoch, if it is still kept."""
        certificate = self._boundaries.get(epoch)
        return () if certificate is None else (certificate,)

    def _send_certificates(self, peer: bytes, certificates: tuple[Certificate, ...]) -> None:
        if certificates:
            self._effects.append(SendTo(peer, Certified(certificates)))

    # --- blocks and certificates

    def _insert(self, facts: BlockFacts) -> None:
        self._fetches.settle(facts.id)
        if not self._chain.insert(facts):
            return
        earlier = self._headers.setdefault((facts.author, facts.slot), facts.id)
        if earlier != facts.id:
            self._effects.append(ReportDoubleHeader(facts.author, facts.slot, earlier, facts.id))
        reference = facts.final_ref
        if reference is not None and reference.height > self.final.height:
            self._gadget.receive_certificate(reference.certificate)

    def _want(self, block: bytes, peer: bytes) -> None:
        if block not in self._tree:
            self._fetches.want(block, peer, self._now_ms)

    # --- everything that may be due, after each event

    def _settle(self, now_ms: int) -> list[Effect]:
        self._gadget.advance(now_ms)
        while self._change_epoch():
            self._gadget.advance(now_ms)
        self._finish_polls(now_ms)
        self._gadget.advance(now_ms)
        self._forget()
        self._report()
        self._build(now_ms)
        self._start_poll(now_ms)
        peers = list(self._voters.values())
        if peers:
            for block in self._gadget.missing():
                self._fetches.want(block, peers[0], now_ms)
            self._effects.extend(self._fetches.due(peers, self.final.height, now_ms))
        self.deadline_ms = self._next_deadline(now_ms)
        effects = self._effects[:]
        self._effects.clear()
        return effects

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
        self._boundaries[number] = self._final_certificate = ended
        self._boundaries.pop(number - self._parameters.boundaries_kept, None)
        self._gadget.begin(following, (final.height, final.id))
        self._polls.abandon()
        self._chain.restart_confidence(
            sampling.compute_thresholds(self._parameters, following.validators)
        )
        return True

    def _forget(self) -> None:
        """Drop what only blocks above the final one need."""
        if self._headers_final != self.final.id:
            self._headers_final = self.final.id
            self._headers = {key: block for key, block in self._headers.items() if block in self._tree}

    def _report(self) -> None:
        """Say what became accepted and which tip is preferred."""
        if self._accepted != self._chain.accepted:
            if self._accepted in self._tree and self._tree.descends(self._chain.accepted, self._accepted):
                path = self._tree.path(self._accepted, self._chain.accepted)
            else:
                path = self._tree.path(self.final.id, self._chain.accepted)
            self._effects.extend(Accepted(one, self._tree[one].height) for one in path)
            self._accepted = self._chain.accepted
        if self._reported != self._chain.preference:
            self._reported = self._chain.preference
            self._effects.append(PreferenceChanged(self._reported))

    # --- polls

    def _start_poll(self, now_ms: int) -> None:
        if not self._chain.is_processing or not self._polls.may_start(now_ms):
            return
        weights = sampling.draw(self._parameters, self._gadget.members, self._random)
        poll = self._polls.start(weights, self._voters, now_ms)
        tip, height = self._chain.preference, self._tree[self._chain.root].height + 1
        if self._session in weights and self._session is not None:
            self._polls.answer(poll.request, self._session, (tip, tip), now_ms)
        query = PullQuery(poll.request, tip, height)
        self._effects.extend(
            SendTo(self._voters[voter], query) for voter in weights if voter in self._voters
        )

    def _finish_polls(self, now_ms: int) -> None:
        for poll in self._polls.due(now_ms):
            votes = self._resolve(poll)
            if self._polls.is_over(poll, self._chain.support(votes), self._chain.thresholds, now_ms):
                self._polls.close(poll)
                self._polls.learn(successful=self._chain.record(votes))

    def _resolve(self, poll: Poll) -> list[tuple[bytes, int]]:
        """Each vote as one for a known block: the tip, else the block at the height asked for."""
        votes = []
        for voter, blocks in poll.votes.items():
            known = next((block for block in blocks if block in self._tree), None)
            if known is not None:
                votes.append((known, poll.weights[voter]))
        return votes

    # --- building

    def _build(self, now_ms: int) -> None:
        """In an own slot, once, ask for a block on the preferred tip."""
        slot = proposer.slot_at(now_ms, self._parameters.slot_ms)
        tip = self.tip
        if self._session is None or slot <= self._built_slot or slot <= tip.slot:
            return
        height = tip.height + 1
        number = self._parameters.epoch_of(height)
        if not self._may_extend(tip, number):
            return
        epoch = self._epochs(number)
        if epoch is None or proposer.proposer(epoch, slot) != self._session:
            return
        self._built_slot = slot
        is_heartbeat = slot - tip.slot >= self._parameters.heartbeat_slots
        self._effects.append(
            Build(slot, tip.id, height, number, self._new_final_ref(tip), is_heartbeat)
        )

    def _may_extend(self, tip: BlockFacts, number: int) -> bool:
        """Whether a child of the tip may be valid: pipeline, lag of finality, epoch settled."""
        if self._chain.count_processing() >= self._parameters.processing_max:
            return False
        referenced = max(self._tree.referenced_height(tip.id), self.final.height)
        return tip.height + 1 - referenced <= self._parameters.final_lag_max and (
            referenced >= self._parameters.settled_height(number)
        )

    def _new_final_ref(self, tip: BlockFacts) -> FinalRef | None:
        """The newest final block, unless the tip's ancestry names it already."""
        certificate = self._final_certificate_now()
        if certificate is None or certificate.ballot.height <= self._tree.referenced_height(tip.id):
            return None
        return FinalRef(certificate.ballot.height, certificate.ballot.block, certificate)

    def _final_certificate_now(self) -> Certificate | None:
        certificate = self._gadget.rounds.final
        if certificate is not None and certificate.ballot.block == self.final.id:
            self._final_certificate = certificate
        return self._final_certificate

    def _next_deadline(self, now_ms: int) -> int:
        slot_ms = self._parameters.slot_ms
        times = [(now_ms // slot_ms + 1) * slot_ms] if self._session is not None else [now_ms + slot_ms]
        for due in (
            self._polls.deadline_ms(wanted=self._chain.is_processing),
            self._gadget.deadline_ms(now_ms),
            self._fetches.deadline_ms() if self._voters else None,
        ):
            if due is not None:
                times.append(due)
        return max(min(times), now_ms + 1)
