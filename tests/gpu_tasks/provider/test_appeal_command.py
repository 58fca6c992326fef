"""`ogpu-provider appeal`: the decision that it shows, and the chain's acceptance."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from genesis import dev_accounts
from gpu_tasks.market.claims.claim_closing import dispute_id_of
from gpu_tasks.market.claims.claims import ClaimStage, ClaimTerms, ResultClaim
from gpu_tasks.market.claims.disputes import Dispute, DisputeQuestion, DisputeStage, DisputeTerms, DisputeWindows
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import ItemSample, ItemVote, Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Racer, Unit, UnitState, UnitTerms
from gpu_tasks.market.inference.units import dispute_id_of as unit_dispute_id_of
from gpu_tasks.market.training.tasks import TaskState
from planted_state import chain_with
from planted_tasks import MILESTONES, PlantedTask, run_blob
from provider_runner import Operator
from runtime.frame.runtime import Bound

ALICE, BOB = (dev_accounts.stash(name) for name in ("Alice", "Bob"))
SIDES, CLAIMED, VOTING, SETTLED = (bytes([letter]) * 32 for letter in b"sdvo")
VOTE = ItemVote(Verdict.RIGHT, b"r" * 32, (ItemSample(0, 1, bytes(16)),))
TERMS = DisputeTerms(
    InferenceMarket.index, DisputeQuestion.SIDES, SIDES, 0, None, (), (ALICE, BOB), (), 5, sealed_at=0, run_blocks=0
)
DECIDED = Dispute(TERMS, DisputeWindows(30, 12, 20), DisputeStage.APPEALABLE, 0, vote=VOTE, appealable_until=500)
UNIT = Unit(
    0, BOB, UnitTerms(100, 2, bytes(32), bytes(32), 0, 64), escrow=0, bond=0, deposit=0, posted_at=1, recorded_at=1,
    state=UnitState.DISPUTED, attempt=1, racers=(Racer(ALICE, b"d" * 32, 25),),
)  # fmt: skip
CLAIM = ResultClaim(
    ClaimTerms(
        InferenceMarket.index, ALICE, BOB, bytes(32), items=1, weight=1, item_weight_max=1, price=1, collateral=1,
        rate_ppm=1, check_ppm=1, fee_min=1, fees_held=1, sealed_at=0, run_blocks=1, excluded=(),
    ),
    30, ClaimStage.DISPUTED, 0, disputes=1,
)  # fmt: skip


def plant(bound: Bound) -> None:
    market, disputes = bound[InferenceMarket], bound[Disputes]
    for unit in (SIDES, VOTING):
        market.units[unit] = UNIT
        market.unit_of_dispute[unit_dispute_id_of(unit, 1)] = unit
    disputes.disputes[unit_dispute_id_of(SIDES, 1)] = DECIDED
    disputes.disputes[unit_dispute_id_of(VOTING, 1)] = replace(DECIDED, stage=DisputeStage.DRAWING, vote=None)
    market.units[CLAIMED] = replace(UNIT, state=UnitState.CLAIMED)
    bound[ResultClaims].claims[CLAIMED] = CLAIM
    disputes.disputes[dispute_id_of(CLAIMED, 0)] = DECIDED
    market.units[SETTLED] = replace(UNIT, state=UnitState.SETTLED)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with chain_with(tmp_path, plant) as url:
        yield url


def test_a_provider_key_appeals_a_decision_about_a_unit_or_its_claim(tmp_path: Path, url: str) -> None:
    alice = Operator(tmp_path, url, "Alice")
    for unit, dispute in ((SIDES, unit_dispute_id_of(SIDES, 1)), (CLAIMED, dispute_id_of(CLAIMED, 0))):
        shown = alice.answer("appeal", "0x" + unit.hex(), "--dry-run")
        assert (shown["calls"], shown["decision"], shown["final_after_block"]) == ("Disputes.appeal", "right", 500)
        assert shown["dispute"] == "0x" + dispute.hex()
        assert alice.answer("appeal", "0x" + unit.hex(), "--yes")["success"]
        assert alice.refused_code("appeal", "0x" + unit.hex()) == "no_decision"


def test_a_provider_key_appeals_a_decision_about_the_claim_of_a_task(tmp_path: Path) -> None:
    planted = PlantedTask(TaskState.CLAIMED, result=run_blob(MILESTONES))

    def disputed(bound: Bound) -> None:
        planted(bound)
        ((claim_id, claim),) = bound[ResultClaims].claims.items()
        assert claim is not None
        bound[ResultClaims].claims[claim_id] = replace(claim, stage=ClaimStage.DISPUTED, disputes=1)
        bound[Disputes].disputes[dispute_id_of(claim_id, 0)] = DECIDED

    with chain_with(tmp_path, disputed) as url:
        shown = Operator(tmp_path, url, "Alice").answer("appeal", planted.name, "--dry-run")
    assert (shown["calls"], shown["task"], shown["final_after_block"]) == ("Disputes.appeal", planted.name, 500)


@pytest.mark.parametrize(
    ("unit", "code"),
    [("0x12", "not_a_work"), ("0x" + "ee" * 32, "no_dispute"), ("0x" + SETTLED.hex(), "no_dispute"),
     ("0x" + VOTING.hex(), "no_decision")],
)  # fmt: skip
def test_there_is_an_appeal_against_a_decision_only(tmp_path: Path, url: str, unit: str, code: str) -> None:
    assert Operator(tmp_path, url, "Alice").refused_code("appeal", unit) == code
