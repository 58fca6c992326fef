"""The checkpoint of a leader's proposal, and the proposals that get a vote."""

import pytest

from consensus.blocktree import BlockTree
from consensus.events import BlockFacts
from consensus.finality.gadget import choose_checkpoint, is_linked, is_supported
from consensus.finality.rounds import Rounds
from consensus.parameters import full_poll_thresholds
from consensus.polling.topological import Topological
from consensus_parts import GENESIS_BLOCK, ballot, block, certificate
from runtime.blocks.votes import BallotKind, Proposal, skip_ballot


def test_a_leader_proposes_no_more_than_its_epochs_last_block() -> None:
    chain = Topological(BlockTree(GENESIS_BLOCK), full_poll_thresholds(4))
    blocks = [GENESIS_BLOCK]
    for slot in range(1, 6):
        blocks.append(block(blocks[-1], slot))
        chain.insert(blocks[-1])
    for accepted in (False, True):
        for boundary, proposed in ((3, 3), (5, 5), (60, 5)):
            found = choose_checkpoint(chain, (0, GENESIS_BLOCK.id), boundary, has_waited=not accepted)
            assert found == blocks[proposed].id
        for _ in range(2):
            chain.record([(blocks[-1].id, 4)])
    assert choose_checkpoint(chain, (3, blocks[3].id), 3, has_waited=False) is None
    assert choose_checkpoint(chain, (3, blocks[3].id), 3, has_waited=True) == blocks[3].id
    assert choose_checkpoint(chain, (0, GENESIS_BLOCK.id), 0, has_waited=True) is None, "it is final"
    assert choose_checkpoint(chain, (0, b"x" * 32), 60, has_waited=True) is None


LONG = [GENESIS_BLOCK]
for number in (1, 2, 3):
    LONG.append(block(LONG[-1], number))
FORK = block(GENESIS_BLOCK, 9)


def forked() -> Topological:
    """Return a chain with a fork. Its second block is accepted and its third is preferred."""
    chain = Topological(BlockTree(GENESIS_BLOCK), full_poll_thresholds(4))
    for facts in (*LONG[1:], FORK):
        chain.insert(facts)
    for _ in range(2):
        chain.record([(LONG[2].id, 4)])
    assert (chain.accepted, chain.preference) == (LONG[2].id, LONG[3].id)
    return chain


@pytest.mark.parametrize(
    ("name", "skips", "has_waited", "expected"),
    [
        (LONG[1], 0, False, True),
        (LONG[2], 0, False, True),
        (LONG[3], 0, False, False),
        (LONG[3], 0, True, True),
        (LONG[3], 1, False, True),
        (FORK, 0, True, False),
        (FORK, 1, True, False),
    ],
)
def test_a_vote_follows_what_is_accepted_then_preferred(
    name: BlockFacts, skips: int, *, has_waited: bool, expected: bool
) -> None:
    assert is_supported(forked(), name.id, skips, has_waited=has_waited) == expected


@pytest.mark.parametrize(
    ("parent", "height", "block_id", "expected"),
    [
        (1, 2, LONG[2].id, True),
        (1, 1, LONG[1].id, True),
        (1, 3, LONG[2].id, False),  # it is not of that height
        (1, 2, b"x" * 32, False),
        (1, 1, FORK.id, False),  # not above the checkpoint of round 1
        (0, 2, LONG[2].id, False),  # round 1 was not skipped
        (2, 2, LONG[2].id, False),  # round 2 has no checkpoint
    ],
)
def test_a_proposal_stands_on_a_notarised_round_with_every_round_between_skipped(
    parent: int, height: int, block_id: bytes, *, expected: bool
) -> None:
    rounds = Rounds(0, (0, GENESIS_BLOCK.id))
    rounds.add(certificate(ballot(BallotKind.NOTARISE, 1, LONG[1]), 4, range(3)))
    rounds.add(certificate(skip_ballot(0, 2), 4, range(3)))
    tree = forked().tree
    assert is_linked(tree, rounds, Proposal(0, 3, parent, height, block_id)) == expected
    unknown = Rounds(0, (0, b"u" * 32))
    assert not is_linked(tree, unknown, Proposal(0, 1, 0, height, block_id))
