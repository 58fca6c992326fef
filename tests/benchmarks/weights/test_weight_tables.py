"""The generated tables of weights: complete, formatted as written, and used by calls and hooks."""

import pytest

from benchmarks.weights.tables import FILES, ROOT, TABLES, calls_of, file_of, hooks_of, listed_pallets, names, text_of
from consensus.parameters import DEVNET
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.kinds import ATTESTATIONS_MAX
from gpu_tasks.market.block_room import KEPT_FOR_SESSIONS, KEPT_FOR_UNITS
from gpu_tasks.market.budgets.budgets import Budgets
from gpu_tasks.market.capacity.capacity import RETURN_BUDGET, Capacity
from gpu_tasks.market.capacity.proofs import WorkShape
from gpu_tasks.market.inference.inference import DRAW_BUDGET, RESERVED_BUDGETS, InferenceMarket
from gpu_tasks.market.inference.intake import ADMITTED_MAX
from gpu_tasks.market.inference.units import UnitTerms
from gpu_tasks.market.sessions.sessions import DRAW_BUDGET as SESSION_DRAWS
from gpu_tasks.market.sessions.sessions import STEP_BUDGET as SESSION_STEPS
from gpu_tasks.market.training.tasks import Milestone, TaskResult
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.encoding.types import Weight
from runtime.frame.call import Call, CallMethod
from runtime.frame.measured import UNMEASURED, MeasuredWeights, digest_of, times
from runtime.frame.pallet import Pallet
from runtime.frame.weights import (
    BLOCK_BASE,
    BLOCK_MAX,
    EXTRINSIC_BASE,
    EXTRINSICS_PER_BLOCK_MAX,
    MANDATORY_MAX,
    MICROSECOND,
    SIGNATURE,
)
from runtime.pallets.balances import Balances
from runtime.pallets.im_online import ImOnline
from runtime.pallets.staking.eras import TURN_MAX, turn_weight
from runtime.pallets.staking.stakers import CANDIDATES_MAX
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.sudo import Sudo
from runtime.pallets.system import System
from runtime.pallets.utility import Utility
from session_chain import opening
from simulation.catalogue import HOOKS
from simulation.pallets import disputes as of_disputes
from simulation.pallets import result_claims as of_claims
from simulation.pallets import sessions as of_sessions
from simulation.pallets import training as of_tasks
from task_chain import an_order

PALLETS = listed_pallets()
REMARK = System.remark(remark=b"")
UNIT = UnitTerms(1, 1, bytes(32), bytes(32), 0, 1)
GROWING: tuple[Call, ...] = (
    System.remark(remark=bytes(2_048)),
    System.remark_with_event(remark=bytes(2_048)),
    Utility.batch(calls=(REMARK,)),
    Utility.batch_all(calls=(REMARK,)),
    Utility.force_batch(calls=(REMARK,)),
    TrustStake.withdraw_unbonded(),
    Capacity.prove(device=bytes(32), shape=WorkShape(1, 1, 1), root=bytes(32)),
    InferenceMarket.post(service=0, units=(UNIT,)),
    InferenceMarket.commit_result(unit=bytes(32), attempt=1, commitment=bytes(32)),
    InferenceMarket.decline(unit=bytes(32), attempt=1),
    InferenceMarket.pass_unit(unit=bytes(32), attempt=1),
    Attestations.attach(attestations=()),
    ImOnline.attach(heartbeats=()),
    TrustLock.attach_evidence(proofs=()),
    TrainingMarket.submit(order=an_order()),
    TrainingMarket.commit_bid(task=bytes(32), device=bytes(32), commitment=bytes(32)),
    TrainingMarket.volunteer(task=bytes(32), device=bytes(32)),
    TrainingMarket.report_milestone(task=bytes(32), place=0, milestone=Milestone(1, bytes(32), 0, bytes(32))),
    TrainingMarket.finish(task=bytes(32), place=0, result=TaskResult(bytes(32), bytes(32), 0)),
    TrainingMarket.stop(task=bytes(32)),
    TrainingMarket.cancel(task=bytes(32)),
    opening(),
    Budgets.revoke(budget=bytes(32), delegate=bytes(32)),
    Budgets.spend(budget=bytes(32), call=REMARK),
    Sudo.sudo(call=REMARK),
    Sudo.sudo_as(who=bytes(32), call=REMARK),
)
"""Calls whose weight depends on their arguments or combines several rows."""
SLOT = Weight(DEVNET.slot_ms * 1_000 * MICROSECOND)
METHODS = [method for pallet in PALLETS for method in pallet.methods]


def name_of(method: CallMethod) -> str:  # type: ignore[type-arg]
    return f"{method.pallet.__name__}.{method.name}"


def row(name: str) -> Weight:
    return TABLES[file_of(name)][name]


@pytest.mark.parametrize("pallet", PALLETS, ids=lambda pallet: pallet.__name__)
def test_every_call_and_hook_of_a_listed_pallet_was_measured(pallet: type[Pallet]) -> None:
    """A missing one has no case in `benchmarks/weights`, or the tables are older than it: `make weights WRITE=1`."""
    missing = [name for name in (*calls_of(pallet), *hooks_of(pallet)) if name not in TABLES[file_of(name)].rows]
    assert not missing


@pytest.mark.parametrize("file", FILES)
def test_a_table_is_as_it_was_generated(file: str) -> None:
    table = TABLES[file]
    assert table.digest == digest_of(table.rows), "a row was written by hand"
    assert (ROOT / file).read_text(encoding="utf-8") == text_of(file, table.rows)
    assert all(file_of(name) == file for name in table.rows)


def test_there_is_no_row_for_what_is_gone() -> None:
    rows = {name.partition(" ")[0] for table in TABLES.values() for name in table.rows}
    assert rows == names()


@pytest.mark.parametrize("method", METHODS, ids=name_of)
def test_a_call_weighs_what_was_measured(method: CallMethod) -> None:  # type: ignore[type-arg]
    name = name_of(method)
    growing = {call.name: call for call in GROWING}
    if name not in growing:
        assert method.weight is row(name)
        return
    weight, parts = growing[name].weight, [part for part in TABLES[file_of(name)].rows if part.startswith(f"{name} ")]
    assert weight.ref_time >= row(name).ref_time
    is_more = weight.ref_time > row(name).ref_time
    assert callable(method.weight) or parts or is_more, "what does not grow is one row"


def test_what_nobody_measured_is_heavy() -> None:
    table = MeasuredWeights("", {"A.b": 7})
    assert table["A.b"] == Weight(7_000)
    assert table["A.c"] is UNMEASURED
    assert times(3, table["A.b"]) == Weight(21_000)


def test_the_base_of_a_block_has_its_quiet_hooks() -> None:
    quiet = sum(row(name).ref_time for pallet in PALLETS for name in hooks_of(pallet))
    assert quiet < BLOCK_BASE.ref_time < 10_000 * MICROSECOND


def test_a_block_holds_some_thousand_transfers_and_its_signatures_take_half_a_slot() -> None:
    transfer = EXTRINSIC_BASE.ref_time + Balances.transfer_keep_alive(dest=bytes(32), value=1).weight.ref_time
    assert (BLOCK_MAX.ref_time - BLOCK_BASE.ref_time) // transfer >= 6_000
    assert EXTRINSICS_PER_BLOCK_MAX * SIGNATURE.ref_time <= SLOT.ref_time // 2
    assert BLOCK_MAX.ref_time == SLOT.ref_time * 3 // 4


def test_an_era_turns_within_what_it_may_take() -> None:
    assert turn_weight(CANDIDATES_MAX).fits(TURN_MAX)


def test_hooks_leave_room_for_extrinsics_whatever_they_do() -> None:
    """Claims, disputes and tasks use the room beside the units' reserve, so they wait when an era ends."""
    strike = row("TrustLock.on_initialize strike").ref_time
    tending = sum(kind.ref_time for kind in RESERVED_BUDGETS if kind is not ATTESTATIONS_MAX)
    always = BLOCK_BASE.ref_time + strike + tending + RETURN_BUDGET.ref_time
    assert KEPT_FOR_UNITS.ref_time == BLOCK_BASE.ref_time + tending + ATTESTATIONS_MAX.ref_time
    assert always + TURN_MAX.ref_time < MANDATORY_MAX.ref_time
    assert always + DRAW_BUDGET.ref_time + ATTESTATIONS_MAX.ref_time < MANDATORY_MAX.ref_time
    assert MANDATORY_MAX.ref_time <= BLOCK_MAX.ref_time * 4 // 5


def test_sessions_keep_to_the_room_that_units_leave_them() -> None:
    assert SESSION_STEPS.ref_time + SESSION_DRAWS.ref_time <= KEPT_FOR_SESSIONS.ref_time


ROOM = tuple(pallet.HOOKS for pallet in (of_disputes, of_claims, of_tasks))
"""The budgets that a `BlockRoom` gives out, with their last pieces, by module of books."""


def test_where_no_era_turns_and_nobody_is_struck_all_hooks_have_their_room_and_units_their_draws() -> None:
    before = RETURN_BUDGET.ref_time + sum(budget.ref_time for hooks in ROOM for budget, _ in hooks)
    assert before + KEPT_FOR_UNITS.ref_time + ADMITTED_MAX.ref_time < MANDATORY_MAX.ref_time


def test_what_hooks_finish_beyond_their_budgets_has_room_in_a_block_beside_all_of_them() -> None:
    """A hook takes what earlier ones left of the room, so only one of them ends beyond it."""
    in_room = [sum(last_piece.ref_time for _, last_piece in hooks) for hooks in (*ROOM, of_sessions.HOOKS)]
    elsewhere = sum(last_piece.ref_time for _, last_piece in HOOKS) - sum(in_room)
    assert elsewhere + max(in_room) < BLOCK_MAX.ref_time - MANDATORY_MAX.ref_time
