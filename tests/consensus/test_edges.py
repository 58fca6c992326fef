"""The change from one epoch to the next, with other members or no common member."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from consensus import events as ev
from consensus.certificates import verify_votes
from consensus.events import BlockFacts, CertifiedRef
from consensus.headers import proposer
from consensus.parameters import DEVNET
from consensus.validators import Epoch
from consensus.wire import Certified, Message, NeedCerts, Propose, Vote
from consensus_parts import GENESIS, GENESIS_BLOCK, ballot, block, cast, certificate_by, set_of
from consensus_shell import SLOT, Shell, accept
from devnet.simulation.keys import Signer, fake_signer, verify_fake
from runtime.blocks.evidence import DoubleBallot, DoubleProposal
from runtime.blocks.votes import Ballot, BallotKind, Proposal, SignedProposal, proposal_payload, skip_ballot

OLD, NEW = (0, 1, 2, 3), (4, 5, 6, 7)
OVERLAP = (1, 2, 3, 4)
KEYS = [fake_signer(number) for number in range(8)]


def turning(following: Iterable[int]) -> Callable[[int], Epoch]:
    """Return epochs in which 0 has the members 0 to 3, and each later one `members`."""
    return lambda number: Epoch(set_of(following if number else OLD, number), number.to_bytes(32, "big"))


class Edge:
    """A node at the end of epoch 0, with all its blocks and the first one of epoch 1."""

    def __init__(self, me: int | None = 1, following: Iterable[int] = NEW, later: Signer | None = None) -> None:
        self.epochs = turning(following)
        self.shell = Shell(me=None if me is None else me % 4, epochs=self.epochs, later=later)
        if me is not None:
            self.shell.signer = KEYS[me]
            self.shell.later = later or KEYS[me]
        self.shell.restore(GENESIS_BLOCK, None, (), self.shell.sign_state)
        for number, key in enumerate(KEYS):
            if number != me:
                self.shell.feed(ev.PeerConnected(bytes([number]), (key.public,)))
        self.blocks: list[BlockFacts] = []
        for number in range(DEVNET.epoch_blocks + 1):
            self.blocks.append(block(self.blocks[-1] if self.blocks else GENESIS_BLOCK, SLOT + number))
            self.shell.feed(ev.BlockImported(self.blocks[-1]))

    @property
    def boundary(self) -> BlockFacts:
        return self.blocks[-2]

    def certified(self, content: Ballot, voters: Iterable[int]) -> Certified:
        return Certified((certificate_by(content, self.epochs(content.epoch).validators, voters),))

    def end(self) -> list[ev.Effect]:
        """Finalise the last block of epoch 0 in round 2."""
        return self.say(self.certified(ballot(BallotKind.FINALISE, 2, self.boundary), (0, 1, 2)))

    def say(self, message: Message) -> list[ev.Effect]:
        return self.shell.say(7 if self.shell.signer == KEYS[0] else 0, message)


def accused(effects: list[ev.Effect]) -> list[bytes]:
    return [effect.evidence.accused for effect in effects if isinstance(effect, ev.ReportEvidence)]


def penalised(effects: list[ev.Effect]) -> bool:
    return any(isinstance(effect, ev.Penalise) for effect in effects)


def said(number: int, content: Ballot) -> Vote:
    return Vote(cast(KEYS[number], content), None)


# --- offences on both sides of an edge


@pytest.mark.parametrize("before", [0, 1, 2], ids=["both halves after the end", "one half before it", "both before it"])
def test_votes_that_exclude_each_other_are_evidence_on_both_sides_of_an_edge(before: int) -> None:
    edge = Edge()
    late = [said(3, ballot(BallotKind.FINALISE, 2, edge.boundary)), said(3, skip_ballot(0, 2))]
    effects = [effect for vote in late[:before] for effect in edge.say(vote)]
    effects += edge.end()
    effects += [effect for vote in late[before:] for effect in edge.say(vote)]
    assert accused(effects) == [KEYS[3].public]
    assert not penalised(effects)
    assert accused([effect for vote in late for effect in edge.say(vote)]) == []  # it is proved
    (found,) = [effect.evidence for effect in effects if isinstance(effect, ev.ReportEvidence)]
    assert isinstance(found, DoubleBallot)
    assert verify_votes(found, edge.epochs(0).validators, GENESIS, verify_fake)
    assert not verify_votes(found, edge.epochs(1).validators, GENESIS, verify_fake)


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("round_", [2, 3])
def test_two_proposals_of_an_ended_epoch_are_evidence(round_: int, before: int) -> None:
    edge = Edge()
    leader = KEYS[(round_ - 1) % 4]
    proposals = []
    for facts in edge.blocks[:2]:
        content = Proposal(0, round_, 0, facts.height, facts.id)
        proposals.append(Propose(SignedProposal(content, leader.sign(proposal_payload(GENESIS, content)))))
    effects = [effect for proposal in proposals[:before] for effect in edge.say(proposal)]
    effects += edge.end()
    effects += [effect for proposal in proposals[before:] for effect in edge.say(proposal)]
    assert accused(effects) == [leader.public]
    (found,) = [effect.evidence for effect in effects if isinstance(effect, ev.ReportEvidence)]
    assert isinstance(found, DoubleProposal)


def test_a_boundary_certificate_that_conflicts_names_more_than_a_third() -> None:
    edge = Edge()
    edge.end()
    other = BlockFacts(b"o" * 32, edge.blocks[-3].id, edge.boundary.height, SLOT + 99, b"a" * 32, 0)
    message = edge.certified(ballot(BallotKind.FINALISE, 2, other), (1, 2, 3))
    effects = edge.say(message)
    assert accused(effects) == [KEYS[1].public, KEYS[2].public]
    assert edge.shell.machine.final == edge.boundary
    assert edge.say(message) == []


def test_what_is_heard_of_an_ended_epoch_is_verified_with_its_own_set() -> None:
    edge = Edge()
    edge.end()
    skip = skip_ballot(0, 2)
    assert penalised(edge.say(said(4, skip)))  # it sits now, and did not then
    assert penalised(edge.say(Vote(replace(cast(KEYS[3], skip), signature=bytes(64)), None)))
    assert penalised(edge.say(edge.certified(skip, (0, 1))))  # too few
    assert not penalised(edge.say(edge.certified(skip, (1, 2, 3))))


def test_of_an_ended_epoch_only_what_may_still_prove_something_is_heard() -> None:
    edge = Edge()
    edge.end()
    assert not edge.shell.machine._gadget.receive_vote(said(3, skip_ballot(0, 1)).vote, b"\0")  # below its final round
    assert edge.shell.machine._gadget.receive_vote(said(3, skip_ballot(0, 2)).vote, b"\0")
    far = DEVNET.rounds_ahead_max + 3
    assert edge.shell.machine._gadget.receive_vote(said(3, skip_ballot(0, far)).vote, b"\0")
    assert not edge.shell.machine._gadget.receive_vote(said(3, skip_ballot(0, far + 1)).vote, b"\0")
    assert not edge.shell.machine._gadget.receive_vote(said(3, skip_ballot(2, 1)).vote, b"\0")
    for round_, is_heard in ((1, False), (2, True), (2, False), (far, True), (far + 1, False)):
        (certificate,) = edge.certified(skip_ballot(0, round_), (1, 2, 3)).certificates
        assert edge.shell.machine._gadget.receive_certificate(certificate) == is_heard


def test_an_ended_epoch_makes_nothing_final_and_signs_nothing() -> None:
    edge = Edge(following=OVERLAP)
    edge.end()
    edge.shell.effects.clear()
    for number in (0, 2, 3):
        edge.say(said(number, ballot(BallotKind.NOTARISE, 3, edge.boundary)))
    assert [effect for effect in edge.shell.effects if not isinstance(effect, ev.SendTo)] == []
    assert edge.shell.machine.gadget_round == (1, 1)


# --- votes that count


def test_members_of_the_next_set_have_no_vote_before_the_edge_and_those_of_the_last_none_after() -> None:
    edge = Edge(me=None)
    assert penalised(edge.say(said(4, skip_ballot(0, 1))))
    edge.end()
    assert penalised(edge.say(said(0, skip_ballot(1, 1))))
    for number in (4, 5, 6):
        assert not penalised(edge.say(said(number, skip_ballot(1, 1))))
    assert edge.shell.machine.gadget_round == (1, 2)


def test_who_enters_office_votes_from_the_edge_on_and_who_leaves_no_longer() -> None:
    entering, leaving = Edge(me=4), Edge(me=1)
    for edge in (entering, leaving):
        edge.end()
        edge.shell.effects.clear()
        for number in (5, 6):
            edge.say(said(number, skip_ballot(1, 1)))
    assert entering.shell.signed() == [skip_ballot(1, 1)]
    assert leaving.shell.signed() == []


def test_votes_bear_the_key_of_their_epoch() -> None:
    edge = Edge(me=1, following=(2, 3, 4, 5), later=KEYS[5])
    edge.end()
    edge.shell.effects.clear()
    for number in (2, 3):
        edge.say(said(number, skip_ballot(1, 1)))
    votes = [effect.message for effect in edge.shell.effects if isinstance(effect, ev.Broadcast)]
    assert Vote(cast(KEYS[5], skip_ballot(1, 1)), None) in votes


def test_a_signature_that_comes_after_the_edge_bears_the_key_that_it_was_asked_of() -> None:
    edge = Edge(me=1, following=(2, 3, 4, 5), later=KEYS[5])
    edge.end()
    late = cast(KEYS[1], ballot(BallotKind.FINALISE, 1, edge.blocks[0]))
    effects = edge.shell.feed(ev.RecordSigned(late.ballot, late.signature))
    assert ev.Broadcast(Vote(late, None)) in effects


def test_the_first_block_of_an_epoch_is_built_with_the_key_of_that_epoch_before_the_edge() -> None:
    edge = Edge(me=1, following=(2, 3, 4, 5), later=KEYS[5])
    edge.shell.builds = True
    settled = DEVNET.settled_height(1)
    edge.say(edge.certified(ballot(BallotKind.FINALISE, 1, edge.blocks[settled - 1]), (0, 2, 3)))
    accept(edge.shell, edge.boundary)
    epoch = edge.epochs(1)
    mine = next(slot for slot in range(SLOT + 90, SLOT + 400) if proposer(epoch, slot) == KEYS[5].public)
    edge.shell.now_ms = mine * DEVNET.slot_ms
    edge.shell.effects.clear()
    edge.shell.tick(10)
    assert edge.shell.machine.gadget_round[0] == 0
    assert [effect.epoch for effect in edge.shell.effects if isinstance(effect, ev.Build)] == [1]


# --- polls


def test_polls_decide_nothing_beyond_the_epoch_of_those_who_answer() -> None:
    edge = Edge()
    accept(edge.shell, edge.boundary)
    edge.shell.effects.clear()
    edge.shell.tick(2_000)
    assert edge.shell.machine.best == edge.boundary
    assert edge.shell.machine.tip == edge.blocks[-1]  # built on, and not accepted
    assert not edge.shell.machine._poller.polls.open()
    edge.end()
    accept(edge.shell, edge.blocks[-1])  # by the new set


# --- catching up


def test_whoever_asks_about_an_ended_epoch_gets_the_certificate_of_its_boundary() -> None:
    edge = Edge()
    edge.end()
    (effect,) = edge.say(NeedCerts(0, 1, 0, 0, b"\x0f"))
    assert effect == ev.SendTo(b"\0", edge.certified(ballot(BallotKind.FINALISE, 2, edge.boundary), (0, 1, 2)))


def test_a_notarised_boundary_is_proposed_again_by_each_leader_until_it_is_final() -> None:
    edge = Edge(me=2)
    edge.say(edge.certified(ballot(BallotKind.NOTARISE, 1, edge.boundary), (0, 1, 3)))
    edge.say(edge.certified(skip_ballot(0, 2), (0, 1, 3)))
    edge.shell.tick(DEVNET.soft_wait_ms)
    assert Proposal(0, 3, 1, edge.boundary.height, edge.boundary.id) in edge.shell.signed()


def test_a_reference_to_the_boundary_in_a_header_ends_the_epoch() -> None:
    edge = Edge()
    content = ballot(BallotKind.FINALISE, 2, edge.boundary)
    proof = certificate_by(content, edge.epochs(0).validators, (0, 1, 2))
    reference = CertifiedRef(edge.boundary.height, edge.boundary.id, proof)
    edge.shell.feed(ev.BlockImported(block(edge.blocks[-1], SLOT + 99, final_ref=reference)))
    assert edge.shell.machine.gadget_round == (1, 1)
