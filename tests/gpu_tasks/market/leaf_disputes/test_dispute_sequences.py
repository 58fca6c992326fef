"""Disputes under random acts: each ends, the books balance, and right racers are paid."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tasks.market.claims.findings import CANNOT_FETCH, ItemSample, ItemVote, Verdict
from gpu_tasks.market.inference.events import ProviderSlashed, ResultClaimed
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.market.leaf_disputes.disputes import LeafDisputeStage
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from runtime.cryptography.hashing import blake2_256
from simulation.chains.batch_chain import DisputeChain
from simulation.chains.market_chain import tolerant

BLOCKS_MAX = 400
SIZES = (2, 16, 63, 64, 65, 129, 1_000)
PRICE_EACH = 2_500_000


def other_vote(unit: bytes) -> ItemVote:
    """Return a vote for an answer that no racer gave."""
    return ItemVote(Verdict.RIGHT, blake2_256(unit), (ItemSample(0, 1, bytes(16)),))


def lies(chance: random.Random, requests: int, racers: int) -> list[list[int]]:
    """Return the wrong leaves of each racer. At least one racer has none, and some may agree."""
    found = [sorted(chance.sample(range(requests), chance.choice((1, 1, min(2, requests))))) for _ in range(racers - 1)]
    if racers > 2 and chance.random() < 0.3:
        found[0] = found[1]
    return chance.sample([[], *found], racers)


@settings(max_examples=settings().max_examples // 5, deadline=None)
@given(seed=st.integers(0, 2**32), racers=st.integers(2, 4))
def test_who_is_right_is_paid_and_every_liar_loses(seed: int, racers: int) -> None:
    chance = random.Random(seed)
    requests = chance.choice(SIZES)
    stage = DisputeChain(requests=requests, price=requests * PRICE_EACH)
    wrong = lies(chance, stage.requests, racers)
    unit = stage.disputed(*wrong)
    owners = [racer.owner for racer in stage.unit(unit).racers]
    stage.play(unit)
    (claimed,) = stage.chain.happened(ResultClaimed)
    assert claimed.winner == owners[wrong.index([])]
    lost = {event.provider for event in stage.chain.happened(ProviderSlashed)}
    assert lost == {owner for owner, each in zip(owners, wrong, strict=True) if each}


@settings(max_examples=settings().max_examples // 8, deadline=None)
@given(seed=st.integers(0, 2**32), silence=st.sampled_from((0.1, 0.6)), errors=st.sampled_from((0.0, 0.5)))
def test_every_dispute_ends_and_every_grain_is_in_its_place(seed: int, silence: float, errors: float) -> None:
    """Trees are withheld, voters are silent or wrong. The books are checked after every block."""
    chance = random.Random(seed)
    requests = chance.choice((2, 100))
    stage = DisputeChain(size=chance.choice((8, 20)), requests=requests, price=requests * PRICE_EACH)
    stage.is_silent = chance.random() < silence / 2
    unit = stage.disputed(*lies(chance, stage.requests, 2))
    for _ in range(BLOCKS_MAX):
        if not stage.is_disputed(unit):
            break
        dispute = stage.dispute(unit)
        if dispute.stage is LeafDisputeStage.JUDGED and unit not in stage.said and chance.random() < errors:
            stage.said[unit] = CANNOT_FETCH if chance.random() < 0.3 else other_vote(unit)
        open_ = dispute.stage is not LeafDisputeStage.JUDGED and chance.random() > silence
        shown = [stage.shows(unit, place) for place in range(len(stage.unit(unit).racers)) if open_]
        stage.chain.block(*map(tolerant, shown), *map(tolerant, stage.voter_steps()))
    assert not stage.is_disputed(unit), "a dispute without end"
    room = stage.chain.now()[LeafDisputes]
    assert not list(room.agenda.places.items()) + list(room.final_agenda.places.items()), "what is over is on no agenda"
    assert stage.unit(unit).state in (UnitState.QUEUED, UnitState.CLAIMED, UnitState.REFUNDED)
