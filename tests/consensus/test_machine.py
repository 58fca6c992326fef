"""The machine, one event at a time: its effects."""

import pytest

from consensus import events as ev
from consensus.events import BlockFacts, CertifiedRef, Recovery
from consensus.headers import proposer
from consensus.machine import FINAL_AT_ONCE
from consensus.parameters import DEVNET
from consensus.signstate import EMPTY, HeaderRecord, after
from consensus.wire import Certified, NeedCerts, Propose, PullQuery, Vote
from consensus_parts import GENESIS, GENESIS_BLOCK, ballot, block, cast, certificate, epochs_of
from consensus_shell import KEYS, ONE, SLOT, START_MS, TWO, Shell, accept, proposal, vote
from runtime.blocks.votes import Ballot, BallotKind, Proposal, skip_ballot


def test_a_single_validator_makes_a_final_chain() -> None:
    shell = Shell(1, builds=True)
    shell.restore(GENESIS_BLOCK, None, (), EMPTY)
    shell.tick(5_000)
    assert shell.machine.final.height >= 5
    kinds = [type(effect).__name__ for effect in shell.effects]
    assert kinds.index("Build") < kinds.index("Accepted") < kinds.index("Finalise")
    references = [effect.final_ref for effect in shell.effects if isinstance(effect, ev.Build)]
    assert references[-1] is not None


def test_polls_begin_with_the_first_undecided_block() -> None:
    shell = Shell().start()
    assert shell.tick(500) == []
    effects = shell.feed(ev.BlockImported(ONE))
    assert ev.PreferenceChanged(ONE.id) in effects
    asked = [effect for effect in effects if isinstance(effect, ev.SendTo)]
    assert [effect.peer for effect in asked] == [b"\1", b"\2", b"\3"]
    assert all(effect.message == PullQuery(0, ONE.id, 1) for effect in asked)


def test_unanimous_answers_accept_then_the_leader_proposes_and_votes() -> None:
    shell = Shell().start()
    shell.feed(ev.BlockImported(ONE))
    accept(shell, ONE)
    assert ev.Accepted(ONE.id, 1) in shell.effects
    assert shell.signed() == [Proposal(0, 1, 0, 1, ONE.id), ballot(BallotKind.NOTARISE, 1, ONE)]


def test_round_runs_to_a_final_block() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    accept(shell, ONE)
    assert shell.signed() == []
    shell.say(0, Propose(proposal(ONE)))
    assert shell.signed() == [ballot(BallotKind.NOTARISE, 1, ONE)]
    shell.say(0, vote(0, ballot(BallotKind.NOTARISE, 1, ONE)))
    assert shell.machine.gadget_round == (0, 1)
    shell.say(2, vote(2, ballot(BallotKind.NOTARISE, 1, ONE)))
    assert shell.machine.gadget_round == (0, 2)
    assert shell.signed()[-1] == ballot(BallotKind.FINALISE, 1, ONE)
    shell.say(0, vote(0, ballot(BallotKind.FINALISE, 1, ONE)))
    assert shell.machine.final == GENESIS_BLOCK
    effects = shell.say(3, vote(3, ballot(BallotKind.FINALISE, 1, ONE)))
    finals = [effect for effect in effects if isinstance(effect, ev.Finalise)]
    assert [effect.blocks for effect in finals] == [(ONE.id,)]
    assert shell.machine.final == ONE


def test_no_vote_for_a_block_that_snowflake_does_not_support_before_the_wait() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    shell.say(0, Propose(proposal(ONE)))
    shell.tick(DEVNET.soft_wait_ms - 1)
    assert shell.signed() == []
    shell.tick(1)
    assert shell.signed() == [ballot(BallotKind.NOTARISE, 1, ONE)]


def test_round_is_skipped_when_its_time_is_over_and_then_not_finalised() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    shell.tick(DEVNET.round_timeout_ms)
    assert shell.signed() == [skip_ballot(0, 1)]
    shell.say(0, Certified((certificate(ballot(BallotKind.NOTARISE, 1, ONE), 4, range(3)),)))
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
    # A peer proves that round 2 was skipped. No peer proved the result of round 1.
    shell.say(0, Certified((certificate(skip_ballot(0, 2), 4, range(3)),)))
    assert shell.machine.gadget_round == (0, 3)
    leader = 2  # of round 3, in turn
    assert [record for record in shell.signed() if isinstance(record, Proposal)] == []
    shell.say(0, Certified((certificate(skip_ballot(0, 1), 4, range(3)),)))
    assert Proposal(0, 3, 0, 1, ONE.id) in shell.signed()
    assert KEYS[leader] == shell.signer


def test_two_proposals_are_evidence_and_skip_at_once() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    shell.say(0, Propose(proposal(ONE)))
    effects = shell.say(2, Propose(proposal(TWO)))
    reports = [effect.evidence for effect in effects if isinstance(effect, ev.ReportEvidence)]
    assert [evidence.accused for evidence in reports] == [KEYS[0].public]
    assert shell.signed() == [skip_ballot(0, 1)]


def test_two_votes_are_evidence_once() -> None:
    shell = Shell(me=1).start()
    for content in (ballot(BallotKind.NOTARISE, 1, ONE), *[ballot(BallotKind.NOTARISE, 1, TWO)] * 3):
        shell.say(2, vote(2, content))
    assert sum(isinstance(effect, ev.ReportEvidence) for effect in shell.effects) == 1


def test_two_blocks_of_a_slot_are_evidence() -> None:
    shell = Shell().start()
    other = block(GENESIS_BLOCK, SLOT, final_ref=None)
    twin = BlockFacts(b"t" * 32, GENESIS, 1, SLOT, other.author, 0)
    shell.feed(ev.BlockImported(other))
    effects = shell.feed(ev.BlockImported(twin))
    assert ev.ReportDoubleHeader(other.author, SLOT, other.id, twin.id) in effects


def test_a_node_that_catches_up_finalises_on_the_way() -> None:
    """It uses the certificates in headers, though it holds a newer one. Each was checked with its header."""
    shell = Shell(me=1).start()
    chain = [GENESIS_BLOCK]
    for number in range(3 * FINAL_AT_ONCE):
        parent = chain[-1]
        seen = certificate(ballot(BallotKind.FINALISE, parent.height, parent), 4, range(3)) if number else None
        reference = CertifiedRef(parent.height, parent.id, seen) if seen is not None else None
        chain.append(block(parent, SLOT + number, final_ref=reference))
    newest = chain[-1]
    shell.say(2, Certified((certificate(ballot(BallotKind.FINALISE, newest.height, newest), 4, range(3)),)))
    most = 0
    for facts in chain[1:]:
        shell.feed(ev.BlockImported(facts))
        most = max(most, facts.height - shell.machine.final.height)
    assert most == FINAL_AT_ONCE
    finals = [effect for effect in shell.effects if isinstance(effect, ev.Finalise)]
    assert [effect.certificate.ballot.height for effect in finals] == [FINAL_AT_ONCE, 2 * FINAL_AT_ONCE, newest.height]
    assert [name for effect in finals for name in effect.blocks] == [facts.id for facts in chain[1:]]
    assert shell.machine.final == newest


def test_final_certificate_before_its_block() -> None:
    shell = Shell(me=1).start()
    shell.say(2, Certified((certificate(ballot(BallotKind.FINALISE, 1, ONE), 4, range(3)),)))
    assert shell.machine.final == GENESIS_BLOCK
    assert any(isinstance(effect, ev.Fetch) and effect.block == ONE.id for effect in shell.tick(100))
    effects = shell.feed(ev.BlockImported(ONE))
    assert any(isinstance(effect, ev.Finalise) for effect in effects)


def test_final_reference_in_a_header_teaches_finality() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    proof = certificate(ballot(BallotKind.FINALISE, 1, ONE), 4, range(3))
    shell.feed(ev.BlockImported(block(ONE, SLOT + 1, final_ref=CertifiedRef(1, ONE.id, proof))))
    assert shell.machine.final == ONE


def test_locked_preference_follows_a_notarised_checkpoint() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    shell.feed(ev.BlockImported(TWO))
    assert shell.machine.tip == ONE
    effects = shell.say(2, Certified((certificate(ballot(BallotKind.NOTARISE, 1, TWO), 4, range(3)),)))
    assert ev.PreferenceChanged(TWO.id) in effects
    assert shell.machine.tip == TWO


def test_overruled_acceptance_is_reported() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    shell.feed(ev.BlockImported(TWO))
    accept(shell, ONE)
    effects = shell.say(2, Certified((certificate(ballot(BallotKind.FINALISE, 1, TWO), 4, range(3)),)))
    assert ev.AcceptedReverted(ONE.id, TWO.id) in effects
    assert shell.machine.best == shell.machine.final == TWO


@pytest.mark.parametrize(
    "other", [ballot(BallotKind.FINALISE, 1, TWO), skip_ballot(0, 1)], ids=["another final block", "the round skipped"]
)
def test_certificates_that_conflict_name_a_third_of_the_stake(other: Ballot) -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    shell.say(2, Certified((certificate(ballot(BallotKind.FINALISE, 1, ONE), 4, range(3)),)))
    effects = shell.say(2, Certified((certificate(other, 4, range(1, 4)),)))
    accused = {effect.evidence.accused for effect in effects if isinstance(effect, ev.ReportEvidence)}
    assert accused == {KEYS[1].public, KEYS[2].public}
    assert shell.machine.final == ONE


def test_checkpoint_that_is_not_final_is_proposed_again() -> None:
    # Round 1 notarised ONE and its finalise votes were lost. Nothing above ONE exists.
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    accept(shell, ONE)
    shell.say(2, Certified((certificate(ballot(BallotKind.NOTARISE, 1, ONE), 4, range(3)),)))
    assert shell.machine.gadget_round == (0, 2)
    shell.tick(DEVNET.soft_wait_ms)
    assert Proposal(0, 2, 1, 1, ONE.id) in shell.signed()


def test_lost_votes_are_repeated() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    accept(shell, ONE)
    shell.say(0, Propose(proposal(ONE)))
    own = cast(KEYS[1], ballot(BallotKind.NOTARISE, 1, ONE))
    shell.effects.clear()
    shell.tick(1_900)
    again = [effect.message for effect in shell.effects if isinstance(effect, ev.Broadcast)]
    assert Vote(own, proposal(ONE)) in again
    assert NeedCerts(0, 1, 0, 0, b"\x0f") in again


def test_needs_are_answered_with_certificates() -> None:
    shell = Shell(me=1).start()
    proof = certificate(ballot(BallotKind.NOTARISE, 1, ONE), 4, range(3))
    shell.say(2, Certified((proof,)))
    assert ev.SendTo(b"\3", Certified((proof,))) in shell.say(3, NeedCerts(0, 1, 0, 0, b"\x0f"))
    assert shell.say(3, NeedCerts(0, 1, 0, 0, b"\x0f")) == []  # at a bounded rate
    shell.tick(DEVNET.need_certs_ms)
    assert shell.say(2, NeedCerts(0, 2, 1, 0, b"\x0f")) == []  # it lacks nothing


def test_restart_repeats_votes_and_makes_no_others() -> None:
    state = after(EMPTY, ballot(BallotKind.NOTARISE, 1, ONE))
    shell = Shell(me=1)
    recovery = Recovery(final=GENESIS_BLOCK, blocks=(ONE,), sign_state=state, preference=ONE.id)
    shell.run(shell.machine.restore(recovery, START_MS))
    assert shell.signed() == [ballot(BallotKind.NOTARISE, 1, ONE)]
    for number in range(4):
        shell.feed(ev.PeerConnected(bytes([number]), (KEYS[number].public,)))
    shell.feed(ev.BlockImported(TWO))
    shell.say(0, Propose(proposal(TWO)))
    accept(shell, TWO)
    assert shell.signed() == [ballot(BallotKind.NOTARISE, 1, ONE)]


def test_certificates_of_open_rounds_survive_a_restart() -> None:
    proof = certificate(skip_ballot(0, 1), 4, range(3))
    shell = Shell(me=1).start()
    assert ev.PersistCertificate(proof) in shell.say(0, Certified((proof,)))
    again = Shell(me=1)
    again.run(again.machine.restore(Recovery(final=GENESIS_BLOCK, open_rounds=(proof,)), START_MS))
    assert again.machine.gadget_round == (0, 2)


def test_certificates_that_were_jumped_over_are_asked_for_at_once() -> None:
    shell = Shell(me=1).start()
    effects = shell.say(0, Certified((certificate(skip_ballot(0, 5), 4, range(3)),)))
    assert ev.Broadcast(NeedCerts(0, 6, 0, 0, b"\x0f")) in effects
    shell.say(0, Certified((certificate(skip_ballot(0, 1), 4, range(3)),)))
    shell.effects.clear()
    shell.tick(2_000)
    assert ev.Broadcast(NeedCerts(0, 6, 1, 0, b"\x0f")) in shell.effects


def test_no_second_block_in_a_slot_after_a_restart() -> None:
    mine = next(slot for slot in range(SLOT, SLOT + 100) if proposer(epochs_of(4)(0), slot) == KEYS[0].public)
    for header_slot, builds in ((mine - 1, True), (mine, False)):
        shell = Shell()
        shell.now_ms = mine * DEVNET.slot_ms
        state = after(EMPTY, HeaderRecord(header_slot, bytes(32)))
        shell.run(shell.machine.restore(Recovery(final=GENESIS_BLOCK, sign_state=state), shell.now_ms))
        assert any(isinstance(effect, ev.Build) for effect in shell.effects) == builds


def test_preference_survives_a_restart() -> None:
    shell = Shell(me=1)
    recovery = Recovery(final=GENESIS_BLOCK, blocks=(ONE, TWO), preference=TWO.id)
    shell.run(shell.machine.restore(recovery, START_MS))
    assert shell.machine.tip == TWO


def test_observer_follows_and_signs_nothing() -> None:
    shell = Shell(me=None).start()
    shell.feed(ev.BlockImported(ONE))
    accept(shell, ONE)
    for kind in (BallotKind.NOTARISE, BallotKind.FINALISE):
        for number in range(3):
            shell.say(number, vote(number, ballot(kind, 1, ONE)))
    assert shell.machine.final == ONE
    shell.tick(5_000)
    assert shell.signed() == []
    assert not any(isinstance(effect, ev.Build) for effect in shell.effects)


def test_lost_peer_is_not_asked() -> None:
    shell = Shell().start()
    shell.feed(ev.PeerLost(b"\1"))
    effects = shell.feed(ev.BlockImported(ONE))
    assert [effect.peer for effect in effects if isinstance(effect, ev.SendTo)] == [b"\2", b"\3"]
