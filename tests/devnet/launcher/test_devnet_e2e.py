"""`ogpu-devnet` with real nodes: up, status, kill -9, restart, a late node, down."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from devnet.launcher import layout, processes
from devnet.launcher import lifecycle as network
from devnet.launcher.cli import ogpu_devnet
from devnet.launcher.layout import Devnet
from devnet.stage.measuring.final_blocks import compare_final_blocks
from wallet.rpc import RpcConnection

pytestmark = pytest.mark.e2e


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder of a running devnet of four nodes that polls three units of stake."""
    devnet(tmp_path, "up", "-n", "4", "--sample", "3", "--any-ports", "--detach")
    yield tmp_path
    network.down(layout.load(tmp_path))


def devnet(folder: Path, *words: str, status: int = 0) -> str:
    result = CliRunner().invoke(ogpu_devnet, ["--folder", str(folder), *words])
    assert result.exit_code == status, result.output + result.stderr
    return result.output


def statuses(folder: Path) -> dict[str, Any]:
    return {status["name"]: status for status in json.loads(devnet(folder, "status", "--json"))}


def state_roots(net: Devnet, height: int) -> set[str]:
    async def ask() -> set[str]:
        found = set()
        for member in net.members:
            async with await RpcConnection.open(member.rpc_url) as rpc:
                header = await rpc.call("chain_getHeader", await rpc.call("chain_getBlockHash", height))
                found.add(header["stateRoot"])
        return found

    return asyncio.run(ask())


def polls(net: Devnet, name: str) -> list[dict[str, Any]]:
    async def ask() -> list[dict[str, Any]]:
        async with await RpcConnection.open(net.member(name).rpc_url) as rpc:
            found: list[dict[str, Any]] = await rpc.call("ogpu_inspect", "polls")
            return found

    return asyncio.run(ask())


def assert_sampled(net: Devnet, name: str) -> None:
    """Check polls of three votes of four validators: some asked fewer than three others, and some led to acceptance."""
    shown = polls(net, name)
    assert {(poll["votes"], poll["validators"]) for poll in shown} == {(3, 4)}
    assert all(sum(drawn["votes"] for drawn in poll["drawn"]) == 3 for poll in shown)
    assert min(poll["asked"] for poll in shown) < 3
    assert any(poll["accepted_after_ms"] is not None for poll in shown)


def test_a_killed_node_comes_back_and_a_late_one_reaches_the_same_root(folder: Path) -> None:
    before = statuses(folder)
    assert [status["peers"] for status in before.values()] == [3] * 4
    assert "killed Bob" in devnet(folder, "kill", "bob")
    assert not statuses(folder)["Bob"]["is_up"]
    net = layout.load(folder)
    assert "running" not in devnet(folder, "logs", "Bob", "-n", "1")
    specification = folder / "chain.json"
    specification.rename(folder / "elsewhere.json")
    result = CliRunner().invoke(ogpu_devnet, ["--folder", str(folder), "restart", "Bob"])
    assert "Bob ended" in result.stderr, "a node that dies at its start is not called started"
    (folder / "elsewhere.json").rename(specification)
    assert "started Bob" in devnet(folder, "restart", "Bob")
    assert statuses(folder)["Bob"]["is_rpc_up"]
    assert "all nodes" in devnet(folder, "up", "--detach")
    net, late = layout.add_full_node(net, "Late", any_ports=True)
    processes.start(network.node_process(net, late), detach=True)
    goal = max(status["final"] for status in before.values()) + 5
    asyncio.run(network.ready(net, final=goal))
    after = statuses(folder)
    assert after["Bob"]["restarts"] == 2
    assert not after["Late"]["is_validator"]
    assert len(state_roots(net, goal)) == 1
    assert_sampled(net, "Alice")
    assert_sampled(net, "Bob")
    height, different = asyncio.run(compare_final_blocks(net))
    assert (height >= goal, different) == (True, [])
    assert devnet(folder, "down").strip() == "ended"
    assert not [process.label for process in network.all_processes(net) if processes.running(process) is not None]


def test_what_is_not_there_is_said_with_what_to_do(tmp_path: Path) -> None:
    result = CliRunner().invoke(ogpu_devnet, ["--folder", str(tmp_path), "status"])
    assert "`ogpu-devnet up`" in result.stderr
