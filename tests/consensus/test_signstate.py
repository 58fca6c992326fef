"""Allowed signatures: a table, and the property that no allowed signature is evidence."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consensus import signstate
from consensus.signstate import EMPTY, SIGN_STATE, HeaderRecord, SigningRefusedError, after, raise_floor
from runtime.blocks.evidence import are_exclusive
from runtime.blocks.votes import Ballot, BallotKind, Proposal, skip_ballot

A, B = bytes([1]) * 32, bytes([2]) * 32


def notarise(block: bytes = A, round_: int = 1, epoch: int = 0) -> Ballot:
    return Ballot(BallotKind.NOTARISE, epoch, round_, 1, block)


def finalise(block: bytes = A, round_: int = 1, epoch: int = 0) -> Ballot:
    return Ballot(BallotKind.FINALISE, epoch, round_, 1, block)


REFUSED = [
    (HeaderRecord(5, A), HeaderRecord(5, B)),
    (HeaderRecord(5, A), HeaderRecord(4, A)),
    (Proposal(0, 1, 0, 1, A), Proposal(0, 1, 0, 1, B)),
    (Proposal(0, 2, 0, 1, A), Proposal(0, 2, 1, 1, A)),
    (notarise(A), notarise(B)),
    (finalise(A), finalise(B)),
    (finalise(A), skip_ballot(0, 1)),
    (skip_ballot(0, 1), finalise(A)),
    (skip_ballot(0, 1), notarise(A)),
    (finalise(A), notarise(B)),
]
ALLOWED = [
    (HeaderRecord(5, A), HeaderRecord(6, B)),
    (HeaderRecord(5, A), HeaderRecord(5, A)),
    (Proposal(0, 1, 0, 1, A), Proposal(1, 1, 0, 1, B)),
    (notarise(A), notarise(A)),
    (notarise(A), finalise(A)),
    (notarise(A), skip_ballot(0, 1)),
    (notarise(A), notarise(B, epoch=1)),
    (finalise(A), skip_ballot(1, 1)),
    (skip_ballot(0, 1), notarise(A, round_=2)),
]


@pytest.mark.parametrize(("first", "second"), REFUSED)
def test_contradiction_is_refused(first: signstate.SignedRecord, second: signstate.SignedRecord) -> None:
    with pytest.raises(SigningRefusedError):
        after(after(EMPTY, first), second)


@pytest.mark.parametrize(("first", "second"), ALLOWED)
def test_what_does_not_contradict_is_signed(first: signstate.SignedRecord, second: signstate.SignedRecord) -> None:
    state = after(after(EMPTY, first), second)
    assert after(after(state, second), second) == state
    assert SIGN_STATE.decode(SIGN_STATE.encode(state)) == state


def test_what_is_above_the_floor_is_remembered() -> None:
    open_votes: list[signstate.SignedRecord] = [notarise(A, round_=4), Proposal(0, 4, 3, 1, A), notarise(A, epoch=1)]
    state = EMPTY
    for record in (notarise(A), Proposal(0, 3, 0, 1, A), *open_votes):
        state = after(state, record)
    state = raise_floor(state, 0, 3)
    assert {*state.ballots, *state.proposals} == {*open_votes}
    for record in (notarise(B, round_=4), Proposal(0, 4, 3, 1, B), notarise(B, epoch=1)):
        with pytest.raises(SigningRefusedError):
            after(state, record)


def test_nothing_is_signed_below_the_floor() -> None:
    state = raise_floor(after(EMPTY, notarise(A)), 0, 3)
    assert state.ballots == ()
    for record in (notarise(B), finalise(A, round_=3), skip_ballot(0, 2), Proposal(0, 3, 0, 1, A)):
        with pytest.raises(SigningRefusedError):
            after(state, record)
    assert after(state, notarise(B, round_=4)).ballots
    assert raise_floor(state, 0, 2) == state


BALLOTS = st.builds(
    Ballot,
    st.sampled_from(BallotKind),
    st.integers(0, 1),
    st.integers(1, 3),
    st.integers(1, 2),
    st.sampled_from([A, B]),
)
RECORDS = st.one_of(
    BALLOTS,
    st.builds(HeaderRecord, st.integers(0, 5), st.sampled_from([A, B])),
    st.builds(Proposal, st.integers(0, 1), st.integers(1, 3), st.integers(0, 2), st.integers(1, 2), st.just(A)),
    st.tuples(st.integers(0, 1), st.integers(0, 3)),
)


@given(st.lists(RECORDS, max_size=60))
def test_honest_signatures_are_never_evidence(wishes: list[signstate.SignedRecord | tuple[int, int]]) -> None:
    state, signed = EMPTY, []
    for wish in wishes:
        if isinstance(wish, tuple):
            state = raise_floor(state, *wish)
            continue
        try:
            state = after(state, wish)
        except SigningRefusedError:
            continue
        signed.append(wish)
    for earlier, other in combinations(signed, 2):
        match earlier, other:
            case Ballot(), Ballot():
                assert not are_exclusive(earlier, other)
            case Proposal(), Proposal():
                assert earlier == other or (earlier.epoch, earlier.round) != (other.epoch, other.round)
            case HeaderRecord(), HeaderRecord():
                assert earlier == other or earlier.slot < other.slot
            case _:
                pass
