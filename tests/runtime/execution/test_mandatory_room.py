"""What hooks weigh is gone for the hooks and inherents that follow."""

from runtime.execution.executive import BlockExecution
from runtime.frame.pallet import Pallet, Weight
from runtime.frame.weights import BLOCK_MAX, MANDATORY_MAX
from small_chain import SmallChain, runtime_of


class Yawning(Pallet, index=102):
    """A hook that takes half of what a block may weigh."""

    def on_initialize(self) -> Weight:
        """Says so."""
        return Weight(BLOCK_MAX.ref_time // 2)


def test_what_hooks_and_inherents_weigh_is_gone_for_those_that_follow() -> None:
    left = [
        BlockExecution(chain.runtime, chain.state, 1, chain.genesis_hash, chain.digest()).bound.mandatory_left
        for chain in (SmallChain(), SmallChain(runtime_of(Yawning)))
    ]
    assert left == [MANDATORY_MAX.ref_time, MANDATORY_MAX.ref_time - BLOCK_MAX.ref_time // 2]
