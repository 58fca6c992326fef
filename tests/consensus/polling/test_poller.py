"""Polls over the tree: the votes that count for each block."""

from consensus.blocktree import BlockTree
from consensus.neighbours import Neighbours
from consensus.parameters import DEVNET
from consensus.polling.poller import Poller
from consensus.polling.sampling import compute_thresholds
from consensus.polling.topological import Topological
from consensus_parts import GENESIS_BLOCK, block, members, signers

SET = members(4)
KEYS = [signer.public for signer in signers(4)]
VOTERS = {key: bytes([number]) for number, key in enumerate(KEYS)}
FIRST = block(GENESIS_BLOCK, 1)
UNKNOWN = b"u" * 32


def polling(session: bytes | None = None) -> tuple[Topological, Poller]:
    chain = Topological(BlockTree(GENESIS_BLOCK), compute_thresholds(DEVNET, SET))
    chain.insert(FIRST)
    poller = Poller(DEVNET, chain, lambda _: 0)
    neighbours = Neighbours()
    neighbours.begin(SET, session)
    for key, peer in VOTERS.items():
        neighbours.connect(peer, (key,))
    poller.start(SET, neighbours, 0)
    return chain, poller


def test_a_tip_that_is_not_here_counts_for_the_block_below_it_that_is() -> None:
    chain, poller = polling()
    for key in KEYS:
        assert poller.answer(0, (key,), (UNKNOWN, FIRST.id), 10)
    assert poller.finish(10)
    assert [count for _, count in chain.confidence(FIRST.id)] == [1, 1]


def test_a_vote_for_nothing_that_is_here_counts_for_nothing() -> None:
    chain, poller = polling()
    for key in KEYS:
        assert poller.answer(0, (key,), (UNKNOWN, UNKNOWN), 10)
    assert poller.finish(10)
    assert [count for _, count in chain.confidence(FIRST.id)] == [0, 0]


def test_the_own_vote_is_always_at_hand() -> None:
    chain, poller = polling(KEYS[0])
    for key in KEYS[1:]:
        assert poller.answer(0, (key,), (FIRST.id, FIRST.id), 10)
    assert not poller.answer(0, (KEYS[0],), (FIRST.id, FIRST.id), 10)  # it has voted
    assert poller.finish(10)
    assert [count for _, count in chain.confidence(FIRST.id)] == [1, 1]


def test_one_peer_with_two_seats_votes_for_both() -> None:
    chain, poller = polling()
    assert poller.answer(0, KEYS, (FIRST.id, FIRST.id), 10)
    assert not poller.answer(0, KEYS, (FIRST.id, FIRST.id), 10)
    assert poller.finish(10)
    assert [count for _, count in chain.confidence(FIRST.id)] == [1, 1]
