"""Wrong answers of a language model end with the table's losses, on a chain in this process. Each bar can fail."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devnet.proofs.cheats.batch_scenes import CheckTrace
from devnet.proofs.cheats.models import (
    PROOF,
    ModelUnit,
    amount_check,
    chance_failures,
    counts_of,
    tail_probability,
    unit_failures,
)
from devnet.stage.cheating.lies import RightAnswers
from fake_work import FakeForm
from gpu_tasks.market.attestations.attestations import Attested
from gpu_tasks.market.courts.events import CaseOpened, JudgeCharged
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed, UnitSettled
from gpu_tasks.market.inference.units import is_open
from gpu_tasks.workloads.form import outcomes_of
from provider_chain import INPUT_SALT, Village
from runtime.pallets.staking.trust_lock import Paid
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, MarketChain, named_keys

SIZE, TOKENS_MAX = 6, 64
REQUESTS = 8
REQUEST = b"complete this"
NUMBERS = {"Courts.audit_rate_ppm": 1_000_000, "LeafChecks.check_from": 8, "LeafChecks.show_blocks": 20}


async def watched(village: Village, racers: int, *, lies: bool, requests: int = 1) -> ModelUnit:
    """Follow a unit until its case or its check is over. Its first racer cheats."""
    unit_id = await village.post(
        REQUEST if requests == 1 else [REQUEST] * requests, racers=racers, tokens_max=TOKENS_MAX * requests
    )
    cheat = village.drawn(unit_id)[0]
    cheat.executor.spoil = lies
    right, told = (
        outcomes_of(FakeForm(), [REQUEST] * requests, [output] * requests)
        for output in (REQUEST[::-1], REQUEST[::-1] + b"!" * lies)
    )
    answers = RightAnswers(GENESIS_HASH, unit_id, INPUT_SALT, right, (TOKENS_MAX,) * requests)
    unit = ModelUnit(answers, told, racers, CheckTrace(unit=unit_id), cheat.keys.stash, CUSTOMER.stash)
    record = village.unit(unit_id).unit
    while is_open(record) or record.is_watched:
        await village.block()
        record = village.unit(unit_id).unit
        check = village.node.leaves().check(unit_id)
        if check is not None:
            unit.trace.terms, unit.trace.shown = check.terms, check.shown
    cheat.executor.spoil = False
    for event in village.node.chain.all_events:
        unit.trace.take(village.node.chain.height, event)
    return unit


def played(
    folder: Path, racers: int, *, lies: bool = True, is_judged: bool | None = True, requests: int = 1
) -> ModelUnit:
    """Return a unit with this end. The beacon chooses which lone answers are audited."""

    async def main() -> ModelUnit:
        async with Village(folder, SIZE, chain=MarketChain(named_keys(SIZE), [], dict(NUMBERS))) as village:
            while True:
                unit = await watched(village, racers, lies=lies, requests=requests)
                if is_judged in (None, unit.is_judged):
                    return unit

    return asyncio.run(asyncio.wait_for(main(), 120))


@pytest.mark.parametrize(("lies", "is_judged"), [(True, True), (True, False), (False, True), (False, False)])
def test_a_lone_answer_costs_what_the_table_says(tmp_path: Path, lies: bool, is_judged: bool) -> None:
    unit = played(tmp_path, 1, lies=lies, is_judged=is_judged)
    assert unit_failures(unit) == []
    assert (unit.is_lie, unit.is_found) == (lies, lies and is_judged)
    counts = counts_of([unit])
    assert [counts[f"lone {what}"] for what in ("lies", "lies found", "units audited")] == [
        lies, lies and is_judged, is_judged,
    ]  # fmt: skip


@pytest.mark.parametrize("lies", [True, False])
def test_beside_a_rival_every_lie_is_found(tmp_path: Path, lies: bool) -> None:
    unit = played(tmp_path, 2, lies=lies, is_judged=lies)
    assert unit_failures(unit) == []
    assert (unit.is_lie, unit.is_found) == (lies, lies)
    assert counts_of([unit])["raced lies found"] == lies
    if lies:
        check = amount_check(unit)
        assert check.taken == check.expected > 0


@pytest.mark.parametrize("lies", [True, False])
def test_a_batch_costs_what_the_table_says(tmp_path: Path, lies: bool) -> None:
    unit = played(tmp_path, 1, lies=lies, is_judged=None, requests=REQUESTS)
    assert unit_failures(unit) == []
    assert (unit.is_batch, unit.is_lie, unit.is_found) == (True, lies, lies)
    if lies:
        check = amount_check(unit)
        assert check.taken == check.expected > 0
    assert counts_of([unit])["batch lies found"] == lies


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> ModelUnit:
    return played(tmp_path_factory.mktemp("found"), 2)


def swap(kind: type[Any], **changes: Any) -> Callable[[CheckTrace], None]:
    """Return a change of all events of a kind."""

    def change(trace: CheckTrace) -> None:
        trace.happened = [
            (at, replace(each, **changes) if isinstance(each, kind) else each) for at, each in trace.happened
        ]

    return change


def added(event: Callable[[bytes], Any]) -> Callable[[CheckTrace], None]:
    return lambda trace: trace.happened.append((9, event(trace.unit)))


def dropped(kind: type[Any]) -> Callable[[CheckTrace], None]:
    def change(trace: CheckTrace) -> None:
        trace.happened = [(at, each) for at, each in trace.happened if not isinstance(each, kind)]

    return change


def a_grain_more(trace: CheckTrace) -> None:
    place, (height, paid) = next(
        (place, row)
        for place, row in enumerate(trace.happened)
        if isinstance(row[1], Paid) and row[1].who != CUSTOMER.stash
    )
    trace.happened[place] = (height, replace(paid, amount=paid.amount + 1))


@pytest.mark.parametrize(
    "change",
    [
        a_grain_more,
        swap(Attested, output_root=b"x" * 32),
        swap(UnitSettled, output_root=b"x" * 32),
        dropped(UnitSettled),
        dropped(ProviderSlashed),
        added(lambda unit: RaceMissed(unit, b"honest" * 5 + b"ab", 1)),
        added(lambda unit: JudgeCharged(unit, b"honest" * 5 + b"ab", 1, False)),
    ],
)
def test_a_broken_requirement_is_a_failure(found: ModelUnit, change: Callable[[CheckTrace], None]) -> None:
    trace = replace(found.trace, happened=list(found.trace.happened))
    change(trace)
    assert unit_failures(found) == []
    assert unit_failures(replace(found, trace=trace))


def test_too_few_audits_are_a_failure(found: ModelUnit) -> None:
    is_not_judged = replace(found.trace, happened=list(found.trace.happened))
    dropped(CaseOpened)(is_not_judged)
    audited, unseen = replace(found, racers=1), replace(found, racers=1, trace=is_not_judged)
    assert chance_failures([audited] * 8 + [unseen] * 4) == []
    assert len(chance_failures([audited] + [unseen] * 11)) == 1
    assert chance_failures([]) == []


def test_the_probability_of_a_number_counts_all_less_probable_ones() -> None:
    assert [tail_probability(hits, 2, 0.5) for hits in range(3)] == [0.5, 1.0, 0.5]


def test_the_proof_reads_its_options() -> None:
    assert PROOF.parse(["--model", "tiny", "--units", "8"]).model == "tiny"
