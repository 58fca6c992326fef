"""A validator's figures of its own seat."""

from __future__ import annotations

from pathlib import Path

import pytest

from block_maker import Maker
from genesis import dev_accounts
from node.ledger.chain import ExecutedBlock
from node.monitoring.metrics import Metrics
from node.monitoring.seat_figures import GAP_SLOTS_MAX, SeatFigures
from runtime.pallets.staking.trust_stake import TrustStake

BOB = dev_accounts.key("Bob", dev_accounts.SESSION)


class Stage:
    """Alice alone, who proposes in every slot, and the figures of a key's holder."""

    def __init__(self, folder: Path, key: bytes | None = None) -> None:
        self.maker = Maker(folder)
        self.final()
        self.metrics = Metrics("test", "test", "0", is_validator=True)
        held = self.maker.session.public if key is None else key
        self.figures = SeatFigures(self.maker.chain, {held}, lambda _: held, self.metrics)

    def final(self, skipped: int = 0) -> list[ExecutedBlock]:
        """Make the next block, after some empty slots."""
        self.maker.slot += skipped
        block = self.maker.make()
        return self.maker.chain.finalise((block.facts.id,), self.maker.certify(block))

    def of(self, name: str) -> float:
        found = self.metrics.registry.get_sample_value(name, {"chain": "test"})
        assert found is not None
        return found


def test_who_sits_sees_its_weight_now_and_next(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    assert (stage.of("ogpu_seat"), stage.of("ogpu_next_seat"), stage.of("ogpu_validators")) == (10_000, 10_000, 1)


def test_a_candidate_sees_its_stake_and_whether_it_is_in_jail(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    assert (stage.of("ogpu_stake"), stage.of("ogpu_jailed")) == (10_000, 0)
    stake = stage.maker.chain.runtime.at(stage.maker.chain.final.state)[TrustStake]
    stake.jailed[stake.active_set.get()[0].stash] = 1
    stage.figures._show_stake(stake)
    assert (stage.of("ogpu_stake"), stage.of("ogpu_jailed")) == (10_000, 1)


def test_who_does_not_sit_sees_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, BOB)
    assert (stage.of("ogpu_seat"), stage.of("ogpu_next_seat"), stage.of("ogpu_validators")) == (0, 0, 1)


@pytest.mark.parametrize("skipped", [0, 1, 5])
def test_own_slots_without_a_block_are_counted(skipped: int, tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.figures.on_final(stage.final(skipped))
    assert stage.of("ogpu_missed_slots_total") == skipped
    stage.figures.on_final(stage.final())
    assert stage.of("ogpu_missed_slots_total") == skipped


def test_slots_of_others_and_of_a_chain_that_stood_still_are_not(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "bob", BOB)
    stage.figures.on_final(stage.final(5))
    assert stage.of("ogpu_missed_slots_total") == 0
    stage = Stage(tmp_path / "alice")
    stage.figures.on_final(stage.final(GAP_SLOTS_MAX + 1))
    assert stage.of("ogpu_missed_slots_total") == 0


def test_certificates_without_its_vote_are_counted(tmp_path: Path) -> None:
    for key, missed in ((None, 0), (BOB, 2)):
        stage = Stage(tmp_path / str(missed), key)
        for _ in range(2):
            stage.figures.on_final(stage.final())
        assert stage.of("ogpu_missed_votes_total") == missed
