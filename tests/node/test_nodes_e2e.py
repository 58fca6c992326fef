"""Real nodes over real libp2p on loopback: a restarted one, a copied one, damaged ones."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.p2p.identity import identity_from_seed
from node_process import NodeProcess, wait_for

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
def test_a_copied_keystore_never_signs_while_the_first_machine_runs(network: list[NodeProcess], tmp_path: Path) -> None:
    """Its operator asked for a new sign-state, so the node listens first, and hears the other one."""
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


@pytest.mark.nightly
def test_what_a_person_must_set_right_is_said_with_an_exit_code(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path, "dev", "--dev", "--no-rpc")
    second = NodeProcess(tmp_path, "dev", "--dev", "--no-rpc")
    chain = node.base / "chains" / "dev"
    try:
        node.start()
        wait_for(lambda: node.final_height() >= 2, 30)
        second.start()
        assert second.wait(30) == 2
        assert "in use" in second.log.read_text()
        node.kill()
        (chain / "sign-states").rename(chain / "kept")
        node.start()
        assert node.wait(30) == 2
        assert "--init-sign-state" in node.log.read_text()
        (kept,) = (
            path for path in (chain / "kept").iterdir() if len(path.name) == 64
        )  # not the files that the kill left half written
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
