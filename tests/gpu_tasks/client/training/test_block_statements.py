"""What blocks hold of a task: calls, nested ones too, and attestations; of other tasks and of units nothing."""

from types import SimpleNamespace
from typing import Any

from gpu_tasks.client.training.block_statements import SignedStep, attested_steps, steps_about
from gpu_tasks.market.training.tasks import Milestone, TaskResult
from gpu_tasks.market.training.training_market import TrainingMarket
from played_node import DevChain
from runtime.frame.call import Call
from runtime.pallets.utility import Utility
from small_chain import ALICE

TASK, OTHER = b"t" * 32, b"o" * 32
MILESTONE, RESULT = Milestone(3, b"r" * 32, 5, b"b" * 32), TaskResult(b"e" * 32, b"b" * 32, 7)


def calls(task: bytes) -> tuple[Call, ...]:
    return (
        TrainingMarket.checkpoint(task=task, place=1, milestone=MILESTONE),
        TrainingMarket.hold_checkpoint(task=task, number=3),
        TrainingMarket.finish(task=task, place=1, result=RESULT),
        TrainingMarket.accept(task=task),
    )


def test_calls_are_found_however_deep_and_others_not() -> None:
    chain = DevChain()
    nested = Utility.batch(calls=(*calls(OTHER), Utility.batch(calls=calls(TASK))))
    raws = [chain.signed(ALICE, nested), b"no extrinsic", chain.signed(ALICE, calls(TASK)[0])]
    stated = SignedStep(ALICE.account, False, 1, 3, MILESTONE.root)
    assert list(steps_about(chain.runtime, raws, TASK)) == [
        stated,
        SignedStep(ALICE.account, True, 0, 3, b""),
        SignedStep(ALICE.account, False, 1, None, RESULT.root),
        stated,
    ]


def test_attestations_of_a_task_are_steps_and_those_of_units_are_none() -> None:
    def attestation(**said: Any) -> Any:
        return SimpleNamespace(statement=SimpleNamespace(provider_key=b"k" * 32, place=1, **said))

    found = attested_steps(
        [
            attestation(unit=TASK),
            attestation(task=OTHER, stated=SimpleNamespace(milestone=MILESTONE)),
            attestation(task=TASK, stated=SimpleNamespace(milestone=MILESTONE)),
            attestation(task=TASK, stated=SimpleNamespace(result=RESULT)),
        ],
        TASK,
    )
    assert list(found) == [
        SignedStep(b"k" * 32, False, 1, 3, MILESTONE.root),
        SignedStep(b"k" * 32, False, 1, None, RESULT.root),
    ]
