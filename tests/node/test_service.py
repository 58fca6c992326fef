"""A node as it is assembled: the clock by which its peers are charged."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from block_maker import SPEC
from consensus.parameters import DEVNET
from node.config import Config
from node.service import Node

pytestmark = pytest.mark.trio


async def test_the_pools_of_a_node_judge_by_its_preferred_tip_and_its_peers_pay_for_forgeries(tmp_path: Path) -> None:
    config = Config("dev", tmp_path, "test", listen_host="127.0.0.1", port=0, rpc=None, prometheus_port=None)
    node = Node(config, SPEC)
    pools = node.pools
    kinds = (pools.heartbeats, pools.evidence, pools.attestations)
    for number, blame in enumerate(
        [pools.transactions.entrance._blame_peer, *(pool._spreading._blame_peer for pool in kinds)]
    ):
        blame("peer", "a forgery")
        assert node.network.peers.penalties == number + 1
    node.machine = SimpleNamespace(tip=SimpleNamespace(id=b"tip"))  # type: ignore[assignment]
    assert [pool._judged_state._best_block_id() for pool in kinds] == [b"tip"] * 3
    node.ledger.close()


async def test_a_key_listens_while_its_node_has_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config(
        "dev", tmp_path, "test", listen_host="127.0.0.1", port=0, rpc=None, prometheus_port=None, is_validator=True,
        dev_account="Alice",
    )  # fmt: skip
    node = Node(config, SPEC)
    assert node.duty is not None
    heard = []
    monkeypatch.setattr(node.duty.seat_watch, "listen", lambda *, has_peers: heard.append(has_peers))
    monkeypatch.setattr(type(node.monitoring), "read_gauges", lambda _: None)
    monkeypatch.setattr(type(node.feed.stream), "publish_status", lambda _: None)
    for peers in ((), ("peer",)):
        monkeypatch.setattr(type(node.network.transport), "peers", lambda _, peers=peers: peers)
        with trio.move_on_after(0.01):
            await node._keep_figures()
    assert heard == [False, True]
    node.ledger.close()


async def test_a_running_node_counts_its_rests_and_peers_pay_by_that_clock(tmp_path: Path) -> None:
    config = Config("dev", tmp_path, "test", listen_host="127.0.0.1", port=0, rpc=None, prometheus_port=None)
    node = Node(config, SPEC)
    seconds = node.core_time.seconds
    pools, transport = node.pools, node.network.transport
    clocks = [
        transport.inbound._clock_seconds,
        transport._reading_accounts.seconds,
        pools.transactions.entrance._clock_seconds,
        *(pool._spreading._clock_seconds for pool in (pools.heartbeats, pools.evidence, pools.attestations)),
    ]
    assert clocks == [seconds] * 6
    assert node.network.peers._is_validator == node.network.proofs.is_validator
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.run)
            while node.core_time._idle_seconds == 0:
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()


async def test_a_node_polls_as_many_units_of_stake_as_its_option_says(tmp_path: Path) -> None:
    asked: list[tuple[int, bool]] = []
    for sample in (None, 3):
        folder = tmp_path / str(sample)
        node = Node(Config("dev", folder, "test", rpc=None, prometheus_port=None, sample_units=sample), SPEC)
        parameters = node.machine._parameters
        asked.append((parameters.sample_units, parameters.force_sampling))
        node.ledger.close()
    assert asked == [(DEVNET.sample_units, False), (3, True)]
