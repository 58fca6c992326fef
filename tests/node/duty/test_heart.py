"""The times and keys of a node's heartbeat."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from block_maker import Maker, open_at
from genesis import dev_accounts
from loop_stage import SetClock
from node.duty.heart import BEATS, Heart
from node.duty.keystore import KeyPair
from node.duty.signing_key import SigningKey
from node.pool.refusal import INVALID, PoolRefusalError
from runtime.cryptography.signatures import verify_ed25519
from runtime.pallets.im_online import Heartbeat, heartbeat_payload
from runtime.pallets.staking.stakers import Candidate
from runtime.pallets.staking.trust_stake import TrustStake

STASH = dev_accounts.stash("Bob")
KEY, OLD_KEY, OTHER = (KeyPair.from_seed(bytes([number]) * 32) for number in (1, 2, 3))


@dataclass
class HeldPool:
    """Takes heartbeats, or refuses all."""

    beats: list[Heartbeat] = field(default_factory=list)
    refuses: bool = False

    def submit(self, heartbeat: Heartbeat) -> None:
        self.beats.append(heartbeat)
        if self.refuses:
            raise PoolRefusalError(INVALID, "no")


class Stage:
    """A chain of one block. Bob is a candidate with `KEY`, and had another key before."""

    def __init__(self, folder: Path) -> None:
        self.chain = open_at(folder)
        stake = self.chain.runtime.at(self.chain.final.state)
        stake[TrustStake].candidates[STASH] = Candidate(KEY.public, bytes(32), bytes(32), 0)
        for pair in (KEY, OLD_KEY):
            stake[TrustStake].key_owner[pair.public] = STASH
        self.bound = stake
        self.pool, self.clock = HeldPool(), SetClock(0)
        played: Any = SimpleNamespace(
            parameters=self.chain.parameters, genesis=self.chain.genesis,
            runtime=SimpleNamespace(at=lambda _: self.bound), rules=self.chain.rules,
        )  # fmt: skip
        held = {pair.public: SigningKey(pair, None) for pair in (OLD_KEY, OTHER, KEY)}
        self.heart = Heart(played, self.pool, held, self.clock)  # type: ignore[arg-type]

    def final(self, height: int, *, seconds_late: int = 1) -> None:
        """Finalise a block, some time after its slot."""
        slot = 1_000_000 + height
        self.clock.set_ms = (slot + seconds_late) * self.chain.parameters.slot_ms
        facts = SimpleNamespace(height=height, slot=slot, id=height.to_bytes(32, "big"))
        self.heart.on_final([SimpleNamespace(facts=facts, state=None)])  # type: ignore[list-item]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_it_beats_with_the_key_that_is_registered_and_with_no_other(stage: Stage) -> None:
    stage.final(61)
    (beat,) = stage.pool.beats
    assert (beat.seen.stash, beat.seen.number, beat.seen.block) == (STASH, 61, (61).to_bytes(32, "big"))
    assert verify_ed25519(KEY.public, heartbeat_payload(stage.chain.genesis, beat.seen), beat.signature)


def test_a_few_times_an_epoch_and_at_once_in_the_next(stage: Stage) -> None:
    for height in range(60, 120):
        stage.final(height)
    assert [beat.seen.number for beat in stage.pool.beats] == [60, 75, 90, 105]
    assert len(stage.pool.beats) == BEATS
    stage.final(125)
    assert stage.pool.beats[-1].seen.number == 125


def test_where_finality_comes_once_an_epoch_its_last_block_is_seen_in_the_next_one(stage: Stage) -> None:
    for height in (60, 120, 180):
        stage.final(height)
        stage.bound[TrustStake].note_heard(STASH, height // 60)  # an author has attached it
    assert [beat.seen.number for beat in stage.pool.beats] == [60, 120, 180]


def test_who_starts_late_in_an_epoch_beats_again_at_the_beginning_of_the_next(stage: Stage) -> None:
    for height in (118, 119, 121):
        stage.final(height)
    assert [beat.seen.number for beat in stage.pool.beats] == [118, 121]


def test_who_was_heard_is_silent(stage: Stage) -> None:
    stage.bound[TrustStake].note_heard(STASH, 1)
    stage.final(61)
    assert stage.pool.beats == []
    stage.final(121)
    assert len(stage.pool.beats) == 1


def test_nobody_beats_for_a_past_that_is_only_read(stage: Stage) -> None:
    stage.final(61, seconds_late=60)
    assert stage.pool.beats == []
    stage.final(62)
    assert len(stage.pool.beats) == 1


def test_who_is_no_candidate_any_more_has_no_heart(stage: Stage) -> None:
    del stage.bound[TrustStake].candidates[STASH]
    stage.final(61)
    assert stage.pool.beats == []


def test_a_refusal_is_no_reason_to_stop(stage: Stage) -> None:
    stage.pool.refuses = True
    stage.final(61)
    stage.final(76)
    assert len(stage.pool.beats) == 2


def test_on_a_chain_of_its_own_it_need_not_beat(tmp_path: Path) -> None:
    """Alice is an author, so the chain already has her sign of life."""
    maker = Maker(tmp_path)
    block = maker.make()
    maker.chain.finalise((block.facts.id,), maker.certify(block))
    pool, clock = HeldPool(), SetClock(maker.chain.final.facts.slot * 1_000)
    Heart(maker.chain, pool, maker.validator.sessions, clock).on_final([maker.chain.final])  # type: ignore[arg-type]
    assert pool.beats == []
