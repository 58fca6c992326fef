"""Relayed ballots and certificates for members without a connection to their makers."""

from typing import Any, NoReturn

import pytest

from consensus import events as ev
from consensus.certificates import make_bitmap, read_bitmap
from consensus.finality.relay import CERTIFICATE_PEERS_MAX, LINKS_DELAY_MS, STRANGERS_MAX, BallotRelay
from consensus.neighbours import Neighbours
from consensus.parameters import ACTIVE_VALIDATORS_MAX, DEVNET
from consensus.wire import Certified, Message, NeedCerts, Propose, Vote
from consensus_parts import ballot, cast, certificate, members, signers
from consensus_shell import KEYS, ONE, Shell, proposal, vote
from runtime.blocks.votes import BallotKind, skip_ballot

EVERYBODY = b"\x0f"
BUT_TWO = b"\x0b"  # members 0, 1 and 3


def needing(linked: bytes, round_: int = 1, final: int = 0) -> NeedCerts:
    return NeedCerts(0, round_, 0, final, linked)


def sent(effects: list[ev.Effect], kind: type[Message]) -> list[tuple[bytes, Message]]:
    return [
        (effect.peer, effect.message)
        for effect in effects
        if isinstance(effect, ev.SendTo) and isinstance(effect.message, kind)
    ]


def linked_shell(**links: bytes) -> Shell:
    """Return member 1, connected to 0, 2 and 3. `p0` to `p3` name the connections of these."""
    shell = Shell(me=1).start()
    shell.feed(ev.BlockImported(ONE))
    for number in (0, 2, 3):
        shell.say(number, needing(links.get(f"p{number}", EVERYBODY)))
    return shell


def test_a_bitmap_names_members_and_no_others() -> None:
    of = members(10)
    keys = [signers(10)[number].public for number in (0, 7, 8)]
    assert make_bitmap(keys, of) == b"\x81\x01"
    assert read_bitmap(b"\x81\x01", of) == tuple(keys)
    assert read_bitmap(b"\x81", of) is None
    assert read_bitmap(b"\x81\x04", of) is None


def test_in_a_full_mesh_nothing_is_passed_on() -> None:
    shell = linked_shell()
    effects = shell.say(2, vote(2, ballot(BallotKind.NOTARISE, 1, ONE)))
    effects += shell.say(0, vote(0, ballot(BallotKind.NOTARISE, 1, ONE)))
    effects += shell.say(3, vote(3, ballot(BallotKind.NOTARISE, 1, ONE)))
    assert shell.machine.gadget_round == (0, 2)
    assert sent(effects, Vote) == sent(effects, Certified) == []


def test_a_ballot_goes_once_to_whom_its_voter_does_not_reach() -> None:
    shell = linked_shell(p3=BUT_TWO)
    message = vote(2, ballot(BallotKind.NOTARISE, 1, ONE))
    assert sent(shell.say(2, message), Vote) == [(b"\3", message)]
    assert sent(shell.say(2, message), Vote) == []
    assert sent(shell.say(0, message), Vote) == []


def test_a_ballot_brings_the_proposal_to_those_whom_the_leader_does_not_reach() -> None:
    shell = linked_shell(p3=b"\x0e")
    shell.say(0, Propose(proposal(ONE)))
    ((_, message),) = sent(shell.say(0, vote(0, ballot(BallotKind.NOTARISE, 1, ONE))), Vote)
    assert isinstance(message, Vote)
    assert message.proposal == proposal(ONE)


def test_a_ballot_that_does_not_verify_goes_nowhere() -> None:
    shell = linked_shell(p3=BUT_TWO)
    forged = Vote(cast(KEYS[0], skip_ballot(0, 1)), None)
    forged = Vote(type(forged.vote)(forged.vote.ballot, KEYS[2].public, forged.vote.signature), None)
    effects = shell.say(2, forged)
    assert sent(effects, Vote) == []
    assert any(isinstance(effect, ev.Penalise) for effect in effects)


def test_a_ballot_is_not_sent_back_nor_to_who_is_past_its_round() -> None:
    shell = linked_shell(p0=BUT_TWO, p3=BUT_TWO)
    shell.say(0, needing(BUT_TWO, round_=2))
    assert sent(shell.say(3, vote(2, skip_ballot(0, 1))), Vote) == []


def test_in_a_round_that_lasts_ballots_of_others_are_repeated_too() -> None:
    shell = linked_shell(p3=BUT_TWO)
    message = vote(2, skip_ballot(0, 1))
    shell.say(2, message)
    assert sent(shell.tick(1_000), Vote) == [(b"\3", message)]


@pytest.mark.parametrize(
    ("shown", "goes"),
    [
        (needing(BUT_TWO), True),
        (needing(EVERYBODY), False),
        (needing(BUT_TWO, round_=2), False),
        (vote(3, ballot(BallotKind.FINALISE, 1, ONE)), False),
        (vote(0, ballot(BallotKind.FINALISE, 1, ONE)), True),
    ],
    ids=["lacks a signer", "reaches all", "is further", "voted to finalise", "brought another's vote"],
)
def test_a_certificate_goes_once_to_who_has_shown_neither_it_nor_a_later_round(
    shown: Message,
    goes: bool,
) -> None:
    shell = linked_shell(p3=BUT_TWO)
    shell.say(3, shown)
    proof = certificate(ballot(BallotKind.NOTARISE, 1, ONE), 4, range(3))
    effects = shell.say(0, Certified((proof,))) + shell.say(2, Certified((proof,)))
    assert sent(effects, Certified) == ([(b"\3", Certified((proof,)))] if goes else [])


@pytest.mark.parametrize(("final", "round_", "goes"), [(0, 2, True), (1, 2, False), (0, 3, False)])
def test_who_voted_to_finalise_still_learns_the_outcome(final: int, round_: int, goes: bool) -> None:
    shell = linked_shell(p3=BUT_TWO)
    shell.say(3, needing(BUT_TWO, round_, final))
    proof = certificate(ballot(BallotKind.FINALISE, 1, ONE), 4, range(3))
    assert bool(sent(shell.say(0, Certified((proof,))), Certified)) == goes


def crowd(strangers: int) -> BallotRelay:
    """Return a node of four members among many strangers that claim no connections."""
    neighbours = Neighbours()
    neighbours.begin(members(4), KEYS[1].public)
    relay = BallotRelay(neighbours)
    relay.begin(members(4), 0)
    for number in range(strangers):
        peer = b"stranger %d" % number
        neighbours.connect(peer, ())
        relay.connect(peer, 0)
        relay.note_need(peer, needing(b"\0"))
    return relay


def test_strangers_get_ballots_a_few_at_a_time_and_each_in_its_turn() -> None:
    relay = crowd(20)
    reached = set()
    for round_ in range(1, 20):
        effects = relay.pass_vote(vote(2, skip_ballot(0, round_)), None)
        peers = {effect.peer for effect in effects if isinstance(effect, ev.SendTo)}
        assert len(peers) == STRANGERS_MAX
        reached |= peers
    assert len(reached) == 20


class NeverWalked(dict[bytes, Any]):
    """Fails a test that walks through all entries."""

    def __iter__(self) -> NoReturn:
        raise AssertionError("walked")

    items = values = keys = __iter__


def test_a_ballot_that_nobody_lacks_is_no_work_however_many_are_connected() -> None:
    """With 128 members there are some 250 ballots a block: a look at each peer cost more than the signature."""
    relay = crowd(20)
    for number in range(20):
        relay.note_need(b"stranger %d" % number, needing(EVERYBODY))
    relay._standings = NeverWalked(relay._standings)
    assert relay.pass_vote(vote(2, skip_ballot(0, 1)), None) == []
    relay.note_need(b"stranger 7", needing(BUT_TWO))
    with pytest.raises(AssertionError, match="walked"):
        relay.pass_vote(vote(2, skip_ballot(0, 1)), None)


def test_who_is_gone_is_no_work_either() -> None:
    relay = crowd(2)
    relay.note_need(b"stranger 1", needing(EVERYBODY))
    relay.disconnect(b"stranger 0", 0)
    relay._standings = NeverWalked(relay._standings)
    assert relay.pass_vote(vote(2, skip_ballot(0, 1)), None) == []


def test_who_is_gone_lacks_nothing_and_another_set_lacks_what_it_says() -> None:
    relay = crowd(2)
    relay.disconnect(b"stranger 0", 0)
    assert [peer for peer, _ in sent(relay.pass_vote(vote(2, skip_ballot(0, 1)), None), Vote)] == [b"stranger 1"]
    relay.note_need(b"stranger 1", needing(EVERYBODY))
    assert relay.pass_vote(vote(2, skip_ballot(0, 1)), None) == []
    relay.begin(members(10), 0)
    assert relay.pass_vote(vote(2, skip_ballot(0, 1)), None) == []
    new = Vote(cast(signers(10)[7], skip_ballot(0, 1)), None)
    assert [peer for peer, _ in sent(relay.pass_vote(new, None), Vote)] == [b"stranger 1"]


def test_a_certificate_goes_to_a_few() -> None:
    proof = certificate(skip_ballot(0, 1), 4, range(3))
    assert len(crowd(20).pass_certificate(proof)) == CERTIFICATE_PEERS_MAX
    assert len(crowd(2).pass_certificate(proof)) == 2


def test_peers_are_told_of_new_links_once_and_after_a_moment() -> None:
    shell = Shell(me=1)
    shell.restore(ev.BlockFacts(ONE.parent, bytes(32), 0, 0, bytes(32), 0), None, (), shell.sign_state)
    shell.connect()
    shell.effects.clear()
    assert sent(shell.tick(LINKS_DELAY_MS - 1), NeedCerts) == []
    told = sent(shell.tick(1), NeedCerts)
    assert told == [(bytes([number]), needing(EVERYBODY)) for number in (0, 2, 3)]
    assert sent(shell.tick(10_000), NeedCerts) == []
    shell.feed(ev.PeerLost(b"\2"))
    assert sent(shell.tick(LINKS_DELAY_MS), NeedCerts) == [(bytes([number]), needing(BUT_TWO)) for number in (0, 3)]


def test_a_key_that_is_no_members_is_no_voter() -> None:
    shell = Shell(me=1).start()
    shell.feed(ev.PeerConnected(b"sybil", (signers(9)[8].public,)))
    shell.effects.clear()
    shell.tick(LINKS_DELAY_MS)
    assert all(effect.message == needing(EVERYBODY) for effect in shell.effects if isinstance(effect, ev.SendTo))
    assert b"sybil" not in shell.machine._neighbours.voters.values()
    assert shell.machine._neighbours.in_order()[-1] == b"sybil"


def test_rubbish_bitmaps_change_nothing() -> None:
    shell = linked_shell(p3=BUT_TWO)
    for linked in (b"", b"\xff", b"\0" * 16):
        shell.say(3, needing(linked))
    assert sent(shell.say(2, vote(2, skip_ballot(0, 1))), Vote) == [(b"\3", vote(2, skip_ballot(0, 1)))]
    assert len(make_bitmap((), members(ACTIVE_VALIDATORS_MAX))) == 16


def test_far_votes_are_dropped_unsigned_and_charged_to_their_sender() -> None:
    shell = Shell(me=1).start()
    most = DEVNET.useless_most(4)
    far = Vote(type(cast(KEYS[2], skip_ballot(0, 1)))(skip_ballot(0, 10_000), KEYS[2].public, bytes(64)), None)
    for _ in range(most):
        assert not any(isinstance(effect, ev.Penalise) for effect in shell.say(2, far))
    assert any(isinstance(effect, ev.Penalise) for effect in shell.say(2, far))
    assert not any(isinstance(effect, ev.Penalise) for effect in shell.say(3, far))
    shell.tick(1_000)
    assert not any(isinstance(effect, ev.Penalise) for effect in shell.say(2, far))
