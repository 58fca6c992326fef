"""Providers that act by themselves on a `MarketChain`: honest, lazy, lying, or often declining."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial

from gpu_tasks.market import rounds
from gpu_tasks.market.claims.disputes import Dispute, DisputeQuestion
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import ItemVote, Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference import race_clocks
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, racer_of
from runtime.cryptography.hashing import blake2_256
from runtime.frame.runtime import Bound
from simulation.chains.dispute_chain import vote_steps
from simulation.chains.market_chain import (
    Keys,
    MarketChain,
    attach,
    attestation,
    commit,
    root_of,
    signed,
)
from unit_cases import claim_steps, vote_for

Step = Callable[[Bound], None]


class Habit(Enum):
    """The behaviour of a provider."""

    HONEST = "does its duties at once"
    SLOW = "does its duties sometimes, forgets some"
    LIAR = "commits to wrong results, and checks rightly"
    DECLINER = "gives half of its races back"


def right_root(unit_id: bytes) -> bytes:
    """Return the right root of a unit."""
    return root_of(blake2_256(b"right" + unit_id))


@dataclass
class Agent:
    """One provider, which reads the state of the last block and acts in the next."""

    keys: Keys
    habit: Habit
    chance: random.Random

    def steps(self, chain: MarketChain) -> Iterator[Step]:
        """Yield its calls for the next block."""
        bound = chain.now()
        yield from self._resume(bound)
        for unit_id, _ in bound[InferenceMarket].duties.under(self.keys.stash):
            unit = bound[InferenceMarket].units[unit_id]
            assert unit is not None
            if not self._forgets():
                yield from self._race(bound, unit_id, unit, chain.height + 1)
        for claim_id, _ in bound[ResultClaims].duties.under(self.keys.stash):
            if not self._forgets():
                verdict = self._verdict(bound, claim_id)
                yield from claim_steps(chain, self.keys, claim_id, verdict)
        for dispute_id, _ in bound[Disputes].ballots.under(self.keys.stash):
            if not self._forgets():
                yield from vote_steps(chain, self.keys, dispute_id, partial(self._vote, bound))

    def _forgets(self) -> bool:
        return self.habit is Habit.SLOW and self.chance.random() < 0.8

    def _resume(self, bound: Bound) -> Iterator[Step]:
        device = bound[Devices].devices[self.keys.device]
        can = device is not None and device.is_paused and device.bond >= bound[Devices].bond_min(device.kind)
        if can and self.chance.random() < 0.3:
            yield signed(self.keys.provider, Devices.resume(device=self.keys.device))

    def _race(self, bound: Bound, unit_id: bytes, unit: Unit, height: int) -> Iterator[Step]:
        racer = racer_of(unit, self.keys.stash)
        assert racer is not None
        assert unit.round is not None
        market = bound[InferenceMarket]
        root = right_root(unit_id) if self.habit is not Habit.LIAR else root_of(blake2_256(b"wrong" + unit_id))
        windows = market.windows_of(unit)
        now = race_clocks.as_found(unit.round, unit.racers, windows, height, height - 1)
        if race_clocks.can_commit(racer, now, windows, height):
            if not racer.started_at and self.chance.random() < 0.8:
                return  # sometimes it completes a later unit before an earlier one
            if self.habit is Habit.DECLINER and self.chance.random() < 0.5:
                yield signed(self.keys.provider, InferenceMarket.decline(unit=unit_id, attempt=unit.attempt))
            else:
                yield commit(self.keys, unit_id, unit, root)
        elif racer.commitment and racer.reveal is None and rounds.can_reveal(now, windows, height):
            yield attach(attestation(self.keys, unit_id, unit, root))

    def _verdict(self, bound: Bound, claim_id: bytes) -> Verdict:
        is_right = bound[ResultClaims].open_claim(claim_id).terms.root == right_root(claim_id)
        return Verdict.RIGHT if is_right else Verdict.WRONG

    def _vote(self, bound: Bound, dispute: Dispute) -> ItemVote | None:
        work, is_item = dispute.terms.work, dispute.terms.question is DisputeQuestion.ITEM
        verdict = self._verdict(bound, work) if is_item else Verdict.RIGHT
        weight = bound[ResultClaims].open_claim(work).terms.weight if is_item else 1
        return vote_for(verdict, right_root(work), weight=weight)(dispute)
