"""Bugs that a planted-bug run found untested: each test fails if its bug is planted again."""

from copy import copy

import pytest

from consensus import events as ev
from consensus.blocktree import BlockTree
from consensus.certificates import verify_votes
from consensus.events import BlockFacts
from consensus.parameters import DEVNET, full_poll_thresholds
from consensus.polling.snowflake import Snowflake
from consensus.polling.topological import Topological
from consensus.wire import Certified, Chits, Propose, PullQuery, Vote
from consensus_parts import GENESIS, GENESIS_BLOCK, ballot, block, cast, certificate, members, signers
from consensus_shell import KEYS, ONE, SLOT, TWO, Shell, accept, proposal
from devnet.simulation.keys import verify_fake
from runtime.blocks.evidence import DoubleBallot, DoubleProposal
from runtime.blocks.votes import (
    Ballot,
    BallotKind,
    Proposal,
    SignedProposal,
    ballot_payload,
    proposal_payload,
    skip_ballot,
)

FOUR = full_poll_thresholds(4)  # 3 of 4 in four polls in a row, or 4 of 4 in two
A, B, C = (bytes([first]) + bytes(31) for first in (0x00, 0x80, 0x81))


def test_a_flip_of_a_bit_starts_its_counters_anew() -> None:
    snowflake = Snowflake(FOUR, A)
    snowflake.add(B)
    for _ in range(3):
        snowflake.record({A: 3})
    snowflake.record({B: 3})
    assert snowflake.preference == B
    snowflake.record({A: 3})  # one poll decided nothing: the bit flips back
    assert snowflake.preference == A


def test_a_late_sibling_inherits_no_confidence() -> None:
    snowflake = Snowflake(FOUR, A)
    for _ in range(3):
        snowflake.record({A: 3})
    snowflake.add(B)
    snowflake.record({B: 3})
    assert snowflake.add(C)  # one poll decided nothing between B and C
    for _ in range(3):
        snowflake.record({C: 3})
        assert not snowflake.decided


def test_polls_in_a_row_are_in_a_row_after_a_detour_to_a_sibling() -> None:
    first, rival = block(GENESIS_BLOCK, 1), block(GENESIS_BLOCK, 2)
    above = block(rival, 3)
    chain = Topological(BlockTree(GENESIS_BLOCK), FOUR)
    for facts in (first, rival, above):
        chain.insert(facts)
    for _ in range(3):
        chain.record([(above.id, 3)])
    chain.record([(first.id, 3)])
    chain.record([(above.id, 3)])
    assert [count for _, count in chain.confidence(above.id)] == [1, 0]


def test_a_proposal_with_a_height_that_is_not_its_blocks_gets_no_vote() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    accept(shell, ONE)
    content = Proposal(0, 1, 0, ONE.height + 1, ONE.id)
    shell.say(0, Propose(SignedProposal(content, KEYS[0].sign(proposal_payload(GENESIS, content)))))
    shell.tick(DEVNET.soft_wait_ms)
    assert shell.signed() == []


def test_a_leader_that_equivocates_gets_no_vote_even_when_its_time_has_come() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    shell.say(0, Propose(proposal(ONE)))
    shell.now_ms += DEVNET.soft_wait_ms  # no tick: the second proposal is what wakes the node
    shell.say(0, Propose(proposal(TWO)))
    assert shell.signed() == [skip_ballot(0, 1)]


def test_votes_of_rounds_that_were_jumped_over_are_repeated() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    accept(shell, ONE)
    shell.say(0, Propose(proposal(ONE)))
    shell.say(0, Certified((certificate(skip_ballot(0, 2), 4, range(3)),)))
    assert shell.machine.gadget_round == (0, 3)
    shell.effects.clear()
    shell.tick(2_000)
    own = cast(KEYS[1], ballot(BallotKind.NOTARISE, 1, ONE))
    assert ev.Broadcast(Vote(own, proposal(ONE))) in shell.effects


def test_whoever_proved_no_key_of_a_member_does_not_vote_in_polls() -> None:
    shell = Shell(me=1).start()
    sybils = {b"none": (), b"own": (signers(9)[8].public,)}
    for peer, keys in sybils.items():
        shell.feed(ev.PeerConnected(peer, keys))
    shell.feed(ev.BlockImported(ONE))
    for _ in range(20):
        for effect in shell.tick(50):
            if isinstance(effect, ev.SendTo) and isinstance(effect.message, PullQuery):
                for peer in sybils:
                    said = Chits(effect.message.request, TWO.id, ONE.id, ONE.id, 1, 9)
                    shell.feed(ev.MessageReceived(peer, said))
    assert shell.machine.best == GENESIS_BLOCK
    polls = shell.machine._poller.polls.open()
    assert polls
    assert all(poll.votes.keys() <= {KEYS[1].public} for poll in polls)
    assert not any(isinstance(effect, ev.Fetch) for effect in shell.effects)


def grown() -> tuple[Shell, list[BlockFacts]]:
    """Return member 2 with an epoch of undecided blocks and the next epoch's first one."""
    shell = Shell(me=2).start()
    blocks: list[BlockFacts] = []
    for number in range(DEVNET.epoch_blocks + 1):
        blocks.append(block(blocks[-1] if blocks else GENESIS_BLOCK, SLOT + number))
        shell.feed(ev.BlockImported(blocks[-1]))
    return shell, blocks


def end_epoch(shell: Shell, blocks: list[BlockFacts]) -> None:
    """Finalise the boundary block."""
    shell.say(0, Certified((certificate(ballot(BallotKind.FINALISE, 1, blocks[-2]), 4, range(3)),)))
    assert shell.machine.gadget_round == (1, 1)


def test_polls_of_the_old_set_end_with_it() -> None:
    shell, blocks = grown()
    open_before = [poll.request for poll in shell.machine._poller.polls.open()]
    assert open_before
    end_epoch(shell, blocks)
    assert not {poll.request for poll in shell.machine._poller.polls.open()} & set(open_before)


def test_proposals_of_the_old_epoch_do_not_stand_in_the_way_of_the_next() -> None:
    shell, blocks = grown()
    content = Proposal(0, 1, 0, blocks[0].height, blocks[0].id)
    shell.say(0, Propose(SignedProposal(content, KEYS[0].sign(proposal_payload(GENESIS, content)))))
    end_epoch(shell, blocks)
    shell.effects.clear()
    shell.tick(DEVNET.soft_wait_ms)
    content = Proposal(1, 1, 0, blocks[-1].height, blocks[-1].id)
    shell.say(1, Propose(SignedProposal(content, KEYS[1].sign(proposal_payload(GENESIS, content)))))
    assert not any(isinstance(effect, ev.ReportEvidence) for effect in shell.effects)
    assert shell.signed() == [Ballot(BallotKind.NOTARISE, 1, 1, blocks[-1].height, blocks[-1].id)]


def double_vote() -> DoubleBallot:
    pair = ballot(BallotKind.FINALISE, 1, ONE), skip_ballot(0, 1)
    signed = [KEYS[2].sign(ballot_payload(GENESIS, content)) for content in pair]
    return DoubleBallot(KEYS[2].public, pair[0], signed[0], pair[1], signed[1])


def double_proposal() -> DoubleProposal:
    pair = [proposal(facts) for facts in (ONE, TWO)]
    return DoubleProposal(KEYS[0].public, pair[0].proposal, pair[0].signature, pair[1].proposal, pair[1].signature)


@pytest.mark.parametrize("field", ["first_signature", "second_signature"])
@pytest.mark.parametrize("evidence", [double_vote(), double_proposal()], ids=["votes", "proposals"])
def test_both_signatures_of_evidence_count(evidence: DoubleBallot | DoubleProposal, field: str) -> None:
    assert verify_votes(evidence, members(4), GENESIS, verify_fake)
    forged = copy(evidence)
    object.__setattr__(forged, field, bytes(64))
    assert not verify_votes(forged, members(4), GENESIS, verify_fake)
