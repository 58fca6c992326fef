"""Cheats about units end with the table's losses, on a chain in this process. Each requirement can fail."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from devnet.proofs.cheats import models
from devnet.proofs.cheats.__main__ import UNIT_SCENARIOS
from devnet.proofs.cheats.unit_judgement import JudgedUnit
from devnet.proofs.cheats.unit_money import READ_AT, ExpectedMoney, UnitFacts
from devnet.proofs.cheats.unit_scenes import CHECKER_EVENTS, RESULT_SCENES, UnitScene, rounds_of
from devnet.proofs.cheats.units import UnitBook
from devnet.stage.cheating.__main__ import CHECKER_CHEATS, MODEL_CHEATS, RACE_CHEATS, RESULT_CHEATS
from devnet.stage.cheating.daemons import NothingShown
from devnet.stage.cheating.lies import RightAnswers
from fake_work import FakeForm
from gpu_tasks.market.attestations.attestations import Attested
from gpu_tasks.market.claims.claim_events import CheckEnded
from gpu_tasks.market.claims.claims import CheckEnd
from gpu_tasks.market.claims.dispute_events import DisputeEnded, VoterCharged
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed, UnitRefunded, UnitSettled
from gpu_tasks.market.inference.units import Refund, is_open
from gpu_tasks.workloads.form import outcomes_of
from nightly_but import nightly_but
from provider_chain import INPUT_SALT, Miner, Village
from runtime.pallets.staking.trust_lock import Locked, Paid
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, MarketChain, named_keys

SIZE = 8
STRANGER = b"a stranger".ljust(32)
NUMBERS = {"ResultClaims.check_rate": 1_000_000, "ResultClaims.duty_blocks": 8, "Disputes.vote_blocks": 8}
REQUESTS = tuple(b"complete this, number %d" % number for number in range(96))
TRIES_MAX = 20
PLAYED = [scene for scene in RESULT_SCENES if not set(scene.racers) & set(RACE_CHEATS)]
"""Race cheats use a node's pool, which the chain of this test does not have."""
BY_NAME = {scene.name: scene for scene in RESULT_SCENES}
CHECKERS = [UnitScene(mode, mode, (None,), event=event, others=(mode,)) for mode, (_, event) in CHECKER_EVENTS.items()]


def bend(miner: Miner, mode: str | None) -> None:
    """Let a running daemon cheat."""
    if mode == "withheld-delivery":
        miner.daemon.server._deliverer = NothingShown()
    elif mode is not None:
        (RESULT_CHEATS | CHECKER_CHEATS)[mode].change_daemon(miner.daemon)


async def followed(village: Village, scene: UnitScene) -> JudgedUnit:
    """Follow one unit from its post to its end."""
    requests = REQUESTS[: scene.requests]
    asked = sum(map(len, requests))
    unit_id = await village.post(
        requests[0] if scene.requests == 1 else requests, racers=len(scene.racers), tokens_max=2 * asked
    )
    outcomes = outcomes_of(FakeForm(), requests, [request[::-1] for request in requests])
    right = RightAnswers(GENESIS_HASH, unit_id, INPUT_SALT, outcomes, (2 * asked // scene.requests,) * scene.requests)
    modes = dict(zip((miner.keys.stash for miner in village.drawn(unit_id)), scene.racers, strict=True))
    others = (miner.keys.stash for miner in village.miners if miner.keys.stash not in modes)
    modes |= dict(zip(others, cycle(scene.others or (None,))))
    for miner in village.miners:
        bend(miner, modes[miner.keys.stash])
    book = UnitBook()
    facts = UnitFacts(right, {stash: mode for stash, mode in modes.items() if mode is not None})
    book.add(scene, facts)
    seen_blocks = 0
    while is_open(village.unit(unit_id).unit):
        take_events(village, book, facts)
        for unit in book.to_dispute():
            village.node.calls.append((CUSTOMER.stash, ResultClaims.dispute(claim=unit, index=0)))
        await village.block()
        seen_blocks += 1
        assert seen_blocks < 600
    take_events(village, book, facts)
    return JudgedUnit(scene, facts, ExpectedMoney.of(facts))


def take_events(village: Village, book: UnitBook, facts: UnitFacts) -> None:
    for event in village.node.chain.events:
        book.take(village.node.chain.height, event)
        if isinstance(event, READ_AT):
            facts.read(event, village.unit(facts.right.unit))


def played(folder: Path, scene: UnitScene) -> JudgedUnit:
    """Play a scene until each cheat in it is caught."""

    async def main(number: int) -> JudgedUnit:
        chain = MarketChain(named_keys(SIZE), [], dict(NUMBERS))
        async with Village(folder / str(number), SIZE, chain=chain) as village:
            return await followed(village, scene)

    for number in range(TRIES_MAX):
        judged = asyncio.run(asyncio.wait_for(main(number), 120))
        assert judged.failures() == []
        if judged.caught() >= scene.cheats:
            return judged
    raise AssertionError("never caught")


@pytest.mark.parametrize("scene", nightly_but(4, [*PLAYED, *CHECKERS]), ids=lambda scene: scene.name)
def test_a_cheat_is_caught_and_costs_what_the_table_says(tmp_path: Path, scene: UnitScene) -> None:
    judged = played(tmp_path, scene)
    assert scene.event is None or scene.event in judged.expected.events
    assert all(check.taken == check.expected > 0 for check in judged.amounts())
    if scene.racers[0] is not None:
        assert judged.amounts()
        assert judged.facts.record.refunded or None in scene.racers


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> JudgedUnit:
    return played(tmp_path_factory.mktemp("alone"), BY_NAME["alone"])


@pytest.fixture(scope="module")
def rivals(tmp_path_factory: pytest.TempPathFactory) -> JudgedUnit:
    return played(tmp_path_factory.mktemp("rivals"), BY_NAME["rivals"])


def changed(judged: JudgedUnit, change: Callable[[list[tuple[int, Any]]], None]) -> JudgedUnit:
    """Return a unit with other events."""
    record = replace(judged.facts.record, happened=list(judged.facts.record.happened))
    change(record.happened)
    facts = replace(judged.facts, record=record)
    return replace(judged, facts=facts, expected=ExpectedMoney.of(facts))


def dropped(kind: type[Any]) -> Callable[[list[tuple[int, Any]]], None]:
    def change(happened: list[tuple[int, Any]]) -> None:
        happened[:] = [(at, each) for at, each in happened if not isinstance(each, kind)]

    return change


def swapped(kind: type[Any], **changes: Any) -> Callable[[list[tuple[int, Any]]], None]:
    """Return a change of the first event of a kind."""

    def change(happened: list[tuple[int, Any]]) -> None:
        place = next(place for place, (_, each) in enumerate(happened) if isinstance(each, kind))
        at, event = happened[place]
        changed_fields = {name: value(event) if callable(value) else value for name, value in changes.items()}
        happened[place] = at, replace(event, **changed_fields)

    return change


def added(event: Callable[[bytes], Any]) -> Callable[[list[tuple[int, Any]]], None]:
    return lambda happened: happened.append((999, event(STRANGER)))


@pytest.mark.parametrize(
    "change",
    [
        swapped(Paid, amount=lambda paid: paid.amount + 1),
        swapped(Paid, payee=STRANGER),
        swapped(Locked, amount=lambda locked: locked.amount + 1),
        swapped(CheckEnded, end=CheckEnd.PASSED),
        swapped(UnitRefunded, refund=Refund.INCONCLUSIVE),
        dropped(UnitRefunded),
        dropped(ProviderSlashed),
        added(lambda stranger: ProviderSlashed(stranger, stranger, stranger, 1)),
        added(lambda stranger: RaceMissed(stranger, stranger, 1)),
        added(lambda stranger: VoterCharged(stranger, stranger, 1)),
    ],
)
def test_a_broken_requirement_is_a_failure(alone: JudgedUnit, change: Callable[[list[tuple[int, Any]]], None]) -> None:
    assert alone.failures() == []
    assert changed(alone, change).failures()


@pytest.mark.parametrize(
    "change",
    [
        swapped(UnitSettled, output_root=STRANGER),
        dropped(UnitSettled),
        dropped(ProviderSlashed),
        swapped(Paid, amount=lambda paid: paid.amount - 1),
    ],
)
def test_a_broken_requirement_of_rivals_is_a_failure(
    rivals: JudgedUnit, change: Callable[[list[tuple[int, Any]]], None]
) -> None:
    assert rivals.failures() == []
    assert changed(rivals, change).failures()


def test_an_honest_provider_that_is_convicted_is_a_failure(alone: JudgedUnit) -> None:
    facts = replace(alone.facts, modes={})
    assert replace(alone, facts=facts, expected=ExpectedMoney.of(facts)).failures()


def test_a_claim_without_a_decision_leaves_its_check_open(alone: JudgedUnit) -> None:
    def undecided(happened: list[tuple[int, Any]]) -> None:
        swapped(DisputeEnded, vote=None)(happened)
        swapped(UnitRefunded, refund=Refund.INCONCLUSIVE)(happened)
        for kind in (CheckEnded, ProviderSlashed, Paid):
            dropped(kind)(happened)

    failures = changed(alone, undecided).failures()
    assert not [failure for failure in failures if "the check of" in failure or "refunded" in failure]
    assert [failure for failure in changed(alone, dropped(CheckEnded)).failures() if "ended OPEN" in failure]


def test_a_forbidden_message_must_leave_no_trace(rivals: JudgedUnit) -> None:
    winner = rivals.facts.winner
    facts = replace(rivals.facts, modes={winner: "not-assigned"})
    tries = ({"mode": "not-assigned", "what": "InferenceMarket.commit_result", "answer": "refused"},)
    attested = {"mode": "not-assigned", "what": "attestation", "answer": "the pool has it"}
    judged = replace(rivals, facts=facts, attempts=tries)
    assert judged.caught() == {"not-assigned"}
    assert not [failure for failure in judged.failures() if "accepted" in failure]
    accepted = replace(judged, attempts=({**tries[0], "answer": "accepted"},))
    assert [failure for failure in accepted.failures() if "accepted" in failure]
    # Racers reveal once, and may: an attestation too many, or of another provider, is the cheat's.
    assert judged.is_refused(attested)
    more = [(at, each) for at, each in judged.facts.record.happened if isinstance(each, Attested)]
    assert not changed(judged, lambda happened: happened.extend(more)).is_refused(attested)


def test_a_copied_result_must_cost_a_fine(rivals: JudgedUnit) -> None:
    loser = next(owner for owner in rivals.facts.record.racers if owner != rivals.facts.winner)
    facts = replace(rivals.facts, modes={loser: "copied-result"})
    assert any("was not fined" in failure for failure in replace(rivals, facts=facts).failures())


def test_scenes_are_packed_into_rounds_and_all_modes_are_played() -> None:
    scenes = [scene for _, group in UNIT_SCENARIOS.values() for scene in group]
    assert len({scene.name for scene in scenes}) == len(scenes)
    played_modes = set().union(*(scene.cheats for scene in scenes))
    assert played_modes >= {*RESULT_CHEATS, *RACE_CHEATS, *CHECKER_CHEATS}
    rounds = rounds_of(scenes, SIZE)
    assert [scene for each in rounds for scene in each] == scenes
    assert all(len({scene.others for scene in each}) == 1 for each in rounds)
    assert max(len(each) for each in rounds) > 1


def test_each_wrong_model_has_rounds_of_its_own() -> None:
    rounds = rounds_of(models.scenes_of(24), SIZE)
    assert [len(each) for each in rounds] == [3] * len(MODEL_CHEATS)
    assert [scene.units for scene in rounds[0]] == [3, 3, 1]
    assert models.PROOF.parse(["--model", "tiny", "--units", "8"]).model == "tiny"
