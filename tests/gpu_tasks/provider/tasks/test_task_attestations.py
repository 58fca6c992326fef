"""The work period in a provider's milestone attestation: from the last one to its newest known block."""

from dataclasses import replace

import pytest

from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training.tasks import Milestone, Slot, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.chain.port import Identity
from gpu_tasks.provider.tasks.working import attested
from priced_tasks import a_task
from provider_chain import keypair
from simulation.chains.market_chain import GENESIS_HASH, Keys

MAKER = Keys("maker")
USAGE = Usage(0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("started_at", "reported_at", "height", "span"),
    [
        (40, 0, 50, (40, 50)),
        (40, 45, 50, (45, 50)),
        (40, 50, 50, (50, 50)),
        (40, 50, 49, (50, 50)),  # its node fell back by a block
        (50, 0, 49, (50, 50)),
    ],
)
def test_no_step_ends_before_it_begins(started_at: int, reported_at: int, height: int, span: tuple[int, int]) -> None:
    slot = replace(Slot(MAKER.stash, b"d" * 32, 5, 50, 100), started_at=started_at)
    task = a_task(state=TaskState.RUNNING, slots=(slot,), reported_at=reported_at)
    call = TrainingMarket.report_milestone(task=b"t" * 32, place=0, milestone=Milestone(1, b"r" * 32, 0, b"b" * 32))
    identity = Identity.of(MAKER.stash, keypair(MAKER), GENESIS_HASH)
    statement = attested(identity, task, call, {1: USAGE}, height).statement
    assert (statement.started_at, statement.finished_at) == span
