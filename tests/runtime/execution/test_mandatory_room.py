"""The weight of hooks reduces the room of later hooks and inherents."""

import pytest

from runtime.execution.executive import BlockExecution
from runtime.frame.errors import InvalidBlock
from runtime.frame.pallet import Pallet, Unsigned, Weight, call
from runtime.frame.weights import BLOCK_MAX, MANDATORY_MAX
from small_chain import SmallChain, runtime_of


class Yawning(Pallet, index=102):
    """A hook that uses half of a block's weight."""

    def on_initialize(self) -> Weight:
        """Return that weight."""
        return Weight(BLOCK_MAX.ref_time // 2)


def test_what_hooks_and_inherents_weigh_is_gone_for_those_that_follow() -> None:
    left = [
        BlockExecution(chain.runtime, chain.state, 1, chain.genesis_hash, chain.digest()).bound.mandatory_left
        for chain in (SmallChain(), SmallChain(runtime_of(Yawning)))
    ]
    assert left == [MANDATORY_MAX.ref_time, MANDATORY_MAX.ref_time - BLOCK_MAX.ref_time // 2]


TWO_THIRDS = Weight(MANDATORY_MAX.ref_time * 2 // 3, 0)


class First(Pallet, index=103):
    """An inherent that uses two thirds of the inherents' weight."""

    @call(index=0, weight=TWO_THIRDS)
    def attach(self, origin: Unsigned) -> None:
        """Refuse more than the remaining room, as all inherents of variable length do."""
        if self.context.mandatory_left < TWO_THIRDS.ref_time:
            raise InvalidBlock("no room")


class Second(First, index=104):
    """Another one."""

    @call(index=0, weight=TWO_THIRDS)
    def attach(self, origin: Unsigned) -> None:
        """The same."""
        if self.context.mandatory_left < TWO_THIRDS.ref_time:
            raise InvalidBlock("no room")


def test_two_full_inherents_do_not_fit_into_one_block() -> None:
    authoring = SmallChain(runtime_of(First, Second)).begin()
    before = authoring.bound.mandatory_left
    authoring.inherent(First.attach())
    assert authoring.bound.mandatory_left == before - TWO_THIRDS.ref_time
    with pytest.raises(InvalidBlock):
        authoring.inherent(Second.attach())
