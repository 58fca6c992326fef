"""The call and the hook of Capacity at their worst: 128 proofs of devices that proved too little before.

Roll calls are enabled only during these cases, because the other cases draw devices without a proof of capacity.
"""

from benchmarks.weights.actors import RACED, Actor
from benchmarks.weights.races import DRAW_BLOCKS, MarketCases
from benchmarks.weights.world import Step
from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import ROUNDS_MAX, ROWS_MAX, ROWS_MIN, SIZE_MIN, WorkShape
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.claims import claim_closing as closing
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.claims.result_claims import ResultClaims
from runtime.encoding.types import Root
from runtime.frame.call import Call
from runtime.frame.parameter import ParameterChange
from runtime.frame.runtime import Bound
from runtime.pallets.chain_parameters import ChainParameters
from simulation.chains.market_chain import signed
from simulation.pallets.devices import ROOT

HOOK = "Capacity.on_initialize"
PERIOD = times.CALL_BLOCKS + 20
WEAK, ENOUGH = WorkShape(SIZE_MIN, ROWS_MIN, 1), WorkShape(SIZE_MIN, ROWS_MAX, ROUNDS_MAX)
"""The works of the first and the second roll call. Only the second one proves enough."""
UNITS, ROUNDS = 12, 5


class CapacityCalls(MarketCases):
    """Two roll calls of all validators: none proves enough at the first, and all do at the second."""

    def measure(self) -> None:
        """Measure the call and the hook."""
        world, found, first = self.world, self.found, self.world.validators[0]
        self._held(1)
        called = self._called()
        self._until(called.at + times.PROOFS_FROM - 1)
        world.block(*(_proof(one, WEAK) for one in world.validators), _end_claims)
        self._until(times.over_at(called))
        called = self._called()
        self._until(called.at + times.PROOFS_FROM - 1)
        found.call(first.provider, _prove(first, ENOUGH))
        world.block(*(_proof(one, ENOUGH) for one in world.validators), _end_claims)
        self._until(times.over_at(called) - 1)
        real, _ = found.hooks("devices that may work again", rounds=ROUNDS)["Capacity"]
        found.rows[f"{HOOK} return"] = max(100.0, (real - found.rows[HOOK]) / len(world.validators))
        world.blocks(2)
        self._draws()
        self._held(0)

    def _held(self, value: int) -> None:
        numbers = (ParameterChange(Capacity.period, PERIOD), ParameterChange(Capacity.roll_calls_enabled, value))
        self.world.block(*(signed(Root(), ChainParameters.set_parameter(change=change)) for change in numbers))

    def _called(self) -> RollCall:
        """Make blocks until the next roll call begins. Return it."""
        before = self._newest()
        while self._newest() == before:
            self.world.block()
        found = self._newest()
        assert found is not None, "it has begun"
        return found

    def _newest(self) -> RollCall | None:
        return self.world.now()[Capacity].current.get()

    def _until(self, height: int) -> None:
        self.world.blocks(max(0, height - self.world.height))

    def _draws(self) -> None:
        """Measure the draws of slots while roll calls are in force."""
        units = self.races.post(RACED, UNITS, 1)
        self.world.blocks(DRAW_BLOCKS)
        self.found.hooks("draws where roll calls are in force", rounds=ROUNDS)
        self.world.block()
        self.races.abandon(units)


def _prove(one: Actor, shape: WorkShape) -> Call:
    return Capacity.prove(device=one.device(), shape=shape, root=ROOT)


def _proof(one: Actor, shape: WorkShape) -> Step:
    return signed(one.provider, _prove(one, shape))


def _end_claims(bound: Bound) -> None:
    """End the claims of all proofs as if they had passed, so that the later cases meet none of them."""
    claims = bound[ResultClaims]
    for claim_id in list(bound[Capacity].open_proofs.keys()):
        closing.conclude(claims, claim_id, claims.open_claim(claim_id), ClaimOutcome.PASSED)
