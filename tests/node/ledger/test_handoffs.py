"""Handoffs over a real LevelDB: one for each ended epoch, kept for ever, with the same answers after a restart."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from block_maker import Maker, open_at
from consensus.events import CertifiedRef
from consensus.handoffs import HANDOFF, InvalidHandoffError, follow
from consensus.validators import Epoch, Validator
from node.ledger.chain import Chain, handed_on, handed_seats
from node.ledger.epochs import EpochTable
from runtime.cryptography import signatures
from runtime.pallets.staking import elections
from runtime.pallets.staking.stakers import Seat
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import BOND, Keys, MarketChain, named_keys, signed, validates

EPOCHS = 2


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """Two epochs of final blocks and one more."""
    maker = Maker(tmp_path_factory.mktemp("maker"))
    chain, reference = maker.chain, None
    for _ in range(EPOCHS * chain.parameters.epoch_blocks + 1):
        block = maker.make(final_ref=reference)
        certificate = maker.certify(block)
        chain.finalise((block.facts.id,), certificate)
        reference = CertifiedRef(block.facts.height, block.facts.id, certificate)
    return maker


def epoch_of(chain: Chain, number: int) -> Epoch:
    epoch = chain.epochs(number)
    assert epoch is not None
    return epoch


def test_every_ended_epoch_hands_on_and_who_knows_one_set_follows_to_the_next(maker: Maker) -> None:
    chain = maker.chain
    members = epoch_of(chain, 0).validators
    for epoch in range(EPOCHS):
        kept = chain.storage.handoff(epoch)
        assert kept is not None
        handoff = HANDOFF.decode(kept)
        following = follow(members, handoff, chain.parameters, chain.genesis, signatures.verify_ed25519)
        assert following == epoch_of(chain, epoch + 1).validators
        assert handed_seats(chain.storage, epoch + 1) == handoff.seats
        with pytest.raises(InvalidHandoffError):
            follow(following, handoff, chain.parameters, chain.genesis, signatures.verify_ed25519)
        members = following
    assert chain.storage.handoff(EPOCHS) is None, "it has not ended"
    assert chain.storage.handoff(-1) is None


def test_a_restart_gives_the_same_answers(maker: Maker, tmp_path: Path) -> None:
    chain = maker.chain
    before = [epoch_of(chain, number).validators for number in range(EPOCHS + 1)]
    shutil.copytree(chain.storage.path, tmp_path / "db")
    again = open_at(tmp_path)
    try:
        assert [epoch_of(again, number).validators for number in range(EPOCHS + 1)] == before
    finally:
        again.storage.close()


def test_of_an_epoch_that_the_state_has_forgotten_the_handoff_tells(maker: Maker) -> None:
    runtime = maker.chain.runtime
    (seat,) = maker.chain.runtime.at(maker.chain.final.state)[TrustStake].active_set.get()
    other = replace(seat, weight=seat.weight + 1)
    asked: list[int] = []

    def handed(epoch: int) -> tuple[Seat, ...] | None:
        asked.append(epoch)
        return (other,) if epoch == 1 else None

    table = EpochTable(runtime, maker.chain.final.state, handed)
    first, second = table(1), table(2)
    assert first is not None
    assert second is not None
    assert first.validators.members == (Validator(other.stash, other.session_key, other.vrf_key, other.weight),)
    assert second.validators.members[0].weight == seat.weight, "the state's, where nothing was handed on"
    assert table(9) is None
    assert table(1) is first
    assert asked.count(1) == 1


def test_the_next_set_is_handed_on_and_not_the_one_that_goes(maker: Maker) -> None:
    chain = maker.chain
    bound, header = chain.runtime.at(chain.final.state), chain.final.header
    (seat,) = bound[TrustStake].active_set.get()
    other = replace(seat, weight=seat.weight + 1)
    elections.seat(bound[TrustStake], 3, (other,))
    bound[TrustStake].last_elected_epoch.set(3)
    certificate = chain.final_certificate
    assert certificate is not None
    assert handed_on(chain.parameters, header, certificate, bound) is None
    ended = handed_on(chain.parameters, replace(header, number=chain.parameters.boundary(2)), certificate, bound)
    assert ended is not None
    assert (ended[0], HANDOFF.decode(ended[1]).seats) == (2, (other,))


def test_who_is_elected_counts_as_seated_an_epoch_before_it_sits() -> None:
    new = Keys("new")
    market = MarketChain(named_keys(4), [new], epoch_blocks=6)
    market.block(
        signed(new.stash, TrustStake.bond(value=BOND)), signed(new.stash, validates(new)),
        lambda bound: bound[TrustStake].note_heard(new.stash, 0),
    )  # fmt: skip
    answers = []
    while market.height <= 6:
        answers.append(new.public("session") in EpochTable(market.runtime, market.state, lambda _: None).seated())
        market.block()
    answers.append(new.public("session") in EpochTable(market.runtime, market.state, lambda _: None).seated())
    assert answers == [False] * 6 + [True], "elected in the first block of epoch 1, for epoch 2"
