"""Votes before a restart: sent again once their block is here, and never earlier."""

import pytest

from consensus import events as ev
from consensus import signstate
from consensus.blocktree import BlockTree
from consensus.machine import Recall
from consensus.signstate import EMPTY, SignState, after
from consensus.wire import Certified
from consensus_parts import GENESIS_BLOCK, ballot, block, certificate
from consensus_shell import ONE, SLOT, Shell
from runtime.blocks.votes import Ballot, BallotKind, Proposal, skip_ballot

NOTARISE = ballot(BallotKind.NOTARISE, 1, ONE)
PROPOSAL = Proposal(0, 1, 0, 1, ONE.id)
HIGHER = block(ONE, SLOT + 1)


def signed(*records: Proposal | Ballot) -> SignState:
    state = EMPTY
    for record in records:
        state = after(state, record)
    return state


@pytest.mark.parametrize("record", [NOTARISE, PROPOSAL, ballot(BallotKind.FINALISE, 1, ONE)])
def test_a_vote_waits_for_its_block_and_is_sent_once(record: Proposal | Ballot) -> None:
    tree, state = BlockTree(GENESIS_BLOCK), signed(record)
    recall = Recall(state)
    assert recall.take(0, tree, state) == []
    tree.add(ONE)
    assert recall.take(0, tree, state) == [record]
    assert recall.take(0, tree, state) == []


def test_a_vote_of_another_epoch_waits_for_it() -> None:
    state = signed(skip_ballot(3, 1))
    recall = Recall(state)
    assert recall.take(0, BlockTree(GENESIS_BLOCK), state) == []
    assert recall.take(3, BlockTree(GENESIS_BLOCK), state) == [skip_ballot(3, 1)]


def test_a_vote_whose_round_is_final_is_forgotten() -> None:
    state = signed(NOTARISE)
    recall = Recall(state)
    tree = BlockTree(GENESIS_BLOCK)
    assert recall.take(0, tree, signstate.raise_floor(state, 0, 1)) == []
    tree.add(ONE)
    assert recall.take(0, tree, state) == []


def test_a_machine_asks_for_no_vote_on_a_block_that_it_lacks() -> None:
    shell = Shell(me=1)
    shell.restore(GENESIS_BLOCK, None, (), signed(NOTARISE))
    shell.connect()
    assert shell.signed() == []
    shell.feed(ev.BlockImported(ONE))
    assert shell.signed() == [NOTARISE]


def test_a_machine_starts_above_the_floor_that_its_final_block_proves() -> None:
    """The shell died between the commit of ONE and its note. An older vote for a rival was open."""
    shell = Shell(me=1)
    shell.now_ms = SLOT * 1_000
    proof = certificate(ballot(BallotKind.FINALISE, 2, ONE), 4, range(3))
    shell.restore(ONE, proof, (), signed(NOTARISE, skip_ballot(0, 2)))
    assert shell.signed() == []
    assert shell.machine.gadget_round == (0, 3)
    shell.feed(ev.BlockImported(HIGHER))
    assert NOTARISE not in shell.signed()


@pytest.mark.parametrize("earlier", [EMPTY, signed(skip_ballot(0, 2))], ids=["never signed", "signed and forgotten"])
def test_who_may_not_sign_yet_is_asked_when_it_may(earlier: SignState) -> None:
    """A restored database: a vote refused during catch-up was never asked for again, and the round stopped."""
    shell = Shell(me=1)
    shell.run(shell.machine.restore(ev.Recovery(final=GENESIS_BLOCK, sign_state=earlier, silent_below=1), shell.now_ms))
    shell.sign_state = earlier
    shell.connect()
    shell.feed(ev.BlockImported(ONE))
    shell.feed(ev.BlockImported(HIGHER))
    shell.say(0, Certified((certificate(ballot(BallotKind.NOTARISE, 1, ONE), 4, range(3)),)))
    shell.tick(20_000)
    assert shell.machine.gadget_round == (0, 2)
    assert shell.signed() == []
    shell.say(0, Certified((certificate(ballot(BallotKind.FINALISE, 1, ONE), 4, range(3)),)))
    shell.tick(20_000)
    assert shell.machine.final == ONE
    assert shell.signed().count(skip_ballot(0, 2)) == 1
