"""A node of a live chain after absence or sleep, or with a checkpoint: its actions, and its untouched files."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from block_maker import FIRST_SLOT, SPEC
from consensus import events as ev
from consensus.headers import TrustedBlock
from error_codes import raises_code
from genesis.spec import to_json
from node.clock import Clock
from node.config import Config, Paths
from node.errors import BadInputError, TrustExpiredHereError
from node.feed.messages import NodeStatus
from node.ledger.storage import Storage
from node.p2p.identity import identity_from_seed
from node.service import Node
from node_process import NodeProcess, agree, wait_for

LIVE = replace(
    SPEC, chain_type="Live", patch={name: given for name, given in (SPEC.patch or {}).items() if name != "sudo"}
)
PERIOD_S = 120
SEED = bytes(31) + b"\2"


class LiveNode:
    """The one validator of a live chain, on a clock that the test sets."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now_ms = folder, FIRST_SLOT * 1_000
        self.paths = Paths(folder, LIVE.id)

    def boot(self, checkpoint: TrustedBlock | None = None) -> Node:
        """Start it from its disk."""
        config = Config(
            "live", self.folder, "test", is_validator=True, dev_account="Alice", rpc=None, prometheus_port=None,
            checkpoint=checkpoint,
        )  # fmt: skip
        self.node = Node(config, LIVE)
        self.node._restore_machine()
        return self.node

    def stop(self) -> TrustedBlock:
        """Stop it -> its last final block."""
        final = self.node.chain.final.facts
        self.node.ledger.close()
        return TrustedBlock(final.height, final.id)

    def pass_seconds(self, seconds: float) -> None:
        """Let time pass as the loop does."""
        for _ in range(int(seconds * 50)):
            self.now_ms += 20
            if self.now_ms >= self.node.machine.deadline_ms:
                self.node.loop.feed(ev.Tick())

    def head(self) -> tuple[int, bytes]:
        """Return the head in its database while it does not run."""
        storage = Storage(self.paths.database, free_bytes_floor=0)
        try:
            return storage.head_height, storage.head_id
        finally:
            storage.close()


def status_of(node: Node) -> NodeStatus:
    """Return its status."""

    async def told() -> NodeStatus:
        return node.feed.stream.status()

    return trio.run(told)


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveNode]:
    live = LiveNode(tmp_path / "made")
    monkeypatch.setattr(Clock, "now_ms", lambda _: live.now_ms)
    yield live
    live.node.ledger.close()


def signed_by(paths: Paths) -> bytes:
    """Return the sign-state of the node's only key."""
    (file,) = paths.sign_states.iterdir()
    return file.read_bytes()


def test_away_for_longer_than_the_period_it_does_not_start_and_a_checkpoint_lets_it(live: LiveNode) -> None:
    live.boot()
    live.pass_seconds(4)
    final = live.stop()
    live.now_ms += (PERIOD_S - 10) * 1_000
    live.boot()
    assert live.stop() == final
    live.now_ms += 20_000
    signed = signed_by(live.paths)
    with pytest.raises(TrustExpiredHereError):
        live.boot()
    assert live.head() == (final.height, final.id)
    assert signed_by(live.paths) == signed
    # The whole network (one validator) stopped. It continues from the block that its operator names.
    live.boot(final)
    live.pass_seconds(3)
    assert live.stop().height > final.height
    live.boot()


def test_a_machine_that_slept_for_longer_stops_before_it_signs_anything(live: LiveNode) -> None:
    live.boot()
    live.pass_seconds(4)
    live.now_ms += (PERIOD_S + 10) * 1_000
    signed = signed_by(live.paths)
    with pytest.raises(TrustExpiredHereError, match=r" 13\d seconds old"):
        trio.run(live.node.loop.run)
    assert signed_by(live.paths) == signed
    final = live.stop()
    assert live.head() == (final.height, final.id)


def test_nothing_becomes_final_upon_what_is_too_old(live: LiveNode, monkeypatch: pytest.MonkeyPatch) -> None:
    node = live.boot()
    live.pass_seconds(4)
    before = node.chain.final.facts.height
    live.now_ms += (PERIOD_S + 10) * 1_000
    with pytest.raises(TrustExpiredHereError):
        live.pass_seconds(3)  # its own block, and its own certificate
    assert node.chain.final.facts.height == before


def test_below_its_checkpoint_a_validator_signs_nothing_and_says_that_it_is_syncing(live: LiveNode) -> None:
    node = live.boot()
    live.pass_seconds(4)
    assert not status_of(node).is_syncing
    final = live.stop()
    signed = signed_by(live.paths)
    node = live.boot(TrustedBlock(final.height + 1, b"n" * 32))
    live.pass_seconds(3)
    assert node.chain.final.facts.height == final.height
    assert signed_by(live.paths) == signed
    status = status_of(node)
    assert (status.is_syncing, status.highest_height) == (True, final.height + 1)
    assert node.machine._gadget.silent_below == final.height + 1, "nor would it vote, if others built"


def test_a_database_of_another_history_is_not_started(live: LiveNode) -> None:
    live.boot()
    live.pass_seconds(4)
    final = live.stop()
    with raises_code(BadInputError, "other_history"):
        live.boot(replace(final, id=b"o" * 32))
    assert live.head() == (final.height, final.id)
    live.boot(final)


@pytest.mark.e2e
@pytest.mark.nightly
def test_programs_that_were_away_or_are_new_say_what_to_do_and_go_on_with_a_checkpoint(
    live: LiveNode, tmp_path: Path
) -> None:
    live.boot()
    live.pass_seconds(4)
    final = live.stop()
    spec = tmp_path / "live.json"
    spec.write_text(to_json(replace(LIVE, start_time=FIRST_SLOT)))
    validator = NodeProcess(tmp_path, "away", "--chain", str(spec), "--alice", "--no-rpc", "--node-key", SEED.hex())
    shutil.copytree(live.paths.chain, Paths(validator.base, LIVE.id).chain)
    address = f"/ip4/127.0.0.1/tcp/{validator.port}/p2p/{identity_from_seed(SEED).peer_id}"
    joiner = NodeProcess(tmp_path, "new", "--chain", str(spec), "--no-rpc", "--bootnodes", address)
    try:
        for node, height in ((validator, final.height), (joiner, 0)):
            node.start()
            assert node.wait(30) == 5
            assert f"block here, {height} 0x" in node.log.read_text()
            assert "--checkpoint HEIGHT:HASH" in node.log.read_text()
        validator.start("--checkpoint", f"{final.height}:0x{'ab' * 32}")
        assert validator.wait(30) == 2
        assert "two histories" in validator.log.read_text()
        # The whole network stopped. It continues from its last block.
        validator.start("--checkpoint", f"{final.height}:0x{final.id.hex()}")
        wait_for(lambda: validator.final_height() >= final.height + 2, 60)
        assert validator.kill(signal.SIGTERM) == 0
        height, found = head_of(validator)
        validator.start()
        joiner.start("--checkpoint", f"{height}:0x{found.hex()}")
        wait_for(lambda: joiner.final_height() > height, 60)
        assert agree([validator, joiner]) > 0
    finally:
        joiner.close()
        validator.close()


def head_of(node: NodeProcess) -> tuple[int, bytes]:
    storage = Storage(Paths(node.base, LIVE.id).database, free_bytes_floor=0)
    try:
        return storage.head_height, storage.head_id
    finally:
        storage.close()
