"""Active sets by handoffs: accepted and refused ones, and agreement with the chain's own headers."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from block_maker import open_at
from consensus.certificates import Certificate
from consensus.handoffs import HANDOFF, Handoff, InvalidHandoffError, follow, seats_log, seats_of
from consensus.parameters import DEVNET
from consensus.sets import SetChangedError, SetTable
from consensus.validators import ValidatorSet
from consensus_parts import GENESIS, certificate_by, members, set_of
from devnet.simulation.keys import verify_fake
from runtime.blocks.block import HEADER, Header, block_id
from runtime.blocks.digest import NextValidators, consensus_item
from runtime.blocks.votes import Ballot, BallotKind
from runtime.encoding.codec import DecodeError
from runtime.pallets.staking.trust_stake import TrustStake

OLD = set_of((0, 1, 2, 3), 0)
NEW = set_of((4, 5, 6, 7), 1)


def header(number: int = DEVNET.boundary(0), *named: NextValidators) -> Header:
    return Header(b"p" * 32, number, b"s" * 32, b"x" * 32, tuple(consensus_item(log) for log in named))


def certified(of: Header, kind: BallotKind = BallotKind.FINALISE, voters: tuple[int, ...] = (0, 1, 2)) -> Certificate:
    return certificate_by(Ballot(kind, 0, 3, of.number, block_id(of)), OLD, voters)


TRUE = header(DEVNET.boundary(0), seats_log(seats_of(NEW)))
HANDED = Handoff(HEADER.encode(TRUE), certified(TRUE), seats_of(NEW))


def followed(handoff: Handoff, of: ValidatorSet = OLD, genesis: bytes = GENESIS) -> ValidatorSet:
    return follow(of, handoff, DEVNET, genesis, verify_fake)


def test_a_handoff_leads_to_the_next_set() -> None:
    assert followed(HANDED) == NEW
    assert HANDOFF.decode(HANDOFF.encode(HANDED)) == HANDED


def test_in_the_middle_of_an_era_the_same_members_sit_on() -> None:
    of = header(DEVNET.boundary(0), seats_log(seats_of(OLD)))
    assert followed(Handoff(HEADER.encode(of), certified(of), seats_of(OLD))).members == OLD.members


EARLY = header(DEVNET.boundary(0) - 1, seats_log(seats_of(NEW)))
MUTE = header()
TWICE = header(DEVNET.boundary(0), *[seats_log(seats_of(NEW))] * 2)
HEAVIER = (replace(seats_of(NEW)[0], weight=2), *seats_of(NEW)[1:])
UNSORTED = tuple(reversed(seats_of(NEW)))
LOOSE = header(DEVNET.boundary(0), seats_log(UNSORTED))

FALSE = {
    "another epoch's boundary": (Handoff(HEADER.encode(EARLY), certified(EARLY), seats_of(NEW)), "epoch's last"),
    "no seats named": (Handoff(HEADER.encode(MUTE), certified(MUTE), seats_of(NEW)), "seats differ"),
    "seats named twice": (Handoff(HEADER.encode(TWICE), certified(TWICE), seats_of(NEW)), "seats differ"),
    "other weights": (replace(HANDED, seats=HEAVIER), "seats differ"),
    "a seat less": (replace(HANDED, seats=seats_of(NEW)[1:]), "seats differ"),
    "notarised only": (replace(HANDED, certificate=certified(TRUE, BallotKind.NOTARISE)), "another block"),
    "another block's": (replace(HANDED, certificate=certified(MUTE)), "another block"),
    "too few signed": (replace(HANDED, certificate=certified(TRUE, voters=(0, 1))), "invalid certificate"),
    "seats that make no set": (Handoff(HEADER.encode(LOOSE), certified(LOOSE), UNSORTED), "invalid seats"),
    "no header": (replace(HANDED, header=b"\xff"), "malformed header"),
}


@pytest.mark.parametrize(("handoff", "reason"), FALSE.values(), ids=FALSE)
def test_what_does_not_prove_the_next_set_leads_nowhere(handoff: Handoff, reason: str) -> None:
    with pytest.raises(InvalidHandoffError, match=reason):
        followed(handoff)


@pytest.mark.parametrize(
    ("of", "genesis"), [(set_of((0, 1, 4, 5), 0), GENESIS), (set_of((0, 1, 2, 3), 1), GENESIS), (OLD, bytes(32))],
    ids=["another set", "another epoch", "another chain"],
)  # fmt: skip
def test_a_handoff_leads_on_from_its_own_set_alone(of: ValidatorSet, genesis: bytes) -> None:
    with pytest.raises(InvalidHandoffError):
        followed(HANDED, of, genesis)


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_a_bit_that_changes_anywhere_leads_nowhere_else(place: int, bit: int) -> None:
    """A handoff with any changed bit is refused, or is the same handoff."""
    raw = bytearray(HANDOFF.encode(HANDED))
    raw[place % len(raw)] ^= 1 << bit
    try:
        found = followed(HANDOFF.decode(bytes(raw)))
    except (DecodeError, InvalidHandoffError):
        return
    assert found == NEW


def test_the_headers_of_the_chain_name_seats_as_handoffs_do(tmp_path: Path) -> None:
    chain = open_at(tmp_path)
    said = chain.runtime.at(chain.final.state)[TrustStake].next_validators(chain.parameters.boundary(0))
    epoch = chain.epochs(0)
    assert epoch is not None
    assert said == seats_log(seats_of(epoch.validators))


def test_a_set_is_written_once() -> None:
    table = SetTable(members(4))
    assert table.of(1) is None
    for epoch in range(1, 4):
        table.write(members(4, epoch))
    table.write(members(5, 4))
    table.write(members(4, 5))
    assert [len(found.members) for epoch in range(6) if (found := table.of(epoch)) is not None] == [4, 4, 4, 4, 5, 4]
    assert table.of(2) == members(4, 2)
    assert table.of(6) is None
    assert table.count() == 3  # the epochs of an era share one
    table.write(members(5, 4))  # the same again
    with pytest.raises(SetChangedError):
        table.write(members(4, 4))
    assert table.of(4) == members(5, 4)


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.data())
def test_what_is_let_go_of_is_not_known_and_everything_else_is(changes: list[bool], data: st.DataObject) -> None:
    table, sets = SetTable(members(4, 5)), {5: members(4, 5)}
    for epoch, changed in enumerate(changes, 6):
        size = len(sets[epoch - 1].members)
        sets[epoch] = members(9 - size if changed else size, epoch)
        table.write(sets[epoch])
    first = 5
    for _ in range(2):
        first = data.draw(st.integers(first, table.newest.epoch))
        table.forget_before(first)
        assert [table.of(epoch) for epoch in range(4, first)] == [None] * (first - 4)
        assert all(table.of(epoch) == sets[epoch] for epoch in range(first, table.newest.epoch + 1))
        kept = [sets[epoch].members for epoch in range(first, table.newest.epoch + 1)]
        assert table.count() == 1 + sum(before != after for before, after in pairwise(kept))


def test_before_the_point_that_is_trusted_nothing_is_known() -> None:
    table = SetTable(members(4, 7))
    assert (table.of(6), table.of(7)) == (None, members(4, 7))
