"""The start of a provider's or a checker's run: the order's request, and a state at the right place."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from error_codes import raises_code
from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.execution.executor import BadStateError, LaterState
from gpu_tasks.provider.execution.gpu import Reading
from gpu_tasks.provider.tasks.task_inputs import check_request
from gpu_tasks.provider.tasks.task_runs import check_state
from gpu_tasks.tasks.canonical import CanonicalTask, task_hash_of
from gpu_tasks.workloads.train_int8.form import TrainingForm
from gpu_tasks.workloads.train_int8.request import REQUEST
from runtime.cryptography.hashing import blake2_256
from task_village import ASKED, MILESTONES, an_order

FORM = TrainingForm()
DATA = REQUEST.encode(ASKED)
ORDER = an_order(DATA, 0)


@pytest.mark.parametrize(
    "changed",
    [
        {"segments": ORDER.segments - 1},
        {"segments": ORDER.segments + 1},
        {"milestones": MILESTONES - 1},
        {"slots": 2},
        {"classes": 0b001},
        {"task_hash": b"x" * 32},
    ],
    ids=str,
)
def test_an_order_of_something_else_than_its_hash_names_is_refused(changed: dict[str, Any]) -> None:
    check_request(FORM, ORDER, DATA)
    with pytest.raises(UnusableInputError):
        check_request(FORM, replace(ORDER, **changed), DATA)


def test_another_request_than_the_hash_names_is_refused() -> None:
    other = REQUEST.encode(replace(ASKED, seed=b"x" * 32))
    with raises_code(UnusableInputError, "other_hash"):
        check_request(FORM, ORDER, other)


@pytest.mark.parametrize("kind", DeviceClass)
def test_a_task_for_one_class_is_hashed_with_that_class(kind: DeviceClass) -> None:
    canonical = CanonicalTask(
        FORM.workload_id,
        FORM.model_id,
        blake2_256(DATA),
        len(DATA),
        FORM.cost_asked(DATA),
        MILESTONES,
        1,
        (kind,),
    )
    check_request(FORM, replace(ORDER, classes=1 << kind, task_hash=task_hash_of(canonical)), DATA)


@pytest.mark.parametrize("stands_at", [3, 4, 5, None])
def test_a_checkpoint_stands_where_its_milestone_is(stands_at: int | None) -> None:
    async def advance(_form: Any, _request: bytes, state: bytes, steps: int) -> tuple[LaterState, Reading]:
        assert steps == 0
        if stands_at is None:
            raise BadStateError("no state")
        return LaterState(state, stands_at), Reading(False, 0, 0)

    parts = cast(Parts[Any], SimpleNamespace(workers=SimpleNamespace(advance=advance)))
    checking = check_state(parts, FORM, DATA, b"state", 4)
    if stands_at == 4:
        asyncio.run(checking)
        return
    with pytest.raises(BlobError):
        asyncio.run(checking)
