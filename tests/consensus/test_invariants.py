"""The assertions of the machine: each fires if the rule before it is removed."""

from collections.abc import Callable

import pytest

from consensus import events as ev
from consensus.blocktree import BlockTree
from consensus.finality.gadget import Gadget
from consensus.finality.hearing import BallotBox
from consensus.finality.rounds import Rounds
from consensus.parameters import DEVNET
from consensus.polling.polls import Polls
from consensus.polling.topological import Topological
from consensus.wire import Certified, Vote
from consensus_parts import GENESIS, GENESIS_BLOCK, ballot, block, cast, certificate, members, signers
from consensus_shell import ONE, Shell
from runtime.blocks.votes import BallotKind, skip_ballot

TWO = block(ONE, ONE.slot + 1)
VOTE = (ONE.id, ONE.id)
VOTERS = {signer.public: bytes([number]) for number, signer in enumerate(signers(4))}
WEIGHTS = dict.fromkeys(VOTERS, 1)


def final_in(round_: int, checkpoint: ev.BlockFacts = ONE) -> Certified:
    return Certified((certificate(ballot(BallotKind.FINALISE, round_, checkpoint), 4, range(3)),))


def vote_of(number: int, round_: int) -> Vote:
    return Vote(cast(signers(4)[number], skip_ballot(0, round_)), None)


def test_the_newest_final_round_only_rises(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds(0, (0, GENESIS))
    newer, older = (final_in(round_).certificates[0] for round_ in (5, 3))
    assert rounds.add(newer)
    assert not rounds.add(older)
    monkeypatch.setattr(Rounds, "holds", lambda *_: False)
    with pytest.raises(AssertionError, match="newest final round"):
        rounds.add(older)


def test_the_tree_never_goes_below_its_final_block() -> None:
    tree = BlockTree(GENESIS_BLOCK)
    tree.add(ONE)
    tree.add(TWO)
    tree.finalise(TWO.id)
    tree.blocks[ONE.id] = ONE
    with pytest.raises(AssertionError, match="final height never"):
        tree.finalise(ONE.id)


def test_what_the_gadget_finalises_is_higher_than_what_was_final(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    monkeypatch.setattr(Topological, "finalise", lambda _self, identity: ((identity,), None))
    with pytest.raises(AssertionError, match="final height never"):
        shell.say(2, final_in(1))


def test_votes_are_dropped_with_their_round_for_good() -> None:
    box = BallotBox(members(4))
    early, late = (cast(signers(4)[0], ballot(BallotKind.NOTARISE, round_, ONE)) for round_ in (1, 2))
    box.add(early)
    box.add(late)
    box.prune(2)
    assert box.votes(1) == []
    assert box.votes(2) == [late]
    with pytest.raises(AssertionError, match="only for rounds"):
        box.add(early)
    with pytest.raises(AssertionError, match="dropped rounds"):
        box.prune(1)


def test_the_gadget_lets_no_vote_of_a_dropped_round_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Late votes are normal and left out before they are counted. The assertion guards against a lost check."""
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    shell.say(2, final_in(3))
    late = ev.MessageReceived(b"\2", vote_of(2, 1))
    shell.feed(late)
    monkeypatch.setattr(Gadget, "_is_near", lambda *_: True)
    with pytest.raises(AssertionError, match="only for rounds"):
        shell.feed(late)


def ended_by_close(polls: Polls) -> None:
    polls.close(polls.open()[0], 10_000)


@pytest.mark.parametrize("end", [ended_by_close, Polls.abandon])
def test_a_poll_that_ended_takes_no_more_answers(end: Callable[[Polls], None]) -> None:
    polls = Polls(DEVNET)
    poll = polls.start(WEIGHTS, VOTERS, 0)
    first, second, *_ = VOTERS
    assert polls.answer(poll.request, first, VOTE, 5)
    end(polls)
    assert not polls.answer(poll.request, second, VOTE, 6)
    polls._open_polls[poll.request] = poll
    with pytest.raises(AssertionError, match="takes no answers"):
        polls.answer(poll.request, second, VOTE, 6)
    with pytest.raises(AssertionError, match="poll ends once"):
        polls.close(poll, 10_000)


def test_open_polls_have_different_numbers() -> None:
    polls = Polls(DEVNET)
    polls.start(WEIGHTS, VOTERS, 0)
    polls._next_request = 0
    with pytest.raises(AssertionError, match="distinct numbers"):
        polls.start(WEIGHTS, VOTERS, 50)
