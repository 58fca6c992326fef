"""The calls and the hook of Capacity at their worst: the longest paths, 128 in office, two earlier objections.

Roll calls are enabled only during these cases, because the other cases draw devices without a proof of capacity.
"""

from benchmarks.weights.actors import RACED, Actor
from benchmarks.weights.races import DRAW_BLOCKS, MarketCases
from benchmarks.weights.world import Step
from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import (
    ROUNDS_MAX,
    ROW_DOMAIN,
    ROWS_MAX,
    ROWS_MIN,
    SIZE_MIN,
    ShownRow,
    WorkShape,
    drawn_rows,
)
from gpu_tasks.market.capacity.roll_call import RollCall
from runtime.cryptography.merkle import merkle_paths, merkle_root
from runtime.encoding.types import Root
from runtime.frame.call import Call
from runtime.frame.parameter import ParameterChange
from runtime.pallets.chain_parameters import ChainParameters
from simulation.chains.market_chain import signed
from simulation.pallets.devices import ROOT, shown_rows

HOOK = "Capacity.on_initialize"
PERIOD = times.CALL_BLOCKS + 20
SMALL = WorkShape(SIZE_MIN, ROWS_MIN, ROUNDS_MAX)
LARGE = WorkShape(SIZE_MIN, ROWS_MAX, ROUNDS_MAX)
UNITS, ROUNDS = 12, 5


class CapacityCalls(MarketCases):
    """Two roll calls of all validators: none answers the first, and all answer the second."""

    def __post_init__(self) -> None:
        self.first, *self.others = self.world.validators

    def measure(self) -> None:
        """Measure all calls and the hook. The first device has the largest tree."""
        world, found, first = self.world, self.found, self.first
        self._held(1)
        found.call(first.stash, _enrol(first, LARGE))
        world.block(signed(first.stash, _enrol(first, LARGE)), *(signed(one.stash, _enrol(one)) for one in self.others))
        called = self._called()
        self._until(times.over_at(called))
        called = self._called()
        self._commits(called)
        self._shows(called)
        self._objections(called)
        self._until(times.over_at(called) - 1)
        real, _ = found.hooks("devices that may work again", rounds=ROUNDS)["Capacity"]
        found.rows[f"{HOOK} return"] = max(100.0, (real - found.rows[HOOK]) / len(self.others))
        world.blocks(2)
        self._draws()
        found.call(first.stash, Capacity.withdraw(device=first.device()))
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

    def _commits(self, called: RollCall) -> None:
        """Measure a commitment. The previous roll call took the bond, so this call burns it and holds another one."""
        root = merkle_root(ROW_DOMAIN, self._digests())
        self._until(called.at + times.COMMITS_FROM - 1)
        self.found.call(self.first.provider, Capacity.commit(device=self.first.device(), root=root))
        self.world.block(
            signed(self.first.provider, Capacity.commit(device=self.first.device(), root=root)),
            *(signed(one.provider, Capacity.commit(device=one.device(), root=ROOT)) for one in self.others),
        )

    def _shows(self, called: RollCall) -> None:
        self._until(times.rows_at(called))
        newest, device = self._newest(), self.first.device()
        assert newest is not None, "it goes on"
        places, digests = drawn_rows(newest.rows_seed, device, ROWS_MAX), self._digests()
        paths = merkle_paths(ROW_DOMAIN, digests, places)
        rows = tuple(ShownRow(digests[place], path) for place, path in zip(places, paths, strict=True))
        show = Capacity.show_rows(device=device, rows=rows)
        self.found.call(self.first.provider, show)
        self.world.block(signed(self.first.provider, show), *(self._show(one, newest.rows_seed) for one in self.others))

    def _show(self, one: Actor, seed: bytes) -> Step:
        return signed(one.provider, Capacity.show_rows(device=one.device(), rows=shown_rows(seed, one.device())))

    def _objections(self, called: RollCall) -> None:
        self._until(times.inspectors_at(called))
        newest, device = self._newest(), self.first.device()
        assert newest is not None, "it goes on"
        drawn = self.world.now()[Capacity].inspectors(newest, device, self.first.stash)
        *before, last = (self.world.by_stash[stash].provider for stash in drawn)
        self.world.block(*(signed(one, Capacity.object(device=device)) for one in before))
        self.found.call(last, Capacity.object(device=device))

    def _draws(self) -> None:
        """Measure the draws of slots while roll calls are in force."""
        units = self.races.post(RACED, UNITS, 1)
        self.world.blocks(DRAW_BLOCKS)
        self.found.hooks("draws where roll calls are in force", rounds=ROUNDS)
        self.world.block()
        self.races.abandon(units)

    @staticmethod
    def _digests() -> list[bytes]:
        return [number.to_bytes(32, "little") for number in range(ROWS_MAX)]


def _enrol(one: Actor, shape: WorkShape = SMALL) -> Call:
    return Capacity.enrol(device=one.device(), shape=shape)
