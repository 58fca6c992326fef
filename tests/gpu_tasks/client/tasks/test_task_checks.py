"""The open claims and the open dispute of a task: every step names its actor and its last block; and appeals."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any, cast

import pytest

from asked_chain import AskedChain
from claimed_tasks import ALWAYS, K, claimed, gang
from error_codes import raises_code
from gpu_tasks.client.tasks.records import task_view, why
from gpu_tasks.client.tasks.task_checks import CAN_READ, CLAIM_COLUMNS, TaskChecks, task_checks
from gpu_tasks.data.appeals import AppealError, appeal_against
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.training.tasks import TaskState, slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from simulation.chains.dispute_chain import voter_steps
from simulation.chains.market_chain import CUSTOMER, signed
from task_chain import RIGHT, WRONG, TaskChain, awarded
from unit_cases import checker_steps, vote_for


def looked(chain: TaskChain) -> TaskChecks | None:
    client = cast("Any", AskedChain(chain.chain))
    return asyncio.run(task_checks(client, chain.task, chain.now(), asyncio.run(client.finalized())))


def look(chain: TaskChain) -> TaskChecks:
    found = looked(chain)
    assert found is not None
    return found


def life(chain: TaskChain, verdict: Verdict = Verdict.RIGHT) -> Iterator[TaskChecks]:
    """Make blocks until the task ends. Yield a look at each."""
    while chain.state() is not TaskState.ENDED:
        yield look(chain)
        chain.block(*checker_steps(chain.chain, verdict), *voter_steps(chain.chain, vote_for(verdict)))


def test_a_task_at_work_waits_for_no_check() -> None:
    chain, _ = awarded()
    assert looked(chain) is None
    chain.start(chain.alice)
    chain.finish(chain.alice)
    found = look(chain)
    assert (found.claim_facts(), found.dispute_facts(), found.says()) == ([], None, ""), "the next block opens claims"
    assert why(chain.now(), found) == CAN_READ


@pytest.mark.parametrize("verdict", [Verdict.RIGHT, Verdict.WRONG])
def test_every_step_of_a_claim_names_its_actor_and_its_last_block(verdict: Verdict) -> None:
    chain, _ = claimed(size=20, segments=4)
    stages = set()
    for found in life(chain, verdict):
        if not found.claims:
            continue
        (facts,) = found.claim_facts()
        assert set(CLAIM_COLUMNS) <= set(facts)
        stages.add((facts["stage"], facts["actor"]))
        assert (facts["account"] is None) == (facts["actor"] in {"beacon", "chain", "voters"})
        says = why(chain.now(), found)
        assert says.startswith(f"{CAN_READ}; ")
        assert re.search(r"\bNone\b|[{}]|request", says) is None
        if facts["until_block"] is not None:
            assert f"block {facts['until_block']}" in says
        assert (facts["dispute"] is None) == (facts["stage"] != "disputed")
        view = task_view(chain.task, chain.now(), found)
        assert (view.claims, view.dispute) == ([facts], None)
    expected = {("drawing", "beacon"), ("committing", "checker"), ("showing", "provider"), ("opening", "checker")}
    assert expected <= stages
    assert (("disputed", "voters") in stages) == (verdict is Verdict.WRONG)


def test_each_claim_of_a_gang_has_its_place() -> None:
    chain, _, _ = gang()
    chain.block()
    found = look(chain)
    assert [facts["place"] for facts in found.claim_facts()] == [0, 1]
    assert "place 0: " in found.says()
    assert ", place 1: " in found.says()


def test_different_results_go_to_voters() -> None:
    chain, _, _ = gang(roots=(RIGHT, WRONG))
    facts = look(chain).dispute_facts()
    assert facts is not None
    assert (facts["question"], facts["item"], facts["actor"]) == ("sides", None, "beacon")
    assert why(chain.now(), look(chain)).startswith("its providers stated different results; the beacon draws ")


def reported() -> TaskChain:
    chain, _ = awarded(size=20, constants=ALWAYS, bids={"collateral": K})
    chain.do(chain.alice, TrainingMarket.report_input(task=chain.task, place=0))
    return chain


def test_a_reported_input_goes_to_voters() -> None:
    chain = reported()
    facts = look(chain).dispute_facts()
    assert facts is not None
    assert (facts["question"], facts["item"]) == ("input", None)
    assert why(chain.now(), look(chain)).startswith("the provider of place 0 reports a missing input; ")


# Appeals against decisions about a task, and about its claims.


def appealed(chain: TaskChain, appellant: bytes = CUSTOMER.stash) -> Any:
    return asyncio.run(appeal_against(cast("Any", AskedChain(chain.chain)), chain.task, appellant))


def test_a_decision_about_an_input_is_appealed_by_a_party() -> None:
    chain = reported()
    with raises_code(AppealError, "no_decision"):
        appealed(chain)
    while (look(chain).dispute_facts() or {}).get("stage") != "appealable":
        chain.block(*voter_steps(chain.chain, vote_for(Verdict.RIGHT)))
    found = appealed(chain)
    assert (found.facts["task"], found.facts["decision"], found.facts["you_are"]) == (chain.task, "right", "a party")
    chain.block(signed(CUSTOMER.stash, found.call))
    dispute = chain.chain.now()[Disputes].open_dispute(found.facts["dispute"])
    assert dispute.appellant == CUSTOMER.stash


def test_a_decision_about_a_claim_is_appealed_by_its_provider() -> None:
    chain, _, whose = gang(size=24)
    chain.block()
    with raises_code(AppealError, "no_dispute"):
        appealed(chain)
    disputes = [ResultClaims.dispute(claim=slot_case(chain.task, place), index=0) for place in range(2)]
    chain.block(*(signed(CUSTOMER.stash, call) for call in disputes))
    while any(claim["dispute"]["stage"] != "appealable" for claim in look(chain).claim_facts()):
        chain.block(*voter_steps(chain.chain, vote_for(Verdict.WRONG)))
    ids = [claim["dispute"]["id"] for claim in look(chain).claim_facts()]
    assert [appealed(chain, appellant=keys.stash).facts["dispute"] for keys in whose] == ids
