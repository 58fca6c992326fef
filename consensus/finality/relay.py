"""Ballots and certificates for those whom their makers do not reach: any connected network agrees.

Each node says, by a bitmap over the set, which members it is directly connected to (`NeedCerts.linked`). A verified
ballot goes once to each peer whose bitmap lacks its voter; a certificate goes once, to a few peers that were not in
reach of all its signers and have shown neither it nor a later round.

Always: where everybody is connected to everybody this sends nothing; nothing is passed on that was not verified; peers
that are no members get ballots only a few at a time, in turn, because anybody can be one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from consensus.certificates import Certificate, make_bitmap, read_bitmap
from consensus.events import Effect, SendTo
from consensus.neighbours import Neighbours
from consensus.validators import ValidatorSet
from consensus.wire import Certified, NeedCerts, Vote
from runtime.blocks.votes import Ballot, BallotKind, SignedBallot

LINKS_DELAY_MS = 200  # links come and go in swarms, at a start above all
CERTIFICATE_PEERS_MAX = 8
STRANGERS_MAX = 8  # of 128 members that is at most 0.3 MB a round, however many strangers are connected


@dataclass(slots=True)
class _Standing:
    """What a peer has shown, and what it was told."""

    linked: frozenset[bytes] | None = None  # None: it has not said
    told: frozenset[bytes] | None = None
    entered: tuple[int, int] = (0, 0)  # (epoch, round): it holds the certificates of the rounds before
    final: tuple[int, int] = (0, 0)


class BallotRelay:
    """Who lacks what, among the neighbours of one node."""

    def __init__(self, neighbours: Neighbours) -> None:
        """Nobody is there yet; call `begin` next."""
        self._neighbours = neighbours
        self._standings: dict[bytes, _Standing] = {}
        self._unreached: dict[bytes, set[bytes]] = {}  # by member: peers that say they are not connected to it
        self._due_ms: int | None = None

    def begin(self, members: ValidatorSet, now_ms: int) -> None:
        """Another set votes. Who was told of the same links between the same keys need not be told again."""
        self._members = members
        self._unreached = {member.session: set() for member in members.members}
        for peer in self._standings:
            self._count(peer)
        self.change_links(now_ms)

    # --- links

    def connect(self, peer: bytes, now_ms: int) -> None:
        """A peer is there."""
        self._standings[peer] = _Standing()
        self.change_links(now_ms)

    def disconnect(self, peer: bytes, now_ms: int) -> None:
        """A peer is gone."""
        self._standings.pop(peer, None)
        self._count(peer)
        self.change_links(now_ms)

    def change_links(self, now_ms: int) -> None:
        """Peers are to be told, in a moment."""
        if self._due_ms is None:
            self._due_ms = now_ms + LINKS_DELAY_MS

    def bitmap(self) -> bytes:
        """Which members this node is directly connected to; empty, which says nothing, while that is changing."""
        # Told half of the links at a start, peers passed on all ballots of the first round.
        if self._due_ms is not None:
            return b""
        return make_bitmap(self._neighbours.linked(), self._members)

    def tell(self, need: Callable[[], NeedCerts], now_ms: int) -> list[Effect]:
        """Tell those who know of other links."""
        if self._due_ms is None or now_ms < self._due_ms:
            return []
        self._due_ms = None
        linked = self._neighbours.linked()
        behind = [peer for peer, standing in self._standings.items() if standing.told != linked]
        for peer in behind:
            self._standings[peer].told = linked
        return [SendTo(peer, need()) for peer in behind]

    def deadline_ms(self) -> int | None:
        """When peers are to be told."""
        return self._due_ms if self._standings else None

    # --- what peers show

    def note_need(self, peer: bytes, need: NeedCerts) -> bool:
        """A peer says where it is and whom it is connected to; whether that is news."""
        standing = self._standings[peer]
        linked = read_bitmap(need.linked, self._members) if need.epoch == self._members.epoch else None
        before = (standing.linked, standing.entered, standing.final)
        if linked is not None:
            standing.linked = frozenset(linked)
            self._count(peer)
        self._note(peer, (need.epoch, need.round), (need.epoch, need.final_round))
        return before != (standing.linked, standing.entered, standing.final)

    def note_vote(self, peer: bytes, vote: SignedBallot) -> None:
        """A peer brings a ballot; its own one shows the round that it is in."""
        if vote.voter in self._neighbours.keys_of(peer):
            ballot = vote.ballot
            self._note(peer, (ballot.epoch, ballot.round + (ballot.kind == BallotKind.FINALISE)), (0, 0))

    def note_certificate(self, peer: bytes, ballot: Ballot) -> None:
        """A peer brings a certificate."""
        final = (ballot.epoch, ballot.round) if ballot.kind == BallotKind.FINALISE else (0, 0)
        self._note(peer, (ballot.epoch, ballot.round + 1), final)

    def _count(self, peer: bytes) -> None:
        """A peer's links are other ones now, or it is gone."""
        standing = self._standings.get(peer)
        linked = None if standing is None else standing.linked
        for member, unreached in self._unreached.items():
            if linked is None or member in linked:
                unreached.discard(peer)
            else:
                unreached.add(peer)

    def _note(self, peer: bytes, entered: tuple[int, int], final: tuple[int, int]) -> None:
        standing = self._standings[peer]
        standing.entered = max(standing.entered, entered)
        standing.final = max(standing.final, final)

    # --- passing on

    def pass_vote(self, message: Vote, source: bytes | None) -> list[Effect]:
        """A verified ballot, to each peer that its voter does not reach."""
        unreached, round_ = self._unreached.get(message.vote.voter), message.vote.ballot.round
        # The usual case, some 250 times a block with 128 members: a look at each peer cost more than the signature.
        if not unreached:
            return []
        lacking = [
            peer
            for peer, standing in self._standings.items()
            if peer != source and peer in unreached and not _has(standing, message.vote.ballot)
        ]
        members = [peer for peer in lacking if self._neighbours.is_voter(peer)]
        strangers = _in_turn([peer for peer in lacking if not self._neighbours.is_voter(peer)], round_, STRANGERS_MAX)
        return [SendTo(peer, message) for peer in (*members, *strangers)]

    def pass_certificate(self, certificate: Certificate) -> list[Effect]:
        """A certificate held for the first time, to a few who could not make it themselves."""
        signers = frozenset(read_bitmap(certificate.signers, self._members) or ())
        lacking = [
            peer
            for peer, standing in self._standings.items()
            if standing.linked is not None and not signers <= standing.linked and not _has(standing, certificate.ballot)
        ]
        chosen = _in_turn(lacking, certificate.ballot.round, CERTIFICATE_PEERS_MAX)
        return [SendTo(peer, Certified((certificate,))) for peer in chosen]


def _has(standing: _Standing, ballot: Ballot) -> bool:
    """Whether a peer has shown the certificate of a ballot, or a round that it could enter only later."""
    if ballot.kind != BallotKind.FINALISE:
        return standing.entered > (ballot.epoch, ballot.round)
    # Who voted to finalise is in the next round already, and knows nothing of the outcome.
    return standing.final >= (ballot.epoch, ballot.round) or standing.entered > (ballot.epoch, ballot.round + 1)


def _in_turn(peers: list[bytes], round_: int, most: int) -> Iterable[bytes]:
    """At most so many of them, other ones in each round."""
    start = round_ * most % len(peers) if peers else 0
    return (peers[start:] + peers[:start])[:most]
