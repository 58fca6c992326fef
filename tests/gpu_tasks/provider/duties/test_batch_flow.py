"""Batches on a chain of the real pallets, with daemons whose devices answer with the text reversed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from error_codes import raises_code
from fake_work import FakeExecutor, FakeForm
from gpu_tasks.batches.outcomes import Completed, RefusedRequest, decode_outcomes
from gpu_tasks.batches.requests import encode_requests
from gpu_tasks.data.unit_input import UnitInput, decode_input, encode_input
from gpu_tasks.data.unit_output import ANSWERS_BYTES_MAX, answers_bytes, output_of
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed, UnitRefunded, UnitSettled
from gpu_tasks.market.inference.money import due
from gpu_tasks.market.inference.race_results import result
from gpu_tasks.market.inference.units import Refund, UnitState, UnitTerms
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.duties.work import payable_requests
from gpu_tasks.provider.execution.executor import ExecutionError, Finished, ManyExecuted
from gpu_tasks.provider.journal.finished import all_finished
from provider_chain import CUSTOMER_SEAL, INPUT_SALT, Village, in_village
from simulation.chains.market_chain import GENESIS_HASH

ASKED = [b"complete this", b"no request", b"complete that one too", b"complete it"]
OUTCOMES = tuple(
    Completed(request[::-1], 0, len(request)) if request.startswith(b"complete") else RefusedRequest()
    for request in ASKED
)
TOKENS = sum(len(request) for request in ASKED if request.startswith(b"complete"))


class Breaking(FakeExecutor):
    """Fails once, after the first of several requests."""

    broke = 0

    async def run_many(self, requests: list[bytes], finished: Finished) -> ManyExecuted:  # type: ignore[override]
        if not self.broke:
            self.broke = 1
            await super().run_many(requests[:1], finished)
            raise ExecutionError("the power is gone")
        return await super().run_many(requests, finished)


@pytest.mark.parametrize("racers", [1, 2])
@in_village(2)
async def test_a_batch_is_paid_by_its_tokens_and_a_bad_request_costs_nothing(village: Village, racers: int) -> None:
    unit_id = await village.post(ASKED, racers=racers, tokens_max=128)
    unit = (await village.run(unit_id)).unit
    assert unit.state is UnitState.SETTLED
    assert unit.output_root == output_of(GENESIS_HASH, unit_id, INPUT_SALT, OUTCOMES).root
    outcome = result(unit.racers, unit.output_root)
    assert outcome is not None
    assert outcome.winner.reveal is not None
    assert (outcome.winner.reveal.input_tokens, outcome.winner.reveal.output_tokens) == (0, TOKENS)
    assert due(unit, outcome.winner) == unit.price * TOKENS // 128
    (settled,) = village.happened(UnitSettled)
    assert settled.price == unit.price * TOKENS // 128
    winner = village.miner(outcome.winner.owner)
    blob = winner.daemon.parts.store.get(outcome.winner.reveal.output_blob)
    assert decode_outcomes(CUSTOMER_SEAL.open(blob or b"")) == OUTCOMES
    assert not all_finished(winner.daemon.parts.journal.database), "nothing is kept of what is in the journal"


@in_village(5)
async def test_of_two_answers_voters_find_the_right_one(village: Village) -> None:
    unit_id = await village.post(ASKED, tokens_max=128)
    liar = None
    for _ in range(60):
        village.node.block()
        status = village.unit(unit_id)
        if liar is None and status.unit.racers:
            liar = village.miner(status.unit.racers[0].owner)
            liar.executor.spoil = True
        if status.unit.state is UnitState.DISPUTED and liar is not None:
            liar.executor.spoil = False
        for miner in village.miners:
            await miner.step()
        if status.unit.ended_at:
            break
    assert liar is not None
    ended = village.unit(unit_id)
    assert ended.unit.output_root == output_of(GENESIS_HASH, unit_id, INPUT_SALT, OUTCOMES).root
    assert [slashed.provider for slashed in village.happened(ProviderSlashed)] == [liar.keys.stash]


@pytest.mark.parametrize(
    ("asked", "tokens"),
    [(ASKED, TOKENS - 1), (ASKED[:3], TOKENS), ([*ASKED, b"complete"], TOKENS), (b"complete this", 64)],
    ids=["more tokens than are paid for", "a request too few", "a request too many", "no list of requests"],
)
@in_village(5)
async def test_an_input_that_is_not_what_the_unit_says_is_given_back(
    village: Village, asked: bytes | list[bytes], tokens: int
) -> None:
    await village.run(await village.post(asked, tokens_max=tokens, requests=len(ASKED)))
    assert [refunded.refund for refunded in village.happened(UnitRefunded)] == [Refund.INPUT_BAD]
    assert not any(miner.executor.runs for miner in village.miners)


def test_requests_that_read_more_together_than_is_paid_for_are_not_computed() -> None:
    class Reading(FakeForm):
        def cost_in(self, request: bytes) -> int:
            return 2 * len(request)

    requests = (b"complete this", b"complete it")
    asked = decode_input(encode_input(INPUT_SALT, CUSTOMER_SEAL.public, encode_requests(requests)))
    terms = UnitTerms(100, 1, bytes(32), bytes(32), 0, tokens_max=24, requests=2, tokens_in=48)
    assert payable_requests(Reading(), asked, terms) == requests
    with raises_code(UnusableInputError, "input_too_long"):
        payable_requests(Reading(), asked, replace(terms, tokens_in=47))
    with raises_code(UnusableInputError, "output_too_long"):
        payable_requests(Reading(), asked, replace(terms, tokens_max=23))


def test_requests_whose_answers_fit_into_no_blob_are_not_computed() -> None:
    class Verbose(FakeForm):
        def output_bytes(self, request: bytes) -> int:
            return (ANSWERS_BYTES_MAX - answers_bytes([0, 0])) // 2 + (request == b"more")

    def asked(*requests: bytes) -> UnitInput:
        return decode_input(encode_input(INPUT_SALT, CUSTOMER_SEAL.public, encode_requests(requests)))

    terms = UnitTerms(100, 1, bytes(32), bytes(32), 0, tokens_max=64, requests=2, tokens_in=64)
    assert payable_requests(Verbose(), asked(b"this", b"that"), terms) == (b"this", b"that")
    with raises_code(UnusableInputError, "answers_too_large"):
        payable_requests(Verbose(), asked(b"more", b"more"), terms)


async def test_what_was_done_before_a_breakdown_is_not_computed_again(tmp_path: Path) -> None:
    executor, village = Breaking(), Village(tmp_path, 1)
    village.make = executor.make
    async with village:
        unit_id = await village.post(ASKED, racers=1, tokens_max=128)
        assert (await village.run(unit_id)).unit.state is UnitState.SETTLED
        assert executor.broke
        good = [request for request in ASKED if request.startswith(b"complete")]
        assert sorted(executor.runs) == sorted(good), "each once"
        assert not village.happened(RaceMissed)
