"""Real nodes over real libp2p on loopback: a late one, killed ones, damaged ones."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.p2p.identity import identity_from_seed
from node_process import NodeProcess, agree, wait_for

pytestmark = pytest.mark.e2e
BOOT_SEED = bytes(31) + b"\1"
NAMES = ("alice", "bob", "charlie", "dave")


@pytest.fixture
def network(tmp_path: Path) -> Iterator[list[NodeProcess]]:
    """Four validators of the local chain, not started."""
    nodes = [NodeProcess(tmp_path, name, "--chain", "local", f"--{name}", "--no-rpc") for name in NAMES]
    address = f"/ip4/127.0.0.1/tcp/{nodes[0].port}/p2p/{identity_from_seed(BOOT_SEED).peer_id}"
    nodes[0]._flags += ("--node-key", BOOT_SEED.hex())
    for node in nodes[1:]:
        node._flags += ("--bootnodes", address)
    yield nodes
    for node in nodes:
        node.close()


def test_a_development_node_finalises_and_resumes(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path, "dev", "--dev", "--no-rpc")
    try:
        node.start()
        wait_for(lambda: node.final_height() >= 3, 30)
        assert node.kill(signal.SIGTERM) == 0
        before = node.final_height()
        node.start()
        wait_for(lambda: node.final_height() >= before + 2, 30)
        node.kill()
        node.start()
        wait_for(lambda: node.final_height() >= before + 4, 30)
    finally:
        node.close()


@pytest.mark.nightly
def test_killed_validators_come_back_and_a_late_node_reaches_the_same_blocks(
    network: list[NodeProcess], tmp_path: Path
) -> None:
    for node in network:
        node.start()
    wait_for(lambda: min(node.final_height() for node in network) >= 4, 60)
    for victim in network[1:]:
        kill_and_restart(victim, network[0])
    late = NodeProcess(tmp_path, "late", "--chain", "local", "--no-rpc", *network[1]._flags[-2:])
    try:
        late.start()
        wait_for(lambda: late.final_height() >= network[0].final_height() - 1, 60)
        wait_for(lambda: late.final_height() >= 20, 60)
        assert agree([*network, late]) > 20
    finally:
        late.close()


def kill_and_restart(victim: NodeProcess, witness: NodeProcess) -> None:
    """The others go on without the victim, and it catches up with them."""
    victim.kill()
    before = witness.final_height()
    wait_for(lambda: witness.final_height() >= before + 2, 60)
    victim.start()
    wait_for(lambda: victim.final_height() >= witness.final_height() - 1 > before, 60)


@pytest.mark.nightly
def test_the_whole_network_killed_at_once_goes_on(network: list[NodeProcess]) -> None:
    for node in network:
        node.start()
    wait_for(lambda: min(node.final_height() for node in network) >= 3, 60)
    for node in network:
        node.kill()
    before = max(node.final_height() for node in network)
    for node in network:
        node.start()
    wait_for(lambda: min(node.final_height() for node in network) >= before + 3, 60)
    assert agree(network) > 6


@pytest.mark.nightly
def test_a_purged_validator_syncs_and_then_votes_again(network: list[NodeProcess]) -> None:
    for node in network:
        node.start()
    wait_for(lambda: min(node.final_height() for node in network) >= 4, 60)
    victim, absent = network[1], network[2]
    victim.kill()
    shutil.rmtree(victim.base / "chains" / "local_testnet" / "db")
    before = network[0].final_height()
    victim.start()
    wait_for(lambda: victim.final_height() > before, 60)
    absent.kill()
    before = network[0].final_height()
    wait_for(lambda: network[0].final_height() >= before + 3, 90)  # three of four sign, the purged one among them
    assert agree(network) > 8


@pytest.mark.nightly
def test_a_copied_keystore_never_signs_while_the_first_machine_runs(network: list[NodeProcess], tmp_path: Path) -> None:
    """Its operator asked for a new sign-state: the node listens first, and hears the other one."""
    for node in network:
        node.start()
    wait_for(lambda: min(node.final_height() for node in network) >= 4, 60)
    dave = network[3]
    copy = NodeProcess(tmp_path, "copy", *dave._flags)
    try:
        copy.start("--init-sign-state")
        wait_for(lambda: "another machine signs" in copy.log.read_text(), 60)
        before = network[0].final_height()
        dave.kill()
        wait_for(lambda: network[0].final_height() >= before + 3, 60)
        assert not list((copy.base / "chains" / "local_testnet").glob("sign-states/*"))
        assert not any("offended" in node.log.read_text() for node in (*network, copy))
    finally:
        copy.close()


def test_what_a_person_must_set_right_is_said_with_an_exit_code(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path, "dev", "--dev", "--no-rpc")
    second = NodeProcess(tmp_path, "dev", "--dev", "--no-rpc")
    chain = node.base / "chains" / "dev"
    try:
        node.start()
        wait_for(lambda: node.final_height() >= 2, 30)
        second.start()
        assert second.wait(30) == 2
        assert "in use by another process" in second.log.read_text()
        node.kill()
        (chain / "sign-states").rename(chain / "kept")
        node.start()
        assert node.wait(30) == 2
        assert "--init-sign-state" in node.log.read_text()
        (kept,) = (
            path for path in (chain / "kept").iterdir() if len(path.name) == 64
        )  # not what the kill left half written
        kept.write_bytes(kept.read_bytes()[:-1])
        (chain / "kept").rename(chain / "sign-states")
        node.start()
        assert node.wait(30) == 2
        assert "is damaged" in node.log.read_text()
        (chain / "db" / "CURRENT").write_bytes(b"nonsense")
        node.start()
        assert node.wait(30) == 3
    finally:
        node.close()
        second.close()
