"""Headers of one author in one slot: reported at the second, and forgotten once their slot is settled."""

from consensus.machine import Twins
from consensus_parts import GENESIS_BLOCK, block
from consensus_shell import ONE

FIRST, SECOND, THIRD = (block(parent, 5) for parent in (GENESIS_BLOCK, ONE, block(ONE, 4)))
LATER = block(FIRST, 6)


def test_headers_are_forgotten_up_to_the_final_slot() -> None:
    twins = Twins()
    for facts in (FIRST, LATER):
        assert twins.add(facts) == []
    (report,) = twins.add(SECOND)
    assert (report.slot, report.first, report.second) == (5, FIRST.id, SECOND.id)
    (report,) = twins.add(THIRD)
    assert (report.first, report.second) == (FIRST.id, THIRD.id)
    twins.forget_to(4)
    assert (twins.count(FIRST), twins.count(LATER)) == (3, 1)
    twins.forget_to(5)
    assert (twins.count(FIRST), twins.count(LATER)) == (0, 1)
