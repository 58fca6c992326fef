"""Which checkpoint a leader proposes."""

from consensus.blocktree import BlockTree
from consensus.finality.gadget import choose_checkpoint
from consensus.parameters import full_poll_thresholds
from consensus.polling.topological import Topological
from consensus_parts import GENESIS_BLOCK, block


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
