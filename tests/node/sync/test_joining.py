"""A node joins a chain with elected sets: real blocks, real handoffs, real databases."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from block_maker import now_of
from consensus.certificates import CERTIFICATE
from consensus.validators import ValidatorSet
from electing_chain import ElectingMaker, open_electing
from nightly_but import nightly_but
from node.ledger.chain import Chain
from node.ledger.storage import FinalEntry, Storage
from node.peers.messages import GET_HANDOFFS, PeerStatus
from node.peers.peers import Peers
from node.sync.checkpoint_watch import CheckpointWatch
from node.sync.sets_ahead import SetsAhead
from played_transport import PlayedTransport
from runtime.blocks.block import BLOCK

EPOCHS = 5
LEAVERS = {0: ("Ferdie",), 1: ("Ferdie",)}  # then Eve too


class KilledError(BaseException):
    """kill -9."""


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory) -> ElectingMaker:
    """Return a maker with five epochs. Ferdie is never online, and Eve only before epoch 2."""
    maker = ElectingMaker(tmp_path_factory.mktemp("maker"))
    blocks = maker.chain.parameters.epoch_blocks
    for number in range(EPOCHS * blocks):
        maker.make_final(LEAVERS.get(number // blocks, ("Ferdie", "Eve")))
    return maker


class Joining:
    """A new node beside one with the chain. The test carries their messages."""

    def __init__(self, maker: ElectingMaker, chain: Chain) -> None:
        self.served, self.chain, self.now_ms = maker.chain, chain, now_of(maker.slot + 1)
        self.transport = PlayedTransport("server", "joiner")
        self.peers = Peers(self.transport)
        self.server = SetsAhead(self.served, self.peers, lambda: self.now_ms, CheckpointWatch(self.served))
        self.ahead = SetsAhead(chain, self.peers, lambda: self.now_ms, CheckpointWatch(chain))
        final = self.served.final.facts
        self.standings = {b"server": PeerStatus(final.id, final.height, final.id, final.height)}

    def ask(self) -> bool:
        """Ask, carry question and answer, and follow. Return True if there was a question."""
        self.now_ms += 1_000
        before = len(self.transport.sent)
        self.ahead.ask(self.standings)
        for _, _, payload in self.transport.sent[before:]:
            answer = self.server.on_request(GET_HANDOFFS.decode(payload), b"joiner")
            assert answer is not None
            self.ahead.on_answer(answer, b"server")
        while self.ahead.has_work:
            self.ahead.follow_next()
        return len(self.transport.sent) > before

    def catch_up(self, height: int) -> None:
        """Finalise its own blocks up to a height, one by one."""
        while self.chain.final.facts.height < height:
            number = self.chain.final.facts.height + 1
            stored = self.served.stored(self.served.storage.id_at(number) or b"")
            found = self.served.storage.certificate_at(number)
            assert stored is not None
            assert found is not None
            self.chain.import_block(BLOCK.decode(stored.header + stored.body), self.now_ms)
            self.chain.finalise((stored.block_id,), CERTIFICATE.decode(found[1]))
            self.ahead.compare()


def sets_of(chain: Chain, epochs: range) -> list[ValidatorSet]:
    found = [chain.epochs(epoch) for epoch in epochs]
    return [epoch.validators for epoch in found if epoch is not None]


def test_it_knows_every_set_before_it_has_a_block_and_its_own_blocks_say_the_same(
    maker: ElectingMaker, tmp_path: Path
) -> None:
    joining = Joining(maker, open_electing(tmp_path))
    expected = sets_of(maker.chain, range(EPOCHS + 1))
    assert [len(members.members) for members in expected] == [6, 6, 5, 5, 4, 4], "the sets change twice"
    assert joining.ask()
    assert [joining.ahead._set_table.of(epoch) for epoch in range(EPOCHS + 1)] == expected
    assert joining.ahead.proven_height == maker.chain.final.facts.height
    assert not joining.ask(), "nobody is further"
    joining.catch_up(maker.chain.final.facts.height)
    assert sets_of(joining.chain, range(EPOCHS + 1)) == expected
    assert joining.ahead.newest == expected[-1]
    assert joining.peers.penalties == 0


@pytest.mark.parametrize("is_written", [False, True], ids=["before the write", "after it"])
@pytest.mark.parametrize("epoch", nightly_but(1, [1, 0, 3]))
def test_killed_at_a_boundary_it_has_the_block_and_its_handoff_or_neither_and_follows_on(
    maker: ElectingMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: int, *, is_written: bool
) -> None:
    chain = open_electing(tmp_path)
    joining = Joining(maker, chain)
    boundary = chain.parameters.boundary(epoch)
    joining.catch_up(boundary - 1)
    commit = Storage.commit_final

    def killed(storage: Storage, blocks: list[FinalEntry], abandoned: Iterable[bytes]) -> None:
        if is_written:
            commit(storage, blocks, abandoned)
        raise KilledError

    monkeypatch.setattr(Storage, "commit_final", killed)
    with pytest.raises(KilledError):
        joining.catch_up(boundary)
    monkeypatch.undo()
    chain.storage.close()
    again = Joining(maker, open_electing(tmp_path))
    kept = again.chain.storage.handoff(epoch)
    assert again.chain.final.facts.height == boundary - (not is_written)
    assert kept == (maker.chain.storage.handoff(epoch) if is_written else None)
    assert again.ahead.newest == sets_of(maker.chain, range(epoch + is_written, epoch + is_written + 1))[0]
    assert again.ask()
    assert again.ahead.newest.epoch == EPOCHS
    again.catch_up(maker.chain.final.facts.height)
    assert again.peers.penalties == 0
