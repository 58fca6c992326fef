"""Relay of ballots and certificates to peers without a link to their signers, so that any connected network agrees.

Each node announces, by a bitmap over the set, the members that it is directly connected to (`NeedCerts.linked`). A
verified ballot goes once to each peer whose bitmap lacks its voter. A certificate goes once, to a few peers without a
link to all its signers, unless they have shown the certificate or a later round.

Invariant: in a fully connected network this sends nothing. Only verified messages are relayed. Peers that are not
members get ballots only a few at a time, in turn, because anyone can connect as one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from consensus.certificates import Certificate, make_bitmap, read_bitmap
from consensus.events import Effect, SendTo
from consensus.neighbours import Neighbours
from consensus.validators import ValidatorSet
from consensus.wire import Certified, NeedCerts, Vote
from runtime.blocks.votes import Ballot, BallotKind, SignedBallot

LINKS_DELAY_MS = 200  # links change in bursts, above all at a start
CERTIFICATE_PEERS_MAX = 8
STRANGERS_MAX = 8  # with 128 members at most 0.3 MB a round, however many strangers connect


@dataclass(slots=True)
class _Standing:
    """A peer's announced links and position, and the links announced to it."""

    linked: frozenset[bytes] | None = None  # None: not announced
    told: frozenset[bytes] | None = None
    entered: tuple[int, int] = (0, 0)  # (epoch, round): it holds the certificates of earlier rounds
    final: tuple[int, int] = (0, 0)


class BallotRelay:
    """The ballots and certificates that the neighbours of one node lack."""

    def __init__(self, neighbours: Neighbours) -> None:
        """Start without peers. Call `begin` next."""
        self._neighbours = neighbours
        self._standings: dict[bytes, _Standing] = {}
        self._unreached: dict[bytes, set[bytes]] = {}  # by member: peers that announced links, but none to it
        self._due_ms: int | None = None

    def begin(self, members: ValidatorSet, now_ms: int) -> None:
        """Start an epoch with another set. Announce links again only to peers that do not know the same ones."""
        self._members = members
        self._unreached = {member.session: set() for member in members.members}
        for peer in self._standings:
            self._count(peer)
        self.change_links(now_ms)

    # --- links

    def connect(self, peer: bytes, now_ms: int) -> None:
        """Add a peer."""
        self._standings[peer] = _Standing()
        self.change_links(now_ms)

    def disconnect(self, peer: bytes, now_ms: int) -> None:
        """Remove a peer."""
        self._standings.pop(peer, None)
        self._count(peer)
        self.change_links(now_ms)

    def change_links(self, now_ms: int) -> None:
        """Schedule an announcement of links to the peers, after `LINKS_DELAY_MS`."""
        if self._due_ms is None:
            self._due_ms = now_ms + LINKS_DELAY_MS

    def bitmap(self) -> bytes:
        """Return the bitmap of directly connected members. While links are changing it is empty: no statement."""
        # With half of the links announced at a start, peers relayed all ballots of the first round.
        if self._due_ms is not None:
            return b""
        return make_bitmap(self._neighbours.linked(), self._members)

    def tell(self, need: Callable[[], NeedCerts], now_ms: int) -> list[Effect]:
        """Return the announcements of links that are due, to peers that know other ones."""
        if self._due_ms is None or now_ms < self._due_ms:
            return []
        self._due_ms = None
        linked = self._neighbours.linked()
        peers_behind = [peer for peer, standing in self._standings.items() if standing.told != linked]
        for peer in peers_behind:
            self._standings[peer].told = linked
        return [SendTo(peer, need()) for peer in peers_behind]

    def deadline_ms(self) -> int | None:
        """Return the time of the next announcement in ms, None if there is none."""
        return self._due_ms if self._standings else None

    # --- state of peers

    def note_need(self, peer: bytes, need: NeedCerts) -> bool:
        """Note a peer's announced position and links. Return True if they are new."""
        standing = self._standings[peer]
        linked_indices = read_bitmap(need.linked, self._members) if need.epoch == self._members.epoch else None
        earlier_position = (standing.linked, standing.entered, standing.final)
        if linked_indices is not None:
            standing.linked = frozenset(linked_indices)
            self._count(peer)
        self._note(peer, (need.epoch, need.round), (need.epoch, need.final_round))
        return earlier_position != (standing.linked, standing.entered, standing.final)

    def note_vote(self, peer: bytes, signed_ballot: SignedBallot) -> None:
        """Note a ballot from a peer: its own ballot shows its round."""
        if signed_ballot.voter in self._neighbours.keys_of(peer):
            ballot = signed_ballot.ballot
            self._note(peer, (ballot.epoch, ballot.round + (ballot.kind == BallotKind.FINALISE)), (0, 0))

    def note_certificate(self, peer: bytes, ballot: Ballot) -> None:
        """Note a certificate from a peer, which shows its round."""
        final = (ballot.epoch, ballot.round) if ballot.kind == BallotKind.FINALISE else (0, 0)
        self._note(peer, (ballot.epoch, ballot.round + 1), final)

    def _count(self, peer: bytes) -> None:
        """Update the unreached peers of each member after a change of a peer's links, or its removal."""
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

    # --- relaying

    def pass_vote(self, message: Vote, source: bytes | None) -> list[Effect]:
        """Return the messages with a verified ballot, to each peer without a link to its voter."""
        unreached, round_number = self._unreached.get(message.vote.voter), message.vote.ballot.round
        # The usual case, about 250 times a block with 128 members: a loop over the peers cost more than the signature.
        if not unreached:
            return []
        lacking_peers = [
            peer
            for peer, standing in self._standings.items()
            if peer != source and peer in unreached and not _has(standing, message.vote.ballot)
        ]
        lacking_voters = [peer for peer in lacking_peers if self._neighbours.is_voter(peer)]
        strangers = _in_turn(
            [peer for peer in lacking_peers if not self._neighbours.is_voter(peer)], round_number, STRANGERS_MAX
        )
        return [SendTo(peer, message) for peer in (*lacking_voters, *strangers)]

    def pass_certificate(self, certificate: Certificate) -> list[Effect]:
        """Return the messages with a new certificate, to a few peers that cannot assemble it themselves."""
        signers = frozenset(read_bitmap(certificate.signers, self._members) or ())
        lacking_peers = [
            peer
            for peer, standing in self._standings.items()
            if standing.linked is not None and not signers <= standing.linked and not _has(standing, certificate.ballot)
        ]
        chosen_peers = _in_turn(lacking_peers, certificate.ballot.round, CERTIFICATE_PEERS_MAX)
        return [SendTo(peer, Certified((certificate,))) for peer in chosen_peers]


def _has(standing: _Standing, ballot: Ballot) -> bool:
    """Return True if a peer has shown the certificate of a ballot, or a round that it could enter only later."""
    if ballot.kind != BallotKind.FINALISE:
        return standing.entered > (ballot.epoch, ballot.round)
    # A voter for finalise is in the next round already, and does not know the outcome.
    return standing.final >= (ballot.epoch, ballot.round) or standing.entered > (ballot.epoch, ballot.round + 1)


def _in_turn(peers: list[bytes], round_number: int, peers_max: int) -> Iterable[bytes]:
    """Return at most `peers_max` of the peers, different ones in each round."""
    start_index = round_number * peers_max % len(peers) if peers else 0
    return (peers[start_index:] + peers[:start_index])[:peers_max]
