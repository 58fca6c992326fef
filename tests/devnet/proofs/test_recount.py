"""The recount of elections: equal to the chain's own over random chains, and an error if one is wrong."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from devnet.proofs.elections.recount import Footing, Tenure, newly_absent, next_set_after, tenure_of
from runtime.pallets.churn import cut

STASHES = [bytes([number]) * 32 for number in range(9)]
WEIGHTS = st.dictionaries(st.sampled_from(STASHES), st.integers(1, 10**6), min_size=1)


def footing(stake: int, heard: int, *, is_jailed: bool = False, is_tombstoned: bool = False) -> Footing:
    return Footing(stake, True, heard, 0, is_jailed, is_tombstoned)


@given(WEIGHTS, WEIGHTS, st.sets(st.sampled_from(STASHES)), st.sets(st.sampled_from(STASHES)), st.integers(1, 6))
def test_it_is_the_chains_cut_by_another_way(
    old: dict[bytes, int], stakes: dict[bytes, int], silent: set[bytes], guilty: set[bytes], seats: int
) -> None:
    footings = {
        stash: Footing(stakes.get(stash, 0), stash in stakes, 0 if stash in silent else 6, 5, False, stash in guilty)
        for stash in old.keys() | stakes.keys()
    }
    able = [stash for stash in stakes if stash not in silent and stash not in guilty]
    ranked = {stash: stakes[stash] for stash in sorted(able, key=lambda stash: (-stakes[stash], stash))}
    found, jailed = next_set_after(old, footings, seats, 5)
    assert jailed == set(), "they have just taken their seats"
    assert found == cut(old, ranked, seats, sorted(guilty & old.keys()))


def test_who_is_silent_for_two_epochs_goes_to_jail_below_a_third() -> None:
    old = dict.fromkeys(STASHES[:4], 10)
    footings = {stash: footing(10, 6) for stash in STASHES[:4]} | {stash: footing(10, 4) for stash in STASHES[1:3]}
    assert newly_absent(old, footings, 5) == {STASHES[1]}, "a second one would be half"
    assert newly_absent(old, footings, 4) == set()
    footings[STASHES[0]] = footing(10, 6, is_jailed=True)
    assert newly_absent(old, footings, 5) == set(), "one is there already"


def test_terms_count_who_enters_and_leaves() -> None:
    sets = {0: {b"a", b"b"}, 1: {b"a"}, 2: {b"b"}, 3: {b"a", b"b"}}
    assert tenure_of(b"a", sets) == Tenure(2, 1)
    assert tenure_of(b"b", sets) == Tenure(2, 1)
    assert tenure_of(b"c", sets) == Tenure(0, 0)
