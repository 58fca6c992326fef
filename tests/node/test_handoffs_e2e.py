"""Real nodes over real libp2p: a joining one learns the sets and the chain's height before it has blocks."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from block_maker import Maker
from consensus.events import CertifiedRef
from electing_chain import SPEC, ElectingMaker
from genesis.spec import to_json
from node.config import Paths
from node.p2p.identity import identity_from_seed
from node_process import NodeProcess, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
BOOT_SEED = bytes(31) + b"\1"
EPOCHS = 20
PROVEN = re.compile(r"handoffs prove the sets up to epoch (\d+): #(\d+) is final")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many epochs of final blocks."""
    folder = tmp_path_factory.mktemp("maker")
    maker = Maker(folder)
    chain, reference = maker.chain, None
    blocks = chain.parameters.epoch_blocks
    for number in range(EPOCHS * blocks + 1):
        block = maker.make(final_ref=reference)
        certificate = maker.certify(block, round_=1 + number % blocks)
        chain.finalise((block.facts.id,), certificate)
        reference = CertifiedRef(block.facts.height, block.facts.id, certificate)
    chain.storage.close()
    return folder / "db"


def test_a_joiner_knows_the_sets_before_it_has_their_blocks(database: Path, tmp_path: Path) -> None:
    served = NodeProcess(tmp_path, "served", "--chain", "dev", "--alice", "--no-rpc", "--node-key", BOOT_SEED.hex())
    shutil.copytree(database, Paths(served.base, "dev").database)
    joiner = NodeProcess(tmp_path, "joiner", "--chain", "dev", "--no-rpc", "--bootnodes", address_of(served))
    try:
        shutil.copy(database.parent / "sign-state", Paths(served.base, "dev").only_sign_state)
        served.start()
        joiner.start()
        boundary = EPOCHS * 60
        wait_for(lambda: joiner.final_height() >= boundary, 60)
        said = joiner.log.read_text()
        assert (EPOCHS, boundary) in proven_by(joiner)
        assert said.index(f"#{boundary} is final") < said.index(f"final #{boundary} "), "long before its own blocks"
        assert "an invalid handoff" not in said + served.log.read_text()
        assert said.count("trusting period") <= 1, "of a chain for development it is told, once"
        joiner.kill()
        joiner.start()  # it begins again from its own blocks, and asks for nothing
        wait_for(lambda: joiner.log.read_text().count("starting at final #") == 2, 30)
    finally:
        joiner.close()
        served.close()


def test_a_joiner_beside_a_chain_that_stands_still_fetches_all_of_it(database: Path, tmp_path: Path) -> None:
    served = NodeProcess(tmp_path, "served", "--chain", "dev", "--no-rpc", "--node-key", BOOT_SEED.hex())
    shutil.copytree(database, Paths(served.base, "dev").database)
    joiner = NodeProcess(tmp_path, "joiner", "--chain", "dev", "--no-rpc", "--bootnodes", address_of(served))
    try:
        served.start()
        joiner.start()
        # More than twice the number that may wait at once: a node whose peers had no news stopped at #540.
        wait_for(lambda: joiner.final_height() >= EPOCHS * 60, 120)
        assert list(served.finals()) == [EPOCHS * 60 + 1], "it started there, and made nothing final: it had no news"
    finally:
        joiner.close()
        served.close()


def test_a_joiner_follows_sets_that_elections_change(tmp_path: Path) -> None:
    maker = ElectingMaker(tmp_path)
    blocks = maker.chain.parameters.epoch_blocks
    for _ in range(4 * blocks):
        maker.make_final(away=("Ferdie",))
    sizes = [len(epoch.validators.members) for number in range(5) if (epoch := maker.chain.epochs(number)) is not None]
    assert sizes == [6, 6, 5, 5, 5]
    maker.chain.storage.close()
    spec = tmp_path / "electing.json"
    spec.write_text(to_json(SPEC))
    served = NodeProcess(tmp_path, "served", "--chain", str(spec), "--no-rpc", "--node-key", BOOT_SEED.hex())
    shutil.copytree(tmp_path / "db", Paths(served.base, SPEC.id).database)
    joiner = NodeProcess(tmp_path, "joiner", "--chain", str(spec), "--no-rpc", "--bootnodes", address_of(served))
    try:
        served.start()
        joiner.start()
        wait_for(lambda: (4, 4 * blocks) in proven_by(joiner), 60)
        assert "an invalid handoff" not in joiner.log.read_text()
    finally:
        joiner.close()
        served.close()


def address_of(node: NodeProcess) -> str:
    """Return the listening address of a node with the boot key."""
    return f"/ip4/127.0.0.1/tcp/{node.port}/p2p/{identity_from_seed(BOOT_SEED).peer_id}"


def proven_by(node: NodeProcess) -> list[tuple[int, int]]:
    """Return the epochs and heights in a node's proof messages, in order."""
    said = node.log.read_text() if node.log.exists() else ""
    return [(int(epoch), int(height)) for epoch, height in PROVEN.findall(said)]
