"""Certificates for nodes that are behind: rate-limited, from memory for new epochs, from the shell for older ones."""

from collections.abc import Callable
from dataclasses import replace

from consensus import events as ev
from consensus.certificates import Certificate
from consensus.finality.catchup import CatchUp
from consensus.finality.gadget import Gadget
from consensus.finality.rounds import Rounds
from consensus.parameters import DEVNET
from consensus.wire import Certified, NeedCerts
from consensus_parts import certificate, members
from runtime.blocks.votes import Ballot, BallotKind

EPOCH = 5
QUESTION = NeedCerts(EPOCH, 1, 0, 0, b"")


class PlayedGadget(Gadget):
    """A gadget in round 1 of an epoch that asks one question."""

    def __init__(self) -> None:
        self.members = members(4, EPOCH)
        self.rounds = Rounds(EPOCH, (EPOCH * DEVNET.epoch_blocks, b"b" * 32))

    def need(self) -> NeedCerts:
        return QUESTION


def boundary(epoch: int) -> Certificate:
    return certificate(Ballot(BallotKind.FINALISE, epoch, 9, DEVNET.boundary(epoch), b"b" * 32), 4, range(3))


def catching_up(epochs: range, kept: int = DEVNET.boundaries_kept) -> tuple[CatchUp, Callable[[], list[ev.Effect]]]:
    effects: list[ev.Effect] = []
    catchup = CatchUp(replace(DEVNET, boundaries_kept=kept), PlayedGadget(), (), effects.append)
    for epoch in epochs:
        catchup.end_epoch(boundary(epoch))

    def emitted() -> list[ev.Effect]:
        taken = effects[:]
        effects.clear()
        return taken

    return catchup, emitted


def test_however_many_claim_to_be_ahead_one_of_them_is_asked_at_a_time() -> None:
    catchup, emitted = catching_up(range(0))
    for number in range(100):
        catchup.note_position(bytes([number]), EPOCH, 50, 1_000)
    assert emitted() == [ev.SendTo(b"\0", QUESTION)]
    catchup.note_position(b"a", EPOCH, 50, 1_000 + DEVNET.need_certs_ms - 1)
    assert emitted() == []
    catchup.note_position(b"a", EPOCH, 50, 1_000 + DEVNET.need_certs_ms)
    assert emitted() == [ev.SendTo(b"a", QUESTION)]


def test_a_round_ahead_is_what_every_healthy_round_looks_like() -> None:
    catchup, emitted = catching_up(range(0))
    catchup.note_position(b"a", EPOCH, 2, 1_000)
    assert emitted() == []
    catchup.note_position(b"a", EPOCH, 3, 1_000)
    assert emitted() == [ev.SendTo(b"a", QUESTION)]


def test_whoever_is_an_epoch_behind_is_sent_its_end() -> None:
    catchup, emitted = catching_up(range(EPOCH))
    for epoch in range(EPOCH):
        catchup.note_position(bytes([epoch]), epoch, 1, 1_000)
        assert emitted() == [ev.SendTo(bytes([epoch]), Certified((boundary(epoch),)))]


def test_the_newest_ends_are_in_memory_and_the_shell_is_asked_for_the_others() -> None:
    catchup, emitted = catching_up(range(EPOCH), kept=3)
    for epoch in range(EPOCH):
        peer = bytes([epoch])
        catchup.note_position(peer, epoch, 1, 1_000)
        is_here = epoch >= EPOCH - 3
        expected = ev.SendTo(peer, Certified((boundary(epoch),))) if is_here else ev.SendBoundary(peer, epoch)
        assert emitted() == [expected]
        catchup.note_position(peer, epoch, 1, 1_000)
        assert emitted() == [], "an answer is larger than a question"
