"""Every run of a small gadget: four validators, one of them Byzantine, two conflicting blocks, two rounds.

The adversary controls the network. An honest node may cast, at any time and in any round, every ballot that the
production rules (`signstate`, `rounds`, `voting`) allow, and the Byzantine one casts all at once. That exceeds any real
run, and yet no two blocks become final. Planted bugs make two blocks final.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import pytest

from consensus import signstate
from consensus.blocktree import BlockTree
from consensus.certificates import VERSION_ED25519, Certificate
from consensus.finality import gadget, rounds
from consensus.finality.rounds import Rounds
from consensus.validators import ValidatorSet
from consensus_parts import GENESIS_BLOCK, block, members
from runtime.blocks.votes import Ballot, BallotKind, Proposal, skip_ballot

ROUNDS = (1, 2)
HONEST = 3
LEFT, RIGHT = block(GENESIS_BLOCK, 1), block(GENESIS_BLOCK, 2)
Votes = frozenset[int]  # of one honest node: numbers of ballots, which are hashed faster than ballots
State = tuple[Votes, ...]  # of all, in one order, because they are interchangeable


def all_ballots() -> list[Ballot]:
    found = [skip_ballot(0, round_) for round_ in ROUNDS]
    for kind in (BallotKind.NOTARISE, BallotKind.FINALISE):
        found += [Ballot(kind, 0, round_, 1, block.id) for round_ in ROUNDS for block in (LEFT, RIGHT)]
    return found


def in_order(ballot: Ballot) -> tuple[int, int, bytes]:
    return ballot.round, ballot.kind, ballot.block


class Model:
    """The states reached from the first, breadth first."""

    def __init__(self) -> None:
        self.tree = BlockTree(GENESIS_BLOCK)
        self.tree.add(LEFT)
        self.tree.add(RIGHT)
        self.ballots = sorted(all_ballots(), key=in_order)
        self.notarisations = [self._notarisation(ballot) for ballot in self.ballots]
        # the Byzantine one helps
        self.is_enough = [members(4).is_quorum(1 + count) for count in range(HONEST + 1)]
        self.may_cast = cache(self._may_cast)
        self.may_notarise = cache(self._may_notarise)
        self.in_order: Callable[[Votes], list[int]] = cache(sorted)

    def _notarisation(self, ballot: Ballot) -> int | None:
        """Return the ballot that must be certified before this one is cast."""
        if ballot.kind != BallotKind.FINALISE:
            return None
        return self.ballots.index(replace(ballot, kind=BallotKind.NOTARISE))

    def certified(self, state: State) -> Votes:
        """Return the ballots that enough nodes cast."""
        cast = [number for votes in state for number in votes]
        return frozenset(number for number in range(len(self.ballots)) if self.is_enough[cast.count(number)])

    def _may_cast(self, votes: Votes, number: int) -> bool:
        state = replace(signstate.EMPTY, ballots=tuple(self.ballots[each] for each in sorted(votes)))
        try:
            return signstate.after(state, self.ballots[number]) is not state
        except signstate.SigningRefusedError:
            return False

    def _may_notarise(self, certified: Votes, number: int) -> bool:
        held, ballot = Rounds(0, (0, GENESIS_BLOCK.id)), self.ballots[number]
        for each in sorted(certified):
            if self.ballots[each].kind != BallotKind.FINALISE:
                held.add(Certificate(VERSION_ED25519, self.ballots[each], b"", ()))
        parents = range(ballot.round)
        return any(
            gadget.is_linked(self.tree, held, Proposal(0, ballot.round, parent, 1, ballot.block)) for parent in parents
        )

    def following(self, state: State) -> Iterator[State]:
        certified = self.certified(state)
        for place, votes in enumerate(state):
            if place and state[place - 1] == votes:
                continue
            for number, ballot in enumerate(self.ballots):
                if number in votes or not self.may_cast(votes, number):
                    continue
                notarised = self.notarisations[number]
                if notarised is not None and notarised not in certified:
                    continue
                if ballot.kind == BallotKind.NOTARISE and not self.may_notarise(certified, number):
                    continue
                after = [*state[:place], votes | {number}, *state[place + 1 :]]
                yield tuple(sorted(after, key=self.in_order))

    def search(self) -> tuple[int, State | None]:
        """Return the number of states, and one with two final blocks if there is any."""
        start: State = (frozenset(),) * HONEST
        seen, queue = {start}, [start]
        for state in queue:
            reached = [self.ballots[number] for number in self.certified(state)]
            final = {ballot.block for ballot in reached if ballot.kind == BallotKind.FINALISE}
            if len(final) > 1:
                return len(seen), state
            for after in self.following(state):
                if after not in seen:
                    seen.add(after)
                    queue.append(after)
        return len(seen), None


def test_no_run_makes_two_blocks_final() -> None:
    states, conflict = Model().search()
    assert conflict is None
    assert states > 10_000  # a search that explores nothing proves nothing


def plant_half_quorum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ValidatorSet, "is_quorum", lambda self, weight: 2 * weight >= self.total)


def plant_finalise_after_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = signstate._require_compatible

    def lax(kind: BallotKind, signed: BallotKind) -> None:
        if {kind, signed} != {BallotKind.FINALISE, BallotKind.SKIP}:
            sound(kind, signed)

    monkeypatch.setattr(signstate, "_require_compatible", lax)


def plant_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gadget, "is_linked", lambda tree, _, proposal: proposal.block in tree)


def plant_no_skip_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        rounds.Rounds,
        "links",
        lambda self, parent, round_: parent < round_ and (parent == 0 or parent in self.notarised),
    )


def plant_double_notarise(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = signstate._require_compatible

    def lax(kind: BallotKind, signed: BallotKind) -> None:
        if not kind == signed == BallotKind.NOTARISE:
            sound(kind, signed)

    monkeypatch.setattr(signstate, "_require_compatible", lax)


@pytest.mark.parametrize(
    "plant",
    [
        plant_half_quorum,
        plant_no_lock,
        plant_no_skip_certificates,
        pytest.param(plant_finalise_after_skip, marks=pytest.mark.nightly),
        pytest.param(plant_double_notarise, marks=pytest.mark.nightly),
    ],
)
def test_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    _, conflict = Model().search()
    assert conflict is not None
