"""A node as it is put together: the clock by which its peers pay."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from block_maker import SPEC
from node.config import Config
from node.service import Node

pytestmark = pytest.mark.trio


async def test_a_running_node_counts_its_rests_and_peers_pay_by_that_clock(tmp_path: Path) -> None:
    config = Config("dev", tmp_path, "test", listen_host="127.0.0.1", port=0, rpc=None, prometheus_port=None)
    node = Node(config, SPEC)
    seconds = node.core_time.seconds
    pools, transport = node.pools, node.network.transport
    clocks = [
        transport.inbound._seconds,
        transport._reading.seconds,
        pools.transactions.entrance._seconds,
        *(pool._spreading._seconds for pool in (pools.heartbeats, pools.evidence, pools.attestations)),
    ]
    assert clocks == [seconds] * 6
    assert node.network.peers._is_validator == node.network.proofs.is_validator
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.run)
            while node.core_time._idle == 0:
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
