"""The harness over a real node: all transfers become final, receivers are paid, each process is measured."""

from pathlib import Path

import pytest

from benchmarks.peers.race import race
from benchmarks.peers.this_node import ThisNode
from benchmarks.peers.workload import Shape, bodies


@pytest.mark.e2e
@pytest.mark.nightly
def test_a_small_race_over_a_real_node(tmp_path: Path) -> None:
    shape = Shape(transfers=60, senders=6, batch=8, connections=4)
    node = ThisNode(shape.senders)
    hands = bodies(shape, node.submit_method, node.sign(list(shape.all_transfers()), tmp_path))
    result = race(node, shape, hands)
    assert result.handed_in_per_second >= result.final_per_second > 0
    assert set(result.cpu_us) == set(result.peak_mib) == {"node", "rpc", "verify"}
    assert all(mib > 1 for mib in result.peak_mib.values())
