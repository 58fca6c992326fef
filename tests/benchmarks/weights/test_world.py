"""The world of `make weights` keeps its validators: all seats, and gangs without offenders."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.weights.chain_cases import to_defaults
from benchmarks.weights.findings import Findings
from benchmarks.weights.staking_cases import Staking
from benchmarks.weights.task_road import Tasks
from benchmarks.weights.world import VALIDATORS, World
from gpu_tasks.market.training.terms import SLOTS_MAX
from runtime.encoding.types import Root
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import signed

SENDERS = 200
ACCOUNTS = 6_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, ACCOUNTS, SENDERS)
    yield world
    world.close()


def test_changed_parameters_leave_every_validator_its_seat(world: World) -> None:
    world.block(*(signed(Root(), call) for call in to_defaults(world)))
    assert world.now()[TrustStake].validator_count == VALIDATORS


def test_no_validator_with_delegators_is_an_owner_in_a_gang(world: World) -> None:
    meter: Any = SimpleNamespace()
    backed = {actor.stash for actor in Staking(world, Findings(meter)).backed}
    owners = {bidder.actor.stash for bidder in Tasks(world).owners(SLOTS_MAX)}
    assert len(owners) == SLOTS_MAX + 1
    assert not owners & backed
