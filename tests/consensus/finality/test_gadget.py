"""The gadget's rules, one situation each; whole rounds are in tests/consensus/test_machine.py."""

import pytest

from consensus import events as ev
from consensus.certificates import Certificate
from consensus.parameters import DEVNET
from consensus.signstate import EMPTY, SignedRecord
from consensus.wire import CERTIFICATES_PER_MESSAGE_MAX, Certified, NeedCerts, Propose
from consensus_parts import GENESIS_BLOCK, ballot, block, certificate
from consensus_shell import KEYS, ONE, SLOT, TWO, Shell, accept, proposal, vote
from runtime.blocks.votes import BallotKind, skip_ballot


def skipped(round_: int) -> Certificate:
    return certificate(skip_ballot(0, round_), 4, range(3))


def notarised(on: ev.BlockFacts, round_: int = 1) -> Certificate:
    return certificate(ballot(BallotKind.NOTARISE, round_, on), 4, range(3))


def votes_of(shell: Shell, kind: BallotKind) -> list[SignedRecord]:
    return [record for record in shell.signed() if getattr(record, "kind", None) == kind]


@pytest.mark.parametrize("kept", [skipped(1), notarised(ONE)], ids=["skip", "notarisation"])
def test_certificates_that_settle_nothing_are_kept(kept: Certificate) -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    assert ev.PersistCertificate(kept) in shell.say(2, Certified((kept,)))


def test_where_snowflake_is_split_for_ever_finality_goes_on_after_so_many_skips() -> None:
    for skips in (DEVNET.override_skips - 1, DEVNET.override_skips):
        shell = Shell(me=1).start()
        for facts in (ONE, TWO):
            shell.feed(ev.BlockImported(facts))
        accept(shell, TWO)
        shell.say(2, Certified(tuple(skipped(round_) for round_ in range(1, skips + 1))))
        round_ = skips + 1
        leader = (round_ - 1) % 4
        shell.say(2, Propose(proposal(ONE, number=leader, round_=round_)))
        expected = [ballot(BallotKind.NOTARISE, round_, ONE)] if skips == DEVNET.override_skips else []
        assert votes_of(shell, BallotKind.NOTARISE) == expected


def test_rounds_that_are_too_far_ahead_are_not_listened_to() -> None:
    shell = Shell(me=1).start()
    gadget = shell.machine._gadget
    for round_, is_heard in ((1 + DEVNET.rounds_ahead_max, True), (2 + DEVNET.rounds_ahead_max, False)):
        assert gadget.receive_vote(vote(2, skip_ballot(0, round_)).vote, b"\2") == is_heard


def test_members_that_do_not_skip_a_stuck_round_are_unheard() -> None:
    shell = Shell(me=1).start()

    def unheard() -> list[int]:
        publics = [key.public for key in KEYS]
        return sorted(publics.index(member.session) for member in shell.machine.unheard())

    assert unheard() == [0, 1, 2, 3]
    shell.say(3, vote(3, ballot(BallotKind.NOTARISE, 1, ONE)))
    assert unheard() == [0, 1, 2, 3], "it may have fallen silent since"
    shell.say(2, vote(2, skip_ballot(0, 1)))
    assert unheard() == [0, 1, 3]
    shell.say(0, vote(0, skip_ballot(0, 1)))
    shell.say(3, vote(3, skip_ballot(0, 1)))
    assert shell.machine.gadget_round == (0, 2)
    assert unheard() == [], "of the round that has just ended; this node joins a skip of a third"
    shell.feed(ev.PeerLost(bytes([2])))
    assert unheard() == [2], "its vote is from before"


def test_nothing_above_the_epochs_end_is_voted_for_or_certified() -> None:
    shell = Shell(me=1).start()
    end = DEVNET.boundary(0)
    for height, is_penalised in ((end, False), (end + 1, True)):
        above = ev.BlockFacts(bytes([height]) * 32, b"p" * 32, height, SLOT + height, b"a" * 32, 0)
        effects = shell.say(2, Certified((certificate(ballot(BallotKind.FINALISE, 2, above), 4, range(3)),)))
        assert any(isinstance(effect, ev.Penalise) for effect in effects) == is_penalised


def test_an_answer_holds_no_more_certificates_than_a_message_may() -> None:
    shell = Shell(me=1).start()
    for round_ in range(1, 2 * CERTIFICATES_PER_MESSAGE_MAX):
        shell.say(2, Certified((skipped(round_),)))
    answered = [
        effect.message.certificates
        for effect in shell.say(3, NeedCerts(0, 1, 0, 0, b"\x0f"))
        if isinstance(effect, ev.SendTo) and isinstance(effect.message, Certified)
    ]
    assert [len(certificates) for certificates in answered] == [CERTIFICATES_PER_MESSAGE_MAX]
    assert answered[0][0].ballot.round == 1, "the oldest first"


def test_a_proposal_on_a_round_that_nobody_notarised_waits() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    accept(shell, ONE)
    shell.say(2, Certified((skipped(1), skipped(2))))
    shell.say(2, Propose(proposal(ONE, number=2, round_=3, parent=1)))
    assert votes_of(shell, BallotKind.NOTARISE) == []


def test_a_block_beside_the_notarised_checkpoint_gets_no_vote() -> None:
    shell = Shell(me=2).start()
    above = block(ONE, SLOT + 1)
    for facts in (ONE, TWO, above):
        shell.feed(ev.BlockImported(facts))
    accept(shell, above)
    shell.say(0, Certified((notarised(TWO),)))
    assert shell.machine.gadget_round == (0, 2)
    shell.say(1, Propose(proposal(above, number=1, round_=2, parent=1)))
    assert votes_of(shell, BallotKind.NOTARISE) == []


def test_after_a_skip_nobody_votes_against_what_it_accepted() -> None:
    shell = Shell(me=2).start()
    for facts in (ONE, TWO):
        shell.feed(ev.BlockImported(facts))
    accept(shell, ONE)
    shell.say(0, Certified((skipped(1),)))
    shell.say(1, Propose(proposal(TWO, number=1, round_=2)))
    shell.tick(DEVNET.soft_wait_ms + 1)
    assert votes_of(shell, BallotKind.NOTARISE) == []


def test_votes_of_rounds_below_the_final_one_are_dropped() -> None:
    shell = Shell(me=1)
    shell.restore(GENESIS_BLOCK, None, (), EMPTY)
    shell.connect()
    shell.feed(ev.BlockImported(ONE))
    shell.say(2, vote(2, skip_ballot(0, 1)))
    shell.say(2, Certified((certificate(ballot(BallotKind.FINALISE, 2, ONE), 4, range(3)),)))
    assert shell.machine.final == ONE
    assert shell.machine._gadget._heard.box.votes(1) == []
    assert {KEYS[0].public} < {signed.voter for signed in shell.machine._gadget._heard.box.votes(2)}


@pytest.mark.parametrize("kind", [BallotKind.NOTARISE, BallotKind.FINALISE])
def test_a_certified_block_that_is_not_here_is_asked_for(kind: BallotKind) -> None:
    shell = Shell(me=1).start()
    shell.say(2, Certified((certificate(ballot(kind, 1, ONE), 4, range(3)),)))
    assert any(isinstance(effect, ev.Fetch) and effect.block == ONE.id for effect in shell.tick(100))


@pytest.mark.parametrize(("final_round", "is_told"), [(1, True), (2, True), (3, False)])
def test_a_second_proposal_is_an_offence_until_its_round_is_settled(final_round: int, *, is_told: bool) -> None:
    """The node's own round does not matter, because votes also bring proposals of other members' rounds."""
    shell = Shell(me=1).start()
    for facts in (ONE, TWO):
        shell.feed(ev.BlockImported(facts))
    shell.say(2, Propose(proposal(ONE, number=2, round_=3)))
    shell.say(2, Certified(tuple(skipped(round_) for round_ in range(final_round + 1, 6))))
    shell.say(2, Certified((certificate(ballot(BallotKind.FINALISE, final_round, ONE), 4, range(3)),)))
    assert shell.machine._gadget.rounds.current == 6
    effects = shell.say(2, Propose(proposal(TWO, number=2, round_=3)))
    assert [effect.evidence.accused for effect in effects if isinstance(effect, ev.ReportEvidence)] == (
        [KEYS[2].public] if is_told else []
    )
