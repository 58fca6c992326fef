"""The machine among peers that lie, flood, stutter and lag."""

import pytest

from consensus import events as ev
from consensus.events import BlockFacts
from consensus.parameters import DEVNET
from consensus.wire import Certified, Chits, Message, NeedCerts, Propose, PullQuery, Vote
from consensus_parts import GENESIS, ballot, cast, certificate, signers
from consensus_shell import KEYS, ONE, SLOT, Shell, proposal, vote
from runtime.blocks.votes import Ballot, BallotKind, SignedBallot, skip_ballot


def test_only_a_few_headers_of_a_slot_are_welcome_unless_voted_for() -> None:
    shell = Shell().start()
    twins = [BlockFacts(bytes([number]) * 32, GENESIS, 1, SLOT, b"a" * 32, 0) for number in range(5)]
    for twin in twins[: DEVNET.headers_per_slot_max]:
        assert shell.machine.is_welcome(twin)
        shell.feed(ev.BlockImported(twin))
    assert not shell.machine.is_welcome(twins[3])
    shell.say(1, PullQuery(0, twins[3].id, 1))
    assert shell.machine.is_welcome(twins[3])
    assert not shell.machine.is_welcome(twins[4])


BAD_MESSAGES = {
    "vote of a stranger": Vote(cast(signers(9)[8], ballot(BallotKind.NOTARISE, 1, ONE)), None),
    "vote signed by another": Vote(SignedBallot(skip_ballot(0, 1), KEYS[1].public, bytes(64)), None),
    "skip of a block": vote(2, Ballot(BallotKind.SKIP, 0, 1, 1, ONE.id)),
    "vote beyond the epoch": vote(2, Ballot(BallotKind.NOTARISE, 0, 1, 61, ONE.id)),
    "vote for the base": vote(2, Ballot(BallotKind.NOTARISE, 0, 1, 0, GENESIS)),
    "proposal of another leader": Propose(proposal(ONE, number=2)),
    "proposal on its own round": Propose(proposal(ONE, parent=1)),
    "certificate without quorum": Certified((certificate(ballot(BallotKind.FINALISE, 1, ONE), 4, range(2)),)),
}


@pytest.mark.parametrize("message", BAD_MESSAGES.values(), ids=BAD_MESSAGES)
def test_what_no_honest_peer_sends_is_penalised(message: Message) -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    effects = shell.say(2, message)
    assert any(isinstance(effect, ev.Penalise) for effect in effects)
    assert shell.signed() == []


FAR_OFF = {
    "far round": vote(2, skip_ballot(0, 10_000)),
    "round 0": vote(2, skip_ballot(0, 0)),
    "far epoch": vote(2, skip_ballot(7, 1)),
    "chits nobody asked for": Chits(99, ONE.id, ONE.id, ONE.id, 1, 1),
    "need of the future": NeedCerts(9, 1, 0, 0, b"\x0f"),
    "nothing": Certified(()),
}


@pytest.mark.parametrize("message", FAR_OFF.values(), ids=FAR_OFF)
def test_what_is_far_off_costs_nothing(message: Message) -> None:
    shell = Shell(me=1).start()
    effects = shell.say(2, message)
    assert all(isinstance(effect, ev.SendTo) and isinstance(effect.message, NeedCerts) for effect in effects)


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
    assert sum(bool(answer) for answer in answers) < 60
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
    assert not any(isinstance(effect, ev.Fetch) for effect in shell.effects)
