"""Transitive votes over a tree of blocks: steps, and invariants over random histories."""

from hypothesis import given
from hypothesis import strategies as st

from consensus.blocktree import PAST_MAX, BlockTree
from consensus.events import BlockFacts
from consensus.parameters import full_poll_thresholds
from consensus.polling.topological import Topological
from consensus_parts import GENESIS_BLOCK, block

FOUR = full_poll_thresholds(4)
G = GENESIS_BLOCK
A1, B1 = block(G, 1), block(G, 2)
A2 = block(A1, 3)
A3 = block(A2, 4)
B2 = block(B1, 5)


def chain_of(*blocks: BlockFacts) -> Topological:
    chain = Topological(BlockTree(G), FOUR)
    for facts in blocks:
        assert chain.insert(facts)
    return chain


def test_a_vote_counts_for_all_ancestors() -> None:
    chain = chain_of(A1, A2, A3)
    chain.record([(A3.id, 4)])
    assert chain.accepted == G.id
    chain.record([(A1.id, 1), (A2.id, 2), (A3.id, 1)])
    assert chain.accepted == A1.id  # 4 of 4 for A1, 3 of 4 for A2, 1 of 4 for A3
    assert chain.preference == A3.id
    assert chain.count_processing() == 2
    chain.record([(A3.id, 4)])
    chain.record([(A3.id, 4)])
    assert chain.accepted == A3.id
    assert not chain.is_processing


def test_first_seen_is_preferred_until_a_majority_prefers_another() -> None:
    chain = chain_of(A1, B1, B2)
    assert chain.preference == A1.id
    chain.record([(B2.id, 2), (A1.id, 2)])
    assert chain.preference == A1.id
    chain.record([(B2.id, 3), (A1.id, 1)])
    assert chain.preference == B2.id


def test_passed_by_branches_start_anew() -> None:
    chain = chain_of(A1, A2)
    chain.record([(A2.id, 4)])
    chain.record([(A1.id, 4)])  # A1 is accepted, A2 faltered
    assert chain.accepted == A1.id
    chain.record([(A2.id, 4)])
    assert chain.accepted == A1.id
    chain.record([(A2.id, 4)])
    assert chain.accepted == A2.id


def test_lock_overrides_votes_and_even_acceptance() -> None:
    chain = chain_of(A1, B1, A2)
    for _ in range(2):
        chain.record([(A1.id, 4)])
    assert chain.accepted == A1.id
    chain.lock_on(B1.id)
    assert chain.preference == B1.id
    assert chain.accepted == A1.id  # only a final block takes this back
    chain.record([(A2.id, 4)])
    assert chain.preference == B1.id
    path, overruled = chain.finalise(B1.id)
    assert (path, overruled) == ((B1.id,), A1.id)
    assert chain.accepted == chain.preference == B1.id
    assert A2.id not in chain.tree
    assert chain.tree.is_past(A2.id)


def test_lock_on_a_block_that_comes_later() -> None:
    chain = chain_of(A1)
    chain.lock_on(B1.id)
    assert chain.preference == A1.id
    chain.insert(B1)
    assert chain.preference == B1.id


def test_finality_accepts_and_keeps_what_is_above() -> None:
    chain = chain_of(A1, A2, A3, B1)
    chain.record([(A3.id, 4)])
    assert chain.finalise(A2.id) == ((A1.id, A2.id), None)
    assert chain.accepted == A2.id
    chain.record([(A3.id, 4)])
    assert chain.accepted == A3.id
    assert not chain.insert(B2)


def test_other_voters_begin_anew() -> None:
    chain = chain_of(A1)
    chain.record([(A1.id, 4)])
    chain.restart_confidence(full_poll_thresholds(7))
    chain.record([(A1.id, 7)])
    assert chain.accepted == G.id
    chain.record([(A1.id, 7)])
    assert chain.accepted == A1.id


def test_past_blocks_are_remembered_up_to_a_limit() -> None:
    tree = BlockTree(G)
    tip = G
    for slot in range(1, PAST_MAX + 10):
        tip = block(tip, slot)
        tree.add(tip)
        tree.finalise(tip.id)
    assert not tree.is_past(G.id)
    assert tree.is_past(tip.parent)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 30), st.integers(0, 2)),
        st.tuples(st.just("poll"), st.lists(st.integers(0, 30), min_size=1, max_size=4), st.just(0)),
        st.tuples(st.just("final"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("lock"), st.integers(0, 30), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS)
def test_invariants(steps: list[tuple[str, int | list[int], int]]) -> None:
    chain, known, slot = chain_of(), [G], 0
    for kind, what, extra in steps:
        tree, accepted, final = chain.tree, chain.accepted, chain.tree.final
        alive = [facts for facts in known if facts.id in tree]
        overruled = None
        if isinstance(what, list):
            chain.record([(alive[place % len(alive)].id, 1) for place in what])
        elif kind == "add":
            slot += 1
            known.append(block(alive[what % len(alive)], slot, bytes([extra]) * 32))
            chain.insert(known[-1])
        elif kind == "lock":
            chain.lock_on(alive[what % len(alive)].id)
        else:
            chosen = alive[what % len(alive)]
            _, overruled = chain.finalise(chosen.id)
            assert tree.final == chosen
        # What is final stays, what is accepted moves forward unless overruled, the preference is a
        # leaf above the root, and the lock lies on its path.
        assert tree.final.height >= final.height
        assert tree.descends(chain.accepted, tree.final.id)
        if overruled is None and accepted in tree:
            assert tree.descends(chain.accepted, accepted)
        assert not tree.children[chain.preference]
        assert tree.descends(chain.preference, chain.root)
        if chain.lock is not None:
            assert chain.lock not in tree or tree.descends(chain.preference, chain.lock)


TREE = (A1, B1, A2, A3, B2)
VOTES = st.lists(st.tuples(st.sampled_from([facts.id for facts in (G, *TREE)]), st.integers(1, 3)), max_size=6)


@given(st.lists(VOTES, max_size=4), VOTES, VOTES)
def test_what_is_settled_stays_the_same_whatever_else_is_said(
    before: list[list[tuple[bytes, int]]], said: list[tuple[bytes, int]], late: list[tuple[bytes, int]]
) -> None:
    chains = [chain_of(*TREE) for _ in range(2)]
    for chain in chains:
        for votes in before:
            chain.record(votes)
    missing = sum(weight for _, weight in late)
    if chains[0].is_settled(said, missing):
        assert chains[0].record(said) == chains[1].record(said + late)
        for ask in ("accepted", "preference", "root"):
            assert getattr(chains[0], ask) == getattr(chains[1], ask)
        for facts in TREE:
            assert chains[0].confidence(facts.id) == chains[1].confidence(facts.id)


def test_a_poll_is_settled_only_when_nobody_missing_could_matter() -> None:
    chain = chain_of(A1, A2)
    assert not chain.is_settled([(A2.id, 2)], 2)  # the two missing ones could decide it
    assert not chain.is_settled([(A2.id, 3)], 1)  # the fourth could make it unanimous
    assert chain.is_settled([(A2.id, 4)], 0)
    assert chain_of(A1, B1).is_settled([(A1.id, 1), (B1.id, 2)], 0)


def test_polls_decide_up_to_the_ceiling_and_the_next_set_up_to_its_own() -> None:
    chain = Topological(BlockTree(G), FOUR, ceiling=1)
    for facts in (A1, A2, A3):
        chain.insert(facts)
    for _ in range(9):
        chain.record([(A3.id, 4)])
    assert (chain.accepted, chain.preference) == (A1.id, A3.id)
    assert not chain.is_processing
    assert chain.is_settled([], 4)  # nothing beyond the ceiling may be decided
    chain.restart_confidence(FOUR, ceiling=2)
    assert chain.is_processing
    for _ in range(9):
        chain.record([(A3.id, 4)])
    assert chain.accepted == A2.id
