"""The machine, one event at a time: what it asks of its shell."""

from collections import deque
from random import Random

import pytest

from consensus import events as ev
from consensus.events import BlockFacts, FinalRef
from consensus.machine import Machine
from consensus.parameters import DEVNET
from consensus.proposer import proposer
from consensus.signstate import EMPTY, HeaderRecord, Record, SignState, after, record_payload
from consensus.votes import Ballot, Kind, Proposal, SignedBallot, SignedProposal, proposal_payload, skip_ballot
from consensus.wire import Certified, Chits, Message, NeedCerts, Propose, PullQuery, Vote
from consensus_parts import GENESIS, GENESIS_BLOCK, ballot, block, cast, certificate, epochs_of, signers
from devnet.simulation.keys import Signer, verify_fake

START_MS = 1_000_000
SLOT = START_MS // DEVNET.slot_ms
KEYS = signers(4)


class Shell:
    """Executes what is local at once (signing, building), and collects all effects."""

    def __init__(self, count: int = 4, me: int | None = 0, *, builds: bool = False) -> None:
        self.count = count
        self.signer: Signer | None = None if me is None else KEYS[me]
        session = None if self.signer is None else self.signer.public
        self.machine = Machine(DEVNET, GENESIS, epochs_of(count), verify_fake, session, Random(0).randrange)
        self.builds = builds
        self.sign_state = EMPTY
        self.effects: list[ev.Effect] = []
        self.now_ms = START_MS

    def start(
        self, final: BlockFacts = GENESIS_BLOCK, sign_state: SignState = EMPTY, blocks: tuple[BlockFacts, ...] = ()
    ) -> "Shell":
        self.sign_state = sign_state
        self.run(self.machine.restore(final, None, blocks, sign_state, None, self.now_ms))
        for number in range(self.count):
            if self.signer is None or KEYS[number] != self.signer:
                self.feed(ev.PeerConnected(bytes([number]), KEYS[number].public))
        self.effects.clear()
        return self

    def feed(self, event: ev.Event) -> list[ev.Effect]:
        first = len(self.effects)
        self.run(self.machine.step(event, self.now_ms))
        return self.effects[first:]

    def say(self, number: int, message: Message) -> list[ev.Effect]:
        return self.feed(ev.MessageReceived(bytes([number]), message))

    def tick(self, passed_ms: int) -> list[ev.Effect]:
        """Let time pass, waking the machine when it asked for it."""
        end, first = self.now_ms + passed_ms, len(self.effects)
        while self.machine.deadline_ms <= end:
            self.now_ms = max(self.now_ms, self.machine.deadline_ms)
            self.run(self.machine.step(ev.Tick(), self.now_ms))
        self.now_ms = end
        return self.effects[first:]

    def run(self, effects: list[ev.Effect]) -> None:
        answers: deque[ev.Event] = deque()
        self._execute(effects, answers)
        while answers:
            self._execute(self.machine.step(answers.popleft(), self.now_ms), answers)

    def _execute(self, effects: list[ev.Effect], answers: deque[ev.Event]) -> None:
        self.effects.extend(effects)
        for effect in effects:
            match effect:
                case ev.PersistThenSign(record) if self.signer is not None:
                    assert isinstance(record, Proposal | Ballot)
                    self.sign_state = after(self.sign_state, record)
                    answers.append(ev.Signed(record, self.signer.sign(record_payload(GENESIS, record))))
                case ev.Build() if self.builds and self.signer is not None:
                    parent = self.machine.facts_of(effect.parent)
                    assert parent is not None
                    answers.append(ev.Built(block(parent, effect.slot, self.signer.public, effect.final_ref)))
                case _:
                    pass

    def signed(self) -> list[Record]:
        return [one.record for one in self.effects if isinstance(one, ev.PersistThenSign)]


ONE = block(GENESIS_BLOCK, SLOT)
TWO = block(GENESIS_BLOCK, SLOT, b"b" * 32)


def proposal(on: BlockFacts, number: int = 0, round_: int = 1, parent: int = 0) -> SignedProposal:
    content = Proposal(0, round_, parent, on.height, on.id)
    return SignedProposal(content, KEYS[number].sign(proposal_payload(GENESIS, content)))


def vote(number: int, content: Ballot) -> Vote:
    return Vote(cast(KEYS[number], content), None)


def accept(shell: Shell, facts: BlockFacts) -> None:
    """Answer every poll in favour of a block until it is accepted."""
    done = 0
    while shell.machine.best != facts:
        for effect in shell.effects[done:]:
            if isinstance(effect, ev.SendTo) and isinstance(effect.message, PullQuery):
                request = effect.message.request
                answer = Chits(request, facts.id, facts.id, facts.id, facts.height, 0)
                shell.feed(ev.MessageReceived(effect.peer, answer))
        done = len(shell.effects)
        shell.tick(10)


def test_a_single_validator_makes_a_final_chain() -> None:
    shell = Shell(1, builds=True).start()
    shell.tick(5_000)
    assert shell.machine.final.height >= 5
    kinds = [type(one).__name__ for one in shell.effects]
    assert kinds.index("Accepted") < kinds.index("Finalise") < kinds.index("Build")  # the first is built at once
    references = [one.final_ref for one in shell.effects if isinstance(one, ev.Build)]
    assert references[-1] is not None


def test_polls_begin_with_the_first_undecided_block() -> None:
    shell = Shell().start()
    assert shell.tick(500) == []
    effects = shell.feed(ev.BlockImported(ONE))
    assert ev.PreferenceChanged(ONE.id) in effects
    asked = [one for one in effects if isinstance(one, ev.SendTo)]
    assert [one.peer for one in asked] == [b"\1", b"\2", b"\3"]
    assert all(one.message == PullQuery(0, ONE.id, 1) for one in asked)


def test_unanimous_answers_accept_then_the_leader_proposes_and_votes() -> None:
    shell = Shell().start()
    shell.feed(ev.BlockImported(ONE))
    accept(shell, ONE)
    assert ev.Accepted(ONE.id, 1) in shell.effects
    assert shell.signed() == [Proposal(0, 1, 0, 1, ONE.id), ballot(Kind.NOTARISE, 1, ONE)]


def test_round_runs_to_a_final_block() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    accept(shell, ONE)
    assert shell.signed() == []
    shell.say(0, Propose(proposal(ONE)))
    assert shell.signed() == [ballot(Kind.NOTARISE, 1, ONE)]
    shell.say(0, vote(0, ballot(Kind.NOTARISE, 1, ONE)))
    assert shell.machine.gadget_round == (0, 1)
    shell.say(2, vote(2, ballot(Kind.NOTARISE, 1, ONE)))
    assert shell.machine.gadget_round == (0, 2)
    assert shell.signed()[-1] == ballot(Kind.FINALISE, 1, ONE)
    shell.say(0, vote(0, ballot(Kind.FINALISE, 1, ONE)))
    assert shell.machine.final == GENESIS_BLOCK
    effects = shell.say(3, vote(3, ballot(Kind.FINALISE, 1, ONE)))
    finals = [one for one in effects if isinstance(one, ev.Finalise)]
    assert [one.blocks for one in finals] == [(ONE.id,)]
    assert shell.machine.final == ONE


def test_no_vote_for_a_block_that_snowflake_does_not_support_before_the_wait() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    shell.say(0, Propose(proposal(ONE)))
    shell.tick(DEVNET.soft_wait_ms - 1)
    assert shell.signed() == []
    shell.tick(1)
    assert shell.signed() == [ballot(Kind.NOTARISE, 1, ONE)]


def test_round_is_skipped_when_its_time_is_over_and_then_not_finalised() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    shell.tick(DEVNET.round_timeout_ms)
    assert shell.signed() == [skip_ballot(0, 1)]
    shell.say(0, Certified((certificate(ballot(Kind.NOTARISE, 1, ONE), 4, range(3)),)))
    assert shell.machine.gadget_round == (0, 2)
    assert shell.signed() == [skip_ballot(0, 1)]


def test_a_third_that_skips_takes_everybody_along() -> None:
    shell = Shell(me=3).start()
    shell.feed(ev.BlockImported(ONE))
    shell.say(0, vote(0, skip_ballot(0, 1)))
    assert shell.signed() == []
    shell.say(2, vote(2, skip_ballot(0, 1)))
    assert shell.signed() == [skip_ballot(0, 1)]
    assert shell.machine.gadget_round == (0, 2)


def test_no_vote_without_the_skip_certificates_between() -> None:
    shell = Shell(me=2).start()
    shell.feed(ev.BlockImported(ONE))
    accept(shell, ONE)
    # Somebody proves that round 2 was skipped; nobody proved what happened to round 1.
    shell.say(0, Certified((certificate(skip_ballot(0, 2), 4, range(3)),)))
    assert shell.machine.gadget_round == (0, 3)
    leader = 2  # of round 3, in turn
    assert [one for one in shell.signed() if isinstance(one, Proposal)] == []
    shell.say(0, Certified((certificate(skip_ballot(0, 1), 4, range(3)),)))
    assert Proposal(0, 3, 0, 1, ONE.id) in shell.signed()
    assert KEYS[leader] == shell.signer


def test_two_proposals_are_evidence_and_skip_at_once() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    shell.say(0, Propose(proposal(ONE)))
    effects = shell.say(2, Propose(proposal(TWO)))
    reports = [one.evidence for one in effects if isinstance(one, ev.ReportEvidence)]
    assert [one.accused for one in reports] == [KEYS[0].public]
    assert shell.signed() == [skip_ballot(0, 1)]


def test_two_votes_are_evidence_once() -> None:
    shell = Shell(me=1).start()
    for content in (ballot(Kind.NOTARISE, 1, ONE), *[ballot(Kind.NOTARISE, 1, TWO)] * 3):
        shell.say(2, vote(2, content))
    assert sum(isinstance(one, ev.ReportEvidence) for one in shell.effects) == 1


def test_two_blocks_of_a_slot_are_evidence() -> None:
    shell = Shell().start()
    other = block(GENESIS_BLOCK, SLOT, final_ref=None)
    twin = BlockFacts(b"t" * 32, GENESIS, 1, SLOT, other.author, 0)
    shell.feed(ev.BlockImported(other))
    effects = shell.feed(ev.BlockImported(twin))
    assert ev.ReportDoubleHeader(other.author, SLOT, other.id, twin.id) in effects


def test_only_a_few_headers_of_a_slot_are_welcome_unless_voted_for() -> None:
    shell = Shell().start()
    twins = [BlockFacts(bytes([number]) * 32, GENESIS, 1, SLOT, b"a" * 32, 0) for number in range(5)]
    for one in twins[: DEVNET.headers_per_slot_max]:
        assert shell.machine.is_welcome(one)
        shell.feed(ev.BlockImported(one))
    assert not shell.machine.is_welcome(twins[3])
    shell.say(1, PullQuery(0, twins[3].id, 1))
    assert shell.machine.is_welcome(twins[3])
    assert not shell.machine.is_welcome(twins[4])


BAD_MESSAGES = {
    "vote of a stranger": Vote(cast(signers(9)[8], ballot(Kind.NOTARISE, 1, ONE)), None),
    "vote signed by another": Vote(SignedBallot(skip_ballot(0, 1), KEYS[1].public, bytes(64)), None),
    "skip of a block": vote(2, Ballot(Kind.SKIP, 0, 1, 1, ONE.id)),
    "vote beyond the epoch": vote(2, Ballot(Kind.NOTARISE, 0, 1, 61, ONE.id)),
    "vote for the base": vote(2, Ballot(Kind.NOTARISE, 0, 1, 0, GENESIS)),
    "proposal of another leader": Propose(proposal(ONE, number=2)),
    "proposal on its own round": Propose(proposal(ONE, parent=1)),
    "certificate without quorum": Certified((certificate(ballot(Kind.FINALISE, 1, ONE), 4, range(2)),)),
}


@pytest.mark.parametrize("message", BAD_MESSAGES.values(), ids=BAD_MESSAGES)
def test_what_no_honest_peer_sends_is_penalised(message: Message) -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    effects = shell.say(2, message)
    assert any(isinstance(one, ev.Penalise) for one in effects)
    assert shell.signed() == []


FAR_OFF = {
    "far round": vote(2, skip_ballot(0, 10_000)),
    "round 0": vote(2, skip_ballot(0, 0)),
    "far epoch": vote(2, skip_ballot(7, 1)),
    "chits nobody asked for": Chits(99, ONE.id, ONE.id, ONE.id, 1, 1),
    "need of the future": NeedCerts(9, 1, 0, 0),
    "nothing": Certified(()),
}


@pytest.mark.parametrize("message", FAR_OFF.values(), ids=FAR_OFF)
def test_what_is_far_off_costs_nothing(message: Message) -> None:
    shell = Shell(me=1).start()
    effects = shell.say(2, message)
    assert all(isinstance(one, ev.SendTo) and isinstance(one.message, NeedCerts) for one in effects)


def test_messages_of_unknown_peers_are_ignored() -> None:
    shell = Shell(me=1).start()
    assert shell.feed(ev.MessageReceived(b"unknown", PullQuery(0, GENESIS, 1))) == []
    assert shell.feed(ev.MessageReceived(b"unknown", vote(2, skip_ballot(0, 1)))) == []


def test_queries_are_answered_with_the_preference_at_a_bounded_rate() -> None:
    shell = Shell().start()
    shell.feed(ev.BlockImported(ONE))
    effects = shell.say(1, PullQuery(7, GENESIS, 1))
    assert effects[0] == ev.PersistPreference(ONE.id)
    assert effects[1] == ev.SendTo(b"\1", Chits(7, ONE.id, ONE.id, GENESIS, 0, 0))
    answers = [shell.say(1, PullQuery(number, GENESIS, 1)) for number in range(200)]
    assert sum(bool(one) for one in answers) < 60
    assert shell.say(2, PullQuery(0, GENESIS, 1))


def test_height_asked_for_may_be_absurd() -> None:
    shell = Shell().start()
    for height in (0, 2**32 - 1):
        assert shell.say(1, PullQuery(1, GENESIS, height))


def test_unknown_blocks_are_fetched() -> None:
    shell = Shell().start()
    shell.say(2, PullQuery(0, ONE.id, 1))
    assert ev.Fetch(ONE.id, b"\2", 0) in shell.tick(100)
    shell.feed(ev.BlockImported(ONE))
    shell.effects.clear()
    shell.tick(900)
    assert not any(isinstance(one, ev.Fetch) for one in shell.effects)


def test_final_certificate_before_its_block() -> None:
    shell = Shell(me=1).start()
    shell.say(2, Certified((certificate(ballot(Kind.FINALISE, 1, ONE), 4, range(3)),)))
    assert shell.machine.final == GENESIS_BLOCK
    assert any(isinstance(one, ev.Fetch) and one.block == ONE.id for one in shell.tick(100))
    effects = shell.feed(ev.BlockImported(ONE))
    assert any(isinstance(one, ev.Finalise) for one in effects)


def test_final_reference_in_a_header_teaches_finality() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    proof = certificate(ballot(Kind.FINALISE, 1, ONE), 4, range(3))
    shell.feed(ev.BlockImported(block(ONE, SLOT + 1, final_ref=FinalRef(1, ONE.id, proof))))
    assert shell.machine.final == ONE


def test_locked_preference_follows_a_notarised_checkpoint() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    shell.feed(ev.BlockImported(TWO))
    assert shell.machine.tip == ONE
    effects = shell.say(2, Certified((certificate(ballot(Kind.NOTARISE, 1, TWO), 4, range(3)),)))
    assert ev.PreferenceChanged(TWO.id) in effects
    assert shell.machine.tip == TWO


def test_overruled_acceptance_is_reported() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    shell.feed(ev.BlockImported(TWO))
    accept(shell, ONE)
    effects = shell.say(2, Certified((certificate(ballot(Kind.FINALISE, 1, TWO), 4, range(3)),)))
    assert ev.AcceptedReverted(ONE.id, TWO.id) in effects
    assert shell.machine.best == shell.machine.final == TWO


@pytest.mark.parametrize(
    "other", [ballot(Kind.FINALISE, 1, TWO), skip_ballot(0, 1)], ids=["another final block", "the round skipped"]
)
def test_certificates_that_conflict_name_a_third_of_the_stake(other: Ballot) -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    shell.say(2, Certified((certificate(ballot(Kind.FINALISE, 1, ONE), 4, range(3)),)))
    effects = shell.say(2, Certified((certificate(other, 4, range(1, 4)),)))
    accused = {one.evidence.accused for one in effects if isinstance(one, ev.ReportEvidence)}
    assert accused == {KEYS[1].public, KEYS[2].public}
    assert shell.machine.final == ONE


def test_checkpoint_that_is_not_final_is_proposed_again() -> None:
    # Round 1 notarised ONE and its finalise votes were lost; nothing above ONE exists.
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    accept(shell, ONE)
    shell.say(2, Certified((certificate(ballot(Kind.NOTARISE, 1, ONE), 4, range(3)),)))
    assert shell.machine.gadget_round == (0, 2)
    shell.tick(DEVNET.soft_wait_ms)
    assert Proposal(0, 2, 1, 1, ONE.id) in shell.signed()


def test_lost_votes_are_repeated() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    accept(shell, ONE)
    shell.say(0, Propose(proposal(ONE)))
    own = cast(KEYS[1], ballot(Kind.NOTARISE, 1, ONE))
    shell.effects.clear()
    shell.tick(1_900)
    again = [one.message for one in shell.effects if isinstance(one, ev.Broadcast)]
    assert Vote(own, proposal(ONE)) in again
    assert NeedCerts(0, 1, 0, 0) in again


def test_needs_are_answered_with_certificates() -> None:
    shell = Shell(me=1).start()
    proof = certificate(ballot(Kind.NOTARISE, 1, ONE), 4, range(3))
    shell.say(2, Certified((proof,)))
    assert ev.SendTo(b"\3", Certified((proof,))) in shell.say(3, NeedCerts(0, 1, 0, 0))
    assert shell.say(3, NeedCerts(0, 1, 0, 0)) == []  # at a bounded rate
    shell.tick(DEVNET.need_certs_ms)
    assert shell.say(2, NeedCerts(0, 2, 1, 0)) == []  # it lacks nothing


def test_restart_repeats_votes_and_makes_no_others() -> None:
    state = after(EMPTY, ballot(Kind.NOTARISE, 1, ONE))
    shell = Shell(me=1)
    shell.run(shell.machine.restore(GENESIS_BLOCK, None, (ONE,), state, ONE.id, START_MS))
    assert shell.signed() == [ballot(Kind.NOTARISE, 1, ONE)]
    for number in range(4):
        shell.feed(ev.PeerConnected(bytes([number]), KEYS[number].public))
    shell.feed(ev.BlockImported(TWO))
    shell.say(0, Propose(proposal(TWO)))
    accept(shell, TWO)
    assert shell.signed() == [ballot(Kind.NOTARISE, 1, ONE)]


def test_no_second_block_in_a_slot_after_a_restart() -> None:
    mine = next(slot for slot in range(SLOT, SLOT + 100) if proposer(epochs_of(4)(0), slot) == KEYS[0].public)
    for header_slot, builds in ((mine - 1, True), (mine, False)):
        shell = Shell()
        shell.now_ms = mine * DEVNET.slot_ms
        state = after(EMPTY, HeaderRecord(header_slot, bytes(32)))
        shell.run(shell.machine.restore(GENESIS_BLOCK, None, (), state, None, shell.now_ms))
        assert any(isinstance(one, ev.Build) for one in shell.effects) == builds


def test_preference_survives_a_restart() -> None:
    shell = Shell(me=1)
    shell.run(shell.machine.restore(GENESIS_BLOCK, None, (ONE, TWO), EMPTY, TWO.id, START_MS))
    assert shell.machine.tip == TWO


def test_observer_follows_and_signs_nothing() -> None:
    shell = Shell(me=None).start()
    shell.feed(ev.BlockImported(ONE))
    accept(shell, ONE)
    for kind in (Kind.NOTARISE, Kind.FINALISE):
        for number in range(3):
            shell.say(number, vote(number, ballot(kind, 1, ONE)))
    assert shell.machine.final == ONE
    shell.tick(5_000)
    assert shell.signed() == []
    assert not any(isinstance(one, ev.Build) for one in shell.effects)


def test_lost_peer_is_not_asked() -> None:
    shell = Shell().start()
    shell.feed(ev.PeerLost(b"\1"))
    effects = shell.feed(ev.BlockImported(ONE))
    assert [one.peer for one in effects if isinstance(one, ev.SendTo)] == [b"\2", b"\3"]
